//! Standbys: servers that follow another.

use super::Server;
use super::programs::output;
use crate::patience::until;
use crate::{Result, Store};

/// Promotes a standby, and waits up to 120 s until it accepts writes.
const PROMOTE: &str = "SELECT pg_promote(true, 120)";

impl Server {
    /// Starts a standby, and waits until it follows. Each commit waits for a synchronous standby.
    ///
    /// A server has one synchronous standby at most.
    pub fn standby(&self, is_synchronous: bool) -> Result<Self> {
        let setup = &self.setup;
        let standby = Self::with_data(setup, |programs, folder| {
            let mut copy = programs.in_folder("pg_basebackup", folder);
            copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
            copy.args(["--username=postgres", "--port", &self.port().to_string(), "--host"]);
            copy.arg(self.folder()).arg("--pgdata").arg(folder.path().join("data"));
            output(&mut copy, "").map(drop)
        })?;
        if is_synchronous {
            self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf()")?;
        }
        let wanted = if is_synchronous { "sync" } else { "async" };
        let followed = until(|| {
            let seen =
                self.sql("SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")?;
            if seen.lines().any(|state| state == wanted) {
                return Ok(());
            }
            Err(format!("does not follow port {} ({wanted}): {seen}", self.port()))
        });
        followed.map_err(|why| standby.process.telling(&why))?;
        Ok(standby)
    }

    /// Makes a standby accept writes. It follows no longer.
    pub fn promote(&self) -> Result<()> {
        match self.sql(PROMOTE)?.as_str() {
            "t" => Ok(()),
            _ => Err(self.process.telling("was not promoted in time")),
        }
    }

    /// Cuts a standby off from its server: it receives nothing more, and lags from now on.
    pub fn cut(&self) -> Result<()> {
        self.sql("ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()")?;
        let cut = until(|| match self.sql("SELECT count(*) FROM pg_stat_wal_receiver")?.as_str() {
            "0" => Ok(()),
            _ => Err("still receives".into()),
        });
        cut.map_err(|why: String| self.process.telling(&why))
    }
}

/// A server with a synchronous standby.
#[derive(Debug)]
pub(super) struct Replicated {
    /// It is dropped before its server.
    standby: Server,
    primary: Server,
}

impl Replicated {
    /// Starts a synchronous standby of this server.
    pub(super) fn of(primary: Server) -> Result<Self> {
        Ok(Self { standby: primary.standby(true)?, primary })
    }
}

impl Store for Replicated {
    fn url(&self) -> String {
        let ports = [self.primary.port(), self.standby.port()];
        let addresses = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
        self.primary.url_of(&addresses, Some("target_session_attrs=read-write"))
    }
}
