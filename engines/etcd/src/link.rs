//! The members of a cluster for the kit's link, and the state of one connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tenure_core::sync::Mutex;
use tenure_core::{Error, Result, errors};
use tenure_kit::{ConnectContext, Connection, Link, Origin, Server};
use tokio::time::{Instant, timeout};

use crate::calls::{AuthorizedChannel, LoginToken};
use crate::connect::{Greeting, answers, connect};
use crate::keep_alives::KeepAlives;
use crate::settings::Settings;
use crate::status::{ENDED, Status};
use crate::trouble;
use crate::watches::KeyWatches;

/// Time for which a new client waits for the members that it does not use.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);

/// Part of `timeout` that a member has to answer over another connection, after one had no answer
/// from it.
const DOUBTS: u32 = 4;

/// The members of a cluster: a connection leads to one of them, and the next connection to the
/// next.
pub(crate) struct Members {
    pub(crate) settings: Settings,
    next: AtomicUsize,
    /// The member of the keep-alives. The callers' own connections lead to it as well.
    at_home: AtomicUsize,
    /// The id of the first cluster that was reached.
    cluster: AtomicU64,
    /// A member was reached, with a leader or without.
    is_met: AtomicBool,
    /// The login token, which all members know until they forget it.
    token: Mutex<Option<LoginToken>>,
}

/// An open connection to one member.
pub(crate) struct MemberConnection {
    /// The index of the member.
    at: usize,
    pub(crate) wire: AuthorizedChannel,
    pub(crate) version: Option<String>,
    pub(crate) keep_alives: KeepAlives,
    pub(crate) watches: KeyWatches,
    /// Count of answers.
    pub(crate) heard: AtomicU64,
}

/// Returns the error for a member's status. Drops a connection that is of no more use, or a token
/// that the member does not know any more.
pub(crate) fn failed(
    link: &Link<Members>,
    connection: &Connection<MemberConnection>,
    status: &Status,
) -> Error {
    let members = link.server();
    if trouble::is_stranger(status) {
        members.forget(&connection.wire);
    }
    if trouble::ends_connection(status) {
        link.give_up(connection.generation());
    }
    if status.message() == ENDED && connection.wire.channel.was_silent() {
        return trouble::left(&members.settings);
    }
    trouble::error(&members.settings, status)
}

/// Leaves a member that does not answer: its callers use the next one. Returns whether the
/// connection was in use until now.
pub(crate) fn leave(link: &Link<Members>, connection: &Connection<MemberConnection>) -> bool {
    connection.wire.channel.end();
    link.give_up(connection.generation())
}

/// Checks a member that did not answer over another connection. The keep-alives, and callers
/// without a connection of their own, may use the same member. They leave it, too, unless it
/// answers now.
pub(crate) fn doubt(home: &Link<Members>, left: &Connection<MemberConnection>) {
    let (members, Some(link)) = (home.server(), home.this()) else { return };
    let Some(connection) = home.current().filter(|connection| connection.at == left.at) else {
        return;
    };
    let many = members.settings.members.len();
    if many == 1 {
        return;
    }
    let (this, next) = (left.at, (left.at + 1) % many);
    let _ = members.at_home.compare_exchange(this, next, Ordering::Relaxed, Ordering::Relaxed);
    let within = members.settings.timeout / DOUBTS;
    home.home().spawn(async move {
        // A member whose leader stands still lives, and any other member would wait for that
        // leader, too.
        if timeout(within, answers(&connection.wire)).await != Ok(true) {
            leave(&link, &connection);
        }
    });
}

impl Members {
    pub(crate) fn of(settings: Settings) -> Self {
        // Clients of one URL begin with a random member, to spread the load.
        let first = getrandom::u32().unwrap_or(0) as usize % settings.members.len();
        let (next, at_home) = (AtomicUsize::new(first), AtomicUsize::new(first));
        let (cluster, is_met) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { settings, next, at_home, cluster, is_met, token: Mutex::default() }
    }

    /// Drops a token that the members do not know any more: the next connection requests another.
    fn forget(&self, wire: &AuthorizedChannel) {
        self.token.lock().take_if(|token| wire.token.as_ref() == Some(token));
    }

