//! `tenure serve`: the page and the API of the locks of one or more stores, over HTTP.

mod stores;

use std::fs::{self, File};
use std::future::pending;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use futures_util::future::{join_all, select, select_all};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use serde::Serialize;
use tenure::serve::{CONNECTIONS_MAX, HttpServer, Mounts, Role, Serve};
use tenure::{Error, Locks};
use tenure_kit::rfc3339::rfc3339;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::failure::{Failure, REFUSED, answer, say, write_error};
use crate::screen::printable;
use crate::serve::stores::{NamedStore, OpenedStores};
use crate::store::{Address, SETTLE_MAX, command_on};

/// Where the page is, unless `--listen` or `--socket` names another place.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7400);
/// Minimum and maximum length of a token, in bytes.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1_024;
/// Names by which browsers and programs reach a loopback address or a socket.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// The roles of visitors.
const ROLES: [Role; 4] = [Role::Look, Role::Lock, Role::Ask, Role::Force];
/// Files that this process has open beside its connections, at most.
const OTHER_FILES_MAX: u64 = 256;

/// Shows the store's locks on a page, and serves them as an HTTP API.
///
/// The page shows holders, waiters and events as they happen. With --role ask it also asks holders
/// to leave, as `tenure break` does. tenure prints the page's address, and serves until it gets
/// INT, TERM or HUP. With --role lock, programs in other languages take locks by the API. If the
/// store does not exist yet, tenure waits for it.
///
/// Standard error has one JSON line for each break, and for each lock that such a program takes or
/// releases. Refused requests and wrong tokens of a store have at most one line a second.
///
/// With several stores, each has its page and API at /stores/NAME/. The page at / lists them, and
/// /metrics has all of them. tenure starts when one of them answers, and tries the others again.
///
/// Without options only programs of this machine reach the page, at 127.0.0.1:7400, and each of its
/// users has the role. Another address needs --token-file or --trust-header, and --behind-tls:
/// tenure has no TLS of its own, and a proxy must add it.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure serve
  tenure serve --role ask --socket ~/.tenure.sock
  tenure --on redis://localhost serve --role lock
  tenure serve --on shop=redis://db1 --on jobs=postgres://db2/jobs
  tenure serve --listen 10.0.0.5:7400 --token-file token --host locks.example.org --behind-tls")]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
pub(crate) struct Args {
    /// The store; may be given several times [default: $TENURE_ON, or your own].
    ///
    /// NAME is the store's name in paths and metrics. Without it, the name is the URL's host, port
    /// and path, such as db1-shop. TENURE_ON may also have several stores, one on each line.
    #[arg(long, value_name = "[NAME=]URL", display_order = 900)]
    on: Vec<String>,
    /// The address [default: 127.0.0.1:7400]; port 0 takes a free port.
    #[arg(long, value_name = "IP:PORT", conflicts_with = "socket")]
    listen: Option<SocketAddr>,
    /// A Unix socket instead, which only this user can open.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The role of visitors. Each role includes those before it.
    ///
    /// `look` reads. `lock` also takes, renews and releases locks over HTTP, which the store must
    /// keep by leases: Redis, MongoDB, PostgreSQL, MariaDB or MySQL. `ask` also asks holders to
    /// leave and removes waiters. `force` also removes holders without asking: if such a holder
    /// still works, there are two holders.
    #[arg(long, value_name = "ROLE", default_value = "look",
        value_parser = PossibleValuesParser::new(ROLES.map(Role::name)).try_map(role))]
    role: Role,
    /// Asks visitors for the token in this file.
    ///
    /// A program sends it as a bearer token. A browser asks for a password, which is the token; the
    /// user may be any. The token has 16 bytes or more. Only its owner may read the file.
    #[arg(long, value_name = "FILE", conflicts_with = "trust_header")]
    token_file: Option<PathBuf>,
    /// Trusts a proxy to put the user's name into this header.
    ///
    /// It is believed only from this machine and from --proxy. The proxy must replace the header if
    /// the client sends it.
    #[arg(long, value_name = "NAME")]
    trust_header: Option<http::HeaderName>,
    /// The address of a proxy on another machine; may be given several times.
    ///
    /// The header of --trust-header is believed from it, and the number of its connections is not
    /// limited. Any other address may have a quarter of them.
    #[arg(long, value_name = "IP")]
    proxy: Vec<IpAddr>,
    /// A further name of the server; others are refused.
    ///
    /// It is compared with the header Host, without its port. The names of this machine
    /// (localhost) and the address of --listen are always served. May be given several times.
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// A proxy encrypts what leaves this machine.
    #[arg(long)]
    behind_tls: bool,
}

/// A socket that clients connect to.
enum Listener {
    Tcp(TcpListener),
    Unix(tokio::net::UnixListener, SocketFile),
}

/// The file of a Unix socket. Drop removes it, unless another server has replaced it.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

