//! Connections are cut, and requests and answers are lost.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::{ErrorKind, Guard, Locks, Loss};

use crate::fault::stage::{PATIENCE, at_last, soon, until_line};
use crate::fault::{Direction, Proxy};

/// So much longer than the shortest life lives what must survive the trouble.
const LONG: u32 = 5;

const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Makes a test of each story of the network. What is named plays a story: it brings the [`CutOff`](crate::fault::stories::network::CutOff).
///
/// A story that is added here is played by every engine.
#[macro_export]
macro_rules! network_stories {
    ($play:path) => {
        $crate::network_stories!($play:
            a_lock_outlives_a_connection_that_is_cut
            a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind
            a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind
            who_is_cut_off_is_told_before_the_lock_is_given_away_and_no_late_answer_revives_it
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

/// Two clients of one server, and what stands between it and one of them.
pub struct CutOff {
    /// It lets through all that the first client says, until a story wants it otherwise.
    pub proxy: Proxy,
    /// The first client. It waits for half a second for an answer.
    pub locks: Locks,
    /// The second client, which speaks to the server itself.
    pub other: Locks,
    /// The shortest life that the server keeps well.
    pub ttl: Duration,
}

impl CutOff {
    /// The trouble is over. What was on its way is lost.
    fn heal(&self) {
        self.proxy.cut();
        self.proxy.heal();
    }

    /// The client is connected, with a session if it needs one, and the line is there: only what comes now is lost.
    async fn warm_up(&self, key: &str) {
        let warm = self.locks.mutex(key).ttl(self.ttl * LONG);
        at_last("it is connected", async || warm.lock().await?.release().await).await;
    }
}

/// A connection that is cut is made anew, and costs no lock.
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

/// Whoever joined, and was not told, holds once or has left nothing behind.
pub async fn a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind(of: CutOff) {
    for round in 0..4 {
        let key = format!("k{round}");
        of.warm_up(&key).await;
        of.proxy.black_hole_for(Direction::Replies);
        let mutex = of.locks.mutex(&key).ttl(of.ttl * LONG);
        let joining = tokio::spawn(async move { mutex.lock().await });
        until_line(&of.other, &key, 1).await;
        of.heal();
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

/// Whoever waits is served in the end, and whoever gave up has left nothing behind.
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

/// A holder knows of its loss before the next one holds, no late answer gives the lock back, and no late release takes it away.
pub async fn who_is_cut_off_is_told_before_the_lock_is_given_away_and_no_late_answer_revives_it(
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
    let loss = soon("the holder is told", guard.lost()).await;
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
    let (next, served) = soon("the next is served", waiting).await.unwrap();
    let believed = believing.join().expect("it only looks");
    assert!(served > believed, "the next was served {:?} too soon", believed - served);
    println!("the holder stopped believing {:?} before the next was served", served - believed);
    proxy.heal();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.token() > guard.token());
    drop(guard);
    locks.flush().await;
    next.check().expect("a late release touches nobody");
    // A session may be over; the next lock opens another.
    let again = at_last("it locks again", async || locks.mutex("l").ttl(ttl).lock().await);
    again.await.check().unwrap();
}

/// When the holder looked and still held for the last time. Its notice may come later on a busy machine: a thread has to wake up for it.
fn believed_last(guard: &Guard) -> Instant {
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

/// Each of forty callers at once has its answer within the promised time.
pub async fn forty_callers_of_a_silent_server_all_have_their_answer_in_time(of: CutOff) {
    let within = of.locks.guarantees().answers_within;
    of.proxy.black_hole();
    let callers: Vec<_> = (0..40)
        .map(|at| {
            let mutex = of.locks.mutex(format!("k{at}"));
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
    let again = at_last("it is back", async || of.locks.mutex("k0").try_lock().await).await;
    assert!(again.is_some(), "nothing stale was carried out");
}
