//! The URL of a store, read part by part: what may be a password is never told again.
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

/// More servers than these are not meant.
const SERVERS_MAX: usize = 64;
/// The bytes that stand behind % signs in a path that is written into a URL.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_').remove(b'~');

/// The parts of a URL.
#[derive(Clone, Copy)]
pub struct Url<'a> {
    scheme: &'a str,
    /// What stands between the scheme's colon and the question mark.
    body: &'a str,
    /// What stands behind the question mark.
    options: &'a str,
}

/// Where a URL leads to: servers, who asks them, and what stands behind their names.
pub struct Servers {
    /// Who asks.
    pub login: Login,
    /// One at least.
    pub addresses: Vec<Address>,
    /// What stands between the slashes behind the servers.
    pub path: Vec<String>,
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its name, or its number.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// The user and the password of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The user, if one is named.
    pub user: Option<String>,
    /// The password, if there is one.
    pub password: Option<Secret>,
}

impl<'a> Url<'a> {
    /// Finds the scheme and the options.
    pub fn parse(text: &'a str) -> Result<Self> {
        if text.trim() != text {
            return Err(Error::invalid(
                "the URL of a store begins or ends with a blank or a line's end: leave that out",
            ));
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme))
        else {
            // A text with an @ may have a password in it.
            let path = if text.is_empty() || text.contains(['@', ':']) { "PATH" } else { text };
            return Err(Error::invalid(format!(
                "the URL of a store begins with a scheme and a colon, and this has none: write file:{path} for a directory"
            )));
        };
        let (body, options) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self { scheme, body, options })
    }

    /// What stands before the first colon.
    pub fn scheme(&self) -> &'a str {
        self.scheme
    }

    /// What stands between the scheme's colon and the question mark, as it is.
    pub fn body(&self) -> &'a str {
        self.body
    }

    /// The options that are given, in order, each of which the engine knows.
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

    /// The servers. Those without a port have the usual one.
    pub fn servers(&self, usual_port: u16) -> Result<Servers> {
        let scheme = self.scheme;
        let Some(address) = self.body.strip_prefix("//") else {
            return Err(Error::invalid(format!(
                "{scheme}: is followed by two slashes and a server: write {scheme}://SERVER"
            )));
        };
        // A password may contain an @ by mistake, the name of a server never does.
        let (login, address) =
            address.rsplit_once('@').map_or(("", address), |(login, address)| (login, address));
        let (names, path) = address.split_once('/').unwrap_or((address, ""));
        let addresses = names.split(',').map(|text| self.address(text, usual_port));
        let addresses = addresses.collect::<Result<Vec<Address>>>()?;
        if addresses.len() > SERVERS_MAX {
            return Err(Error::invalid(format!("a URL names at most {SERVERS_MAX} servers")));
        }
        let parts = path.split('/').filter(|part| !part.is_empty());
        let path = parts.map(|part| Ok(decode("the path", part)?.into_owned()));
        Ok(Servers { login: Login::read(login)?, addresses, path: path.collect::<Result<_>>()? })
    }

    fn address(&self, text: &str, usual_port: u16) -> Result<Address> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or("?"))),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port = match port {
            None | Some("") => Some(usual_port),
            Some(port) => port.parse().ok().filter(|port| *port > 0),
        };
        // What follows it may be a part of a password that was split in the middle, and is not shown.
        if name.contains(char::is_whitespace) {
            return Err(self.or_escape("the name of a server has a blank in it: leave that out"));
        }
        if let Some(port) = port.filter(|_| !name.is_empty()) {
            return Ok(Address { name: name.to_owned(), port });
        }
        Err(self.or_escape(
            "the URL has a server without a name or with no proper port: write SERVER or SERVER:PORT, with one comma between two, and [::1]:PORT for an IPv6 address",
        ))
    }

    /// What is wrong with a server or with an option. A password with a question mark in it may be taken for either.
    fn or_escape(&self, wrong: &str) -> Error {
        let escape = if self.options.contains('@') {
            "; a question mark in a password is written %3F"
        } else {
            ""
        };
        Error::invalid(format!("{wrong}{escape}"))
    }

    /// The path of something on this machine, absolute or not.
    pub fn path(&self) -> Result<PathBuf> {
        let scheme = self.scheme;
        let path = match self.body.strip_prefix("//") {
            None => self.body,
            Some(local) => {
                let local = local.strip_prefix("localhost").unwrap_or(local);
                if !local.starts_with('/') {
                    // What it names may be a user with a password: it is not told again.
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
    fn read(text: &str) -> Result<Self> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let read = |text: &str, of| match text {
            "" => Ok(None),
            text => decode(of, text).map(|text| Some(text.into_owned())),
        };
        let (user, password) = (read(user, "the user")?, read(password, "the password")?);
        if user.is_some() && password.is_none() {
            return Err(Error::invalid(
                "the URL has a user and no password: write user:password@ before the first server",
            ));
        }
        Ok(Self { user, password: password.map(Secret::new) })
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

/// A path as a URL has it.
pub fn encode(path: &Path) -> String {
    percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED).to_string()
}

fn is_scheme(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

fn decode<'a>(of: &str, text: &'a str) -> Result<Cow<'a, str>> {
    decode_bytes(of, text)?.decode_utf8().map_err(|_| {
        Error::invalid(format!("{of} is not UTF-8 where the URL has it behind % signs"))
    })
}

fn decode_bytes<'a>(of: &str, text: &'a str) -> Result<PercentDecode<'a>> {
    let mut escapes = text.split('%').skip(1);
    if escapes.any(|rest| !rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count().eq(&2)) {
        return Err(Error::invalid(format!(
            "{of} has a % that is not followed by two hexadecimal digits: write %25 for the sign itself"
        )));
    }
    Ok(percent_decode_str(text))
}

/// A path of bytes, as Unix has it.
fn decode_path(text: &str) -> Result<PathBuf> {
    let bytes: Vec<u8> = decode_bytes("the path", text)?.collect();
    if bytes.contains(&0) {
        return Err(Error::invalid("the path has a byte that no path can have: %00"));
    }
    os_string(bytes).map(PathBuf::from)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
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
