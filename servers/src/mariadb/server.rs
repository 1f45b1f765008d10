//! One server of MariaDB, with its port and its folder.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::Setup;
use super::programs::{Programs, output};
use crate::escaped::escaped;
use crate::folder::Folder;
use crate::port::{Port, with_free_port};
use crate::process::Process;
use crate::{Certificates, Result, Store};

/// A server that listens on 127.0.0.1. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    pub(super) process: Process,
    pub(super) setup: Setup,
    port: Port,
    certificates: Option<Certificates>,
    folder: Folder,
}

impl Server {
    /// Starts a plain server.
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

    /// The certificates, if it has [TLS](Setup::tls).
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The URL of the database `locks` with the login of the client.
    pub fn url(&self) -> String {
        let (name, password) = self.setup.login();
        let password = password.map_or_else(String::new, |it| format!(":{}", escaped(it)));
        let tls = self.certificates.as_ref().map(|certificates| {
            let ca = escaped(&certificates.ca().to_string_lossy());
            format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")
        });
        let options = tls.unwrap_or_default();
        format!("mariadb://{}{password}@127.0.0.1:{}/locks{options}", escaped(name), self.port())
    }

    /// Runs statements as the user `root` over the Unix socket. Returns the rows, with tabs between
    /// two columns. An error of the server is an error.
    pub fn sql(&self, statements: &str) -> Result<String> {
        let mut client = Programs::client();
        client.arg(format!("--socket={}", self.folder().join("socket").display()));
        client.arg("--user=root");
        output(&mut client, statements)
    }

    /// The pid of the server, while it runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Kills the process. The server keeps its port and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the server again with the same port, folder and setup.
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

    /// Fills the [small disk](Setup::small_disk) to its last byte.
    pub fn fill_disk(&self) -> Result<()> {
        let failed = |error| format!("the disk cannot be filled: {error}.");
        let mut filler = File::create(self.filler()?).map_err(failed)?;
        loop {
            match filler.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Makes room on the small disk again.
    pub fn empty_disk(&self) -> Result<()> {
        fs::remove_file(self.filler()?).map_err(|error| format!("no room can be made: {error}."))
    }

    /// The file that takes the room of others, as other processes see it.
    fn filler(&self) -> Result<PathBuf> {
        let root = format!("/proc/{}/root", self.process.pid()?);
        Ok(PathBuf::from(format!("{root}{}", self.folder().join("data/filler").display())))
    }

    pub(super) fn with_setup(setup: &Setup) -> Result<Self> {
        let server = Self::with_data(setup)?;
        server.sql(&setup.first_statements())?;
        Ok(server)
    }

    /// Starts a server without the database `locks`.
    pub(super) fn with_data(setup: &Setup) -> Result<Self> {
        with_free_port(|| {
            let server = Self::create(setup.clone(), Port::claim()?)?;
            server.restart()?;
            Ok(server)
        })
    }

    fn create(setup: Setup, port: Port) -> Result<Self> {
        let programs = Programs::found()?;
        let certificates = setup.tls.then(Certificates::new).transpose()?;
        let folder = programs.folder("mariadb", setup.is_durable)?;
        if setup.has_small_disk {
            let data = folder.path().join("data");
            fs::create_dir(data).map_err(|error| format!("no folder for data: {error}."))?;
        } else {
            programs.create_data(&folder)?;
        }
        let put =
            |name: &str, text: &str| -> Result<()> { programs.own(&folder.write(name, text)?) };
        put("my.cnf", &setup.configuration(port.number(), folder.path()))?;
        if let Some(certificates) = &certificates {
            let files = [
                ("ca.pem", certificates.ca()),
                ("server.pem", certificates.server()),
                ("server.key", certificates.server_key()),
            ];
            for (name, file) in files {
                put(name, &fs::read_to_string(file).map_err(|error| format!("TLS: {error}."))?)?;
            }
        }
        let mut command = if setup.has_small_disk {
            programs.on_small_disk(&folder)
        } else {
            programs.in_folder(Programs::server(), &folder)
        };
        command.arg(format!("--defaults-file={}", folder.path().join("my.cnf").display()));
        let at = format!("mariadb at 127.0.0.1:{}", port.number());
        let process = Process::new(at, command, folder.path().join("log"))?;
        Ok(Self { process, setup, port, certificates, folder })
    }
}

impl Store for Server {
    fn url(&self) -> String {
        Self::url(self)
    }
}
