//! ZooKeeper: a single server, or an ensemble of several.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::folder::Folder;
use crate::patience::until;
use crate::port::Port;
use crate::process::Process;
use crate::{Certificates, Deployment, Result, Store, Tool};

/// The Java runtime.
pub const JAVA: Tool = Tool::program("java", "default-jre-headless");
/// The server, 3.8 in Debian 12.
pub const ZOOKEEPER: Tool = Tool::file("/usr/share/java/zookeeper.jar", "zookeeper");

/// The class path. The server's archive names its libraries, except those for logs and some for
/// TLS.
const CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar";
/// Pause of a new follower whose leader does not listen yet. It tries five times, and then asks for
/// another election, while the leader waits for it until `initLimit`. The default of 0.1 s is too
/// little on a busy machine.
const LEADER_PAUSE: &str = "-Dzookeeper.leaderConnectDelayDuringRetryMs=500";
/// The log has times, and no line for each command of four letters: a wait asks up to 200 times a
/// second, and the end of the log is a part of its error.
const LOG: [&str; 2] = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=warn",
];
/// Time limit of an answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// The tick of a server, which is also the shortest session.
const TICK_MS: &str = "500";
/// The longest session: twenty ticks, as by default.
const SESSION_MAX_MS: &str = "40000";

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 3] = [
    Deployment {
        name: "zookeeper",
        variable: "TENURE_TEST_ZOOKEEPER_URL",
        needs: &[JAVA, ZOOKEEPER],
        start: || Ok(Box::new(Ensemble::of(1)?)),
    },
    Deployment {
        name: "zookeeper-three",
        variable: "TENURE_TEST_ZOOKEEPER_THREE_URL",
        needs: &[JAVA, ZOOKEEPER],
        start: || Ok(Box::new(Ensemble::of(3)?)),
    },
    Deployment {
        name: "zookeeper-tls",
        variable: "TENURE_TEST_ZOOKEEPER_TLS_URL",
        needs: &[JAVA, ZOOKEEPER],
        start: || Ok(Box::new(Ensemble::with_tls()?)),
    },
];

/// An ensemble of servers. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    certificates: Option<Certificates>,
}

/// A server: one process of ZooKeeper.
#[derive(Debug)]
pub struct Server {
    process: Process,
    client: Port,
    /// The port with TLS.
    secure: Option<Port>,
    _peers: Option<[Port; 2]>,
    folder: Folder,
}

/// The role of a server in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The only server.
    Alone,
    /// The server that executes writes.
    Leader,
    /// A server that forwards writes and answers reads by itself.
    Follower,
}

impl Ensemble {
    /// Starts this number of servers.
    pub fn of(count: usize) -> Result<Self> {
        Self::with_settings(count, &[])
    }

    /// Starts this number of servers. These lines of `zoo.cfg` replace those with the same name.
    pub fn with_settings(count: usize, lines: &[&str]) -> Result<Self> {
        Self::start(count, None, lines)
    }

    /// Starts one server with a second port for TLS, which requires a client certificate.
    pub fn with_tls() -> Result<Self> {
        Self::start(1, Some(Certificates::new()?), &[])
    }

    fn start(count: usize, certificates: Option<Certificates>, lines: &[&str]) -> Result<Self> {
        let mut made = Vec::with_capacity(count);
        for _ in 0..count {
            let peers = if count > 1 { Some([Port::claim()?, Port::claim()?]) } else { None };
            made.push((Port::claim()?, peers, Folder::new("zookeeper")?));
        }
        let peers: Vec<String> = (1..)
            .zip(&made)
            .filter_map(|(id, (_, peers, _))| {
                let [quorum, election] = peers.as_ref()?;
                let (quorum, election) = (quorum.number(), election.number());
                Some(format!("server.{id}=127.0.0.1:{quorum}:{election}\n"))
            })
            .collect();
        let peers = peers.concat() + &lines.join("\n") + "\n";
        let servers = (1..).zip(made).map(|(id, (client, its, folder))| {
            let (mut secure, mut more) = (None, peers.clone());
            if let Some(certificates) = &certificates {
                more += &speak_tls(secure.insert(Port::claim()?), certificates, &folder)?;
            }
            let command = command(id, &client, &folder, &more)?;
            let name = format!("zookeeper at 127.0.0.1:{}", client.number());
            let process = Process::new(name, command, folder.path().join("log"))?;
            Ok(Server { process, client, secure, _peers: its, folder })
        });
        let servers = servers.collect::<Result<_>>()?;
        let ensemble = Self { servers, certificates };
        // Servers of an ensemble wait for each other, so they start concurrently.
        thread::scope(|scope| {
            let starting: Vec<_> =
                ensemble.servers.iter().map(|server| scope.spawn(|| server.restart())).collect();
            let mut ended = starting.into_iter().map(thread::ScopedJoinHandle::join);
            ended.try_for_each(|one| one.unwrap_or_else(|_| Err("A start panicked.".into())))
        })?;
        Ok(ensemble)
    }

