//! The URL of a store, read part by part. No error repeats a text that may be a password.
//!
//! ```text
//! scheme://user:password@server:port,server/path?option=value&option=value
//! scheme:path?option=value
//! ```

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentDecode, percent_decode_str, percent_encode,
};
use tenure_core::{Error, Result};

use crate::options::{self, KnownOption, Value, begins_at_home};
use crate::secret::Secret;

/// Maximum number of servers of one store.
const SERVERS_MAX: usize = 64;
/// The bytes of a path that are percent-encoded in a URL.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The parts of a URL.
#[derive(Clone, Copy)]
pub struct Url<'a> {
    scheme: &'a str,
    /// The text between the scheme's colon and the question mark.
    body: &'a str,
    /// The text after the question mark.
    options: &'a str,
}

/// The login, the servers and the path of a URL.
pub struct Servers {
    /// User and password for the servers.
    pub login: Login,
    /// At least one address.
    pub addresses: Vec<Address>,
    /// The segments of the path after the servers.
    pub path: Vec<String>,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The host name or IP address.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// The user and the password of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user, if the URL has one.
    pub user: Option<String>,
    /// The password, if the URL has one.
    pub password: Option<Secret>,
}

impl<'a> Url<'a> {
    /// Splits a URL into scheme, body and options.
    ///
    /// # Errors
    ///
    /// The text has white space at an end, or no scheme.
    pub fn parse(text: &'a str) -> Result<Self> {
        if text.trim() != text {
            return Err(Error::invalid(
                "the URL of a store begins or ends with white space: remove it",
            ));
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme))
        else {
            // A text with an @ may contain a password.
            let path = if text.is_empty() || text.contains(['@', ':']) { "PATH" } else { text };
            return Err(Error::invalid(format!(
                "the URL of a store begins with a scheme and a colon, and this has none: write file:{path} for a directory"
            )));
        };
        let (body, options) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self { scheme, body, options })
    }

    /// Returns the text before the first colon.
    pub fn scheme(&self) -> &'a str {
        self.scheme
    }

    /// Returns the text between the scheme's colon and the question mark, without decoding it.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// Returns the options of the URL with their decoded values, in their order.
    ///
    /// # Errors
    ///
    /// An option is not `known`, occurs twice, or is not properly percent-encoded.
    pub fn options(&self, known: &'static [KnownOption]) -> Result<Vec<(&'static str, Value)>> {
        let mut given: Vec<(&'static str, Value)> = Vec::new();
        for option in self.options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let name = options::find(self.scheme, name, known);
            let name = name.map_err(|error| self.or_escape(&error.to_string()))?.name;
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Error::invalid(format!("the URL has `{name}` twice: leave one out")));
            }
            let of = format!("`{name}`");
            let text = decode(&of, value)?.into_owned();
            given.push((name, Value::new(of, text)));
        }
        Ok(given)
    }

    /// Returns the login, the servers and the path. A server without a port has `usual_port`.
    ///
    /// # Errors
    ///
    /// One of these parts is malformed, or there are more than 64 servers.
    pub fn servers(&self, usual_port: u16) -> Result<Servers> {
        let scheme = self.scheme;
        let Some(address) = self.body.strip_prefix("//") else {
            return Err(Error::invalid(format!(
                "{scheme}: is followed by two slashes and a server: write {scheme}://SERVER"
            )));
        };
        // A password may contain an unescaped @. A server's name never contains one.
        let (login, address) =
            address.rsplit_once('@').map_or(("", address), |(login, address)| (login, address));
        let (names, path) = address.split_once('/').unwrap_or((address, ""));
        let addresses = Address::parse_all(names.split(','), usual_port)
            .map_err(|error| self.or_escape(&error.to_string()))?;
        let parts = path.split('/').filter(|part| !part.is_empty());
        let path = parts.map(|part| Ok(decode("the path", part)?.into_owned()));
        Ok(Servers { login: Login::read(login)?, addresses, path: path.collect::<Result<_>>()? })
    }

    /// Returns the error for a server or an option. It adds a hint if the cause may be a password
    /// with an unescaped question mark.
    fn or_escape(&self, wrong: &str) -> Error {
        let escape = if self.options.contains('@') {
            "; a question mark in a password is written %3F"
        } else {
            ""
        };
        Error::invalid(format!("{wrong}{escape}"))
    }

    /// Returns the body as a path on this machine, absolute or relative.
    ///
    /// # Errors
    ///
    /// The path is empty, begins with `~`, or is not properly percent-encoded; or the URL names
    /// another machine.
    pub fn path(&self) -> Result<PathBuf> {
        let scheme = self.scheme;
        let path = match self.body.strip_prefix("//") {
            None => self.body,
            Some(local) => {
                let local = local.strip_prefix("localhost").unwrap_or(local);
                if !local.starts_with('/') {
                    // The text may contain a password, and is not repeated.
                    return Err(Error::invalid(format!(
                        "the URL names another machine, and {scheme}: is for paths of this one: write {scheme}:PATH or {scheme}:///PATH"
                    )));
                }
                local
            }
        };
        if path.is_empty() {
            return Err(Error::invalid(format!("the URL has no path: write {scheme}:PATH")));
        }
        let path = decode_path(path)?;
        if begins_at_home(&path) {
            return Err(Error::invalid(format!(
                "`~` is a home only where a shell expands it, and not behind `{scheme}:`: write {scheme}:$HOME/PATH, or {scheme}:./~ for \
                 what has that name"
            )));
        }
        Ok(path)
    }
}

