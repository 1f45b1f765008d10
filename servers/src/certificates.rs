//! Certificates for a test: an authority that nobody else knows, a server's, and a client's.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

use crate::Result;
use crate::folder::Folder;

/// PEM files in a folder of their own, which goes when this is dropped.
#[derive(Debug)]
pub struct Certificates {
    folder: Folder,
}

impl Certificates {
    /// Makes them anew. Two of these do not trust each other.
    pub fn new() -> Result<Self> {
        let made = Self { folder: Folder::new("certificates")? };
        made.renew()?;
        Ok(made)
    }

    /// Puts others into the same files, signed by another authority.
    pub fn renew(&self) -> Result<()> {
        let authority = authority().map_err(failed)?;
        self.folder.write("ca.pem", &authority.pem())?;
        let server = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into().map_err(failed)?),
        ];
        // Members of a cluster are each other's clients.
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue("server", &authority, server, &both)?;
        self.issue("client", &authority, Vec::new(), &both[1..])
    }

    /// The certificate of the authority that signed the others.
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
        let mut wish = CertificateParams::default();
        wish.distinguished_name.push(DnType::CommonName, format!("tenure {name}"));
        wish.subject_alt_names = names;
        wish.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        wish.extended_key_usages = purposes.to_vec();
        wish.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = wish.signed_by(&key, authority).map_err(failed)?;
        self.folder.write(&format!("{name}.pem"), &certificate.pem())?;
        self.folder.write(&format!("{name}.key"), &key.serialize_pem())?;
        Ok(())
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut wish = CertificateParams::default();
    wish.distinguished_name.push(DnType::CommonName, "tenure authority");
    wish.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    wish.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(wish, KeyPair::generate()?)
}

fn failed(error: impl Display) -> String {
    format!("A certificate could not be made: {error}.")
}
