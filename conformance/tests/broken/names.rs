//! Engines that confuse names, or report events and counters wrongly.

use std::time::Duration;

use tenure_conformance::pause;
use tenure_core::event::{Cursor, EventBatch, EventKind, Scope};
use tenure_core::layers::Layer;
use tenure_core::{
    CounterValue, Engine as _, Key, LeaveMode, LeaveOutcome, Memory, Note, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

use crate::Store;
use crate::twist::twist;

/// Folds several names into one.
pub(crate) struct Folds {
    pub(crate) store: Store,
    pub(crate) fold: fn(&str) -> String,
}

/// Only the first bytes of a name count.
pub(crate) fn cut_short(name: &str) -> String {
    let end = (0..=name.len().min(190)).rev().find(|at| name.is_char_boundary(*at));
    name[..end.unwrap_or(0)].to_owned()
}

/// Upper and lower case are the same.
pub(crate) fn case_blind(name: &str) -> String {
    name.to_lowercase()
}

/// A name ends at its first NUL.
pub(crate) fn ended_by_nul(name: &str) -> String {
    let name = name.split('\0').next().unwrap_or_default();
    if name.is_empty() { "nul".to_owned() } else { name.to_owned() }
}

/// Spaces around a name are removed.
pub(crate) fn trimmed(name: &str) -> String {
    let name = name.trim();
    if name.is_empty() { "space".to_owned() } else { name.to_owned() }
}

impl Folds {
    fn key(&self, key: &Key) -> Key {
        let folded = Key::new((self.fold)(key.as_str())).expect("the folded name is valid");
        self.store.state.names.lock().unwrap().insert(folded.clone(), key.clone());
        folded
    }

    fn ticket(&self, ticket: &Ticket) -> Ticket {
        Ticket { key: self.key(&ticket.key), ..ticket.clone() }
    }
}

impl Layer for Folds {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.store.memory
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.store.memory.join(&self.ticket(ticket), patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.store.memory.renew(&self.ticket(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.store.memory.leave(&self.ticket(ticket), how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.store.memory.watch(&self.ticket(ticket), seen).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let line = self.store.memory.line(&self.key(key)).await?;
        Ok(line
            .into_iter()
            .map(|(ticket, place)| (Ticket { key: key.clone(), ..ticket }, place))
            .collect())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let keys = self.store.memory.keys("").await?;
        let names = self.store.state.names.lock().unwrap();
        let mut keys: Vec<Key> = keys.iter().filter_map(|key| names.get(key).cloned()).collect();
        keys.retain(|key| key.as_str().starts_with(prefix));
        keys.sort_unstable();
        Ok(keys)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.store.memory.add(&self.key(key), by, window).await
    }
}

twist! {
    /// A prefix is a pattern.
    TakesPrefixesForPatterns {
        async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
            let literal = prefix.split(['*', '%', '_', '?', '[']).next().unwrap_or_default();
            self.0.memory.keys(literal).await
        }
    }
}

twist! {
    /// Names are listed without a ticket.
    ListsEmptyLines {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.state.names.lock().unwrap().insert(ticket.key.clone(), ticket.key.clone());
            self.0.memory.join(ticket, patience).await
        }

        async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
            let names = self.0.state.names.lock().unwrap().clone();
            let mut keys: Vec<Key> = names.into_keys().filter(|key| key.as_str().starts_with(prefix)).collect();
            keys.sort_unstable();
            Ok(keys)
        }
    }
}

twist! {
    /// Notes and owners are cut.
    CutsNotes {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let note: String = ticket.note.chars().take(200).collect();
            self.0.memory.join(&Ticket { note: Note::shortened(&note), ..ticket.clone() }, patience).await
        }
    }
}

