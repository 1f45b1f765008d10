//! Stores that a quorum cannot use are refused.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{AnyEngine, Layer};
use tenure_core::*;
use tenure_redlock::Quorum;

use super::stage::{PATIENCE, hold, play, ticket};

/// A memory store that reports another liveness.
struct WithLiveness(Memory, Liveness);

impl Layer for WithLiveness {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    fn profile(&self) -> Guarantees {
        Guarantees::new("says", self.1)
    }
}

#[test]
fn stores_without_leases_are_refused() {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
    let made = |last: Liveness| {
        let lives = [Liveness::Lease, Liveness::Process, last];
        let stores = lives.map(|liveness| AnyEngine::new(WithLiveness(Memory::new(), liveness)));
        Quorum::new(stores, host.clone(), PATIENCE).map(drop)
    };
    made(Liveness::Lease).unwrap();
    for liveness in [Liveness::Kernel, Liveness::Session] {
        let error = made(liveness).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(
            error.to_string(),
            "a quorum cannot be made of says: its tickets have no ttl of their own; take stores that keep leases"
        );
    }
}

#[test]
fn only_mutexes_readers_and_writers_are_kept() {
    play(3, async |stage| {
        let client = stage.client();
        let share = |take, of| Ticket { share: Share::new(take, of).unwrap(), ..ticket() };
        for (take, of, named) in [
            (1, 5, "\"k\" as a semaphore of 5"),
            (5, 5, "\"k\" as a semaphore of 5"),
            (2, SHARE_OF_MAX, "2 shares of the reader-writer lock \"k\""),
            (SHARE_OF_MAX - 1, SHARE_OF_MAX, "1073741823 shares of the reader-writer lock \"k\""),
        ] {
            let error = client.join(&share(take, of), WaitMode::NoWait).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(named), "{error}");
        }
        assert_eq!(stage.tickets().await, [0; 3]);
        let reader = share(1, SHARE_OF_MAX);
        hold(&client, &reader).await;
        let grown = Ticket { share: Share::new(2, SHARE_OF_MAX).unwrap(), ..reader.clone() };
        assert_eq!(client.renew(&grown).await.unwrap_err().kind(), ErrorKind::Unsupported);
        hold(&client, &share(1, SHARE_OF_MAX)).await;
        stage.pass(Duration::from_secs(1)).await;
        client.leave(&reader, LeaveMode::Now).await.unwrap();
    });
}
