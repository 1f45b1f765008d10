//! The session that is not for tickets. It carries reads, and writes beside the lines. It is opened
//! again when it is over.

use std::sync::Arc;

use tenure_core::Result;
use tenure_kit::{ConnectContext, Server};

use crate::session::ServerSession;
use crate::settings::Settings;

/// Its ttl as a multiple of `timeout`.
const LIVES: u32 = 5;

/// The servers of an ensemble, for the kit's link.
pub(crate) struct EnsembleServers {
    settings: Arc<Settings>,
}

impl EnsembleServers {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }
}

impl Server for EnsembleServers {
    type Open = Arc<ServerSession>;

    async fn open(&self, _opening: &ConnectContext) -> Result<Arc<ServerSession>> {
        ServerSession::open(&self.settings, self.settings.timeout * LIVES).await
    }
}
