//! Processes: one that is killed and started again within its ttl, and a runtime that ends while
//! its locks are held.

use tenure_conformance::helper::{self, Helper};
use tenure_core::Locks;
use tenure_servers::Store as _;

use super::stage::{TTL, play, soon};

const HERE: &str = "processes::helper_process";

#[test]
fn a_process_that_is_started_again_waits_for_the_end_of_what_it_held() {
    play(1, async |cluster| {
        let locks = super::stage::connect(&cluster).await;
        let mut process = Helper::start(&cluster.url(), HERE);
        process.tell(&format!("lock k {}", (TTL * 2).as_millis()));
        let old = process.hear_token();
        process.kill();
        let mut again = Helper::start(&cluster.url(), HERE);
        assert_eq!(locks.line("k").await.unwrap().len(), 1, "the lease outlives its process");
        again.tell(&format!("lock k {}", (TTL * 2).as_millis()));
        assert!(again.hear_token() > old);
        again.tell("release");
        assert_eq!(again.hear(), "released");
    });
}

/// Not a test: where the helper process begins.
#[test]
fn helper_process() {
    helper::serve(tenure_etcd::connect);
}

#[test]
fn locks_are_kept_alive_when_the_runtime_ends_on_which_they_were_taken() {
    play(1, async |cluster| {
        let url = cluster.url();
        let (locks, guard) = std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().build().unwrap().block_on(async {
                let locks: Locks = tenure_etcd::connect(url).await.unwrap();
                let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
                (locks, guard)
            })
        })
        .join()
        .unwrap();
        tokio::time::sleep(TTL * 2).await;
        guard.check().expect("it is kept alive");
        soon("it is given back", guard.release()).await.unwrap();
        locks.close().await;
    });
}
