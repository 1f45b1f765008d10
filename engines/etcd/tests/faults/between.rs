//! A proxy before a member that changes the member's answers, message by message. It can hold back
//! a request, which arrives after its client has given it up. It can hold back an answer. It can
//! deliver a request twice, like a proxy that resends an unanswered request.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{Stream, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tenure_core::sync::Mutex;
use tenure_servers::etcd::Cluster;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// These methods are streams: their requests do not end.
const STREAMS: [&str; 2] = ["Watch", "LeaseKeepAlive"];

/// Returns the messages that replace a message. The streams of a method are counted from 1.
type Lie = Arc<dyn Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync>;

/// A proxy between clients and a member. It ends when it is dropped.
pub(super) struct Between {
    port: u16,
    said: Arc<Said>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Said {
    lies: Mutex<HashMap<String, Lie>>,
    streams: Mutex<HashMap<String, u64>>,
    /// The proxy refuses requests of these methods.
    forbidden: Mutex<HashSet<String>>,
    /// The treatment of the next request of this method.
    holds: Mutex<Option<(String, Hold)>>,
    repeats: AtomicBool,
    /// The request that is held back.
    held: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
    held_now: Notify,
}

/// The message that the proxy holds back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// The request.
    Request,
    /// The answer to it.
    Answer,
    /// A copy of the request.
    Copy,
    /// Nothing: the request is delivered twice, and the second answer is passed on.
    Nothing,
}

/// A request, or an answer, that was held back until it is let go.
pub(super) struct Held(oneshot::Sender<oneshot::Sender<()>>);

impl Held {
    /// Delivers the message, and waits until it was answered.
    pub(super) async fn let_go(self) {
        let (answered, is_answered) = oneshot::channel();
        self.0.send(answered).expect("it waits");
        is_answered.await.expect("it is answered");
    }
}

impl Between {
    /// Stands before the first member.
    pub(super) async fn of(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let member = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.members()[0].port()));
        let said = Arc::new(Said::default());
        let accepting = tokio::spawn(accept(listener, member, said.clone()));
        Self { port, said, accepting }
    }

    pub(super) fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }

    /// Replaces each answer to this method by the messages of `lie` from now on.
    pub(super) fn lie(
        &self,
        method: &str,
        lie: impl Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) {
        lock(&self.said.lies).insert(method.to_owned(), Arc::new(lie));
    }

    /// Refuses all requests of this method from now on.
    pub(super) fn forbid(&self, method: &str) {
        lock(&self.said.forbidden).insert(method.to_owned());
    }

    /// Holds back the next request of this method.
    pub(super) fn hold_next(&self, method: &str) {
        self.hold(method, Hold::Request);
    }

    /// Holds back the answer to the next request of this method.
    pub(super) fn hold_next_answer(&self, method: &str) {
        self.hold(method, Hold::Answer);
    }

    /// Delivers the next request of this method at once, and a second time when it is let go.
    pub(super) fn deliver_next_twice(&self, method: &str) {
        self.hold(method, Hold::Copy);
    }

    /// Delivers each request twice from now on, except those of streams. Passes on the second
    /// answer.
    pub(super) fn repeat(&self) {
        self.said.repeats.store(true, Ordering::SeqCst);
    }

    fn hold(&self, method: &str, what: Hold) {
        *lock(&self.said.holds) = Some((method.to_owned(), what));
    }

    /// Waits until a message is held back, and returns it.
    pub(super) async fn held(&self) -> Held {
        loop {
            if let Some(held) = lock(&self.said.held).take() {
                return Held(held);
            }
            self.said.held_now.notified().await;
        }
    }

    /// Changes no more answers from now on.
    pub(super) fn be_honest(&self) {
        lock(&self.said.lies).clear();
    }

    /// Returns the number of streams of this method that were opened.
    pub(super) fn streams(&self, method: &str) -> u64 {
        lock(&self.said.streams).get(method).copied().unwrap_or(0)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, member: SocketAddr, said: Arc<Said>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(serve(client, member, said.clone()));
    }
}

async fn serve(client: TcpStream, member: SocketAddr, said: Arc<Said>) {
    let Ok(stream) = TcpStream::connect(member).await else { return };
    let Ok((sender, connection)) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await
    else {
        return;
    };
    // It goes on until the last request that was held back has arrived.
    tokio::spawn(connection);
    let service = service_fn(|request| pass(sender.clone(), request, said.clone()));
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(client), service).await; // The client may hang up.
}

type Body = BoxBody<Bytes, hyper::Error>;
type Answer = StreamBody<stream::BoxStream<'static, hyper::Result<Frame<Bytes>>>>;

