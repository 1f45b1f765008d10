//! Several stores behind one server.

use serde_json::json;
use tenure_core::{Error, ErrorKind, Locks};
use tenure_serve::{Mounts, Role, serve};

use crate::kit::{TestServer, join, store};

#[tokio::test]
async fn each_store_has_its_own_page_and_a_break_in_one_does_not_touch_the_other() {
    let ((shop, in_shop), (jobs, in_jobs)) = (store(), store());
    let holder = join(&shop, "k", "of shop").await.to_string();
    join(&jobs, "k", "of jobs").await;
    join(&jobs, "other", "of jobs").await;
    let stores = [("shop", &in_shop), ("jobs", &in_jobs)];
    let stores = stores.map(|(name, locks)| (name.to_owned(), Ok(serve(locks).role(Role::Ask))));
    let server = TestServer::of(Mounts::new(stores).unwrap()).await;

    // `/` lists them, and each has a whole service below its path
    let list = server.get("/").await;
    assert!(list.body.contains("href=\"stores/shop/\"") && list.body.contains("healthy, "));
    let page = server.get("/stores/jobs/?key=other").await;
    assert!(page.body.contains("of jobs") && !page.body.contains("of shop"), "{page:?}");
    assert_eq!(server.get("/stores/jobs/page.js").await.status, 200);
    let document = server.json("/stores/jobs/v1/openapi.json").await;
    assert_eq!(document["servers"][0]["url"], json!(".."));
    let moved = server.get("/stores/jobs").await;
    assert!(moved.status == 308 && moved.head.contains("location: jobs/\r\n"), "{moved:?}");
    assert!(server.get("/stores/jobs?key=k").await.head.contains("location: jobs/?key=k\r\n"));
    for path in ["/stores/none/", "/stores/", "/stores/jobs/stores/shop/"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    // no request depends on the order of the stores
    let nameless = server.get("/v1/keys").await;
    assert!(nameless.status == 404 && nameless.body.contains("/stores/NAME"), "{nameless:?}");
    assert_eq!(server.json("/stores/jobs/v1/keys?prefix=o").await["total"], json!(1));

    // a break
    let number = in_shop.line("k").await.unwrap()[0].number;
    let body = json!({ "ticket": holder, "number": number }).to_string();
    let length = body.len().to_string();
    let headers = [("Tenure-Request", "1"), ("Content-Length", length.as_str())];
    let head =
        |name: &str| server.head("POST", &format!("/stores/{name}/v1/lines/k/break"), &headers);
    let other = server.send(&head("jobs"), &body).await;
    assert_eq!(other.json()["result"], json!("another ticket"));
    assert_eq!(server.send(&head("shop"), &body).await.json()["result"], json!("requested"));
    let state = async |locks: &Locks| locks.line("k").await.unwrap()[0].label();
    assert_eq!((state(&in_shop).await, state(&in_jobs).await), ("leaving", "holding"));

    // the samples of a family stand together
    let metrics = server.get("/metrics").await.body;
    let keys = "# TYPE tenure_store_keys gauge\n\
                tenure_store_keys{engine=\"memory\",store=\"shop\"} 1\n\
                tenure_store_keys{engine=\"memory\",store=\"jobs\"} 2\n";
    assert!(metrics.contains(keys), "{metrics}");
    assert_eq!(metrics.matches("# TYPE tenure_http_requests_total").count(), 1);
    server.end().await;
}

#[tokio::test]
async fn the_list_and_the_metrics_need_the_token() {
    let (_, locks) = store();
    let service = || serve(&locks).token("0123456789abcdef");
    let stores = ["a", "b"].map(|name| (name.to_owned(), Ok(service())));
    let server = TestServer::of(Mounts::new(stores).unwrap()).await;
    for path in ["/", "/metrics", "/stores/a", "/stores/b/", "/stores/none/"] {
        assert_eq!(server.get(path).await.status, 401, "{path}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_yet_keeps_no_other_from_being_served() {
    let ((_, shop), (_, jobs)) = (store(), store());
    let silent = || Err(Error::unavailable("db2 does not answer"));
    let stores = [("jobs", silent()), ("shop", Ok(serve(&shop)))];
    let mounts = Mounts::new(stores.map(|(name, service)| (name.to_owned(), service))).unwrap();
    let server = TestServer::of(mounts.clone()).await;
    assert_eq!(server.json("/stores/shop/v1/keys").await["total"], json!(0));
    for path in ["/stores/jobs/", "/stores/jobs/v1/keys"] {
        let refusal = server.get(path).await;
        assert!(
            refusal.status == 503 && refusal.body.contains("db2 does not answer"),
            "{refusal:?}"
        );
    }
    let list = server.get("/").await.body;
    assert!(list.contains("db2 does not answer") && list.contains("healthy, "), "{list}");
    let metrics = server.get("/metrics").await.body;
    assert!(metrics.contains("tenure_store_up{store=\"jobs\"} 0\n"), "{metrics}");

    mounts.set("jobs", Err(Error::rejected("db2 refuses the password")));
    let refusal = server.get("/stores/jobs/v1/keys").await;
    assert!(refusal.status == 503 && refusal.body.contains("refuses the password"), "{refusal:?}");
    let metrics = server.get("/metrics").await.body;
    assert!(!metrics.contains("code=\"503\""), "no other store counts them: {metrics}");

    mounts.set("jobs", Ok(serve(&jobs)));
    mounts.set("jobs", silent());
    assert_eq!(server.json("/stores/jobs/v1/keys").await["total"], json!(0));
    assert!(!server.get("/").await.body.contains("db2"));
    server.end().await;
    let none = Mounts::new([("jobs".to_owned(), silent())]).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unavailable);
}

#[test]
fn two_stores_of_one_name_are_refused() {
    let (_, locks) = store();
    for names in [&["a", "a"][..], &["a/b"], &[".."], &[""], &[]] {
        let stores = names.iter().map(|name| ((*name).to_owned(), Ok(serve(&locks))));
        assert!(Mounts::new(stores).is_err(), "{names:?}");
    }
}
