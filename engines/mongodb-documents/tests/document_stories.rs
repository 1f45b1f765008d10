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
#[path = "../examples/documents_worker.rs"]
mod worker;

use std::env;
use std::process::Command;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Server};

/// Variable with the worker's URL of the server. Only a worker has it.
const URL: &str = "TENURE_WORKER_URL";
const EVENTS_URL: &str = "TENURE_EVENTS_URL";
const NAME: &str = "TENURE_WORKER_NAME";

fn block_on<T>(story: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(story)
}

fn server() -> Option<Server> {
    have(&[MONGOD]).then(|| Server::start().unwrap())
}

/// Runs a story on a server, if there is one here.
fn on_server(story: impl Fn(&str)) {
    if let Some(server) = server() {
        story(&server.url());
    }
}

/// Runs a story in memory, and then on a server.
fn everywhere(story: impl Fn(&str)) {
    story("memory:");
    on_server(story);
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
    on_server(|url| {
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
    on_server(|url| {
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

/// The worker of the page: its lines are counted, and three processes of it process all events,
/// although one is killed at its work.
#[test]
fn every_event_is_done_once_although_a_worker_is_killed() {
    const EVENTS: i32 = 300;
    let program = include_str!("../examples/documents_worker.rs");
    assert!(program.lines().count() <= 60, "the page promises a short one");
    let Some(server) = server() else { return };
    let url = format!("{}&collection=events", server.url().replace("/?", "/shop?"));
    block_on(async {
        let client = Client::with_uri_str(server.url()).await.unwrap();
        let events = client.database("shop").collection::<Document>("events");
        let new = |id| doc! { "_id": id, "state": "new", "payload": format!("event {id}") };
        events.insert_many((0..EVENTS).map(new)).await.unwrap();
        events.insert_one(doc! { "_id": -1, "state": "new", "payload": "" }).await.unwrap();
        let start = |name: &str| {
            let mut worker = Command::new(env::current_exe().unwrap());
            worker.args(["--exact", "event_worker_process", "--nocapture"]);
            worker.env(EVENTS_URL, &url).env(NAME, name).spawn().unwrap()
        };
        let mut workers = ["ada", "ben", "cid"].map(start);
        let count = async |filter: Document| events.count_documents(filter).await.unwrap();
        while count(doc! { "by": "ada" }).await < 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        workers[0].kill().unwrap();
        while count(doc! { "state": "done" }).await < u64::try_from(EVENTS).unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for mut worker in workers {
            worker.wait().unwrap();
        }
        assert_eq!(count(doc! { "by.1": { "$exists": true } }).await, 0, "none is done twice");
        assert_eq!(count(doc! { "_id": -1, "state": "new" }).await, 1, "it is put off");
        assert_eq!(count(doc! { "_tenure.held.0": { "$exists": true } }).await, 0);
    });
}

/// Not a test: the entry point of a worker of events.
#[test]
fn event_worker_process() {
    let (Ok(url), Ok(name)) = (env::var(EVENTS_URL), env::var(NAME)) else { return };
    block_on(worker::work(&url, &name)).unwrap();
}

/// Not a test: the entry point of a worker process.
#[test]
fn worker_process() {
    let (Ok(url), Ok(name)) = (env::var(URL), env::var(NAME)) else { return };
    block_on(async { queue::work(queue::mails(&url).await.unwrap(), &name).await }).unwrap();
}
