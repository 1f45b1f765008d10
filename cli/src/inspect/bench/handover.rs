//! The case with two processes: from a release until the other process holds.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::process::{Child, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tenure::Locks;
use tenure::blocking::block_on;

use super::outcome::Outcome;
use super::{Bench, now_ns};
use crate::failure::{Failure, REFUSED};
use crate::store::{Address, VARIABLE};
use crate::supervisor::own_executable;

/// Poll interval while the partner joins the line, long enough not to slow it down.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// Time limit for the partner to join the line.
const LOOK_MAX: Duration = Duration::from_secs(10);
/// In a store without order, a waiter is in no line; it has tried for the lock after this time.
const TRIES_AFTER: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Partner {
    key: String,
}

/// The second process: for each byte that it reads, it waits for the lock and reports the time.
pub(crate) fn partner(at: &Address, args: &Partner) -> Result<u8, Failure> {
    serve(&at.open()?, &args.key, io::stdin(), io::stdout())?;
    Ok(0)
}

/// A process or thread that waits for the lock at each request.
struct Waiter {
    requests: Option<Box<dyn Write>>,
    answers: Box<dyn BufRead>,
    runner: Runner,
}

enum Runner {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
}

pub(super) fn handover(bench: &Bench) -> Result<Outcome, Failure> {
    let key = bench.key("handover");
    let started = if bench.is_shared() { process(&bench.url, &key) } else { task(bench, &key) };
    let mut waiter = started.map_err(|error| failed(&error))?;
    let began = Instant::now();
    let mut times_ns = Vec::new();
    while began.elapsed() < bench.time {
        times_ns.push(once(&bench.locks, &key, &mut waiter)?);
    }
    Ok(Outcome::new("handover", began.elapsed(), times_ns))
}

fn once(locks: &Locks, key: &str, waiter: &mut Waiter) -> Result<u64, Failure> {
    let guard = block_on(locks.mutex(key).lock())?;
    waiter.request().map_err(|error| failed(&error))?;
    if locks.guarantees().fair {
        waiter.joins_the_line(locks, key)?;
    } else {
        thread::sleep(TRIES_AFTER);
    }
    let released_ns = now_ns();
    block_on(guard.release())?;
    let held_ns = waiter.answer().map_err(|error| failed(&error))?;
    Ok(held_ns.saturating_sub(released_ns))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(REFUSED, format!("the second process of the hand-over failed: {error}"))
}

fn process(url: &str, key: &str) -> io::Result<Waiter> {
    let mut process = own_executable()?
        .args(["bench-partner", "--", key])
        .env(VARIABLE, url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let gone = || io::Error::other("it has no pipe");
    let requests = Box::new(process.stdin.take().ok_or_else(gone)?);
    let answers = Box::new(BufReader::new(process.stdout.take().ok_or_else(gone)?));
    Ok(Waiter { requests: Some(requests), answers, runner: Runner::Process(process) })
}

/// Starts a thread as the partner, for a store that only this process sees.
fn task(bench: &Bench, key: &str) -> io::Result<Waiter> {
    let (requested, requests): (PipeReader, PipeWriter) = io::pipe()?;
    let (answers, answer): (PipeReader, PipeWriter) = io::pipe()?;
    let (locks, key) = (bench.locks.clone(), key.to_owned());
    let thread = thread::spawn(move || {
        let _ = serve(&locks, &key, requested, answer); // a closed pipe reports a failure
    });
    let (requests, answers) = (Some(Box::new(requests) as _), Box::new(BufReader::new(answers)));
    Ok(Waiter { requests, answers, runner: Runner::Thread(Some(thread)) })
}

fn serve(
    locks: &Locks,
    key: &str,
    mut requests: impl Read,
    mut answers: impl Write,
) -> Result<(), Failure> {
    while requests.read(&mut [0])? > 0 {
        let guard = block_on(locks.mutex(key).lock())?;
        let held_ns = now_ns();
        block_on(guard.release())?;
        writeln!(answers, "{held_ns}")?;
        answers.flush()?;
    }
    Ok(())
}

impl Waiter {
    fn request(&mut self) -> io::Result<()> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(b"!")?;
        requests.flush()
    }

    fn joins_the_line(&mut self, locks: &Locks, key: &str) -> Result<(), Failure> {
        let began = Instant::now();
        while block_on(locks.line(key))?.len() < 2 {
            if self.is_gone() {
                return Err(failed(&io::Error::other("it has ended")));
            }
            if began.elapsed() > LOOK_MAX {
                return Err(failed(&io::Error::other("it does not join the line")));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn answer(&mut self) -> io::Result<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.trim().parse().map_err(|_| io::Error::other("it has ended"))
    }

    fn is_gone(&mut self) -> bool {
        match &mut self.runner {
            Runner::Process(process) => !matches!(process.try_wait(), Ok(None)),
            Runner::Thread(thread) => thread.as_ref().is_none_or(JoinHandle::is_finished),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // The partner ends when its input closes.
        self.requests = None;
        match &mut self.runner {
            Runner::Process(process) => {
                let _ = process.wait(); // it is reaped, or was before
            }
            Runner::Thread(thread) => {
                let _ = thread.take().map(JoinHandle::join); // its panic was printed already
            }
        }
    }
}
