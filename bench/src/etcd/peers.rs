//! The peers: the lock service that etcd has in its server, and the lock of its command line.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use tenure_etcd::wire_only::{self as calls, Wire};

use super::floor::{grant, wire};
use crate::contest::contender::{Contender, Held, Later};

const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";
/// Nobody here keeps its leases alive: they live longer than any row takes, on whatever machine.
const LEASE: Duration = Duration::from_secs(3600);

#[derive(Clone, PartialEq, Message)]
struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LockResponse {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct UnlockResponse {}

/// It waits in the server.
pub(crate) struct Service {
    wire: Arc<Wire>,
    /// The leases that nobody holds by. Two who held by one would hold at once: the service takes them for the same.
    leases: Arc<Mutex<Vec<i64>>>,
}

impl Service {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { wire: Arc::new(wire(url).await), leases: Arc::default() }
    }
}

impl Contender for Service {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let free = self.leases.lock().unwrap().pop();
            let lease = match free {
                Some(lease) => lease,
                None => grant(&self.wire, LEASE).await,
            };
            let request = LockRequest { name: format!("service/{key}").into(), lease };
            let answer: Result<LockResponse, _> = calls::unary(&self.wire, LOCK, request).await;
            let key = answer.map_err(|status| status.message().to_owned())?.key;
            let (wire, leases) = (self.wire.clone(), self.leases.clone());
            let release = Box::pin(async move {
                let _: UnlockResponse =
                    calls::unary(&wire, UNLOCK, UnlockRequest { key }).await.unwrap();
                leases.lock().unwrap().push(lease);
            });
            Ok(Held { token: None, release })
        })
    }
}

/// A process for each lock, which holds until it is told to end.
pub(crate) struct Etcdctl {
    endpoints: String,
}

impl Etcdctl {
    pub(crate) fn new(url: &str) -> Self {
        Self { endpoints: url.trim_start_matches("etcd://").to_owned() }
    }
}

impl Contender for Etcdctl {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let (endpoints, key) = (self.endpoints.clone(), format!("ctl/{key}"));
            let held = tokio::task::spawn_blocking(move || hold(&endpoints, &key)).await.unwrap();
            let (process, output) = held?;
            let release = Box::pin(async move {
                tokio::task::spawn_blocking(move || let_go(process, output)).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}

fn hold(endpoints: &str, key: &str) -> Result<(Child, BufReader<ChildStdout>), String> {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", endpoints, "lock", key]);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut process = started.map_err(|error| format!("etcdctl does not start: {error}"))?;
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut name = String::new();
    output.read_line(&mut name).map_err(|error| error.to_string())?;
    if name.is_empty() { Err("etcdctl ended early".into()) } else { Ok((process, output)) }
}

fn let_go(mut process: Child, _output: BufReader<ChildStdout>) {
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    process.wait().unwrap();
}
