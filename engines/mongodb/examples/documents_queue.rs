//! A work queue: three worker processes send mails, one of them is killed at its work, and every mail is sent.
//!
//! Run it as `cargo run --package tenure-mongodb --example documents_queue -- 'mongodb://127.0.0.1/?replicaSet=rs0'`. The
//! program starts itself as its workers.

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection, IndexModel};
use serde::{Deserialize, Serialize};
use tenure_mongodb::documents::Documents;

const MAILS: i32 = 200;
/// The mail of a worker that was killed is sent by another one after this time.
const TTL: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Mail {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
}

async fn mails(url: &str) -> Result<Collection<Mail>, Box<dyn Error>> {
    Ok(Client::with_uri_str(url).await?.database("shop").collection("mails"))
}

/// What a worker process does until it is killed.
pub(crate) async fn work(url: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let locks = Documents::new().over(&mails(url).await?).await?;
    let queue = locks.queue(doc! { "state": "new" }).order(doc! { "_id": 1 }).ttl(TTL).note(name);
    loop {
        let mail = queue.next().await?;
        if name == "ada" && mail.document().id > 10 {
            println!("ada: I hang at {}", mail.document().id);
            std::future::pending::<()>().await;
        }
        if mail.document().id % 50 == 7 && mail.document().state == "new" && name == "ben" {
            // The address did not answer: somebody tries again soon.
            mail.retry_later(Duration::from_millis(100)).await?;
            continue;
        }
        mail.done(doc! { "$set": { "state": "sent" }, "$push": { "by": name } }).await?;
    }
}

/// A worker process, which does not outlive this.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have been killed already.
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Answers how often each mail was sent.
pub(crate) async fn play(
    url: &str,
    worker: impl Fn(&str) -> Command,
) -> Result<Vec<usize>, Box<dyn Error>> {
    let mails = mails(url).await?;
    mails.create_index(IndexModel::builder().keys(doc! { "state": 1, "_id": 1 }).build()).await?;
    let new = |id| Mail { id, state: "new".to_owned() };
    mails.insert_many((0..MAILS / 2).map(new)).await?;
    let mut workers = Vec::new();
    for name in ["ada", "ben", "cid"] {
        workers.push(Worker(worker(name).spawn()?));
    }
    // Some of the mails come in while the workers wait.
    let left = async || mails.count_documents(doc! { "state": "new" }).await;
    while left().await? > 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("ada is killed");
    drop(workers.remove(0));
    for id in MAILS / 2..MAILS {
        mails.insert_one(new(id)).await?;
    }
    while left().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut sent = Vec::new();
    let mut all = mails.clone_with_type::<Document>().find(doc! {}).await?;
    while all.advance().await? {
        let mail = Document::try_from(all.current())?;
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
        [url, name] => work(url, name).await,
        _ => Err("say where the MongoDB is: mongodb://127.0.0.1/?replicaSet=rs0".into()),
    }
}
