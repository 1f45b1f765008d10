//! Lines of locks in stores with a record, a clock and an atomic step, such as a SQL database.
//!
//! The line of a key is one serialised [`LineRecord`]. [`RecordStore`] is the contract of a store:
//! its guarantees, seven operations, and `close`. The central operation is an atomic step on one
//! record. [`RecordEngine`] makes an [`Engine`](tenure_core::Engine) of a store. The state machine
//! of a line is core's [`Line`](tenure_core::Line).
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `contract` | what a store must do so that lines can be kept in its records |
//! | `format` | the serialised tickets of a line |
//! | `notice` | notifications between the clients of a store |
//! | `open_line` | one step on a line: pure, with the time as an argument |
//! | `batch` | the requests for one line, sent in batches |
//! | `renewals` | the renewals of lone tickets, of several lines in one statement |
//! | `listener` | the store's notices, while a task watches a ticket |
//! | `optimistic` | the step of a store that compares the record when it writes |
//! | `quarantine` | the quarantine of a SQL database after a fail-over |
//! | `row_wait` | the tries of a verb to get a row that another transaction has |
//! | `server_clock` | the server's clock as a client knows it |
//! | `engine` | the ten verbs, the polls of a store without push, the sweep |

mod batch;
mod contract;
mod engine;
mod format;
mod listener;
mod notice;
mod open_line;
mod optimistic;
mod quarantine;
mod renewals;
mod row_wait;
mod server_clock;

pub use contract::{
    Decide, FoundRecord, LineRecord, LoneStep, LoneVerb, RecordChange, RecordStore, counted,
};
pub use engine::{POLL_MAX, RecordEngine, SWEEP_PAUSE};
pub use format::micros;
pub use notice::{Inbox, NOTICES_MAX, RecordNotice, RecordNoticeKind};
pub use optimistic::{OptimisticStore, ReadRecord, WriteOutcome, optimistic_step};
pub use quarantine::{GENERATION_STEP_US, LONGEST_KEPT, LONGEST_MIN, QUARANTINE_IS_DUE};
pub use renewals::{LoneRenewal, RENEWALS_MAX, RenewalBatcher, RenewalStore};
pub use row_wait::{ROW_BACKOFF, RowWait, RowWaits};
pub use server_clock::ServerClock;
