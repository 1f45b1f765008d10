//! One store of a quorum, with its releaser.

use std::sync::Arc;

use crate::Runtime;
use crate::background::releaser::Releaser;
use crate::layers::AnyEngine;

/// One store.
pub(super) struct Node {
    pub(super) engine: AnyEngine,
    /// Removes tickets that could not be removed at once.
    pub(super) sweeper: Arc<Releaser>,
}

impl Node {
    pub(super) fn new(engine: AnyEngine, host: &Arc<dyn Runtime>) -> Self {
        Self { sweeper: Releaser::new(engine.clone(), host.clone()), engine }
    }
}
