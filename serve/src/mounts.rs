//! The services of several stores behind one server: each below its name, and a list of all.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use http::header::LOCATION;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::{Body, Bytes};
use tenure_core::{Error, Result};
use tokio::time::timeout;
use tower_service::Service;

use crate::metrics;
use crate::page::{health_text, shown};
use crate::reply::{HttpRefusal, HttpReply, whole};
use crate::service::Serve;

/// Maximum length of a store's name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The list of stores waits this long for the health of a store.
const HEALTH_MAX: Duration = Duration::from_secs(5);

/// The services of several stores, each at `/stores/{name}/`. Make it with [`Mounts::new`].
///
/// `/` lists the stores with their health, and `/metrics` has all of them, with the name as the
/// label `store`.
/// The list and the metrics have the checks of the first service: give all of them the same token,
/// hosts and role. A store that cannot be opened yet does not keep the others from being served:
/// see [`set`](Mounts::set).
#[derive(Clone, Debug)]
pub struct Mounts {
    stores: Arc<[Mount]>,
    /// The first service that was open at the start.
    first: Serve,
}

#[derive(Debug)]
struct Mount {
    name: String,
    service: RwLock<Result<Serve>>,
}

/// The content that a path names, where there are several stores.
enum MountPath<'a> {
    List,
    Metrics,
    /// The path of a store without the slash at its end.
    Slashless(&'a str),
    /// A service, and the path below its own.
    Store(Serve, Option<&'a str>),
    /// A store that cannot be opened yet.
    NotOpen(Error),
    Unknown,
    /// A path of the API without the name of a store.
    Nameless,
}

impl Mounts {
    /// Returns the services of these stores, each with its name. An error stands for a store that
    /// cannot be opened yet.
    ///
    /// # Errors
    ///
    /// The first of those errors if no store is open. [`Invalid`](tenure_core::ErrorKind::Invalid)
    /// without a store, for two stores of one name, and for a name that is not 1 to 64 letters,
    /// digits, `-`, `_` and `.` of ASCII.
    pub fn new(stores: impl IntoIterator<Item = (String, Result<Serve>)>) -> Result<Self> {
        let mut mounts: Vec<Mount> = Vec::new();
        for (name, service) in stores {
            Self::check_name(&name)?;
            if mounts.iter().any(|mount| mount.name == name) {
                return Err(Error::invalid(format!("two stores have the name {name}")));
            }
            mounts.push(Mount { name, service: RwLock::new(service) });
        }
        let mut services = mounts.iter().map(Mount::service);
        let none = || Err(Error::invalid("there is no store to serve"));
        let first = services.next().unwrap_or_else(none);
        let first = first.or_else(|error| services.find_map(Result::ok).ok_or(error))?;
        Ok(Self { stores: mounts.into(), first })
    }

    /// Serves a store that could not be opened before, or replaces the error that keeps it from
    /// being opened. Requests for such a store have the status 503 and the error. Does nothing if
    /// the store is open, or if no store has this name.
    pub fn set(&self, name: &str, service: Result<Serve>) {
        if let Some(mount) = self.stores.iter().find(|mount| mount.name == name) {
            let mut former = mount.service.write().unwrap_or_else(PoisonError::into_inner);
            if former.is_err() {
                *former = service;
            }
        }
    }

    /// Checks that a store may have this name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid): it may not.
    pub fn check_name(name: &str) -> Result<()> {
        if is_name(name) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{name:?} cannot name a store: take 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.`"
        )))
    }

    /// The number of stores.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.stores.len()).unwrap_or(u32::MAX)
    }

    /// Ends all streams of events, and answers all requests that wait for a lock.
    pub fn end_streams(&self) {
        self.services().for_each(|service| service.end_streams());
    }

    /// Whether the client at this address may be a proxy of many users.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        self.first.access.is_proxy(address)
    }

    /// The services of the stores that are open.
    fn services(&self) -> impl Iterator<Item = Serve> {
        self.stores.iter().filter_map(|mount| mount.service().ok())
    }

    fn route<'a>(&'a self, path: &'a str) -> MountPath<'a> {
        if self.stores.len() == 1 {
            return MountPath::Store(self.first.clone(), None);
        }
        match path {
            "" | "/" => return MountPath::List,
            "/metrics" => return MountPath::Metrics,
            _ => {}
        }
        let Some(rest) = path.strip_prefix("/stores/") else {
            // A request of the API must not depend on the order of the stores.
            let is_api = path == "/v1" || path.starts_with("/v1/");
            return if is_api {
                MountPath::Nameless
            } else {
                MountPath::Store(self.first.clone(), None)
            };
        };
        let (name, below) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        match self.stores.iter().find(|mount| mount.name == name) {
            None => MountPath::Unknown,
            Some(_) if below.is_empty() => MountPath::Slashless(name),
            Some(mount) => match mount.service() {
                Ok(service) => MountPath::Store(service, Some(below)),
                Err(error) => MountPath::NotOpen(error),
            },
        }
    }

    async fn answer<B>(self, mut request: Request<B>) -> HttpReply
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let path = request.uri().path().to_owned();
        match self.route(&path) {
            MountPath::NotOpen(error) => {
                let (parts, _) = request.into_parts();
                let refusal = match self.first.admit(&parts).await {
                    Ok(_) => HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
                    Err(refusal) => refusal,
                };
                refusal.into()
            }
            MountPath::Store(service, below) => {
                if let Some(below) = below {
                    *request.uri_mut() = with_path(request.uri(), below);
                }
                service.answer(request).await
            }
            own => {
                let (parts, _) = request.into_parts();
                let answer = self.own(&parts, own).await;
                self.first.counted(&parts, answer)
            }
        }
    }

    /// Answers at a path that belongs to no store.
    async fn own(&self, parts: &Parts, route: MountPath<'_>) -> Result<HttpReply, HttpRefusal> {
        self.first.admit(parts).await?;
        if ![Method::GET, Method::HEAD].contains(&parts.method) {
            return Err(HttpRefusal::method("GET, HEAD"));
        }
        match route {
            MountPath::List => Ok(self.list().await),
            MountPath::Metrics => {
                let state = |mount: &Mount| mount.service().ok().map(|service| service.shared);
                let stores = self.stores.iter();
                let stores: Vec<_> = stores.map(|it| (it.name.as_str(), state(it))).collect();
                Ok(metrics::scrape(&stores).await)
            }
            MountPath::Slashless(name) => {
                let kind = "text/plain; charset=utf-8";
                let mut reply = whole(StatusCode::PERMANENT_REDIRECT, kind, "no-cache", "");
                // Relative, so that it is right behind a proxy that adds a path.
                let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                if let Ok(location) = HeaderValue::try_from(format!("{name}/{query}")) {
                    reply.headers_mut().insert(LOCATION, location);
                }
                Ok(reply)
            }
            MountPath::Unknown | MountPath::Store(..) | MountPath::NotOpen(_) => {
                Err(HttpRefusal::new(StatusCode::NOT_FOUND, "there is no store of this name"))
            }
            MountPath::Nameless => {
                Err(HttpRefusal::new(StatusCode::NOT_FOUND, "this server has several stores")
                    .with_cure("put /stores/NAME before the path; / lists the names"))
            }
        }
    }

    /// Renders the list of the stores.
    async fn list(&self) -> HttpReply {
        let lines = join_all(self.stores.iter().map(Mount::health)).await;
        let mut html = LIST_HEAD.to_owned();
        for (Mount { name, .. }, (store, class, health)) in self.stores.iter().zip(lines) {
            let store = shown(&store);
            // Writing to a string cannot fail.
            let _ = writeln!(
                html,
                "<li><a href=\"stores/{name}/\">{name}</a> <span class=\"note\">{store}</span> \
                 <span class=\"{class}\">{}</span></li>",
                shown(&health)
            );
        }
        whole(StatusCode::OK, "text/html; charset=utf-8", "no-store", html + LIST_END)
    }
}

impl Mount {
    fn service(&self) -> Result<Serve> {
        self.service.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store with its server, the class of its health, and its health.
    async fn health(&self) -> (String, &'static str, String) {
        let shared = match self.service() {
            Ok(service) => service.shared,
            Err(error) => return (String::new(), "bad", error.to_string()),
        };
        let (class, health) = match timeout(HEALTH_MAX, shared.reader.health()).await {
            Ok((_, health)) => (if health.healthy { "good" } else { "bad" }, health_text(&health)),
            Err(_) => ("bad", format!("no answer within {} s", HEALTH_MAX.as_secs())),
        };
        (shared.reader.guarantees().store.clone(), class, health)
    }
}

const LIST_HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>tenure</title>
<link rel=\"icon\" href=\"icon.svg\" type=\"image/svg+xml\">
<link rel=\"stylesheet\" href=\"page.css\">
</head>
<body>
<header><h1>tenure</h1></header>
<ul id=\"stores\">
";
const LIST_END: &str = "</ul>\n</body>\n</html>\n";

/// The service of one store, without a list.
impl From<Serve> for Mounts {
    fn from(service: Serve) -> Self {
        let mount = Mount { name: String::new(), service: RwLock::new(Ok(service.clone())) };
        Self { stores: Arc::new([mount]), first: service }
    }
}

impl<B> Service<Request<B>> for Mounts
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
        let mounts = self.clone();
        Box::pin(async move { Ok(mounts.answer(request).await) })
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && ![".", ".."].contains(&name)
        && name.bytes().all(is_letter)
}

/// The same address with another path.
fn with_path(uri: &Uri, path: &str) -> Uri {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    // The end of a valid path, and a valid query, are valid.
    let both = PathAndQuery::from_maybe_shared(Bytes::from(format!("{path}{query}")));
    parts.path_and_query = both.ok();
    Uri::from_parts(parts).unwrap_or_default()
}
