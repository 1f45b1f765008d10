//! Runs test programs in parallel, and keeps the output of each in one piece.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read as _};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time without an event after which the running programs are listed, to show one that hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A program to run.
pub(crate) struct Job {
    pub name: String,
    pub command: Command,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub name: String,
    pub took: Duration,
    /// Its standard output and standard error, interleaved as written.
    pub output: Vec<u8>,
    /// Whether it exited with 0.
    pub passed: bool,
}

enum Event {
    Started(String),
    Ended(Ended),
}

/// Runs the jobs in their order, `at_once` at a time, and calls `on_end` after each.
pub(crate) fn run(jobs: impl IntoIterator<Item = Job>, at_once: usize, on_end: impl FnMut(Ended)) {
    let queue: Mutex<VecDeque<Job>> = Mutex::new(jobs.into_iter().collect());
    let (sender, events) = channel();
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || work(queue, &sender));
        }
        drop(sender);
        receive(&events, on_end);
    });
}

/// Runs the next job of the queue until the queue is empty.
fn work(queue: &Mutex<VecDeque<Job>>, sender: &Sender<Event>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(Job { name, command }) = next else { return };
        let started = Instant::now();
        let _ = sender.send(Event::Started(name.clone())); // The receiver outlives all workers.
        let (output, passed) = match finish(command) {
            Ok(ended) => ended,
            Err(error) => (format!("cannot run {name}: {error}\n").into_bytes(), false),
        };
        let ended = Ended { name, took: started.elapsed(), output, passed };
        let _ = sender.send(Event::Ended(ended)); // As above.
    }
}

/// Runs one program until its pipe is closed, also by its children, and it has exited.
fn finish(mut command: Command) -> io::Result<(Vec<u8>, bool)> {
    let (mut reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command owns writing ends: while it lives, the reader sees no end.
    drop(command);
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    Ok((output, child.wait()?.success()))
}

/// Calls `on_end` for each program that has ended, until all workers have.
fn receive(events: &Receiver<Event>, mut on_end: impl FnMut(Ended)) {
    let mut running = BTreeSet::new();
    loop {
        match events.recv_timeout(SILENCE_MAX) {
            Ok(Event::Started(name)) => {
                running.insert(name);
            }
            Ok(Event::Ended(ended)) => {
                running.remove(&ended.name);
                on_end(ended);
            }
            Err(RecvTimeoutError::Timeout) => {
                let names: Vec<&str> = running.iter().map(String::as_str).collect();
                println!("still running: {}", names.join(", "));
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
        let folder = std::env::temp_dir().join(format!("tenure-runner-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temp_dir is writable");
        let at = folder.display();
        // Each of the first two ends only when the other has started.
        let meets = |own: &str, other: &str| {
            format!("touch {at}/{own}; while [ ! -e {at}/{other} ]; do sleep 0.01; done")
        };
        let jobs = vec![
            shell("a", &meets("a", "b")),
            shell("b", &meets("b", "a")),
            shell("c", &format!("test -e {at}/a && test -e {at}/b")),
        ];
        let ended = all(jobs, 2);
        std::fs::remove_dir_all(&folder).expect("the folder was created above");
        assert!(ended.iter().all(|one| one.passed), "{ended:?}");
    }

    #[test]
    fn a_program_that_fails_or_cannot_start_does_not_stop_the_others() {
        let jobs = vec![
            shell("fails", "echo why; exit 3"),
            Job { name: "absent".into(), command: Command::new("/nowhere/at/all") },
            shell("passes", "true"),
        ];
        let ended = all(jobs, 1);
        let passed: Vec<_> = ended.iter().map(|one| one.passed).collect();
        assert_eq!(passed, [false, false, true]);
        assert_eq!(ended[0].output, b"why\n");
        assert!(String::from_utf8_lossy(&ended[1].output).starts_with("cannot run absent: "));
    }
}
