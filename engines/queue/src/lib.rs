//! Lines of locks in stores that have sessions and an order of their own, as etcd and ZooKeeper have.
//!
//! Such stores keep a line in the same way: a node for each ticket, in the order in which the store made them; whoever
//! comes looks at the nodes ahead, and watches those that keep it out; a session keeps all nodes of a client alive. That is
//! written here once, as [`Queue`]. What a store does is the contract [`Store`]: enter, look, watch, remove, and the session.
//!
//! # Where what stands
//!
//! | file | what it has |
//! |---|---|
//! | `contract` | what a store must do so that lines can be kept in it |
//! | `node` | a ticket as the store keeps it: its name, its body, its number |
//! | `stand` | where a ticket stands, and who keeps it out: pure |
//! | `session`, `sessions` | the life of all tickets of one ttl: its end is counted from before the question |
//! | `own`, `parts` | the tickets of this client, and what its tasks have of it |
//! | `pauses` | between tries of which others were quicker |
//! | `queue` | one client: its tickets and its sessions |
//! | `engine` | the nine verbs; `joining`, `seeing`, `leaving`, `waking` and `counting` carry them out |
//! | `calls` | the callers that wait for numbers of a sequence |
//! | `free` | which lines seem to be free |
//! | `looks` | the looks at one ticket, which callers share |
//! | `watched` | what a ticket watches, kept between two calls |
//! | `onlooker` | what happens to all lines, told from what happens to nodes |

mod asked;
mod calls;
mod contract;
mod counting;
mod engine;
mod free;
mod joining;
mod leaving;
mod looks;
mod mine;
mod node;
mod onlooker;
mod own;
mod parts;
mod pauses;
mod queue;
mod seeing;
mod session;
mod sessions;
mod stand;
mod waking;
mod watched;

pub use contract::{
    Ahead, Change, Distance, Door, Enter, Entered, Followed, Front, Granted, Register, Remove,
    Removed, SessionId, Sought, Store, Told, Watching, Why, Written,
};
pub use free::Free;
pub use node::{LineId, Name, Node};
pub use queue::Queue;
pub use stand::blockers;
