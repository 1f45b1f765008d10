//! An HTTP/1.1 server whose connections, times and sizes are limited.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::{Future, pending};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use crate::locks::WAITS_MAX;
use crate::mounts::Mounts;
use crate::patient::PatientStream;
use crate::stream::STREAMS_MAX;

/// Maximum connections for each store: those of all streams and of all requests that wait for a
/// lock, and 128 for other requests. More clients wait to be accepted.
pub const CONNECTIONS_MAX: u32 = 1_384;
const _: () = assert!(STREAMS_MAX + WAITS_MAX < CONNECTIONS_MAX as usize);
/// One address may have this part of the connections: 1 of 4. This machine and named proxies may
/// have all.
const PEER_SHARE: u32 = 4;
/// Time limit of a client to send the head of its next request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a request's head, in bytes. Longer ones are refused.
const HEAD_BYTES_MAX: usize = 16_384;
/// Maximum headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after a connection could not be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of the requests that are running when the server ends.
const GOODBYE_MAX: Duration = Duration::from_secs(5);

/// The address of a client, in the extensions of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    text: Arc<str>,
    ip: Option<IpAddr>,
}

impl ClientAddress {
    /// A client at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { text: address.to_string().into(), ip: Some(address.ip().to_canonical()) }
    }

    /// A user of this machine, by a Unix socket. The records of breaks, locks and wrong tokens have
    /// this name. The header of [`trust_header`](crate::Serve::trust_header) is believed.
    pub fn local(name: impl Into<Arc<str>>) -> Self {
        Self { text: name.into(), ip: None }
    }

    /// The address with its port, or the name of a user of this machine.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The IP address. `None` for a user of this machine.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.ip
    }
}

/// A server for one [`Serve`](crate::Serve) or for [`Mounts`], without TLS: put a proxy in front of
/// it where others can read the network.
///
/// A client has 10 s for the head of a request and 10 s for its body, and is disconnected when it
/// is behind and accepts less than 1 MiB in 30 s. A head has at most 16 KiB, and a body 4 KiB.
/// There are at most [`CONNECTIONS_MAX`] connections for each store, of which one address may have
/// a quarter. This machine and the [proxies](crate::Serve::proxies) may have all.
#[derive(Debug)]
pub struct HttpServer {
    service: Mounts,
}

/// The connections of each address.
#[derive(Clone, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// A connection among those of its address. Drop takes it out.
struct PeerPlace(Option<(Peers, IpAddr)>);

