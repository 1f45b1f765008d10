//! One process of MongoDB, with its port and its folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bson::{Bson, Document, doc};

use super::client::hello;
use super::setup::User;
use super::{Client, MONGOD, Setup};
use crate::clock;
use crate::escaped::escaped;
use crate::folder::Folder;
use crate::patience::until;
use crate::port::{Port, with_free_port};
use crate::process::Process;
use crate::{Certificates, Result, Store};

/// Time limit of the first answer before the next attempt.
const FIRST_ANSWER_MAX: Duration = Duration::from_millis(500);
/// The shared key of the members of a set.
const KEY: &str = "c2VydmVycyBmb3IgdGVzdHMgYWxvbmU=";

/// A server that listens on 127.0.0.1. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: Port,
    setup: Setup,
    certificates: Option<Certificates>,
    folder: Folder,
}

impl Server {
    /// Starts a replica set of one member without access control.
    pub fn start() -> Result<Self> {
        Setup::new().start()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder of its log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pid of its process, while the process runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// The certificates for a client of its port with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The URL with the login of the client and the name of the set.
    pub fn url(&self) -> String {
        self.url_of(&self.address())
    }

    /// Connects without a login.
    pub fn client(&self) -> Result<Client> {
        Client::connect(self.port())
    }

    /// Sends a command over a connection of its own. An error of the server is an error.
    pub fn command(&self, database: &str, command: Document) -> Result<Document> {
        self.client()?.command(database, command)
    }

    /// Makes commands fail `times` times. `what` is the `data` of the fail point `failCommand`.
    pub fn fail_commands(&self, what: Document, times: u32) -> Result<()> {
        let mode = doc! { "times": i64::from(times) };
        let point = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": what };
        self.command("admin", point).map(drop)
    }

    /// Turns the fail point off.
    pub fn fail_no_more(&self) -> Result<()> {
        let point = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        self.command("admin", point).map(drop)
    }

    /// Kills the process. The server keeps its port and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Stops the process with SIGTERM, and waits for its end.
    pub fn stop_politely(&self) -> Result<()> {
        self.process.stop_politely().map(drop)
    }

    /// Starts the server again with the same port, folder and setup.
    ///
    /// Waits until a single server accepts writes, or a member of a larger set answers.
    pub fn restart(&self) -> Result<()> {
        self.begin()?;
        self.is_settled()
    }

    /// Sets the offset of its wall clock. Other clocks stay true.
    pub fn set_clock(&self, offset_seconds: i64) -> Result<()> {
        if !self.setup.settable_clock {
            return Err(
                "The clock of this server cannot be set: use `settable_clock` in its setup.".into(),
            );
        }
        clock::set(&self.folder, offset_seconds).map(drop)
    }

    /// Freezes the process: connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Whether it is the primary.
    pub fn is_primary(&self) -> bool {
        hello(self.port(), FIRST_ANSWER_MAX)
            .is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or_default())
    }

    /// Starts a single server, creates its user, and waits until it accepts writes.
    pub(super) fn alone(mut setup: Setup) -> Result<Self> {
        let user = setup.user.take();
        let server = Self::member(&setup)?;
        if let Some(set) = setup.set {
            server.initiate(set, &[&server])?;
        }
        server.is_settled()?;
        match user {
            Some(user) => server.behind_login(user),
            None => Ok(server),
        }
    }

    /// Starts a server whose set is not initiated yet.
    pub(super) fn member(setup: &Setup) -> Result<Self> {
        with_free_port(|| Self::try_start(setup.clone()))
    }

