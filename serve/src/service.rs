//! The service: its settings, and the route of each request.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderName, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Buf};
use serde::de::DeserializeOwned;
use tenure_core::{Key, Locks};
use tenure_kit::secret::Secret;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use crate::access::{Access, Proof, Role, Visitor, peer};
use crate::api::{Reader, ShownGuarantees};
use crate::breaking::{BreakLimit, BreakRecord, BreakRequest, compare_and_break};
use crate::endpoint::Endpoint;
use crate::events::EventRing;
use crate::lock_service::LockRecord;
use crate::locks::LockDesk;
use crate::metrics::Exporter;
use crate::query::Query;
use crate::reply::{HttpRefusal, HttpReply, json, whole};
use crate::wrong_tokens::{WrongTokenRecord, WrongTokens};
use crate::{metrics, page, stream};

/// Maximum size of a request's body, in bytes.
const BODY_BYTES_MAX: usize = 4_096;
/// Time limit of a client to send the body of its request.
const BODY_MAX: Duration = Duration::from_secs(10);
/// Maximum length of a request's path and query, in bytes: a key of 1,024 bytes takes three times
/// that when it is encoded, and a query may have three.
const URI_BYTES_MAX: usize = 10_240;

/// Pause before the answer to a wrong token, for up to 64 requests at a time. Further ones are
/// refused at once, so it does not limit the rate: the length of the token protects the service.
const WRONG_TOKEN_PAUSE: Duration = Duration::from_secs(1);

/// Returns the page and the API of these locks as a `tower::Service`.
///
/// Visitors can only look until [`Serve::role`] permits more. Call the service on a tokio runtime
/// with timers.
///
/// ```
/// use tenure_serve::{Role, serve};
///
/// let locks = tenure_core::Locks::new(tenure_core::Memory::new());
/// let _service = serve(&locks).role(Role::Ask);
/// ```
pub fn serve(locks: &Locks) -> Serve {
    let shared = ServiceState {
        reader: Reader::new(locks.clone()),
        ring: Arc::new(EventRing::new(locks.clone())),
        limit: BreakLimit::default(),
        wrong_tokens: WrongTokens::default(),
        exporter: Exporter::new(locks.clone()),
        desk: LockDesk::new(locks.clone()),
        locks: locks.clone(),
    };
    Serve {
        shared: Arc::new(shared),
        access: Access::default(),
        on_break: Arc::new(trace),
        on_lock: Arc::new(trace_lock),
        on_wrong_token: Arc::new(trace_wrong_token),
        command: "tenure".into(),
    }
}

/// The page and the API of the locks of one store. Clones share their streams and limits.
///
/// It answers at `/`, `/page.css`, `/page.js`, `/icon.svg`, `/metrics` and below `/v1/`. In a
/// router, mount it at a path that ends in `/`, and strip that path: all addresses of the page are
/// relative.
///
/// # Who may do what
///
/// Without [`token`](Serve::token) and [`trust_header`](Serve::trust_header), each client that
/// reaches the service has its [`role`](Serve::role). A server with its own login puts a
/// [`Visitor`] into the extensions of a request.
#[derive(Clone)]
pub struct Serve {
    pub(crate) shared: Arc<ServiceState>,
    pub(crate) access: Access,
    on_break: Arc<dyn Fn(&BreakRecord) + Send + Sync>,
    pub(crate) on_lock: Arc<dyn Fn(&LockRecord) + Send + Sync>,
    on_wrong_token: Arc<dyn Fn(&WrongTokenRecord) + Send + Sync>,
    /// Begins the commands that the page offers to copy.
    command: Arc<str>,
}

pub(crate) struct ServiceState {
    locks: Locks,
    pub(crate) reader: Reader,
    pub(crate) ring: Arc<EventRing>,
    pub(crate) exporter: Exporter,
    pub(crate) limit: BreakLimit,
    wrong_tokens: WrongTokens,
    pub(crate) desk: LockDesk,
}

