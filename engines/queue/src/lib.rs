//! Lines of locks in stores with sessions and an order of their own, such as etcd and ZooKeeper.
//!
//! Such stores keep a line in the same way. Each ticket is a node, in the order in which the store
//! made them. A client looks at the nodes ahead of its own, and watches those that keep it out. A
//! session keeps all nodes of a client alive. [`SessionEngine`] has that code once.
//! [`SessionStore`] is the contract of a store: enter, look, watch, remove, and the session.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `contract` | what a store must do so that lines can be kept in it |
//! | `node` | a ticket as the store keeps it: its name, its body, its number |
//! | `position` | the place of a ticket in its line, and the nodes that keep it out: pure |
//! | `session`, `sessions` | the life of all tickets of one ttl, counted from before each request |
//! | `own_tickets`, `own_ticket` | the tickets of this client, and one of them |
//! | `parts` | what the tasks of a client share with it |
//! | `engine` | one client: its tickets, its sessions, and the ten verbs |
//! | `joining`, `renewing`, `leaving`, `waking`, `counting` | the steps of each verb |
//! | `seeing` | reads of a ticket and of its line |
//! | `likely_free` | which lines seem to be free |
//! | `event_feed` | events of all lines, from changes of nodes |

mod contract;
mod counting;
mod engine;
mod event_feed;
mod joining;
mod leaving;
mod likely_free;
mod node;
mod own_ticket;
mod own_tickets;
mod parts;
mod position;
mod renewing;
mod seeing;
mod session;
mod sessions;
mod waking;

pub use contract::{
    ChangesAt, Enter, Entered, Followed, Front, Granted, Hint, NodeChange, OpenWatch, Precondition,
    Register, RegisterValue, Remove, Removed, SessionId, SessionStore, Sought, TextValue, Why,
};
pub use engine::SessionEngine;
pub use likely_free::LikelyFree;
pub use node::{LineId, Node, TicketName};
pub use position::{Position, blockers};
