//! TLS to databases, where this build has it. Whether it is used, the options or the URL (`sslmode`) say.

use crate::error::StartError;

#[cfg(not(feature = "tls"))]
pub type Connector = tokio_postgres::NoTls;

#[cfg(not(feature = "tls"))]
pub fn connector(_: Option<&[u8]>) -> Result<Connector, StartError> {
    Ok(tokio_postgres::NoTls)
}

#[cfg(feature = "tls")]
pub type Connector = tokio_postgres_rustls::MakeRustlsConnect;

/// Certificates are always judged: by those that are given, and nobody else; or by the roots of the operating system (or of the file that
/// `SSL_CERT_FILE` names).
#[cfg(feature = "tls")]
pub fn connector(trusted: Option<&[u8]>) -> Result<Connector, StartError> {
    let roots = match trusted {
        Some(trusted) => named(trusted)?,
        None => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}

/// One that can't be read is no smaller trust, but a mistake.
#[cfg(feature = "tls")]
fn named(trusted: &[u8]) -> Result<rustls::RootCertStore, StartError> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted) {
        let certificate = certificate.map_err(|error| StartError::Tls(error.to_string()))?;
        roots.add(certificate).map_err(|error| StartError::Tls(error.to_string()))?;
    }
    if roots.is_empty() { Err(StartError::Tls("there is none".to_owned())) } else { Ok(roots) }
}

/// Whether a handshake failed because of what the server showed.
#[cfg(feature = "tls")]
pub fn is_not_trusted(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    matches!(inner.and_then(|inner| inner.downcast_ref()), Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(not(feature = "tls"))]
pub fn is_not_trusted(_: &(dyn std::error::Error + 'static)) -> bool {
    false
}
