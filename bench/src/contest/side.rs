//! One of two processes that hand a lock to each other, driven by lines of its standard input.
//!
//! It answers `lock` when it holds the lock, with the time and the token. It answers `release` when
//! the lock is released, with the time of the call. All processes share the clock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use super::contender::{Contender, Held};
use super::kind::Kind;
use super::workers::workers;

/// The prefix of an answer that reports a failure.
pub(crate) const FAILED: &str = "failed: ";

/// The failure of a side that does not answer.
pub(crate) const GONE: &str = "**its process came to an early end**";

const ROLE: &str = "__contest_side";

/// A handle to such a process.
pub(crate) struct Side {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Side {
    /// Starts this program as the first or the second process of a kind.
    pub(crate) fn of(kind: Kind, side: usize, key: &str, urls: &[String]) -> Self {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([ROLE, kind.name, &side.to_string(), key]).args(urls);
        Self::start(&mut program).unwrap()
    }

    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|error| error.to_string())?;
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut side = Self { process, to, from: BufReader::new(from) };
        match side.hear().as_str() {
            "ready" => Ok(side),
            other => Err(format!("the helper process failed to start: {other}")),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    pub(crate) fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // A failure means that it has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Does the work of such a process of one of these kinds, if this is one.
pub(crate) fn be_one(arguments: &[String], mut kinds: impl Iterator<Item = Kind>) -> bool {
    let [role, kind, side, key, urls @ ..] = arguments else { return false };
    if role != ROLE {
        return false;
    }
    let kind = kinds.find(|one| one.name == kind).expect("the kind exists");
    let side = side.parse().unwrap();
    let runtime = workers();
    let contender = runtime.block_on(kind.connect(urls, side));
    println!("ready");
    let mut held: Option<Held> = None;
    for line in std::io::stdin().lines() {
        let answer = match line.unwrap().as_str() {
            "lock" => {
                let locked = runtime.block_on(runtime.spawn(lock(contender.clone(), key.clone())));
                locked.unwrap().map_or_else(
                    |failure| format!("{FAILED}{failure}"),
                    |(at, lock)| {
                        let token = lock.token.unwrap_or_default();
                        held = Some(lock);
                        format!("{at} {token}")
                    },
                )
            }
            "release" => {
                let held = held.take().expect("the lock is held");
                runtime.block_on(runtime.spawn(release(held))).unwrap().to_string()
            }
            other => panic!("`{other}` is not a command of a side"),
        };
        println!("{answer}");
    }
    true
}

async fn lock(contender: Arc<dyn Contender>, key: String) -> Result<(u64, Held), String> {
    let held = contender.lock(&key).await?;
    Ok((now(), held))
}

async fn release(held: Held) -> u64 {
    let at = now();
    held.release.await;
    at
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
