//! Engines made of engines: what each adds, and that it adds nothing else.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tenure_core::blocking::block_on;
use tenure_core::event::{Cursor, Scope};
use tenure_core::layers::{Layer, OnRuntime, Operation, Retries, Retry};
use tenure_core::{
    BackgroundRuntime, Engine, Error, ErrorKind, Guarantees, Key, LeaveMode, LeaveOutcome, Locks,
    Memory, Result, Runtime, Share, Ticket, WaitMode,
};
use tokio::sync::Semaphore;

/// A memory store whose answers can be lost after it has acted.
struct Lossy {
    memory: Memory,
    /// For each verb to come, whether its answer arrives; after these all do.
    arrives: Mutex<VecDeque<bool>>,
}

impl Lossy {
    fn new(arrives: impl IntoIterator<Item = bool>) -> Self {
        Self { memory: Memory::new(), arrives: Mutex::new(arrives.into_iter().collect()) }
    }

    fn lose<T>(&self, answer: Result<T>) -> Result<T> {
        match self.arrives.lock().unwrap().pop_front() {
            Some(false) => Err(Error::unavailable("the answer is lost")),
            _ => answer,
        }
    }
}

impl Layer for Lossy {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn intercept<T: Send>(
        &self,
        question: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = ask.await;
        match question {
            Operation::Watch(_) | Operation::Events(_) => answer,
            _ => self.lose(answer),
        }
    }
}

/// A store that is silent for as long as an attempt may take, each time.
#[derive(Default)]
struct Silent {
    memory: Memory,
    asked: AtomicU32,
    /// Where there is one, it stays silent until this is closed.
    told: Option<Semaphore>,
}

impl Silent {
    const ANSWERS_WITHIN: Duration = Duration::from_millis(100);

    fn until_told() -> Self {
        Self { told: Some(Semaphore::new(0)), ..Self::default() }
    }

    async fn nothing<T>(&self) -> Result<T> {
        static HOST: LazyLock<Arc<dyn Runtime>> = LazyLock::new(host);
        self.asked.fetch_add(1, Ordering::Relaxed);
        match &self.told {
            Some(told) => drop(told.acquire().await),
            None => HOST.sleep(Self::ANSWERS_WITHIN).await,
        }
        Err(Error::unavailable("nobody answers"))
    }
}

impl Layer for Silent {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.memory.guarantees();
        profile.answers_within = Self::ANSWERS_WITHIN;
        profile
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        _: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.nothing().await
    }
}

fn host() -> Arc<dyn Runtime> {
    Arc::new(BackgroundRuntime::for_timers())
}

fn patient(arrives: impl IntoIterator<Item = bool>) -> Locks {
    let retries = Retries::times(2).after(Duration::from_millis(1));
    Locks::with_retries(Lossy::new(arrives), host(), retries)
}

#[test]
fn all_attempts_together_have_one_time_and_the_last_reason_is_told() {
    let retry =
        Retry::new(Silent::default(), host(), Retries::times(1000).after(Duration::from_millis(1)));
    assert_eq!(retry.guarantees().answers_within, Silent::ANSWERS_WITHIN * 2);
    let key = Key::new("a").unwrap();
    let error = block_on(retry.line(&key)).unwrap_err();
    assert_eq!(error.to_string(), "nobody answers");
    let attempts = retry.inner().asked.swap(0, Ordering::Relaxed);
    assert!(attempts <= 2, "{attempts} attempts");
    let error = block_on(retry.events(&Scope::Key(key), Some(Cursor(0)))).unwrap_err();
    assert_eq!(error.to_string(), "nobody answers");
    let attempts = retry.inner().asked.load(Ordering::Relaxed);
    assert!((2..=4).contains(&attempts), "{attempts} attempts");
}

#[test]
fn a_lost_answer_is_asked_for_again_and_counts_once() {
    let locks = patient([false, false, true]).blocking();
    let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap();
    assert_eq!(locks.line("a").unwrap().len(), 1, "twice is once");
    guard.release().unwrap();
}

#[test]
fn every_question_is_asked_again() {
    let locks = patient([vec![true], [false, false, true].repeat(4), vec![false; 3]].concat());
    let locks = locks.blocking();
    let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap();
    guard.extend().unwrap();
    assert_eq!(locks.keys("").unwrap().len(), 1);
    assert_eq!(locks.line("a").unwrap().len(), 1);
    assert_eq!(locks.sequence("s").next().unwrap(), 3, "two numbers are lost");
    assert_eq!(locks.keys("").unwrap_err().kind(), ErrorKind::Unavailable);
    guard.release().unwrap();
}

