//! The name of the servers in messages, and the secrets that no message may contain.

use mongodb::options::{ClientOptions, ServerAddress};
use tenure_kit::secret::Secret;

/// The name of the servers in messages, and the secrets that no message may contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerLabel {
    pub(crate) label: String,
    pub(crate) secrets: Vec<Secret>,
}

impl ServerLabel {
    pub(crate) fn of(options: &ClientOptions) -> Self {
        let hosts: Vec<String> = options.hosts.iter().map(ServerAddress::to_string).collect();
        let password = options.credential.as_ref().and_then(|login| login.password.as_deref());
        let secrets = password.map(Secret::new).into_iter().collect();
        Self { label: hosts.join(", "), secrets }
    }

    /// Names the servers of a client whose options are not known.
    pub(crate) fn unknown() -> Self {
        Self { label: "the client that was given".to_owned(), secrets: Vec::new() }
    }
}
