//! A case of a holder: a statement, and the function that checks it.

use std::fmt;
use std::sync::Arc;

use super::Holder;
use super::scene::{Scene, Verdict};
use crate::sim::World;

/// A case. Its name is the statement, with underscores.
#[derive(Clone, Copy)]
pub struct HolderCase {
    /// The statement.
    pub name: &'static str,
    pub(super) story: fn(Scene) -> Local<Verdict>,
}

type Local<T> = std::pin::Pin<Box<dyn Future<Output = T>>>;

/// Seeds per case.
const SEEDS: u64 = 3;

impl HolderCase {
    /// Runs the case with this holder. The error is the reason why the statement does not hold.
    ///
    /// # Errors
    ///
    /// The reason why the statement does not hold.
    pub fn play(&self, holder: &Arc<dyn Holder>) -> Result<(), String> {
        for seed in 0..SEEDS {
            let holder = holder.clone();
            let story = self.story;
            World::run(seed, |world| story(Scene::new(world, holder)))
                .map_err(|why| format!("{}: {why} (seed {seed})", self.name))?;
        }
        Ok(())
    }
}

impl fmt::Debug for HolderCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Defines the list of the module's cases from async functions of one scene.
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
