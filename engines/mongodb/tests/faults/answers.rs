//! Answers that are lost, late, or no success.

use tenure_core::{Engine as _, ErrorKind, LeaveMode, LeaveOutcome, TicketState, WaitMode};
use tenure_servers::mongodb::{Server, doc};

use super::stage::{LONG, connect, play, store, ticket};

#[test]
fn a_write_that_no_majority_confirmed_is_unknown_and_no_success() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        let error = doc! { "code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out" };
        let what = doc! { "failCommands": ["findAndModify"], "writeConcernError": error };
        server.fail_commands(what, 1).unwrap();
        let error = store.join(&held, WaitMode::Wait).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("majority"), "{error}");
        // It was carried out all the same, and a repeated request joins no second time.
        let place = store.join(&held, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Holding);
        assert_eq!(store.line(&held.key).await.unwrap().len(), 1);
    });
}

#[test]
fn what_a_server_that_goes_answers_is_asked_again() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        for code in [11_600, 11_602, 91, 189, 10_107, 50, 262] {
            let what = doc! { "failCommands": ["findAndModify"], "errorCode": code };
            server.fail_commands(what, 1).unwrap();
            let guard =
                locks.mutex("a").lock().await.unwrap_or_else(|error| panic!("{code}: {error}"));
            server
                .fail_commands(doc! { "failCommands": ["findAndModify"], "errorCode": code }, 1)
                .unwrap();
            guard.release().await.unwrap_or_else(|error| panic!("{code}: {error}"));
        }
        assert!(locks.line("a").await.unwrap().is_empty(), "nothing is left behind");
    });
}

#[test]
fn a_store_is_opened_though_an_answer_is_lost() {
    play(async || {
        let server = Server::start().unwrap();
        for command in ["hello", "listCollections"] {
            let what =
                doc! { "failCommands": [command], "closeConnection": true, "appName": "tenure" };
            server.fail_commands(what, 1).unwrap();
            let locks = tenure_mongodb::connect(server.url()).await.expect("it is asked again");
            locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_connection_that_ends_before_the_answer_leaves_nothing_behind() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        for times in 1..4 {
            let what = || doc! { "failCommands": ["findAndModify"], "closeConnection": true };
            server.fail_commands(what(), times).unwrap();
            let guard = locks.mutex("a").lock().await.unwrap();
            assert_eq!(locks.line("a").await.unwrap().len(), 1);
            server.fail_commands(what(), times).unwrap();
            let _ = guard.release().await; // the answer may be lost
            let again = locks.mutex("a").lock().await.unwrap();
            again.release().await.unwrap();
        }
    });
}

#[test]
fn a_release_whose_answer_is_lost_serves_the_next_one() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (first, second) = (ticket("a", LONG), ticket("a", LONG));
        store.join(&first, WaitMode::Wait).await.unwrap();
        store.join(&second, WaitMode::Wait).await.unwrap();
        assert_eq!(store.leave(&first, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
        // As if that answer had been lost:
        assert_eq!(store.leave(&first, LeaveMode::Now).await.unwrap(), LeaveOutcome::Absent);
        let place = store.renew(&second).await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Holding);
    });
}
