//! The number of a ticket, and its life: what a majority knows.

use std::time::Duration;

use tenure_core::wrap::AnyEngine;
use tenure_core::*;

use super::moody::Mood;
use super::stage::{hold, key, play, ticket};

#[test]
fn a_majority_knows_the_number_before_it_is_used() {
    for forgets in 0..3 {
        play(3, async |stage| {
            // One store is far ahead of the others, which are asked without it later.
            let ahead = Ticket { floor: 1 << 52, ..ticket() };
            let store = stage.stores[forgets].memory();
            store.join(&ahead, Patience::NoWait).await.unwrap().unwrap();
            store.leave(&ahead, Leave::Now).await.unwrap();
            let one = stage.client();
            let first = ticket();
            let number = hold(&one, &first).await.number;
            assert!(number > 1 << 52, "the highest number counts");
            one.leave(&first, Leave::Now).await.unwrap();
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
            assert!(one.profile().warnings.is_empty());
            one.compare_clocks(stage.turns.iter().cloned().map(AnyEngine::new)).await;
            hold(&other, &ticket()).await;
            let told = "its clock is, or was, 86400 s ahead of the other stores'";
            for client in [&one, &other] {
                assert_eq!(client.profile().warnings, [format!("s{ahead}: {told}; set it")]);
                assert!(client.board().to_string().contains(told), "{}", client.board());
                let seen: Vec<_> =
                    client.board().answers().iter().map(|store| store.ahead).collect();
                assert_eq!((seen[ahead], seen.iter().flatten().count()), (Some(day), 1));
            }
            stage.pass(Duration::from_secs(1)).await;
            assert_eq!(one.keys("").await.unwrap(), [key()], "a comparison leaves nothing behind");
        });
    }
}
