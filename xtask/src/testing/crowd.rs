//! A crowd of programs that run side by side: so many at a time, each with its output in one piece.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read as _};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After so long without a word it is said who still runs: one that never ends would not be known.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One program that is to run.
pub(crate) struct Job {
    pub name: String,
    pub command: Command,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub name: String,
    pub took: Duration,
    /// All that it wrote, to its output and to its errors, in the order in which it wrote it.
    pub output: Vec<u8>,
    /// Whether its exit code says that all is well.
    pub passed: bool,
}

/// What a worker tells the one who prints.
enum News {
    Began(String),
    Ended(Ended),
}

/// Runs all of them in their order, so many at a time, and tells of each when it has ended.
pub(crate) fn run(jobs: impl IntoIterator<Item = Job>, at_once: usize, told: impl FnMut(Ended)) {
    let waiting: Mutex<VecDeque<Job>> = Mutex::new(jobs.into_iter().collect());
    let (says, news) = channel();
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (says, waiting) = (says.clone(), &waiting);
            scope.spawn(move || work(waiting, &says));
        }
        drop(says);
        listen(&news, told);
    });
}

/// Runs one after the other of those that nobody has taken.
fn work(waiting: &Mutex<VecDeque<Job>>, says: &Sender<News>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(Job { name, command }) = next else { return };
        let began = Instant::now();
        // Who listens goes last.
        let _heard = says.send(News::Began(name.clone()));
        let (output, passed) = match finish(command) {
            Ok(ended) => ended,
            Err(error) => (format!("{name} could not be run: {error}.\n").into_bytes(), false),
        };
        let ended = Ended { name, took: began.elapsed(), output, passed };
        let _heard = says.send(News::Ended(ended));
    }
}

/// Runs one to its end. The pipe ends when all have let go of it, the program's own children too.
fn finish(mut command: Command) -> io::Result<(Vec<u8>, bool)> {
    let (mut reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command has the writing ends, and without this the pipe would never end.
    drop(command);
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    Ok((output, child.wait()?.success()))
}

/// Passes on what has ended, until all have.
fn listen(news: &Receiver<News>, mut told: impl FnMut(Ended)) {
    let mut running = BTreeSet::new();
    loop {
        match news.recv_timeout(SILENCE_MAX) {
            Ok(News::Began(name)) => {
                running.insert(name);
            }
            Ok(News::Ended(ended)) => {
                running.remove(&ended.name);
                told(ended);
            }
            Err(RecvTimeoutError::Timeout) => {
                let names: Vec<&str> = running.iter().map(String::as_str).collect();
                println!("Still running: {}.", names.join(", "));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Job, run};
    use std::process::Command;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.into(), command }
    }

    fn all(jobs: Vec<Job>, at_once: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        run(jobs, at_once, |one| ended.push(one));
        ended
    }

    #[test]
    fn the_output_of_each_is_in_one_piece_and_in_order() {
        let script = "for at in 1 2 3; do echo out $at; echo err $at >&2; done";
        let jobs = ["a", "b", "c", "d"].map(|name| shell(name, script));
        let ended = all(jobs.into(), 3);
        assert_eq!(ended.len(), 4);
        for one in ended {
            let output = String::from_utf8_lossy(&one.output).into_owned();
            assert_eq!(output, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
            assert!(one.passed);
        }
    }

    #[test]
    fn two_run_side_by_side_and_a_third_waits() {
        let folder = std::env::temp_dir().join(format!("tenure-crowd-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("there is room for a folder");
        let at = folder.display();
        // Each of the first two ends only when the other has begun.
        let meets = |own: &str, other: &str| {
            format!("touch {at}/{own}; while [ ! -e {at}/{other} ]; do sleep 0.01; done")
        };
        let jobs = vec![
            shell("a", &meets("a", "b")),
            shell("b", &meets("b", "a")),
            shell("c", &format!("test -e {at}/a && test -e {at}/b")),
        ];
        let ended = all(jobs, 2);
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
        assert!(ended.iter().all(|one| one.passed), "{ended:?}");
    }

    #[test]
    fn one_that_fails_or_never_begins_is_told_and_the_others_run_on() {
        let jobs = vec![
            shell("fails", "echo why; exit 3"),
            Job { name: "absent".into(), command: Command::new("/nowhere/at/all") },
            shell("passes", "true"),
        ];
        let ended = all(jobs, 1);
        let passed: Vec<_> = ended.iter().map(|one| one.passed).collect();
        assert_eq!(passed, [false, false, true]);
        assert_eq!(ended[0].output, b"why\n");
        assert!(String::from_utf8_lossy(&ended[1].output).starts_with("absent could not be run"));
    }
}
