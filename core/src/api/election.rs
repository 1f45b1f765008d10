//! An election: a mutex whose holder is the leader, with a note that followers read.

use std::collections::VecDeque;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::{Either, select};

use crate::api::claim::{Claim, lease_options};
use crate::background::client::Client;
use crate::background::event_stream::{Cooldown, EventStream, Source};
use crate::event::{Event, EventKind, Scope};
use crate::{
    Engine as _, ErrorKind, Key, Leadership, LeaseHandle, Locks, Note, Owner, Result, Share,
    Ticket, TicketId, TicketState, Token, Watch,
};

/// An election of at most one leader at a time. Made by [`Locks::election`].
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let election = locks.election("scheduler").note("10.0.0.7:8080");
/// let done = election
///     // The leader's work, dropped when the leadership is lost.
///     .run(|term, _| async move { term })
///     .await?;
/// assert!(done.get() > 0);
/// assert!(election.leader().await?.is_none(), "its work is done, and it has resigned");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "an election elects no leader until a candidate campaigns"]
pub struct Election {
    claim: Claim,
}

/// The leader of an election, as followers see it.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let seat = locks.election("scheduler").note("10.0.0.7:8080").campaign().await?;
/// let leader = locks.election("scheduler").leader().await?.expect("there is a leader");
/// assert_eq!((&*leader.note, leader.term), ("10.0.0.7:8080", seat.token().get()));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Leader {
    /// The number of the term: the leader's token. Each is larger than the last.
    #[cfg_attr(feature = "serde", serde(rename = "token"))]
    pub term: u64,
    /// The leader's note, such as its address.
    pub note: Note,
    /// The leader's owner name.
    pub owner: Owner,
    /// The id of the leader's ticket.
    pub id: TicketId,
}

impl Locks {
    /// The election of this key. It sends no request.
    pub fn election(&self, key: impl AsRef<str>) -> Election {
        Election { claim: Claim::new(self, key) }
    }
}

impl Election {
    lease_options!();

    /// Shows this election in the metrics `tenure_candidates`, `tenure_leader` and
    /// `tenure_leader_token`, with this name as the label `election`. Without the feature `metrics`
    /// it has no effect.
    ///
    /// The names of a program must be few. Two elections must not have the same name: their leaders
    /// would look like two leaders of one.
    pub fn metric_name(mut self, name: &'static str) -> Self {
        self.claim.options.election = Some(name);
        self
    }

