//! TLS to databases, where this build has it. Whether it is used is the URL's to say (`sslmode`).

use crate::error::StartError;

#[cfg(not(feature = "tls"))]
pub type Connector = tokio_postgres::NoTls;

#[cfg(not(feature = "tls"))]
pub fn connector() -> Result<Connector, StartError> {
    Ok(tokio_postgres::NoTls)
}

#[cfg(feature = "tls")]
pub type Connector = tokio_postgres_rustls::MakeRustlsConnect;

/// Certificates are always judged, by the roots of the operating system (or of the file that `SSL_CERT_FILE` names).
#[cfg(feature = "tls")]
pub fn connector() -> Result<Connector, StartError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}
