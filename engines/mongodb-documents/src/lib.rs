//! Documents of your own collection, locked where they lie, and read in the same command.
//!
//! ```no_run
//! use serde::{Deserialize, Serialize};
//! use tenure_mongodb_documents::Documents;
//! use mongodb::bson::doc;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { state: String, total: i64 }
//!
//! # async fn pay(collection: mongodb::Collection<Order>) -> tenure_core::Result<()> {
//! let orders = Documents::new().over(&collection).await?;
//! let order = orders.document(42).lock().await?;              // locks and reads in one command
//! println!("{} is to be paid", order.document().total);
//! order.update(doc! { "$set": { "state": "paid" } }).await?;  // refused if the lock is lost
//! order.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The lock lives in the field `_tenure` of the document, which your type does not see. A lock on a
//! [part](DocumentLocks::part) lives in the same field of the part: parts of one document lock
//! independently of each other and of the whole, unless the locks are
//! [hierarchical](Documents::hierarchical).
//!
//! The README of this crate describes what happens if a program without locks writes
//! to the document.

mod arrivals;
mod backend;
mod change;
mod claim;
mod collection_locks;
mod filter;
mod guard;
mod holder;
mod letters;

mod locations;
mod lock;
mod memory;
mod name;
mod open;
mod opening;
mod parts;
mod passed_over;
mod path;
mod queue;
mod read_results;
mod request;
mod settings;
mod store;
mod text;
mod typed;
mod view;
mod way;
mod write;

pub use guard::{DocumentGuard, DocumentReader};
pub use lock::{DocumentLock, DocumentLocks};
pub use memory::MemoryDocuments;
pub use parts::DocumentParts;
pub use path::Path;
pub use queue::{ClaimedDocument, DocumentQueue};
pub use request::Update;
pub use settings::{Documents, FIELD_DEFAULT};