impl Serve {
    /// Sets the role of visitors. The default is [`Role::Look`].
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.access.role = role;
        self
    }

    /// Serves only requests whose header Host has one of these names, with any port. The default is
    /// `localhost`, `127.0.0.1` and `[::1]`, which this call replaces. This prevents DNS rebinding:
    /// a page of another site has its own name resolved to this server, and reads all answers.
    #[must_use]
    pub fn hosts(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.access.hosts = names.into_iter().map(Into::into).collect();
        self
    }

    /// Serves only requests with this token: as a bearer token, or as the password of any user in
    /// the basic scheme, which browsers ask for.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.access.proof = Proof::Token(Secret::new(token));
        self
    }

    /// Serves only requests with this header, and takes its value for the visitor's name. A proxy
    /// in front of the service must set it, and no client may reach the service without the proxy.
    ///
    /// An [`HttpServer`](crate::HttpServer) puts the address of each client into its requests. The
    /// header is then believed only from this machine and from [`proxies`](Serve::proxies). In a
    /// server of your own, put a [`ClientAddress`](crate::ClientAddress) into the extensions of
    /// each request. Without it, the header is believed from every client.
    #[must_use]
    pub fn trust_header(mut self, name: HeaderName) -> Self {
        self.access.proof = Proof::Header(name);
        self
    }

    /// Names the addresses of proxies on other machines. The trusted header is believed from them,
    /// and each may have all connections of an [`HttpServer`](crate::HttpServer).
    #[must_use]
    pub fn proxies(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.access.proxies = addresses.into_iter().map(|it| it.to_canonical()).collect();
        self
    }

    /// Calls this for each break that the visitor's role and the rate limit permitted, with its
    /// result. Also for breaks that the role or the Origin forbids, at most once a second for all
    /// visitors. Without it, breaks are logged by `tracing` at the level `INFO`.
    #[must_use]
    pub fn on_break(mut self, record: impl Fn(&BreakRecord) + Send + Sync + 'static) -> Self {
        self.on_break = Arc::new(record);
        self
    }

    /// Calls this for each lock that a client took, released or lost, see [`LockRecord`]. Without
    /// it, they are logged by `tracing` at the level `INFO`.
    #[must_use]
    pub fn on_lock(mut self, record: impl Fn(&LockRecord) + Send + Sync + 'static) -> Self {
        self.on_lock = Arc::new(record);
        self
    }

    /// Calls this for requests with a wrong token, at most once a second. Without it, they are
    /// logged by `tracing` at the level `WARN`. A wrong token is answered after 1 s, or at once
    /// while 64 others wait.
    #[must_use]
    pub fn on_wrong_token(
        mut self,
        record: impl Fn(&WrongTokenRecord) + Send + Sync + 'static,
    ) -> Self {
        self.on_wrong_token = Arc::new(record);
        self
    }

    /// Sets the first words of the commands that the page offers to copy: `tenure` by default. All
    /// visitors can read them, so they must not have a password.
    #[must_use]
    pub fn command(mut self, begin: impl Into<String>) -> Self {
        self.command = begin.into().into();
        self
    }

    /// Ends all streams of events and answers all requests that wait for a lock, before the server
    /// is shut down.
    pub fn end_streams(&self) {
        self.shared.ring.end();
        self.shared.desk.end();
    }

    pub(crate) async fn answer<B>(self, request: Request<B>) -> HttpReply
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let answer = match self.admit(&parts).await {
            Ok(visitor) => self.dispatch(&parts, &visitor, Box::pin(body)).await,
            Err(refused) => Err(refused),
        };
        self.counted(&parts, answer)
    }

    /// Returns the visitor of a request. Refuses a wrong token after a pause.
    pub(crate) async fn admit(&self, parts: &Parts) -> Result<Visitor, HttpRefusal> {
        let admitted = self.access.admit(parts);
        let is_token = parts.headers.contains_key(AUTHORIZATION);
        if admitted.as_ref().is_err_and(|it| is_token && it.status() == StatusCode::UNAUTHORIZED) {
            let wrong_tokens = &self.shared.wrong_tokens;
            wrong_tokens.count(peer(parts));
            let record = || {
                wrong_tokens.record(Instant::now()).inspect(|it| (self.on_wrong_token)(it));
            };
            record();
            // Without a limit, requests that pause could take all connections.
            if let Ok(_pause) = wrong_tokens.pauses.try_acquire() {
                sleep(WRONG_TOKEN_PAUSE).await;
                record();
            }
        }
        admitted
    }

    /// Counts a request by its answer.
    pub(crate) fn counted(
        &self,
        parts: &Parts,
        answer: Result<HttpReply, HttpRefusal>,
    ) -> HttpReply {
        let reply = answer.unwrap_or_else(|refused| {
            tracing::debug!(path = parts.uri.path(), reason = refused.sentence(), "refused");
            refused.into()
        });
        self.shared.exporter.count_request(reply.status());
        reply
    }

    async fn dispatch<B>(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        body: Pin<Box<B>>,
    ) -> Result<HttpReply, HttpRefusal>
    where
        B: Body,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        check_length(parts)?;
        let endpoint = Endpoint::of(parts.uri.path())?;
        if !endpoint.has(&parts.method) {
            return Err(HttpRefusal::method(endpoint.methods()));
        }
        let ServiceState { reader, ring, .. } = &*self.shared;
        let query = Query::parse(parts.uri.query(), endpoint.fields())?;
        let endpoint = endpoint.with_key(query.key.as_deref())?;
        match endpoint {
            Endpoint::Page => Ok(page::page(reader, &query, visitor.role(), &self.command).await),
            Endpoint::File(file) => Ok(whole(StatusCode::OK, file.kind, "no-cache", file.text)),
            Endpoint::Keys => {
                let keys = reader.keys(&query).await?;
                ring.store_answered();
                Ok(json(StatusCode::OK, &*keys))
            }
            Endpoint::Guarantees => {
                Ok(json(StatusCode::OK, &ShownGuarantees::from(reader.guarantees())))
            }
            Endpoint::Health => {
                let (status, health) = reader.health().await;
                if health.healthy {
                    ring.store_answered();
                }
                Ok(json(status, &*health))
            }
            Endpoint::Metrics => {
                let store = reader.guarantees().store.as_str();
                Ok(metrics::scrape(&[(store, Some(self.shared.clone()))]).await)
            }
            Endpoint::Watch => stream::open(ring, query.prefix, &parts.headers).await,
            Endpoint::Line(key) => {
                let line = reader.line(&key).await?;
                ring.store_answered();
                Ok(json(StatusCode::OK, &line))
            }
            Endpoint::Break(key) => self.break_ticket(parts, visitor, &key, body).await,
            Endpoint::Lock(key) => self.lock(parts, visitor, key, body).await,
            Endpoint::Terraform(key) => self.terraform(parts, visitor, key, body).await,
        }
    }

    async fn break_ticket<B>(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        key: &Key,
        body: Pin<Box<B>>,
    ) -> Result<HttpReply, HttpRefusal>
    where
        B: Body,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let recorded = |refused: HttpRefusal, request: Option<&BreakRequest>| {
            if self.shared.limit.takes_refusal(Instant::now()) {
                let status = refused.status();
                (self.on_break)(&BreakRecord::new(visitor, peer(parts), request, status));
            }
            refused
        };
        Access::check_origin(parts).map_err(|refused| recorded(refused, None))?;
        let request: BreakRequest = read(body, "`ticket`, `number` and perhaps `force`").await?;
        request.check(visitor).map_err(|refused| recorded(refused, Some(&request)))?;
        self.shared.limit.take()?;
        Ok(self.break_recorded(parts, visitor, key, request).await)
    }

    /// Breaks the ticket, and records the result even if the client is gone by then.
    async fn break_recorded(
        &self,
        parts: &Parts,
        visitor: &Visitor,
        key: &Key,
        request: BreakRequest,
    ) -> HttpReply {
        let (service, key, visitor) = (self.clone(), key.clone(), visitor.clone());
        let from = peer(parts).map(str::to_owned);
        let done = tokio::spawn(async move {
            let result = compare_and_break(&service.shared.locks, &key, &request).await;
            let (result, reply) = match result {
                Ok(result) => {
                    (Some(result), json(StatusCode::OK, &serde_json::json!({ "result": result })))
                }
                Err(error) => (None, HttpRefusal::from(error).into()),
            };
            service.shared.exporter.count_break(request.force, result);
            let record =
                BreakRecord::new(&visitor, from.as_deref(), Some(&request), reply.status());
            (service.on_break)(&BreakRecord { result, ..record });
            reply
        });
        done.await.unwrap_or_else(|error| {
            let sentence = format!("the break was not finished: {error}");
            HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, sentence).into()
        })
    }
}

