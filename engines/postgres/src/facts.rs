//! Facts about the server, and what follows from them for the locks.

use std::time::Duration;

use tenure_core::{Error, Guarantees, Liveness, Reason, Result, TokenDurability};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::greeted_pid;
use crate::settings::{Host, Settings};
use crate::trouble;

/// The oldest server that has all that the statements use.
const VERSION_MIN: i32 = 130_000;

/// Relatives of PostgreSQL that lack what the locks need, by a part of their version's text.
const RELATIVES: [(&str, &str, &str); 3] = [
    ("CockroachDB", "CockroachDB", "it has no LISTEN and no timeline"),
    ("-YB-", "YugabyteDB", "it has no timeline, and its row locks fail instead of waiting"),
    ("DSQL", "Aurora DSQL", "it has no row locks that wait"),
];

/// Parameter: the schema. A transaction that has begun before a standby was promoted stays
/// read-only: it is a standby's.
const ASK: &str = "SELECT version() AS version, current_setting('server_version_num')::int AS number, \
     pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' \
         AND current_setting('default_transaction_read_only') = 'off' AS is_standby, \
     current_setting('default_transaction_read_only') = 'on' AS is_read_only, \
     pg_backend_pid() AS pid, current_setting('fsync') = 'on' AS fsync, \
     current_setting('full_page_writes') = 'on' AS full_page_writes, \
     current_setting('transaction_isolation') AS isolation, \
     current_setting('synchronous_standby_names') <> '' AS is_synchronous, \
     (SELECT count(*) FROM pg_stat_replication) AS standbys, \
     coalesce((SELECT max(age(backend_xmin)) FROM pg_stat_activity), 0) AS oldest, \
     EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relpersistence = 'u' \
         AND c.relname IN ('meta', 'line', 'sequence', 'count', 'value')) AS is_unlogged, \
     EXISTS (SELECT FROM pg_subscription_rel r JOIN pg_class c ON c.oid = r.srrelid \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1) AS is_subscriber";

/// Age in transactions of a snapshot that holds back vacuum so far that updates become slow.
const OLD_SNAPSHOT: i32 = 100_000;

/// Facts about a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each setting is independent")]
pub(crate) struct PrimaryFacts {
    pub(crate) is_pooled: bool,
    fsync: bool,
    full_page_writes: bool,
    isolation: String,
    is_synchronous: bool,
    standbys: i64,
    oldest: i32,
    is_unlogged: bool,
}

impl PrimaryFacts {
    /// Asks a server, and refuses one that cannot keep locks.
    pub(crate) async fn ask(settings: &Settings, host: &Host, client: &Client) -> Result<Self> {
        let none: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] = &[];
        let asked = client.query_typed("SELECT version()", none).await;
        let asked = asked.map_err(|error| trouble::error(settings, &error))?;
        let version: String = asked.first().map_or_else(String::new, |row| row.get(0));
        for (mark, name, why) in RELATIVES {
            if version.contains(mark) {
                return Err(Error::unsupported(format!(
                    "{host} is {name}, which cannot keep locks of Tenure: {why}"
                )));
            }
        }
        let asked = client.query_typed_one(ASK, &[(&settings.schema, Type::TEXT)]).await;
        let row = asked.map_err(|error| trouble::error(settings, &error))?;
        if row.get::<_, i32>("number") < VERSION_MIN {
            return Err(Error::rejected(format!("{host} is older than PostgreSQL 13")));
        }
        if row.get("is_standby") {
            return Err(Error::unavailable(format!(
                "{host} is a standby, and locks are kept by the primary: name the primary's host as well"
            ))
            .with_reason(Reason::NoPrimary));
        }
        if row.get("is_subscriber") {
            return Err(Error::unavailable(format!(
                "{host} subscribes to the tables of the locks of another server, which keeps the locks: name that host as well, or end the subscription of the schema {:?}",
                settings.schema
            ))
            .with_reason(Reason::NoPrimary));
        }
        if row.get("is_read_only") {
            return Err(Error::rejected(format!(
                "{host} is read-only (default_transaction_read_only is on): locks need to write"
            )));
        }
        Ok(Self {
            is_pooled: greeted_pid(client).await? != row.get::<_, i32>("pid"),
            fsync: row.get("fsync"),
            full_page_writes: row.get("full_page_writes"),
            isolation: row.get("isolation"),
            is_synchronous: row.get("is_synchronous"),
            standbys: row.get("standbys"),
            oldest: row.get("oldest"),
            is_unlogged: row.get("is_unlogged"),
        })
    }

    /// Whether waiters are notified.
    pub(crate) fn can_notify(&self, settings: &Settings) -> bool {
        settings.is_notified && (!self.is_pooled || settings.notify_host.is_some())
    }

    pub(crate) fn guarantees(&self, settings: &Settings) -> Guarantees {
        let mut guarantees = Guarantees::new("postgres", Liveness::Lease);
        guarantees.store = settings.name();
        guarantees.fair = true;
        guarantees.push = self.can_notify(settings);
        // A promotion adds to the numbers, and a server with older data and the same timeline, such
        // as a restored snapshot, has the clock alone.
        guarantees.fencing = TokenDurability::Volatile;
        guarantees.survives.holder_crash = true;
        guarantees.survives.holder_pause = true;
        guarantees.survives.store_crash = self.fsync && self.full_page_writes && !self.is_unlogged;
        guarantees.survives.failover = self.is_synchronous && !self.is_unlogged;
        guarantees.survives.full_memory = true;
        guarantees.rounding = Duration::from_micros(1);
        guarantees.answers_within = settings.answers_within();
        guarantees.warnings = self.warnings(settings);
        guarantees
    }

    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut warn = |is_so: bool, text: &str| {
            if is_so {
                warnings.push(text.to_owned());
            }
        };
        warn(
            !self.fsync,
            "`fsync` is off: a crash of the machine loses locks, and two clients may hold one; set it to on",
        );
        warn(
            !self.full_page_writes,
            "`full_page_writes` is off: a crash of the machine may damage the tables of the locks; set it to on",
        );
        warn(
            self.is_unlogged,
            "a table of the locks is UNLOGGED: a crash of the server and a promotion lose all locks; execute ALTER TABLE … SET LOGGED",
        );
        warn(
            self.standbys > 0 && !self.is_synchronous,
            "the standbys are asynchronous: after a promotion no ticket is served for the longest ttl in use, which covers an old primary that is dead and not one that still serves; set `synchronous_standby_names`, or stop the old primary before a promotion",
        );
        warn(
            self.is_pooled && settings.notify_host.is_none() && settings.is_notified,
            "a connection pooler is in front of the server, so waiting tickets are not notified and poll, finally once a second: give the server itself as `notify_host`",
        );
        warn(
            self.isolation != "read committed",
            "the isolation level of this user is not `read committed`: statements that meet are repeated; set `default_transaction_isolation` for the role",
        );
        warn(
            self.oldest > OLD_SNAPSHOT,
            "an old transaction holds back vacuum, so each lock becomes slower: see `backend_xmin` in pg_stat_activity",
        );
        warnings
    }
}