    /// Initiates a set of these members. The election timeout is two seconds.
    pub(super) fn initiate(&self, set: &str, members: &[&Self]) -> Result<()> {
        let members = (0_i32..).zip(members);
        let members = members.map(|(id, it)| doc! { "_id": id, "host": it.address() });
        let config = doc! {
            "_id": set,
            "members": members.map(Bson::from).collect::<Vec<_>>(),
            "settings": { "electionTimeoutMillis": 2_000 },
        };
        self.command("admin", doc! { "replSetInitiate": config }).map(drop)
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// Returns the URL of these addresses with login, set and TLS of this server.
    pub(super) fn url_of(&self, addresses: &str) -> String {
        let login = self.setup.user.as_ref().map_or_else(String::new, |user| {
            format!("{}:{}@", escaped(&user.name), escaped(&user.password))
        });
        let mut options = match self.setup.set {
            Some(set) => format!("replicaSet={set}"),
            None => String::from("directConnection=true"),
        };
        if let Some(certificates) = &self.certificates {
            options += "&tls=true&tlsCAFile=";
            options += &escaped(&certificates.ca().to_string_lossy());
        }
        format!("mongodb://{login}{addresses}/?{options}")
    }

    /// Creates the user without access control, and restarts the server with access control.
    fn behind_login(mut self, user: User) -> Result<Self> {
        let mut client = self.client()?;
        let roles = match &user.role {
            Some(role) => {
                client.command("admin", role.clone())?;
                vec![Bson::from(role.get_str("createRole").unwrap_or_default())]
            }
            None => vec![Bson::from("root")],
        };
        let create = doc! { "createUser": &user.name, "pwd": &user.password, "roles": roles };
        client.command("admin", create)?;
        self.stop_politely()?;
        self.setup.user = Some(user);
        let command = command(&self.setup, &self.port, self.certificates.as_ref(), &self.folder)?;
        self.process = process(&self.port, command, &self.folder)?;
        self.restart()?;
        Ok(self)
    }

    fn try_start(setup: Setup) -> Result<Self> {
        let port = Port::claim()?;
        let certificates = setup.tls.then(Certificates::new).transpose()?;
        let folder = Folder::quick("mongod")?;
        let command = command(&setup, &port, certificates.as_ref(), &folder)?;
        let process = process(&port, command, &folder)?;
        let server = Self { process, port, setup, certificates, folder };
        server.begin()?;
        Ok(server)
    }

    fn tidy_up(&self) -> Result<()> {
        if self.setup.settable_clock || self.setup.clock_off_by_s != 0 {
            clock::tidy_up_after(self.pid()?);
        }
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        self.process.start(|| hello(self.port(), FIRST_ANSWER_MAX).map(drop))?;
        self.tidy_up()
    }

    /// Waits until it accepts writes, unless its set has other members.
    fn is_settled(&self) -> Result<()> {
        let settled = until(|| {
            let hello = hello(self.port(), FIRST_ANSWER_MAX)?;
            let others = hello.get_array("hosts").is_ok_and(|hosts| hosts.len() > 1);
            let writes = hello.get_bool("isWritablePrimary").unwrap_or_default();
            if others || writes { Ok(()) } else { Err("does not accept writes".into()) }
        });
        settled.map_err(|why: String| self.process.telling(&why))
    }
}

impl Store for Server {
    fn url(&self) -> String {
        Self::url(self)
    }
}

fn process(port: &Port, command: Command, folder: &Folder) -> Result<Process> {
    let at = format!("mongod at 127.0.0.1:{}", port.number());
    Process::new(at, command, folder.path().join("log"))
}

/// Returns the command of a small server with a short TTL interval and fail points.
fn command(
    setup: &Setup,
    port: &Port,
    certificates: Option<&Certificates>,
    folder: &Folder,
) -> Result<Command> {
    let program = MONGOD.found().ok_or_else(|| MONGOD.absent().unwrap_or_default())?;
    let ttl = format!("ttlMonitorSleepSecs={}", setup.ttl_every_s);
    let mut command = Command::new(program);
    command.args(["--bind_ip", "127.0.0.1", "--port", &port.number().to_string()]);
    command.arg("--dbpath").arg(folder.path()).arg("--nounixsocket");
    command.args(["--wiredTigerCacheSizeGB", "0.25"]);
    command.args(["--wiredTigerEngineConfigString", "log=(file_max=2MB)"]);
    command.args(["--setParameter", &ttl, "--setParameter", "enableTestCommands=1"]);
    command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
    if let Some(set) = setup.set {
        command.args(["--replSet", set, "--oplogSize", "16"]);
    }
    if let Some(seconds) = setup.checkpoint_every_s {
        command.args(["--syncdelay", &seconds.to_string()]);
    }
    if setup.settable_clock {
        clock::put_before(&mut command, folder)?;
    } else if setup.clock_off_by_s != 0 {
        clock::shift(&mut command, setup.clock_off_by_s)?;
    }
    if setup.user.is_some() {
        let key = folder.write("key", KEY)?;
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&key, own)
            .map_err(|error| format!("{} stays open to others: {error}.", key.display()))?;
        command.arg("--auth").arg("--keyFile").arg(key);
    }
    if let Some(certificates) = certificates {
        let read = |file| fs::read_to_string(file).map_err(|error| format!("TLS: {error}."));
        let both = read(certificates.server())? + &read(certificates.server_key())?;
        command.args(["--tlsMode", "preferTLS", "--tlsAllowConnectionsWithoutCertificates"]);
        command.arg("--tlsCertificateKeyFile").arg(folder.write("server.pem", &both)?);
        command.arg("--tlsCAFile").arg(certificates.ca());
    }
    Ok(command)
}
