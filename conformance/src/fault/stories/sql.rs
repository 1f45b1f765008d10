//! Stories of engines that keep their lines in the tables of a SQL database.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

pub mod blockers;
pub mod crowds;
pub mod dropped;
pub mod silence;
pub mod verbs;

use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::{Key, Locks, Result, Share, Ticket};

use crate::fault::stage::at_last;

/// A ttl without a heartbeat in the time of a test.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Defines a test for each story of SQL databases. The argument is a function that runs a story
/// with a [`SqlServer`](crate::fault::stories::sql::SqlServer).
///
/// A story that is added here runs for every engine.
#[macro_export]
macro_rules! sql_stories {
    ($play:path) => {
        $crate::sql_stories!($play:
            blockers each_verb_of_a_line_decides_on_the_record_that_a_blocker_leaves
            blockers each_verb_on_a_number_or_value_counts_from_what_a_blocker_leaves
            blockers no_verb_decides_on_the_time_before_its_wait
            blockers a_row_that_is_blocked_keeps_no_other_key_waiting
            blockers forty_rows_that_are_blocked_keep_no_other_key_waiting
            blockers a_blocked_verb_is_answered_in_time_and_nothing_stale_is_carried_out
            crowds a_thousand_waiters_of_which_half_give_up_are_served_in_turn
            crowds ten_thousand_locks_are_kept_by_one_client
            dropped verbs_that_are_dropped_at_any_await_leave_nothing_behind
            silence forty_callers_of_a_frozen_server_have_their_answers_in_time_and_leave_nothing
        );
    };
    ($play:path: $($module:ident $story:ident)*) => {
        $(
            #[test]
            fn $story() {
                $play($crate::fault::stories::sql::$module::$story);
            }
        )*
    };
}

/// A real SQL database with the tables of an engine.
#[allow(async_fn_in_trait, reason = "a story awaits it in its own task")]
pub trait SqlServer {
    /// A session of a stranger to Tenure.
    type Stranger: SqlSession;

    /// The text before the name of a table, such as `tenure.` for a schema.
    const TABLES: &str;
    /// The quotation mark of a column's name.
    const QUOTE: char;
    /// The server's clock, in microseconds since 1970.
    const NOW_US: &str;
    /// Replaces the record of `a` by that of `b`, as another client would write it.
    const TAKE_A: &str;
    /// The number of tasks that meet at one row, and of the locks that each takes.
    const MEETING: (usize, u32);

    /// The URL of the engine, without a query.
    fn url(&self) -> String;
    /// Returns another place of that engine's tables, as the query of the URL.
    fn other_tables(name: &str) -> String;
    /// Connects a client.
    async fn try_connect(url: &str) -> Result<Locks>;
    /// Opens the engine itself, which repeats no verb.
    async fn engine(url: &str) -> AnyEngine;
    /// Opens a session.
    async fn stranger(&self) -> Self::Stranger;
    /// Executes statements, and returns their output.
    fn sql(&self, statements: &str) -> String;
    /// The number of connections of Tenure's clients.
    fn connections(&self) -> i64;
    /// The number of open transactions, without those in which clients listen.
    async fn transactions(&self) -> i64;
    /// Asserts what holds of the clients' connections between two verbs: nothing, unless the engine
    /// has more to promise.
    fn check_connections(&self) {}
    /// The number of statements that have waited for a row, since the server started.
    fn row_waits(&self) -> i64;
    /// Stops the server's processes.
    fn freeze(&self);
    /// Lets them go on.
    fn thaw(&self);
}

/// A session of a stranger to Tenure.
#[allow(async_fn_in_trait, reason = "a story awaits it in its own task")]
pub trait SqlSession {
    /// Executes statements.
    async fn sql(&mut self, statements: &str);
}

/// Connects a client as soon as the server answers.
async fn connect<S: SqlServer>(url: impl AsRef<str>) -> Locks {
    at_last("the server can be reached", async || S::try_connect(url.as_ref()).await).await
}

/// The name of a table.
fn table<S: SqlServer>(name: &str) -> String {
    format!("{}{name}", S::TABLES)
}

/// The name of a column that is also a word of SQL.
fn column<S: SqlServer>(name: &str) -> String {
    format!("{0}{name}{0}", S::QUOTE)
}

/// The only number that a query returns.
fn number(server: &impl SqlServer, query: &str) -> i64 {
    server.sql(query).trim().parse().expect("the query returns a number")
}

fn key(key: &str) -> Key {
    Key::new(key).expect("the key is right")
}

/// A ticket for the whole of this key.
fn ticket(name: &str, ttl: Duration) -> Ticket {
    Ticket { ttl, ..Ticket::new(key(name), Share::WHOLE) }
}
