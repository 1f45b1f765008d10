//! Replicas: servers that follow another by its binary log.

use super::Server;
use crate::Result;

/// Maximum time in which a replica applies a change, in seconds.
const APPLY_MAX_S: u32 = 60;

impl Server {
    /// Starts an asynchronous replica, which is read-only, and waits until it follows. The server
    /// must write a [binary log](super::Setup::binary_log).
    pub fn replica(&self) -> Result<Self> {
        let setup = self.setup.clone().setting("server_id=2").setting("read_only=1");
        let replica = Self::with_data(&setup)?;
        // It has none of the changes, so it begins with the first one.
        replica.sql(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
             MASTER_USE_GTID = slave_pos; START SLAVE",
            self.port()
        ))?;
        replica.catch_up(self)?;
        Ok(replica)
    }

    /// Waits until a replica has applied all that this server has committed.
    pub fn catch_up(&self, primary: &Self) -> Result<()> {
        let at = primary.sql("SELECT @@global.gtid_binlog_pos")?;
        match self.sql(&format!("SELECT MASTER_GTID_WAIT('{at}', {APPLY_MAX_S})"))?.as_str() {
            "0" => Ok(()),
            _ => Err(self.process.telling("does not follow")),
        }
    }

    /// Cuts a replica off from its server: it receives nothing more, and lags from now on.
    pub fn cut(&self) -> Result<()> {
        self.sql("STOP SLAVE IO_THREAD").map(drop)
    }

    /// Makes a replica accept writes. It follows no longer.
    pub fn promote(&self) -> Result<()> {
        self.sql("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").map(drop)
    }
}
