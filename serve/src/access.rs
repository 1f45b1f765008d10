//! Roles, visitors, and the checks of Host, Origin, token and trusted header.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use tenure_core::OWNER_BYTES_MAX;
use tenure_kit::secret::Secret;

use crate::http_server::ClientAddress;
use crate::reply::HttpRefusal;

/// The header that a request to change something needs. A page of another origin cannot send it
/// without the permission of this service, which gives none.
pub(crate) const REQUEST_HEADER: HeaderName = HeaderName::from_static("tenure-request");

/// Browsers say with each request whether it is for a page of the same site, and for what.
const SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");
const DESTINATION_HEADER: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The names that are served unless the service has others.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The permission of a visitor. Each role includes those before it.
///
/// ```
/// use tenure_serve::Role;
///
/// assert!(Role::Look < Role::Lock && Role::Lock < Role::Ask && Role::Ask < Role::Force);
/// assert_eq!(Role::default(), Role::Look);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads keys, lines and events.
    #[default]
    Look,
    /// Also takes, renews and releases locks of its own.
    Lock,
    /// Also asks holders to leave, and removes waiters. A break alone makes no second holder.
    Ask,
    /// Also removes holders by force. If such a holder still works, there are two.
    Force,
}

impl Role {
    /// The role as one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Lock => "lock",
            Self::Ask => "ask",
            Self::Force => "force",
        }
    }
}

/// The client that sent a request. A server with its own login puts it into the request's
/// extensions: it then replaces the check of a token or header, and the role of the service.
///
/// ```
/// use tenure_serve::{Role, Visitor};
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Visitor::new("ana", Role::Ask));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    who: String,
    role: Role,
}

impl Visitor {
    /// A visitor with this name, which the record of a break has.
    pub fn new(who: impl Into<String>, role: Role) -> Self {
        Self { who: who.into(), role }
    }

    /// The name.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// The permission.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Checks that the visitor has this role, or one that includes it.
    pub(crate) fn check(&self, needed: Role) -> Result<(), HttpRefusal> {
        if self.role >= needed {
            return Ok(());
        }
        let (has, needed) = (self.role.name(), needed.name());
        let sentence = format!("this needs the role `{needed}`, and the visitor has `{has}`");
        Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence))
    }
}

/// The proof of identity that a visitor needs.
#[derive(Clone, Debug, Default)]
pub(crate) enum Proof {
    /// None: only clients that may enter reach the service.
    #[default]
    None,
    /// The token, as a bearer token or as the password of the basic scheme.
    Token(Secret),
    /// The user's name in a header, which a proxy in front of the service sets.
    Header(HeaderName),
}

/// The checks before a request is served.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) role: Role,
    pub(crate) proof: Proof,
    /// The names that the header Host may have.
    pub(crate) hosts: Vec<String>,
    /// The addresses of proxies on other machines.
    pub(crate) proxies: Vec<IpAddr>,
}

impl Default for Access {
    fn default() -> Self {
        let hosts = LOCAL_NAMES.map(String::from).to_vec();
        Self { role: Role::default(), proof: Proof::default(), hosts, proxies: Vec::new() }
    }
}

