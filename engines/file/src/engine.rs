//! The engine: ten verbs, each of them one visit to a book.

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::toolbox::incomplete;
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

use crate::facts;
use crate::log::row::LogRow;
use crate::log::shelf::{BOOKS, book_of};
use crate::os::flock::Patience;
use crate::store::FileStore;
use crate::trouble::{is_removed, without_holder};
use crate::verbs::{counters, line, news, watch};
use crate::visits::visit::Visit;

impl Engine for FileStore {
    fn guarantees(&self) -> Guarantees {
        let context = &self.store.context;
        facts::profile(context.root.path(), context.peers.unseen())
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let store = self.store.clone();
        let join = move |visit: &mut Visit<'_>, ticket: &Ticket| {
            line::join(visit, ticket, patience, || store.listen())
        };
        let joined = self.store.at(book_of(&ticket.key), ticket, join).await;
        joined.map_err(|error| without_holder(error, self.store.context.root.path()))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.store.context.check_session()?;
        let renew = |visit: &mut Visit<'_>, ticket: &Ticket| Ok(line::renew(visit, ticket));
        self.store.at(book_of(&ticket.key), ticket, renew).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let leave =
            move |visit: &mut Visit<'_>, ticket: &Ticket| Ok(line::leave(visit, ticket, how));
        match self.store.at(book_of(&ticket.key), ticket, leave).await {
            Err(error) if is_removed(&error) => Ok(LeaveOutcome::Absent),
            left => left,
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        match watch::wait(&self.store, ticket, seen).await {
            Err(error) if is_removed(&error) => Ok(Wake::Look),
            wake => wake,
        }
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let news = news::read(&self.store, scope, after).await;
        news.map_err(|error| without_holder(error, self.store.context.root.path()))
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let list = |visit: &mut Visit<'_>, key: &Key| {
            // Its line may have been lost with a damaged file: it must not look free.
            visit.refuse_the_damaged()?;
            line::bury_dead(visit, |at| at == key);
            Ok(visit.state().rows.get(key).map(LogRow::list).unwrap_or_default())
        };
        let line = self.store.at(book_of(key), key, list).await;
        line.map_err(|error| without_holder(error, self.store.context.root.path()))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let prefix = prefix.to_owned();
        let list = |visit: &mut Visit<'_>, prefix: &String| {
            let covers = |key: &Key| key.as_str().starts_with(prefix.as_str());
            // A damaged book has no line until it is whole again.
            let damage = visit.refuse_the_damaged().err();
            line::bury_dead(visit, covers);
            let rows = visit.state().rows.iter();
            let used = rows.filter(|(key, row)| !row.is_empty() && covers(key));
            Ok((used.map(|(key, _)| key.clone()).collect::<Vec<_>>(), damage))
        };
        let (mut keys, mut damage) = (Vec::new(), None);
        let patience = Some(Patience::begin());
        for index in 0..BOOKS {
            let listed = self.store.at_until(index, patience, &prefix, list).await;
            let (more, damaged) =
                listed.map_err(|error| without_holder(error, self.store.context.root.path()))?;
            keys.extend(more);
            damage = damage.or(damaged);
        }
        keys.sort_unstable();
        match damage {
            Some(error) => Err(incomplete(error, keys)),
            None => Ok(keys),
        }
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let count = counters::add(&self.store, key, by, window).await;
        count.map_err(|error| without_holder(error, self.store.context.root.path()))
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let swapped = counters::swap(&self.store, key, seen, value).await;
        swapped.map_err(|error| without_holder(error, self.store.context.root.path()))
    }

    async fn close(&self) {
        self.store.close();
    }
}
