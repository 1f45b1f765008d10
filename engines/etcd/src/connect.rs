//! How a connection to a member is opened: its address, TLS, and who one is.

use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::tls::{self, Files};
use tenure_kit::url::Address;
use tokio::time::timeout;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use crate::ask;
use crate::calls::{Token, Wire, unary};
use crate::keys::Keys;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::trouble;
use crate::wire::{
    AuthenticateRequest, AuthenticateResponse, RangeRequest, RangeResponse, ResponseHeader,
    StatusRequest, StatusResponse,
};

/// What a member is asked first.
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// Members turn clients away that ping them more often than every five seconds.
const PING_EVERY: Duration = Duration::from_secs(10);

/// What a member says of itself.
pub(crate) struct Greeting {
    pub(crate) cluster: u64,
    pub(crate) has_leader: bool,
    /// `None`: it tells that to root alone, as 3.5.28 to 3.5.30 do, and those of 3.6.
    pub(crate) version: Option<String>,
}

/// A connection to this member, and what the member says of itself. A token that is known already is
/// used again, because to check a password costs a member much.
pub(crate) async fn connect(
    settings: &Settings,
    member: &Address,
    known: Option<Token>,
) -> Result<(Wire, Greeting)> {
    let within = settings.connect_timeout;
    let late = || {
        Error::unavailable(format!(
            "the member {member} of etcd cannot be reached within {within:?}"
        ))
    };
    match timeout(within, open(settings, member, known)).await {
        Ok(opened) => opened,
        Err(_) => Err(late()),
    }
}

async fn open(
    settings: &Settings,
    member: &Address,
    known: Option<Token>,
) -> Result<(Wire, Greeting)> {
    let channel = channel(settings, member).await?;
    let is_known = known.is_some();
    let mut wire = Wire { channel, token: known };
    if !is_known {
        wire = signed_in(settings, wire).await?;
    }
    let mut greeting = greet(settings, &wire).await;
    if is_known && greeting.as_ref().is_err_and(trouble::is_stranger) {
        wire = signed_in(settings, wire).await?;
        greeting = greet(settings, &wire).await;
    }
    let greeting = greeting.map_err(|status| match &settings.tls {
        // A member does not say why it lets nobody in.
        Some(tls) if tls.cert.is_none() && trouble::ends_connection(&status) => {
            Error::unavailable(format!(
                "the member {member} of etcd ended the connection before it answered: if it wants a certificate of this client, name one as `cert=FILE` and `key=FILE`"
            ))
        }
        _ => trouble::error(settings, &status),
    });
    Ok((wire, greeting?))
}

async fn greet(settings: &Settings, wire: &Wire) -> Result<Greeting, Status> {
    match unary(wire, STATUS, StatusRequest {}).await {
        Ok(StatusResponse { header, version, leader, .. }) => {
            let (has_leader, version) = (leader != 0, Some(version));
            Ok(Greeting { cluster: cluster(header), has_leader, version })
        }
        Err(status) if status.code() == Code::PermissionDenied => {
            // A key that is never there: what the role is for may be read, if there is a leader.
            let key = Keys::of(&settings.prefix).session(u32::MAX);
            let read = RangeRequest { serializable: true, ..ask::get(key) };
            let answer: RangeResponse = unary(wire, ask::RANGE, read).await?;
            Ok(Greeting { cluster: cluster(answer.header), has_leader: true, version: None })
        }
        Err(status) => Err(status),
    }
}

fn cluster(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.cluster_id)
}

/// Whether a member lives: one that does not tell what it is says that, too.
pub(crate) async fn answers(wire: &Wire) -> bool {
    let status: Result<StatusResponse, _> = unary(wire, STATUS, StatusRequest {}).await;
    status.is_ok() || status.is_err_and(|status| status.code() == Code::PermissionDenied)
}

async fn channel(settings: &Settings, member: &Address) -> Result<Channel> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{member}"))
        .map_err(|_| Error::invalid(format!("{member} is no address of a member of etcd")))?;
    let mut endpoint = endpoint
        .connect_timeout(settings.connect_timeout)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(settings.timeout)
        .keep_alive_while_idle(true);
    if let Some(files) = &settings.tls {
        let config = endpoint.tls_config(tls_config(files)?);
        endpoint = config.map_err(|error| files.unusable(root(&error)))?;
    }
    let out_of_reach = |error: &dyn std::error::Error| unreached(member, error);
    let socket = Socket::open(member).await.map_err(|error| out_of_reach(&error))?;
    endpoint.connect_with_connector(socket).await.map_err(|error| out_of_reach(&error))
}

fn unreached(member: &Address, error: &dyn std::error::Error) -> Error {
    let why = root(error);
    tls::distrust(&format!("the member {member} of etcd"), &why).unwrap_or_else(|| {
        let hint = if why.contains("handshake") {
            "does it speak TLS? without it, write etcd://"
        } else {
            "is the address right, and is it running?"
        };
        Error::unavailable(format!("the member {member} of etcd cannot be reached ({why}): {hint}"))
    })
}

fn tls_config(files: &Files) -> Result<ClientTlsConfig> {
    // Another crate may have chosen one already.
    let _chosen = rustls::crypto::ring::default_provider().install_default();
    let mut config = ClientTlsConfig::new();
    config = match files.authorities()? {
        Some(authorities) => config.ca_certificate(Certificate::from_pem(authorities)),
        None => config.with_native_roots(),
    };
    if let Some(tls::Identity { cert, key }) = files.identity()? {
        config = config.identity(Identity::from_pem(cert, key));
    }
    Ok(config)
}

/// The last of the causes of an error.
fn root(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().unwrap_or(error).to_string()
}

/// The connection of who has just said who one is, which the members remember for a while.
async fn signed_in(settings: &Settings, wire: Wire) -> Result<Wire> {
    // A member that forgot a token refuses whoever comes with it, though it were to ask for another.
    let stranger = Wire { token: None, ..wire };
    let (Some(user), Some(password)) = (&settings.login.user, &settings.login.password) else {
        return Ok(stranger);
    };
    let request =
        AuthenticateRequest { name: user.clone(), password: password.reveal().to_owned() };
    let answer: AuthenticateResponse = unary(&stranger, AUTHENTICATE, request)
        .await
        .map_err(|status| trouble::error(settings, &status))?;
    let token = Token::try_from(answer.token)
        .map_err(|_| Error::rejected("etcd gave a token that cannot be sent"))?;
    Ok(Wire { token: Some(token), ..stranger })
}
