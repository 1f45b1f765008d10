//! Facts about the server, and what follows from them for the locks.

use std::collections::HashMap;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tenure_core::{Error, Guarantees, Liveness, Reason, Result, TokenDurability};

use crate::settings::{HostOrSocket, Settings};
use crate::trouble;

/// The oldest servers that have all that the procedures need.
const MARIADB_MIN: [u32; 3] = [10, 11, 0];
const MYSQL_MIN: [u32; 3] = [8, 0, 29];

/// The variables that count. A server has some of them.
const VARIABLES: &str = "SHOW VARIABLES WHERE Variable_name IN ('version', 'read_only', \
     'super_read_only', 'innodb_read_only', 'wsrep_on', 'group_replication_group_name', \
     'group_replication_single_primary_mode', 'log_bin', 'binlog_format', 'sync_binlog', \
     'innodb_flush_log_at_trx_commit', 'rpl_semi_sync_master_enabled', \
     'rpl_semi_sync_source_enabled', 'server_uid')";
/// Whether `sysdate` is the clock, or the time at which the statement began.
const CLOCK: &str = "SELECT sysdate(6) AS first, sleep(0.001) AS slept, sysdate(6) AS last";
/// Whether the server shows this user its own statements.
const IS_SHOWN: &str =
    "SELECT count(*) FROM information_schema.PROCESSLIST p WHERE left(p.INFO, 6) = 'SELECT'";
/// The number of servers whose changes this one applies, also while they are away. MySQL does not
/// have this status.
const IS_REPLICA: &str = "SHOW GLOBAL STATUS LIKE 'Slaves_running'";
const REPLICAS: &str = "SHOW GLOBAL STATUS LIKE 'Slaves_connected'";

/// Facts about a server that takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each setting is independent")]
pub(crate) struct MysqlFacts {
    /// Whether the log is flushed with each commit.
    flushes: bool,
    /// Whether the server writes a binary log, and does not flush it with each commit.
    has_lazy_binlog: bool,
    is_semi_synchronous: bool,
    replicas: u64,
    /// Whether clients of this user can find the statements of each other.
    shows_statements: bool,
}

impl MysqlFacts {
    /// Asks a server, and refuses one that cannot keep locks.
    pub(crate) async fn ask(
        settings: &Settings,
        host: &HostOrSocket,
        connection: &mut Conn,
    ) -> Result<Self> {
        let failed = |error: mysql_async::Error| trouble::error(settings, &error);
        let rows: Vec<(String, String)> = connection.query(VARIABLES).await.map_err(failed)?;
        let variables = Variables(rows.into_iter().collect());
        variables.refuse(host)?;
        let applied: Option<(String, u64)> =
            connection.query_first(IS_REPLICA).await.map_err(failed)?;
        if applied.is_some_and(|(_, servers)| servers > 0) {
            return Err(Error::unavailable(format!(
                "{host} applies the changes of another server, and locks are kept by the primary: name the primary's host as well; to promote this server, or if two servers replicate each other, stop its replication"
            ))
            .with_reason(Reason::NoPrimary));
        }
        let clock: Option<(String, String, String)> =
            connection.query_first(CLOCK).await.map_err(failed)?;
        if clock.is_none_or(|(first, _, last)| first == last) {
            return Err(Error::rejected(format!(
                "{host} was started with sysdate_is_now, so a lock would read a clock that stands still while it waits: start the server without it"
            )));
        }
        // Without this list waiters are served as well, so an error does not end the client.
        let shown: Result<Option<u64>, _> = connection.query_first(IS_SHOWN).await;
        let is_shown = !matches!(shown, Ok(None | Some(0)));
        let replicas: Option<(String, u64)> =
            connection.query_first(REPLICAS).await.map_err(failed)?;
        Ok(Self {
            flushes: variables.is("innodb_flush_log_at_trx_commit", "1"),
            has_lazy_binlog: variables.is_on("log_bin") && !variables.is("sync_binlog", "1"),
            is_semi_synchronous: variables.is_on("rpl_semi_sync_master_enabled")
                || variables.is_on("rpl_semi_sync_source_enabled"),
            replicas: replicas.map_or(0, |(_, count)| count),
            shows_statements: is_shown,
        })
    }

