//! One process of Redis or Valkey, with its ports and its folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::setup::{Role, Setup, Tls, line};
use super::{Client, Reply};
use crate::clock;
use crate::escaped::escaped;
use crate::folder::Folder;
use crate::patience::until;
use crate::port::{Port, with_free_port};
use crate::process::Process;
use crate::{Certificates, Result, Store};

/// Time limit of the first answer before the next attempt.
const FIRST_ANSWER_MAX: Duration = Duration::from_millis(500);

/// A server that listens on 127.0.0.1. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    process: Process,
    ports: Ports,
    setup: Setup,
    certificates: Option<Certificates>,
    folder: Folder,
}

/// The ports of a server, claimed until it is dropped.
#[derive(Debug)]
struct Ports {
    plain: Port,
    tls: Option<Port>,
    bus: Option<Port>,
}

impl Server {
    /// Starts a plain Redis.
    pub fn start() -> Result<Self> {
        Setup::new().start()
    }

    /// The port without TLS.
    pub fn port(&self) -> u16 {
        self.ports.plain.number()
    }

    /// The port with TLS.
    pub fn tls_port(&self) -> Option<u16> {
        self.ports.tls.as_ref().map(Port::number)
    }

    /// The port of the cluster bus.
    pub fn cluster_port(&self) -> Option<u16> {
        self.ports.bus.as_ref().map(Port::number)
    }

    /// The Unix socket, if the server [has one](Setup::unix_socket).
    pub fn socket(&self) -> Option<PathBuf> {
        self.setup.socket.then(|| self.folder().join("redis.sock"))
    }

    /// The certificates for a client of its port with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The folder of its configuration, log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pid of its process, while the process runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// The URL with the login of the client: `redis://`, or `rediss://` with the certificates.
    pub fn url(&self) -> String {
        let who = self.login();
        let (Some(port), Some(certificates)) = (self.tls_port(), &self.certificates) else {
            return format!("redis://{who}127.0.0.1:{}", self.port());
        };
        let mut url = format!("rediss://{who}127.0.0.1:{port}?ca={}", path(&certificates.ca()));
        if self.setup.tls == Some(Tls::Certificate) {
            let (client, key) = (path(&certificates.client()), path(&certificates.client_key()));
            write!(url, "&cert={client}&key={key}").expect("writing to a string cannot fail");
        }
        url
    }

    /// Connects as the default user, who has all rights.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port(), self.setup.password.as_deref())
    }

    /// Sends a command over a connection of its own. An error of the server is an error.
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply> {
        self.client()?.command(words)
    }

    /// Kills the process. The server keeps its ports and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Stops the process with SIGTERM, and waits for its end.
    pub fn stop_politely(&self) -> Result<()> {
        self.process.stop_politely().map(drop)
    }

    /// Starts the server again with the same ports, folder and setup.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| self.answers())?;
        self.tidy_up()
    }

    /// Freezes the process: connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
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

    /// Returns the login for a URL, or an empty text.
    pub(super) fn login(&self) -> String {
        match (&self.setup.user, &self.setup.password) {
            (Some(user), _) => format!("{}:{}@", escaped(&user.name), escaped(&user.password)),
            (None, Some(password)) => format!(":{}@", escaped(password)),
            (None, None) => String::new(),
        }
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Starts a server, with other ports if another program has taken one.
    pub(super) fn with_ports(
        setup: &Setup,
        mut claim: impl FnMut() -> Result<Port>,
    ) -> Result<Self> {
        with_free_port(|| Self::try_start(setup.clone(), &mut claim))
    }

    fn try_start(setup: Setup, claim: &mut impl FnMut() -> Result<Port>) -> Result<Self> {
        let name = setup.program.name;
        let ports = Ports {
            plain: claim()?,
            tls: setup.tls.map(|_| claim()).transpose()?,
            bus: (setup.role == Role::Node).then(claim).transpose()?,
        };
        let certificates = setup.tls.map(|_| Certificates::new()).transpose()?;
        let folder = Folder::new(name)?;
        let at = format!("{name} at 127.0.0.1:{}", ports.plain.number());
        let places = places(&setup, &ports, certificates.as_ref(), &folder);
        let file = folder.write("redis.conf", &setup.written(&places))?;

        let mut command = Command::new(name);
        command.arg(file).args((setup.role == Role::Sentinel).then_some("--sentinel"));
        if setup.settable_clock {
            clock::put_before(&mut command, &folder)?;
        }
        let process = Process::new(at, command, folder.path().join("log"))?;
        let server = Self { process, ports, setup, certificates, folder };
        server.restart()?;
        if server.setup.master.is_some() {
            until(|| server.has_caught_up()).map_err(|why| server.process.telling(&why))?;
        }
        Ok(server)
    }

    /// Checks that this process answers, and not another program that has taken its port.
    fn answers(&self) -> Result<()> {
        let password = self.setup.password.as_deref();
        let mut client = Client::connect_within(FIRST_ANSWER_MAX, self.port(), password)?;
        client.command(&["PING"])?;
        let pid = client.command(&["INFO", "server"])?.field("process_id")?;
        if pid == self.pid()?.to_string() {
            return Ok(());
        }
        Err(format!("Process {pid} answers at port {}.", self.port()))
    }

    fn has_caught_up(&self) -> Result<()> {
        let link = self.command(&["INFO", "replication"])?.field("master_link_status")?;
        if link == "up" { Ok(()) } else { Err(format!("does not follow its master: {link}.")) }
    }

    fn tidy_up(&self) -> Result<()> {
        if self.setup.settable_clock {
            clock::tidy_up_after(self.pid()?);
        }
        Ok(())
    }
}

