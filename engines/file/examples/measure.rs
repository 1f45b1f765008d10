//! Measures what a lock costs here, beside the least that the system asks for:
//! `cargo run --release -p tenure-file --example measure`.

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(not(unix))]
fn main() {
    eprintln!("there is no file store on this system");
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::future::Future;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;
    use std::pin::pin;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread::{self, Thread};
    use std::time::{Duration, Instant, SystemTime};

    use rustix::time::{ClockId, clock_gettime};
    use tenure_core::{Engine, Key, LeaveMode, Share, Ticket, TicketState, WaitMode};
    use tenure_file::FileStore;

    const ROUNDS: u32 = 200_000;
    const HOPS: u32 = 20_000;

    pub(crate) fn main() {
        let arguments: Vec<String> = std::env::args().collect();
        match arguments.get(1).map(String::as_str) {
            Some("hand-over") => return hand_over(Path::new(&arguments[2])),
            Some("echo") => return echo(),
            Some("count") => return count(Path::new(&arguments[2])),
            _ => {}
        }
        let dir = std::env::temp_dir().join(format!("tenure-measure-{}", std::process::id()));
        let store = FileStore::open(&dir).unwrap();
        say("floor: open, flock, 8 bytes, unlock, close", ROUNDS, || floor(&dir.join("floor")));
        for _ in 0..3 {
            say("join and leave, one key", ROUNDS, || free(&store, 1));
        }
        say("join and leave, 10 000 keys", ROUNDS, || free(&store, 10_000));
        longest(&store);
        say("pipe, one hop", HOPS * 2, ping_pong);
        for _ in 0..3 {
            say("a turn of two processes: join again, hand over", HOPS * 2, || {
                pair("hand-over", &dir);
            });
        }
        say("four processes, one key", 4 * HOPS, || four(&dir));
        drop(store);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Says how long one took, and how much of a processor it used: on a busy machine only that
    /// counts.
    fn say(what: &str, count: u32, work: impl FnOnce()) {
        let (start, before) = (Instant::now(), used(ClockId::ProcessCPUTime));
        work();
        let one = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(count);
        let after = used(ClockId::ProcessCPUTime);
        let (took, used) = (one(start.elapsed()), one(after.saturating_sub(before)));
        println!("{what:<48} {took:>9.2} µs {used:>9.2} µs of a processor");
    }

    fn used(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
    }

    /// The longest verbs of a million, by the clock and by what they used of a processor.
    fn longest(store: &FileStore) {
        let key = Key::new("longest").unwrap();
        let (mut took, mut uses) = (Vec::new(), Vec::new());
        let mut timed = |verb: &mut dyn FnMut()| {
            let (start, before) = (Instant::now(), used(ClockId::ThreadCPUTime));
            verb();
            took.push(start.elapsed());
            uses.push(used(ClockId::ThreadCPUTime).saturating_sub(before));
        };
        for _ in 0..500_000 {
            let ticket = ticket(key.clone());
            timed(&mut || {
                block_on(store.join(&ticket, WaitMode::NoWait)).unwrap().unwrap();
            });
            timed(&mut || {
                block_on(store.leave(&ticket, LeaveMode::Now)).unwrap();
            });
        }
        for (what, times) in [("took", &mut took), ("used", &mut uses)] {
            times.sort_unstable();
            let us = |at: usize| times[at].as_secs_f64() * 1e6;
            let (p50, p9999, last) = (us(500_000), us(999_900), us(999_999));
            println!(
                "a million verbs {what}: p50 {p50:.1} µs, p99.99 {p9999:.0} µs, longest {last:.0} µs"
            );
        }
    }

    fn floor(path: &Path) {
        for round in 0..ROUNDS {
            let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
            file.lock().unwrap();
            file.write_all_at(&u64::from(round).to_le_bytes(), 0).unwrap();
            file.unlock().unwrap();
        }
    }

    fn free(store: &FileStore, keys: u32) {
        let keys: Vec<_> = (0..keys).map(|n| Key::new(format!("key {n}")).unwrap()).collect();
        for key in keys.iter().cycle().take(ROUNDS as usize) {
            let ticket = ticket(key.clone());
            let place = block_on(store.join(&ticket, WaitMode::NoWait)).unwrap().unwrap();
            assert_eq!(place.state, TicketState::Holding);
            block_on(store.leave(&ticket, LeaveMode::Now)).unwrap();
        }
    }

    /// Two processes that always wait for one another: each stands in line again before it leaves.
    /// Says how long it takes from the one's leaving to the other's being served.
    fn hand_over(dir: &Path) {
        let store = FileStore::open(dir).unwrap();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let left = options.open(dir.join("left")).unwrap();
        let key = Key::new("hand-over").unwrap();
        let mut held = ticket(key.clone());
        let mut place = block_on(store.join(&held, WaitMode::Wait)).unwrap().unwrap();
        let mut took = Vec::new();
        for _ in 0..HOPS {
            if place.state == TicketState::Waiting {
                wait(&store, &held);
                let mut then = [0; 8];
                left.read_exact_at(&mut then, 0).unwrap();
                took.push(now_ns() - u64::from_le_bytes(then));
            }
            let next = ticket(key.clone());
            place = block_on(store.join(&next, WaitMode::Wait)).unwrap().unwrap();
            left.write_all_at(&now_ns().to_le_bytes(), 0).unwrap();
            block_on(store.leave(&held, LeaveMode::Now)).unwrap();
            held = next;
        }
        block_on(store.leave(&held, LeaveMode::Now)).unwrap();
        took.sort_unstable();
        let at = |percent: usize| took[took.len() * percent / 100] / 1000;
        println!("  from leaving to being served: p50 {} µs, p99 {} µs", at(50), at(99));
    }

    fn now_ns() -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_nanos()).unwrap()
    }

    fn wait(store: &FileStore, ticket: &Ticket) {
        while block_on(store.watch(ticket, TicketState::Waiting)).unwrap()
            == tenure_core::Wake::Look
        {
            let place = block_on(store.renew(ticket)).unwrap().unwrap();
            if place.state == TicketState::Holding {
                return;
            }
        }
    }

    fn with_lock(store: &FileStore, work: impl FnOnce()) {
        let ticket = ticket(Key::new("hand-over").unwrap());
        let place = block_on(store.join(&ticket, WaitMode::Wait)).unwrap().unwrap();
        if place.state == TicketState::Waiting {
            wait(store, &ticket);
        }
        work();
        block_on(store.leave(&ticket, LeaveMode::Now)).unwrap();
    }

    fn pair(what: &str, dir: &Path) {
        let start = || Command::new(exe()).arg(what).arg(dir).spawn().unwrap();
        let pair = [start(), start()];
        for mut child in pair {
            assert!(child.wait().unwrap().success());
        }
    }

    /// The counter is read and written without any care, but for the lock.
    fn four(dir: &Path) {
        let counter = dir.join("counter");
        std::fs::write(&counter, "0").unwrap();
        let children: Vec<_> =
            (0..4).map(|_| Command::new(exe()).arg("count").arg(dir).spawn().unwrap()).collect();
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let count = std::fs::read_to_string(&counter).unwrap();
        assert_eq!(count, (4 * HOPS).to_string(), "two held the lock at once");
    }

    fn count(dir: &Path) {
        let store = FileStore::open(dir).unwrap();
        let counter = File::options().read(true).write(true).open(dir.join("counter")).unwrap();
        for _ in 0..HOPS {
            with_lock(&store, || {
                let mut text = [0; 20];
                let length = counter.read_at(&mut text, 0).unwrap();
                let value: u64 = std::str::from_utf8(&text[..length]).unwrap().parse().unwrap();
                counter.write_all_at((value + 1).to_string().as_bytes(), 0).unwrap();
            });
        }
    }

    fn ping_pong() {
        let mut child = Command::new(exe())
            .arg("echo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut there = child.stdin.take().unwrap();
        let mut back = child.stdout.take().unwrap();
        for _ in 0..HOPS {
            there.write_all(&[1]).unwrap();
            back.read_exact(&mut [0]).unwrap();
        }
        drop(there);
        child.wait().unwrap();
    }

    fn echo() {
        let mut byte = [0];
        let (mut there, mut back) = (std::io::stdin().lock(), std::io::stdout().lock());
        while there.read_exact(&mut byte).is_ok() {
            back.write_all(&byte).unwrap();
            back.flush().unwrap();
        }
    }

    fn exe() -> std::path::PathBuf {
        std::env::current_exe().unwrap()
    }

    fn ticket(key: Key) -> Ticket {
        let ticket = Ticket::new(key, Share::WHOLE);
        ticket.with_owner("bench").expect("it is short")
    }

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        thread_local!(static WAKER: Waker = Arc::new(Unpark(thread::current())).into());
        let mut future = pin!(future);
        WAKER.with(|waker| {
            loop {
                match future.as_mut().poll(&mut Context::from_waker(waker)) {
                    Poll::Ready(output) => return output,
                    Poll::Pending => thread::park(),
                }
            }
        })
    }
}
