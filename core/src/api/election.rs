//! An election: a mutex whose ticket carries a note, and whose front everybody watches.

use std::collections::VecDeque;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::{Either, select};

use crate::api::claim::{Claim, terms};
use crate::api::locks::Inner;
use crate::background::event_stream::{Backoff, EventStream, Source};
use crate::event::{Event, EventKind, Scope};
use crate::{
    Engine as _, ErrorKind, Guard, Key, LeaseHandle, Locks, Note, Owner, Result, Share, Ticket,
    TicketId, TicketState, Watch,
};

/// At most one leader at a time. Made by [`Locks::election`].
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let election = locks.election("scheduler").note("10.0.0.7:8080");
/// let done = election
///     .run(|term| async move { /* the leader's work, stopped when the seat is lost */ term.token() })
///     .await?;
/// assert!(done > 0);
/// assert!(election.leader().await?.is_none(), "its work is done, and the seat is given up");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "nobody is elected until somebody campaigns"]
pub struct Election {
    claim: Claim,
}

/// Who leads.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let seat = locks.election("scheduler").note("10.0.0.7:8080").campaign().await?;
/// let leader = locks.election("scheduler").leader().await?.expect("somebody leads");
/// assert_eq!((&*leader.note, leader.token), ("10.0.0.7:8080", seat.token()));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Leader {
    /// The number of the term: each is above the last.
    pub token: u64,
    /// What the leader wants others to know: its address, say.
    pub note: Note,
    /// Who it is.
    pub owner: Owner,
    /// The leader's ticket.
    pub id: TicketId,
}

impl Locks {
    /// The election of this name.
    pub fn election(&self, key: impl AsRef<str>) -> Election {
        Election { claim: Claim::new(self, key) }
    }
}

impl Election {
    terms!();

    /// Waits to be elected. The guard is the seat: releasing it is resigning, and
    /// [`set_note`](LeaseHandle::set_note) tells the followers something new.
    ///
    /// Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub fn campaign(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.claim.wait(Share::WHOLE)
    }

    /// Takes the seat if it is free, and answers `None` otherwise.
    pub fn try_campaign(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.attempt(Share::WHOLE)
    }

    /// Waits to be elected for so long, and answers `None` if that was in vain.
    pub fn try_campaign_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.wait_for(Share::WHOLE, time)
    }

    /// Campaigns, does the leader's work, and campaigns again if the seat is lost before it is done.
    ///
    /// Work that loses its seat is dropped *before* the seat is given up, so that no one else begins
    /// while it still runs. When the work ends by itself, the seat is given up and its output returned.
    /// What the work has spawned elsewhere is its own to stop: hand it the term and let it
    /// [`check`](LeaseHandle::check).
    ///
    /// A store that cannot be reached is no reason to give up, nor is a ticket that was taken out of the
    /// line while it waited (a store that lost its data, an operator): it stands again, after pauses that
    /// grow to ten seconds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and gives up the seat in the background.
    pub fn run<F, Work>(&self, work: F) -> impl Future<Output = Result<Work::Output>> + use<F, Work>
    where
        F: FnMut(LeaseHandle) -> Work,
        Work: Future,
    {
        // A campaign and its work are large futures; one more around them would double that.
        let led = Box::pin(self.run_until(std::future::pending::<()>(), work));
        async move { led.await.map(|output| output.expect("only `stop` ends it without an output")) }
    }

    /// Does what [`run`](Election::run) does until `stop` is ready, and returns `None` then.
    ///
    /// A follower leaves the line. A leader's work is dropped, and then the seat is given up, so that
    /// the next leader begins after this one has ended. `stop` is any future, such as
    /// `token.cancelled_owned()` of a `CancellationToken` or the end of a channel.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let leader = locks.election("scheduler").campaign().await?;
    /// let (shutdown, stop) = tokio::sync::oneshot::channel::<()>();
    /// let follower = locks.election("scheduler").run_until(
    ///     async { drop(stop.await) },
    ///     |_term| async { unreachable!("another one leads") },
    /// );
    /// shutdown.send(()).expect("the follower listens");
    /// assert_eq!(follower.await?, None::<()>);
    /// leader.release().await?;
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](Election::run); and the outcome of giving the seat up after `stop`:
    /// [`Lost`](ErrorKind::Lost) if it was lost before the work was stopped, and
    /// [`Unavailable`](ErrorKind::Unavailable) if the store did not confirm that it is free.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and gives up the seat in the background.
    pub fn run_until<S, F, Work>(
        &self,
        stop: S,
        mut work: F,
    ) -> impl Future<Output = Result<Option<Work::Output>>> + use<S, F, Work>
    where
        S: Future,
        F: FnMut(LeaseHandle) -> Work,
        Work: Future,
    {
        let election = self.clone();
        async move {
            let mut stop = pin!(stop);
            loop {
                let seat = {
                    let campaign = pin!(election.campaign_on());
                    match select(&mut stop, campaign).await {
                        // The campaign is dropped, and so leaves the line.
                        Either::Left(_) => return Ok(None),
                        Either::Right((seat, _)) => seat?,
                    }
                };
                let done = {
                    let led = pin!(seat.run(work(seat.handle())));
                    match select(&mut stop, led).await {
                        Either::Left(_) => None,
                        Either::Right((done, _)) => Some(done),
                    }
                };
                // The work is over or dropped before the seat is given up.
                let resigned = seat.release().await;
                match done {
                    None => return resigned.map(|()| None),
                    Some(Ok(output)) => return Ok(Some(output)),
                    Some(Err(lost)) => {
                        tracing::info!(%lost, ?resigned, "the seat is lost; campaigning again");
                    }
                }
            }
        }
    }

    /// Campaigns through outages of the store, and again when its ticket is gone from the line.
    async fn campaign_on(&self) -> Result<Guard> {
        let host = &*self.claim.locks.inner.host;
        let mut rest = Backoff::default();
        loop {
            rest.over(host).await;
            match rest.after(self.campaign().await, host) {
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost) => {
                    tracing::warn!(%error, "no campaign; trying again");
                }
                campaign => return campaign,
            }
        }
    }

    /// Who leads now.
    pub fn leader(&self) -> impl Future<Output = Result<Option<Leader>>> + Send + use<> {
        let claim = self.claim.clone();
        async move { leader(&claim.locks.inner, claim.key()?).await }
    }

    /// Every leader in order, first the one of now. `None`: nobody leads.
    ///
    /// A leader who changes its note is told again. Where the store shows [every
    /// event](crate::EventDelivery::Every) no term is missed, however short.
    pub fn observe(&self) -> impl Future<Output = Result<Leaders>> + Send + use<> {
        let Claim { locks, key, .. } = self.claim.clone();
        async move {
            let (inner, key) = (locks.inner, key?);
            let watch = Watch::start(&inner, Scope::Key(key.clone())).await?;
            let now = leader(&inner, &key).await?;
            let told = VecDeque::from([now.clone()]);
            let (gap, rest) = (false, Backoff::default());
            Ok(Leaders(EventStream::new(Observer { inner, key, watch, now, told, gap, rest })))
        }
    }
}