impl Login {
    /// Creates a login. An empty text is none, as in a URL.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        let some = |text: String| (!text.is_empty()).then_some(text);
        Self { user: some(user.into()), password: some(password.into()).map(Secret::new) }
    }

    fn read(text: &str) -> Result<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Ok(Self::new(decode("the user", user)?, decode("the password", password)?))
    }

    /// Checks that user and password are given together.
    ///
    /// # Errors
    ///
    /// One of them is missing.
    pub fn agree(&self) -> Result<()> {
        let (has, lacks) = match (&self.user, &self.password) {
            (Some(_), None) => ("user", "password"),
            (None, Some(_)) => ("password", "user"),
            _ => return Ok(()),
        };
        Err(Error::invalid(format!(
            "the login has a {has} and no {lacks}: give both, in a URL as user:password@ before the first server"
        )))
    }
}

impl Address {
    /// Reads the addresses of a store's servers: `SERVER` or `SERVER:PORT`, for IPv6 `[::1]:PORT`.
    /// A server without a port has `usual_port`.
    ///
    /// # Errors
    ///
    /// An address is malformed, or there is none, or there are more than 64.
    pub fn parse_all(
        servers: impl IntoIterator<Item = impl AsRef<str>>,
        usual_port: u16,
    ) -> Result<Vec<Self>> {
        let servers = servers.into_iter().map(|server| Self::parse(server.as_ref(), usual_port));
        let servers: Vec<Self> = servers.collect::<Result<_>>()?;
        match servers.len() {
            0 => Err(Error::invalid("no server is named: name at least one")),
            1..=SERVERS_MAX => Ok(servers),
            _ => Err(Error::invalid(format!("more than {SERVERS_MAX} servers are named"))),
        }
    }

    /// Reads one address, as [`parse_all`](Self::parse_all).
    ///
    /// # Errors
    ///
    /// The address is malformed.
    pub fn parse(text: &str, usual_port: u16) -> Result<Self> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or("?"))),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port = match port {
            None | Some("") => Some(usual_port),
            Some(port) => port.parse().ok().filter(|port| *port > 0),
        };
        // The rest may be a part of a password, and is not repeated.
        if name.contains(|sign: char| sign.is_whitespace() || ",/?@".contains(sign)) {
            return Err(Error::invalid(
                "the name of a server contains white space or one of the signs , / ? @: name each server by itself",
            ));
        }
        if let Some(port) = port.filter(|_| !name.is_empty()) {
            return Ok(Self { name: name.to_owned(), port });
        }
        Err(Error::invalid(
            "a server has no name or no valid port: write SERVER or SERVER:PORT, separate the servers of a URL by one comma, and write [::1]:PORT for an IPv6 address",
        ))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Percent-encodes a path for a URL.
pub fn encode(path: &Path) -> String {
    percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED).to_string()
}

fn is_scheme(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

fn decode<'a>(of: &str, text: &'a str) -> Result<Cow<'a, str>> {
    decode_bytes(of, text)?
        .decode_utf8()
        .map_err(|_| Error::invalid(format!("{of} is not valid UTF-8 after percent-decoding")))
}

fn decode_bytes<'a>(of: &str, text: &'a str) -> Result<PercentDecode<'a>> {
    let mut escapes = text.split('%').skip(1);
    if escapes.any(|rest| !rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count().eq(&2)) {
        return Err(Error::invalid(format!(
            "{of} has a % that is not followed by two hexadecimal digits: write %25 for a % itself"
        )));
    }
    Ok(percent_decode_str(text))
}

/// Decodes a path, which on Unix is any sequence of bytes without zero.
fn decode_path(text: &str) -> Result<PathBuf> {
    let bytes: Vec<u8> = decode_bytes("the path", text)?.collect();
    if bytes.contains(&0) {
        return Err(Error::invalid("the path contains %00, which no path can contain"));
    }
    os_string(bytes).map(PathBuf::from)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "the version for other systems can fail")]
fn os_string(bytes: Vec<u8>) -> Result<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Result<OsString> {
    let text = String::from_utf8(bytes).map(OsString::from);
    text.map_err(|_| Error::invalid("the path is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_every_form_and_written_back() {
        for (url, path) in [
            ("file:locks", "locks"),
            ("file:./a/b", "./a/b"),
            ("file:/var/locks", "/var/locks"),
            ("file:///var/locks", "/var/locks"),
            ("file://localhost/var/locks", "/var/locks"),
            ("file:/my%20locks/%c3%bc%25", "/my locks/ü%"),
        ] {
            assert_eq!(Url::parse(url).unwrap().path().unwrap(), Path::new(path), "{url}");
        }
        assert_eq!(encode(Path::new("/a b/ü%?~_.-")), "/a%20b/%C3%BC%25%3F~_.-");
    }

    #[test]
    fn servers_are_read_with_login_ports_and_path() {
        let url = Url::parse("x+y://us%40er:p%3Aw@a,b:5,[::1],[::2]:7/one/tw%6F/?q=1").unwrap();
        let read = url.servers(9).unwrap();
        assert_eq!(url.scheme(), "x+y");
        assert_eq!(read.login.user.as_deref(), Some("us@er"));
        assert_eq!(read.login.password.as_ref().map(Secret::reveal), Some("p:w"));
        let servers: Vec<String> = read.addresses.iter().map(Address::to_string).collect();
        assert_eq!(servers, ["a:9", "b:5", "[::1]:9", "[::2]:7"]);
        assert_eq!(read.path, ["one", "two"]);
    }

    #[test]
    fn a_password_may_stand_alone_and_have_an_at_sign() {
        let read = Url::parse("x://:p@s@h").unwrap().servers(9).unwrap();
        assert_eq!(read.login, Login { user: None, password: Some(Secret::new("p@s")) });
        assert!(!format!("{:?}", read.login).contains("p@s"));
    }
}
