//! A node: one store of a quorum, and who cleans up in it.

use std::sync::Arc;

use crate::Runtime;
use crate::background::releaser::Releaser;
use crate::layers::AnyEngine;

/// One store.
pub(super) struct Node {
    pub(super) engine: AnyEngine,
    /// Takes out what has to leave the store and did not leave it at once.
    pub(super) sweeper: Arc<Releaser>,
}

impl Node {
    pub(super) fn new(engine: AnyEngine, host: &Arc<dyn Runtime>) -> Self {
        Self { sweeper: Releaser::new(engine.clone(), host.clone()), engine }
    }
}
