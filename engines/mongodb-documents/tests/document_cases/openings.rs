//! Openings: which collections can be locked, which users may lock them, and what prevents it.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, Timestamp, bson, doc};
use mongodb::options::Collation;
use mongodb::{Client, Collection, Database};
use tenure_core::ErrorKind;
use tenure_mongodb_documents::{DocumentLocks, Documents, Path};
use tenure_servers::mongodb::{Server, Setup, doc as server_doc};

use super::shop::patient;
use super::stage::{count, play};

async fn database(server: &Server) -> Database {
    Client::with_uri_str(server.url()).await.unwrap().database("tenure")
}

async fn open(collection: &Collection<Document>) -> DocumentLocks<Document> {
    patient().over(collection).await.unwrap()
}

#[test]
fn collections_whose_documents_cannot_be_locked_are_refused_by_a_sentence() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        for command in [
            doc! { "create": "capped", "capped": true, "size": 4096 },
            doc! { "create": "view", "viewOn": "capped", "pipeline": [] },
            doc! { "create": "time series", "timeseries": { "timeField": "at" } },
        ] {
            let name = command.get_str("create").unwrap().to_owned();
            database.run_command(command).await.unwrap();
            let error = patient().over(&database.collection::<Document>(&name)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            let says = error.to_string();
            assert!(says.contains("cannot keep locks") && says.contains(&name), "{says}");
        }
    });
}

/// The default is the collection of named locks, whose records are no documents of the program's
/// own.
#[test]
fn a_url_that_names_no_collection_is_refused() {
    play(async || {
        let server = Server::start().unwrap();
        let opened = patient().connect::<Document>(server.url()).await;
        let error = opened.expect_err("the URL names no collection");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("collection="), "{error}");
    });
}

#[test]
fn an_error_of_the_server_or_of_what_documents_cannot_do_says_what_to_do() {
    play(async || {
        let server = Server::start().unwrap();
        let orders = database(&server).await.collection::<Document>("orders");
        orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        let locks = open(&orders).await;
        let guard = locks.document(1).lock().await.unwrap();
        let error = guard.update(doc! { "$nonsense": { "a": 1 } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("check the filter, the order or the update"), "{error}");
        let error = locks.locks().sequence("n").next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("records of their own"), "{error}");
        guard.release().await.unwrap();
    });
}

#[test]
fn a_validator_that_forbids_the_lock_refuses_it_by_a_sentence() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let schema = doc! { "properties": { "_id": {} }, "additionalProperties": false };
        let options =
            database.create_collection("closed").validator(doc! { "$jsonSchema": schema });
        options.await.unwrap();
        let closed = database.collection::<Document>("closed");
        closed.insert_one(doc! { "_id": 1 }).await.unwrap();
        let error = open(&closed).await.document(1).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("validator"), "{error}");
    });
}

#[test]
fn the_users_indexes_stay_as_they_are_and_no_verb_reads_a_whole_collection() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let orders = database.collection::<Document>("orders");
        let many = (0..500).map(|id| doc! { "_id": id, "lines": [{ "sku": 1 }] });
        orders.insert_many(many).await.unwrap();
        let before = orders.list_index_names().await.unwrap();
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let locks = open(&orders).await;
        let mut guard = locks.document(7).lock().await.unwrap();
        guard.update(doc! { "$set": { "state": "a" } }).await.unwrap();
        guard.refresh().await.unwrap();
        let line = locks.part::<Document>(7, Path::field("lines").element("sku", 1));
        let part = line.lock().await.unwrap();
        let waits = tokio::spawn({
            let line = line.clone();
            async move { line.lock().await }
        });
        while line.line().await.unwrap().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        part.extend().await.unwrap();
        part.release().await.unwrap();
        waits.await.unwrap().unwrap().release().await.unwrap();
        guard.release_with(doc! { "$set": { "state": "b" } }).await.unwrap();
        database.run_command(doc! { "profile": 0 }).await.unwrap();
        let verbs = doc! { "ns": "tenure.orders", "op": { "$in": ["command", "query", "update", "remove"] } };
        let verbs = doc! { "$and": [verbs, { "command.findAndModify": "orders" }] };
        let profile = database.collection::<Document>("system.profile");
        let asked = profile.count_documents(verbs.clone()).await.unwrap();
        assert!(asked >= 9, "{asked} verbs were seen");
        let scans = doc! { "$and": [verbs, { "$or": [{ "planSummary": "COLLSCAN" }, { "docsExamined": { "$gt": 1 } }] }] };
        assert_eq!(profile.find_one(scans).await.unwrap(), None);
        assert_eq!(orders.list_index_names().await.unwrap(), before);
    });
}

