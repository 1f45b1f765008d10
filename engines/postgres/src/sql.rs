//! The statements, for the tables of one schema. Their texts are the files of `sql/`.
//!
//! Each statement is a transaction of its own. A statement that writes a line locks its row first
//! and reads the clock afterwards, because a clock that was read before a wait is stale. Beside the
//! row it reads only `meta`, with a snapshot from before the wait. The columns that it compares
//! there change only after a promotion, which ends each statement in progress.

use tenure_core::NUMBER_MAX;

/// The server's clock, in microseconds since 1970.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
/// The server's clock when the execution of the statement began.
const BEGAN: &str = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint";
/// The server's timeline, which grows with each promotion of a standby.
pub(crate) const TIMELINE: &str =
    "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int";
/// The numbers of each timeline are larger by 30 days in microseconds than those of the timeline
/// before. So they grow through a fail-over, although the new primary may lack the last numbers of
/// the old one and have a clock that is behind.
const TIMELINE_STEP_US: u64 = 30 * 24 * 60 * 60 * 1_000_000;

/// Sends notices. The transactions with notices of one server commit one after the other, so this
/// one does not wait for the disk, and not long for one of a stranger that does.
pub(crate) const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), \
     set_config('lock_timeout', '50ms', true), pg_notify(channel, payload) \
     FROM unnest($1, $2) AS notices (channel, payload)";

/// Maximum rows that one statement of a sweep deletes.
pub(crate) const SWEEP_MAX: usize = 1000;

/// The texts of the statements.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) schema: String,
    pub(crate) format: String,
    pub(crate) read: String,
    pub(crate) join_free: String,
    /// Writes a record. No further ticket is served.
    pub(crate) write: String,
    /// Writes a record. A further ticket is served, so the statement waits for each transaction
    /// that holds the line.
    pub(crate) serve: String,
    pub(crate) insert: String,
    pub(crate) keys: String,
    pub(crate) add_to_sequence: String,
    pub(crate) read_sequence: String,
    pub(crate) add_to_count: String,
    pub(crate) insert_count: String,
    pub(crate) swap: String,
    pub(crate) insert_value: String,
    pub(crate) raise_longest: String,
    pub(crate) quarantine: String,
    pub(crate) rotate_longest: String,
    pub(crate) sweep_lines: String,
    pub(crate) sweep_counts: String,
}

impl Statements {
    /// Returns the statements for this schema, which is an identifier in quotes.
    pub(crate) fn new(schema: &str) -> Self {
        let settings = include_str!("sql/settings.sql");
        let text = |text: &str| {
            text.replace("{settings}", settings.trim_end())
                .replace("{timeline_step}", &TIMELINE_STEP_US.to_string())
                .replace("{sweep_max}", &SWEEP_MAX.to_string())
                .replace("{timeline}", TIMELINE)
                .replace("{clock}", CLOCK)
                .replace("{began}", BEGAN)
                .replace("{number_max}", &NUMBER_MAX.to_string())
                .replace("{schema}", schema)
        };
        let write = |lock| text(&include_str!("sql/write.sql").replace("{lock}", lock));
        Self {
            schema: text(include_str!("sql/schema.sql")),
            format: text(include_str!("sql/format.sql")),
            read: text(include_str!("sql/read.sql")),
            join_free: text(include_str!("sql/join_free.sql")),
            write: write("NO KEY UPDATE"),
            serve: write("UPDATE"),
            insert: text(include_str!("sql/insert.sql")),
            keys: text(include_str!("sql/keys.sql")),
            add_to_sequence: text(include_str!("sql/add_to_sequence.sql")),
            read_sequence: text(include_str!("sql/read_sequence.sql")),
            add_to_count: text(include_str!("sql/add_to_count.sql")),
            insert_count: text(include_str!("sql/insert_count.sql")),
            swap: text(include_str!("sql/swap.sql")),
            insert_value: text(include_str!("sql/insert_value.sql")),
            raise_longest: text(include_str!("sql/raise_longest.sql")),
            quarantine: text(include_str!("sql/quarantine.sql")),
            rotate_longest: text(include_str!("sql/rotate_longest.sql")),
            sweep_lines: text(include_str!("sql/sweep_lines.sql")),
            sweep_counts: text(include_str!("sql/sweep_counts.sql")),
        }
    }
}