    /// Notes that a member with a leader was reached.
    fn opened(
        &self,
        at: usize,
        wire: AuthorizedChannel,
        greeting: Greeting,
        is_home: bool,
    ) -> Result<MemberConnection> {
        self.is_met.store(true, Ordering::Release);
        self.refuse_other(greeting.cluster)?;
        self.token.lock().clone_from(&wire.token);
        if is_home {
            self.next.store(at + 1, Ordering::Relaxed);
            self.at_home.store(at, Ordering::Relaxed);
        }
        let (keep_alives, watches) =
            (KeepAlives::on(wire.clone()), KeyWatches::on(wire.clone(), self.settings.timeout));
        let (version, heard) = (greeting.version, AtomicU64::new(0));
        Ok(MemberConnection { at, wire, version, keep_alives, watches, heard })
    }

    /// Returns whether a member was reached ever.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met.load(Ordering::Acquire)
    }

    /// Refuses members of another cluster, if they answer at once. A client uses one member, and
    /// two clients of two clusters would both get the same lock.
    pub(crate) async fn refuse_others(&self) -> Result<()> {
        let (home, token) = (self.at_home.load(Ordering::Relaxed), self.token.lock().clone());
        let (members, until) =
            (self.settings.members.iter().enumerate(), Instant::now() + OTHERS_WITHIN);
        let others = members
            .filter(|(at, _)| *at != home)
            .map(|(_, member)| connect(&self.settings, member, token.clone(), until));
        // A member that cannot be reached now is checked when it is needed.
        for (_, greeting) in join_all(others).await.into_iter().flatten().flatten() {
            self.refuse_other(greeting.cluster)?;
        }
        Ok(())
    }

    /// Refuses a second cluster: two clusters behind one URL would keep two lines for each key.
    fn refuse_other(&self, met: u64) -> Result<()> {
        let known = self.cluster.compare_exchange(0, met, Ordering::AcqRel, Ordering::Acquire);
        match known {
            Err(known) if known != met => Err(Error::rejected(format!(
                "{} are members of different clusters: name those of one",
                self.settings.whom()
            ))),
            _ => Ok(()),
        }
    }
}

impl Server for Members {
    type Open = MemberConnection;

    async fn open(&self, opening: &ConnectContext) -> Result<MemberConnection> {
        let (members, is_home) = (&self.settings.members, opening.side() == Origin::Home);
        let first = if is_home {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            self.at_home.load(Ordering::Relaxed)
        };
        let was_met = self.is_met();
        let until = Instant::now() + self.settings.connect_timeout;
        // All of them together have that time.
        let pause =
            self.settings.connect_timeout / u32::try_from(members.len() + 1).unwrap_or(u32::MAX);
        let mut others = (first..first + members.len()).map(|at| at % members.len());
        let (mut under_way, mut troubles) = (FuturesUnordered::new(), Vec::new());
        let (mut is_leaderless, mut refused, mut next) = (false, None, others.next());
        loop {
            if let Some(at) = next.take() {
                let known = self.token.lock().clone();
                let tried = connect(&self.settings, &members[at], known, until);
                under_way.push(async move { (at, tried.await) });
            }
            // A silent member does not delay the others.
            let Ok(tried) = timeout(pause, under_way.next()).await else {
                next = others.next();
                continue;
            };
            let Some((at, tried)) = tried else { break };
            match tried {
                Ok(None) => {
                    self.is_met.store(true, Ordering::Release);
                    is_leaderless = true;
                }
                Ok(Some((wire, greeting))) => match self.opened(at, wire, greeting, is_home) {
                    Err(error) => refused = Some(error),
                    opened => return opened,
                },
                Err(error) if error.is_retryable() => troubles.push((at, error)),
                // Another member may accept this client: try it.
                Err(error) => refused = Some(error),
            }
            next = others.next();
        }
        if let Some(refused) = refused {
            // A member that does not answer now has accepted this client before.
            let may_pass = was_met && (is_leaderless || !troubles.is_empty());
            return Err(if may_pass { refused.into_retryable() } else { refused });
        }
        troubles.sort_by_key(|(at, _)| *at);
        let others = errors::join(troubles.iter().map(|(_, error)| error));
        Err(if is_leaderless {
            trouble::leaderless(&self.settings, &others)
        } else {
            Error::unavailable(others)
        })
    }
}
