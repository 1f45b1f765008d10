//! The settings of TLS as a client of rustls.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tenure_core::Result;

use super::{Identity, Tls};

/// Message for a file that is not in PEM. A parser's own message may quote a key.
const UNREADABLE: &str = "a part of them is not in PEM, or of a kind that is not known";

impl Tls {
    /// Returns a client with these settings, which offers these protocols by ALPN. It reads the
    /// files.
    ///
    /// # Errors
    ///
    /// `Invalid` if a file cannot be read, or if rustls refuses its content.
    pub fn client_config(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>> {
        // The provider is named, because another crate may have chosen another one for the process.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        match self.read_ca()? {
            Some(pem) => {
                for authority in self.certificates(&pem)? {
                    roots.add(authority).map_err(|error| self.unusable(error))?;
                }
            }
            // A certificate of the system that cannot be read is not trusted. If none can be read,
            // no server is.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unusable(error))?
            .with_root_certificates(roots);
        let mut config = match self.read_identity()? {
            Some(Identity { cert, key }) => {
                let key =
                    PrivateKeyDer::from_pem_slice(&key).map_err(|_| self.unusable(UNREADABLE))?;
                let own = config.with_client_auth_cert(self.certificates(&cert)?, key);
                own.map_err(|error| self.unusable(error))?
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn certificates(&self, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
        let all: Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
        all.map_err(|_| self.unusable(UNREADABLE))
    }
}