/// A twist of the events of an observer.
macro_rules! reports {
    ($(#[$doc:meta])* $name:ident, |$news:ident, $after:ident| $change:block) => {
        twist! {
            $(#[$doc])*
            $name {
                async fn events(&self, scope: &Scope, $after: Option<Cursor>) -> Result<EventBatch> {
                    let mut $news = self.0.memory.events(scope, $after).await?;
                    $change
                    Ok($news)
                }
            }
        }
    };
}

reports! {
    /// An event beside others is lost.
    ReportsOnlyTheLast, |news, _after| {
        let skipped = news.events.len().saturating_sub(1);
        news.events.drain(..skipped);
    }
}

reports! {
    /// Events that come together are reversed.
    ReportsBackwards, |news, _after| { news.events.reverse(); }
}

reports! {
    /// An expiry is reported as a release.
    ReportsNoExpiry, |news, _after| {
        for event in &mut news.events {
            if event.kind == EventKind::Expired {
                event.kind = EventKind::Left;
            }
        }
    }
}

reports! {
    /// The last event is reported again.
    ReportsTwice, |news, after| {
        if after.is_some() && news.cursor.0 > 0 {
            news.cursor.0 -= 1;
        }
    }
}

reports! {
    /// Changes are not reported.
    ReportsNoChange, |news, _after| { news.events.retain(|event| event.kind != EventKind::Changed); }
}

twist! {
    /// All events are reported in every scope.
    ReportsEveryScope {
        async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
            let all = Scope::Prefix(String::new());
            let scope = if after.is_some() { &all } else { scope };
            self.0.memory.events(scope, after).await
        }
    }
}

twist! {
    /// It reads the counter, and then writes it: not in one step.
    CountsInTwoSteps {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            let before = self.0.memory.add(key, 0, window).await?;
            pause().await;
            let mut after = self.0.memory.add(key, by, window).await?;
            if window.is_none() {
                after.value = before.value + by;
            }
            Ok(after)
        }
    }
}

twist! {
    /// A refused count is added.
    CountsWhatItRefuses {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            let Some(window) = window else { return self.0.memory.add(key, by, None).await };
            let mut counter = self.0.memory.add(key, by, Some(Window { limit: None, ..window })).await?;
            counter.allowed = window.limit.is_none_or(|limit| counter.value <= limit);
            Ok(counter)
        }
    }
}

twist! {
    /// A window never ends.
    CountsForEver {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            let window = window.map(|window| Window { per: Duration::from_secs(1 << 20), ..window });
            let mut counter = self.0.memory.add(key, by, window).await?;
            let hour = Duration::from_secs(3600);
            counter.resets_in = counter.resets_in.map(|left| left.min(hour));
            Ok(counter)
        }
    }
}

twist! {
    /// Reading a counter opens its window.
    ReadingOpensAWindow {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            let Some(window) = window else { return self.0.memory.add(key, by, None).await };
            let began = self.0.since(key, window.per);
            let mut counter = self.0.memory.add(key, by, Some(window)).await?;
            counter.resets_in = Some(window.per.saturating_sub(began));
            Ok(counter)
        }
    }
}

twist! {
    /// A sequence and a windowed counter of one name are one.
    MixesCounts {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            if window.is_some() {
                assert!(self.0.memory.add(key, by, None).await?.allowed);
            }
            self.0.memory.add(key, by, window).await
        }
    }
}

twist! {
    /// A sequence starts at zero.
    CountsFromZero {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            let mut counter = self.0.memory.add(key, by, window).await?;
            counter.value -= u64::from(window.is_none() && counter.value > 0);
            Ok(counter)
        }
    }
}

twist! {
    /// A sequence expires with the ttl of a lock.
    ForgetsSequences {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            if window.is_some() {
                return self.0.memory.add(key, by, window).await;
            }
            let short = Window { per: crate::TTL, limit: None };
            let mut counter = self.0.memory.add(key, by, Some(short)).await?;
            counter.resets_in = None;
            Ok(counter)
        }
    }
}

twist! {
    /// A sequence that is used up continues.
    CountsOnAndOn {
        async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
            match self.0.memory.add(key, by, window).await {
                Err(_) => self.0.memory.add(key, 0, window).await,
                counted => counted,
            }
        }
    }
}
