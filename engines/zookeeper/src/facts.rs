//! Results of a start-up check: the kind of servers, their guarantees, and warnings for their
//! operator.

use std::io;
use std::time::Duration;

use tenure_core::{Error, EventDelivery, Guarantees, Liveness, Result, TokenDurability, errors};
use tenure_kit::url::Address;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper_client::Client;

use crate::settings::Settings;
use crate::{tls, trouble};

/// Time limit for a server's report about itself. Some servers refuse it.
const WORD_MAX: Duration = Duration::from_millis(500);
/// Commands for a server's version, and for its settings.
const SRVR: &[u8] = b"srvr";
const CONF: &[u8] = b"conf";
/// Names of settings.
const SESSION_MIN: &str = "minSessionTimeout";
const TICK: &str = "tickTime";
/// Default tick of servers.
const TICK_USUAL: Duration = Duration::from_secs(3);
/// The first command with one letter more: with fewer than five, a server does not detect whether
/// they are TLS.
const KNOCK: &[u8] = b"srvr\n";
/// The minimum life of sessions that the README advises. A longer one is worth a warning.
const ADVISED: Duration = Duration::from_secs(2);
/// Maximum bytes of a report.
const BYTES_MAX: u64 = 64 * 1024;

/// Maximum bytes of a version.
const VERSION_BYTES_MAX: usize = 32;

/// Returns the time limit of a report. With TLS it is that of a connection: a server that has just
/// started takes a second over its first one.
fn word_max(settings: &Settings) -> Duration {
    if settings.tls.is_some() { settings.connect_timeout } else { WORD_MAX }
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The version, if a server reports it.
    pub(crate) version: Option<String>,
    /// There are several servers, and one of them leads.
    pub(crate) is_ensemble: bool,
    /// The minimum life of a session without a sign of life, if a server reports it.
    pub(crate) session_min: Option<Duration>,
    /// The servers' tick, if one reports it.
    pub(crate) tick: Option<Duration>,
}

impl Facts {
    /// Returns the ttl to open a session with, for tickets of this ttl. In an ensemble that is at
    /// least two ticks, the default minimum of ZooKeeper: too little of a shorter life would be
    /// sure.
    pub(crate) fn life_for(&self, ttl: Duration) -> Duration {
        if self.is_ensemble { ttl.max(self.tick.unwrap_or(TICK_USUAL) * 2) } else { ttl }
    }

    /// Returns the minimum age of an answered sign of life that the leader of an ensemble surely
    /// knows, in a session with this granted life. The leader asks the others every half tick for
    /// the sessions that are alive, and may be late with that by a quarter of it.
    pub(crate) fn unheard_for(&self, granted: Duration) -> Duration {
        self.tick.map_or(granted / 2, |tick| (tick * 5 / 8).max(granted / 4))
    }

    /// Returns the maximum part of a life that is relied on. If an ensemble does not report its
    /// tick, the other half is never sure.
    pub(crate) fn sure_of(&self, granted: Duration) -> Duration {
        if self.is_ensemble && self.tick.is_none() { granted / 2 } else { granted }
    }
}

/// Asks the servers, and refuses a server that only speaks ZooKeeper's protocol.
pub(crate) async fn find(settings: &Settings, client: &Client) -> Result<Facts> {
    // A single server has no list of servers.
    let config = client.get_config().await;
    let is_ensemble = config.map_or(true, |(config, _)| has_servers(&config));
    let within = word_max(settings);
    let mut facts = Facts { is_ensemble, ..Facts::default() };
    for server in &settings.servers {
        let Ok(Ok(said)) = timeout(within, ask(settings, server, SRVR)).await else { continue };
        if said.contains("ClickHouse") {
            return Err(Error::rejected(format!(
                "{} is ClickHouse Keeper, which may change a client's session without a word: locks need ZooKeeper itself",
                settings.whom()
            )));
        }
        if let Some(version) = version(&said) {
            let conf =
                timeout(within, ask(settings, server, CONF)).await.ok().and_then(io::Result::ok);
            let set_to = |name| conf.as_deref().and_then(|conf| time(conf, name));
            facts.version.get_or_insert_with(|| version.to_owned());
            (facts.session_min, facts.tick) = (set_to(SESSION_MIN), set_to(TICK));
        }
        // Another server may report what this one does not.
        if facts.version.is_some() && (facts.tick.is_some() || !is_ensemble) {
            break;
        }
    }
    Ok(facts)
}

/// The state of servers that let no client in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Presence {
    /// No server answers.
    Absent,
    /// A server takes connections, and ends them without an answer of `ZooKeeper`.
    Mute,
    /// A server answers: they are choosing their leader.
    There,
}

