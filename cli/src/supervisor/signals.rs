//! Signals, and the one place where this process waits: for signals, files and futures at once.

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

use super::job::stop_with_the_job;
use super::process::reap_all;

/// Signals that ask a process to end.
const ENDING: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];
const OTHERS: [Signal; 4] = [Signal::CHILD, Signal::CONT, Signal::TSTP, Signal::WINCH];

/// The installed signal handlers, with a pipe that wakes this process.
pub(crate) struct Signals {
    pipe: PipeReader,
    /// Further files that wake this process when they are readable.
    files: Vec<OwnedFd>,
    /// Files that count as a HUP as long as they are readable.
    hang_ups: Vec<OwnedFd>,
    pending: Vec<(Signal, Arc<AtomicBool>)>,
    waker: Waker,
}

struct Pipe(OwnedFd);

impl Wake for Pipe {
    fn wake(self: Arc<Self>) {
        let _ = rustix::io::write(&self.0, b"!"); // a full pipe wakes this process as well
    }
}

impl Signals {
    /// Installs the handlers. Signals that were ignored at start-up stay ignored, also for the
    /// command, as `nohup` expects. CHLD is always handled: `wait` reports no status while it is
    /// ignored.
    pub(crate) fn install() -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        ioctl_fionbio(&read, true)?;
        ioctl_fionbio(&write, true)?;
        let write = OwnedFd::from(write);
        let ignored = ignored();
        let mut pending = Vec::new();
        for signal in ENDING.into_iter().chain(OTHERS) {
            let is_ignored = ignored & (1 << (signal.as_raw() - 1)) != 0;
            if is_ignored && signal != Signal::CHILD {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            // Handlers run in the order of registration: the flag is set before the pipe wakes.
            signal_hook::flag::register(signal.as_raw(), flag.clone())?;
            signal_hook::low_level::pipe::register(signal.as_raw(), write.try_clone()?)?;
            pending.push((signal, flag));
        }
        SigSet::from_iter([Blocked::SIGCHLD]).thread_unblock()?;
        let waker = Waker::from(Arc::new(Pipe(write)));
        Ok(Self { pipe: read, files: Vec::new(), hang_ups: Vec::new(), pending, waker })
    }

    /// Returns the signals since the last call.
    pub(crate) fn take(&self) -> Vec<Signal> {
        let is_set = |(_, flag): &&(Signal, Arc<AtomicBool>)| flag.swap(false, Ordering::AcqRel);
        let mut signals: Vec<_> =
            self.pending.iter().filter(is_set).map(|(signal, _)| *signal).collect();
        signals.extend(self.hang_ups.iter().any(is_readable).then_some(Signal::HUP));
        signals
    }

    /// Drops a pending signal.
    pub(crate) fn discard(&self, signal: Signal) {
        for (_, flag) in self.pending.iter().filter(|(pending, _)| *pending == signal) {
            flag.store(false, Ordering::Release);
        }
    }

    /// Wakes this process whenever `file` is readable.
    pub(crate) fn wake_on(&mut self, file: impl AsFd) -> io::Result<()> {
        self.files.push(file.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// The same, and no longer for any other file.
    pub(crate) fn wake_on_only(&mut self, file: impl AsFd) -> io::Result<()> {
        self.wake_on_nothing();
        self.wake_on(file)
    }

    /// Takes a readable `file` for a HUP: the process at its other end is gone.
    pub(crate) fn hang_up_on(&mut self, file: impl AsFd) -> io::Result<()> {
        self.hang_ups.push(file.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// Takes no file for a HUP any more.
    pub(crate) fn hang_up_on_nothing(&mut self) {
        self.hang_ups.clear();
    }

    /// Waits until `file` is readable or its other end is closed.
    pub(crate) fn until_readable(
        &mut self,
        file: impl AsFd,
        time: Option<Duration>,
    ) -> io::Result<Result<(), Signal>> {
        self.wake_on_only(&file)?;
        let ready = poll_fn(|_| if is_readable(&file) { Poll::Ready(()) } else { Poll::Pending });
        let ended = match time {
            Some(time) => self.within(time, ready)?.map(|_| ()),
            None => self.until(ready, |_| None)?,
        };
        self.wake_on_nothing();
        Ok(ended)
    }

    /// Wakes this process for signals and wakers only.
    pub(crate) fn wake_on_nothing(&mut self) {
        self.files.clear();
    }

    /// Waits for a signal, a file or a waker, or until `time` is over.
    pub(crate) fn wait(&mut self, time: Option<Duration>) -> io::Result<()> {
        let time = time.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            // Rounded up by a microsecond: waking too early would only poll again.
            tv_nsec: (i64::from(time.subsec_nanos()) + 1_000).min(999_999_999),
        });
        let pipe = iter::once(self.pipe.as_fd());
        let files = self.files.iter().chain(&self.hang_ups);
        let all = pipe.chain(files.map(AsFd::as_fd));
        let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        match poll(&mut all, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|length| length == bytes.len()) {}
        Ok(())
    }

    /// Polls a future once; if it is pending, its waker wakes this process.
    pub(crate) fn poll<F: Future + ?Sized>(&self, future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Waits for a future, and drops it if a signal asks this process to end.
    ///
    /// `meanwhile` is called at first, at each wake-up, and after the time that it returned last.
    pub(crate) fn until<F: Future>(
        &mut self,
        future: F,
        mut meanwhile: impl FnMut(&Waker) -> Option<Duration>,
    ) -> io::Result<Result<F::Output, Signal>> {
        let mut future = pin!(future);
        loop {
            if let Some(output) = self.poll(future.as_mut()) {
                return Ok(Ok(output));
            }
            for signal in self.take() {
                if ENDING.contains(&signal) {
                    return Ok(Err(signal));
                }
                match signal {
                    Signal::TSTP => stop_with_the_job(),
                    Signal::CHILD => reap_all(),
                    _ => {}
                }
            }
            let pause = meanwhile(&self.waker);
            self.wait(pause)?;
        }
    }

    /// The same, for `time` at most: `None` when the time is over.
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

/// Makes a write beyond `ulimit -f` fail; XFSZ would otherwise kill this process. A command starts
/// with the disposition that this process had before.
pub(crate) fn outlive_file_limit() {
    let limit = Signal::XFSZ.as_raw();
    if ignored() & (1 << (limit - 1)) == 0 {
        // Without a handler such a write kills, as in other programs.
        let _ = signal_hook::flag::register(limit, Arc::default());
    }
}

/// Whether a file is readable or its other end is closed.
pub(crate) fn is_readable(file: impl AsFd) -> bool {
    let mut files = [PollFd::new(&file, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut files, Some(&now)).is_ok_and(|count| count > 0)
}

/// Whether this signal asks a process to end.
pub(crate) fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Capacity for `/proc/self/status`, so that one read suffices.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STATUS_BYTES: usize = 4096;

/// The signals that were ignored when this process started, one bit each.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn ignored() -> u64 {
    let mut status = String::with_capacity(STATUS_BYTES);
    // Without /proc, no signal is taken as ignored.
    let _ = std::fs::File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status));
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Without /proc this needs `sigaction`, which is unsafe: no signal is taken as ignored.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn ignored() -> u64 {
    0
}
