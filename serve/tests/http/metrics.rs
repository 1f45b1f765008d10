//! `GET /metrics`: what it shows, and what it costs the store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use tenure_core::layers::{Layer, Operation};
use tenure_core::{Error, Locks, Memory, Result};
use tenure_serve::{Role, serve};

use crate::kit::{TestServer, join, server, store};

/// A store that counts its listings, and can be cut off.
struct Counted {
    memory: Memory,
    listings: Arc<AtomicUsize>,
    is_cut: Arc<AtomicBool>,
}

impl Layer for Counted {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn intercept<T: Send>(
        &self,
        operation: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the cable is out"));
        }
        if matches!(operation, Operation::Keys(_)) {
            self.listings.fetch_add(1, Ordering::SeqCst);
            // The other scrapes arrive meanwhile.
            tokio::task::yield_now().await;
        }
        ask.await
    }
}

/// The value of a sample that begins with this text.
fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(sample));
    let line = line.unwrap_or_else(|| panic!("no {sample} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn the_store_breaks_and_requests_are_shown_and_no_key() {
    let (memory, locks) = store();
    let holder = join(&memory, "secret/key", "holder").await;
    for waiter in 0..3 {
        join(&memory, "secret/key", &format!("w{waiter}")).await;
    }
    join(&memory, "other", "holder").await;
    let server = TestServer::of(serve(&locks).role(Role::Ask)).await;
    let line = server.json("/v1/lines/secret%2Fkey").await;
    let ticket = &line["tickets"][0];
    assert_eq!(ticket["ticket"], holder.to_string());
    let body = json!({ "ticket": ticket["ticket"], "number": ticket["number"] });
    assert_eq!(server.break_ticket("secret%2Fkey", &body).await.status, 200);
    assert_eq!(server.get("/nothing").await.status, 404);
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    let text = &answer.body;
    for (sample, is) in [
        ("tenure_store_up{engine=\"memory\"", 1.0),
        ("tenure_profile_info{engine=\"memory\"", 1.0),
        ("tenure_build_info{version=", 1.0),
        ("tenure_store_keys{engine=\"memory\",store=", 2.0),
        ("tenure_store_longest_line{engine=\"memory\",store=", 4.0),
        ("tenure_store_unreadable_keys{engine=\"memory\",store=", 0.0),
        ("tenure_http_requests_total{code=\"200\",", 2.0),
        ("tenure_http_requests_total{code=\"404\",", 1.0),
        ("tenure_http_breaks_total{how=\"asked\",result=\"requested\",", 1.0),
    ] {
        assert!((value(text, sample) - is).abs() < f64::EPSILON, "{sample} in {text}");
    }
    let of = |name: &str| value(text, &format!("tenure_store_oldest_{name}_seconds"));
    assert!(of("hold") >= of("wait") && of("wait") > 0.0, "{text}");
    assert!(!text.contains("secret") && !text.contains("w0"), "{text}");
    server.end().await;
}

#[tokio::test]
async fn scrapes_share_one_reading_and_an_outage_shows_no_old_numbers() {
    let (listings, is_cut) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let engine =
        Counted { memory: Memory::new(), listings: listings.clone(), is_cut: is_cut.clone() };
    let locks = Locks::new(engine);
    let guard = locks.mutex("k").lock().await.unwrap();
    let server = server(&locks).await;
    let scrapes = futures_util::future::join_all((0..20).map(|_| server.get("/metrics"))).await;
    for scrape in scrapes {
        assert!(
            (value(&scrape.body, "tenure_store_keys{") - 1.0).abs() < f64::EPSILON,
            "{scrape:?}"
        );
    }
    assert_eq!(listings.load(Ordering::SeqCst), 1);
    drop(guard);
    is_cut.store(true, Ordering::SeqCst);
    // The last answer about the health is shown for half a second.
    let text = loop {
        let answer = server.get("/metrics").await;
        if value(&answer.body, "tenure_store_up") == 0.0 {
            break answer.body;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(!text.contains("tenure_store_keys"), "{text}");
    is_cut.store(false, Ordering::SeqCst);
    server.end().await;
}

#[tokio::test]
async fn a_visitor_without_the_token_gets_no_metrics() {
    let (_, locks) = store();
    let server = TestServer::of(serve(&locks).token("a token of a test")).await;
    assert_eq!(server.get("/metrics").await.status, 401);
    let token = [("Authorization", "Bearer a token of a test")];
    assert_eq!(server.get_with("/metrics", &token).await.status, 200);
    server.end().await;
}