impl Store for Server {
    fn url(&self) -> String {
        Self::url(self)
    }
}

/// Returns the lines of a configuration with ports and paths.
fn places(
    setup: &Setup,
    ports: &Ports,
    certificates: Option<&Certificates>,
    folder: &Folder,
) -> Vec<Vec<String>> {
    let inside = |name: &str| shown(&folder.path().join(name));
    let mut lines = vec![
        line(&["bind", "127.0.0.1"]),
        line(&["port", &ports.plain.number().to_string()]),
        line(&["dir", &shown(folder.path())]),
    ];
    if let (Some(port), Some(certificates)) = (&ports.tls, certificates) {
        let wants = if setup.tls == Some(Tls::Certificate) { "yes" } else { "no" };
        lines.extend([
            line(&["tls-port", &port.number().to_string()]),
            line(&["tls-cert-file", &shown(&certificates.server())]),
            line(&["tls-key-file", &shown(&certificates.server_key())]),
            line(&["tls-ca-cert-file", &shown(&certificates.ca())]),
            line(&["tls-auth-clients", wants]),
        ]);
    }
    if let Some(port) = &ports.bus {
        lines.push(line(&["cluster-port", &port.number().to_string()]));
    }
    if setup.socket {
        lines.push(line(&["unixsocket", &inside("redis.sock")]));
    }
    lines
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn path(path: &Path) -> String {
    path.to_string_lossy().split('/').map(escaped).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::{Port, Result, Server, Setup};
    use crate::have;
    use crate::redis::REDIS;
    use std::net::{Ipv4Addr, TcpListener};

    /// Starts a server while another program has the n-th port that it claims.
    fn start_with_taken_port(setup: &Setup, wanted: usize) -> Result<(Server, TcpListener)> {
        let (mut claims, mut stranger) = (0, None);
        let server = Server::with_ports(setup, || {
            let port = Port::claim()?;
            claims += 1;
            if claims == wanted {
                let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number()));
                stranger = Some(bound.expect("the port is free"));
            }
            Ok(port)
        })?;
        Ok((server, stranger.expect("the server claimed the port")))
    }

    #[test]
    fn a_server_whose_port_is_taken_uses_another() {
        if !have(&[REDIS]) {
            return;
        }
        for (setup, wanted) in
            [(Setup::new(), 1), (Setup::new().tls(), 2), (Setup::new().cluster(), 2)]
        {
            let (server, stranger) = start_with_taken_port(&setup, wanted).expect("it is started");
            let taken = stranger.local_addr().expect("it is bound").port();
            let ports = [Some(server.port()), server.tls_port(), server.cluster_port()];
            assert!(!ports.contains(&Some(taken)));
        }
    }
}