impl Access {
    /// Returns the visitor of a request.
    pub(crate) fn admit(&self, request: &Parts) -> Result<Visitor, HttpRefusal> {
        self.check_host(request)?;
        check_site(request)?;
        if let Some(visitor) = request.extensions.get::<Visitor>() {
            return Ok(visitor.clone());
        }
        let who = match &self.proof {
            Proof::None => "local".to_owned(),
            Proof::Token(token) if has_token(&request.headers, token.reveal()) => "token".into(),
            Proof::Token(_) => {
                let sentence = "this server needs its token: as a bearer token, or as the \
                                password of any user";
                return Err(HttpRefusal::new(StatusCode::UNAUTHORIZED, sentence));
            }
            Proof::Header(name) => match self.proxy_header(request, name)? {
                Some(who) if !who.is_empty() && who.len() <= OWNER_BYTES_MAX => who.to_owned(),
                _ => {
                    let sentence = format!("the proxy did not set the header {name} once");
                    return Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence));
                }
            },
        };
        Ok(Visitor::new(who, self.role))
    }

    /// Whether the client at this address may be a proxy of many users.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.proxies.contains(&address)
    }

    /// Returns the header that a proxy sets. Refuses clients that are no proxy.
    fn proxy_header<'a>(
        &self,
        request: &'a Parts,
        name: &HeaderName,
    ) -> Result<Option<&'a str>, HttpRefusal> {
        let client = request.extensions.get::<ClientAddress>().and_then(ClientAddress::ip);
        match client.filter(|address| !self.is_proxy(*address)) {
            None => Ok(only(&request.headers, name)),
            Some(address) => {
                let sentence = format!("{address} is not the proxy that may set {name}");
                let refused = HttpRefusal::new(StatusCode::FORBIDDEN, sentence);
                Err(refused.with_cure("name the proxy with `tenure serve --proxy IP`"))
            }
        }
    }

    /// Checks that a request to change something is from the service's own page or from a program.
    pub(crate) fn check_origin(request: &Parts) -> Result<(), HttpRefusal> {
        if only(&request.headers, &REQUEST_HEADER) != Some("1") {
            let sentence = "this request needs the header Tenure-Request: 1";
            return Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence));
        }
        Self::check_own_page(request)
    }

    /// As [`check_origin`](Self::check_origin), for programs that cannot send the header. A page of
    /// another origin cannot send JSON without the permission of this service.
    pub(crate) fn check_origin_of_json(request: &Parts) -> Result<(), HttpRefusal> {
        let kind = only(&request.headers, &CONTENT_TYPE).and_then(|kind| kind.split(';').next());
        if kind.is_none_or(|kind| !kind.trim().eq_ignore_ascii_case("application/json")) {
            let sentence = "this request needs the header Content-Type: application/json";
            return Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence));
        }
        Self::check_own_page(request)
    }

    fn check_own_page(request: &Parts) -> Result<(), HttpRefusal> {
        if !request.headers.contains_key(ORIGIN) {
            // Browsers send it with every POST.
            return Ok(());
        }
        let origin = only(&request.headers, &ORIGIN).and_then(|origin| origin.parse::<Uri>().ok());
        let origin = origin.filter(|origin| matches!(origin.scheme_str(), Some("http" | "https")));
        let origin = origin.as_ref().and_then(Uri::authority).map(http::uri::Authority::as_str);
        if origin.zip(host(request)).is_some_and(|(origin, host)| host.eq_ignore_ascii_case(origin))
        {
            return Ok(());
        }
        let sentence = "a page of another origin cannot change anything";
        Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence))
    }

    /// A page of another site can have its own name resolved to this server's address. The browser
    /// then treats this server as that site, but sends the name of the site.
    fn check_host(&self, request: &Parts) -> Result<(), HttpRefusal> {
        let name = host(request).map(without_port);
        if name.is_some_and(|name| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))) {
            return Ok(());
        }
        let sentence =
            "this server does not serve the name in the header Host: it must be configured";
        Err(HttpRefusal::new(StatusCode::MISDIRECTED_REQUEST, sentence))
    }
}

/// Refuses what a page of another site loads, such as an image. It could not read the answer, but
/// the store would have the work. A link of another site to the page is served.
fn check_site(request: &Parts) -> Result<(), HttpRefusal> {
    let is = |name: &HeaderName, value| only(&request.headers, name) == Some(value);
    if !is(&SITE_HEADER, "cross-site") || is(&DESTINATION_HEADER, "document") {
        return Ok(());
    }
    let sentence = "a page of another site cannot use this server";
    Err(HttpRefusal::new(StatusCode::FORBIDDEN, sentence))
}

/// The address of the client, if the server knows it.
pub(crate) fn peer(request: &Parts) -> Option<&str> {
    request.extensions.get::<ClientAddress>().map(ClientAddress::as_str)
}

/// Host and port of a request.
fn host(request: &Parts) -> Option<&str> {
    match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => only(&request.headers, &HOST),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The value of a header that the request has exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let Some((scheme, rest)) = only(headers, &AUTHORIZATION).and_then(|it| it.split_once(' '))
    else {
        return false;
    };
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_same(rest.trim().as_bytes(), token.as_bytes());
    }
    let Some(pair) = scheme.eq_ignore_ascii_case("basic").then(|| base64(rest.trim())).flatten()
    else {
        return false;
    };
    let password = pair.iter().position(|byte| *byte == b':').map(|colon| &pair[colon + 1..]);
    password.is_some_and(|password| is_same(password, token.as_bytes()))
}

/// Compares in a time that depends on the lengths alone.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differences == 0
}

