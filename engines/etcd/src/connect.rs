//! Opening a connection to a member: its address, TLS, and the login.

use std::sync::Arc;

use rustls::ClientConfig;
use tenure_core::Result;
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::ask;
use crate::calls::{AuthorizedChannel, LoginToken, unary};
use crate::channel::{HTTP2, MemberChannel, reach};
use crate::names::KeyNames;
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
    known: Option<LoginToken>,
    until: Instant,
) -> Result<Option<(AuthorizedChannel, Greeting)>> {
    let tls = settings.tls.as_ref().map(|tls| tls.client_config(&[HTTP2])).transpose()?;
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
    known: Option<LoginToken>,
) -> Result<Option<(AuthorizedChannel, Greeting)>> {
    let channel = MemberChannel::open(stream, member, tls, settings.timeout).await;
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
            let key = KeyNames::of(&settings.prefix).broken();
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
    let token = LoginToken::try_from(answer.token)
        .map_err(|_| Status::new(Code::Refused, "its token cannot be sent"))?;
    Ok(AuthorizedChannel { token: Some(token), ..stranger })
}
