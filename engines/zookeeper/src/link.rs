//! The session that is not for tickets: what is read, and what is written beside the lines, goes over it. It is opened anew
//! when it is over.

use std::sync::Arc;

use tenure_core::Result;
use tenure_kit::{ConnectContext, Server};

use crate::settings::Settings;
use crate::wire::Wire;

/// It lives for so many times as long as an answer is waited for.
const LIVES: u32 = 5;

/// The servers of an ensemble, for the kit's link.
pub(crate) struct Servers {
    settings: Arc<Settings>,
}

impl Servers {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }
}

impl Server for Servers {
    type Open = Arc<Wire>;

    async fn open(&self, _opening: &ConnectContext) -> Result<Arc<Wire>> {
        Wire::open(&self.settings, self.settings.timeout * LIVES).await
    }
}