/// Decodes the standard alphabet. `None` for other text.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const TOKEN: &str = "a token of 16 + bytes";

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/v1/keys");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_the_names_of_the_server_are_served() {
        let local = Access::default;
        for host in ["localhost", "LOCALHOST:7400", "127.0.0.1:1", "[::1]:7400", "[::1]"] {
            assert!(local().admit(&request(&[("host", host)])).is_ok(), "{host}");
        }
        for host in ["evil.example:7400", "localhost.evil.example", "", "::1", "127.0.0.1:7400:1"] {
            assert!(local().admit(&request(&[("host", host)])).is_err(), "{host}");
        }
        let nameless = Request::get("/v1/keys").body(()).unwrap().into_parts().0;
        assert!(local().admit(&nameless).is_err());
        assert!(local().admit(&request(&[("host", "localhost"), ("host", "evil")])).is_err());
        let other = Access { hosts: vec!["tenure.example.org".into()], ..local() };
        assert!(other.admit(&request(&[("host", "tenure.example.org:443")])).is_ok());
        assert!(other.admit(&request(&[])).is_err(), "localhost is not among its names");
    }

    #[test]
    fn a_post_needs_its_header_and_its_own_origin() {
        let own = [("host", "localhost:7400"), ("tenure-request", "1")];
        assert!(Access::check_origin(&request(&own)).is_ok());
        assert!(Access::check_origin(&request(&own[..1])).is_err());
        let from = |origin: &str| {
            let headers = [own[0], own[1], ("origin", origin)];
            Access::check_origin(&request(&headers)).is_ok()
        };
        assert!(from("http://localhost:7400") && from("https://localhost:7400"));
        for origin in [
            "http://localhost:3000",
            "http://localhost",
            "http://evil.example",
            "chrome-extension://localhost:7400",
            "ftp://localhost:7400",
            "localhost:7400",
            "null",
            "",
        ] {
            assert!(!from(origin), "{origin}");
        }
    }

    #[test]
    fn a_token_is_a_bearer_token_or_a_password() {
        let access = Access { proof: Proof::Token(Secret::new(TOKEN)), ..Access::default() };
        let admit = |value: &str| access.admit(&request(&[("authorization", value)]));
        // The password of `ana` is the token.
        for right in [&format!("Bearer {TOKEN}"), "Basic YW5hOmEgdG9rZW4gb2YgMTYgKyBieXRlcw=="] {
            assert_eq!(admit(right).unwrap().who(), "token", "{right}");
        }
        for wrong in ["", "Bearer", "Bearer x", "Basic !", "Basic YW5hOmI=", "Digest a"] {
            assert!(admit(wrong).is_err(), "{wrong}");
        }
        assert!(access.admit(&request(&[])).is_err());
    }

    #[test]
    fn a_trusted_header_names_the_visitor_once() {
        let proof = Proof::Header(HeaderName::from_static("x-forwarded-user"));
        let access = Access { proof, role: Role::Ask, ..Access::default() };
        let user = ("x-forwarded-user", "ana");
        assert_eq!(access.admit(&request(&[user])).unwrap(), Visitor::new("ana", Role::Ask));
        for wrong in [&[][..], &[user, user], &[("x-forwarded-user", "")]] {
            assert!(access.admit(&request(wrong)).is_err());
        }
    }

    #[test]
    fn a_trusted_header_is_believed_only_from_this_machine_and_from_named_proxies() {
        let proof = Proof::Header(HeaderName::from_static("x-forwarded-user"));
        let proxies = vec!["10.0.0.9".parse().unwrap()];
        let access = Access { proof, proxies, ..Access::default() };
        for (peer, is_believed) in [
            ("127.0.0.1:5000", true),
            ("[::1]:5000", true),
            ("[::ffff:127.0.0.1]:5000", true),
            ("uid 1000", true),
            ("10.0.0.9:5000", true),
            ("[::ffff:10.0.0.9]:5000", true),
            ("10.0.0.8:5000", false),
            ("[fe80::1]:5000", false),
        ] {
            let mut request = request(&[("x-forwarded-user", "ana")]);
            let address =
                peer.parse().map_or_else(|_| ClientAddress::local(peer), ClientAddress::new);
            request.extensions.insert(address);
            assert_eq!(access.admit(&request).is_ok(), is_believed, "{peer}");
        }
    }

    #[test]
    fn a_visitor_of_the_own_server_replaces_the_proof() {
        let access = Access { proof: Proof::Token(Secret::new(TOKEN)), ..Access::default() };
        let mut request = request(&[]);
        request.extensions.insert(Visitor::new("ana", Role::Force));
        assert_eq!(access.admit(&request).unwrap().role(), Role::Force);
    }
}