#[test]
fn a_release_whose_answer_was_lost_is_no_loss() {
    let locks = patient([true, false, true]).blocking();
    let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap();
    guard.release().expect("the second attempt found it gone, because of the first");
}

#[test]
fn a_store_that_stays_silent_is_an_error_and_leaves_nothing_behind() {
    let locks = patient([false; 3]).blocking();
    let error = locks.mutex("a").ttl(Duration::from_secs(1)).lock().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    locks.flush();
    assert!(locks.line("a").unwrap().is_empty());
}

/// One that asks once.
fn hasty(arrives: impl IntoIterator<Item = bool>) -> Locks {
    Locks::on(Lossy::new(arrives), host())
}

#[test]
fn a_renewal_that_is_not_answered_is_a_warning() {
    let guard = hasty([true, false]).blocking().mutex("a").manual_renewal().lock().unwrap();
    assert!(guard.extend().is_err());
    let warning = block_on(guard.handle().warned());
    assert_eq!(warning.failed, 1);
    assert!(warning.remaining.is_some_and(|left| !left.is_zero()), "{warning:?}");
}

#[test]
fn a_writer_becomes_a_reader_by_the_next_renewal_that_comes_through() {
    let writer = hasty([true, false]).blocking().rwlock("a").write().unwrap();
    writer.downgrade().expect("it is no writer, as far as it knows").release().unwrap();
    let locks = hasty([]).blocking();
    let writer = locks.rwlock("a").write().unwrap();
    locks.force_unlock("a", writer.id()).unwrap();
    assert_eq!(writer.downgrade().unwrap_err().kind(), ErrorKind::Lost);
}

#[test]
fn a_campaign_goes_on_through_an_outage_and_ends_where_it_makes_no_sense() {
    let locks = hasty([false]);
    let work = |token: tenure_core::Token, _| async move { token.get() };
    assert!(block_on(locks.election("a").run(work)).unwrap() > 0);
    assert_eq!(block_on(locks.election("").run(work)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_sequence_asked_for_again_skips_but_never_repeats_and_a_window_is_not_asked_again() {
    let locks = patient([false, true, true, false]).blocking();
    let first = locks.sequence("s").next().unwrap();
    let second = locks.sequence("s").next().unwrap();
    assert_eq!((first, second), (2, 3), "1 was given to nobody");
    let error = locks.counter("c").add(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(locks.counter("c").get().unwrap().value, 1, "it was counted once");
}

/// A store whose verbs keep much until they are answered.
struct Large(Memory);

impl Layer for Large {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let much = [1_u8; 10_000];
        let answer = ask.await;
        assert_eq!(std::hint::black_box(&much)[9_999], 1);
        answer
    }
}

#[test]
fn a_verb_that_is_asked_in_place_carries_no_copies_of_itself() {
    let ticket = Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
    let alone = Large(Memory::new());
    let hosted = OnRuntime::of(host(), Large(Memory::new())).in_place_where(|_| true, 1);
    let engine = Retry::new(hosted, host(), Retries::times(3));
    let join = engine.join(&ticket, WaitMode::Wait);
    let (size, own) =
        (size_of_val(&join), size_of_val(&Engine::join(&alone, &ticket, WaitMode::Wait)));
    assert!(size < 2 * own, "{size} bytes around {own}");
    assert!(block_on(join).unwrap().is_some());
    let leave = engine.leave(&ticket, LeaveMode::Now);
    let (size, own) =
        (size_of_val(&leave), size_of_val(&Engine::leave(&alone, &ticket, LeaveMode::Now)));
    assert!(size < 2 * own, "{size} bytes around {own}");
    assert_eq!(block_on(leave).unwrap(), LeaveOutcome::Holding);
}

#[test]
fn who_finds_no_room_with_a_host_is_told_and_is_not_let_in_when_it_is_too_late() {
    let hosted = OnRuntime::of(host(), Silent::until_told());
    let key = Key::new("a").unwrap();
    let mut calls: FuturesUnordered<_> = (0..3000).map(|_| hosted.line(&key)).collect();
    let told = block_on(calls.by_ref().take(3000 - 512).collect::<Vec<_>>());
    assert!(told.iter().all(|answer| {
        answer.as_ref().unwrap_err().to_string().contains("too many requests in flight")
    }));
    assert_eq!(hosted.inner().asked.load(Ordering::Relaxed), 512);
    hosted.inner().told.as_ref().unwrap().close();
    assert_eq!(block_on(calls.count()), 512);
    assert_eq!(hosted.inner().asked.load(Ordering::Relaxed), 512, "it was too late for the others");
}
