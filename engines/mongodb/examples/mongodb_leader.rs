//! Two processes, one scheduler: the leader is killed, and the other one takes over.
//!
//! Run it as `cargo run --example mongodb_leader -- 'mongodb://127.0.0.1/?replicaSet=rs0'`. The
//! program starts itself twice as a worker, watches which one leads, kills that one, and ends when
//! the other one leads.

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use tenure_core::{Leader, Locks};

/// Time after which a worker that was killed is replaced.
const TTL: Duration = Duration::from_secs(5);

/// All that a scheduler must know: when it begins, and when it must have stopped.
trait Scheduler {
    fn on_elected(&mut self, term: u64);
    fn on_lost(&mut self);
}

/// Notifies its scheduler when it leads and when it has to stop, for as long as the process lives.
async fn lead(
    locks: &Locks,
    name: &str,
    mut scheduler: impl Scheduler,
) -> Result<(), tenure_core::Error> {
    loop {
        let seat = locks.election("scheduler").note(name).ttl(TTL).campaign().await?;
        scheduler.on_elected(seat.token().get());
        seat.lost().await;
        scheduler.on_lost();
        drop(seat);
    }
}

/// A scheduler that prints what it does.
struct Loud(String);

impl Scheduler for Loud {
    fn on_elected(&mut self, term: u64) {
        println!("{}: I schedule, in term {term}", self.0);
    }

    fn on_lost(&mut self) {
        println!("{}: I stop", self.0);
    }
}

/// Runs a worker process until it is killed.
pub(crate) async fn work(url: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let locks = tenure_mongodb::connect(url).await?;
    Ok(lead(&locks, name, Loud(name.to_owned())).await?)
}

/// A worker process. It is killed when this is dropped.
struct Worker {
    name: &'static str,
    process: Child,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait()); // it may be dead already
    }
}

/// Starts two workers, and kills the one that leads first. Returns both leaders.
pub(crate) async fn play(
    url: &str,
    worker: impl Fn(&str) -> Command,
) -> Result<(Leader, Leader), Box<dyn Error>> {
    let locks = tenure_mongodb::connect(url).await?;
    let mut leaders = locks.election("scheduler").observe().await?;
    let mut workers = Vec::new();
    for name in ["ada", "ben"] {
        workers.push(Worker { name, process: worker(name).spawn()? });
    }
    let mut first: Option<Leader> = None;
    loop {
        let Some(leader) = leaders.next().await? else { continue };
        match &first {
            None => {
                println!("{} leads, and is killed", leader.note);
                workers.retain(|worker| worker.name != &*leader.note);
                first = Some(leader);
            }
            Some(killed) if killed.note != leader.note => {
                println!("{} leads now, in term {}", leader.note, leader.term);
                return Ok((killed.clone(), leader));
            }
            Some(_) => {}
        }
    }
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [url] => {
            let program = std::env::current_exe()?;
            play(url, |name| {
                let mut worker = Command::new(&program);
                worker.args([url, name]);
                worker
            })
            .await
            .map(drop)
        }
        [url, name] => work(url, name).await,
        _ => Err("say where the MongoDB is: mongodb://127.0.0.1/?replicaSet=rs0".into()),
    }
}
