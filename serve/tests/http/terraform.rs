//! The lock calls of Terraform's back-end `http`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tenure_core::layers::{Layer, Operation};
use tenure_core::{Locks, Memory, Result};
use tenure_serve::{LockAction, LockRecord, Role, serve};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service as _;

use crate::kit::{Answer, PATIENCE, TestServer, join, store};

const KIND: (&str, &str) = ("Content-Type", "application/json");

/// Counts the joins that have begun, and lets them go on.
#[derive(Clone)]
struct Gate {
    begun: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }
}

/// A store whose joins wait at a gate.
struct GatedStore {
    memory: Memory,
    gate: Gate,
}

impl Layer for GatedStore {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.memory
    }

    async fn intercept<T: Send>(
        &self,
        operation: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if matches!(operation, Operation::Join(_)) {
            self.gate.begun.add_permits(1);
            self.gate.open.acquire().await.unwrap().forget();
        }
        ask.await
    }
}

/// The information about a lock, as Terraform sends it.
fn info(id: u32, operation: &str) -> Value {
    json!({
        "ID": format!("0c2f0b6e-7c1c-4e0c-9f3c-{id:012}"),
        "Operation": operation,
        "Info": "",
        "Who": "ana@laptop",
        "Version": "1.9.5",
        "Created": "2026-01-31T12:00:00.123456Z",
        "Path": "",
    })
}

async fn server(locks: &Locks) -> TestServer {
    TestServer::of(serve(locks).role(Role::Lock)).await
}

async fn call(server: &TestServer, method: &str, key: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let length = body.len().to_string();
    let headers = [KIND, ("Content-Length", &length)];
    server.send(&server.head(method, &format!("/v1/terraform/{key}"), &headers), &body).await
}

#[tokio::test]
async fn a_state_is_locked_once_and_the_holder_is_shown_to_others() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let (apply, plan) = (info(1, "OperationTypeApply"), info(2, "OperationTypePlan"));
    for (lock, unlock) in [("LOCK", "UNLOCK"), ("POST", "DELETE")] {
        for _ in 0..2 {
            // Terraform sends it again if a connection breaks.
            assert_eq!(call(&server, lock, "prod%2Fnet", &apply).await.status, 200, "{lock}");
        }
        let busy = call(&server, lock, "prod%2Fnet", &plan).await;
        assert_eq!((busy.status, busy.json()), (423, apply.clone()));
        // Another id does not unlock it.
        assert_eq!(call(&server, unlock, "prod%2Fnet", &plan).await.status, 409);
        assert_eq!(locks.line("prod/net").await.unwrap().len(), 1);
        let unlocked = call(&server, unlock, "prod%2Fnet", &apply).await;
        assert_eq!((unlocked.status, unlocked.value("result").as_str()), (200, "released"));
        let lost = call(&server, unlock, "prod%2Fnet", &apply).await;
        assert_eq!((lost.status, lost.value("cause").as_str()), (409, "gone"));
    }
    server.end().await;
}

#[tokio::test]
async fn a_lock_of_another_program_is_shown_too() {
    let (memory, locks) = store();
    let server = server(&locks).await;
    join(&memory, "k", "worker-7").await;
    let busy = call(&server, "LOCK", "k", &info(1, "OperationTypeApply")).await;
    assert_eq!((busy.status, busy.json()["Who"].as_str()), (423, Some("worker-7")));
    server.end().await;
}

#[tokio::test]
async fn the_id_that_visitors_see_is_no_id_of_the_other_locks() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let apply = info(1, "OperationTypeApply");
    let held = call(&server, "LOCK", "k", &apply).await.json();
    let mut body = json!({ "id": apply["ID"] });
    assert_eq!(server.lock("DELETE", "k", &body).await.value("result"), "absent");
    body["number"] = held["number"].clone();
    assert_eq!(server.lock("PUT", "k", &body).await.status, 410);
    assert_eq!(locks.line("k").await.unwrap()[0].id.to_string(), held["ticket"].as_str().unwrap());
    server.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_keeps_its_lock_and_may_ask_again() {
    let (gate, records) = (Gate::default(), Arc::<Mutex<Vec<LockRecord>>>::default());
    let kept = records.clone();
    let locks = Locks::new(GatedStore { memory: Memory::new(), gate: gate.clone() });
    let mut service = serve(&locks)
        .role(Role::Lock)
        .on_lock(move |record| kept.lock().unwrap().push(record.clone()));
    let lock = || {
        let request = Request::builder()
            .method("LOCK")
            .uri("/v1/terraform/k")
            .header("Host", "localhost")
            .header(KIND.0, KIND.1)
            .body(Full::<Bytes>::from(info(1, "OperationTypeApply").to_string()));
        request.unwrap()
    };
    let mut answer = service.call(lock());
    tokio::select! {
        _ = &mut answer => panic!("it is answered before the store is"),
        begun = gate.begun.acquire() => begun.unwrap().forget(),
    }
    drop(answer);
    gate.open.add_permits(1);
    let is_recorded = async {
        while records.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, is_recorded).await.expect("a record");
    // Another server may have got the request again, and answered it.
    gate.open.add_permits(1);
    assert_eq!(service.call(lock()).await.unwrap().status(), 200);
    assert_eq!(locks.line("k").await.unwrap().len(), 1);
    let actions: Vec<_> = records.lock().unwrap().iter().map(|record| record.action).collect();
    assert_eq!(actions, [LockAction::Acquire, LockAction::Acquire]);
}

#[tokio::test]
async fn a_page_of_another_site_cannot_lock_a_state() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let evil = ("Origin", "http://evil.example");
    for headers in [&[][..], &[("Content-Type", "text/plain")], &[KIND, evil]] {
        for method in ["POST", "LOCK", "DELETE"] {
            let answer = server.send(&server.head(method, "/v1/terraform/k", headers), "").await;
            assert_eq!(answer.status, 403, "{method} {headers:?}");
        }
    }
    assert_eq!(call(&server, "UNLOCK", "k", &json!({})).await.status, 400, "it has no ID");
    server.end().await;
}
