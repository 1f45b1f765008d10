//! Somebody stands still for longer than a ttl: the server, or the holder's whole process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tenure_core::blocking::block_on;
use tenure_core::{Kind, Loss};
use tenure_redis::fence::Fence;
use tenure_servers::redis::Server;

use super::stage::{PATIENCE, assert_refused, connect, connect_at_last, play, soon};

const TTL: Duration = Duration::from_secs(2);
/// Says to the test program that it is a helper, and where the server is.
const HELPER: &str = "TENURE_FAULTS_HELPER";
/// Marks what a helper says.
const MARK: &str = "tenure> ";

#[test]
fn a_frozen_server_costs_the_lock_at_its_deadline_and_never_makes_two_holders() {
    play(async || {
        let server = Server::start().unwrap();
        let url = format!("{}?timeout=400ms&connect_timeout=400ms", server.url());
        let (locks, other) = (connect_at_last(&url).await, connect_at_last(&url).await);
        for _ in 0..2 {
            let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            let waiter = tokio::spawn({
                let other = other.clone();
                async move {
                    // It may be told that the server does not answer, and asks again.
                    loop {
                        match other.mutex("a").ttl(TTL).lock().await {
                            Ok(guard) => return guard,
                            Err(error) => assert_ne!(error.kind(), Kind::Rejected, "{error}"),
                        }
                    }
                }
            });
            super::stage::until_line(&locks, "a", 2).await;
            server.freeze().unwrap();
            let frozen = Instant::now();
            let loss = soon("the holder is told though nobody answers", guard.lost()).await;
            assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
            while frozen.elapsed() < TTL {
                assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
                tokio::time::sleep(TTL / 10).await;
            }
            let in_vain = locks.mutex("b").ttl(TTL).try_lock().await;
            assert_refused(in_vain, Kind::Unavailable, &["in time"]);
            server.thaw().unwrap();
            let next = soon("the waiter is served", waiter).await.unwrap();
            assert_eq!(guard.check().unwrap_err().kind(), Kind::Lost);
            assert!(next.token() > guard.token());
            drop(guard);
            next.check().unwrap();
            next.release().await.unwrap();
            locks.settled().await;
        }
    });
}

#[test]
fn a_holder_that_slept_past_its_lease_cannot_write_any_more() {
    play(async || {
        let server = Server::start().unwrap();
        let mut helper = Helper::start(&server);
        let old = helper.hear();
        let old: u64 = old.strip_prefix("held ").unwrap().parse().unwrap();
        helper.tell("write");
        assert_eq!(helper.hear(), "written");

        helper.signal("-STOP");
        let locks = connect(server.url()).await;
        let guard = soon("the next holder gets it", locks.mutex("a").lock()).await.unwrap();
        assert!(guard.token() > old);
        let (fence, mut data) = (Fence::new("data").unwrap(), data(&server).await);
        fence.claim(&mut data, guard.token()).await.unwrap();
        helper.signal("-CONT");

        // It writes without a look at its guard: only its token stops it.
        helper.tell("write");
        assert_eq!(helper.hear(), "refused");
        helper.tell("check");
        assert_eq!(helper.hear(), "lost");
        fence.set(&mut data, "state", "new", guard.token()).await.unwrap();
        guard.check().unwrap();
    });
}

async fn data(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Where a helper process begins; anybody else passes.
#[test]
fn helper_process() {
    let Ok(url) = std::env::var(HELPER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let locks = block_on(tenure_redis::connect(&url)).unwrap();
    let guard = block_on(locks.mutex("a").ttl(TTL).lock()).unwrap();
    println!("{MARK}held {}", guard.token());
    let fence = Fence::new("data").unwrap();
    for line in std::io::stdin().lines() {
        let answer = match line.unwrap().as_str() {
            "check" => guard.check().map_or("lost", |()| "held"),
            "write" => runtime.block_on(async {
                let client = redis::Client::open(url.as_str()).unwrap();
                let mut data = client.get_multiplexed_async_connection().await.unwrap();
                match fence.set(&mut data, "state", "old", guard.token()).await {
                    Ok(()) => "written",
                    Err(error) if error.kind() == Kind::Lost => "refused",
                    Err(error) => panic!("{error}"),
                }
            }),
            other => panic!("{other}"),
        };
        println!("{MARK}{answer}");
    }
}

/// Another process, which holds the lock.
struct Helper {
    child: Child,
    ears: Receiver<String>,
}

impl Helper {
    fn start(server: &Server) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pause::helper_process", "--nocapture", "--test-threads=1"])
            .env(HELPER, server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (heard, ears) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK)
                    && heard.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { child, ears }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&self) -> String {
        self.ears.recv_timeout(PATIENCE).expect("the helper answers")
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
