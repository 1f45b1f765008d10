//! One case of a holder: a sentence, and the story that shows it.

use std::fmt;
use std::sync::Arc;

use super::Holder;
use super::scene::{Scene, Verdict};
use crate::sim::World;

/// One case. Its name is the sentence, with underscores.
#[derive(Clone, Copy)]
pub struct HolderCase {
    /// The sentence.
    pub name: &'static str,
    pub(super) story: fn(Scene) -> Local<Verdict>,
}

type Local<T> = std::pin::Pin<Box<dyn Future<Output = T>>>;

/// How often each case is played, in another world each time.
const WORLDS: u64 = 3;

impl HolderCase {
    /// Plays the case with this holder, and says why the sentence is not true of it, if it is not.
    pub fn play(&self, holder: &Arc<dyn Holder>) -> Result<(), String> {
        for seed in 0..WORLDS {
            let holder = holder.clone();
            let story = self.story;
            World::run(seed, |world| story(Scene::new(world, holder)))
                .map_err(|why| format!("{}: {why} (world {seed})", self.name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for HolderCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Turns async functions of one scene into the list of the module's cases.
macro_rules! holder_cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[$crate::sim::holder::HolderCase] = &[
            $($crate::sim::holder::HolderCase {
                name: stringify!($name),
                story: |scene| Box::pin($name(scene)),
            }),*
        ];
    };
}
pub(super) use holder_cases;
