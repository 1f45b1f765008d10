//! The session that is not for tickets. It carries reads, and writes beside the lines. It is opened
//! again when it is over.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::{ConnectContext, Disconnected, Server};

use crate::keys::Keys;
use crate::settings::Settings;
use crate::trouble;
use crate::wire::Wire;

/// Its ttl as a multiple of `timeout`.
const LIVES: u32 = 5;

/// The servers of an ensemble, for the kit's link.
pub(crate) struct Servers {
    settings: Arc<Settings>,
    keys: Keys,
}

impl Servers {
    pub(crate) fn new(settings: Arc<Settings>, keys: Keys) -> Self {
        Self { settings, keys }
    }
}

impl Server for Servers {
    type Open = Arc<Wire>;

    async fn open(&self, _opening: &ConnectContext) -> Result<Arc<Wire>> {
        Wire::open(&self.settings, self.settings.timeout * LIVES).await
    }

    async fn ping(&self, open: &Arc<Wire>) -> Result<(), Disconnected> {
        open.ping(self.keys.root()).await.map_err(|_| Disconnected)
    }

    fn patience(&self) -> Duration {
        self.settings.timeout
    }

    fn silence(&self) -> Error {
        trouble::silence(&self.settings)
    }
}
