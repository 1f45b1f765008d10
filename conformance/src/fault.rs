//! Engines that misbehave as networks do: put any engine behind one, and see who still keeps its word.

mod distant;
mod lossy;
mod moody;
mod paced;
mod proxy;
mod spied;
mod weather;

use tenure_core::{Ticket, TicketId};

pub use distant::Distant;
pub use lossy::Lossy;
pub use moody::{Mood, Moody};
pub(crate) use paced::Paced;
#[doc(hidden)]
pub use paced::pause;
pub use proxy::{Act, Counts, Direction, Match, Protocol, Proxy, Rule};
pub use spied::Spied;
pub use weather::{Network, Weather};

/// What can be asked of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the verb of the contract with its name")]
pub enum Verb {
    Join,
    Renew,
    Leave,
    Watch,
    Events,
    Line,
    Keys,
    Tally,
}

/// A question on its way to a store.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What is asked.
    pub verb: Verb,
    /// For which ticket, where it is for one.
    pub ticket: Option<&'a Ticket>,
}

impl Verb {
    /// Whether it only waits for something to happen, and changes nothing.
    pub fn only_waits(self) -> bool {
        matches!(self, Self::Watch | Self::Events)
    }

    fn of(self, ticket: &Ticket) -> Asked<'_> {
        Asked { verb: self, ticket: Some(ticket) }
    }

    fn alone(self) -> Asked<'static> {
        Asked { verb: self, ticket: None }
    }
}

impl Asked<'_> {
    /// The ticket's id, where it is asked for one.
    pub fn id(&self) -> Option<TicketId> {
        self.ticket.map(|ticket| ticket.id)
    }
}

/// Writes the verbs of a wrapper that carries all of them in one way, which it tells in `carry`.
macro_rules! carries_every_verb {
    ($wrapper:ident) => {
        impl<E: Engine> Engine for $wrapper<E> {
            fn profile(&self) -> Profile {
                self.told()
            }

            async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.join(&ticket, patience).await }
                };
                self.carry(Verb::Join.of(ticket), verb).await
            }

            async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.renew(&ticket).await }
                };
                self.carry(Verb::Renew.of(ticket), verb).await
            }

            async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.leave(&ticket, how).await }
                };
                self.carry(Verb::Leave.of(ticket), verb).await
            }

            async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.watch(&ticket, seen).await }
                };
                self.carry(Verb::Watch.of(ticket), verb).await
            }

            async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
                let own = scope.clone();
                let verb = move |engine: Arc<E>| {
                    let scope = own.clone();
                    async move { engine.events(&scope, after).await }
                };
                self.carry(Verb::Events.alone(), verb).await
            }

            async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
                let own = key.clone();
                let verb = move |engine: Arc<E>| {
                    let key = own.clone();
                    async move { engine.line(&key).await }
                };
                self.carry(Verb::Line.alone(), verb).await
            }

            async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
                let own = prefix.to_owned();
                let verb = move |engine: Arc<E>| {
                    let prefix = own.clone();
                    async move { engine.keys(&prefix).await }
                };
                self.carry(Verb::Keys.alone(), verb).await
            }

            async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
                let own = key.clone();
                let verb = move |engine: Arc<E>| {
                    let key = own.clone();
                    async move { engine.tally(&key, by, window).await }
                };
                self.carry(Verb::Tally.alone(), verb).await
            }

            async fn close(&self) {
                self.engine.close().await;
            }
        }
    };
}
use carries_every_verb;

/// Whether something happens that happens so many times in a thousand.
fn happens(random: u64, per_mille: u32) -> bool {
    random % 1000 < u64::from(per_mille)
}
