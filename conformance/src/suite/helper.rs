//! A helper process: it locks what its parent says, so that its parent can kill it.
//!
//! The test program starts itself again, with a variable that says where the store is, and asks for the
//! one test in which the helper begins. They speak in lines: the parent through the helper's input,
//! the helper through its output, where its lines are marked because the test runner writes there too.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::{ErrorKind, Guard, Locks, Mutex, Result};

/// Where the store is; only a helper has it.
const STORE: &str = "TENURE_CONFORMANCE_HELPER";
/// Marks what a helper says.
const MARK: &str = "tenure> ";
/// Life of a ticket that must outlive whatever a busy machine does to its holder.
const LONG_TTL: Duration = Duration::from_secs(3600);
/// Heartbeat of such a ticket: the longest that a waiter waits if it is not rung.
const LONG_TTL_BEAT: Duration = Duration::from_secs(10);
/// Time limit of one answer. It ends a hang, and nothing depends on it: a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(600);

/// Serves as a helper, if this process was started as one; else it returns at once.
///
/// The suite calls it in a test named `helper_process`, with what opens the store.
pub fn serve<F: Future<Output = Result<Locks>>>(open: impl Fn(String) -> F) {
    serve_also(open, |_, line| panic!("the helper does not understand {line:?}"));
}

/// The same, for one that also does what only its own tests ask of a holder.
pub fn serve_also<F: Future<Output = Result<Locks>>>(
    open: impl Fn(String) -> F,
    also: impl Fn(&Guard, &str) -> String,
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
        let line = line.expect("the parent speaks UTF-8");
        say(&obey(&locks, &mut held, &line, &also));
    }
}

fn say(answer: &str) {
    println!("{MARK}{answer}");
}

fn obey(
    locks: &Locks,
    held: &mut Option<Guard>,
    line: &str,
    also: &impl Fn(&Guard, &str) -> String,
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
        ["check"] => match held.as_ref().map(|guard| guard.check()) {
            Some(Ok(())) => "held".to_owned(),
            _ => "lost".to_owned(),
        },
        ["release"] => match held.take().map(|guard| block_on(guard.release())) {
            Some(Ok(())) => "released".to_owned(),
            _ => "lost".to_owned(),
        },
        ["count", key, times, file] => {
            let times = times.parse().expect("so many times is a number");
            count(locks, key, times, file);
            "counted".to_owned()
        }
        _ => also(held.as_ref().expect("the helper holds something"), line),
    }
}

/// Locks it. A store that does not answer in time is asked again: the machine may be busy, or this
/// process was stopped for longer than its ticket lived.
fn locked(mutex: &Mutex) -> Guard {
    loop {
        match block_on(mutex.lock()) {
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) => {}
            locked => return locked.expect("it can be locked"),
        }
    }
}

/// Reads a number from a file and writes it back plus one, as often as asked, each time under the lock.
fn count(locks: &Locks, key: &str, times: u32, file: &str) {
    let mutex = locks.mutex(key).ttl(LONG_TTL).renew_every(LONG_TTL_BEAT);
    for _ in 0..times {
        let guard = locked(&mutex);
        let number = std::fs::read_to_string(file).expect("the number can be read");
        let number: u32 = number.parse().expect("the file has a number");
        std::fs::write(file, (number + 1).to_string()).expect("the number can be written");
        match block_on(guard.release()) {
            // The number is written: it does not matter here when the lock is given back.
            Err(error) if error.is_retryable() => {}
            released => released.expect("it was held"),
        }
    }
}

/// The parent's end of a helper, which is killed when this is dropped.
pub struct Helper {
    child: Child,
    answers: Receiver<String>,
    input: ChildStdin,
}

impl Helper {
    /// Starts a helper for the store that is found by this text; `test` is where it begins.
    pub fn start(store: &str, test: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(STORE, store)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let output = child.stdout.take().expect("the output was asked for as a pipe");
        let input = child.stdin.take().expect("the input was asked for as a pipe");
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

    /// Says a line to it.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the helper listens");
        self.input.flush().expect("the helper listens");
    }

    /// Waits for its next line.
    pub fn hear(&self) -> String {
        self.answers.recv_timeout(PATIENCE).expect("the helper answers")
    }

    /// Waits for it to say which number it holds.
    pub fn hear_token(&self) -> u64 {
        let answer = self.hear();
        let token = answer.strip_prefix("held ").expect("the helper holds it");
        token.parse().expect("a token is a number")
    }

    /// Ends it as `SIGKILL` does: it has no last word.
    pub fn kill(&mut self) {
        self.child.kill().expect("the helper can be killed");
        self.child.wait().expect("the helper ends");
    }

    /// Stops it where it stands.
    pub fn stop(&self) {
        self.signal("-STOP");
        self.wait_until_stopped();
    }

    /// The signal is sent before every thread has stopped.
    #[cfg(unix)]
    fn wait_until_stopped(&self) {
        use rustix::process::{Pid, WaitOptions, waitpid};

        let waited = waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED);
        let status = waited.expect("a child can be waited for").map(|(_, status)| status);
        assert!(status.is_some_and(rustix::process::WaitStatus::stopped), "it stops");
    }

    #[cfg(not(unix))]
    fn wait_until_stopped(&self) {}

    /// Lets it go on.
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
        // It may be dead already, which is as good.
        let _dead = self.child.kill();
        let _ended = self.child.wait();
    }
}
