//! Reaping: idle records are deleted, held ones stay, and numbers grow all the same.

use tenure_core::{Engine as _, LeaveMode, WaitMode};
use tenure_servers::mongodb::{Server, doc};

use super::stage::{LONG, ask, look_at, play, record, store, ticket, until};

#[test]
fn an_idle_record_is_reaped_and_numbers_go_on_growing() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let first = ticket("a", LONG);
        let before = store.join(&first, WaitMode::Wait).await.unwrap().unwrap();
        store.leave(&first, LeaveMode::Now).await.unwrap();
        assert!(look_at(&server, "a").unwrap().contains_key("reap"), "it may go one day");
        // The date of the record has come.
        let change = doc! { "q": { "_id": record("a") }, "u": [{ "$set": { "reap": { "$subtract": ["$$NOW", 1000] } } }] };
        ask(&server, doc! { "update": "locks", "updates": [change] });
        until("the server reaps it", async || look_at(&server, "a").is_none()).await;
        let after = store.join(&ticket("a", LONG), WaitMode::Wait).await.unwrap().unwrap();
        assert!(after.number > before.number, "{before:?} {after:?}");
    });
}

#[test]
fn a_release_leaves_the_index_alone_and_no_long_life_keeps_an_idle_record() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let reap = || look_at(&server, "a").unwrap().get("reap").unwrap().clone();
        let minute = std::time::Duration::from_secs(60);
        let short = ticket("a", minute);
        store.join(&short, WaitMode::Wait).await.unwrap();
        let first = reap();
        store.leave(&short, LeaveMode::Now).await.unwrap();
        assert_eq!(reap(), first, "a release does not touch the index");
        let again = ticket("a", minute);
        store.join(&again, WaitMode::Wait).await.unwrap();
        assert_eq!(reap(), first, "nor does the next lock");
        store.leave(&again, LeaveMode::Now).await.unwrap();
        // A ticket stood there for a day, and the record was not reaped.
        let later = doc! { "$toDate": { "$add": ["$$NOW", 86_400_000_i64] } };
        let change =
            doc! { "q": { "_id": record("a") }, "u": [{ "$set": { "reap": [later, true] } }] };
        ask(&server, doc! { "update": "locks", "updates": [change] });
        let last = ticket("a", minute);
        store.join(&last, WaitMode::Wait).await.unwrap();
        store.leave(&last, LeaveMode::Now).await.unwrap();
        let record = look_at(&server, "a").unwrap();
        let date = record.get_array("reap").unwrap()[0].as_datetime().unwrap().timestamp_millis();
        let now = mongodb::bson::DateTime::now().timestamp_millis();
        assert!(date < now + 3_600_000, "an idle record goes within the hour");
        store.join(&ticket("a", minute), WaitMode::Wait).await.unwrap();
        assert!(store.keys("").await.unwrap().iter().any(|key| key.as_str() == "a"));
    });
}

#[test]
fn the_date_of_a_record_in_use_is_behind_the_last_life_in_it() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let date = || {
            let record = look_at(&server, "a").unwrap();
            let dates = record.get_array("reap").expect("somebody stands there").clone();
            dates[0].as_datetime().unwrap().timestamp_millis()
        };
        let held = ticket("a", std::time::Duration::from_secs(30));
        store.join(&held, WaitMode::Wait).await.unwrap();
        let first = date();
        store.renew(&held).await.unwrap();
        assert_eq!(date(), first, "a renewal does not touch the index");
        let longer = ticket("a", LONG);
        store.join(&longer, WaitMode::Wait).await.unwrap();
        let day = i64::try_from(LONG.as_millis()).unwrap();
        assert!(date() > first + day - 3_600_000, "a longer life moves it");
    });
}

#[test]
fn a_record_that_was_reaped_under_its_holder_is_a_loss_and_no_second_life() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        let before = store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        ask(&server, doc! { "delete": "locks", "deletes": [{ "q": {}, "limit": 0 }] });
        assert_eq!(store.renew(&held).await.unwrap(), None);
        let after = store.join(&ticket("a", LONG), WaitMode::Wait).await.unwrap().unwrap();
        assert!(after.number > before.number);
    });
}
