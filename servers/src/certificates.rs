//! Certificates for a test: those of an authority, a server and a client.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

use crate::Result;
use crate::folder::Folder;

/// PEM files in a folder of their own. Dropping this removes the folder.
#[derive(Debug)]
pub struct Certificates {
    folder: Folder,
}

impl Certificates {
    /// Creates new certificates. Two sets of certificates do not trust each other.
    pub fn new() -> Result<Self> {
        let made = Self { folder: Folder::new("certificates")? };
        made.renew()?;
        Ok(made)
    }

    /// Replaces the content of all files by certificates of a new authority.
    pub fn renew(&self) -> Result<()> {
        let authority = authority().map_err(failed)?;
        self.folder.write("ca.pem", &authority.pem())?;
        let server = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into().map_err(failed)?),
        ];
        // Members of a cluster are clients of each other.
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue("server", &authority, server, &both)?;
        self.issue("client", &authority, Vec::new(), &both[1..])
    }

    /// The certificate of the authority, which signed the other two.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The certificate of a server at `localhost` and `127.0.0.1`.
    pub fn server(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// The key of the server's certificate.
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// The certificate of a client.
    pub fn client(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// The key of the client's certificate.
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }

    fn issue(
        &self,
        name: &str,
        authority: &CertifiedIssuer<'_, KeyPair>,
        names: Vec<SanType>,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> Result<()> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("tenure {name}"));
        params.subject_alt_names = names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes.to_vec();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, authority).map_err(failed)?;
        self.folder.write(&format!("{name}.pem"), &certificate.pem())?;
        self.folder.write(&format!("{name}.key"), &key.serialize_pem())?;
        Ok(())
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "tenure authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn failed(error: impl Display) -> String {
    format!("A certificate could not be made: {error}.")
}
