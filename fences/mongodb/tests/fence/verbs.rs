//! The effect of each verb, and its refusal for an old token.

use std::time::Duration;

use tenure_core::NUMBER_MAX;
use tenure_fence_mongodb::{RECORDS, WITHIN_MAX, Write};

use super::*;

#[test]
fn no_verb_writes_for_an_old_token() {
    Bench::run(async |bench| {
        let Bench { fence, accounts, .. } = &bench;
        fence.claim(numbered(41)).await.expect("it is the first");
        bench.insert(1, 41).await.expect("it is the newest");
        fence.claim(numbered(42)).await.expect("it is newer");

        let late = doc! { "_id": 1, "amount": 9 };
        let one = || doc! { "_id": 1 };
        assert_stale(fence.claim(numbered(41)).await, 41, 42);
        assert_stale(bench.insert(2, 41).await, 41, 42);
        assert_stale(bench.set(9, 41).await, 41, 42);
        assert_stale(fence.replace_one(accounts, one(), &late, numbered(41)).await, 41, 42);
        assert_stale(fence.delete_one(accounts, one(), numbered(41)).await, 41, 42);
        let all = [
            Write::update_many(accounts, doc! {}, doc! { "$set": { "amount": 9 } }),
            Write::delete_many(accounts, doc! {}),
        ];
        assert_stale(fence.write(all, numbered(41)).await, 41, 42);
        assert_stale(fence.write([], numbered(41)).await, 41, 42);

        assert_eq!(bench.amount().await, 0);
        assert_eq!(accounts.count_documents(doc! {}).await.expect("it answers"), 1);
    });
}

#[test]
fn an_equal_token_and_a_newer_one_write() {
    Bench::run(async |bench| {
        let Bench { fence, accounts, .. } = &bench;
        for token in [7, 7, 8, 8] {
            fence.claim(numbered(token)).await.expect("it is the newest");
            bench.insert(1, token).await.expect("it is the newest");
            bench.set(3, token).await.expect("it is the newest");
            assert_eq!(bench.amount().await, 3);
            let other = doc! { "_id": 1, "amount": 4 };
            let replaced =
                fence.replace_one(accounts, doc! { "_id": 1 }, &other, numbered(token)).await;
            assert_eq!(replaced.expect("it is the newest").modified, 1);
            assert_eq!(bench.amount().await, 4);
            let one = || doc! { "_id": 1 };
            assert!(
                fence.delete_one(accounts, one(), numbered(token)).await.expect("it is the newest")
            );
            assert!(
                !fence
                    .delete_one(accounts, one(), numbered(token))
                    .await
                    .expect("it is the newest")
            );
        }
        // A write raises the token as a claim does. Deleting the document does not lower it.
        bench.insert(1, 9).await.expect("it is newer");
        assert!(fence.delete_one(accounts, doc! {}, numbered(10)).await.expect("it is newer"));
        assert_stale(bench.insert(1, 9).await, 9, 10);
    });
}

