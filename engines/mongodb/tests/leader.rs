//! The example as two processes on a real server: the leader is killed, and the other one takes
//! over.
#![cfg(unix)]

#[path = "../examples/mongodb_leader.rs"]
mod leader;

use std::env;
use std::process::Command;

use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Server};

/// Variable with the worker's URL of the server. Only a worker has it.
const URL: &str = "TENURE_LEADER_URL";
const NAME: &str = "TENURE_LEADER_NAME";

fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story)
}

#[test]
fn when_the_leader_is_killed_the_other_process_takes_over() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().unwrap();
    let url = server.url();
    let worker = |name: &str| {
        let mut worker = Command::new(env::current_exe().unwrap());
        worker.args(["--exact", "worker_process", "--nocapture"]);
        worker.env(URL, &url).env(NAME, name);
        worker
    };
    let (first, second) = block_on(leader::play(&url, worker)).unwrap();
    assert_ne!(first.note, second.note);
    assert!(second.term > first.term, "terms are numbered upwards");
}

/// Not a test: the entry point of a worker process.
#[test]
fn worker_process() {
    let (Ok(url), Ok(name)) = (env::var(URL), env::var(NAME)) else { return };
    block_on(leader::work(&url, &name)).unwrap();
}
