//! The procedures and the other statements, for the tables with one prefix. Their texts are the
//! files of `sql/`.
//!
//! Each verb is one call of a procedure, which is a transaction of its own. A procedure that writes
//! a row locks it first, and reads the clock and `meta` afterwards, because what was read before a
//! wait is stale.
//!
//! The name of a procedure ends with its version. A later version of the program adds procedures of
//! other names, so both may use the tables.

use std::fmt::Write as _;
use std::time::Duration;

use tenure_core::NUMBER_MAX;
use tenure_record::{GENERATION_STEP_US, Inbox, QUARANTINE_IS_DUE};

/// The server's clock, in microseconds since 1970. `now` would be the clock when the statement
/// began. The procedures set the time zone.
const CLOCK: &str = "timestampdiff(MICROSECOND, '1970-01-01', sysdate(6))";
/// The server's clock when the statement began, in any time zone.
const BEGAN: &str = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";
/// The identity of the server. Each program reads only its part as SQL, the other one as a comment.
const SERVER: &str = "(/*!80000 @@global.server_uuid */ /*M! concat(@@global.server_id, '/', @@global.server_uid) */)";
/// Whether the server writes. From MariaDB 12 on, the value is a word.
const WRITES: &str = "CAST(@@global.read_only AS CHAR) IN ('0', 'OFF')";
/// The settings of a session in which procedures are made. A procedure keeps the mode.
pub(crate) const MODE: &str = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'";

/// Maximum rows that one sweep deletes from each table.
pub(crate) const SWEEP_MAX: u64 = 1000;

/// The bytes of a notice in its table and in a parameter.
pub(crate) const NOTICE_BYTES: usize = 72;
/// The begin of a statement that waits for notices. The inbox stands behind it. Other clients find
/// the statement by this text, which no other statement of the server begins with.
const LISTENS: &str = "SELECT 1 AS tenure_listens_";
/// Maximum notices that a client reads at once.
const NOTICES_AT_ONCE: usize = 256;

const TABLES: [&str; 7] = ["meta", "line", "hold", "notice", "sequence", "count", "value"];

/// The procedures: their names and their texts.
const PROCEDURES: [(&str, &str); 12] = [
    ("keys_1", include_str!("sql/keys_1.sql")),
    ("read_1", include_str!("sql/read_1.sql")),
    ("join_1", include_str!("sql/join_1.sql")),
    ("renew_1", include_str!("sql/renew_1.sql")),
    ("renew_all_1", include_str!("sql/renew_all_1.sql")),
    ("leave_1", include_str!("sql/leave_1.sql")),
    ("ring_1", include_str!("sql/ring_1.sql")),
    ("write_1", include_str!("sql/write_1.sql")),
    ("add_to_sequence_1", include_str!("sql/add_to_sequence_1.sql")),
    ("add_to_count_1", include_str!("sql/add_to_count_1.sql")),
    ("swap_1", include_str!("sql/swap_1.sql")),
    ("sweep_1", include_str!("sql/sweep_1.sql")),
];
/// The number of procedures.
pub(crate) const PROCEDURES_LEN: u64 = PROCEDURES.len() as u64;

/// The statements for the tables with one prefix.
#[derive(Debug)]
pub(crate) struct Procedures {
    prefix: String,
    /// The statements that make the tables, and then the procedures.
    pub(crate) setup: Vec<String>,
    pub(crate) format: String,
}

/// A parameter of a procedure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal<'a> {
    Number(i64),
    Flag(bool),
    Bytes(&'a [u8]),
}

