//! A case: a statement that must hold for every engine, and the function that checks it.

use std::fmt;
use std::pin::Pin;

use crate::Arena;

/// The function that checks the statement, and panics if it does not hold.
pub type Story = for<'a> fn(&'a Arena) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A case. Its name is a chapter and the statement, with underscores.
#[derive(Clone, Copy)]
pub struct Case {
    /// The chapter and the statement.
    pub name: &'static str,
    /// The function that checks it.
    pub story: Story,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
