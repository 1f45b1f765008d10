//! A claim that is held: the claim holder's loop, until the claim ends.
//!
//! | the claim ends when | its locks | its record |
//! |---|---|---|
//! | `drop` asks for it | are released | is removed |
//! | the process that it follows ends | are released | is removed |
//! | its time passes without a `renew` | are released | names the reason |
//! | the claim holder gets a TERM | are released | names the reason |
//! | a lock is lost | are released once a command has reported the loss, or after `LEAVE_MAX` | names the reason |
//! | the claim holder is killed | end as the store has it | stays as it was |
//!
//! Locks that are left after a loss stay for a while, because the caller still believes that it
//! holds the claim. With a broken lock in files this is the time that a lease gives elsewhere.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::Pin;
use std::time::{Duration, Instant};

use tenure::engine::{Clock as _, SystemClock};
use tenure::limits::TTL_DEFAULT;
use tenure::{Error, LeaseHandle, Loss};
use tenure_kit::duration::brief;

use super::directory::ClaimDirectory;
use super::followed::ProcessWatch;
use super::question::{Standing, Verb};
use super::{ClaimRecord, json_line};
use crate::acquisition::HeldLock;
use crate::screen::quoted;
use crate::supervisor::alarm::Alarm;
use crate::supervisor::signals::{Signals, is_ending};

/// Time limit of the calls to the store for one question, less than that of an answer.
const STORE_MAX: Duration = Duration::from_secs(5);
/// Time limit for reading a question and for writing an answer.
const CALLER_MAX: Duration = Duration::from_secs(1);
/// Maximum length of a question.
const QUESTION_BYTES_MAX: usize = 64;
/// Maximum time from a loss to the release of the other locks, as long as a lease.
pub(crate) const LEAVE_MAX: Duration = TTL_DEFAULT;

/// Why a claim is lost whose holder was asked to end.
const SIGNALLED: &str = "a signal has ended the process that held it";

pub(crate) struct HeldClaim {
    pub(crate) directory: ClaimDirectory,
    pub(crate) record: ClaimRecord,
    pub(crate) locks: Vec<HeldLock>,
    pub(crate) listener: UnixListener,
    /// The process with which the claim ends.
    pub(crate) followed: Option<ProcessWatch>,
}

/// How the loop ends.
enum Ending {
    /// The claim is over, and no command will ask for it.
    Over,
    /// The claim was lost, and its record names the reason.
    Lost,
}

struct Loop<'a> {
    claim: &'a mut HeldClaim,
    losses: Vec<Pin<Box<dyn Future<Output = Loss>>>>,
    /// The time at which the claim ends without a `renew`.
    alarm: Alarm,
    /// After a loss: when the other locks are released.
    leave_at: Option<Instant>,
}

impl HeldClaim {
    /// Keeps the claim until it ends, and releases its locks.
    pub(crate) fn keep(mut self, signals: &mut Signals) -> io::Result<()> {
        let ended = Loop::new(&mut self)?.run(signals);
        // Also after an error: a claim whose holder cannot work is lost.
        if let Err(error) = &ended {
            self.lose(format!("its process failed: {error}"));
        }
        let _ = self.release(signals); // the store ends what it has not confirmed
        match ended? {
            Ending::Over => self.directory.forget(&self.record.claim.claim),
            Ending::Lost => self.directory.forget_socket(&self.record.claim.claim),
        }
        Ok(())
    }

    /// Writes down that the claim is lost.
    fn lose(&mut self, reason: String) {
        self.record.lost = Some(reason);
        // Without the record, the claim counts as one whose process was killed: as lost, too.
        let _ = self.directory.write(&self.record);
    }

    /// Releases all locks, the last one first. Returns the first error.
    fn release(&mut self, signals: &mut Signals) -> io::Result<Option<Error>> {
        let locks = std::mem::take(&mut self.locks);
        let released = signals.within(STORE_MAX, async {
            let mut first = None;
            for lock in locks.into_iter().rev() {
                first = first.or(lock.give_back().await.err());
            }
            first
        })?;
        Ok(match released {
            Ok(Some(error)) => error,
            // The dropped future has the rest released in the background.
            Ok(None) | Err(_) => Some(Error::unavailable("the store does not answer")),
        })
    }