#[test]
fn a_collection_is_opened_though_an_answer_is_lost() {
    play(async || {
        let server = Server::start().unwrap();
        for command in ["hello", "listCollections", "aggregate"] {
            let what = server_doc! { "failCommands": [command], "closeConnection": true, "appName": "tenure" };
            server.fail_commands(what, 1).unwrap();
            let locks: DocumentLocks<Document> =
                patient().connect(format!("{}&collection=orders", server.url())).await.unwrap();
            locks.close().await;
        }
    });
}

#[test]
fn a_user_who_may_update_and_not_insert_locks_documents() {
    play(async || {
        let actions = ["find", "update", "changeStream", "listCollections"];
        let role = server_doc! {
            "createRole": "clerk",
            "privileges": [{ "resource": { "db": "tenure", "collection": "" }, "actions": actions.to_vec() }],
            "roles": [],
        };
        let server = Setup::new().user_with_role("clerk", "s3cret", role).start().unwrap();
        let locks: DocumentLocks<Document> =
            patient().connect(format!("{}&collection=orders", server.url())).await.unwrap();
        assert!(locks.guarantees().push, "{:?}", locks.guarantees().warnings);
        let error = locks.document(1).lock().await.unwrap_err();
        assert!(error.to_string().contains("there is no document 1"), "{error}");
        let makes = patient().or_insert(&doc! {}).unwrap();
        let makes: DocumentLocks<Document> =
            makes.connect(format!("{}&collection=orders", server.url())).await.unwrap();
        let error = makes.document(1).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    });
}

#[test]
fn a_collation_says_which_ids_are_the_same() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let collation = Collation::builder()
            .locale("en")
            .strength(mongodb::options::CollationStrength::Secondary)
            .build();
        database.create_collection("people").collation(collation).await.unwrap();
        let people = database.collection::<Document>("people");
        people.insert_one(doc! { "_id": "Ada", "pets": [{ "name": "Rex" }] }).await.unwrap();
        let (here, there) = (open(&people).await, open(&people).await);
        let guard = here.document("ada").lock().await.unwrap();
        assert_eq!(guard.document().get_str("_id").unwrap(), "Ada");
        assert!(there.document("ADA").try_lock().await.unwrap().is_none());
        guard.update(doc! { "$set": { "seen": true } }).await.unwrap();
        guard.release().await.unwrap();
        let pet = here.part::<Document>("ada", Path::field("pets").element("name", "REX"));
        let pet = pet.lock().await.unwrap();
        pet.update(doc! { "$set": { "fed": true } }).await.unwrap();
        pet.release().await.unwrap();
    });
}

#[test]
fn a_document_of_fifteen_megabytes_is_locked_and_one_that_would_grow_too_long_is_refused_first() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let films = database.collection::<Document>("films");
        // A single write must fit into the small cache of a test's server.
        for (id, more) in [(1, 6_500_000), (2, 7_800_000)] {
            films.insert_one(doc! { "_id": id, "film": "x".repeat(8_500_000) }).await.unwrap();
            let more = doc! { "$set": { "more": "x".repeat(more) } };
            films.update_one(doc! { "_id": id }, more).await.unwrap();
        }
        let settings =
            Documents::new().timeout(std::time::Duration::from_secs(30)).only(["_id"]).unwrap();
        let locks = settings.over(&films).await.unwrap();
        let guard = locks.document(1).lock().await.unwrap();
        guard.update(doc! { "$set": { "seen": true } }).await.unwrap();
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
        let error = locks.document(2).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("16 MiB"), "{error}");
    });
}