async fn pass(
    mut sender: SendRequest<Body>,
    request: Request<Incoming>,
    said: Arc<Said>,
) -> Result<Response<Answer>, hyper::Error> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let number = {
        let mut streams = lock(&said.streams);
        let count = streams.entry(method.clone()).or_default();
        *count += 1;
        *count
    };
    let is_forbidden = lock(&said.forbidden).contains(&method);
    let repeats = said.repeats.load(Ordering::SeqCst) && !STREAMS.contains(&&*method);
    let hold = lock(&said.holds).take_if(|(held, _)| *held == method).map(|(_, what)| what);
    let hold = hold.or(repeats.then_some(Hold::Nothing));
    let answer = match hold {
        Some(what) => hold_back(what, sender, request, said.clone()).await?,
        None => sender.send_request(request.map(http_body_util::BodyExt::boxed)).await?,
    };
    // A member that is gone forbids nothing.
    if is_forbidden {
        return Ok(permission_denied());
    }
    Ok(answer.map(|body| StreamBody::new(Box::pin(changed(body, method, number, said)) as _)))
}

fn permission_denied() -> Response<Answer> {
    let body: stream::BoxStream<'_, _> = Box::pin(stream::empty());
    let answer = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "7")
        .header("grpc-message", "etcdserver: permission denied");
    answer.body(StreamBody::new(body)).expect("these are headers")
}

async fn hold_back(
    what: Hold,
    mut sender: SendRequest<Body>,
    request: Request<Incoming>,
    said: Arc<Said>,
) -> hyper::Result<Response<Incoming>> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await?.to_bytes();
    let request = move || {
        let body = Full::new(bytes.clone()).map_err(|never| match never {}).boxed();
        Request::from_parts(head.clone(), body)
    };
    // A held-back message is sent even if its client has given up.
    match what {
        Hold::Request => {
            let late = tokio::spawn(async move {
                let answered = let_go(&said).await;
                let answer = sender.send_request(request()).await;
                tell(answered, answer.is_ok());
                answer
            });
            late.await.expect("it does not panic")
        }
        Hold::Answer => {
            let answer = sender.send_request(request()).await;
            let answered = let_go(&said).await;
            tell(answered, answer.is_ok());
            answer
        }
        Hold::Nothing => {
            sender.send_request(request()).await?.into_body().collect().await?;
            sender.send_request(request()).await
        }
        Hold::Copy => {
            let answer = sender.send_request(request()).await;
            tokio::spawn(async move {
                let answered = let_go(&said).await;
                let is_answered = match sender.send_request(request()).await {
                    Ok(answer) => answer.into_body().collect().await.is_ok(),
                    Err(_) => false,
                };
                tell(answered, is_answered);
            });
            answer
        }
    }
}

/// Waits until the held-back message is let go. Returns the sender to notify when it has arrived.
async fn let_go(said: &Said) -> Option<oneshot::Sender<()>> {
    let (waits, let_go) = oneshot::channel();
    *lock(&said.held) = Some(waits);
    said.held_now.notify_one();
    let_go.await.ok()
}

fn tell(answered: Option<oneshot::Sender<()>>, is_answered: bool) {
    if let Some(answered) = answered.filter(|_| is_answered) {
        // The test may have ended.
        let _ = answered.send(());
    }
}

/// Returns the frames of an answer with its messages replaced.
fn changed(
    body: Incoming,
    method: String,
    number: u64,
    said: Arc<Said>,
) -> impl Stream<Item = hyper::Result<Frame<Bytes>>> + Send {
    stream::unfold((body, Vec::new()), move |(mut body, mut left)| {
        let (method, said) = (method.clone(), said.clone());
        async move {
            loop {
                let frame = match body.frame().await? {
                    Ok(frame) => frame,
                    Err(error) => return Some((Err(error), (body, left))),
                };
                let data = match frame.into_data() {
                    Ok(data) => data,
                    Err(trailers) => return Some((Ok(trailers), (body, left))),
                };
                left.extend_from_slice(&data);
                let lie = lock(&said.lies).get(&method).cloned();
                let passed = said_instead(&mut left, number, lie.as_ref());
                if !passed.is_empty() {
                    return Some((Ok(Frame::data(passed.into())), (body, left)));
                }
            }
        }
    })
}

/// Takes the whole messages out of the received bytes, and returns the bytes to pass on.
fn said_instead(left: &mut Vec<u8>, number: u64, lie: Option<&Lie>) -> Vec<u8> {
    /// A flag, and the length of the message.
    const HEAD: usize = 5;
    let mut passed = Vec::new();
    while let Some(head) = left.get(1..HEAD) {
        let length = u32::from_be_bytes(head.try_into().expect("these are four")) as usize;
        if left.len() < HEAD + length {
            break;
        }
        let message: Vec<u8> = left.drain(..HEAD + length).skip(HEAD).collect();
        let messages = lie.map_or_else(|| vec![message.clone()], |lie| lie(number, &message));
        for message in messages {
            passed.push(0);
            passed.extend(u32::try_from(message.len()).expect("it is short").to_be_bytes());
            passed.extend(message);
        }
    }
    passed
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock()
}
