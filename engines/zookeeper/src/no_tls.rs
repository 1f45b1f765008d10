//! TLS to the servers without the feature `tls`. A URL that asks for it is refused, so that this
//! code is never reached otherwise.

use std::io;

use tenure_core::{Error, Result};
use tenure_kit::tls::Files;
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use zookeeper_client::{Client, Connector, Error as Said};

fn left_out() -> Error {
    Error::invalid(
        "TLS to ZooKeeper is not a part of this program: build it with the feature `zookeeper-tls`, which is `tls` in the crate tenure-zookeeper",
    )
}

pub(crate) fn check(_servers: &[Address]) -> Result<()> {
    Err(left_out())
}

#[expect(clippy::unused_async, reason = "with TLS it waits")]
pub(crate) async fn connect(
    _connector: Connector,
    _files: &Files,
    _ensemble: &str,
) -> Result<Result<Client, Said>> {
    Err(left_out())
}

#[expect(clippy::unused_async, reason = "with TLS it waits")]
pub(crate) async fn secured(
    _stream: TcpStream,
    _files: &Files,
    _server: &Address,
) -> io::Result<TcpStream> {
    Err(io::Error::other(left_out()))
}

#[allow(clippy::unnecessary_wraps, reason = "the signature is that of the module with TLS")]
pub(crate) fn refuse(_server: &Address, _error: &io::Error) -> Result<()> {
    Ok(())
}
