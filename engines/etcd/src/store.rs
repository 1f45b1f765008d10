//! The contract of a queue, filled in by etcd.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::select_all;
use tenure_core::{Error, Key, Profile, Result};
use tenure_queue::{
    Enter, Entered, Followed, Front, Granted, LineId, Name, Node, Register, Remove, Removed,
    SessionId, Store, Watching, Written,
};

use crate::client::Etcd;
use crate::keys::revision;
use crate::wire::{
    LeaseRevokeRequest, LeaseRevokeResponse, PutRequest, PutResponse, RangeResponse,
};
use crate::{ask, entry, journal, trouble};

const PUT: &str = "/etcdserverpb.KV/Put";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";

impl Store for Etcd {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn silence(&self) -> Error {
        trouble::silence(self.settings())
    }

    async fn open(&self, ttl: Duration) -> Result<Granted> {
        let granted = self.grant(ttl.max(self.settings().session_ttl)).await?;
        let session = granted.id.cast_unsigned();
        let put = ask::put(self.keys.session(session), Vec::new(), granted.id);
        let _answer: PutResponse = self.ask::<PutRequest, _>(PUT, put).await?;
        let ttl = Duration::from_secs(granted.ttl.unsigned_abs());
        Ok(Granted { session, ttl, every: ttl / 3 })
    }

    async fn keep(&self, session: SessionId) -> Result<Option<Duration>> {
        let connection = self.link.connection().await?;
        let answer = connection.beats.beat(session.cast_signed()).await;
        let ttl = answer.map_err(|status| self.failed(&connection, &status))?;
        connection.heard.fetch_add(1, Ordering::Relaxed);
        Ok((ttl > 0).then(|| Duration::from_secs(ttl.unsigned_abs())))
    }

    async fn end(&self, session: SessionId) -> Result<()> {
        let request = LeaseRevokeRequest { id: session.cast_signed() };
        match self.ask::<_, LeaseRevokeResponse>(REVOKE, request).await {
            Err(error) if error.loss().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    async fn enter(&self, enter: &Enter<'_>) -> Result<Entered> {
        let answer = self.txn(entry::enter(&self.keys, enter)).await?;
        entry::entered(&self.keys, enter, answer)
    }

    async fn front(&self, line: &LineId, most: usize, _: Option<&Name>) -> Result<Front> {
        let (range, at) = self.range(ask::first(self.keys.line(line), most)).await?;
        Ok(entry::front(&self.keys, &range, at))
    }

    async fn ahead(&self, node: &Node, most: usize) -> Result<Vec<Node>> {
        let (range, _) = self.range(entry::ahead(&self.keys, node, most)).await?;
        Ok(range.kvs.iter().filter_map(|kept| self.keys.node(kept)).collect())
    }

    async fn look(&self, names: &[&Name]) -> Result<(Vec<Option<Node>>, u64)> {
        let keys = names.iter().map(|name| self.keys.ticket(name)).collect();
        let answer = self.txn(entry::look(keys)).await?;
        let at = answer.header.map_or(0, |header| revision(header.revision));
        let node = |range: RangeResponse| range.kvs.first().and_then(|kept| self.keys.node(kept));
        Ok((ask::ranges(answer).map(node).collect(), at))
    }

    async fn change(&self, node: &Node, body: &[u8]) -> Result<Option<Node>> {
        let key = self.keys.ticket(&node.name);
        let answer = self.txn(entry::change(key, body.to_vec(), node.version)).await?;
        let at = answer.header.map_or(0, |header| revision(header.revision));
        if !answer.succeeded {
            return Ok(None);
        }
        Ok(Node::read(node.name.clone(), node.session, node.created, at, body))
    }

    async fn remove(&self, remove: &Remove<'_>) -> Result<Removed> {
        let answer = self.txn(entry::remove(&self.keys, remove)).await?;
        Ok(entry::removed(&self.keys, answer))
    }

    async fn forestall(&self, name: &Name, _session: SessionId) -> Result<Option<Node>> {
        let lease = self.grave().await?;
        let answer = self.txn(entry::forestall(&self.keys, name, lease)).await?;
        let own = ask::ranges(answer).next().and_then(|range| range.kvs.into_iter().next());
        Ok(own.and_then(|kept| self.keys.node(&kept)))
    }

    async fn watch(&self, nodes: &[Node]) -> Result<Watching> {
        let connection = self.link.connection().await?;
        let (mut at, mut all) = (0, Vec::with_capacity(nodes.len()));
        for node in nodes {
            let watch = connection.watches.key(self.keys.ticket(&node.name), node.version);
            let mut news = watch.await.map_err(|status| self.failed(&connection, &status))?;
            at = at.max(revision(news.at));
            all.push(Box::pin(async move { drop(news.next().await) }));
        }
        let changed = Box::pin(async move { drop(select_all(all).await) });
        Ok(Watching { at, changed })
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let mut keys = BTreeSet::new();
        let each = |node: Node| {
            if node.ticket.key.as_str().starts_with(prefix) {
                keys.insert(node.ticket.key);
            }
        };
        self.list(self.keys.tickets(), each).await?;
        Ok(keys.into_iter().collect())
    }

    async fn read(&self, register: &Register) -> Result<Written> {
        let (range, _) = self.range(ask::get(self.keys.register(register))).await?;
        Ok(entry::written(range))
    }

    async fn write(
        &self,
        register: &Register,
        value: u64,
        version: u64,
    ) -> Result<(Written, bool)> {
        let key = self.keys.register(register);
        let answer = self.txn(entry::write(key, value.to_string().into_bytes(), version)).await?;
        let at = answer.header.map_or(0, |header| revision(header.revision));
        if answer.succeeded {
            return Ok((Written { value, version: at }, true));
        }
        Ok((entry::written(ask::ranges(answer).next().unwrap_or_default()), false))
    }

    async fn follow(&self) -> Result<Option<Followed>> {
        journal::follow(self).await.map(Some)
    }

    async fn now(&self) -> Result<u64> {
        self.now_at().await
    }

    async fn close(&self) {}
}
