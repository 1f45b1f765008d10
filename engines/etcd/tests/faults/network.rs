//! Connections are cut, and answers are lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::{Direction, Proxy};
use tenure_core::{Kind, Locks, Loss};
use tenure_servers::etcd::Cluster;

use super::stage::{PATIENCE, TTL, at_last, connect, play, soon, until_line};

/// A proxy before the first member.
pub(super) fn proxy_to(cluster: &Cluster) -> Proxy {
    let member = cluster.members()[0].port();
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, member))).unwrap()
}

async fn through(cluster: &Cluster) -> (Proxy, Locks) {
    let proxy = proxy_to(cluster);
    let url = format!("etcd://127.0.0.1:{}?timeout=500ms", proxy.port());
    let locks = at_last("it connects", async || tenure_etcd::connect(&url).await).await;
    (proxy, locks)
}

#[test]
fn a_lock_outlives_a_connection_that_is_cut() {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        let guard = locks.mutex("k").ttl(TTL * 5).lock().await.unwrap();
        for _ in 0..5 {
            proxy.cut();
            let tried = at_last("it is answered", async || locks.mutex("k").try_lock().await).await;
            assert!(tried.is_none());
        }
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        guard.check().unwrap();
        guard.release().await.unwrap();
        let next = soon("the next is served", waiting).await.unwrap().unwrap();
        next.release().await.unwrap();
    });
}

#[test]
fn a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind() {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        // The session is open, so that the join is all that is lost.
        locks.mutex("warm").lock().await.unwrap().release().await.unwrap();
        for round in 0..4 {
            let key = format!("k{round}");
            proxy.black_hole_for(Direction::Replies);
            let joining = tokio::spawn({
                let mutex = locks.mutex(&key);
                async move { mutex.lock().await }
            });
            until_line(&other, &key, 1).await;
            proxy.cut();
            proxy.heal();
            if round % 2 == 0 {
                let guard = soon("it is answered in the end", joining).await.unwrap();
                match guard {
                    Ok(guard) => {
                        assert_eq!(other.line(&key).await.unwrap().len(), 1, "it holds once");
                        guard.release().await.unwrap();
                    }
                    Err(error) => assert!(error.is_unknown(), "{error}"),
                }
            } else {
                joining.abort();
            }
            until_line(&other, &key, 0).await;
        }
    });
}

#[test]
fn a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind() {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        locks.mutex("warm").lock().await.unwrap().release().await.unwrap();
        proxy.black_hole_for(Direction::Requests);
        let (kept, dropped) = (locks.mutex("a"), locks.mutex("b"));
        let kept = tokio::spawn(async move {
            loop {
                match kept.lock().await {
                    Ok(guard) => return guard,
                    Err(error) => assert!(error.is_unknown(), "{error}"),
                }
            }
        });
        let dropped = tokio::spawn(async move { dropped.lock().await.map(drop) });
        tokio::time::sleep(Duration::from_millis(200)).await;
        dropped.abort();
        proxy.cut();
        proxy.heal();
        let guard = soon("it is locked in the end", kept).await.unwrap();
        assert_eq!(other.line("a").await.unwrap().len(), 1);
        locks.settled().await;
        until_line(&other, "b", 0).await;
        guard.release().await.unwrap();
    });
}

#[test]
fn who_is_cut_off_is_told_before_the_lock_is_given_away_and_no_late_answer_revives_it() {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = connect(&cluster).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let waiting = tokio::spawn(async move {
            let next = other.mutex("k").lock().await.unwrap();
            (next, std::time::Instant::now())
        });
        until_line(&locks, "k", 2).await;
        proxy.black_hole();
        let loss = soon("the holder is told", guard.lost()).await;
        let told = std::time::Instant::now();
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        let (next, served) = soon("the next is served", waiting).await.unwrap();
        assert!(served > told, "the next was served {:?} too soon", told - served);
        println!("told {:?} before the next was served", served - told);
        proxy.heal();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
        assert!(next.token() > guard.token());
        drop(guard);
        locks.settled().await;
        next.check().expect("a late release touches nobody");
    });
}

#[test]
fn forty_callers_of_a_silent_member_all_have_their_answer_in_time() {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let within = locks.guarantees().answers_within;
        proxy.black_hole();
        let callers: Vec<_> = (0..40)
            .map(|at| {
                let mutex = locks.mutex(format!("k{at}"));
                tokio::spawn(async move {
                    let asked = std::time::Instant::now();
                    let answer = mutex.try_lock().await.map(drop);
                    (answer, asked.elapsed())
                })
            })
            .collect();
        for caller in callers {
            let (answer, took) = soon("it is answered", caller).await.unwrap();
            assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable);
            assert!(took < within + PATIENCE / 20, "{took:?} is more than {within:?}");
        }
        proxy.cut();
        proxy.heal();
        let again = at_last("it is back", async || locks.mutex("k0").try_lock().await).await;
        assert!(again.is_some(), "nothing stale was carried out");
    });
}
