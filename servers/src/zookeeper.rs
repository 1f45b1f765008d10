//! ZooKeeper: one server alone, or several that are one ensemble.

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

/// What runs it.
pub const JAVA: Tool = Tool::program("java", "default-jre-headless");
/// The server, 3.8 in Debian 12.
pub const ZOOKEEPER: Tool = Tool::file("/usr/share/java/zookeeper.jar", "zookeeper");

/// Everything that the server's own archive needs is named in it, but for what it logs with, and a part of what speaks TLS.
const CLASSES: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar";
/// How long a server may take to say what it is.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// A server's unit of time. A session lives at least this long.
const TICK_MS: &str = "500";
/// The longest that a session may live: twenty ticks of a server where nothing is set.
const SESSION_MAX_MS: &str = "40000";

/// Each with its variable.
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

/// Servers that are one ensemble. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    certificates: Option<Certificates>,
}

/// One process of ZooKeeper.
#[derive(Debug)]
pub struct Server {
    process: Process,
    client: Port,
    /// Where clients speak TLS.
    secure: Option<Port>,
    _peers: Option<[Port; 2]>,
    folder: Folder,
}

/// What a server is to the others of its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// There are no others.
    Alone,
    /// It takes the writes.
    Leader,
    /// It passes them on, and answers reads from what it knows.
    Follower,
}

impl Ensemble {
    /// So many servers.
    pub fn of(count: usize) -> Result<Self> {
        Self::start(count, None)
    }

    /// One server that speaks TLS, too, and wants to see a certificate there.
    pub fn with_tls() -> Result<Self> {
        Self::start(1, Some(Certificates::new()?))
    }

    fn start(count: usize, certificates: Option<Certificates>) -> Result<Self> {
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
        let peers = peers.concat();
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
        // Servers of an ensemble wait for each other.
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

    /// The server that takes the writes, as soon as there is one.
    pub fn leader(&self) -> Result<&Server> {
        let leads = |server: &&Server| matches!(server.role(), Ok(Role::Alone | Role::Leader));
        until(|| self.servers.iter().find(leads).ok_or_else(|| "No server leads.".into()))
    }

    /// A server that passes writes on.
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
    /// Where clients find it.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// Where clients that speak TLS find it.
    pub fn secure_port(&self) -> Option<u16> {
        self.secure.as_ref().map(Port::number)
    }

    /// Where everything is that it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of its process, while that runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Ends it as a power cut would. It keeps its ports and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it, and waits until it serves, which it does when a majority of its ensemble runs.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| {
            self.role()?;
            // The port for TLS is opened behind the other one.
            let Some(secure) = &self.secure else { return Ok(()) };
            let open = TcpStream::connect((Ipv4Addr::LOCALHOST, secure.number()));
            open.map(drop).map_err(|error| format!("Its port for TLS is not open: {error}."))
        })
    }

    /// Starts it, without waiting for its ensemble.
    pub fn begin(&self) -> Result<()> {
        self.process.start(|| self.ask("ruok").map(drop))
    }

    /// Takes its processor away.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// What it is now; an error while it does not serve.
    pub fn role(&self) -> Result<Role> {
        let said = self.ask("srvr")?;
        match said.lines().find_map(|line| line.strip_prefix("Mode: ")) {
            Some("standalone") => Ok(Role::Alone),
            Some("leader") => Ok(Role::Leader),
            Some("follower") => Ok(Role::Follower),
            _ => Err(format!("It does not serve yet: {}", said.trim())),
        }
    }

    /// What it answers to one of its words of four letters, such as `cons`: who is connected.
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

/// A small server that forgets nothing a crash of its process does, and flushes nothing to its disk.
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
    // Without a majority it serves those who only read.
    command.arg("-Dreadonlymode.enabled=true");
    command.args(["-cp", CLASSES, "org.apache.zookeeper.server.quorum.QuorumPeerMain"]);
    command.arg(settings);
    Ok(command)
}

/// The settings for a port where it speaks TLS and wants to see a certificate that its authority signed.
fn speak_tls(port: &Port, certificates: &Certificates, folder: &Folder) -> Result<String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}.", path.display()))
    };
    // It wants both in one file.
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
