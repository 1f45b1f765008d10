//! A work queue: three worker processes send mails, one of them is killed at its work, and every
//! mail is sent.
//!
//! Run it as `cargo run --package tenure-mongodb-documents --example documents_queue -- URL`, with
//! a URL such as `mongodb://127.0.0.1/?replicaSet=rs0`. The program starts itself as its workers.

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection, IndexModel};
use serde::{Deserialize, Serialize};
use tenure_mongodb_documents::Documents;

const MAILS: i32 = 200;
/// Time after which another worker sends the mail of a worker that was killed.
const TTL: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mail {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
}

/// Runs a worker until it is killed.
pub(crate) async fn work(mails: Collection<Mail>, name: &str) -> tenure_core::Result<()> {
    let locks = Documents::new().over(&mails).await?;
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
pub(crate) async fn mails(url: &str) -> Result<Collection<Mail>, Box<dyn Error>> {
    Ok(Client::with_uri_str(url).await?.database("shop").collection("mails"))
}

/// A worker process. It is killed when this is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait())); // it may have been killed already
    }
}

/// Returns how often each mail was sent.
pub(crate) async fn play(
    url: &str,
    worker: impl Fn(&str) -> Command,
) -> Result<Vec<usize>, Box<dyn Error>> {
    let mails = mails(url).await?;
    let index = IndexModel::builder().keys(doc! { "state": 1, "_id": 1 }).build();
    mails.create_index(index).await?;
    let new = |id| Mail { id, state: "new".to_owned() };
    mails.insert_many((0..MAILS / 2).map(new)).await?;
    let mut workers = Vec::new();
    for name in ["ada", "ben", "cid"] {
        workers.push(Worker(worker(name).spawn()?));
    }
    let left = async || mails.count_documents(doc! { "state": "new" }).await;
    // Some of the mails are inserted while the workers wait.
    while left().await? > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("ada is killed");
    drop(workers.remove(0));
    mails.insert_many((MAILS / 2..MAILS).map(new)).await?;
    while left().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mails = mails.clone_with_type::<Document>();
    let mut sent = Vec::new();
    for id in 0..MAILS {
        let mail = mails.find_one(doc! { "_id": id }).await?.ok_or("it is gone")?;
        sent.push(mail.get_array("by").map_or(0, Vec::len));
    }
    Ok(sent)
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
