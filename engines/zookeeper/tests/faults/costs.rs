//! What locks cost the server: counted by itself, in packets.

use std::time::Duration;

use super::stage::{connect, play, received};

/// The longest that these servers grant: few signs of life fall into a story.
const LONG: Duration = Duration::from_secs(40);

#[test]
fn a_free_lock_costs_two_requests_and_its_release_one() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        let server = &ensemble.servers()[0];
        locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let before = received(server);
        for _ in 0..200 {
            locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        }
        let all = received(server) - before;
        // Some pings, and the question itself, are among them.
        assert!((600..640).contains(&all), "{all} requests for 200 locks");
    });
}