    pub(crate) fn guarantees(&self, settings: &Settings) -> Guarantees {
        let mut guarantees = Guarantees::new("mysql", Liveness::Lease);
        guarantees.store = settings.name();
        guarantees.fair = true;
        guarantees.push = self.shows_statements;
        // Another server adds to the numbers. A server with older data and the same identity, such
        // as a restored copy, has the clock alone.
        guarantees.fencing = TokenDurability::Volatile;
        guarantees.survives.holder_crash = true;
        guarantees.survives.holder_pause = true;
        guarantees.survives.store_crash = self.flushes && !self.has_lazy_binlog;
        guarantees.survives.failover = false;
        guarantees.survives.full_memory = true;
        guarantees.rounding = Duration::from_micros(1);
        guarantees.answers_within = settings.answers_within();
        guarantees.warnings = self.warnings();
        guarantees
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |is_so: bool, text: &str| {
            if is_so {
                warnings.push(text.to_owned());
            }
        };
        warn(
            !self.flushes,
            "`innodb_flush_log_at_trx_commit` is not 1: a crash of the machine loses locks, and two clients may hold one; set it to 1",
        );
        warn(
            self.has_lazy_binlog,
            "`sync_binlog` is not 1: a crash of the machine loses commits that the binary log lacks, and two clients may hold one lock; set it to 1",
        );
        warn(
            !self.shows_statements,
            "the server does not show this user its own statements in `information_schema.PROCESSLIST`: waiters poll, so a hand-over takes up to a second",
        );
        warn(
            self.replicas > 0 && !self.is_semi_synchronous,
            "the replicas are asynchronous: after a promotion no ticket is served for the longest ttl in use, which covers an old primary that is dead and not one that still serves; stop the old primary before a promotion",
        );
        warnings
    }
}

/// The variables of a server.
struct Variables(HashMap<String, String>);

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|is| is.eq_ignore_ascii_case(value))
    }

    fn is_on(&self, name: &str) -> bool {
        self.is(name, "ON") || self.is(name, "1")
    }

    fn refuse(&self, host: &HostOrSocket) -> Result<()> {
        let version = self.get("version").unwrap_or_default();
        for relative in ["Vitess", "TiDB", "OceanBase"] {
            if version.contains(relative) {
                return Err(Error::unsupported(format!(
                    "{host} is {relative}, which cannot keep locks of Tenure: it lacks stored procedures, or row locks that wait"
                )));
            }
        }
        if version.contains("-cluster") {
            return Err(Error::unsupported(format!(
                "{host} is a node of an NDB cluster, and each node has InnoDB tables of its own: use a server of its own"
            )));
        }
        let is_mariadb = version.contains("MariaDB");
        let (name, least) =
            if is_mariadb { ("MariaDB 10.11", MARIADB_MIN) } else { ("MySQL 8.0.29", MYSQL_MIN) };
        if numbers(version) < least {
            return Err(Error::rejected(format!(
                "{host} has version {version}: locks need {name}"
            )));
        }
        if is_mariadb && self.get("server_uid").is_none() {
            return Err(Error::rejected(format!(
                "{host} has version {version}, without the variable `server_uid`: update it to the last release of its series"
            )));
        }
        if self.is_on("wsrep_on") {
            return Err(Error::unsupported(format!(
                "{host} is a node of a Galera cluster, which confirms commits that it loses: use a server of its own"
            )));
        }
        let has_group = self.get("group_replication_group_name").is_some_and(|it| !it.is_empty());
        if has_group && !self.is_on("group_replication_single_primary_mode") {
            return Err(Error::unsupported(format!(
                "{host} is in a replication group with several primaries, which have no row locks in common: use one primary"
            )));
        }
        if self.is_on("log_bin") && self.is("binlog_format", "STATEMENT") {
            return Err(Error::rejected(format!(
                "{host} logs statements (binlog_format is STATEMENT), which have another clock on a replica: set it to ROW or MIXED"
            )));
        }
        for setting in ["read_only", "super_read_only", "innodb_read_only"] {
            // MariaDB has more values than ON since 11.8.
            if self.get(setting).is_some_and(|value| value != "OFF" && value != "0") {
                return Err(Error::unavailable(format!(
                    "{host} is read-only ({setting} is on), as a replica is, and locks need to write: name the primary's host as well"
                ))
                .with_reason(Reason::NoPrimary));
            }
        }
        Ok(())
    }
}

/// The three numbers at the begin of a version.
fn numbers(version: &str) -> [u32; 3] {
    let digits = version.split(|one: char| !one.is_ascii_digit());
    let mut numbers = digits.map(|number| number.parse().unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{Variables, numbers};
    use crate::settings::HostOrSocket;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("10.11.19-MariaDB-0+deb12u1"), [10, 11, 19]);
        assert!(numbers("8.0.9") < [8, 0, 29] && numbers("9.7") > [8, 0, 29]);
    }

    #[test]
    fn a_server_that_cannot_keep_locks_is_refused_by_its_version() {
        for (version, part) in [
            ("8.0.30-Vitess", "is Vitess"),
            ("8.0.35-cluster", "NDB cluster"),
            ("5.7.44", "locks need MySQL 8.0.29"),
            ("10.6.1-MariaDB", "locks need MariaDB 10.11"),
            ("10.11.2-MariaDB", "without the variable `server_uid`"),
        ] {
            let variables = Variables([("version".to_owned(), version.to_owned())].into());
            let host = HostOrSocket::Socket("/run/socket".into());
            let refused = variables.refuse(&host).unwrap_err().to_string();
            assert!(refused.contains(part) && refused.contains("/run/socket"), "{refused}");
        }
    }
}