/// Returns whether one of the servers answers.
///
/// # Errors
///
/// The reason if TLS keeps all servers from an answer, if it keeps some of them, or if no server
/// can be reached.
pub(crate) async fn presence(settings: &Settings) -> Result<Presence> {
    let (mut presence, mut refusals, mut out_of_reach) = (Presence::Absent, Vec::new(), Vec::new());
    for server in &settings.servers {
        let knock = async {
            let stream = match reach(server).await {
                Ok(stream) => stream,
                Err(error) => {
                    out_of_reach.push(trouble::out_of_reach(server, &error));
                    return Ok(Presence::Absent);
                }
            };
            match said(settings, server, stream, KNOCK).await {
                // TLS answers bytes that are no text to words that are none of its own.
                Ok(said) if said.is_empty() || said.starts_with(char::is_control) => {
                    Ok(Presence::Mute)
                }
                Ok(_) => Ok(Presence::There),
                Err(error) => tls::refuse(server, &error).map(|()| Presence::Mute),
            }
        };
        match timeout(word_max(settings), knock).await.unwrap_or(Ok(Presence::Absent)) {
            Ok(one) => presence = presence.max(one),
            Err(refusal) => refusals.push(refusal),
        }
    }
    let is_refused = refusals.len() == settings.servers.len();
    match refusals.into_iter().next() {
        Some(refusal) if is_refused => Err(refusal),
        // Another one may answer later.
        Some(refusal) if presence < Presence::There => Err(refusal.into_retryable()),
        _ if presence == Presence::Absent && !out_of_reach.is_empty() => {
            Err(Error::unavailable(errors::join(&out_of_reach)))
        }
        _ => Ok(presence),
    }
}

/// Returns the guarantees of these servers.
pub(crate) fn profile(settings: &Settings, facts: &Facts) -> Guarantees {
    let mut profile = Guarantees::new("zookeeper", Liveness::Session);
    profile.store = settings.whom();
    profile.events = EventDelivery::Sampled;
    profile.fencing = TokenDurability::Volatile;
    profile.survives.store_crash = true;
    profile.survives.failover = facts.is_ensemble;
    profile.survives.clock_step = true;
    profile.survives.full_memory = true;
    profile.answers_within = settings.answers_within();
    profile.warnings = warnings(settings, facts);
    profile
}

fn warnings(settings: &Settings, facts: &Facts) -> Vec<String> {
    let mut warnings = Vec::new();
    match facts.version.as_deref() {
        None => warnings.push(
            "ZooKeeper does not say its version: let it answer `srvr` (4lw.commands.whitelist), so that what only speaks its language is told apart".into(),
        ),
        Some(version) if !is_known(version) => warnings.push(format!(
            "ZooKeeper {version} is not known to Tenure, which is made for 3.5 to 3.9"
        )),
        Some(_) => {}
    }
    if facts.is_ensemble && settings.servers.len() == 1 {
        warnings.push(
            "the URL names only one server of an ensemble of ZooKeeper: while that one is down, no lock can be taken. Name them all".into(),
        );
    }
    let least = facts.life_for(facts.session_min.unwrap_or_default());
    if least > ADVISED {
        warnings.push(format!(
            "a session of ZooKeeper lives for {least:?} at least here (minSessionTimeout, and twice tickTime in an ensemble): a shorter ttl is raised to that, and a lock whose holder dies is free that much later"
        ));
    }
    if facts.is_ensemble && facts.tick.is_none() {
        warnings.push(
            "ZooKeeper does not say its tickTime: only half of each ttl can be counted on. Let it answer `conf` (4lw.commands.whitelist)".into(),
        );
    }
    if !facts.is_ensemble {
        warnings.push("ZooKeeper runs alone here: nothing is locked while it is down".into());
        if settings.servers.len() > 1 {
            warnings.push(
                "the URL names several servers, and the one that answered runs alone: another one that cannot be reached now may give the same locks to others. Name one".into(),
            );
        }
    }
    warnings
}

fn is_known(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    matches!((parts.next(), parts.next()), (Some(Some(3)), Some(Some(5..=9))))
}

fn has_servers(config: &[u8]) -> bool {
    config.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"server."))
}

/// Sends one of the four-letter commands that servers answer on their own port.
async fn ask(settings: &Settings, server: &Address, word: &[u8]) -> io::Result<String> {
    said(settings, server, reach(server).await?, word).await
}

async fn reach(server: &Address) -> io::Result<TcpStream> {
    TcpStream::connect((server.name.as_str(), server.port)).await
}

async fn said(
    settings: &Settings,
    server: &Address,
    stream: TcpStream,
    word: &[u8],
) -> io::Result<String> {
    match &settings.tls {
        None => answered(stream, word).await,
        Some(files) => answered(tls::secured(stream, files, server).await?, word).await,
    }
}

