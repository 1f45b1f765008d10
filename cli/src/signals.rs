//! What this process hears: signals, and whatever else it waits for meanwhile, such as its child and the store.

use std::future::{Future, poll_fn};
use std::io::{self, PipeReader, Read as _};
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;

use crate::job::stop_with_the_job;
use crate::process::bury_the_dead;

/// Whoever gets one of these is to end, unless it has been told otherwise.
const ENDING: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];
const OTHERS: [Signal; 4] = [Signal::CHILD, Signal::CONT, Signal::TSTP, Signal::WINCH];

/// Wakes this process for signals, and for whatever holds the waker.
pub(crate) struct Signals {
    pipe: PipeReader,
    /// Whatever else wakes this process when it can be read from.
    others: Vec<OwnedFd>,
    heard: Vec<(Signal, Arc<AtomicBool>)>,
    waker: Waker,
}

struct Pipe(OwnedFd);

impl Wake for Pipe {
    fn wake(self: Arc<Self>) {
        // If the pipe is full, this process is awake already.
        let _full_is_loud_enough = rustix::io::write(&self.0, b"!");
    }
}

impl Signals {
    /// Hears signals from now on. Those that this process was started deaf to stay ignored, also
    /// by its children: that is how `nohup` and the background of scripts work. Only the end of a child is
    /// always heard: who ignores it is not told how a child has ended.
    pub(crate) fn hear() -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        ioctl_fionbio(&read, true)?;
        ioctl_fionbio(&write, true)?;
        let write = OwnedFd::from(write);
        let ignored = ignored();
        let mut heard = Vec::new();
        for signal in ENDING.into_iter().chain(OTHERS) {
            let is_ignored = ignored & (1 << (signal.as_raw() - 1)) != 0;
            if is_ignored && signal != Signal::CHILD {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            // The flag is up before the pipe wakes this process: they are called in this order.
            signal_hook::flag::register(signal.as_raw(), flag.clone())?;
            signal_hook::low_level::pipe::register(signal.as_raw(), write.try_clone()?)?;
            heard.push((signal, flag));
        }
        let mut deaf_to = SigSet::empty();
        deaf_to.add(Blocked::SIGCHLD);
        deaf_to.thread_unblock()?;
        Ok(Self {
            pipe: read,
            others: Vec::new(),
            heard,
            waker: Waker::from(Arc::new(Pipe(write))),
        })
    }

    /// The signals since the last call.
    pub(crate) fn heard(&self) -> Vec<Signal> {
        let up = |(_, flag): &&(Signal, Arc<AtomicBool>)| flag.swap(false, Ordering::AcqRel);
        self.heard.iter().filter(up).map(|(signal, _)| *signal).collect()
    }

    /// Unhears a signal.
    pub(crate) fn forget(&self, signal: Signal) {
        for (_, flag) in self.heard.iter().filter(|(heard, _)| *heard == signal) {
            flag.store(false, Ordering::Release);
        }
    }

    /// Wakes this process whenever this can be read from, until it is listened to no more.
    pub(crate) fn listen(&mut self, to: impl AsFd) -> io::Result<()> {
        self.others.push(to.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// The same, for nothing else but signals and wakers.
    pub(crate) fn listen_only(&mut self, to: impl AsFd) -> io::Result<()> {
        self.listen_to_nothing_else();
        self.listen(to)
    }

    /// Listens to signals and wakers only, until it is told to listen.
    pub(crate) fn listen_to_nothing_else(&mut self) {
        self.others.clear();
    }

    /// Returns when there is something to hear, or when the time is over.
    pub(crate) fn wait(&mut self, time: Option<Duration>) -> io::Result<()> {
        let time = time.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            // Rounded up: who wakes too early only looks again and again.
            tv_nsec: (i64::from(time.subsec_nanos()) + 1_000).min(999_999_999),
        });
        let pipe = iter::once(self.pipe.as_fd());
        let all = pipe.chain(self.others.iter().map(AsFd::as_fd));
        let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut all, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut rings = [0; 64];
        while self.pipe.read(&mut rings).is_ok_and(|length| length == rings.len()) {}
        Ok(())
    }

    /// Looks whether a future is ready; if it is not, it wakes this process once it may be.
    pub(crate) fn look<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Waits for a future, and drops it when a signal says that this process is to end.
    ///
    /// `meanwhile` is called at first, whenever there is something to hear, and when the time is over that it
    /// answered with.
    pub(crate) fn until<F: Future>(
        &mut self,
        future: F,
        mut meanwhile: impl FnMut(&Waker) -> Option<Duration>,
    ) -> io::Result<Result<F::Output, Signal>> {
        let mut future = pin!(future);
        loop {
            if let Some(output) = self.look(future.as_mut()) {
                return Ok(Ok(output));
            }
            for signal in self.heard() {
                if ENDING.contains(&signal) {
                    return Ok(Err(signal));
                }
                match signal {
                    Signal::TSTP => stop_with_the_job(),
                    Signal::CHILD => bury_the_dead(),
                    _ => {}
                }
            }
            let pause = meanwhile(&self.waker);
            self.wait(pause)?;
        }
    }

    /// The same, but for so long at most: `None` when the time is over.
    pub(crate) fn within<F: Future>(
        &mut self,
        time: Duration,
        future: F,
    ) -> io::Result<Result<Option<F::Output>, Signal>> {
        let began = Instant::now();
        let mut future = pin!(future);
        let limited = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if began.elapsed() >= time => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        self.until(limited, |_| Some(time.saturating_sub(began.elapsed())))
    }
}

/// Whether a process that gets this signal is to end.
pub(crate) fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// What the kernel tells of most processes fits into that, and is read in one go.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STATUS_BYTES: usize = 4096;

/// The signals that this process was started to ignore, a bit for each.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ignored() -> u64 {
    let mut status = String::with_capacity(STATUS_BYTES);
    let _then_none_is_known = std::fs::File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status));
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Here nobody can tell without asking in unsafe ways.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ignored() -> u64 {
    0
}
