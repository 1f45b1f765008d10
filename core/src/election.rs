//! An election: a mutex whose ticket carries a note, and whose front everybody watches.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::{StreamExt as _, unfold};

use crate::claim::{Claim, terms};
use crate::event::{Event, Scope, What};
use crate::locks::Inner;
use crate::{
    Engine as _, Guard, Held, Key, Locks, Result, Share, Standing, Ticket, TicketId, Watch,
};

const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// At most one leader at a time. Made by [`Locks::election`].
#[derive(Clone, Debug)]
#[must_use = "nobody is elected until somebody campaigns"]
pub struct Election {
    claim: Claim,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The number of the term: each is above the last.
    pub token: u64,
    /// What the leader wants others to know: its address, say.
    pub note: Arc<str>,
    /// Who it is.
    pub owner: Arc<str>,
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
    /// [`set_note`](Held::set_note) tells the followers something new.
    ///
    /// Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub async fn campaign(&self) -> Result<Guard> {
        self.claim.wait(Share::WHOLE).await
    }

    /// Takes the seat if it is free, and answers `None` otherwise.
    pub async fn try_campaign(&self) -> Result<Option<Guard>> {
        self.claim.attempt(Share::WHOLE).await
    }

    /// Waits to be elected for so long, and answers `None` if that was in vain.
    pub async fn campaign_within(&self, time: Duration) -> Result<Option<Guard>> {
        self.claim.wait_for(Share::WHOLE, time).await
    }

    /// Campaigns, does the leader's work, and campaigns again if the seat is lost before it is done.
    ///
    /// Work that loses its seat is dropped *before* the seat is given up, so that no one else begins
    /// while it still runs. When the work ends by itself, the seat is given up and its output returned.
    /// What the work has spawned elsewhere is its own to stop: hand it the term and let it
    /// [`check`](Held::check).
    ///
    /// A store that cannot be reached is no reason to give up: it is asked again, with growing pauses.
    pub async fn run<F, Work>(&self, mut work: F) -> Result<Work::Output>
    where
        F: FnMut(Held) -> Work,
        Work: Future,
    {
        loop {
            let seat = self.campaign_on().await?;
            let done = seat.run(work(seat.held())).await;
            let resigned = seat.release().await;
            match done {
                Ok(output) => return Ok(output),
                Err(lost) => {
                    tracing::info!(%lost, ?resigned, "the seat is lost; campaigning again");
                }
            }
        }
    }

    /// Campaigns through outages of the store.
    async fn campaign_on(&self) -> Result<Guard> {
        let mut pause = PAUSE_FIRST;
        loop {
            match self.campaign().await {
                Err(error) if error.is_unknown() => {
                    tracing::warn!(%error, ?pause, "no campaign; trying again");
                    self.claim.locks.inner.host.sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                campaign => return campaign,
            }
        }
    }

    /// Who leads now.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        leader(&self.claim.locks.inner, self.claim.key()?).await
    }

    /// Every leader in order, first the one of now. `None`: nobody leads.
    ///
    /// A leader who changes its note is told again. Where the store shows [every
    /// event](crate::Sight::Every) no term is missed, however short.
    pub async fn observe(&self) -> Result<Leaders> {
        let inner = self.claim.locks.inner.clone();
        let key = self.claim.key()?.clone();
        let watch = Watch::start(&inner, Scope::Key(key.clone())).await?;
        let now = leader(&inner, &key).await?;
        let told = VecDeque::from([now.clone()]);
        let observer = Observer { inner, key, watch, now, told };
        Ok(Leaders(Box::pin(unfold(observer, |mut observer| async move {
            let leader = observer.next().await;
            Some((leader, observer))
        }))))
    }
}

async fn leader(inner: &Inner, key: &Key) -> Result<Option<Leader>> {
    let line = inner.engine.line(key).await?;
    let front = line.into_iter().find(|(_, place)| place.standing == Standing::Holding);
    Ok(front.map(|(ticket, place)| Leader::of(&ticket, place.number)))
}

impl Leader {
    fn of(ticket: &Ticket, token: u64) -> Self {
        Self { token, note: ticket.note.clone(), owner: ticket.owner.clone(), id: ticket.id }
    }
}

/// The leaders of an election, one after the other. It never ends.
#[must_use = "a stream does nothing until it is polled"]
pub struct Leaders(Pin<Box<dyn Stream<Item = Result<Option<Leader>>> + Send>>);

impl Leaders {
    /// The next leader, or `None` when nobody leads any more.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        self.0.next().await.expect("it never ends")
    }
}

impl Stream for Leaders {
    type Item = Result<Option<Leader>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
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
}

impl Observer {
    async fn next(&mut self) -> Result<Option<Leader>> {
        loop {
            if let Some(leader) = self.told.pop_front() {
                return Ok(leader);
            }
            match self.watch.next().await? {
                crate::Seen::Event(event) => self.hear(&event),
                crate::Seen::Gap => {
                    let now = leader(&self.inner, &self.key).await?;
                    if now != self.now {
                        self.tell(now);
                    }
                }
            }
        }
    }

    fn hear(&mut self, event: &Event) {
        let token = self.now.as_ref().map(|leader| leader.token);
        let is_now = token == Some(event.number);
        match event.what {
            // The look at the start may already have shown what the first events tell.
            What::Served if token.is_none_or(|token| token < event.number) => {
                self.tell(Some(Leader::of(&event.ticket, event.number)));
            }
            What::Changed if is_now => {
                let leader = Leader::of(&event.ticket, event.number);
                if self.now.as_ref() != Some(&leader) {
                    self.tell(Some(leader));
                }
            }
            What::Left | What::Expired if is_now => self.tell(None),
            // A leader who is told to leave leads until it has left.
            _ => {}
        }
    }

    fn tell(&mut self, leader: Option<Leader>) {
        self.now.clone_from(&leader);
        self.told.push_back(leader);
    }
}