async fn answered(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    word: &[u8],
) -> io::Result<String> {
    stream.write_all(word).await?;
    stream.flush().await?;
    let mut said = Vec::new();
    match stream.take(BYTES_MAX).read_to_end(&mut said).await {
        // Servers end a connection of TLS without the record that ends it.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !said.is_empty() => {}
        read => drop(read?),
    }
    String::from_utf8(said).map_err(io::Error::other)
}

fn version(said: &str) -> Option<&str> {
    let rest = said.split_once("version: ")?.1;
    let version = rest.split(['-', ',', '\n']).next().map(str::trim)?;
    // The version is shown to people, and any program may answer there.
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    (is_plain && (1..=VERSION_BYTES_MAX).contains(&version.len())).then_some(version)
}

/// Reads a setting, if the server reports it: `conf` may be disabled.
fn time(conf: &str, name: &str) -> Option<Duration> {
    let ms = conf.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    ms.trim().parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_a_server_says_of_itself() {
        let said = "Zookeeper version: 3.8.0-1, built on 2022-02-25\nLatency min/avg/max: 0/0/0\n";
        assert_eq!(version(said), Some("3.8.0"));
        assert_eq!(
            version("This command is not executed because it is not in the whitelist."),
            None
        );
        for other in ["\u{1b}[31m3.8.0", &"3".repeat(VERSION_BYTES_MAX + 1), ""] {
            assert_eq!(version(&format!("version: {other}\n")), None, "{other:?}");
        }
        assert!(is_known("3.8.0") && !is_known("3.4.14") && !is_known("4.0.0"));
    }

    #[test]
    fn a_ttl_that_is_raised_is_a_warning() {
        let conf = "tickTime=2000\nminSessionTimeout=2000\nmaxSessionTimeout=40000\n";
        assert_eq!(time(conf, SESSION_MIN), Some(Duration::from_secs(2)));
        assert_eq!(time("conf is not executed because it is not in the whitelist.", TICK), None);
        let (least, tick) = (time(conf, SESSION_MIN), time(conf, TICK));
        let warned = |session_min: Option<Duration>, tick: Option<Duration>| {
            let version = Some("3.8.0".into());
            let facts = Facts { version, is_ensemble: true, session_min, tick };
            warnings(&crate::url::read("zookeeper://a,b,c").unwrap(), &facts).join(" ")
        };
        assert!(warned(least, tick).contains("lives for 4s"), "two ticks");
        assert_eq!(warned(least, tick.map(|tick| tick / 2)), "");
        assert!(warned(least.map(|least| least * 3), tick).contains("lives for 6s"), "what is set");
        assert!(warned(None, None).contains("Let it answer `conf`"));
    }

    #[test]
    fn a_sign_of_life_is_surely_known_to_a_leader_after_half_a_tick_and_a_quarter_of_that() {
        let of_tick = |tick| Facts { is_ensemble: true, tick, ..Facts::default() };
        let (tick, seconds) = (Duration::from_secs(2), Duration::from_secs);
        let facts = of_tick(Some(tick));
        assert_eq!(facts.unheard_for(seconds(4)), Duration::from_millis(1250));
        assert_eq!(facts.unheard_for(seconds(40)), seconds(10), "a quarter of a life");
        assert_eq!(
            (facts.life_for(seconds(1)), facts.life_for(seconds(9))),
            (seconds(4), seconds(9))
        );
        assert_eq!(facts.sure_of(seconds(4)), seconds(4));
        let unknown = of_tick(None);
        assert_eq!((unknown.unheard_for(seconds(4)), unknown.sure_of(seconds(4))), (tick, tick));
        assert_eq!(unknown.life_for(seconds(1)), seconds(6), "two of the usual ticks");
        let alone = Facts { tick: Some(tick), ..Facts::default() };
        assert_eq!(
            (alone.life_for(seconds(1)), alone.sure_of(seconds(1))),
            (seconds(1), seconds(1))
        );
    }

    #[test]
    fn servers_alone_are_told_from_ensembles() {
        assert!(has_servers(b"server.1=a:1:2:participant\nversion=0"));
        assert!(!has_servers(b"") && !has_servers(b"version=0"));
    }

    #[test]
    fn what_is_wrong_with_a_set_up_is_said() {
        let count = |url: &str, version: Option<&str>, is_ensemble| {
            let (version, session_min) = (version.map(str::to_owned), Some(Duration::from_secs(1)));
            let facts = Facts { version, is_ensemble, session_min, tick: session_min };
            warnings(&crate::url::read(url).unwrap(), &facts).len()
        };
        assert_eq!(count("zookeeper://a,b,c", Some("3.8.0"), true), 0);
        assert_eq!(count("zookeeper://a", Some("3.8.0"), true), 1);
        assert_eq!(count("zookeeper://a", None, false), 2);
        assert_eq!(count("zookeeper://a,b", Some("3.8.0"), false), 2);
        assert_eq!(count("zookeeper://a,b,c", Some("3.4.14"), true), 1);
    }
}
