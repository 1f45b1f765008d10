//! Opening a connection to a member: its address, TLS, and the login.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tenure_core::Result;
use tenure_kit::tls::{Identity, Tls};
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::ask;
use crate::calls::{AuthorizedChannel, Token, unary};
use crate::channel::{Channel, HTTP2, reach};
use crate::keys::Keys;
use crate::settings::Settings;
use crate::status::{Code, Status};
use crate::trouble;
use crate::wire::{
    AuthenticateRequest, AuthenticateResponse, RangeRequest, RangeResponse, ResponseHeader,
    StatusRequest, StatusResponse,
};

/// gRPC path of the first request to a member.
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
/// Message for a file that is not in PEM. A parser's own message may quote a key.
const UNREAD: &str = "a part of them is not in PEM";

/// A member's report about itself.
pub(crate) struct Greeting {
    pub(crate) cluster: u64,
    /// `None`: the member reports it to root alone, as 3.5.28 to 3.5.30 and those of 3.6 do.
    pub(crate) version: Option<String>,
}

/// Opens a connection to this member before a time limit. Returns it with the member's report;
/// `None` if the member has no leader, and so answers nothing. Uses a known token again, because a
/// password check costs a member much.
pub(crate) async fn connect(
    settings: &Settings,
    member: &Address,
    known: Option<Token>,
    until: Instant,
) -> Result<Option<(AuthorizedChannel, Greeting)>> {
    let tls = settings.tls.as_ref().map(tls_config).transpose()?;
    let reached = timeout_at(until, reach(member)).await;
    let reached = reached.map_err(|_| trouble::out_of_reach(settings, member))?;
    let stream = reached.map_err(|error| trouble::unreached(member, &error))?;
    let opened = timeout_at(until, open(settings, member, stream, tls, known)).await;
    opened.unwrap_or_else(|_| Err(trouble::mute(settings, member)))
}

async fn open(
    settings: &Settings,
    member: &Address,
    stream: TcpStream,
    tls: Option<Arc<ClientConfig>>,
    known: Option<Token>,
) -> Result<Option<(AuthorizedChannel, Greeting)>> {
    let channel = Channel::open(stream, member, tls, settings.timeout).await;
    let channel = channel.map_err(|error| trouble::unspoken(settings, member, &error))?;
    match greeted(settings, AuthorizedChannel { channel, token: known }).await {
        Ok(met) => Ok(Some(met)),
        Err(status) if trouble::is_leaderless(&status) => Ok(None),
        Err(status) => Err(trouble::at_the_door(settings, member, &status)),
    }
}

/// Returns the connection with a token that the member knows.
async fn greeted(
    settings: &Settings,
    mut wire: AuthorizedChannel,
) -> Result<(AuthorizedChannel, Greeting), Status> {
    let is_known = wire.token.is_some();
    if !is_known {
        wire = signed_in(settings, wire).await?;
    }
    let mut greeting = greet(settings, &wire).await;
    if is_known && greeting.as_ref().is_err_and(trouble::is_stranger) {
        wire = signed_in(settings, wire).await?;
        greeting = greet(settings, &wire).await;
    }
    Ok((wire, greeting?))
}

async fn greet(settings: &Settings, wire: &AuthorizedChannel) -> Result<Greeting, Status> {
    match unary(wire, STATUS, StatusRequest {}).await {
        // Every request asks for a member with a leader. A proxy may not pass that on.
        Ok(StatusResponse { leader: 0, .. }) => Err(Status::unavailable(trouble::NO_LEADER)),
        Ok(StatusResponse { header, version, .. }) => {
            Ok(Greeting { cluster: cluster(header), version: Some(version) })
        }
        Err(status) if status.code() == Code::PermissionDenied => {
            // A user of the role may read the key, if there is a leader. Only the header counts.
            let key = Keys::of(&settings.prefix).broken();
            let read = RangeRequest { serializable: true, ..ask::get(key) };
            let answer: RangeResponse = unary(wire, ask::RANGE, read).await?;
            Ok(Greeting { cluster: cluster(answer.header), version: None })
        }
        Err(status) => Err(status),
    }
}

fn cluster(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.cluster_id)
}

/// Returns whether a member lives. A member that refuses its report lives, too.
pub(crate) async fn answers(wire: &AuthorizedChannel) -> bool {
    let status: Result<StatusResponse, _> = unary(wire, STATUS, StatusRequest {}).await;
    status.is_ok() || status.is_err_and(|status| status.code() == Code::PermissionDenied)
}

fn tls_config(tls: &Tls) -> Result<Arc<ClientConfig>> {
    // The provider is named, because another crate may have chosen another one for the process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    match tls.read_ca()? {
        Some(pem) => {
            for authority in certificates(tls, &pem)? {
                roots.add(authority).map_err(|error| tls.unusable(error))?;
            }
        }
        // A certificate of the system that cannot be read is not trusted. If none can be read, no
        // member is.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls.unusable(error))?
        .with_root_certificates(roots);
    let mut config = match tls.read_identity()? {
        Some(Identity { cert, key }) => {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| tls.unusable(UNREAD))?;
            let own = config.with_client_auth_cert(certificates(tls, &cert)?, key);
            own.map_err(|error| tls.unusable(error))?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config))
}

fn certificates(tls: &Tls, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let all: Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.map_err(|_| tls.unusable(UNREAD))
}

/// Logs in, and returns the connection with its token, which the members keep for a while.
async fn signed_in(
    settings: &Settings,
    wire: AuthorizedChannel,
) -> Result<AuthorizedChannel, Status> {
    // A member refuses any request with a token that it forgot, also a request for a new one.
    let stranger = AuthorizedChannel { token: None, ..wire };
    let (Some(user), Some(password)) = (&settings.login.user, &settings.login.password) else {
        return Ok(stranger);
    };
    let request =
        AuthenticateRequest { name: user.clone(), password: password.reveal().to_owned() };
    let answer: AuthenticateResponse = unary(&stranger, AUTHENTICATE, request).await?;
    let token = Token::try_from(answer.token)
        .map_err(|_| Status::new(Code::Refused, "its token cannot be sent"))?;
    Ok(AuthorizedChannel { token: Some(token), ..stranger })
}
