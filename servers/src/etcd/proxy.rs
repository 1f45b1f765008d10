//! A process of `etcd grpc-proxy`, which combines the watches and leases of its clients.

use std::process::Command;

use super::{Cluster, ETCD};
use crate::folder::Folder;
use crate::port::Port;
use crate::process::Process;
use crate::{Result, Store};

/// A proxy for all members of a cluster. Dropping it kills the process.
#[derive(Debug)]
pub struct GrpcProxy {
    process: Process,
    client: Port,
    _folder: Folder,
}

impl GrpcProxy {
    /// Starts a proxy, and waits until the cluster answers through it.
    pub fn before(cluster: &Cluster) -> Result<Self> {
        let program = ETCD.found().ok_or_else(|| ETCD.absent().unwrap_or_default())?;
        let (client, metrics, folder) = (Port::claim()?, Port::claim()?, Folder::quick("proxy")?);
        let address = format!("127.0.0.1:{}", client.number());
        let mut command = Command::new(program);
        command.args(["grpc-proxy", "start", "--listen-addr", &address]);
        command.args(["--advertise-client-url", &address, "--endpoints", &cluster.endpoints()]);
        command.args(["--metrics-addr", &format!("http://127.0.0.1:{}", metrics.number())]);
        command.arg("--data-dir").arg(folder.path().join("data"));
        let name = format!("etcd grpc-proxy at {address}");
        let process = Process::new(name, command, folder.path().join("log"))?;
        process.start(|| match super::member::get(metrics.number(), "/health") {
            Some(health) if health.contains(r#""health":"true""#) => Ok(()),
            _ => Err("It is not healthy yet.".into()),
        })?;
        Ok(Self { process, client, _folder: folder })
    }

    /// Freezes the process.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }
}

impl Store for GrpcProxy {
    fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.client.number())
    }
}
