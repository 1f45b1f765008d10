//! Lines of locks in stores with sessions and an order of their own, such as etcd and ZooKeeper.
//!
//! Such stores keep a line in the same way. Each ticket is a node, in the order in which the store
//! made them. A client looks at the nodes ahead of its own, and watches those that keep it out. A
//! session keeps all nodes of a client alive. [`Queue`] has that code once. [`Store`] is the
//! contract of a store: enter, look, watch, remove, and the session.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `contract` | what a store must do so that lines can be kept in it |
//! | `node` | a ticket as the store keeps it: its name, its body, its number |
//! | `position` | the place of a ticket in its line, and the nodes that keep it out: pure |
//! | `session`, `sessions` | the life of all tickets of one ttl, counted from before each request |
//! | `own`, `mine` | the tickets of this client, and one of them |
//! | `parts` | what the tasks of a client share with it |
//! | `pauses` | backoff between tries that lost to other clients |
//! | `queue` | one client: its tickets and its sessions |
//! | `engine` | the nine verbs |
//! | `joining`, `seeing`, `leaving`, `waking`, `counting` | the verbs' steps; sequences |
//! | `likely_free` | which lines seem to be free |
//! | `onlooker` | events of all lines, from changes of nodes |

mod contract;
mod counting;
mod engine;
mod joining;
mod leaving;
mod likely_free;
mod mine;
mod node;
mod onlooker;
mod own;
mod parts;
mod pauses;
mod position;
mod queue;
mod seeing;
mod session;
mod sessions;
mod waking;

pub use contract::{
    Change, Enter, Entered, Followed, Front, Granted, Hint, Precondition, Register, Remove,
    Removed, SessionId, Sought, Store, Watching, Why, Written,
};
pub use likely_free::LikelyFree;
pub use node::{LineId, Name, Node};
pub use position::{Position, blockers};
pub use queue::Queue;
