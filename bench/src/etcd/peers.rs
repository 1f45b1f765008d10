//! The peers: etcd's lock service, and the lock of its command line.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use rustix::process::{Pid, Signal, kill_process};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::floor::{grant, member, wire};
use crate::contest::contender::{Contender, Held, Later};

const LOCK: &str = "/v3lockpb.Lock/Lock";
const UNLOCK: &str = "/v3lockpb.Lock/Unlock";
/// No client renews these leases, so they live longer than any row takes.
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

/// The lock service, whose calls wait in the server. The client is tonic, as in the crates for
/// etcd.
pub(crate) struct Service {
    channel: Channel,
    url: String,
    /// The free leases. Two holders with one lease would hold at once: the service takes them for
    /// one.
    leases: Arc<Mutex<Vec<i64>>>,
}

impl Service {
    pub(crate) async fn connect(url: &str) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{}", member(url))).unwrap();
        let channel = endpoint.tcp_nodelay(true).connect().await.unwrap();
        Self { channel, url: url.to_owned(), leases: Arc::default() }
    }
}

async fn ask<Q, A>(channel: &Channel, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let (request, path) = (Request::new(request), PathAndQuery::from_static(path));
    Ok(grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?.into_inner())
}

impl Contender for Service {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let free = self.leases.lock().unwrap().pop();
            let lease = match free {
                Some(lease) => lease,
                None => grant(&wire(&self.url).await, LEASE).await,
            };
            let request = LockRequest { name: format!("service/{key}").into(), lease };
            let answer: Result<LockResponse, _> = ask(&self.channel, LOCK, request).await;
            let key = answer.map_err(|status| status.message().to_owned())?.key;
            let (channel, leases) = (self.channel.clone(), self.leases.clone());
            let release = Box::pin(async move {
                let _: UnlockResponse = ask(&channel, UNLOCK, UnlockRequest { key }).await.unwrap();
                leases.lock().unwrap().push(lease);
            });
            Ok(Held { token: None, release })
        })
    }
}

/// A process for each lock, which holds until SIGINT.
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
    let mut process = started.map_err(|error| format!("cannot start etcdctl: {error}"))?;
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut name = String::new();
    output.read_line(&mut name).map_err(|error| error.to_string())?;
    if name.is_empty() {
        Err("etcdctl exited without a lock".into())
    } else {
        Ok((process, output))
    }
}

fn let_go(mut process: Child, _output: BufReader<ChildStdout>) {
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    process.wait().unwrap();
}
