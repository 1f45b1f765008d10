//! The suite: every case as a test of its own, for one engine.

mod arena;
mod case;
pub mod cases;
#[doc(hidden)]
pub mod helper;
mod insistent;
mod together;

use std::future::poll_fn;
use std::pin::pin;

use futures_util::future::{Either, select};
use tenure_core::blocking::block_on;

use crate::sim::World;

pub use arena::Arena;
pub use case::{Case, Story};

/// Seeds per case under simulated time.
const SEEDS: u64 = 3;
/// Maximum steps of a simulated case. A case that needs more does not end.
const STEPS_MAX: u64 = 5_000_000;

/// Defines a test for each case, on a fresh store of this arena.
///
/// In real time, where `arena` returns an arena: `Arena::new`, or `Arena::hosted` for an engine
/// with sockets.
///
/// ```
/// use tenure_conformance::Arena;
/// use tenure_core::Memory;
///
/// async fn arena() -> Arena {
///     let store = Memory::new();
///     Arena::new(move || std::future::ready(Ok(store.clone())))
/// }
///
/// tenure_conformance::suite!(arena);
/// # fn main() {}
/// ```
///
/// In simulated time, where each seed has a world of its own:
///
/// ```
/// use std::time::Duration;
/// use tenure_conformance::{Arena, sim::World};
/// use tenure_core::Memory;
///
/// async fn arena(world: World) -> Arena {
///     let store = Memory::with_clock((*world.store()).clone());
///     let open = move || std::future::ready(Ok(store.clone()));
///     Arena::on(world.process(), Duration::from_secs(9), open)
/// }
///
/// tenure_conformance::suite!(simulated: arena);
/// # fn main() {}
/// ```
///
/// For a store that several processes share, the arena has [its URL](Arena::shared), and `locks`
/// opens it: the suite starts helper processes, and kills them.
///
/// ```ignore
/// async fn arena() -> Arena { Arena::new(...).shared(url) }
/// async fn locks(url: String) -> tenure_core::Result<Locks> { Ok(Locks::new(open(&url)?)) }
///
/// tenure_conformance::suite!(arena, shared: locks);
/// ```
///
/// A further deployment of an engine that passes the whole suite elsewhere, such as the same store
/// with TLS or with three members, writes `other_deployment`. It runs the chapters whose outcome
/// may depend on the deployment, and leaves out those that repeat the same calls:
///
/// | left out | because |
/// |---|---|
/// | `last_permit`, `writer` | they are `mutex` with another share |
/// | `rule`, `order`, `breaking`, `shares`, `all`, `election` | they are made of the steps that `model` shows |
/// | `cancel`, `twice` | they are about the client, and about calls of one ticket |
/// | `once` | it is made of a lock and a value, which `mutex` and `values` show |
/// | `names`, `inspection` | names are hashed before a connection is chosen |
///
/// `TENURE_REQUIRE=all` makes a missing store a failure; `TENURE_SEED` runs one seed only.
#[macro_export]
macro_rules! suite {
    ($arena:expr, shared: $locks:expr) => {
        $crate::suite!($arena, shared: $locks, store_tests);
    };
    ($arena:expr, shared: $locks:expr, other_deployment) => {
        $crate::suite!($arena, shared: $locks, deployment_tests);
    };
    ($arena:expr, shared: $locks:expr, $tests:ident) => {
        fn tenure_case(name: &str) {
            $crate::play(name, async || ($arena)().await.helped_by(module_path!()));
        }
        $crate::each_case!($tests);

        /// Not a test: the entry point of the helper processes of the suite.
        #[test]
        fn helper_process() {
            $crate::helper::serve($locks);
        }
    };
    (simulated: $arena:expr) => {
        fn tenure_case(name: &str) {
            $crate::play_simulated(name, $arena);
        }
        $crate::each_case!(suite_tests);
    };
    ($arena:expr) => {
        fn tenure_case(name: &str) {
            $crate::play(name, $arena);
        }
        $crate::each_case!(suite_tests);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! suite_tests {
    ($($($chapter:ident)+: $names:tt)*) => { $($($crate::chapter_tests!($chapter $names);)+)* };
}

/// The tests of a store that several processes share. A writer has the tickets of a mutex.
#[doc(hidden)]
#[macro_export]
macro_rules! store_tests {
    ($($($chapter:ident)+: $names:tt)*) => {
        $($($crate::store_chapter_tests!($chapter $names);)+)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! store_chapter_tests {
    (writer $names:tt) => {};
    ($chapter:ident $names:tt) => { $crate::chapter_tests!($chapter $names); };
}

/// The tests of the chapters whose outcome may depend on the deployment.
#[doc(hidden)]
#[macro_export]
macro_rules! deployment_tests {
    ($($($chapter:ident)+: $names:tt)*) => {
        $($($crate::deployment_chapter_tests!($chapter $names);)+)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! deployment_chapter_tests {
    (last_permit $names:tt) => {};
    (writer $names:tt) => {};
    (rule $names:tt) => {};
    (order $names:tt) => {};
    (breaking $names:tt) => {};
    (cancel $names:tt) => {};
    (twice $names:tt) => {};
    (shares $names:tt) => {};
    (all $names:tt) => {};
    (election $names:tt) => {};
    (once $names:tt) => {};
    (names $names:tt) => {};
    (inspection $names:tt) => {};
    ($chapter:ident $names:tt) => { $crate::chapter_tests!($chapter $names); };
}

#[doc(hidden)]
#[macro_export]
macro_rules! chapter_tests {
    ($chapter:ident [$($name:ident),* $(,)?]) => {
        mod $chapter {
            $(#[test]
            fn $name() {
                super::tenure_case(concat!(stringify!($chapter), "::", stringify!($name)));
            })*
        }
    };
}

/// Runs one case in real time.
pub fn play<F: Future<Output = Arena>>(name: &str, arena: impl FnOnce() -> F) {
    let case = cases::named(name);
    block_on(async {
        let arena = arena().await;
        match arena.why_missing() {
            None => play_in(&arena, case).await,
            Some((missing, required)) => {
                assert!(!required, "TENURE_REQUIRE=all, but {missing}");
                println!("SKIPPED {missing}");
            }
        }
    });
}

/// Runs one case in `SEEDS` simulated worlds.
pub fn play_simulated<F: Future<Output = Arena>>(name: &str, arena: impl Fn(World) -> F) {
    let case = cases::named(name);
    let seeds = match std::env::var("TENURE_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("TENURE_SEED is a number");
            seed..=seed
        }
        Err(_) => 1..=SEEDS,
    };
    for seed in seeds {
        let _guard = Seed(seed);
        play_seed(case, seed, &arena);
    }
}

/// Runs one case in the world of one seed.
pub fn play_seed<F: Future<Output = Arena>>(case: Case, seed: u64, arena: impl FnOnce(World) -> F) {
    World::run(seed, |world| async move {
        let arena = arena(world).await;
        in_few_steps(play_in(&arena, case)).await;
    });
}

/// Runs one case in this arena. Panics if the case fails or does not end.
pub async fn play_in(arena: &Arena, case: Case) {
    match select((case.story)(arena), arena.limit()).await {
        Either::Left(_) => {}
        Either::Right(_) => panic!("{case:?} exceeded its time limit"),
    }
}

/// Limits the steps: a world whose time stands still never reaches a time limit.
async fn in_few_steps(story: impl Future<Output = ()>) {
    let mut story = pin!(story);
    let mut steps = 0;
    poll_fn(|context| {
        steps += 1;
        assert!(steps < STEPS_MAX, "the case exceeded STEPS_MAX steps");
        story.as_mut().poll(context)
    })
    .await;
}

/// Prints the seed if the case fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again with TENURE_SEED={}", self.0);
        }
    }
}
