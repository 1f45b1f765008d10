//! The suite on the reference engine: in simulated time, where a seed orders the tasks, and in real
//! time, on threads.

use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

use tenure_conformance::sim::World;
use tenure_conformance::{Arena, cases};
use tenure_core::blocking::Blocking;
use tenure_core::layers::{AnyEngine, OnRuntime, Retry};
use tenure_core::{
    BackgroundRuntime, Counter, CounterValue, Election, Error, Guarantees, Key, Leader, Leaders,
    LeaseHandle, Line, Locks, Loss, Memory, MultiGuard, MultiLock, Mutex, MutexGuard, Place,
    RwLock, Semaphore, Sequence, Share, SystemClock, Ticket, TicketId, Wake, Watch, WatchEvent,
    Window, WriteGuard,
};

/// Every public type has the auto traits that its users need.
#[test]
fn public_types_can_be_sent_shared_and_moved() {
    fn ok<T: Send + Sync + Unpin>() {}
    fn sent<T: Send + Unpin>() {}
    fn future<F: Send>(_: impl FnOnce(Locks) -> F) {}

    ok::<(Locks, Mutex, RwLock, Semaphore, MultiLock, Election, Sequence, Counter)>();
    ok::<(MutexGuard, WriteGuard, MultiGuard, LeaseHandle, Leader, Loss, tenure_core::Warning)>();
    ok::<(
        Key,
        Ticket,
        TicketId,
        Share,
        Place,
        Guarantees,
        CounterValue,
        Window,
        Wake,
        WatchEvent,
        Error,
    )>();
    ok::<(Memory, AnyEngine, OnRuntime<Memory>, Retry<Memory>, Arena, World)>();
    ok::<(
        Blocking<Locks>,
        Blocking<MutexGuard>,
        Blocking<Mutex>,
        Line,
        BackgroundRuntime,
        SystemClock,
    )>();
    sent::<(Watch, Leaders)>();
    future(|locks| async move { locks.mutex("k").lock().await });
    future(|locks| async move { locks.multi_lock(["k"]).try_lock_for(Duration::ZERO).await });
    future(|locks| async move { locks.rwlock("k").write().await?.downgrade().await });
    future(|locks| async move { locks.election("k").run(|_, _| ready(())).await });
    future(|locks| async move { locks.mutex("k").lock().await?.release().await });
}

#[test]
fn every_case_has_a_name_of_its_own() {
    let names: BTreeSet<&str> = cases::all().iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases::all().len());
}

/// Calls in place, each case in a world of its own.
mod simulated {
    use super::*;

    async fn arena(world: World) -> Arena {
        let store = Memory::with_clock((*world.store()).clone());
        let open = move || ready(Ok::<_, Error>(store.clone()));
        Arena::on(world.process(), Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

/// Every call is a task of its own, which the seed orders.
mod scattered {
    use super::*;

    async fn arena(world: World) -> Arena {
        let store = Memory::with_clock((*world.store()).clone());
        let host = world.process();
        let home = host.clone();
        let open = move || OnRuntime::make(home.clone(), ready(Ok(store.clone())));
        Arena::on(host, Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

/// In real time, on threads.
mod real {
    use super::*;

    async fn arena() -> Arena {
        let store = Memory::new();
        Arena::new(move || ready(Ok::<_, Error>(store.clone())))
    }

    tenure_conformance::suite!(arena);
}
