//! The engine: nine verbs, each of them one visit to a book.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Error, Fencing, Key, Leave, Left, Liveness, NOTE_BYTES_MAX, OWNER_BYTES_MAX, Patience,
    Place, Profile, Result, Share, Sight, Standing, Tally, Ticket, Wake, Window,
};

use crate::log::record::{Record, SessionId};
use crate::log::row::Row;
use crate::log::shelf::{BOOKS, book_of};
use crate::open::FileStore;
use crate::os::flock::Haste;
use crate::trouble::{is_removed, without_holder};
use crate::verbs::{news, tally, watch};
use crate::visits::ground::TRIES_FOR;
use crate::visits::store::Store;
use crate::visits::visit::Visit;

/// No verb but `watch` and `events` takes longer, whatever others have locked.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

impl Store {
    /// Does something in a book: now, or as soon as whoever is stuck in there has come out.
    pub(crate) async fn at<A, T>(
        self: &Arc<Self>,
        index: usize,
        subject: &A,
        act: impl Fn(&mut Visit<'_>, &A) -> Result<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Clone + Send + 'static,
        T: Send + 'static,
    {
        self.at_until(index, None, subject, act).await
    }

    /// The same, for a verb that began before.
    async fn at_until<A, T>(
        self: &Arc<Self>,
        index: usize,
        until: Option<Instant>,
        subject: &A,
        act: impl Fn(&mut Visit<'_>, &A) -> Result<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Clone + Send + 'static,
        T: Send + 'static,
    {
        if let Some(answer) = self.visit(index, Haste::Quick, |visit| act(visit, subject)) {
            return answer;
        }
        let subject = subject.clone();
        let until = until.unwrap_or_else(|| Instant::now() + TRIES_FOR);
        self.later(index, until, move |visit| act(visit, &subject)).await
    }
}

impl Engine for FileStore {
    fn profile(&self) -> Profile {
        let mut profile = Profile::new("file", Liveness::Kernel);
        profile.fair = true;
        profile.push = true;
        profile.events = Sight::Every;
        profile.fencing = Fencing::Durable;
        profile.survives.holder_crash = true;
        // The kernel knows that a paused holder lives, and nobody else is served.
        profile.survives.holder_pause = true;
        // There is no process to crash; a crash of the machine ends all holders too.
        profile.survives.store_crash = true;
        profile.survives.clock_step = true;
        profile.survives.full_memory = true;
        profile.warnings = self.store.ground.peers.unseen();
        profile.answers_within = ANSWERS_WITHIN;
        profile.quick = true;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        check_limits(ticket)?;
        let store = self.store.clone();
        let join = move |visit: &mut Visit<'_>, ticket: &Ticket| {
            join(visit, ticket, patience, || store.hang_bell())
        };
        let joined = self.store.at(book_of(&ticket.key), ticket, join).await;
        joined.map_err(|error| without_holder(error, self.store.ground.root.path()))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        check_limits(ticket)?;
        self.store.ground.check_session()?;
        let renew = |visit: &mut Visit<'_>, ticket: &Ticket| Ok(renew(visit, ticket));
        self.store.at(book_of(&ticket.key), ticket, renew).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let leave = move |visit: &mut Visit<'_>, ticket: &Ticket| Ok(leave(visit, ticket, how));
        match self.store.at(book_of(&ticket.key), ticket, leave).await {
            Err(error) if is_removed(&error) => Ok(Left::Absent),
            left => left,
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        match watch::wait(&self.store, ticket, seen).await {
            Err(error) if is_removed(&error) => Ok(Wake::Look),
            wake => wake,
        }
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        let news = news::read(&self.store, scope, after).await;
        news.map_err(|error| without_holder(error, self.store.ground.root.path()))
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let list = |visit: &mut Visit<'_>, key: &Key| {
            bury_dead(visit, |at| at == key);
            Ok(visit.state().rows.get(key).map(Row::list).unwrap_or_default())
        };
        let line = self.store.at(book_of(key), key, list).await;
        line.map_err(|error| without_holder(error, self.store.ground.root.path()))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let prefix = prefix.to_owned();
        let list = |visit: &mut Visit<'_>, prefix: &String| {
            let covers = |key: &Key| key.as_str().starts_with(prefix.as_str());
            bury_dead(visit, covers);
            let rows = visit.state().rows.iter();
            let used = rows.filter(|(key, row)| !row.is_empty() && covers(key));
            Ok(used.map(|(key, _)| key.clone()).collect::<Vec<_>>())
        };
        let mut keys = Vec::new();
        let until = Some(Instant::now() + TRIES_FOR);
        for index in 0..BOOKS {
            let more = self.store.at_until(index, until, &prefix, list).await;
            keys.extend(
                more.map_err(|error| without_holder(error, self.store.ground.root.path()))?,
            );
        }
        keys.sort_unstable();
        Ok(keys)
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        let tally = tally::add(&self.store, key, by, window).await;
        tally.map_err(|error| without_holder(error, self.store.ground.root.path()))
    }

    async fn close(&self) {
        self.store.close();
    }
}

fn check_limits(ticket: &Ticket) -> Result<()> {
    for (what, text, max) in
        [("note", &ticket.note, NOTE_BYTES_MAX), ("owner", &ticket.owner, OWNER_BYTES_MAX)]
    {
        if text.len() > max {
            let length = text.len();
            return Err(Error::invalid(format!(
                "a ticket's {what} of {length} bytes is too long: at most {max} bytes are allowed"
            )));
        }
    }
    Ok(())
}

/// `hang_bell` sees to it that whoever serves the ticket can ring.
fn join(
    visit: &mut Visit<'_>,
    ticket: &Ticket,
    patience: Patience,
    hang_bell: impl Fn() -> Result<()>,
) -> Result<Option<Place>> {
    visit.ground.check_session()?;
    visit.settle()?;
    visit.refuse_the_damaged()?;
    loop {
        let place = match put(visit, ticket, patience)? {
            Some(place) => place,
            None if bury_one_ahead(visit, &ticket.key, ticket.share) => continue,
            None => return Ok(None),
        };
        return match place.standing {
            Standing::Holding => Ok(Some(place)),
            Standing::Waiting => {
                let place = look_ahead(visit, ticket);
                if place.is_some_and(|place| place.standing == Standing::Waiting) {
                    hang_bell()?;
                }
                Ok(place)
            }
        };
    }
}

/// Puts the ticket into its line; `None` if it is busy, or if the ticket was told to go.
fn put(visit: &mut Visit<'_>, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
    let session = visit.ground.session.id;
    let now_us = visit.now_us;
    let (joined, changed, place) = visit.change(|state, hear| {
        let now_us = now_us.max(state.floor.saturating_add(1));
        let row = state.row(&ticket.key);
        let (seats, last) = (row.seats().len(), row.last());
        let mut heard = false;
        let place = row.join(session, ticket, patience, now_us, &mut |note| {
            heard = true;
            hear(note);
        });
        (row.seats().len() > seats, heard || row.last() > last, place)
    });
    let place = place?;
    let cow = Cow::Borrowed(ticket);
    match place {
        Some(Place { number, .. }) if joined => {
            visit.record(&Record::Joined { session, number, ticket: cow });
        }
        _ if changed => visit.record(&Record::Changed { ticket: cow }),
        _ => {}
    }
    Ok(place)
}

/// Takes out a dead session that makes a line busy. Says whether there was one.
fn bury_one_ahead(visit: &mut Visit<'_>, key: &Key, share: Share) -> bool {
    let Some(row) = visit.state().rows.get(key) else { return false };
    // Who wants all there is waits for anyone who lives: the others do not matter.
    let enough = if share.take() == share.of() { 1 } else { usize::MAX };
    let sessions = distinct(row.seats().take(enough).map(|seat| seat.session));
    sessions.into_iter().any(|session| visit.bury_if_dead(session))
}

/// Takes out the dead ahead of a ticket, has the others watched over, and says where it stands now.
pub(crate) fn look_ahead(visit: &mut Visit<'_>, ticket: &Ticket) -> Option<Place> {
    loop {
        let row = visit.state().rows.get(&ticket.key)?;
        let place = row.place(ticket.id)?;
        if place.standing == Standing::Holding {
            return Some(place);
        }
        let own = row.seat(place.number)?.session == visit.ground.session.id;
        let ahead = distinct(row.ahead_of(place.number));
        if !ahead.iter().any(|session| visit.bury_if_dead(*session)) {
            if own {
                for session in ahead {
                    visit.watch(session);
                }
            }
            return Some(place);
        }
    }
}

fn distinct(sessions: impl Iterator<Item = SessionId>) -> Vec<SessionId> {
    let mut distinct: Vec<_> = sessions.collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Takes out every dead session that has a ticket of these keys.
fn bury_dead(visit: &mut Visit<'_>, covers: impl Fn(&Key) -> bool) {
    let rows = visit.state().rows.iter().filter(|(key, _)| covers(key));
    let sessions = distinct(rows.flat_map(|(_, row)| row.seats()).map(|seat| seat.session));
    for session in sessions {
        visit.bury_if_dead(session);
    }
}

fn renew(visit: &mut Visit<'_>, ticket: &Ticket) -> Option<Place> {
    let (changed, place) = visit.change(|state, hear| {
        let Some(row) = state.rows.get_mut(&ticket.key) else { return (false, None) };
        let last = row.last();
        let mut heard = false;
        let place = row.renew(ticket, &mut |note| {
            heard = true;
            hear(note);
        });
        (heard || row.last() > last, place)
    });
    if changed {
        visit.record(&Record::Changed { ticket: Cow::Borrowed(ticket) });
    }
    match place {
        Some(place) if place.standing == Standing::Waiting => look_ahead(visit, ticket),
        place => place,
    }
}

fn leave(visit: &mut Visit<'_>, ticket: &Ticket, how: Leave) -> Left {
    let (changed, left) = visit.change(|state, hear| {
        let Some(row) = state.rows.get_mut(&ticket.key) else { return (false, Left::Absent) };
        let mut heard = false;
        let left = row.leave(ticket.id, how, &mut |note| {
            heard = true;
            hear(note);
        });
        (heard, left)
    });
    if changed {
        visit.record(&Record::Left { key: Cow::Borrowed(&ticket.key), id: ticket.id, how });
    }
    left
}
