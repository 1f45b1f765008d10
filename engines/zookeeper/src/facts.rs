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
#[cfg(feature = "tls")]
use crate::tls;
use crate::trouble;

/// Time limit for a server's report about itself. Some servers refuse it.
const WORD_MAX: Duration = Duration::from_millis(500);
/// Commands for a server's version, and for its settings.
const SRVR: &[u8] = b"srvr";
const CONF: &[u8] = b"conf";
/// The setting for the tick of a server.
const TICK: &str = "tickTime=";
/// Default tick of servers.
const TICK_USUAL: Duration = Duration::from_secs(3);
/// The first command with one letter more: with fewer than five, a server does not detect whether
/// they are TLS.
const KNOCK: &[u8] = b"srvr\n";
/// Maximum bytes of a report.
const BYTES_MAX: u64 = 64 * 1024;

/// Returns the time limit of a report. With TLS it is that of a connection: a server that has just
/// started takes a second over its first one.
fn word_max(settings: &Settings) -> Duration {
    if settings.tls.is_some() { settings.connect_timeout } else { WORD_MAX }
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnsembleFacts {
    /// A server reports its version. Another program may speak ZooKeeper's protocol.
    pub(crate) is_known: bool,
    /// There are several servers, and one of them leads.
    pub(crate) is_ensemble: bool,
    /// The servers' tick, if one reports it.
    pub(crate) tick: Option<Duration>,
}

impl EnsembleFacts {
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
pub(crate) async fn find(settings: &Settings, client: &Client) -> Result<EnsembleFacts> {
    // A single server has no list of servers.
    let config = client.get_config().await;
    let is_ensemble = config.map_or(true, |(config, _)| has_servers(&config));
    let within = word_max(settings);
    let mut facts = EnsembleFacts { is_ensemble, ..EnsembleFacts::default() };
    for server in &settings.servers {
        let Ok(Ok(said)) = timeout(within, ask(settings, server, SRVR)).await else { continue };
        if said.contains("ClickHouse") {
            return Err(Error::rejected(format!(
                "{} is ClickHouse Keeper, which may change a client's session without a word: locks need ZooKeeper itself",
                settings.whom()
            )));
        }
        if said.contains("version: ") {
            facts.is_known = true;
            if let Ok(Ok(conf)) = timeout(within, ask(settings, server, CONF)).await {
                facts.tick = tick(&conf);
            }
        }
        // Another server may report what this one does not.
        if facts.is_known && (facts.tick.is_some() || !is_ensemble) {
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
                #[cfg(feature = "tls")]
                Err(error) => tls::refuse(server, &error).map(|()| Presence::Mute),
                #[cfg(not(feature = "tls"))]
                Err(_) => Ok(Presence::Mute),
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
pub(crate) fn profile(settings: &Settings, facts: &EnsembleFacts) -> Guarantees {
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

fn warnings(settings: &Settings, facts: &EnsembleFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    if !facts.is_known {
        warnings.push(
            "ZooKeeper does not report its version, so another program with its protocol is not refused: let it answer `srvr` (4lw.commands.whitelist)".into(),
        );
    }
    if facts.is_ensemble && facts.tick.is_none() {
        warnings.push(
            "ZooKeeper does not report its tickTime, so a lock relies on half of its ttl only: let it answer `conf` (4lw.commands.whitelist)".into(),
        );
    }
    if !facts.is_ensemble && settings.servers.len() > 1 {
        warnings.push(
            "the URL names several servers, and the one that answered runs alone: another one that cannot be reached now may give the same locks to others. Name one".into(),
        );
    }
    warnings
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

#[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "TLS needs them"))]
async fn said(
    settings: &Settings,
    server: &Address,
    stream: TcpStream,
    word: &[u8],
) -> io::Result<String> {
    #[cfg(feature = "tls")]
    if let Some(tls) = &settings.tls {
        return answered(crate::tls::secured(stream, tls, server).await?, word).await;
    }
    answered(stream, word).await
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

/// Reads the tick from a report of settings: `conf` may be disabled.
fn tick(conf: &str) -> Option<Duration> {
    let ms = conf.lines().find_map(|line| line.strip_prefix(TICK))?;
    ms.trim().parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_read_from_the_settings_of_a_server() {
        let conf = "clientPort=2181\ntickTime=2000\nminSessionTimeout=4000\n";
        assert_eq!(tick(conf), Some(Duration::from_secs(2)));
        assert_eq!(tick("conf is not executed because it is not in the whitelist."), None);
    }

    #[test]
    fn a_sign_of_life_is_surely_known_to_a_leader_after_half_a_tick_and_a_quarter_of_that() {
        let of_tick = |tick| EnsembleFacts { is_ensemble: true, tick, ..EnsembleFacts::default() };
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
        let alone = EnsembleFacts { tick: Some(tick), ..EnsembleFacts::default() };
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
    fn a_warning_names_each_thing_that_weakens_a_promise() {
        let warned = |url: &str, is_known, is_ensemble, tick: Option<Duration>| {
            let facts = EnsembleFacts { is_known, is_ensemble, tick };
            warnings(&Settings::from_url(url).unwrap(), &facts)
        };
        let (tick, none) = (Some(Duration::from_secs(1)), Vec::<String>::new());
        assert_eq!(warned("zookeeper://a,b,c", true, true, tick), none);
        assert_eq!(warned("zookeeper://a", true, false, None), none);
        assert!(warned("zookeeper://a", false, false, None)[0].contains("answer `srvr`"));
        assert!(warned("zookeeper://a", true, true, None)[0].contains("answer `conf`"));
        assert!(warned("zookeeper://a,b", true, false, None)[0].contains("Name one"));
    }
}
