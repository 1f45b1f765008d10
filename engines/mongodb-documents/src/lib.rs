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
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `settings`, `open`, `opening` | the settings, how a collection is opened, and what prevents it |
//! | `lock`, `parts`, `until` | locks on a document, on a part, and on several parts; how long a caller waits |
//! | `guard`, `holder`, `request` | a locked document, the tickets that lock it, and the acts of its holder |
//! | `queue`, `claimed_document` | a queue of the documents that match a filter |
//! | `arrivals`, `filter` | what wakes a worker that waits for a document |
//! | `collection_locks`, `backend` | what all locks of a collection share, in MongoDB or in memory |
//! | `store`, `view`, `locations`, `read_results`, `letters` | the engine for MongoDB, with lines in documents |
//! | `claim`, `document_claims`, `free_documents`, `passed_over` | how a document is claimed, which are claimed, and which are left out |
//! | `write`, `holder_query` | the writes of a holder, and the queries that find its ticket |
//! | `change`, `change_pipeline` | a change of the user's, adapted to the locked part |
//! | `name`, `path`, `text`, `way`, `typed` | names of documents and parts, the stages that find a part, values of the user's types |
//! | `memory` | documents in memory, for unit tests |

mod arrivals;
mod backend;
mod change;
mod change_pipeline;
mod claim;
mod claimed_document;
mod collection_locks;
mod document_claims;
mod filter;
mod free_documents;
mod guard;
mod holder;
mod holder_query;
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
mod until;
mod view;
mod way;
mod write;

pub use claimed_document::ClaimedDocument;
pub use guard::{DocumentGuard, DocumentReader};
pub use lock::{DocumentLock, DocumentLocks};
pub use memory::MemoryDocuments;
pub use parts::DocumentParts;
pub use path::Path;
pub use queue::DocumentQueue;
pub use request::Update;
pub use settings::{Documents, FIELD_DEFAULT};
