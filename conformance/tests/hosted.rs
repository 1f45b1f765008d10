//! The suite on an engine that lives on a private thread, as every engine with a network.

use std::future::ready;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::blocking::block_on;
use tenure_core::{Error, Memory};
use tokio::runtime::Builder;

async fn arena() -> Arena {
    let store = Memory::new();
    let open = move || ready(Ok::<_, Error>(store.clone()));
    Arena::hosted(open).with_ttl(Duration::from_millis(250))
}

tenure_conformance::suite!(arena);

#[test]
fn a_guard_outlives_the_runtime_it_was_taken_in() {
    let runtime = Builder::new_current_thread().build().expect("a runtime can start");
    let (arena, locks, guard, waiting) = runtime.block_on(async {
        let arena = arena().await;
        let locks = arena.locks().await;
        let guard = locks.mutex("k").lock().await.expect("the lock is free");
        let other = locks.clone();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        tokio::task::yield_now().await;
        (arena, locks, guard, waiting)
    });
    drop(runtime);
    guard.check().expect("its renewals do not depend on that runtime");
    drop(guard);
    block_on(async {
        let free = async {
            while !locks.line("k").await.expect("the line can be seen").is_empty() {
                arena.pass(arena.beat()).await;
            }
        };
        arena.soon("what was dropped with the runtime is given back", free).await;
    });
    assert!(waiting.is_finished());
}
