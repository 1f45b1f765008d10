//! Older data: a server comes back with an older state. Numbers grow all the same, and a holder
//! that is missing in it is notified.

use tenure_core::{Engine as _, ErrorKind, LeaveMode, TicketState, WaitMode};
use tenure_servers::mongodb::{Members, Server, doc};

use super::stage::{LONG, ask, join, look_at, play, record, store, ticket, until};

#[test]
fn after_an_older_record_numbers_grow_and_whoever_is_gone_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (first, second) = (ticket("a", LONG), ticket("a", LONG));
        join(&store, &first).await;
        let older = look_at(&server, "a").unwrap();
        let behind = join(&store, &second).await;
        // The state that a restored backup would have.
        let change = doc! { "q": { "_id": record("a") }, "u": older };
        ask(&server, doc! { "update": "locks", "updates": [change] });
        assert_eq!(store.renew(&second).await.unwrap(), None, "it is gone");
        assert!(store.renew(&first).await.unwrap().is_some(), "it is there");
        let next = join(&store, &ticket("a", LONG)).await;
        assert!(next.number > behind.number, "{next:?} {behind:?}");
    });
}

#[test]
fn what_a_primary_wrote_alone_is_no_success_and_is_gone_after_it_rolled_back() {
    play(async || {
        let members = Members::start(3).unwrap();
        let store = store(&members.url()).await;
        let held = ticket("a", LONG);
        let before = join(&store, &held).await;
        let old = members.primary().unwrap();
        let others: Vec<_> =
            members.servers().iter().filter(|it| it.port() != old.port()).collect();
        for other in &others {
            other.kill().unwrap();
        }
        // The primary writes both down, and no other member does.
        let lost = ticket("b", LONG);
        let (left, joined) =
            tokio::join!(store.leave(&held, LeaveMode::Now), store.join(&lost, WaitMode::Wait));
        assert_eq!(left.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(joined.unwrap_err().kind(), ErrorKind::Unavailable);
        old.kill().unwrap();
        for other in &others {
            other.restart().unwrap();
        }
        members.next_primary(old).unwrap();
        until("the next primary knows the holder", async || {
            store.renew(&held).await.is_ok_and(|place| place.is_some())
        })
        .await;
        let place = store.renew(&held).await.unwrap().expect("it was never released");
        assert_eq!((place.number, place.state), (before.number, TicketState::Holding));
        assert_eq!(store.renew(&lost).await.unwrap(), None);
        let next = join(&store, &ticket("b", LONG)).await;
        assert_eq!(next.state, TicketState::Holding);

        old.restart().unwrap();
        let rolled_back = old.folder().join("rollback");
        until("it gives up what it wrote alone", async || rolled_back.exists()).await;
        let place = store.renew(&held).await.unwrap().expect("it was never released");
        assert_eq!(place.state, TicketState::Holding);
        assert_eq!(store.renew(&lost).await.unwrap(), None);
    });
}
