//! The functions and the other statements, for the tables of one schema. Their texts are the files
//! of `sql/`.
//!
//! Each verb is one call of a function, and a transaction of its own. The server keeps the plans of
//! a function's statements, and each of them has a snapshot of its own. A function that writes a
//! line locks its row first, and reads the clock and `meta` afterwards, because what was read
//! before a wait is stale.
//!
//! Each operator and function in them fits its types exactly, and those for any type have their
//! schema. So a stranger's in the search path are not taken. A search path of their own would cost
//! each call about 25 µs.
//!
//! The name of a function ends with its version. A later version of the program adds functions of
//! other names, so both may use the tables.

use tenure_core::NUMBER_MAX;
use tenure_record::{GENERATION_STEP_US, QUARANTINE_IS_DUE};

/// The server's clock, in microseconds since 1970. The types fit the operator of `pg_catalog`
/// exactly: a stranger's operator in the search path must not fit better.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp())::numeric * 1000000::numeric)::bigint";
/// The server's clock when the execution of the statement began.
const BEGAN: &str =
    "(extract(epoch FROM statement_timestamp())::numeric * 1000000::numeric)::bigint";
/// The server's timeline, which grows with each promotion of a standby.
pub(crate) const TIMELINE: &str =
    "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int";
/// The number of the server's data files. Those into which a dump is restored have another one.
const SYSTEM: &str = "(SELECT system_identifier FROM pg_control_system())";

/// Sends notices. The transactions with notices of one server commit one after the other, so this
/// one does not wait for the disk, and not long for one of a stranger that does.
pub(crate) const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), \
     set_config('lock_timeout', '50ms', true), pg_notify(channel, payload) \
     FROM unnest($1, $2) AS notices (channel, payload)";

/// Time limit of a statement that passes over the rows of others: only a lock on a whole table is
/// in its way.
pub(crate) const TABLE_TIMEOUT: &str = "50ms";
/// Maximum rows that one sweep deletes from each table.
pub(crate) const SWEEP_MAX: u64 = 1000;

/// The functions: their names and their texts.
const FUNCTIONS: [(&str, &str); 11] = [
    ("format_1", include_str!("sql/format_1.sql")),
    ("keys_1", include_str!("sql/keys_1.sql")),
    ("read_1", include_str!("sql/read_1.sql")),
    ("join_1", include_str!("sql/join_1.sql")),
    ("renew_1", include_str!("sql/renew_1.sql")),
    ("leave_1", include_str!("sql/leave_1.sql")),
    ("write_1", include_str!("sql/write_1.sql")),
    ("add_to_sequence_1", include_str!("sql/add_to_sequence_1.sql")),
    ("add_to_count_1", include_str!("sql/add_to_count_1.sql")),
    ("swap_1", include_str!("sql/swap_1.sql")),
    ("sweep_1", include_str!("sql/sweep_1.sql")),
];

/// The texts of the statements. The first parameter of each function is the time limit for a row.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) setup: String,
    pub(crate) is_made: String,
    pub(crate) format: String,
    pub(crate) keys: String,
    pub(crate) read: String,
    pub(crate) join: String,
    pub(crate) renew: String,
    pub(crate) leave: String,
    pub(crate) write: String,
    pub(crate) add_to_sequence: String,
    pub(crate) add_to_count: String,
    pub(crate) swap: String,
    pub(crate) sweep: String,
}

impl Statements {
    /// Returns the statements for this schema, which is an identifier in quotes.
    pub(crate) fn new(schema: &str) -> Self {
        let text = |text: &str| {
            text.replace("{refused}\n", include_str!("sql/refused.sql"))
                .replace("{settings}\n", include_str!("sql/settings.sql"))
                .replace("{found}", include_str!("sql/found.sql").trim_end())
                .replace("{is_due}", QUARANTINE_IS_DUE)
                .replace("{is_known}", "(m.table_oid = m.tableoid AND m.system = {system} AND m.timeline = {timeline})")
                .replace("{system}", SYSTEM)
                .replace("{timeline}", TIMELINE)
                .replace("{generation_step}", &GENERATION_STEP_US.to_string())
                .replace("{sweep_max}", &SWEEP_MAX.to_string())
                .replace("{clock}", CLOCK)
                .replace("{began}", BEGAN)
                .replace("{number_max}", &NUMBER_MAX.to_string())
                .replace("{schema}", schema)
        };
        let call = |function: &str, parameters: usize| {
            let all: Vec<_> = (1..=parameters).map(|at| format!("${at}")).collect();
            format!("SELECT * FROM {schema}.{function}({})", all.join(", "))
        };
        // Functions run with the rights of their caller, so all may call them. A database may have
        // other default rights.
        let function = |(name, function): &(&str, &str)| {
            let grant = format!("GRANT EXECUTE ON FUNCTION {schema}.{name} TO PUBLIC;\n");
            text(function) + &grant
        };
        let functions: String = FUNCTIONS.iter().map(function).collect();
        Self {
            setup: text(include_str!("sql/schema.sql"))
                + &functions
                + &text(include_str!("sql/rights.sql")),
            is_made: include_str!("sql/is_made.sql").to_owned(),
            format: call("format_1", 1),
            keys: call("keys_1", 3),
            read: call("read_1", 2),
            join: call("join_1", 6),
            renew: call("renew_1", 4),
            leave: call("leave_1", 3),
            write: call("write_1", 12),
            add_to_sequence: call("add_to_sequence_1", 3),
            add_to_count: call("add_to_count_1", 5),
            swap: call("swap_1", 4),
            sweep: call("sweep_1", 4),
        }
    }
}

/// The names of the functions.
pub(crate) fn functions() -> Vec<String> {
    FUNCTIONS.iter().map(|(name, _)| (*name).to_owned()).collect()
}
