//! A twist: the memory engine with one broken method.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::layers::{Layer, Operation};
use tenure_core::{Engine as _, Memory, Place, Result, Ticket};

/// Maximum requests of a case; more are an endless loop.
const VERBS_MAX: u64 = 20_000;

/// The engine of a twist, with a limit of requests.
pub(crate) struct Twisted<T> {
    twist: T,
    asked: Arc<AtomicU64>,
}

impl<T: Layer<Inner = Memory>> Twisted<T> {
    pub(crate) fn new(twist: T, asked: Arc<AtomicU64>) -> Self {
        Self { twist, asked }
    }
}

impl<T: Layer<Inner = Memory>> Layer for Twisted<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.twist
    }

    async fn intercept<A: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<A>> + Send,
    ) -> Result<A> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let ends = asked < VERBS_MAX || std::thread::panicking();
        assert!(ends, "the case exceeded VERBS_MAX requests");
        ask.await
    }
}

/// The place of a ticket, without a renewal.
pub(crate) async fn place_of(memory: &Memory, ticket: &Ticket) -> Result<Option<Place>> {
    let line = memory.line(&ticket.key).await?;
    Ok(line.into_iter().find(|(other, _)| other.id == ticket.id).map(|(_, place)| place))
}

/// The same ticket with another id.
pub(crate) fn ghost(ticket: &Ticket) -> Ticket {
    Ticket { id: tenure_core::TicketId::fresh(), ..ticket.clone() }
}

/// A twist of this name, whose clients share `Shared`.
macro_rules! twist {
    ($(#[$doc:meta])* $name:ident { $($verbs:tt)* }) => {
        $(#[$doc])*
        pub(crate) struct $name(pub crate::Store);

        impl tenure_core::layers::Layer for $name {
            type Inner = tenure_core::Memory;

            fn inner(&self) -> &tenure_core::Memory {
                &self.0.memory
            }

            $($verbs)*
        }
    };
}
pub(crate) use twist;