    /// Waits to be elected. Releasing the guard resigns, and [`set_note`](LeaseHandle::set_note)
    /// changes the note that followers read.
    ///
    /// Cancel safety is that of [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn campaign(&self) -> impl Future<Output = Result<Leadership>> + Send + use<> {
        let elected = self.claim.wait(Share::WHOLE);
        async move { elected.await.map(Leadership) }
    }

    /// Becomes the leader if there is none, and returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_campaign(&self) -> impl Future<Output = Result<Option<Leadership>>> + Send + use<> {
        let elected = self.claim.attempt(Share::WHOLE);
        async move { Ok(elected.await?.map(Leadership)) }
    }

    /// Waits to be elected for at most `time`, and returns `None` if it was not.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_campaign_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Leadership>>> + Send + use<> {
        let elected = self.claim.wait_for(Share::WHOLE, time);
        async move { Ok(elected.await?.map(Leadership)) }
    }

    /// Campaigns, does the leader's work, and campaigns again if the leadership is lost before the
    /// work is done.
    ///
    /// After a loss the work is dropped *before* the ticket is released, so no other leader begins
    /// while it runs. When the work ends by itself, it resigns and returns the output. Tasks that
    /// the work has spawned are not stopped: give them the handle, and let them call
    /// [`check`](LeaseHandle::check).
    ///
    /// It campaigns again if the store is unreachable, and if its waiting ticket was removed from
    /// the line by an operator or by a store that lost data. The pauses grow to ten seconds.
    ///
    /// # Errors
    ///
    /// [`Rejected`](ErrorKind::Rejected), [`Invalid`](ErrorKind::Invalid) and
    /// [`Unsupported`](ErrorKind::Unsupported): another campaign would fail, too.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and resigns in the background.
    pub fn run<F, Work>(&self, work: F) -> impl Future<Output = Result<Work::Output>> + use<F, Work>
    where
        F: FnMut(Token, LeaseHandle) -> Work,
        Work: Future,
    {
        // On the heap: these futures are large, and another future around them doubles the size.
        let led = Box::pin(self.run_until(std::future::pending::<()>(), work));
        async move { led.await.map(|output| output.expect("only `stop` ends it without an output")) }
    }

    /// Does what [`run`](Election::run) does until `stop` is ready, and returns `None` then.
    ///
    /// A follower leaves the line. A leader's work is dropped before it resigns, so the next leader
    /// begins after this one has ended. `stop` is any future, such as `token.cancelled_owned()` of
    /// a `CancellationToken` or the end of a channel.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let leader = locks.election("scheduler").campaign().await?;
    /// let (shutdown, stop) = tokio::sync::oneshot::channel::<()>();
    /// let follower = locks.election("scheduler").run_until(
    ///     async { drop(stop.await) },
    ///     |_, _| async { unreachable!("another client leads") },
    /// );
    /// shutdown.send(()).expect("the follower listens");
    /// assert_eq!(follower.await?, None::<()>);
    /// leader.release().await?;
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`run`](Election::run), and those of the release after `stop`:
    /// [`Lost`](ErrorKind::Lost) if the leadership was lost before the work was stopped, and
    /// [`Unavailable`](ErrorKind::Unavailable) if the store did not confirm the release.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and resigns in the background.
    pub fn run_until<S, F, Work>(
        &self,
        stop: S,
        mut work: F,
    ) -> impl Future<Output = Result<Option<Work::Output>>> + use<S, F, Work>
    where
        S: Future,
        F: FnMut(Token, LeaseHandle) -> Work,
        Work: Future,
    {
        let election = self.clone();
        async move {
            let mut stop = pin!(stop);
            loop {
                let seat = {
                    let campaign = pin!(election.campaign_on());
                    match select(&mut stop, campaign).await {
                        // Dropping the campaign removes its ticket from the line.
                        Either::Left(_) => return Ok(None),
                        Either::Right((seat, _)) => seat?,
                    }
                };
                let done = {
                    let led = pin!(seat.run(work(seat.token(), seat.handle())));
                    match select(&mut stop, led).await {
                        Either::Left(_) => None,
                        Either::Right((done, _)) => Some(done),
                    }
                };
                // The work is over or dropped before the ticket is released.
                let resigned = seat.release().await;
                match done {
                    None => return resigned.map(|()| None),
                    Some(Ok(output)) => return Ok(Some(output)),
                    Some(Err(lost)) => {
                        tracing::info!(%lost, ?resigned, "the leadership is lost; campaigning again");
                    }
                }
            }
        }
    }

    /// Campaigns until elected, through outages of the store and removals of the ticket.
    async fn campaign_on(&self) -> Result<Leadership> {
        let runtime = &*self.claim.locks.client.runtime;
        let mut rest = Cooldown::default();
        loop {
            rest.over(runtime).await;
            match rest.after(self.campaign().await, runtime) {
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) => {
                    tracing::warn!(%error, "the campaign failed; trying again");
                }
                campaign => return campaign,
            }
        }
    }

    /// The present leader.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn leader(&self) -> impl Future<Output = Result<Option<Leader>>> + Send + use<> {
        let claim = self.claim.clone();
        async move { leader(&claim.locks.client, claim.key()?).await }
    }

    /// A stream of all leaders in order, beginning with the present one. `None`: there is no
    /// leader.
    ///
    /// A leader that changes its note appears again. If the store reports [every
    /// event](crate::EventDelivery::Every), no term is missed.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn observe(&self) -> impl Future<Output = Result<Leaders>> + Send + use<> {
        let Claim { locks, key, .. } = self.claim.clone();
        async move {
            let (client, key) = (locks.client, key?);
            let watch = Watch::start(&client, Scope::Key(key.clone())).await?;
            let now = leader(&client, &key).await?;
            let pending = VecDeque::from([now.clone()]);
            let (gap, rest) = (false, Cooldown::default());
            Ok(Leaders(EventStream::new(Observer { client, key, watch, now, pending, gap, rest })))
        }
    }
}