pub(crate) fn serve(at: &Address, args: &Args) -> Result<u8, Failure> {
    args.check()?;
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    let stores = stores::open(stores::of(at, &args.on)?)?;
    permit_connections(stores.len());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut open = Vec::new();
        let outcome = args.serve(at.quiet, stores, &mut open, token).await;
        // The server holds no lock that could stay.
        let _ = timeout(SETTLE_MAX, join_all(open.iter().map(Locks::close))).await;
        outcome
    })
}

impl Args {
    /// Refuses an address that others reach without a proof of identity or without TLS.
    fn check(&self) -> Result<(), Failure> {
        let Some(listen) = self.listen.filter(|listen| !listen.ip().is_loopback()) else {
            return Ok(());
        };
        if self.token_file.is_none() && self.trust_header.is_none() {
            return Err(Failure::usage(format!(
                "others reach {listen}: add --token-file FILE, or --trust-header NAME with a proxy"
            )));
        }
        if self.trust_header.is_some() && self.proxy.is_empty() {
            return Err(Failure::usage(format!(
                "others reach {listen}, and could name themselves: add --proxy IP, the address of the \
                 proxy that sets the header"
            )));
        }
        if !self.behind_tls {
            return Err(Failure::usage(format!(
                "tenure has no TLS, and others can read the network of {listen}: put a proxy with TLS \
                 before it, and add --behind-tls"
            )));
        }
        Ok(())
    }

    async fn serve(
        &self,
        quiet: bool,
        stores: OpenedStores,
        open: &mut Vec<Locks>,
        token: Option<String>,
    ) -> Result<u8, Failure> {
        let mut ends = Vec::new();
        for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
            ends.push(signal(kind)?);
        }
        let (listener, address, names) = self.bind().await?;
        let (mut services, mut shown) = (Vec::new(), Vec::new());
        let (later, mut opened_later) = mpsc::channel(stores.len());
        for (store, locks) in stores {
            let service = match locks {
                Ok(locks) => {
                    shown.push(printable(&locks.guarantees().store).into_owned());
                    open.push(locks.clone());
                    Ok(self.service(&store, &locks, token.clone(), &names)?)
                }
                Err(failure) => {
                    let reason = failure.sentence().to_owned();
                    stores::open_later(store.clone(), reason.clone(), later.clone());
                    Err(Error::unavailable(reason))
                }
            };
            services.push((store.name, service));
        }
        let mounts = match services.len() {
            1 => services.remove(0).1?.into(),
            _ => Mounts::new(services)?,
        };
        let server = HttpServer::new(mounts.clone());
        if !quiet {
            let (stores, role) = (shown.join(", "), self.role.name());
            say(&format!("serving {stores} with the role `{role}`; interrupt to end"));
        }
        answer(format!("{address}\n"))?;
        let end = async {
            let ends = ends.iter_mut().map(|end| Box::pin(end.recv()));
            select_all(ends).await;
        };
        let serve = async {
            match listener {
                Listener::Tcp(listener) => server.serve_tcp(listener, end).await,
                Listener::Unix(listener, file) => {
                    server.serve_unix(listener, end).await;
                    drop(file);
                }
            }
        };
        let mount_later = async {
            while let Some((store, locks)) = opened_later.recv().await {
                let service = locks.and_then(|locks| {
                    open.push(locks.clone());
                    self.service(&store, &locks, token.clone(), &names)
                });
                if service.is_ok() && !quiet {
                    say(&format!("serving {}", store.name));
                }
                let service = service.map_err(|it| Error::unavailable(it.sentence()));
                mounts.set(&store.name, service);
            }
            pending::<()>().await;
        };
        select(pin!(serve), pin!(mount_later)).await;
        Ok(0)
    }

    fn service(
        &self,
        NamedStore { name, address }: &NamedStore,
        locks: &Locks,
        token: Option<String>,
        names: &[String],
    ) -> Result<Serve, Failure> {
        // The shell of a visitor may name another store, or none.
        let command = command_on(Some(&address.url()?), "");
        let service = tenure::serve(locks).role(self.role).hosts(names).command(command.trim_end());
        let service = service.proxies(self.proxy.iter().copied());
        let [of_break, of_lock, of_token] = [name, name, name].map(Clone::clone);
        let service = service.on_break(move |it| audit("break", &of_break, it));
        let service = service.on_lock(move |it| audit("lock", &of_lock, it));
        let service = service.on_wrong_token(move |it| audit("wrong token", &of_token, it));
        Ok(match (token, &self.trust_header) {
            (Some(token), _) => service.token(token),
            (None, Some(header)) => service.trust_header(header.clone()),
            (None, None) => service,
        })
    }

    /// Returns the socket, its address for people, and the names of the server.
    async fn bind(&self) -> Result<(Listener, String, Vec<String>), Failure> {
        let mut names: Vec<String> = LOCAL_NAMES.map(String::from).to_vec();
        names.extend(self.host.iter().cloned());
        if let Some(path) = &self.socket {
            let (listener, file) = bind_socket(path)?;
            let shown = format!("unix:{}", printable(&path.to_string_lossy()));
            return Ok((Listener::Unix(listener, file), shown, names));
        }
        let listen = self.listen.unwrap_or(LISTEN_DEFAULT);
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => ": --listen 127.0.0.1:0 takes a free port",
                _ => "",
            };
            Failure::new(REFUSED, format!("cannot listen on {listen}: {error}{hint}"))
        })?;
        let address = listener.local_addr()?;
        names.push(match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        });
        Ok((Listener::Tcp(listener), format!("http://{address}/"), names))
    }
}

