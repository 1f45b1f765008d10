//! Connections are cut, and requests and replies are lost.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::{ErrorKind, Locks, Loss, MutexGuard};

use crate::fault::stage::{PATIENCE, at_last, soon, until, until_line};
use crate::fault::{Direction, Proxy};

/// The ttl of locks that must survive the fault, as a multiple of the shortest ttl.
const LONG: u32 = 5;

/// The ttl of a lock that would be held beyond the end of its test.
const FOREVER: Duration = Duration::from_secs(3600);

const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Defines a test for each story of the network. The argument is a function that runs a story with
/// a [`CutOff`](crate::fault::stories::network::CutOff).
///
/// A story that is added here runs for every engine.
#[macro_export]
macro_rules! network_stories {
    ($play:path) => {
        $crate::network_stories!($play:
            a_lock_outlives_a_connection_that_is_cut
            a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind
            a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind
            a_holder_that_is_cut_off_knows_before_the_next_holds_and_no_late_answer_revives_it
            forty_callers_of_a_silent_server_all_have_their_answer_in_time
        );
    };
    ($play:path: $($story:ident)*) => {
        $(
            #[test]
            fn $story() {
                $play($crate::fault::stories::network::$story);
            }
        )*
    };
}

/// Two clients of one server, and the proxy between it and one of them.
pub struct CutOff {
    /// The proxy of the first client. It passes everything until a story changes that.
    pub proxy: Proxy,
    /// The first client. It waits 0.5 s for an answer.
    pub locks: Locks,
    /// The second client, connected to the server itself.
    pub other: Locks,
    /// The shortest ttl that the server keeps reliably.
    pub ttl: Duration,
}

impl CutOff {
    /// Ends the fault. Bytes on their way are lost.
    fn heal(&self) {
        self.proxy.cut();
        self.proxy.heal();
    }

    /// Connects the client, with a session if it needs one, and creates the line, so that only
    /// later requests are lost.
    async fn warm_up(&self, key: &str) {
        let warm = self.locks.mutex(key).ttl(self.ttl * LONG);
        at_last("it is connected", async || warm.lock().await?.release().await).await;
    }
}

/// A client reconnects after a cut, and keeps its lock.
pub async fn a_lock_outlives_a_connection_that_is_cut(of: CutOff) {
    let CutOff { proxy, locks, other, ttl } = of;
    let guard = locks.mutex("k").ttl(ttl * LONG).lock().await.unwrap();
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
}

/// A join without an answer either holds once or leaves nothing behind.
pub async fn a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind(of: CutOff) {
    for round in 0..4 {
        let key = format!("k{round}");
        let joining = loop {
            of.warm_up(&key).await;
            of.proxy.black_hole_for(Direction::Replies);
            let mutex = of.locks.mutex(&key).ttl(of.ttl * LONG);
            let joining = tokio::spawn(async move { mutex.lock().await });
            // On a busy machine the join may time out and leave before it is seen in the line.
            let mut is_seen = false;
            until("the join is in the line or has ended", async || {
                let line = of.other.line(&key).await;
                is_seen = line.is_ok_and(|line| line.len() == 1);
                is_seen || joining.is_finished()
            })
            .await;
            of.heal();
            if is_seen {
                break joining;
            }
            let error = joining.await.unwrap().expect_err("its answer is lost");
            assert!(error.is_retryable(), "{error}");
            until_line(&of.other, &key, 0).await;
        };
        if round % 2 == 0 {
            match soon("it is answered in the end", joining).await.unwrap() {
                Ok(guard) => {
                    assert_eq!(of.other.line(&key).await.unwrap().len(), 1, "it holds once");
                    guard.release().await.unwrap();
                }
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        } else {
            joining.abort();
        }
        until_line(&of.other, &key, 0).await;
    }
}

/// A waiter is served in the end. A caller that gave up leaves nothing behind.
pub async fn a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind(of: CutOff) {
    of.warm_up("warm").await;
    of.proxy.black_hole_for(Direction::Requests);
    let [kept, dropped] = ["a", "b"].map(|key| of.locks.mutex(key).ttl(of.ttl * LONG));
    let kept = tokio::spawn(async move {
        loop {
            match kept.lock().await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    });
    let dropped = tokio::spawn(async move { dropped.lock().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    dropped.abort();
    of.heal();
    let guard = soon("it is locked in the end", kept).await.unwrap();
    assert_eq!(of.other.line("a").await.unwrap().len(), 1);
    of.locks.flush().await;
    until_line(&of.other, "b", 0).await;
    guard.release().await.unwrap();
}

/// A holder knows of its loss before the next one holds. No late answer gives the lock back, and no
/// late release takes it away.
pub async fn a_holder_that_is_cut_off_knows_before_the_next_holds_and_no_late_answer_revives_it(
    of: CutOff,
) {
    let CutOff { proxy, locks, other, ttl } = of;
    let guard = locks.mutex("k").ttl(ttl).lock().await.unwrap();
    let waiting = tokio::spawn(async move {
        let next = other.mutex("k").lock().await.unwrap();
        (next, Instant::now())
    });
    until_line(&locks, "k", 2).await;
    let guard = Arc::new(guard);
    let believing = thread::spawn({
        let guard = guard.clone();
        move || believed_last(&guard)
    });
    proxy.black_hole();
    let loss = soon("the holder is notified", guard.lost()).await;
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
    let (next, served) = soon("the next is served", waiting).await.unwrap();
    let believed = believing.join().expect("the thread only reads");
    assert!(served > believed, "the next was served {:?} too soon", believed - served);
    println!("the holder stopped believing {:?} before the next was served", served - believed);
    proxy.heal();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.token() > guard.token());
    drop(guard);
    locks.flush().await;
    next.check().expect("a late release changes nothing");
    // A session may have ended; the next lock opens another.
    let again = at_last("it locks again", async || locks.mutex("l").ttl(ttl).lock().await);
    again.await.check().unwrap();
}

/// The last time at which the holder checked and still held. Its notification may come later,
/// because a thread of a busy machine wakes up late.
fn believed_last(guard: &MutexGuard) -> Instant {
    let mut last = Instant::now();
    loop {
        let looks = Instant::now();
        if guard.check().is_err() {
            return last;
        }
        last = looks;
        thread::sleep(LOOK_PAUSE);
    }
}

/// Each of forty parallel callers gets its answer within the promised time.
pub async fn forty_callers_of_a_silent_server_all_have_their_answer_in_time(of: CutOff) {
    let within = of.locks.guarantees().answers_within;
    of.proxy.black_hole();
    let callers: Vec<_> = (0..40)
        .map(|at| {
            let mutex = of.locks.mutex(format!("k{at}")).ttl(FOREVER);
            tokio::spawn(async move {
                let asked = Instant::now();
                let answer = mutex.try_lock().await.map(drop);
                (answer, asked.elapsed())
            })
        })
        .collect();
    for caller in callers {
        let (answer, took) = soon("it is answered", caller).await.unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(took < within + PATIENCE / 20, "{took:?} is more than {within:?}");
    }
    of.heal();
    let again = of.locks.mutex("k0").ttl(FOREVER);
    let mut lost_answers = 0;
    until("it is back", async || match again.try_lock().await {
        Ok(Some(_)) => true,
        Ok(None) => {
            // An attempt of a busy machine may lose its answer, and then removes its own ticket.
            assert!(lost_answers > 0, "no stale request was carried out");
            false
        }
        Err(error) => {
            assert!(error.is_retryable(), "{error}");
            lost_answers += 1;
            false
        }
    })
    .await;
}