async fn leader(client: &Client, key: &Key) -> Result<Option<Leader>> {
    let line = client.open_engine()?.line(key).await?;
    let front = line.into_iter().find(|(_, place)| place.state == TicketState::Holding);
    Ok(front.map(|(ticket, place)| Leader::of(&ticket, place.number)))
}

impl Leader {
    fn of(ticket: &Ticket, term: u64) -> Self {
        Self { term, note: ticket.note.clone(), owner: ticket.owner.clone(), id: ticket.id }
    }
}

/// A stream of the leaders of an election, one after the other. It never ends.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// let mut leaders = election.observe().await?;
/// assert_eq!(leaders.next().await?, None, "there is no leader yet");
/// let seat = election.campaign().await?;
/// let leader = leaders.next().await?.expect("there is a leader");
/// assert_eq!(leader.term, seat.token());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Leaders(EventStream<Option<Leader>>);

impl Leaders {
    /// Waits for the next leader. `None`: the leader is gone, and there is no other.
    ///
    /// # Errors
    ///
    /// The store failed. The next call tries again.
    ///
    /// # Cancel safety
    ///
    /// No term is missed if the future is dropped: the next call continues where this one stopped.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        self.0.next().await
    }
}

impl Stream for Leaders {
    type Item = Result<Option<Leader>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(context)
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaders")
    }
}

struct Observer {
    client: Arc<Client>,
    key: Key,
    watch: Watch,
    now: Option<Leader>,
    /// Leaders that the stream has not returned yet.
    pending: VecDeque<Option<Leader>>,
    /// Events were missed, and the line has not been read since.
    gap: bool,
    rest: Cooldown,
}

impl Source for Observer {
    type Item = Option<Leader>;

    async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            if let Some(leader) = self.pending.pop_front() {
                return Ok(leader);
            }
            if self.gap {
                // The gap stays until a read of the line succeeds.
                let runtime = &*self.client.runtime;
                self.rest.over(runtime).await;
                let now = self.rest.after(leader(&self.client, &self.key).await, runtime)?;
                self.gap = false;
                if now != self.now {
                    self.push(now);
                }
                continue;
            }
            match self.watch.next().await? {
                crate::WatchEvent::Event(event) => self.apply(&event),
                crate::WatchEvent::Gap => self.gap = true,
            }
        }
    }
}

impl Observer {
    fn apply(&mut self, event: &Event) {
        let term = self.now.as_ref().map(|leader| leader.term);
        let is_now = term == Some(event.number);
        match event.kind {
            // The read at the start may already have shown the first events.
            EventKind::Served if term.is_none_or(|term| term < event.number) => {
                self.push(Some(Leader::of(&event.ticket, event.number)));
            }
            EventKind::Changed if is_now => {
                let leader = Leader::of(&event.ticket, event.number);
                if self.now.as_ref() != Some(&leader) {
                    self.push(Some(leader));
                }
            }
            EventKind::Left | EventKind::Expired if is_now => self.push(None),
            // A leader that was asked to leave leads until it has left.
            _ => {}
        }
    }

    fn push(&mut self, leader: Option<Leader>) {
        self.now.clone_from(&leader);
        self.pending.push_back(leader);
    }
}
