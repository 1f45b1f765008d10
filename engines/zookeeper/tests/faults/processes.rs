//! Processes: one that is killed and started again within its ttl, and a runtime that ends while
//! its locks are held.

use std::thread;

use tenure_conformance::helper::{self, Helper};
use tenure_core::Locks;
use tenure_servers::Store as _;
use tokio::runtime::Builder;

use super::stage::{TTL, connect, play, soon};

const HERE: &str = "processes::helper_process";

#[test]
fn a_process_that_is_started_again_waits_for_the_end_of_what_it_held() {
    play(1, async |ensemble| {
        let (locks, lock) = (connect(&ensemble).await, format!("lock k {}", TTL.as_millis()));
        let mut first = Helper::start(&ensemble.url(), HERE);
        first.tell(&lock);
        let old = first.hear_token();
        first.kill();
        assert_eq!(locks.line("k").await.unwrap().len(), 1, "the session outlives its process");
        let mut second = Helper::start(&ensemble.url(), HERE);
        second.tell(&lock);
        assert!(second.hear_token() > old);
        second.tell("release");
        assert_eq!(second.hear(), "released");
    });
}

/// Not a test: where the helper process begins.
#[test]
fn helper_process() {
    helper::serve(tenure_zookeeper::connect);
}

#[test]
fn locks_are_kept_alive_when_the_runtime_ends_on_which_they_were_taken() {
    play(1, async |ensemble| {
        let url = ensemble.url();
        let taken = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let locks: Locks = tenure_zookeeper::connect(url).await.unwrap();
                let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
                (locks, guard)
            })
        });
        let (locks, guard) = taken.join().unwrap();
        tokio::time::sleep(TTL * 2).await;
        guard.check().expect("it is kept alive");
        soon("it is given back", guard.release()).await.unwrap();
        locks.close().await;
    });
}
