//! Refusals: each is one sentence with the server and the way out, and without a password.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use mongodb::Client;
use tenure_core::{Engine as _, ErrorKind, Locks, WaitMode};
use tenure_mongodb::{ClientOptions, MongoStore, Settings};
use tenure_servers::mongodb::{Server, Setup, doc};

use super::stage::{LONG, connect, play, store, ticket};

#[test]
fn a_database_that_is_mongodbs_own_is_refused() {
    play(async || {
        let server = Server::start().unwrap();
        for url in ["local", "admin", "config"]
            .map(|name| server.url().replace("/?", &format!("/{name}?")))
        {
            let error = MongoStore::open(&url).await.expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().contains("is MongoDB's own"), "{error}");
        }
    });
}

#[test]
fn a_collection_that_cannot_keep_locks_is_refused() {
    play(async || {
        let server = Server::start().unwrap();
        for (create, word) in [
            (doc! { "create": "capped", "capped": true, "size": 4096 }, "capped"),
            (doc! { "create": "view", "viewOn": "capped", "pipeline": [] }, "a view"),
            (doc! { "create": "series", "timeseries": { "timeField": "at" } }, "a time series"),
        ] {
            let name = create.get_str("create").unwrap().to_owned();
            server.command("tenure", create).unwrap();
            let url = format!("{}&collection={name}", server.url());
            let error = tenure_mongodb::connect(url).await.expect_err("it cannot keep locks");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            let sentence = error.to_string();
            assert!(sentence.contains(word) && sentence.contains(&name), "{sentence}");
        }
        let wants = doc! { "$jsonSchema": { "required": ["customer"] } };
        server.command("tenure", doc! { "create": "wants", "validator": wants }).unwrap();
        let wants = connect(format!("{}&collection=wants", server.url())).await;
        let error = wants.mutex("a").lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("validator"), "{error}");
    });
}

#[test]
fn a_server_that_is_not_there_is_told_in_time() {
    play(async || {
        let url = "mongodb://clerk:s3cret@127.0.0.1:9/?timeout=300ms";
        let error = tenure_mongodb::connect(url).await.expect_err("no server listens there");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        for part in ["127.0.0.1:9", "is the server running?"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(!format!("{error:?}").contains("s3c"), "{error:?}");
    });
}

#[test]
fn whoever_answers_in_the_place_of_a_primary_is_told_as_what_it_is() {
    play(async || {
        let told = async |server: &str, options: &str| {
            let url = format!("mongodb://{server}/?timeout=1s&{options}");
            let error = tenure_mongodb::connect(url).await.expect_err("it is no primary");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            assert!(error.to_string().contains(server), "{error}");
            error.to_string()
        };
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let silent = listen();
        let said = told(&silent.local_addr().unwrap().to_string(), "").await;
        assert!(said.contains("says nothing"), "{said}");
        let (rude, web) = (listen(), listen());
        let at = [&rude, &web].map(|listener| listener.local_addr().unwrap().to_string());
        thread::spawn(move || rude.incoming().for_each(drop));
        thread::spawn(move || {
            for client in web.incoming() {
                let _ = client.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"); // it may be gone
            }
        });
        for at in at {
            let said = told(&at, "").await;
            assert!(said.contains("another service's port"), "{said}");
        }
        let server = Setup::new().start().unwrap();
        let at = format!("127.0.0.1:{}", server.port());
        let said = told(&at, "replicaSet=another").await;
        assert!(said.contains("in the replica set that `replicaSet` names"), "{said}");
        let said = told(&at, "tls=true").await;
        assert!(said.contains("`tls=false`"), "{said}");
    });
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    play(async || {
        let server = Setup::new().limited_user("clerk", "right").start().unwrap();
        let url = server.url().replace("clerk:right", "clerk:wr0ngpw");
        assert!(url.contains("wr0ngpw"), "{url}");
        let error = tenure_mongodb::connect(url).await.expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
    });
}

#[test]
fn a_user_who_may_only_read_is_refused_and_nothing_is_changed() {
    play(async || {
        let role = doc! {
            "createRole": "reader",
            "privileges": [{ "resource": { "db": "tenure", "collection": "" }, "actions": ["find"] }],
            "roles": [],
        };
        let server = Setup::new().user_with_role("clerk", "s3cret", role).start().unwrap();
        let locks = connect(server.url()).await;
        let warnings = locks.guarantees().warnings.join("\n");
        for wanted in ["changeStream", "createIndex"] {
            assert!(warnings.contains(wanted), "{warnings}");
        }
        assert!(!locks.guarantees().push);
        let error = locks.mutex("a").try_lock().await.expect_err("it may not");
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("README"), "{error}");
    });
}

