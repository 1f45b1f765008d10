//! Connections are cut, and answers are lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Direction, Proxy};
use tenure_core::{Kind, Locks, Loss};
use tenure_servers::zookeeper::Ensemble;

use super::stage::{
    LINES, PATIENCE, TTL, at_last, connect, operator, play, soon, tickets, until_line,
};

/// What stands between its clients and the first server.
pub(super) fn proxy_to(ensemble: &Ensemble) -> Proxy {
    let server = ensemble.servers()[0].port();
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server))).unwrap()
}

pub(super) fn url_of(proxy: &Proxy) -> String {
    format!("zookeeper://127.0.0.1:{}", proxy.port())
}

async fn through(ensemble: &Ensemble) -> (Proxy, Locks) {
    let proxy = proxy_to(ensemble);
    let url = format!("{}?timeout=500ms", url_of(&proxy));
    let locks = at_last("it connects", async || tenure_zookeeper::connect(&url).await).await;
    (proxy, locks)
}

#[test]
fn a_lock_outlives_a_connection_that_is_cut() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let guard = locks.mutex("k").ttl(TTL * 5).lock().await.unwrap();
        for _ in 0..5 {
            proxy.cut();
            let tried = at_last("it is answered", async || locks.mutex("k").try_lock().await).await;
            assert!(tried.is_none());
        }
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        guard.check().unwrap();
        at_last("it is released", async || locks.line("k").await).await;
        guard.release().await.unwrap();
        let next = soon("the next is served", waiting).await.unwrap().unwrap();
        next.release().await.unwrap();
    });
}

#[test]
fn a_waiter_whose_connection_is_cut_hears_of_its_turn_all_the_same() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let guard = other.mutex("k").lock().await.unwrap();
        let waiter = locks.mutex("k").ttl(TTL * 5);
        let waiting = tokio::spawn(async move { waiter.lock().await });
        until_line(&other, "k", 2).await;
        // The watch is set, and what it tells is lost with the connection.
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.black_hole();
        guard.release().await.unwrap();
        proxy.cut();
        proxy.heal();
        soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let life = TTL * 5;
        for round in 0..4 {
            let key = format!("k{round}");
            // The session is connected and the line is there, so that the join is all that is lost.
            let warm = locks.mutex(&key).ttl(life);
            at_last("it is connected", async || warm.lock().await?.release().await).await;
            proxy.black_hole_for(Direction::Replies);
            let joining = tokio::spawn({
                let mutex = locks.mutex(&key).ttl(life);
                async move { mutex.lock().await }
            });
            until_line(&other, &key, 1).await;
            proxy.cut();
            proxy.heal();
            if round % 2 == 0 {
                match soon("it is answered in the end", joining).await.unwrap() {
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
        let operator = operator(&ensemble).await;
        assert_eq!(tickets(&operator).await, Vec::<String>::new());
    });
}

#[test]
fn a_downgrade_whose_answer_is_lost_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let operator = operator(&ensemble).await;
        let guard = locks.rwlock("k").ttl(TTL * 5).write().await.unwrap();
        let line = operator.list_children(LINES).await.unwrap().remove(0);
        let line = format!("{LINES}/{line}");
        // Answers take so long that the connection is cut before this one comes.
        proxy.delay(Duration::from_millis(150));
        let downgrading = tokio::spawn(guard.downgrade());
        soon("it takes less", async {
            while operator.list_children(&line).await.unwrap().len() < 2 {}
        })
        .await;
        proxy.cut();
        // The lock is given back.
        downgrading.abort();
        proxy.heal();
        until_line(&locks, "k", 0).await;
        locks.settled().await;
        assert_eq!(operator.list_children(&line).await.unwrap(), Vec::<String>::new());
    });
}

#[test]
fn a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let life = TTL * 5;
        locks.mutex("warm").ttl(life).lock().await.unwrap().release().await.unwrap();
        proxy.black_hole_for(Direction::Requests);
        let (kept, dropped) = (locks.mutex("a").ttl(life), locks.mutex("b").ttl(life));
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
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let waiting = tokio::spawn(async move {
            let next = other.mutex("k").lock().await.unwrap();
            (next, Instant::now())
        });
        until_line(&locks, "k", 2).await;
        proxy.black_hole();
        let loss = soon("the holder is told", guard.lost()).await;
        let told = Instant::now();
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
        // Its session is over; the next lock opens another.
        let again = at_last("it locks again", async || locks.mutex("l").ttl(TTL).lock().await);
        again.await.check().unwrap();
    });
}

#[test]
fn forty_callers_of_a_silent_server_all_have_their_answer_in_time() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let within = locks.guarantees().answers_within;
        proxy.black_hole();
        let callers: Vec<_> = (0..40)
            .map(|at| {
                let mutex = locks.mutex(format!("k{at}"));
                tokio::spawn(async move {
                    let asked = Instant::now();
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
