//! Engines that break numbers, lives, or the bell.

use std::time::Duration;

use tenure_core::{Clock as _, Engine as _, Key, Leave, Left, Patience, Place, Result, Standing, TTL_MAX, Ticket, Wake};

use crate::twist::{place_of, twist};

/// The same place with another number.
fn numbered(place: Place, change: impl Fn(u64) -> u64) -> Place {
    Place { number: change(place.number), ..place }
}

/// A twist that changes every number that is told.
macro_rules! renumbers {
    ($(#[$doc:meta])* $name:ident, $self:ident, $ticket:ident: $before:expr, $number:ident => $change:expr) => {
        twist! {
            $(#[$doc])*
            $name {
                async fn join(&$self, $ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
                    $before;
                    let place = $self.0.memory.join($ticket, patience).await?;
                    let key = &$ticket.key;
                    let _ = key;
                    Ok(place.map(|place| numbered(place, |$number| $change)))
                }

                async fn renew(&$self, $ticket: &Ticket) -> Result<Option<Place>> {
                    let place = $self.0.memory.renew($ticket).await?;
                    Ok(place.map(|place| numbered(place, |$number| $change)))
                }

                async fn watch(&$self, $ticket: &Ticket, seen: Standing) -> Result<Wake> {
                    let wake = $self.0.memory.watch($ticket, seen).await?;
                    Ok(match wake {
                        Wake::Served($number) => Wake::Served($change),
                        wake => wake,
                    })
                }
            }
        }
    };
}

renumbers! {
    /// Numbers begin anew when the line has been empty.
    ForgetsNumbers, self, ticket: {
        if self.0.memory.line(&ticket.key).await?.is_empty() {
            let base = self.0.memory.0_base();
            self.0.state.bases.lock().unwrap().insert(ticket.key.clone(), base);
        }
    }, number => number.saturating_sub(self.0.state.bases.lock().unwrap().get(&ticket.key).copied().unwrap_or(0))
}

renumbers! {
    /// Numbers come from the clock of the client, which is behind that of the client before.
    NumbersByTheClientsClock, self, ticket: (), number => number - 1_000_000_000 * self.0.client
}
