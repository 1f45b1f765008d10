//! One process of pgbouncer, in front of a server.

use super::programs::{Programs, output};
use super::{PGBOUNCER, Server};
use crate::escaped::escaped;
use crate::folder::Folder;
use crate::port::{Port, with_free_port};
use crate::process::Process;
use crate::{Result, Store};
use std::process::Command;

/// The time for which a client keeps a connection of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For one transaction.
    Transaction,
    /// For one statement. Transactions of several statements are refused.
    Statement,
}

/// A pooler that listens on 127.0.0.1. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Pooler {
    process: Process,
    programs: Programs,
    port: Port,
    user: String,
    _folder: Folder,
}

impl Pooler {
    /// Starts a pooler in front of this server. It needs no password, and every client has the
    /// rights of the user in the server's URL.
    pub fn before(server: &Server, mode: Mode) -> Result<Self> {
        with_free_port(|| {
            let pooler = Self::create(server, mode, Port::claim()?)?;
            pooler.restart()?;
            Ok(pooler)
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The pid of its process, while the process runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// The URL for a client.
    pub fn url(&self) -> String {
        format!("postgres://{}@127.0.0.1:{}/postgres", escaped(&self.user), self.port())
    }

    /// Kills the process. The pooler keeps its port.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the pooler again with the same port, and waits for an answer of its server.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| self.sql("SELECT 1").map(drop))
    }

    /// Freezes the process: connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Runs statements through the pooler. Returns the rows, with `|` between two columns.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let port = self.port().to_string();
        output(
            self.programs.psql().args(["-h", "127.0.0.1", "-p", &port, "-U", &self.user]),
            statements,
        )
    }

    fn create(server: &Server, mode: Mode, port: Port) -> Result<Self> {
        let program = PGBOUNCER.found().ok_or_else(|| PGBOUNCER.absent().unwrap_or_default())?;
        let programs = server.programs.clone();
        let folder = programs.folder("pgbouncer", false)?;
        let user = server.setup.login().0.to_owned();
        let file = folder.write("pgbouncer.ini", &written(server, mode, &port, &user))?;
        programs.own(&file)?;
        let mut command = Command::new(program);
        command.arg(file);
        programs.put(&mut command, &folder);
        let at = format!("pgbouncer at 127.0.0.1:{}", port.number());
        let process = Process::new(at, command, folder.path().join("log"))?;
        Ok(Self { process, programs, port, user, _folder: folder })
    }
}

impl Store for Pooler {
    fn url(&self) -> String {
        Self::url(self)
    }
}

/// Returns the configuration. The Unix socket of the server asks for no password.
fn written(server: &Server, mode: Mode, port: &Port, user: &str) -> String {
    let mode = match mode {
        Mode::Transaction => "transaction",
        Mode::Statement => "statement",
    };
    format!(
        "[databases]\n\
         postgres = host={} port={} dbname=postgres user={user}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = {mode}\n\
         max_client_conn = 1000\n",
        server.folder().display(),
        server.port(),
        port.number(),
    )
}
