//! What the kit's link must know of the members, and what belongs to one connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tenure_core::{Error, Result, errors};
use tenure_kit::{ConnectContext, Connection, Link, Origin, Server};
use tokio::time::{Instant, timeout};

use crate::beats::Beats;
use crate::calls::{Token, Wire};
use crate::connect::{Greeting, answers, connect};
use crate::settings::Settings;
use crate::status::{ENDED, Status};
use crate::trouble;
use crate::watches::Watches;

/// So long a client that begins waits for the members that it does not speak to.
const OTHERS_WITHIN: Duration = Duration::from_millis(500);

/// A member that one connection had no answer from has such a part of `timeout` to answer over the other one.
const DOUBTS: u32 = 4;

/// The members of a cluster: a connection leads to one of them, and the next connection to the next.
pub(crate) struct Members {
    pub(crate) settings: Settings,
    next: AtomicUsize,
    /// The member that gets the signs of life, which the callers' own connections lead to as well.
    at_home: AtomicUsize,
    /// The cluster that was met first.
    cluster: AtomicU64,
    /// A member was reached, with a leader or without.
    is_met: AtomicBool,
    /// Who this client is, which all members know until they forget it.
    token: Mutex<Option<Token>>,
}

/// What is open to one member.
pub(crate) struct Open {
    /// Which of the members it is.
    at: usize,
    pub(crate) wire: Wire,
    pub(crate) version: Option<String>,
    pub(crate) beats: Beats,
    pub(crate) watches: Watches,
    /// How many answers came.
    pub(crate) heard: AtomicU64,
}

/// A member answered this over a connection, which may be of no more use, or the member does not know this client any more.
pub(crate) fn failed(
    link: &Link<Members>,
    connection: &Connection<Open>,
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

/// The member does not answer. Whoever waits for it asks the next one. Answers whether the connection was in use until now.
pub(crate) fn leave(link: &Link<Members>, connection: &Connection<Open>) -> bool {
    connection.wire.channel.end();
    link.give_up(connection.generation())
}

/// The member of this connection, which was left, did not answer a caller. The signs of life may go to it as well, and so do requests of
/// callers without a connection of their own: they leave it, too, unless it answers now that it lives.
pub(crate) fn doubt(home: &Link<Members>, left: &Connection<Open>) {
    let (members, Some(link)) = (home.server(), home.this()) else { return };
    let Some(connection) = home.current().filter(|connection| connection.at == left.at) else {
        return;
    };
    let many = members.settings.members.len();
    if many == 1 {
        return;
    }
    let (this, next) = (left.at, (left.at + 1) % many);
    let _moved = members.at_home.compare_exchange(this, next, Ordering::Relaxed, Ordering::Relaxed);
    let within = members.settings.timeout / DOUBTS;
    home.home().spawn(async move {
        // A member whose leader stands still lives, and any other member would wait for that leader, too.
        if timeout(within, answers(&connection.wire)).await != Ok(true) {
            leave(&link, &connection);
        }
    });
}

impl Members {
    pub(crate) fn of(settings: Settings) -> Self {
        // Many clients of one URL do not all begin with its first member.
        let first = getrandom::u32().unwrap_or(0) as usize % settings.members.len();
        let (next, at_home) = (AtomicUsize::new(first), AtomicUsize::new(first));
        let (cluster, is_met) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { settings, next, at_home, cluster, is_met, token: Mutex::default() }
    }

    /// The members do not know this token any more: the next connection asks for another.
    fn forget(&self, wire: &Wire) {
        self.token().take_if(|token| wire.token.as_ref() == Some(token));
    }

    /// A member was reached that has a leader.
    fn opened(&self, at: usize, wire: Wire, greeting: Greeting, is_home: bool) -> Result<Open> {
        self.is_met.store(true, Ordering::Release);
        self.refuse_other(greeting.cluster)?;
        self.token().clone_from(&wire.token);
        if is_home {
            self.next.store(at + 1, Ordering::Relaxed);
            self.at_home.store(at, Ordering::Relaxed);
        }
        let (beats, watches) =
            (Beats::on(wire.clone()), Watches::on(wire.clone(), self.settings.timeout));
        let (version, heard) = (greeting.version, AtomicU64::new(0));
        Ok(Open { at, wire, version, beats, watches, heard })
    }

    fn token(&self) -> MutexGuard<'_, Option<Token>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a member was reached ever.
    pub(crate) fn is_met(&self) -> bool {
        self.is_met.load(Ordering::Acquire)
    }

    /// Whether the other members are of the same cluster, as far as they answer at once: a client speaks to one of them, and two
    /// clients of two clusters would both be given the same lock.
    pub(crate) async fn refuse_others(&self) -> Result<()> {
        let (home, token) = (self.at_home.load(Ordering::Relaxed), self.token().clone());
        let (members, until) =
            (self.settings.members.iter().enumerate(), Instant::now() + OTHERS_WITHIN);
        let others = members
            .filter(|(at, _)| *at != home)
            .map(|(_, member)| connect(&self.settings, member, token.clone(), until));
        // Who cannot be reached now is looked at when it is needed.
        for (_, greeting) in join_all(others).await.into_iter().flatten().flatten() {
            self.refuse_other(greeting.cluster)?;
        }
        Ok(())
    }

    /// Two clusters behind one URL would keep two lines for each key.
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
    type Open = Open;

    async fn open(&self, opening: &ConnectContext) -> Result<Open> {
        let (members, is_home) = (&self.settings.members, opening.side() == Origin::Home);
        let first = if is_home {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            self.at_home.load(Ordering::Relaxed)
        };
        let until = Instant::now() + self.settings.connect_timeout;
        // All of them together have that time.
        let pause =
            self.settings.connect_timeout / u32::try_from(members.len() + 1).unwrap_or(u32::MAX);
        let mut others = (first..first + members.len()).map(|at| at % members.len());
        let (mut under_way, mut troubles) = (FuturesUnordered::new(), Vec::new());
        let (mut is_leaderless, mut refused, mut next) = (false, None, others.next());
        loop {
            if let Some(at) = next.take() {
                let known = self.token().clone();
                let tried = connect(&self.settings, &members[at], known, until);
                under_way.push(async move { (at, tried.await) });
            }
            // One that is silent keeps nobody from the others.
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
                Ok(Some((wire, greeting))) => return self.opened(at, wire, greeting, is_home),
                Err(error) if error.is_retryable() => troubles.push((at, error)),
                // Another one may take this client, as long as it is tried.
                Err(error) => refused = Some(error),
            }
            next = others.next();
        }
        if let Some(refused) = refused {
            return Err(refused);
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
