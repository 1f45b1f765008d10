//! One server of PostgreSQL, with its port and its folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::programs::{Programs, output};
use super::{Setup, processes};
use crate::clock;
use crate::escaped::escaped;
use crate::folder::Folder;
use crate::port::{Port, with_free_port};
use crate::process::Process;
use crate::{Certificates, Result, Store};

/// The line of `postmaster.pid` with the key and the id of the shared memory, from 0.
const SHARED_MEMORY_LINE: usize = 6;

/// A server that listens on 127.0.0.1. Dropping it kills the processes and removes their folder.
#[derive(Debug)]
pub struct Server {
    pub(super) process: Process,
    pub(super) programs: Programs,
    pub(super) setup: Setup,
    port: Port,
    certificates: Option<Certificates>,
    folder: Folder,
}

impl Server {
    /// Starts a plain server of Debian's version.
    pub fn start() -> Result<Self> {
        Setup::new().start()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder of its log, its Unix socket and its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pid of the postmaster, while it runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// The certificates, if it has [TLS](Setup::tls).
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The URL with the login of the client.
    pub fn url(&self) -> String {
        self.url_of(&format!("127.0.0.1:{}", self.port()), None)
    }

    /// Runs statements as the user `postgres` over the Unix socket. Returns the rows, with `|`
    /// between two columns. An error of the server is an error.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let mut psql = self.programs.psql();
        psql.args(["-U", "postgres", "-p", &self.port().to_string(), "-h"]).arg(self.folder());
        output(&mut psql, statements)
    }

    /// Kills all processes. The server keeps its port and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()?;
        processes::kill(&self.data())
    }

    /// Stops the server with SIGQUIT, which aborts all work, and waits for its end.
    pub fn stop_immediately(&self) -> Result<()> {
        self.thaw()?;
        self.process.stop_by(Signal::QUIT)?;
        processes::kill(&self.data())
    }

    /// Starts the server again with the same port, folder and setup.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| self.sql("SELECT 1").map(drop))?;
        if self.setup.settable_clock {
            clock::tidy_up_after(self.pid()?);
        }
        Ok(())
    }

    /// Freezes all processes: connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<()> {
        // First the postmaster, which starts no other process then.
        self.process.freeze()?;
        processes::freeze(&self.data())
    }

    /// Resumes all processes.
    pub fn thaw(&self) -> Result<()> {
        processes::signal(&self.data(), Signal::CONT)?;
        self.process.thaw()
    }

    /// Sets the offset of its wall clock. Other clocks stay true. The offset is effective at once,
    /// and after restarts.
    pub fn set_clock(&self, offset_seconds: i64) -> Result<()> {
        if !self.setup.settable_clock {
            return Err(
                "The clock of this server cannot be set: use `settable_clock` in its setup.".into(),
            );
        }
        clock::set(&self.folder, offset_seconds).map(drop)
    }

    /// Starts a server with new data, and creates its users.
    pub(super) fn alone(setup: &Setup) -> Result<Self> {
        let server = Self::with_data(setup, Programs::create_data)?;
        server.sql(&server.setup.users())?;
        Ok(server)
    }

    /// Starts a server with the data that `create` makes in its folder.
    pub(super) fn with_data(
        setup: &Setup,
        create: impl Fn(&Programs, &Folder) -> Result<()>,
    ) -> Result<Self> {
        with_free_port(|| {
            let server = Self::create(setup.clone(), Port::claim()?, &create)?;
            server.restart()?;
            Ok(server)
        })
    }

    /// Returns the URL of these addresses with the login, and TLS, of this server.
    pub(super) fn url_of(&self, addresses: &str, option: Option<&str>) -> String {
        let (name, password) = self.setup.login();
        let password = password.map_or_else(String::new, |it| format!(":{}", escaped(it)));
        let tls = self.certificates.as_ref().map(|certificates| {
            let ca = escaped(&certificates.ca().to_string_lossy());
            format!("sslmode=verify-full&sslrootcert={ca}")
        });
        let options: Vec<_> = tls.into_iter().chain(option.map(Into::into)).collect();
        let mark = if options.is_empty() { "" } else { "?" };
        let options = options.join("&");
        format!("postgres://{}{password}@{addresses}/postgres{mark}{options}", escaped(name))
    }

    fn create(
        setup: Setup,
        port: Port,
        create: impl Fn(&Programs, &Folder) -> Result<()>,
    ) -> Result<Self> {
        let programs = Programs::of(setup.version)?;
        let certificates = setup.tls.then(Certificates::new).transpose()?;
        let folder = programs.folder("postgres", setup.is_durable)?;
        create(&programs, &folder)?;
        let put = |name, text: &str| put(&programs, &folder, name, text);
        put("data/postgresql.conf", &setup.configuration(port.number(), folder.path()))?;
        put("data/pg_hba.conf", &setup.access())?;
        if let Some(certificates) = &certificates {
            let read = |file| fs::read_to_string(file).map_err(|error| format!("TLS: {error}."));
            put("server.pem", &read(certificates.server())?)?;
            put("server.key", &read(certificates.server_key())?)?;
        }
        let mut command = programs.in_folder("postgres", &folder);
        command.arg("-D").arg(folder.path().join("data"));
        if setup.settable_clock {
            clock::put_before(&mut command, &folder)?;
        }
        let process = process(&port, command, &folder)?;
        Ok(Self { process, programs, setup, port, certificates, folder })
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Removes the shared memory of a killed server. The system would keep it for ever.
    fn tidy_up(&self) {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let line = file.lines().nth(SHARED_MEMORY_LINE).unwrap_or_default();
        if let Some(id) = line.split_whitespace().nth(1) {
            // If this fails, a few bytes stay until the machine restarts.
            let _ = output(Command::new("ipcrm").args(["-m", id]), "");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If this fails, the warden kills the processes.
        let _ = self.kill();
        self.tidy_up();
    }
}

impl Store for Server {
    fn url(&self) -> String {
        Self::url(self)
    }
}

fn process(port: &Port, command: Command, folder: &Folder) -> Result<Process> {
    let at = format!("postgres at 127.0.0.1:{}", port.number());
    Process::new(at, command, folder.path().join("log"))
}

/// Writes a file that only the server can read.
fn put(programs: &Programs, folder: &Folder, name: &str, text: &str) -> Result<()> {
    let file = folder.write(name, text)?;
    programs.own(&file)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))
        .map_err(|error| format!("{} stays open to others: {error}.", file.display()))
}