#[test]
fn a_shard_key_is_part_of_what_finds_the_document() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let orders = database.collection::<Document>("orders");
        orders.insert_one(doc! { "_id": 1, "region": "eu" }).await.unwrap();
        let locks = open(&orders).await;
        let guard = locks.document(1).routed(doc! { "region": "eu" }).lock().await.unwrap();
        guard.update(doc! { "$set": { "seen": true } }).await.unwrap();
        assert!(locks.document(1).try_lock().await.unwrap().is_none(), "it is the same document");
        guard.release().await.unwrap();
        let error = locks.document(1).routed(doc! { "region": "us" }).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    });
}

#[test]
fn a_standalone_server_locks_documents_without_being_told() {
    play(async || {
        let server = Setup::new().standalone().start().unwrap();
        let orders = database(&server).await.collection::<Document>("orders");
        orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        let (here, there) = (open(&orders).await, open(&orders).await);
        assert!(!here.guarantees().push);
        let guard = here.document(1).lock().await.unwrap();
        let next = tokio::spawn(async move { there.document(1).lock().await });
        guard.release().await.unwrap();
        next.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_unique_index_that_refuses_the_new_document_is_told_at_once() {
    play(async || {
        let server = Server::start().unwrap();
        let database = database(&server).await;
        let orders = database.collection::<Document>("orders");
        let unique = |name: &str| {
            let options = mongodb::options::IndexOptions::builder().unique(true).build();
            mongodb::IndexModel::builder().keys(doc! { name: 1 }).options(options).build()
        };
        orders.create_index(unique("number")).await.unwrap();
        orders.insert_one(doc! { "_id": 1, "number": 7 }).await.unwrap();
        let settings = patient().or_insert(&doc! { "number": 7 }).unwrap();
        let locks: DocumentLocks<Document> = settings.over(&orders).await.unwrap();
        let is_refused = |error: &tenure_core::Error| {
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.to_string().contains("_1"), "it names the index: {error}");
        };
        let before = count(&server, "findAndModify");
        is_refused(&locks.document(2).lock().await.unwrap_err());
        assert!(count(&server, "findAndModify") - before <= 2, "it is not asked again and again");
        locks.document(1).lock().await.unwrap().release().await.unwrap();
        // The same for the records of named locks.
        database.collection::<Document>("locks").create_index(unique("kind")).await.unwrap();
        let named = tenure_mongodb::connect(server.url()).await.unwrap();
        named.mutex("a").lock().await.unwrap().release().await.unwrap();
        let before = count(&server, "findAndModify");
        is_refused(&named.mutex("b").lock().await.unwrap_err());
        assert!(count(&server, "findAndModify") - before <= 2, "it is not asked again and again");
    });
}

#[test]
fn documents_are_locked_by_every_type_of_id_that_the_page_names() {
    play(async || {
        let server = Server::start().unwrap();
        let all = database(&server).await.collection::<Document>("all");
        let locks = open(&all).await;
        let bytes = Binary { subtype: BinarySubtype::Uuid, bytes: vec![7; 16] };
        let longest = "x".repeat(1022);
        let named: Vec<Bson> = vec![
            42.into(),
            (i64::from(i32::MAX) + 1).into(),
            1.5.into(),
            Bson::Decimal128("2.5".parse().unwrap()),
            longest.as_str().into(),
            ObjectId::new().into(),
            DateTime::from_millis(1).into(),
            Bson::Timestamp(Timestamp { time: 1, increment: 2 }),
            bytes.into(),
            true.into(),
            Bson::Null,
            bson!({ "a": [1, { "b": null }] }),
        ];
        for id in named {
            all.insert_one(doc! { "_id": id.clone() }).await.unwrap();
            let guard = locks.document(id.clone()).lock().await.unwrap();
            assert_eq!(guard.id_of_document(), &id);
            guard.release().await.unwrap();
        }
        let script = || "x".to_owned();
        let refused: Vec<Bson> = vec![
            Bson::MinKey,
            Bson::MaxKey,
            Bson::Symbol(script()),
            Bson::JavaScriptCode(script()),
            format!("{longest}x").into(),
        ];
        for id in refused {
            all.insert_one(doc! { "_id": id.clone() }).await.unwrap();
            let error = locks.document(id.clone()).lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{id}: {error:?}");
        }
    });
}
