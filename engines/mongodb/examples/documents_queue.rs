//! A work queue: three worker processes send mails, one of them is killed at its work, and every
//! mail is sent.
//!
//! Run it as `cargo run --package tenure-mongodb --example documents_queue -- URL`, with a URL such
//! as `mongodb://127.0.0.1/?replicaSet=rs0`. The program starts itself as its workers. With
//! `memory:` as the URL it runs in this process's memory, and its workers are tasks.

#[path = "documents/drawer.rs"]
#[allow(dead_code, reason = "each story needs some of it")]
mod drawer;

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use drawer::Drawer;
use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};
use tenure_mongodb::documents::Documents;
use tokio::task::JoinHandle;

const MAILS: i32 = 200;
/// Time after which another worker sends the mail of a worker that was killed.
const TTL: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Mail {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
}

/// Runs a worker until it is killed.
pub(crate) async fn work(mails: Drawer, name: &str) -> tenure_core::Result<()> {
    let locks = mails.open::<Mail>(Documents::new()).await?;
    let queue = locks.queue(doc! { "state": "new" }).order(doc! { "_id": 1 }).ttl(TTL).note(name);
    loop {
        let mail = queue.next().await?;
        if name == "ada" && mail.document().id > 10 {
            println!("ada: I hang at {}", mail.document().id);
            std::future::pending::<()>().await;
        }
        if mail.document().id % 50 == 7 && mail.document().state == "new" && name == "ben" {
            // The address did not answer: a worker tries again after 100 ms.
            mail.retry_later(Duration::from_millis(100)).await?;
            continue;
        }
        mail.done(doc! { "$set": { "state": "sent" }, "$push": { "by": name } }).await?;
    }
}

/// Returns the collection of mails that a worker process sends.
pub(crate) async fn mails(url: &str) -> Result<Drawer, Box<dyn Error>> {
    Drawer::at(url, "mails").await
}

/// A worker. It is killed when this is dropped.
enum Worker {
    Process(Child),
    Task(JoinHandle<tenure_core::Result<()>>),
}

impl Drop for Worker {
    fn drop(&mut self) {
        match self {
            // It may have been killed already.
            Self::Process(child) => drop(child.kill().and_then(|()| child.wait())),
            Self::Task(task) => task.abort(),
        }
    }
}

/// Returns how often each mail was sent.
pub(crate) async fn play(
    url: &str,
    worker: impl Fn(&str) -> Command,
) -> Result<Vec<usize>, Box<dyn Error>> {
    let mails = mails(url).await?;
    if let Drawer::Mongo(collection) = &mails {
        let index = IndexModel::builder().keys(doc! { "state": 1, "_id": 1 }).build();
        collection.create_index(index).await?;
    }
    let new = |id| Mail { id, state: "new".to_owned() };
    for id in 0..MAILS / 2 {
        mails.insert(&new(id)).await?;
    }
    let mut workers = Vec::new();
    for name in ["ada", "ben", "cid"] {
        workers.push(match &mails {
            Drawer::Mongo(_) => Worker::Process(worker(name).spawn()?),
            Drawer::Memory(_) => Worker::Task(tokio::spawn(work(mails.clone(), name))),
        });
    }
    // Some of the mails are inserted while the workers wait.
    while left(&mails, MAILS / 2).await? > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("ada is killed");
    drop(workers.remove(0));
    for id in MAILS / 2..MAILS {
        mails.insert(&new(id)).await?;
    }
    while left(&mails, MAILS).await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut sent = Vec::new();
    for id in 0..MAILS {
        let mail: Document = mails.find(id).await?;
        sent.push(mail.get_array("by").map_or(0, Vec::len));
    }
    Ok(sent)
}

/// Returns how many of the first mails are not sent yet.
async fn left(mails: &Drawer, first: i32) -> Result<u64, Box<dyn Error>> {
    if let Drawer::Mongo(collection) = mails {
        return Ok(collection.count_documents(doc! { "state": "new" }).await?);
    }
    let mut left = 0;
    for id in 0..first {
        left += u64::from(mails.find::<Mail>(id).await?.state == "new");
    }
    Ok(left)
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [url] => {
            let program = std::env::current_exe()?;
            let worker = |name: &str| {
                let mut worker = Command::new(&program);
                worker.args([url, name]);
                worker
            };
            let sent = play(url, worker).await?;
            println!("{} mails, each sent {:?} times", sent.len(), sent.iter().max());
            Ok(())
        }
        [url, name] => Ok(work(mails(url).await?, name).await?),
        _ => Err("say where the MongoDB is: mongodb://127.0.0.1/?replicaSet=rs0".into()),
    }
}
