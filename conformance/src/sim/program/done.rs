//! The end of a program.

use std::sync::Arc;

use tenure_core::sync::Mutex;

/// Whether a program has ended, and the event that it waits for if it has not.
#[derive(Clone, Default)]
pub(in crate::sim) struct Done(Arc<Mutex<(bool, String)>>);

impl Done {
    pub(in crate::sim) fn is_set(&self) -> bool {
        self.0.lock().0
    }

    pub(in crate::sim) fn waits_for(&self) -> String {
        self.0.lock().1.clone()
    }

    pub(super) fn wait_for(&self, what: String) {
        self.0.lock().1 = what;
    }

    pub(super) fn set(&self) {
        self.0.lock().0 = true;
    }
}