#[test]
fn a_standalone_server_says_what_it_lacks() {
    play(async || {
        let server = Setup::new().standalone().start().unwrap();
        let locks = connect(server.url()).await;
        let profile = locks.guarantees();
        assert!(!profile.push && !profile.survives.failover);
        assert!(
            profile.warnings.iter().any(|warning| warning.contains("--replSet")),
            "{profile:?}"
        );
    });
}

#[test]
fn reads_of_the_driver_may_be_anywhere_and_locks_are_kept_by_the_primary() {
    play(async || {
        let server = Setup::new().start().unwrap();
        let url = format!(
            "{}&readPreference=secondaryPreferred&w=1&journal=false&timeout=10s",
            server.url()
        );
        let store = store(&url).await;
        let held = ticket("a", LONG);
        store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(store.line(&held.key).await.unwrap().len(), 1);
    });
}

#[test]
fn a_line_that_would_not_fit_into_a_document_is_refused_by_a_sentence() {
    play(async || {
        let server = Setup::new().start().unwrap();
        let store = store(&format!("{}&timeout=30s", server.url())).await;
        let held = ticket("a", Duration::from_secs(600));
        store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        // As if thousands of tickets waited, each with a note.
        let more = doc! { "$set": { "ballast": "x".repeat(13 << 20) } };
        let change = doc! { "q": { "_id": super::stage::record("a") }, "u": more };
        super::stage::ask(&server, doc! { "update": "locks", "updates": [change] });
        let error = store.join(&ticket("a", LONG), WaitMode::Wait).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("MiB"), "{error}");
        store.renew(&held).await.unwrap().expect("who holds goes on holding");
    });
}

#[test]
fn the_role_of_the_page_is_the_one_that_the_suite_runs_under() {
    let page = include_str!("../../README.md");
    let (_, role) = page.split_once("createRole({").expect("the page tells the role");
    let (role, _) = role.split_once("})").expect("the role ends");
    let words = |text: &str| -> Vec<String> {
        let letters = |letter: char| letter.is_alphanumeric();
        let words = text.split(|letter| !letters(letter)).filter(|word| !word.is_empty());
        // The shell's command has the role's name in a field of its own.
        words.filter(|word| !["createRole", "role"].contains(word)).map(str::to_owned).collect()
    };
    assert_eq!(words(role), words(&tenure_servers::mongodb::role().to_string()));
}

#[test]
fn options_made_by_hand_and_a_client_of_ones_own_give_the_same_locks() {
    play(async || {
        let server = Setup::new().start().unwrap();
        let options = ClientOptions::parse(server.url()).await.unwrap();
        let client = Client::with_options(options.clone()).unwrap();
        let settings = Settings::new().database("shop").unwrap().collection("mine").unwrap();
        let manual_renewal = tenure_mongodb::connect_with(options, settings.clone()).await.unwrap();
        let borrowed = tenure_mongodb::connect_over(client.clone(), settings).await.unwrap();
        let warns = |locks: &Locks| {
            locks.guarantees().warnings.iter().any(|warning| warning.contains("own runtime"))
        };
        assert!(warns(&borrowed) && !warns(&manual_renewal));
        let guard = manual_renewal.mutex("a").lock().await.unwrap();
        assert!(borrowed.mutex("a").try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let guard = borrowed.mutex("a").lock().await.unwrap();
        guard.release().await.unwrap();
        borrowed.close().await;
        // The client is the program's own, and goes on.
        assert_eq!(client.database("shop").list_collection_names().await.unwrap(), ["mine"]);
    });
}