impl Peers {
    /// Counts a connection. Returns `None` if its address has `most` of them.
    fn enter(&self, ip: Option<IpAddr>, most: u32) -> Option<PeerPlace> {
        let Some(ip) = ip.map(network) else { return Some(PeerPlace(None)) };
        let mut counts = self.counts();
        let count = counts.entry(ip).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(PeerPlace(Some((self.clone(), ip))))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the network that one client has: an address of IPv4, or 64 bits of IPv6.
fn network(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let Some((peers, ip)) = &self.0 else { return };
        if let Entry::Occupied(mut count) = peers.counts().entry(*ip) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// A socket that accepts clients.
trait Doorway {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, ClientAddress)>> + Send;
}

impl HttpServer {
    /// A server for this service, or for the services of several stores.
    pub fn new(service: impl Into<Mounts>) -> Self {
        Self { service: service.into() }
    }

    /// Serves the clients of a TCP socket until `end` is ready. Then ends all streams, and waits up
    /// to 5 s for running requests.
    pub async fn serve_tcp(self, listener: TcpListener, end: impl Future<Output = ()>) {
        self.serve(listener, end).await;
    }

    /// As [`serve_tcp`](HttpServer::serve_tcp), for a Unix socket.
    #[cfg(unix)]
    pub async fn serve_unix(self, listener: UnixListener, end: impl Future<Output = ()>) {
        self.serve(listener, end).await;
    }

    async fn serve(self, listener: impl Doorway, end: impl Future<Output = ()>) {
        let most = CONNECTIONS_MAX.saturating_mul(self.service.count());
        let room = Arc::new(Semaphore::new(most as usize));
        let peers = Peers::default();
        let ending = watch::Sender::new(false);
        let mut end = pin!(end);
        loop {
            let next = async {
                // The semaphore is never closed.
                let Ok(permit) = room.clone().acquire_owned().await else { return pending().await };
                (listener.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                next = next => next,
                () = &mut end => break,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let ip = peer.ip().filter(|ip| !self.service.is_proxy(*ip));
                    let Some(place) = peers.enter(ip, most / PEER_SHARE) else {
                        tracing::debug!(
                            peer = peer.as_str(),
                            "too many connections of one address"
                        );
                        continue;
                    };
                    let permit = (permit, place);
                    let service = self.service.clone();
                    tokio::spawn(serve_client(stream, peer, service, ending.subscribe(), permit));
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        ending.send_replace(true);
        self.service.end_streams();
        // The runtime drops the requests that are still running then.
        let _ = timeout(GOODBYE_MAX, room.acquire_many(most)).await;
    }
}

/// Serves one connection to its end.
async fn serve_client<S>(
    stream: S,
    peer: ClientAddress,
    service: Mounts,
    mut ending: watch::Receiver<bool>,
    permit: (OwnedSemaphorePermit, PeerPlace),
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        service.clone().call(request)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let stream = TokioIo::new(PatientStream::new(stream));
    let mut connection = pin!(http.serve_connection(stream, service));
    let server_ends = async {
        // An error means that the server is gone.
        let _ = ending.wait_for(|ending| *ending).await;
    };
    let served = tokio::select! {
        served = &mut connection => Some(served),
        () = server_ends => None,
    };
    let served = if let Some(served) = served {
        served
    } else {
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
    drop(permit);
}

impl Doorway for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<(Self::Stream, ClientAddress)> {
        let (stream, address): (_, SocketAddr) = Self::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, ClientAddress::new(address)))
    }
}

#[cfg(unix)]
impl Doorway for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<(Self::Stream, ClientAddress)> {
        let (stream, _) = Self::accept(self).await?;
        let user = stream.peer_cred()?.uid();
        Ok((stream, ClientAddress::local(format!("uid {user}"))))
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Locks, Memory};
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::yield_now;

    use super::*;
    use crate::service::serve;

    /// As many clients as the server accepts. It has their ends of the connections.
    #[derive(Clone, Default)]
    struct Crowd(Arc<Mutex<Vec<DuplexStream>>>);

    impl Crowd {
        fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    impl Doorway for Crowd {
        type Stream = DuplexStream;

        async fn accept(&self) -> io::Result<(DuplexStream, ClientAddress)> {
            let (client, server) = duplex(64);
            self.0.lock().unwrap().push(client);
            Ok((server, ClientAddress::local("a test")))
        }
    }

    #[test]
    fn one_address_has_no_more_connections_than_its_part() {
        let peers = Peers::default();
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        let enter = |ip| peers.enter(ip, 2);
        let first = enter(one);
        let _second = enter(one);
        assert!(first.is_some() && enter(one).is_none() && enter(other).is_some());
        drop(first);
        assert!(enter(one).is_some());
        let of_one_network = ["2001:db8::1", "2001:db8::2", "2001:db8::3"];
        let [a, b, c] = of_one_network.map(|ip| enter(Some(ip.parse().unwrap())));
        assert!(a.is_some() && b.is_some() && c.is_none());
        drop((a, b));
        assert_eq!(peers.counts().len(), 1, "an address without connections is forgotten");
        let many: Vec<_> = (0..9).map(|_| enter(None)).collect();
        assert!(many.iter().all(Option::is_some));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_connections_are_accepted_than_the_limit() {
        let crowd = Crowd::default();
        let server = HttpServer::new(serve(&Locks::new(Memory::new())));
        let serving = tokio::spawn(server.serve(crowd.clone(), pending()));
        while crowd.len() < CONNECTIONS_MAX as usize {
            yield_now().await;
        }
        for _ in 0..1_000 {
            yield_now().await;
        }
        assert_eq!(crowd.len(), CONNECTIONS_MAX as usize);
        // The next client is accepted when a connection ends.
        let first = crowd.0.lock().unwrap().remove(0);
        drop(first);
        while crowd.len() < CONNECTIONS_MAX as usize {
            yield_now().await;
        }
        serving.abort();
    }
}
