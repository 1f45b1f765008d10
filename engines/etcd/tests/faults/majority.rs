//! The majority is gone: each caller gets an error that says so and how to restore it.

use tenure_core::{Error, ErrorKind, Result};
use tenure_servers::Store as _;

use super::stage::{connect, play, soon};

/// Asks until a member has noticed that the others are gone.
async fn told_of_the_majority<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T>) -> Error {
    soon(what, async {
        loop {
            let error = ask().await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let said = error.to_string();
            if said.contains("has no leader: more than half of the cluster's members must run") {
                return error;
            }
        }
    })
    .await
}

#[test]
fn whoever_asks_a_member_without_a_majority_is_told_so() {
    play(3, async |cluster| {
        let locks = connect(&cluster).await;
        let guard = locks.mutex("held").lock().await.unwrap();
        let [one, two, left] = cluster.members() else { unreachable!("there are three") };
        for gone in [one, two] {
            gone.kill().unwrap();
        }
        let url = cluster.url();
        let said = told_of_the_majority("a client that was connected before", async || {
            locks.mutex("k").try_lock().await
        });
        said.await;
        told_of_the_majority("a number", async || locks.sequence("s").next().await).await;
        told_of_the_majority("a renewal", async || guard.extend().await).await;
        let said = told_of_the_majority("who connects", async || tenure_etcd::connect(&url).await);
        let said = said.await.to_string();
        for gone in [one, two] {
            assert!(said.contains(&format!("127.0.0.1:{}", gone.port())), "{said}");
        }
        assert!(said.contains("cannot be reached"), "{said}");
        let alone = format!("etcd://127.0.0.1:{}", left.port());
        let said = told_of_the_majority("by the member that is left", async || {
            tenure_etcd::connect(&alone).await
        });
        assert!(said.await.to_string().ends_with("and reach each other"));
    });
}

#[test]
fn who_connects_without_a_majority_waits_a_while_for_it() {
    play(3, async |cluster| {
        let [one, two, _] = cluster.members() else { unreachable!("there are three") };
        let url = cluster.url();
        for gone in [one, two] {
            gone.kill().unwrap();
        }
        let early = async || tenure_etcd::connect(&url).await;
        told_of_the_majority("no leader is there", early).await;
        let connecting = tokio::spawn(tenure_etcd::connect(format!("{url}?timeout=20s")));
        one.restart().unwrap();
        let locks = soon("it connects", connecting).await.unwrap().unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}
