//! Crowds: many tickets for one key at the same time, of one client or of many.

use std::time::Duration;

use futures_util::future::join_all;
use mongodb::Client;
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, Owner, Ticket, TicketState, WaitMode};
use tenure_mongodb::{MongoStore, Settings};
use tenure_servers::mongodb::Server;
use tokio::runtime::Handle;

use super::stage::{LONG, count, join, play, store, ticket};

#[test]
fn of_a_hundred_clients_that_insert_the_same_new_key_one_gets_it() {
    play(async || {
        let server = Server::start().unwrap();
        // Each store has an inbox and lanes of its own. They only share connections.
        let client = Client::with_uri_str(server.url()).await.unwrap();
        let settings = Settings::new().timeout(Duration::from_secs(30));
        let mut stores = Vec::new();
        for _ in 0..100 {
            let store = MongoStore::over(client.clone(), Handle::current(), &settings).await;
            stores.push(store.unwrap());
        }
        for (key, patience) in
            [("a", WaitMode::NoWait), ("b", WaitMode::NoWait), ("c", WaitMode::Wait)]
        {
            let tickets: Vec<Ticket> = stores.iter().map(|_| ticket(key, LONG)).collect();
            let asked = stores.iter().zip(&tickets).map(|(store, it)| store.join(it, patience));
            let places: Vec<_> =
                join_all(asked).await.into_iter().filter_map(|it| it.unwrap()).collect();
            let holding = places.iter().filter(|place| place.state == TicketState::Holding);
            assert_eq!(holding.count(), 1, "{key}: {places:?}");
            let mut numbers: Vec<u64> = places.iter().map(|place| place.number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), places.len(), "{key}: no number is given twice");
            let line = stores[0].line(&tickets[0].key).await.unwrap();
            assert_eq!(line.len(), if patience == WaitMode::Wait { 100 } else { 1 });
        }
    });
}

#[test]
fn what_a_hundred_tasks_ask_at_once_goes_in_a_few_commands() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&format!("{}&timeout=30s", server.url())).await;
        let tickets: Vec<Ticket> = (0..100).map(|_| ticket("a", LONG)).collect();
        let commands = || count(&server, "findAndModify");

        let before = commands();
        let places = join_all(tickets.iter().map(|it| store.join(it, WaitMode::Wait))).await;
        let joined = commands() - before;
        let numbers: Vec<u64> = places.into_iter().map(|it| it.unwrap().unwrap().number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "in the order in which they asked");

        let before = commands();
        for place in join_all(tickets.iter().map(|it| store.renew(it))).await {
            place.unwrap().expect("it stands there");
        }
        let renewed = commands() - before;

        let before = commands();
        let left = join_all(tickets.iter().map(|it| store.leave(it, LeaveMode::Now))).await;
        let left: Vec<LeaveOutcome> = left.into_iter().map(Result::unwrap).collect();
        assert!(
            left.iter().all(|left| matches!(left, LeaveOutcome::Holding | LeaveOutcome::Waiting)),
            "{left:?}"
        );
        let (left, limit) = (commands() - before, 5);
        assert!(
            joined <= limit && renewed <= limit && left <= limit,
            "100 joins, renewals and leaves took {joined}, {renewed} and {left} commands"
        );
        assert!(store.line(&tickets[0].key).await.unwrap().is_empty());
    });
}

#[test]
fn one_wish_that_is_refused_spoils_no_other_of_its_command() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&format!("{}&timeout=30s", server.url())).await;
        let held = ticket("a", LONG);
        let first = join(&store, &held).await;
        let mut other = ticket("a", LONG);
        other.share = tenure_core::Share::new(1, 3).unwrap();
        let stranger = Ticket { owner: Owner::shortened("somebody else"), ..held.clone() };
        let [hasty, late, gone] = [(); 3].map(|()| ticket("a", LONG));
        let (front, mixed, taken, busy, behind, absent) = tokio::join!(
            store.renew(&held),
            store.join(&other, WaitMode::Wait),
            store.join(&stranger, WaitMode::Wait),
            store.join(&hasty, WaitMode::NoWait),
            store.join(&late, WaitMode::Wait),
            store.leave(&gone, LeaveMode::Now),
        );
        assert_eq!(front.unwrap().expect("it stands there").number, first.number);
        assert!(mixed.unwrap_err().to_string().contains('3'));
        assert!(taken.is_err() && busy.unwrap().is_none());
        assert_eq!(behind.unwrap().expect("it waits").state, TicketState::Waiting);
        assert_eq!(absent.unwrap(), LeaveOutcome::Absent);
        assert_eq!(store.line(&held.key).await.unwrap().len(), 2);
    });
}