#[test]
fn writes_of_one_transaction_are_done_together_or_not_at_all() {
    Bench::run(async |bench| {
        let Bench { fence, accounts, .. } = &bench;
        let insert = |id| Write::insert(accounts, &doc! { "_id": id, "amount": 0 });
        let insert = |id: i32| insert(id).expect("it is a document");
        let raise = doc! { "$inc": { "amount": 5 } };
        let raise = || Write::update_many(accounts, doc! {}, raise.clone());
        let done =
            fence.write([insert(1), insert(2), raise()], numbered(1)).await.expect("all is well");
        assert_eq!(done.inserted, [1.into(), 2.into()]);
        assert_eq!((done.matched, done.modified, done.deleted), (2, 2, 0));

        // The last write fails, so the whole transaction is rolled back, with its token.
        let failing = fence.write([raise(), insert(3), insert(1)], numbered(2)).await;
        let error = failing.as_ref().expect_err("there is one already");
        let cause = std::error::Error::source(error).expect("it has one");
        assert!(cause.downcast_ref::<mongodb::error::Error>().is_some(), "{cause:?}");
        assert_failed(failing, ErrorKind::Rejected, "E11000");
        assert_eq!(bench.amount().await, 5);
        bench.set(6, 1).await.expect("nothing newer was written");

        let put = |id: i32| {
            let account = doc! { "_id": id, "amount": 8 };
            Write::replace_one(accounts, doc! { "_id": id }, &account).expect("it is a document")
        };
        let done = fence.write([put(1), put(3)], numbered(1)).await.expect("it is the newest");
        assert_eq!((done.matched, done.inserted), (1, Vec::new()));
        let done = fence.write([put(4).or_insert()], numbered(1)).await.expect("it is the newest");
        assert_eq!((done.matched, done.inserted), (0, vec![4.into()]));

        let all = Write::delete_many(accounts, doc! {});
        assert_eq!(fence.write([all], numbered(1)).await.expect("it is the newest").deleted, 3);
    });
}

#[test]
fn fences_of_two_names_do_not_know_each_other() {
    Bench::run(async |bench| {
        let other = Fence::new(&bench.database, "others").expect("it is a name");
        assert_ne!(other.id(), bench.fence.id());
        other.claim(numbered(99)).await.expect("it is the first");
        bench.fence.claim(numbered(1)).await.expect("it is the first of its own");
    });
}

#[test]
fn a_damaged_record_is_refused() {
    Bench::run(async |bench| {
        bench.fence.claim(numbered(NUMBER_MAX)).await.expect("a guard may have it");
        let records = bench.database.collection::<Document>(RECORDS);
        let strange = doc! { "$set": { "token": "a stranger's" } };
        let done = records.update_one(doc! { "_id": bench.fence.id() }, strange).await;
        assert_eq!(done.expect("it answers").modified_count, 1);
        assert_failed(bench.fence.claim(numbered(1)).await, ErrorKind::Rejected, "not a token");
        assert_failed(bench.insert(1, 1).await, ErrorKind::Rejected, "not a token");
    });
}

#[test]
fn a_write_can_be_spawned_and_has_a_limit() {
    Bench::run(async |bench| {
        assert!(bench.fence.clone().within(Duration::ZERO).is_err());
        assert!(bench.fence.clone().within(WITHIN_MAX + Duration::from_nanos(1)).is_err());
        let (fence, accounts) = (bench.fence.clone(), bench.accounts.clone());
        let inserted = tokio::spawn(async move {
            fence.insert_one(&accounts, &doc! { "_id": 1, "amount": 2 }, numbered(1)).await
        });
        inserted.await.expect("it does not panic").expect("it is the first");
        assert_eq!(bench.amount().await, 2);
    });
}

#[test]
fn the_least_rights_are_enough() {
    use tenure_servers::mongodb::Setup;
    if !have(&[MONGOD]) {
        return;
    }
    let record = doc! { "db": "shop", "collection": RECORDS };
    let orders = doc! { "db": "shop", "collection": "orders" };
    let role = doc! { "createRole": "clerk", "roles": [], "privileges": [
        { "resource": record, "actions": ["find", "insert", "update"] },
        { "resource": orders, "actions": ["insert"] },
    ] };
    let setup = Setup::new().user_with_role("clerk", "secret", role);
    let server = setup.start().expect("it starts");
    block_on(async {
        let client = Client::with_uri_str(server.url()).await.expect("it is a URL");
        let shop = client.database("shop");
        let fence = Fence::new(&shop, "orders").expect("it is a name");
        fence.claim(numbered(1)).await.expect("it may");
        let orders = shop.collection::<Document>("orders");
        fence.insert_one(&orders, &doc! { "_id": 1 }, numbered(1)).await.expect("it may");
        let deleted = fence.delete_one(&orders, doc! {}, numbered(1)).await;
        assert_failed(deleted, ErrorKind::Rejected, "does not allow");
    });
}