/// Makes a socket that only this user can open. Replaces one whose server is gone.
fn bind_socket(path: &Path) -> Result<(tokio::net::UnixListener, SocketFile), Failure> {
    let failed = |error: io::Error| {
        let path = printable(&path.to_string_lossy()).into_owned();
        Failure::new(REFUSED, format!("cannot make the socket {path}: {error}"))
    };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let connected = is_socket.then(|| UnixStream::connect(path));
    if connected.is_some_and(|it| it.is_err_and(|it| it.kind() == io::ErrorKind::ConnectionRefused))
    {
        fs::remove_file(path).map_err(failed)?;
    }
    // From its first moment on, no other user can open it.
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    umask(before);
    let bound = bound.map_err(failed)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path).map_err(failed)? };
    bound.set_nonblocking(true)?;
    Ok((tokio::net::UnixListener::from_std(bound)?, file))
}

/// Device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path); // the next server replaces it
        }
    }
}

/// The role of this name. The parser has refused all others.
fn role(name: String) -> Result<Role, String> {
    ROLES.into_iter().find(|role| role.name() == name).ok_or(name)
}

/// Reads the token. Refuses a file that other users can read.
fn read_token(path: &Path) -> Result<String, Failure> {
    let name = printable(&path.to_string_lossy()).into_owned();
    let failed = |error: io::Error| {
        Failure::new(REFUSED, format!("cannot read the token in {name}: {error}"))
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        let sentence = format!("other users can read the token in {name}: chmod go= {name}");
        return Err(Failure::new(REFUSED, sentence));
    }
    let mut token = String::new();
    let limit = *TOKEN_BYTES.end() as u64 + 2;
    file.take(limit).read_to_string(&mut token).map_err(failed)?;
    let token = token.trim();
    let is_shown = token.bytes().all(|byte| byte.is_ascii_graphic());
    if TOKEN_BYTES.contains(&token.len()) && is_shown {
        return Ok(token.to_owned());
    }
    let (least, most) = (TOKEN_BYTES.start(), TOKEN_BYTES.end());
    let sentence =
        format!("the token in {name} must have {least} to {most} bytes of visible ASCII");
    Err(Failure::new(REFUSED, sentence))
}

/// Lets this process have as many connections open as the server accepts, if its hard limit permits
/// that. Otherwise clients wait until a connection is closed.
fn permit_connections(stores: usize) {
    let stores = u64::try_from(stores).unwrap_or(u64::MAX);
    let wanted = stores.saturating_mul(CONNECTIONS_MAX.into()).saturating_add(OTHER_FILES_MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = Some(maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum }); // it serves fewer clients then
}

/// Count of lines of [`audit`] that standard error did not accept since the last one.
static LINES_DROPPED: AtomicU64 = AtomicU64::new(0);

/// Writes one JSON line about a break, a lock or a wrong token of a store. A line after others that
/// were dropped has their number.
fn audit(action: &str, store: &str, record: &impl Serialize) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let at = rfc3339(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX));
    let mut line =
        serde_json::json!({ "at": at, "audit": action, "store": store, "record": record });
    let dropped = LINES_DROPPED.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        line["dropped"] = dropped.into();
    }
    // The server must not stand still for a reader of its log.
    if !write_error(&format!("{line}\n"), Duration::ZERO) {
        LINES_DROPPED.fetch_add(dropped + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(listen: &str, proof: bool, behind_tls: bool) -> Args {
        Args {
            on: Vec::new(),
            listen: Some(listen.parse().unwrap()),
            socket: None,
            role: Role::Look,
            token_file: proof.then(|| "token".into()),
            trust_header: None,
            proxy: Vec::new(),
            host: Vec::new(),
            behind_tls,
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_a_proof_and_tls() {
        for (listen, proof, behind_tls, is_right) in [
            ("127.0.0.1:0", false, false, true),
            ("[::1]:7400", false, false, true),
            ("0.0.0.0:7400", false, false, false),
            ("0.0.0.0:7400", true, false, false),
            ("10.0.0.5:7400", false, true, false),
            ("10.0.0.5:7400", true, true, true),
            ("[::]:7400", true, true, true),
        ] {
            let checked = args(listen, proof, behind_tls).check();
            assert_eq!(checked.is_ok(), is_right, "{listen} {proof} {behind_tls}");
        }
    }
}
