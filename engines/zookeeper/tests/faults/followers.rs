//! Followers, which answer a sign of life and tell their leader of it up to half a tick later.

use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use tenure_core::{Clock as _, ErrorKind, Locks, SystemClock};
use tenure_servers::zookeeper::{Ensemble, Server};

use super::stage::{TTL, at_last, connect, play_on, until_line};

/// As long as the shortest life that the servers would grant.
const TICK: Duration = Duration::from_secs(2);
const LONG_TICKS: [&str; 2] = ["tickTime=2000", "minSessionTimeout=2000"];

/// Plays a story on three servers with these settings.
fn play_with(settings: &[&str], story: impl AsyncFnOnce(Ensemble)) {
    play_on(|| Ensemble::with_settings(3, settings), story);
}

async fn connect_to(server: &Server) -> Locks {
    let url = format!("zookeeper://127.0.0.1:{}", server.port());
    at_last("it connects", async || tenure_zookeeper::connect(&url).await).await
}

/// Waits until a second before a leader looks for expired sessions. It looks once in a tick of its
/// clock, and extends no session then.
async fn until_just_before_a_look() {
    let (now, before) = (u128::from(SystemClock.now().boot_ns), Duration::from_millis(1180));
    let late = u64::try_from((now + before.as_nanos()) % TICK.as_nanos()).unwrap();
    tokio::time::sleep(TICK.saturating_sub(Duration::from_nanos(late))).await;
}

#[test]
fn who_is_connected_to_a_follower_that_dies_is_told_before_the_lock_is_given_away() {
    const ROUNDS: usize = 3;
    const HOLDERS: usize = 8;
    play_with(&LONG_TICKS, async |ensemble| {
        for round in 0..ROUNDS {
            let (follower, leader) = (ensemble.follower().unwrap(), ensemble.leader().unwrap());
            let other = connect_to(leader).await;
            let (mut guards, mut waiters) = (Vec::new(), Vec::new());
            for at in 0..HOLDERS {
                let key = format!("{round}/{at}");
                let (mine, waiter) = (connect_to(follower).await, other.mutex(&key).ttl(TTL * 10));
                guards.push(mine.mutex(&key).ttl(TTL).lock().await.unwrap());
                waiters.push(tokio::spawn(async move { (waiter.lock().await, Instant::now()) }));
                until_line(&other, &key, 2).await;
            }
            until_just_before_a_look().await;
            let held: Vec<bool> = guards.iter().map(|guard| guard.check().is_ok()).collect();
            follower.kill().unwrap();
            let told = guards.iter().map(async |guard| (guard.lost().await, Instant::now()));
            let (told, served) = join(join_all(told), join_all(waiters)).await;
            for (((_, told), served), held) in told.into_iter().zip(served).zip(held) {
                let (next, served) = served.unwrap();
                assert!(!held || told < served, "{round}: two held for {:?}", told - served);
                drop(next.unwrap());
            }
            follower.restart().unwrap();
            // Another leader asks at other moments.
            leader.kill().unwrap();
            leader.restart().unwrap();
        }
    });
}

#[test]
fn a_holder_counts_on_no_sign_of_life_that_a_follower_may_not_have_passed_on() {
    play_with(&LONG_TICKS, async |ensemble| {
        let locks = connect_to(ensemble.follower().unwrap()).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let (life, begun) = (TICK * 2, Instant::now());
        let left = async || {
            let tickets = at_last("it is answered", async || locks.line("k").await).await;
            tickets.first().map(|place| place.life.expect("it ends"))
        };
        let first = left().await.expect("it was just taken");
        assert!(life / 2 < first && first <= life, "{first:?}");
        // By then the leader has received signs of life only through the follower.
        tokio::time::sleep(life).await;
        while begun.elapsed() < life * 2 {
            // On a busy machine a sign of life may be too late, and the lock is lost then.
            let Some(left) = left().await else { break };
            assert!(left + TICK * 5 / 8 <= life, "{left:?}");
        }
        drop(guard);
    });
}

#[test]
fn an_ensemble_whose_sessions_are_too_short_for_its_tick_is_refused() {
    play_with(&[LONG_TICKS[0], LONG_TICKS[1], "maxSessionTimeout=2000"], async |ensemble| {
        let refused = connect(&ensemble).await.mutex("k").ttl(TTL).lock().await;
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        assert!(refused.to_string().contains("tickTime"), "{refused}");
    });
}

#[test]
fn where_the_tick_is_not_known_holders_count_on_half_a_life() {
    /// A ttl of which half is longer than the delays of a busy machine.
    const LONG: Duration = Duration::from_secs(8);
    play_with(&["4lw.commands.whitelist=srvr,ruok"], async |ensemble| {
        let locks = connect(&ensemble).await;
        let warnings = locks.guarantees().warnings.join(" ");
        assert!(warnings.contains("does not report its tickTime"), "{warnings}");
        let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let told = Instant::now();
        while told.elapsed() < LONG {
            let life = locks.line("k").await.unwrap()[0].life.expect("it ends");
            assert!(life <= LONG / 2, "{life:?}");
            guard.check().unwrap();
        }
    });
}
