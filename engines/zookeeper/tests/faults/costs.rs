//! The costs of locks for the server, which counts the packets itself.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::stage::{TTL, connect, operator, play, received};

/// The longest that these servers grant: few signs of life fall into a story.
const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_free_lock_costs_one_request_and_its_release_one() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let server = &ensemble.servers()[0];
        locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let (before, began) = (received(server), Instant::now());
        for _ in 0..200 {
            locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        }
        let all = received(server) - before;
        // The question itself is among them, and up to three pings a second.
        let most = 410 + 4 * (began.elapsed().as_secs() + 1);
        assert!((400..most).contains(&all), "{all} requests for 200 locks");
    });
}

#[test]
fn an_idle_client_gives_signs_of_life_and_nothing_else() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let server = &ensemble.servers()[0];
        let held = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let before = received(server);
        tokio::time::sleep(TTL * 3).await;
        let idle = received(server) - before;
        println!("{idle} packets in {:?}", TTL * 3);
        // The session that is not for tickets is asked once a second whether it still answers; both
        // ping.
        assert!(idle <= 18, "{idle} packets in {:?}", TTL * 3);
        held.check().unwrap();
    });
}

#[test]
fn an_idle_client_of_an_ensemble_writes_six_times_in_a_life() {
    play(3, async |ensemble| {
        let (locks, operator) = (connect(&ensemble).await, operator(&ensemble).await);
        let life = TTL * 6;
        let held = locks.mutex("k").ttl(life).lock().await.unwrap();
        let written = async || operator.get_data("/tenure/v1/now").await.unwrap().1.version;
        let before = written().await;
        tokio::time::sleep(life).await;
        let signs = written().await - before;
        assert!((5..=7).contains(&signs), "{signs} signs of life in {life:?}");
        held.check().unwrap();
    });
}

#[test]
fn a_sequence_that_many_count_at_once_costs_less_than_a_request_for_each_number() {
    const CALLERS: u64 = 256;
    const ROUNDS: u64 = 4;
    play(1, async |ensemble| {
        let (locks, server) = (connect(&ensemble).await, &ensemble.servers()[0]);
        let before = received(server);
        let counts = (0..CALLERS).map(async |_| {
            for _ in 0..ROUNDS {
                locks.sequence("k").next().await.unwrap();
            }
        });
        join_all(counts).await;
        let all = received(server) - before;
        println!("{all} packets for {} numbers", CALLERS * ROUNDS);
        assert!(all <= CALLERS, "{all} packets for {} numbers", CALLERS * ROUNDS);
        assert_eq!(locks.sequence("k").next().await.unwrap(), CALLERS * ROUNDS + 1);
    });
}