impl From<u64> for Literal<'_> {
    /// Numbers that the server does not have are years away.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Procedures {
    /// Returns the statements for this prefix of names, which has letters, digits and `_` only.
    pub(crate) fn new(prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let tables = fill(&prefix, include_str!("sql/schema.sql"));
        let tables = tables.split(";\n").map(str::trim).filter(|table| !table.is_empty());
        let procedures = PROCEDURES.iter().map(|(_, text)| fill(&prefix, text).trim().to_owned());
        let names: Vec<_> =
            PROCEDURES.iter().map(|(name, _)| format!("'{prefix}{name}'")).collect();
        Self {
            setup: tables.map(str::to_owned).chain(procedures).collect(),
            format: fill(&prefix, include_str!("sql/format.sql"))
                .replace("{procedures}", &names.join(", ")),
            prefix,
        }
    }

    /// The setup as a script for the command `mariadb` or `mysql`.
    pub(crate) fn script(&self) -> String {
        let mut script = format!("SET time_zone = '+00:00';\n{MODE};\n");
        script += "DELIMITER ;;\n";
        for statement in &self.setup {
            script += statement;
            script += "\n;;\n";
        }
        script + "DELIMITER ;\n"
    }

    /// Returns a call of a procedure.
    pub(crate) fn call(&self, procedure: &str, parameters: &[Literal<'_>]) -> String {
        let mut text = format!("CALL `{}{procedure}`(", self.prefix);
        for (at, parameter) in parameters.iter().enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            match parameter {
                Literal::Number(number) => text += &number.to_string(),
                Literal::Flag(flag) => text += if *flag { "1" } else { "0" },
                Literal::Bytes(bytes) => push_bytes(&mut text, bytes),
            }
        }
        text.push(')');
        text
    }

    /// Returns the statement that waits for notices to this inbox. It returns 0 if none came, and
    /// it does not sleep if there are notices already: `KILL QUERY` may come before it sleeps. Its
    /// last column is whether the server still writes.
    pub(crate) fn listen(&self, inbox: Inbox, sleep: Duration) -> String {
        let (has_notices, seconds) = (self.of_inbox("SELECT 1", inbox), sleep.as_secs_f32());
        format!(
            "{LISTENS}{inbox}, if(exists({has_notices}), 2, sleep({seconds:.3})) AS woken, {WRITES} AS writes"
        )
    }

    /// Returns the query for the notices to this inbox.
    pub(crate) fn notices(&self, inbox: Inbox) -> String {
        let notices = self.of_inbox("SELECT notice", inbox);
        // They are deleted once they were read, and a replica must not delete rows.
        format!("{notices} AND {WRITES} LIMIT {NOTICES_AT_ONCE}")
    }

    /// Returns the statement that deletes all notices to this inbox.
    pub(crate) fn forget_all(&self, inbox: Inbox) -> String {
        self.of_inbox("DELETE", inbox)
    }

    /// Returns the statement that deletes these notices.
    pub(crate) fn forget(&self, notices: &[Vec<u8>]) -> String {
        let mut text = format!("DELETE FROM `{}notice` WHERE notice IN (", self.prefix);
        for (at, notice) in notices.iter().enumerate() {
            if at > 0 {
                text.push_str(", ");
            }
            push_bytes(&mut text, notice);
        }
        text.push(')');
        text
    }

    /// A notice begins with its inbox, and the digits behind it are smaller than 0xff.
    fn of_inbox(&self, verb: &str, inbox: Inbox) -> String {
        let mut text = format!("{verb} FROM `{}notice` WHERE notice >= ", self.prefix);
        let mut bytes = inbox.to_string().into_bytes();
        push_bytes(&mut text, &bytes);
        text.push_str(" AND notice < ");
        bytes.push(u8::MAX);
        push_bytes(&mut text, &bytes);
        text
    }
}

/// Returns bytes as a literal.
pub(crate) fn bytes_literal(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_bytes(&mut text, bytes);
    text
}

/// Writes bytes as a literal, which means the same in every mode and character set.
fn push_bytes(text: &mut String, bytes: &[u8]) {
    text.push_str("x'");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text.push('\'');
}

/// Replaces the names in braces.
fn fill(prefix: &str, text: &str) -> String {
    let mut text = text
        .replace("{refused}\n", include_str!("sql/refused.sql"))
        .replace("{done}\n", include_str!("sql/done.sql"))
        .replace("{begin}\n", include_str!("sql/begin.sql"))
        .replace("{free_hold}\n", include_str!("sql/hold.sql"));
    for table in TABLES {
        let lock = include_str!("sql/lock.sql").replace("{table}", &format!("{{{table}}}"));
        text = text.replace(&format!("{{lock_{table}}}\n"), &lock);
    }
    text = text
        .replace("{is_due}", QUARANTINE_IS_DUE)
        .replace("{is_known}", "(m.server = {server})")
        .replace("{server}", SERVER)
        .replace("{generation_step}", &GENERATION_STEP_US.to_string())
        .replace("{sweep_max}", &SWEEP_MAX.to_string())
        .replace("{notice_bytes}", &NOTICE_BYTES.to_string())
        .replace("{listens}", LISTENS)
        .replace("{writes}", WRITES)
        .replace("{clock}", CLOCK)
        .replace("{began}", BEGAN)
        .replace("{number_max}", &NUMBER_MAX.to_string());
    for name in TABLES.into_iter().chain(PROCEDURES.map(|(name, _)| name)) {
        text = text.replace(&format!("{{{name}}}"), &format!("`{prefix}{name}`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Literal, Procedures};

    #[test]
    fn every_name_in_braces_is_replaced() {
        let statements = Procedures::new("p_");
        let all = statements.script() + &statements.format;
        assert!(!all.contains(['{', '}']), "{all}");
    }

    #[test]
    fn parameters_are_literals_that_no_text_can_end() {
        let call = Procedures::new("p_")
            .call("swap_1", &[Literal::Flag(true), Literal::Bytes(b"'\\"), Literal::Number(-7)]);
        assert_eq!(call, "CALL `p_swap_1`(1, x'275c', -7)");
    }
}
