//! The stories of the examples, on a real server and in memory.
#![cfg(unix)]
#![allow(clippy::duplicate_mod, reason = "each story has the module of its documents")]

#[path = "../examples/documents_clerks.rs"]
mod clerks;
#[path = "../examples/documents_exclusive.rs"]
mod exclusive;
#[path = "../examples/documents_leader.rs"]
mod leader;
#[path = "../examples/documents_queue.rs"]
mod queue;
#[path = "../examples/documents_warehouses.rs"]
mod warehouses;

use std::env;
use std::process::Command;

use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Server};

/// Where a worker finds the server; only a worker has it.
const URL: &str = "TENURE_WORKER_URL";
const NAME: &str = "TENURE_WORKER_NAME";

fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(story)
}

fn server() -> Option<Server> {
    have(&[MONGOD]).then(|| Server::start().unwrap())
}

/// Plays a story in memory, and then on a server if there is one here.
fn everywhere(story: impl Fn(&str)) {
    story("memory:");
    if let Some(server) = server() {
        story(&server.url());
    }
}

#[test]
fn two_clerks_edit_one_order() {
    everywhere(|url| {
        let (total, remarks) = block_on(clerks::play(url)).unwrap();
        assert_eq!((total, remarks.len()), (110, 20), "{url}");
    });
}

#[test]
fn two_warehouses_pick_the_lines_of_one_order() {
    everywhere(|url| {
        let picked = block_on(warehouses::play(url)).unwrap();
        assert!(picked.iter().all(|by| by.len() == 1), "{url}: {picked:?}");
    });
}

#[test]
fn an_exclusive_client_prolongs_and_releases() {
    everywhere(|url| assert_eq!(block_on(exclusive::play(url)).unwrap(), 3, "{url}"));
}

#[test]
fn a_leader_who_is_broken_stops_and_the_next_one_leads() {
    everywhere(|url| {
        let told = block_on(leader::play(url)).unwrap();
        let (first, last) = (&told[0], &told[2]);
        assert!(first.ends_with("leads") && last.ends_with("leads") && first != last, "{told:?}");
        assert_eq!(told[1], first.replace("leads", "stops"), "before the next one leads");
    });
}

#[test]
fn every_mail_is_sent_once_although_a_worker_is_killed() {
    everywhere(|url| {
        let worker = |name: &str| {
            let mut worker = Command::new(env::current_exe().unwrap());
            worker.args(["--exact", "worker_process", "--nocapture"]);
            worker.env(URL, url).env(NAME, name);
            worker
        };
        let sent = block_on(queue::play(url, worker)).unwrap();
        assert!(sent.len() == 200 && sent.iter().all(|times| *times == 1), "{url}: {sent:?}");
    });
}

/// Not a test: where a worker process begins.
#[test]
fn worker_process() {
    let (Ok(url), Ok(name)) = (env::var(URL), env::var(NAME)) else { return };
    block_on(async { queue::work(queue::mails(&url).await.unwrap(), &name).await }).unwrap();
}