    /// The servers, in the order of their ids.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Waits for a leader, and returns it.
    pub fn leader(&self) -> Result<&Server> {
        let leads = |server: &&Server| matches!(server.role(), Ok(Role::Alone | Role::Leader));
        until(|| self.servers.iter().find(leads).ok_or_else(|| "No server leads.".into()))
    }

    /// Waits for a follower, and returns it.
    pub fn follower(&self) -> Result<&Server> {
        let follows = |server: &&Server| server.role() == Ok(Role::Follower);
        until(|| self.servers.iter().find(follows).ok_or_else(|| "No server follows.".into()))
    }
}

impl Store for Ensemble {
    fn url(&self) -> String {
        if let Some(certificates) = &self.certificates {
            let servers = self.servers.iter().filter_map(Server::secure_port);
            let servers: Vec<_> = servers.map(|port| format!("127.0.0.1:{port}")).collect();
            return format!(
                "zookeepers://{}?ca={}&cert={}&key={}",
                servers.join(","),
                certificates.ca().display(),
                certificates.client().display(),
                certificates.client_key().display(),
            );
        }
        let servers = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        format!("zookeeper://{}", servers.collect::<Vec<_>>().join(","))
    }
}

impl Server {
    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// The port for clients with TLS.
    pub fn secure_port(&self) -> Option<u16> {
        self.secure.as_ref().map(Port::number)
    }

    /// The folder of its configuration, log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pid of its process, while the process runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Kills the process. The server keeps its ports and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the server, and waits until it serves. That needs a majority of its ensemble.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| {
            self.role()?;
            // The server opens the port for TLS after the other one.
            let Some(secure) = &self.secure else { return Ok(()) };
            let open = TcpStream::connect((Ipv4Addr::LOCALHOST, secure.number()));
            open.map(drop).map_err(|error| format!("Its port for TLS is not open: {error}."))
        })
    }

    /// Starts the server without waiting for its ensemble.
    pub fn begin(&self) -> Result<()> {
        self.process.start(|| self.ask("ruok").map(drop))
    }

    /// Freezes the process.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Returns its role, or an error while it does not serve.
    pub fn role(&self) -> Result<Role> {
        let said = self.ask("srvr")?;
        match said.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("standalone") => Ok(Role::Alone),
            Some("leader") => Ok(Role::Leader),
            Some("follower") => Ok(Role::Follower),
            _ => Err(format!("It does not serve yet: {}", said.trim())),
        }
    }

    /// Sends a command of four letters, such as `cons` for its connections, and returns the answer.
    pub fn ask(&self, word: &str) -> Result<String> {
        let answer = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()))?;
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            stream.write_all(word.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        answer().map_err(|error| format!("It does not answer `{word}`: {error}."))
    }
}

/// Returns the command of a small server. Its data survives a kill, but it does not wait for the
/// disk.
fn command(id: usize, client: &Port, folder: &Folder, more: &str) -> Result<Command> {
    let data = folder.path().display();
    let settings = format!(
        "tickTime={TICK_MS}\nminSessionTimeout={TICK_MS}\nmaxSessionTimeout={SESSION_MAX_MS}\ninitLimit=20\nsyncLimit=10\n\
         dataDir={data}\nclientPort={}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n{more}",
        client.number()
    );
    folder.write("myid", &id.to_string())?;
    let settings = folder.write("zoo.cfg", &settings)?;
    let mut command = Command::new("java");
    command.args(["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.args(["-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.forceSync=no"]);
    command.args(LOG).arg(LEADER_PAUSE);
    // Without a majority the server still accepts read-only clients.
    command.arg("-Dreadonlymode.enabled=true");
    command.args(["-cp", CLASSES, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]);
    command.arg(settings);
    Ok(command)
}

/// Returns the settings for a port with TLS that requires a client certificate.
fn speak_tls(port: &Port, certificates: &Certificates, folder: &Folder) -> Result<String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}.", path.display()))
    };
    // The server reads key and certificate from one file.
    let own = read(&certificates.server_key())? + &read(&certificates.server())?;
    let own = folder.write("server-and-key.pem", &own)?;
    Ok(format!(
        "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={}\nssl.keyStore.type=PEM\nssl.trustStore.location={}\nssl.trustStore.type=PEM\n",
        port.number(),
        own.display(),
        certificates.ca().display(),
    ))
}