    /// The time until the first of the leases ends without a renewal.
    fn remaining(&self) -> Option<Duration> {
        self.locks.iter().filter_map(|lock| lock.remaining()).min()
    }
}

impl<'a> Loop<'a> {
    fn new(claim: &'a mut HeldClaim) -> io::Result<Self> {
        let loss = |lock: &HeldLock| -> Pin<Box<dyn Future<Output = Loss>>> {
            let handle: LeaseHandle = (**lock).clone();
            Box::pin(async move { handle.lost().await })
        };
        let losses = claim.locks.iter().map(loss).collect();
        let mut this = Self { claim, losses, alarm: Alarm::new()?, leave_at: None };
        this.restart_ttl();
        Ok(this)
    }

    fn run(mut self, signals: &mut Signals) -> io::Result<Ending> {
        signals.wake_on(&self.claim.listener)?;
        if let Some(file) = self.claim.followed.as_ref().and_then(ProcessWatch::file) {
            signals.wake_on(file)?;
        }
        self.alarm.wake(signals)?;
        self.claim.listener.set_nonblocking(true)?;
        loop {
            // The clock comes first: a `renew` that comes after the end does not revive the claim.
            if let Some(ending) = self.judge(signals) {
                return Ok(ending);
            }
            while let Some(caller) = accept(&self.claim.listener)? {
                if let Some(ending) = self.answer(signals, &caller) {
                    return Ok(ending);
                }
            }
            let polls = [
                self.claim.followed.as_ref().and_then(ProcessWatch::poll_every),
                self.leave_at.map(|at| at.saturating_duration_since(Instant::now())),
                self.alarm.must_be_polled().then(|| self.alarm.pause()),
            ];
            signals.wait(polls.into_iter().flatten().min())?;
        }
    }

    /// Looks at the signals, the process that is followed, the clock and the locks.
    fn judge(&mut self, signals: &Signals) -> Option<Ending> {
        if self.claim.followed.as_ref().is_some_and(ProcessWatch::has_ended) {
            return Some(Ending::Over);
        }
        if signals.take().into_iter().any(is_ending) {
            if self.claim.record.lost.is_none() {
                self.claim.lose(SIGNALLED.into());
            }
            return Some(Ending::Lost);
        }
        if self.leave_at.is_some() {
            return self.leave_at.filter(|at| Instant::now() >= *at).map(|_| Ending::Lost);
        }
        if self.alarm.is_due(SystemClock.now().boot_ns) {
            let ttl = brief(self.claim.record.ttl.unwrap_or_default());
            self.claim.lose(format!("it was not renewed for {ttl}"));
            return Some(Ending::Lost);
        }
        if let Some(reason) = self.loss(signals) {
            self.claim.lose(reason);
            self.leave_at = Some(Instant::now() + LEAVE_MAX);
        }
        None
    }

    /// Returns why a lock is lost. Reads the clock: a timer that has not fired proves nothing.
    fn loss(&mut self, signals: &Signals) -> Option<String> {
        let locks = self.claim.locks.iter().zip(&mut self.losses);
        locks.into_iter().find_map(|(lock, lost)| {
            let by_clock = lock.check().err().and_then(|error| error.loss());
            let loss = by_clock.or_else(|| signals.poll(lost.as_mut()))?;
            Some(format!("{}: {}", quoted(lock.key().as_str()), explain(lock, loss)))
        })
    }