async fn leader(inner: &Inner, key: &Key) -> Result<Option<Leader>> {
    let line = inner.engine.line(key).await?;
    let front = line.into_iter().find(|(_, place)| place.state == TicketState::Holding);
    Ok(front.map(|(ticket, place)| Leader::of(&ticket, place.number)))
}

impl Leader {
    fn of(ticket: &Ticket, token: u64) -> Self {
        Self { token, note: ticket.note.clone(), owner: ticket.owner.clone(), id: ticket.id }
    }
}

/// The leaders of an election, one after the other. It never ends.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let election = locks.election("scheduler");
/// let mut leaders = election.observe().await?;
/// assert_eq!(leaders.next().await?, None, "nobody leads yet");
/// let seat = election.campaign().await?;
/// let leader = leaders.next().await?.expect("somebody leads");
/// assert_eq!(leader.token, seat.token());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct Leaders(EventStream<Option<Leader>>);

impl Leaders {
    /// The next leader, or `None` when nobody leads any more.
    ///
    /// # Cancel safety
    ///
    /// No term is missed if the future is dropped: the next call goes on where this one was.
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
    inner: Arc<Inner>,
    key: Key,
    watch: Watch,
    now: Option<Leader>,
    told: VecDeque<Option<Leader>>,
    /// Some events were missed, and the line has not been looked at since.
    gap: bool,
    rest: Backoff,
}

impl Source for Observer {
    type Item = Option<Leader>;

    async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            if let Some(leader) = self.told.pop_front() {
                return Ok(leader);
            }
            if self.gap {
                // The gap stays until a look has succeeded, however often it fails.
                let host = &*self.inner.host;
                self.rest.over(host).await;
                let now = self.rest.after(leader(&self.inner, &self.key).await, host)?;
                self.gap = false;
                if now != self.now {
                    self.tell(now);
                }
                continue;
            }
            match self.watch.next().await? {
                crate::WatchEvent::Event(event) => self.hear(&event),
                crate::WatchEvent::Gap => self.gap = true,
            }
        }
    }
}

impl Observer {
    fn hear(&mut self, event: &Event) {
        let token = self.now.as_ref().map(|leader| leader.token);
        let is_now = token == Some(event.number);
        match event.kind {
            // The look at the start may already have shown what the first events tell.
            EventKind::Served if token.is_none_or(|token| token < event.number) => {
                self.tell(Some(Leader::of(&event.ticket, event.number)));
            }
            EventKind::Changed if is_now => {
                let leader = Leader::of(&event.ticket, event.number);
                if self.now.as_ref() != Some(&leader) {
                    self.tell(Some(leader));
                }
            }
            EventKind::Left | EventKind::Expired if is_now => self.tell(None),
            // A leader who is told to leave leads until it has left.
            _ => {}
        }
    }

    fn tell(&mut self, leader: Option<Leader>) {
        self.now.clone_from(&leader);
        self.told.push_back(leader);
    }
}
