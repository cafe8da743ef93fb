//! Certificates, made for one test.

use std::{fs, path::Path};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Who vouches for servers.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// What whoever trusts it needs.
    pub fn write_to(&self, path: &Path) {
        fs::write(path, self.0.pem()).unwrap();
    }

    /// `ca.pem`, `server.pem` and `server.key` for a server that goes by this name or address and no other.
    pub fn vouch(&self, name: &str, folder: &Path) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        self.write_to(&folder.join("ca.pem"));
        fs::write(folder.join("server.pem"), certificate.pem()).unwrap();
        fs::write(folder.join("server.key"), key.serialize_pem()).unwrap();
    }
}
