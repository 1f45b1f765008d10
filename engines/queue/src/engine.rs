//! The nine verbs.

use futures_util::future::join_all;
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Error, Key, Leave, Left, Liveness, Patience, Place, Profile, Result, Standing, Tally,
    Ticket, Wake, Window, served,
};

use crate::contract::Store;
use crate::node::LineId;
use crate::queue::Queue;

impl<S: Store> Engine for Queue<S> {
    fn profile(&self) -> Profile {
        let mut profile = self.parts.store.profile();
        profile.liveness = Liveness::Session;
        profile.fair = true;
        profile.push = true;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        self.parts.in_time(self.join_line(ticket, patience)).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.parts.in_time(self.renew_in_line(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        match how {
            Leave::Now => self.parts.in_time(self.leave_now(ticket)).await,
            Leave::Soon => self.parts.in_time(self.leave_soon(ticket)).await,
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        self.wake(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        match self.onlooker.events(&self.parts, scope, after).await? {
            Some(news) => Ok(news),
            None => self.sampler.events(self, &*self.parts.host, scope, after).await,
        }
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let front = self.parts.in_time(self.whole_line(&LineId::of(key))).await?;
        let lives = self.parts.in_time(self.lives(&front)).await.unwrap_or_default();
        let (mut ahead, mut tickets) = (0, Vec::with_capacity(front.nodes.len()));
        for node in front.nodes {
            let holds = served(ahead, node.ticket.share);
            let standing = if holds { Standing::Holding } else { Standing::Waiting };
            let life = lives.get(&node.session).copied();
            let (number, leaving, take) = (node.number(), node.told, node.take());
            tickets
                .push((node.ticket, Place { number, standing, ahead, life, look: None, leaving }));
            ahead += take;
        }
        Ok(tickets)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.parts.in_time(self.parts.store.keys(prefix)).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        if window.is_some() {
            return Err(Error::unsupported(format!(
                "{} keeps no counts with a window, because it has no clock to ask: use a sequence, or another store",
                self.parts.store.profile().name
            )));
        }
        self.parts.in_time(self.next(key, by)).await
    }

    async fn close(&self) {
        let store = &self.parts.store;
        let open = self.sessions.close();
        // Whoever opens one just now ends it.
        let opened = async { Ok(self.sessions.turn().await) };
        let _late = self.parts.in_time(opened).await;
        let ended = open.iter().map(|session| {
            session.finish();
            self.parts.in_time(store.end(session.id))
        });
        // A session that cannot be ended ends by itself.
        let _ended = join_all(ended).await;
        self.onlooker.stop();
        store.close().await;
    }
}
