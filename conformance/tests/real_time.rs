//! The statements of the simulation with real clocks, real threads and a real `SIGSTOP`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tenure_conformance::fault::{Distant, Lossy, Network, Weather};
use tenure_core::blocking::block_on;
use tenure_core::layers::Retries;
use tenure_core::{BackgroundRuntime, Engine, Locks, Memory, Runtime};

/// Eight clients increment a number under one lock, and never two at once.
fn count_together(locks: &[Locks]) {
    let (inside, count) = (AtomicU32::new(0), AtomicU32::new(0));
    block_on(join_all(locks.iter().map(|locks| async {
        let mutex = locks.mutex("count").ttl(Duration::from_secs(2));
        let mut counted = 0;
        while counted < 5 {
            // An unknown outcome is an error, and leaves nothing behind.
            let Ok(guard) = mutex.lock().await else { continue };
            if guard.check().is_err() {
                continue;
            }
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
            count.fetch_add(1, Ordering::SeqCst);
            counted += 1;
            inside.fetch_sub(1, Ordering::SeqCst);
            let _ = guard.release().await; // The outcome may be unknown.
        }
    })));
    assert_eq!(count.load(Ordering::SeqCst), 8 * 5);
    block_on(join_all(locks.iter().map(Locks::flush)));
}

fn host() -> Arc<dyn Runtime> {
    Arc::new(BackgroundRuntime::for_timers())
}

fn no_ticket_is_left(memory: &Memory) {
    let keys = block_on(memory.keys("")).expect("memory answers");
    assert!(keys.is_empty(), "left behind in {keys:?}");
}

#[test]
fn a_lossy_wire_makes_no_two_holders_and_leaves_nothing_behind() {
    let memory = Memory::new();
    let locks = || {
        let host = host();
        let lossy = Lossy::new(memory.clone(), host.clone(), 100, 100);
        Locks::with_retries(lossy, host, Retries::times(2).after(Duration::from_millis(1)))
    };
    count_together(&(0..8).map(|_| locks()).collect::<Vec<_>>());
    no_ticket_is_left(&memory);
}

#[test]
fn a_network_makes_no_two_holders_and_leaves_nothing_behind() {
    let (memory, store) = (Memory::new(), host());
    let weather = Weather {
        lost_requests: 30,
        lost_replies: 30,
        doubled: 0,
        late: 50,
        delay: Duration::from_millis(2),
        late_by: Duration::from_millis(20),
    };
    let locks = || {
        let client = host();
        let (network, patience) = (Network::new(weather), Duration::from_millis(50));
        let far = Distant::new(memory.clone(), store.clone(), client.clone(), network, patience);
        Locks::on(far, client)
    };
    count_together(&(0..8).map(|_| locks()).collect::<Vec<_>>());
    no_ticket_is_left(&memory);
}

/// This test is also the process that is stopped: its parent starts it again with a variable set.
#[cfg(unix)]
mod stopped {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tenure_core::{Locks, Memory};

    const HOLDS: &str = "TENURE_TEST_HOLDS";
    const TTL: Duration = Duration::from_millis(800);

    #[test]
    fn the_first_thing_a_stopped_process_learns_is_its_loss() {
        if std::env::var_os(HOLDS).is_some() {
            hold();
            return;
        }
        let mut child = start();
        let output = child.0.stdout.take().expect("the pipe was requested");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let held = lines.by_ref().filter_map(|line| report(&line)).nth(20);
        assert!(matches!(held, Some((_, true))), "the child never held: {held:?}");
        child.signal("-STOP");
        sleep(TTL * 2);
        let continued = now_us();
        child.signal("-CONT");
        // Lines from before the stop may still be in the pipe.
        let mut after = lines.filter_map(|line| report(&line)).filter(|(at, _)| *at >= continued);
        let (at, believed) = after.next().expect("the child prints after it continues");
        assert!(!believed, "the child believed to hold {} µs after it continued", at - continued);
    }

    /// Prints its last request and whether it still holds, in a loop.
    fn hold() {
        let locks = Locks::new(Memory::new()).blocking();
        let mutex = locks.mutex("job").into_inner().ttl(TTL);
        let guard = tenure_core::blocking::block_on(mutex.lock()).expect("the lock is free");
        loop {
            let at = now_us();
            let holds = guard.check().is_ok();
            println!("\nreport {at} {holds}");
            let _ = std::io::stdout().flush(); // The parent may be gone.
            if !holds {
                return;
            }
            sleep(Duration::from_millis(5));
        }
    }

    fn report(line: &str) -> Option<(u64, bool)> {
        let (at, holds) = line.strip_prefix("report ")?.split_once(' ')?;
        Some((at.parse().ok()?, holds.parse().ok()?))
    }

    fn now_us() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(0)
    }

    /// A child process that is killed at the end of the test.
    struct Started(Child);

    impl Started {
        fn signal(&self, signal: &str) {
            let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "cannot send {signal}");
        }
    }

    impl Drop for Started {
        fn drop(&mut self) {
            let _ = self.0.kill(); // A failure means that it is dead already.
            let _ = self.0.wait();
        }
    }

    fn start() -> Started {
        let name = "stopped::the_first_thing_a_stopped_process_learns_is_its_loss";
        let this = std::env::current_exe().expect("a test knows its own file");
        let child = Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env(HOLDS, "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Started(child.expect("a test can be started again"))
    }
}
