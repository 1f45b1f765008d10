//! The error messages for invalid URLs.

use std::time::Duration;

use tenure_core::{Error, ErrorKind};
use tenure_kit::options::{KnownOption, Value};
use tenure_kit::url::{Address, Url};

const OPTIONS: &[KnownOption] = &[
    KnownOption::new("timeout", "TIME", "How long an answer may take"),
    KnownOption::new("acks", "N", "How many replicas must agree"),
    KnownOption::new("tls", "on|off", "Whether the connection is encrypted"),
    KnownOption::new("after_restart", "trust|refuse", "What a young server is worth"),
    KnownOption::file("ca", "Whom to trust"),
];

fn servers(url: &str) -> Error {
    Url::parse(url).and_then(|url| url.servers(1)).map(drop).unwrap_err()
}

fn login(url: &str) -> Error {
    let servers = Url::parse(url).and_then(|url| url.servers(1));
    servers.and_then(|servers| servers.login.agree()).unwrap_err()
}

fn path(url: &str) -> Error {
    Url::parse(url).and_then(|url| url.path()).unwrap_err()
}

fn option(option: &str) -> Error {
    let url = format!("x://user:secret@h?{option}");
    Url::parse(&url)
        .and_then(|url| url.options(OPTIONS))
        .and_then(|given| given.into_iter().try_for_each(|(name, value)| read(name, value)))
        .unwrap_err()
}

fn read(name: &str, value: Value) -> Result<(), Error> {
    match name {
        "timeout" => value.time(Duration::from_millis(1)..=Duration::from_secs(3600)).map(drop),
        "acks" => value.number(0..=5_u16).map(drop),
        "tls" => value.switch().map(drop),
        "after_restart" => value.one_of(&[("trust", 1), ("refuse", 2)]).map(drop),
        _ => value.file().map(drop),
    }
}

fn without_options(url: &str) -> Error {
    Url::parse(url).and_then(|url| url.options(&[])).map(drop).unwrap_err()
}

type Read = fn(&str) -> Error;

fn assert_messages(rows: &[(Read, &str, &str)]) {
    for (read, url, sentence) in rows {
        let error = read(url);
        assert_eq!(error.to_string(), *sentence, "{url}");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[test]
fn each_mistake_has_its_sentence() {
    let rows: &[(Read, &str, &str)] = &[
        (
            servers,
            "locks",
            "the URL of a store begins with a scheme and a colon, and this has none: write file:locks for a directory",
        ),
        (
            servers,
            "secret@host",
            "the URL of a store begins with a scheme and a colon, and this has none: write file:PATH for a directory",
        ),
        (servers, "x:h", "x: is followed by two slashes and a server: write x://SERVER"),
        (
            servers,
            "x://",
            "a server has no name or no valid port: write SERVER or SERVER:PORT, separate the servers of a URL by one comma, and write [::1]:PORT for an IPv6 address",
        ),
        (
            servers,
            "x://a:s@no secret",
            "the name of a server contains white space or one of the signs , / ? @: name each server by itself",
        ),
        (
            servers,
            "x://h:0",
            "a server has no name or no valid port: write SERVER or SERVER:PORT, separate the servers of a URL by one comma, and write [::1]:PORT for an IPv6 address",
        ),
        (
            servers,
            "x://:secret?secret@h",
            "a server has no name or no valid port: write SERVER or SERVER:PORT, separate the servers of a URL by one comma, and write [::1]:PORT for an IPv6 address; a question mark in a password is written %3F",
        ),
        (
            login,
            "x://secret@h",
            "the login has a user and no password: give both, in a URL as user:password@ before the first server",
        ),
        (
            login,
            "x://:secret@h",
            "the login has a password and no user: give both, in a URL as user:password@ before the first server",
        ),
        (
            servers,
            "x://:sec%ret@h",
            "the password has a % that is not followed by two hexadecimal digits: write %25 for a % itself",
        ),
        (servers, "x://:secret%ff@h", "the password is not valid UTF-8 after percent-decoding"),
        (servers, "x://h ", "the URL of a store begins or ends with white space: remove it"),
        (
            servers,
            "x://:secret@h\n",
            "the URL of a store begins or ends with white space: remove it",
        ),
    ];
    assert_messages(rows);
}

#[test]
fn each_wrong_path_and_option_has_its_sentence() {
    let rows: &[(Read, &str, &str)] = &[
        (path, "x:", "the URL has no path: write x:PATH"),
        (
            path,
            "x:%7E/a",
            "`~` is a home only where a shell expands it, and not behind `x:`: write x:$HOME/PATH, or x:./~ for what has that name",
        ),
        (
            path,
            "x://user:secret@h/a",
            "the URL names another machine, and x: is for paths of this one: write x:PATH or x:///PATH",
        ),
        (
            path,
            "x:/a%2",
            "the path has a % that is not followed by two hexadecimal digits: write %25 for a % itself",
        ),
        (path, "x:/a%00", "the path contains %00, which no path can contain"),
        (
            option,
            "timout=1s",
            "`timout` is no option of `x:` (did you mean `timeout`?): there are `timeout`, `acks`, `tls`, `after_restart` and `ca`",
        ),
        (
            option,
            "secret=1",
            "the URL has an option that `x:` does not have: there are `timeout`, `acks`, `tls`, `after_restart` and `ca`",
        ),
        (
            option,
            "secret@h",
            "the URL has an option that `x:` does not have: there are `timeout`, `acks`, `tls`, `after_restart` and `ca`; a question mark in a password is written %3F",
        ),
        (option, "acks=1&acks=2", "the URL has `acks` twice: leave one out"),
        (option, "timeout=3601", "`timeout` takes a time from 1ms to 1h, such as 500ms, 2s or 1m"),
        (option, "timeout=2h", "`timeout` takes a time from 1ms to 1h, such as 500ms, 2s or 1m"),
        (option, "acks=6", "`acks` takes a number from 0 to 5"),
        (option, "acks=secret", "`acks` takes a number from 0 to 5"),
        (option, "tls=secret", "`tls` takes `on` or `off`"),
        (option, "tls", "`tls` takes `on` or `off`"),
        (option, "after_restart=secret", "`after_restart` takes `trust` or `refuse`"),
        (option, "ca=", "`ca` takes the path of a file"),
        (
            option,
            "ca=~/ca.pem",
            "`ca` takes the path of a file, and `~` is a home only where a shell expands it: write $HOME/PATH, or ./~ for what has that name",
        ),
        (
            without_options,
            "x:?secret=1",
            "a URL of `x:` has no options: remove the question mark and the text after it",
        ),
    ];
    assert_messages(rows);
}

#[test]
fn more_than_64_servers_are_refused_and_less_than_one() {
    let many = format!("x://{}", vec!["h"; 65].join(","));
    assert_eq!(servers(&many).to_string(), "more than 64 servers are named");
    let none = Address::parse_all([""; 0], 1).unwrap_err();
    assert_eq!(none.to_string(), "no server is named: name at least one");
}

#[test]
fn an_address_of_a_program_is_no_part_of_a_url() {
    for text in ["redis://h", "u:secret@h", "u@h", "h1,h2:5", "h/3", "h?a=b", "::1", "h:99999"] {
        let error = Address::parse_all([text], 1).unwrap_err().to_string();
        assert!(error.contains("server") && !error.contains("secret"), "{text}: {error}");
    }
}
