//! A helper process, which locks on request, and which its parent can kill.
//!
//! The test program starts itself again with the URL of the store in a variable, and runs the one
//! test that is the entry point. They exchange lines through the standard input and output of the
//! helper. The helper marks its lines, because the test runner writes there too.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::{ErrorKind, Locks, Mutex, MutexGuard, Result};

/// The variable with the URL of the store, set in helpers only.
const STORE: &str = "TENURE_CONFORMANCE_HELPER";
/// The mark of a helper's lines.
const MARK: &str = "tenure> ";
/// The ttl of a ticket that must not expire on a busy machine.
const LONG_TTL: Duration = Duration::from_secs(3600);
/// The renewal period of such a ticket: the longest wait of a waiter that misses its notification.
const LONG_TTL_BEAT: Duration = Duration::from_secs(10);
/// Time limit of one answer. It ends a hang, and no case depends on it, because a loaded machine is
/// slow.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs as a helper, if this process was started as one; otherwise returns at once.
///
/// The suite calls it in a test named `helper_process`, with the function that opens the store.
pub fn serve<F: Future<Output = Result<Locks>>>(open: impl Fn(String) -> F) {
    serve_also(open, |_, line| panic!("unknown command of a helper: {line:?}"));
}

/// The same, for tests with commands of their own.
pub fn serve_also<F: Future<Output = Result<Locks>>>(
    open: impl Fn(String) -> F,
    also: impl Fn(&MutexGuard, &str) -> String,
) {
    let Ok(store) = std::env::var(STORE) else { return };
    let locks = loop {
        match block_on(open(store.clone())) {
            Err(error) if error.is_retryable() => {}
            opened => break opened.expect("the helper can open the store"),
        }
    };
    let mut held = None;
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("the line is UTF-8");
        say(&obey(&locks, &mut held, &line, &also));
    }
}

fn say(answer: &str) {
    println!("{MARK}{answer}");
}

fn obey(
    locks: &Locks,
    held: &mut Option<MutexGuard>,
    line: &str,
    also: &impl Fn(&MutexGuard, &str) -> String,
) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["lock", key, ttl_ms] => {
            let ttl = Duration::from_millis(ttl_ms.parse().expect("a ttl is a number"));
            let mutex = locks.mutex(key).ttl(ttl).renew_every(ttl / 5);
            let guard = locked(&mutex);
            let answer = format!("held {}", guard.token());
            *held = Some(guard);
            answer
        }
        ["check"] => match held.as_ref().map(MutexGuard::check) {
            Some(Ok(())) => "held".to_owned(),
            _ => "lost".to_owned(),
        },
        ["release"] => match held.take().map(|guard| block_on(guard.release())) {
            Some(Ok(())) => "released".to_owned(),
            _ => "lost".to_owned(),
        },
        ["count", key, times, file] => {
            let times = times.parse().expect("the count is a number");
            count(locks, key, times, file);
            "counted".to_owned()
        }
        _ => also(held.as_ref().expect("the helper holds a lock"), line),
    }
}

/// Locks, and retries while the store does not answer: the machine may be busy, or this process was
/// stopped for longer than its ttl.
fn locked(mutex: &Mutex) -> MutexGuard {
    loop {
        match block_on(mutex.lock()) {
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) => {}
            locked => return locked.expect("the lock is granted"),
        }
    }
}

/// Under the lock, reads a number from a file and writes its successor, `times` times.
fn count(locks: &Locks, key: &str, times: u32, file: &str) {
    let mutex = locks.mutex(key).ttl(LONG_TTL).renew_every(LONG_TTL_BEAT);
    for _ in 0..times {
        let guard = locked(&mutex);
        let number = std::fs::read_to_string(file).expect("the number can be read");
        let number: u32 = number.parse().expect("the file has a number");
        std::fs::write(file, (number + 1).to_string()).expect("the number can be written");
        match block_on(guard.release()) {
            // The number is written, so the outcome of the release does not matter.
            Err(error) if error.is_retryable() => {}
            released => released.expect("the lock was held"),
        }
    }
}

/// The parent's handle of a helper. Dropping it kills the helper.
pub struct Helper {
    child: Child,
    answers: Receiver<String>,
    input: ChildStdin,
}

impl Helper {
    /// Starts a helper for the store of this URL; `test` is its entry point.
    pub fn start(store: &str, test: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let output = child.stdout.take().expect("the pipe was requested");
        let input = child.stdin.take().expect("the pipe was requested");
        let (heard, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if let Some((_, said)) = line.split_once(MARK)
                    && heard.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        let helper = Self { child, answers, input };
        assert_eq!(helper.hear(), "ready");
        helper
    }

    /// Sends a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the helper reads");
        self.input.flush().expect("the helper reads");
    }

    /// Waits for its next line.
    pub fn hear(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the helper answers")
    }

    /// Waits for the token of its lock.
    pub fn hear_token(&self) -> u64 {
        let answer = self.hear();
        let token = answer.strip_prefix("held ").expect("the helper holds the lock");
        token.parse().expect("a token is a number")
    }

    /// Kills it with `SIGKILL`.
    pub fn kill(&mut self) {
        self.child.kill().expect("the helper can be killed");
        self.child.wait().expect("the helper ends");
    }

    /// Stops it with `SIGSTOP`.
    pub fn stop(&self) {
        self.signal("-STOP");
        self.wait_until_stopped();
    }

    /// Waits until every thread has stopped, which is later than the signal.
    #[cfg(unix)]
    fn wait_until_stopped(&self) {
        use rustix::process::{Pid, WaitOptions, waitpid};

        let waited = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        let status = waited.expect("a child can be waited for").map(|(_, status)| status);
        assert!(status.is_some_and(rustix::process::WaitStatus::stopped), "the helper stops");
    }

    #[cfg(not(unix))]
    fn wait_until_stopped(&self) {}

    /// Continues it with `SIGCONT`.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "a signal can be sent");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // A failure means that it is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