    /// Answers one question.
    fn answer(&mut self, signals: &mut Signals, mut caller: &UnixStream) -> Option<Ending> {
        if !is_of_this_user(caller) {
            return None;
        }
        let verb = question(caller)?;
        // Reading may have taken some time.
        let (mut warning, mut ending) = (None, self.judge(signals));
        if verb == Verb::Renew && self.claim.record.lost.is_none() && ending.is_none() {
            (warning, ending) = self.renew(signals);
        }
        let standing = match &self.claim.record.lost {
            Some(reason) => Standing::Lost(reason.clone()),
            None if ending.is_some() => return ending,
            None if verb == Verb::Drop => {
                ending = Some(Ending::Over);
                self.drop_claim(signals)
            }
            None => Standing::Held { expires_in: self.expires_in(), warning },
        };
        if matches!(standing, Standing::Lost(_)) && verb != Verb::Show {
            // The caller hears of the loss now, and the locks that are left need not wait.
            ending = ending.or(Some(Ending::Lost));
        }
        // The caller may be gone, and then asks again.
        let _ = caller.write_all(json_line(&standing).as_bytes());
        ending
    }

    /// Renews all leases. Returns a warning if the store has not confirmed it, and looks at the
    /// claim again: the renewal may have failed because a lock is lost.
    fn renew(&mut self, signals: &mut Signals) -> (Option<String>, Option<Ending>) {
        self.restart_ttl();
        let locks = &self.claim.locks;
        let renewed = signals.within(STORE_MAX, async {
            for lock in locks {
                lock.extend().await?;
            }
            Ok::<(), Error>(())
        });
        let warning = match renewed {
            Ok(Ok(Some(Ok(())))) => None,
            Ok(Ok(Some(Err(error)))) => Some(error.to_string()),
            Ok(Ok(None)) => Some("the store does not answer".into()),
            Ok(Err(_)) => {
                self.claim.lose(SIGNALLED.into());
                return (None, Some(Ending::Lost));
            }
            Err(error) => Some(error.to_string()),
        };
        (warning, self.judge(signals))
    }

    fn drop_claim(&mut self, signals: &mut Signals) -> Standing {
        let warning = match self.claim.release(signals) {
            Ok(None) => None,
            Ok(Some(error)) if error.is_lost() => return Standing::Lost(error.to_string()),
            Ok(Some(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        // Once the caller has its answer, no file of the claim is left.
        self.claim.directory.forget(&self.claim.record.claim.claim);
        Standing::Held { expires_in: None, warning }
    }

    fn restart_ttl(&mut self) {
        if let Some(ttl) = self.claim.record.ttl {
            self.alarm.set(SystemClock.now().plus(ttl).boot_ns);
        }
    }

    /// The time until the claim ends without a renewal by the library or by `renew`.
    fn expires_in(&self) -> Option<Duration> {
        let by_ttl = self.alarm.remaining(SystemClock.now().boot_ns);
        self.claim.remaining().into_iter().chain(by_ttl).min()
    }
}

/// Explains a loss. The trouble is that of the last renewal.
fn explain(lock: &LeaseHandle, loss: Loss) -> String {
    match loss {
        Loss::Broken if lock.was_asked_to_leave() => {
            "`tenure break` or a program asked its holder to leave".into()
        }
        Loss::Unreachable if let Some(trouble) = lock.trouble() => {
            format!("{loss} (the last renewal failed: {trouble})")
        }
        _ => loss.to_string(),
    }
}

/// Accepts a waiting connection, if there is one.
fn accept(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    // There is none, or the caller has gone. A failing accept is tried again at the next one.
    let Ok((caller, _)) = listener.accept() else { return Ok(None) };
    caller.set_nonblocking(false)?;
    caller.set_write_timeout(Some(CALLER_MAX))?;
    Ok(Some(caller))
}

/// Reads a question. `None`: the caller sent none in time.
fn question(mut caller: &UnixStream) -> Option<Verb> {
    let (until, mut text, mut part) = (Instant::now() + CALLER_MAX, Vec::new(), [0; 64]);
    while text.len() < QUESTION_BYTES_MAX {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        caller.set_read_timeout(Some(left)).ok()?;
        match caller.read(&mut part).ok()? {
            0 => break,
            length => text.extend(&part[..length]),
        }
    }
    serde_json::from_slice(&text).ok()
}

/// Refuses callers of other users. The directory of the socket keeps them out as well.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_of_this_user(caller: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(caller.as_fd());
    peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_of_this_user(_: &UnixStream) -> bool {
    true
}
