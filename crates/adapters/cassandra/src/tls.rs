//! Whom to trust over TLS: those that are named, and nobody else.

use scylla::client::session::TlsContext;

use crate::ConnectError;

#[cfg(feature = "tls")]
pub(crate) fn context(trusted: &[u8]) -> Result<TlsContext, ConnectError> {
    use openssl::{
        error::ErrorStack,
        ssl::{SslConnector, SslMethod},
        x509::{X509, store::X509StoreBuilder},
    };
    let builder = || -> Result<_, ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in X509::stack_from_pem(trusted)? {
            store.add_cert(certificate)?;
        }
        let mut builder = SslConnector::builder(SslMethod::tls_client())?;
        builder.set_cert_store(store.build());
        Ok(builder)
    };
    Ok(scylla::client::session::OpenSsl010Config::new(builder().map_err(|error| ConnectError::Tls(error.to_string()))?).into())
}

#[cfg(not(feature = "tls"))]
pub(crate) fn context(_: &[u8]) -> Result<TlsContext, ConnectError> {
    Err(ConnectError::Tls("this program was built without the feature `tls`".to_owned()))
}
