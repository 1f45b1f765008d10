//! A case: one sentence that must be true of every engine, and the story that shows it.

use std::fmt;
use std::pin::Pin;

use crate::Arena;

/// A story in which the sentence is shown; it panics where the sentence is not true.
pub type Story = for<'a> fn(&'a Arena) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One case. Its name is a chapter and the sentence, with underscores.
#[derive(Clone, Copy)]
pub struct Case {
    /// The chapter and the sentence.
    pub name: &'static str,
    /// The story.
    pub story: Story,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
