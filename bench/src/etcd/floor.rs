//! The floor: the fewest requests of a lock and of a hand-over, by the engine's own client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_etcd::wire_only::{
    self as calls, Answers, AuthorizedChannel, Compare, DeleteRangeRequest, LeaseGrantRequest,
    LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, MemberChannel, PutRequest,
    PutResponse, RequestOp, Requests, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest,
    WatchResponse, compare, reach, request_op, watch_request,
};
use tenure_kit::url::Address;
use tokio::sync::Mutex;

use crate::contest::contender::{Contender, FAILS, Held, Later, TTL};

const TXN: &str = "/etcdserverpb.KV/Txn";
const PUT: &str = "/etcdserverpb.KV/Put";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const KEEP: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// A connection of the engine's client to the first member of a URL.
pub(super) async fn wire(url: &str) -> AuthorizedChannel {
    let (name, port) = member(url).split_once(':').unwrap();
    let address = Address { name: name.to_owned(), port: port.parse().unwrap() };
    let stream = reach(&address).await.unwrap();
    let channel = MemberChannel::open(stream, &address, None, Duration::from_secs(10)).await;
    AuthorizedChannel { channel: channel.unwrap(), token: None }
}

/// The first member of a URL.
pub(super) fn member(url: &str) -> &str {
    url.trim_start_matches("etcd://").split(',').next().unwrap()
}

pub(super) async fn grant(wire: &AuthorizedChannel, ttl: Duration) -> i64 {
    let ttl = i64::try_from(ttl.as_secs()).unwrap();
    let request = LeaseGrantRequest { ttl };
    let granted: LeaseGrantResponse = calls::unary(wire, GRANT, request).await.unwrap();
    granted.id
}

/// A lock without line, loss or wait: a key under a lease, put if it is absent, and deleted.
pub(crate) struct Floor {
    wire: Arc<AuthorizedChannel>,
    lease: i64,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        let wire = Arc::new(wire(url).await);
        let lease = grant(&wire, TTL).await;
        tokio::spawn(keep(wire.clone(), lease));
        Self { wire, lease }
    }
}

/// Keeps a lease alive.
async fn keep(wire: Arc<AuthorizedChannel>, lease: i64) {
    let opened = calls::stream(&wire, KEEP).await.unwrap();
    let (mut beats, mut answers): (Requests<_>, Answers<LeaseKeepAliveResponse>) = opened;
    loop {
        beats.say(&LeaseKeepAliveRequest { id: lease }).await.unwrap();
        answers.message().await.unwrap().unwrap();
        tokio::time::sleep(TTL / 3).await;
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let name = format!("floor/{key}").into_bytes();
            if !put(&self.wire, self.lease, name.clone()).await {
                return Err(FAILS.into());
            }
            let wire = self.wire.clone();
            Ok(Held { token: None, release: Box::pin(async move { delete(&wire, name).await }) })
        })
    }
}

/// Puts a key under a lease. Returns `false` if the key exists.
async fn put(wire: &AuthorizedChannel, lease: i64, name: Vec<u8>) -> bool {
    let is_free = Compare {
        result: compare::CompareResult::Equal as i32,
        target: compare::CompareTarget::Create as i32,
        key: name.clone(),
        target_union: Some(compare::TargetUnion::CreateRevision(0)),
        ..Default::default()
    };
    let put = PutRequest { key: name, lease, ..Default::default() };
    let put = request_op::RequestKind::RequestPut(put);
    let txn = TxnRequest {
        compare: vec![is_free],
        success: vec![RequestOp { request_kind: Some(put) }],
        failure: Vec::new(),
    };
    let answer: TxnResponse = calls::unary(wire, TXN, txn).await.unwrap();
    answer.succeeded
}

async fn delete(wire: &AuthorizedChannel, name: Vec<u8>) {
    let delete = DeleteRangeRequest { key: name, ..Default::default() };
    let delete = request_op::RequestKind::RequestDeleteRange(delete);
    let success = vec![RequestOp { request_kind: Some(delete) }];
    let txn = TxnRequest { success, ..Default::default() };
    let _: TxnResponse = calls::unary(wire, TXN, txn).await.unwrap();
}

/// The fewest requests of turns on one key: each task puts a key of its own, and deletes it before
/// the next enters. The process orders the tasks without the server.
pub(crate) struct Baton {
    floor: Floor,
    inside: Arc<Mutex<()>>,
    attempts: AtomicU64,
}

impl Baton {
    pub(crate) async fn connect(url: &str) -> Self {
        let (inside, attempts) = (Arc::default(), AtomicU64::default());
        Self { floor: Floor::connect(url).await, inside, attempts }
    }
}

impl Contender for Baton {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let name = format!("baton/{key}/{attempt}").into_bytes();
            assert!(put(&self.floor.wire, self.floor.lease, name.clone()).await, "the key is new");
            let inside = self.inside.clone().lock_owned().await;
            let wire = self.floor.wire.clone();
            let release = Box::pin(async move {
                delete(&wire, name).await;
                drop(inside);
            });
            Ok(Held { token: None, release })
        })
    }
}

/// A put that two processes make for each other: the side whose watch reports it holds.
pub(crate) struct Hop {
    wire: Arc<AuthorizedChannel>,
    inbox: Mutex<Answers<WatchResponse>>,
    /// Keeps the stream open.
    _watch: Requests<WatchRequest>,
    other: &'static str,
    /// Whether this side holds at the start.
    first: AtomicBool,
}

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize) -> Self {
        let [own, other] = if side == 0 { ["hop/0", "hop/1"] } else { ["hop/1", "hop/0"] };
        let wire = Arc::new(wire(url).await);
        let create = WatchCreateRequest { key: own.into(), ..Default::default() };
        let create = watch_request::RequestUnion::CreateRequest(create);
        let (mut watch, mut inbox) = calls::stream(&wire, WATCH).await.unwrap();
        watch.say(&WatchRequest { request_union: Some(create) }).await.unwrap();
        assert!(inbox.message().await.unwrap().is_some_and(|answer: WatchResponse| answer.created));
        let first = AtomicBool::new(side == 0);
        Self { wire, inbox: Mutex::new(inbox), _watch: watch, other, first }
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            if !self.first.swap(false, Ordering::Relaxed) {
                let mut inbox = self.inbox.lock().await;
                while inbox.message().await.unwrap().unwrap().events.is_empty() {}
            }
            let (wire, other) = (self.wire.clone(), self.other);
            let release = Box::pin(async move {
                let put = PutRequest { key: other.into(), ..Default::default() };
                let _: PutResponse = calls::unary(&wire, PUT, put).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}
