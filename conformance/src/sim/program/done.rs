//! The end of a program.

use std::sync::{Arc, Mutex, PoisonError};

/// Whether a program has ended, and the event that it waits for if it has not.
#[derive(Clone, Default)]
pub(in crate::sim) struct Done(Arc<Mutex<(bool, String)>>);

impl Done {
    pub(in crate::sim) fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    pub(in crate::sim) fn waits_for(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    pub(super) fn wait_for(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = what;
    }

    pub(super) fn set(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
    }
}
