//! The number and the ttl of a ticket, by a majority.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_conformance::fault::{Distant, Network, Spied, Verb, Weather};
use tenure_conformance::sim::World;
use tenure_core::layers::AnyEngine;
use tenure_core::*;
use tenure_redlock::Quorum;

use super::moody::Mood;
use super::stage::{hold, key, play, ticket};

#[test]
fn a_majority_knows_the_number_before_it_is_used() {
    for forgets in 0..3 {
        play(3, async |stage| {
            // One store is far ahead of the others, which are used without it later.
            let ahead = Ticket { floor: 1 << 52, ..ticket() };
            let store = stage.stores[forgets].memory();
            store.join(&ahead, WaitMode::NoWait).await.unwrap().unwrap();
            store.leave(&ahead, LeaveMode::Now).await.unwrap();
            let one = stage.client();
            let first = ticket();
            let number = hold(&one, &first).await.number;
            assert!(number > 1 << 52, "the highest number counts");
            one.leave(&first, LeaveMode::Now).await.unwrap();
            stage.stores[forgets].is(Mood::Fails);
            let next = hold(&stage.client(), &ticket()).await.number;
            assert!(next > number, "{next} came after {number}");
        });
    }
}

#[test]
fn a_ticket_lives_as_long_as_the_shortest_of_its_lives() {
    play(3, async |stage| {
        let short = Duration::from_secs(3);
        stage.stores[1].tells_lives_up_to(short);
        let (client, ticket) = (stage.client(), ticket());
        assert_eq!(hold(&client, &ticket).await.life, Some(short));
        assert_eq!(client.renew(&ticket).await.unwrap().unwrap().life, Some(short));
    });
}

#[test]
fn a_clock_that_is_a_day_ahead_is_told() {
    for ahead in 0..3 {
        play(3, async |stage| {
            let day = Duration::from_secs(86_400);
            stage.stores[ahead].has_a_clock_ahead_by(day);
            stage.turns[ahead].has_a_clock_ahead_by(day);
            let (one, other) = (stage.client(), stage.client());
            assert!(one.guarantees().warnings.is_empty());
            one.compare_clocks(stage.turns.iter().cloned().map(AnyEngine::new)).await;
            hold(&other, &ticket()).await;
            let warning = "its clock is, or was, 86400 s ahead of the other stores'";
            for client in [&one, &other] {
                assert_eq!(client.guarantees().warnings, [format!("s{ahead}: {warning}; set it")]);
                assert!(client.health().to_string().contains(warning), "{}", client.health());
                let seen: Vec<_> =
                    client.health().answers().iter().map(|store| store.ahead).collect();
                assert_eq!((seen[ahead], seen.iter().flatten().count()), (Some(day), 1));
            }
            stage.pass(Duration::from_secs(1)).await;
            assert_eq!(one.keys("").await.unwrap(), [key()], "a comparison leaves nothing behind");
        });
    }
}

/// Clients of three stores behind networks with up to `delay` each way, and the renewals at the
/// stores.
fn far(world: &World, delay: Duration, clients: usize) -> (Vec<Quorum>, Arc<AtomicUsize>) {
    let renewals = Arc::new(AtomicUsize::new(0));
    let memories: Vec<_> = (0..3).map(|_| Memory::with_clock((*world.store()).clone())).collect();
    let client = |_| {
        let host = world.process();
        let stores = memories.iter().map(|memory| {
            let renewals = renewals.clone();
            let spied = Spied::new(memory.clone(), move |asked| {
                renewals.fetch_add(usize::from(asked.verb == Verb::Renew), Ordering::Relaxed);
            });
            let network = Network::new(Weather { delay, ..Weather::STILL });
            AnyEngine::new(Distant::new(
                spied,
                world.store(),
                host.clone(),
                network,
                Duration::from_secs(1),
            ))
        });
        Quorum::new(stores, host.clone(), Duration::from_secs(1)).unwrap()
    };
    ((0..clients).map(client).collect(), renewals)
}

#[test]
fn stores_far_away_agree_on_a_number_at_once() {
    World::run(1, async |world| {
        let (clients, renewals) = far(&world, Duration::from_millis(20), 1);
        for round in 0..50 {
            let mine = ticket();
            hold(&clients[0], &mine).await;
            clients[0].leave(&mine, LeaveMode::Now).await.unwrap();
            world.store().sleep(Duration::from_millis(60)).await;
            if round == 4 {
                renewals.store(0, Ordering::Relaxed);
            }
        }
        let written_back = renewals.load(Ordering::Relaxed) / 3;
        assert!(written_back <= 5, "{written_back} of 45 numbers were written back");
    });
}

#[test]
fn clients_that_alternate_do_not_drive_the_numbers_away_from_the_clock() {
    World::run(1, async |world| {
        let (clients, _) = far(&world, Duration::from_micros(100), 2);
        let mut ahead = 0;
        for client in clients.iter().cycle().take(4000) {
            let mine = ticket();
            let number = hold(client, &mine).await.number;
            ahead = number.saturating_sub(world.store().wall_us());
            client.leave(&mine, LeaveMode::Now).await.unwrap();
        }
        assert!(ahead < 100_000, "after 4,000 tickets the numbers are {ahead} µs ahead");
    });
}

#[test]
fn a_store_that_was_told_to_let_it_go_does_not_know_the_number() {
    play(3, async |stage| {
        // The first store is far ahead, the last one cannot be reached.
        let ahead = Ticket { floor: 1 << 52, ..ticket() };
        let store = stage.stores[0].memory();
        store.join(&ahead, WaitMode::NoWait).await.unwrap().unwrap();
        store.leave(&ahead, LeaveMode::Now).await.unwrap();
        stage.stores[2].is(Mood::Fails);
        // Between the join and the write of the number an operator breaks the ticket.
        stage.stores[1].is_broken_as_it_joins();
        let first = ticket();
        let joined = stage.client().join(&first, WaitMode::NoWait).await;
        let Ok(Some(place)) = joined else { return };
        stage.stores[1].memory().leave(&first, LeaveMode::Now).await.unwrap();
        stage.stores[2].is(Mood::Well);
        stage.stores[1].loses_tickets().await;
        stage.stores[0].is(Mood::Fails);
        let next = hold(&stage.client(), &ticket()).await.number;
        assert!(next > place.number, "{next} came after {}", place.number);
    });
}

#[test]
fn a_clock_that_was_set_right_is_forgotten() {
    play(3, async |stage| {
        let day = Duration::from_secs(86_400);
        stage.stores[0].has_a_clock_ahead_by(day);
        let client = stage.client();
        let first = ticket();
        assert!(hold(&client, &first).await.number > stage.world.store().wall_us() + 1_000_000);
        client.leave(&first, LeaveMode::Now).await.unwrap();
        // The clock is set, and the data of that time is gone.
        for store in &stage.stores {
            store.loses_everything();
        }
        stage.pass(Duration::from_secs(3600)).await;
        for round in 0..3 {
            let own = Ticket { key: Key::new(format!("k{round}")).unwrap(), ..ticket() };
            let number = hold(&client, &own).await.number;
            let ahead = number.saturating_sub(stage.world.store().wall_us());
            assert!(ahead < 1_000_000, "{ahead} µs ahead of a clock that is right");
            client.leave(&own, LeaveMode::Now).await.unwrap();
        }
    });
}