impl<B> Service<Request<B>> for Serve
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Response = HttpReply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpReply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("locks", &self.shared.locks)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// Reads a body of JSON with these fields.
pub(crate) async fn read<B, T>(body: Pin<Box<B>>, fields: &str) -> Result<T, HttpRefusal>
where
    B: Body,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
    T: DeserializeOwned,
{
    let Ok(whole) = timeout(BODY_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await else {
        let sentence = format!("the body did not arrive within {} s", BODY_MAX.as_secs());
        return Err(HttpRefusal::new(StatusCode::REQUEST_TIMEOUT, sentence));
    };
    let Ok(whole) = whole else {
        let sentence = format!("the body was cut off, or is longer than {BODY_BYTES_MAX} bytes");
        return Err(HttpRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, sentence));
    };
    serde_json::from_reader(whole.aggregate().reader()).map_err(|error| {
        let column = error.column();
        let sentence = format!("the body must be JSON with {fields}: wrong at column {column}");
        HttpRefusal::new(StatusCode::BAD_REQUEST, sentence)
    })
}

fn check_length(parts: &Parts) -> Result<(), HttpRefusal> {
    let length = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length <= URI_BYTES_MAX {
        return Ok(());
    }
    let sentence = format!("path and query are longer than {URI_BYTES_MAX} bytes");
    Err(HttpRefusal::new(StatusCode::URI_TOO_LONG, sentence))
}

fn trace(record: &BreakRecord) {
    let BreakRecord { who, from, ticket, number, force, result, status } = record;
    tracing::info!(who, ?from, ticket, number, force, ?result, status, "break");
}

fn trace_lock(record: &LockRecord) {
    let LockRecord { who, from, action, ticket, number, status } = record;
    tracing::info!(who, ?from, ?action, ticket, number, status, "lock");
}

fn trace_wrong_token(record: &WrongTokenRecord) {
    let WrongTokenRecord { from, count } = record;
    tracing::warn!(?from, count, "wrong token");
}
