//! A pause: a holder's whole process is frozen for longer than its ttl, and goes on.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use tenure_conformance::helper::{self, Helper};
use tenure_core::{ErrorKind, MutexGuard};
use tenure_fence_mongodb::Fence;
use tenure_servers::mongodb::Server;

use super::stage::{connect, play, soon};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_holder_that_slept_past_its_life_hears_it_first_and_cannot_write_any_more() {
    play(async || {
        let server = Server::start().unwrap();
        let write = format!("write {}", server.url());
        let mut helper = Helper::start(&server.url(), "pause::helper_process");
        helper.tell(&format!("lock a {}", TTL.as_millis()));
        let old = helper.hear_token();
        helper.tell(&write);
        assert_eq!(helper.hear(), "written");

        helper.stop();
        let locks = connect(server.url()).await;
        let guard = soon("the next holder gets it", locks.mutex("a").lock()).await.unwrap();
        assert!(guard.token().get() > old);
        let (fence, documents) = data(&server.url()).await;
        fence.claim(guard.token()).await.unwrap();
        helper.go_on();

        helper.tell("check");
        assert_eq!(helper.hear(), "lost");
        // Even if it had not checked its guard, its token would stop it.
        helper.tell(&write);
        assert_eq!(helper.hear(), "refused");
        let (document, new) = (doc! { "_id": 1 }, doc! { "state": "new" });
        fence.replace_one(&documents, document.clone(), &new, guard.token()).await.unwrap();
        let stands = documents.find_one(document).await.unwrap().unwrap();
        assert_eq!(stands.get_str("state").unwrap(), "new");
        guard.check().unwrap();
    });
}

async fn data(url: &str) -> (Fence, Collection<Document>) {
    let shop = Client::with_uri_str(url).await.unwrap().database("shop");
    (Fence::new(&shop, "data").unwrap(), shop.collection("data"))
}

/// Not a test: the entry point of the helper process.
#[test]
fn helper_process() {
    helper::serve_also(tenure_mongodb::connect, |guard, line| {
        let url = line.strip_prefix("write ").expect("it is only asked to write");
        tokio::runtime::Runtime::new().unwrap().block_on(write(guard, url)).to_owned()
    });
}

async fn write(guard: &MutexGuard, url: &str) -> &'static str {
    let (fence, documents) = data(url).await;
    let old = doc! { "$set": { "state": "old" } };
    let written = if documents.find_one(doc! { "_id": 1 }).await.unwrap().is_some() {
        fence.update_one(&documents, doc! { "_id": 1 }, old, guard.token()).await.map(drop)
    } else {
        fence
            .insert_one(&documents, &doc! { "_id": 1, "state": "old" }, guard.token())
            .await
            .map(drop)
    };
    match written {
        Ok(()) => "written",
        Err(error) if error.kind() == ErrorKind::Lost => "refused",
        Err(error) => panic!("{error}"),
    }
}
