//! The URLs of MongoDB. The driver reads them, except for the options of Tenure's own.

use mongodb::options::ClientOptions;
use tenure_core::{Error, Result};
use tenure_kit::options::{KnownOption, listed, nearest};
use tenure_kit::secret::{Secret, redact};
use tenure_kit::url::Url;

use crate::description::{DESCRIPTION, OWN};
use crate::settings::Settings;

/// Reads a URL. If its servers are listed in DNS, this queries DNS.
///
/// # Errors
///
/// The URL or an option is wrong.
pub async fn read(url: &str) -> Result<(ClientOptions, Settings)> {
    let (rest, settings) = split(url)?;
    match ClientOptions::parse(&rest).await {
        Ok(options) => {
            // The database's name in the path has the same limits as any other.
            if let Some(name) = &options.default_database {
                let _ = Settings::new().database(name)?; // only checks the name
            }
            Ok((options, settings))
        }
        Err(error) => Err(unread(url, &error)),
    }
}

/// Returns the URL without Tenure's own options, and the settings in these.
fn split(url: &str) -> Result<(String, Settings)> {
    let scheme = DESCRIPTION.read(url)?.scheme();
    let (address, options) = url.split_once('?').unwrap_or((url, ""));
    let is_own = |option: &&str| {
        let name = option.split_once('=').map_or(*option, |(name, _)| name);
        OWN.iter().any(|own| own.name == name)
    };
    let (own, others): (Vec<&str>, Vec<&str>) =
        options.split('&').filter(|option| !option.is_empty()).partition(is_own);
    let mut settings = Settings::new();
    let own = format!("{scheme}:?{}", own.join("&"));
    for (name, value) in Url::parse(&own)?.options(OWN)? {
        settings = settings.with(name, value)?;
    }
    let rest = if others.is_empty() {
        address.to_owned()
    } else {
        format!("{address}?{}", others.join("&"))
    };
    Ok((rest, settings))
}

/// Returns the error for a URL that the driver refuses. It has the driver's message, unless that
/// may repeat a secret.
fn unread(url: &str, error: &mongodb::error::Error) -> Error {
    let words = error.kind.to_string();
    let words = words.strip_prefix("An invalid argument was provided: ").unwrap_or(&words);
    if let Some(option) = words.split(" is an invalid option").next().filter(|name| *name != words)
    {
        return no_option(option);
    }
    let secrets = secrets(url);
    if matches!(*error.kind, mongodb::error::ErrorKind::DnsResolve { .. }) {
        return Error::unavailable(format!(
            "DNS lists no servers for {}: is the name right, and does this machine's DNS know it?",
            host(url)
        ));
    }
    let harmless = redact(secrets.iter(), words.to_owned()).filter(|_| !hides_its_login(url));
    let sentence = match harmless {
        Some(_) if !url.contains("://") => {
            "two slashes follow the scheme: write mongodb://SERVER".to_owned()
        }
        Some(words) => format!("MongoDB's driver does not take this URL: {words}"),
        None => "MongoDB's driver does not take this URL: a user and a password stand before the servers with %40 for an @, %3A for a colon, %2F for a slash and %3F for a question mark".to_owned(),
    };
    Error::invalid(sentence)
}

/// Returns whether the part that the driver takes for servers may contain a part of a password:
/// there is an `@` after the first slash or question mark.
fn hides_its_login(url: &str) -> bool {
    let body = url.split_once("://").map_or(url, |(_, body)| body);
    body.split_once(['/', '?']).is_some_and(|(_, rest)| rest.contains('@'))
}

/// Returns the name after the login.
fn host(url: &str) -> &str {
    let body = url.split_once("://").map_or(url, |(_, body)| body);
    let servers = body.split(['/', '?']).next().unwrap_or(body);
    servers.rsplit('@').next().unwrap_or(servers)
}

/// Options in MongoDB's manual that this client was built without.
const COMPRESSION: [&str; 2] = ["compressors", "zlibcompressionlevel"];

/// Returns the error for an option that neither Tenure nor the driver knows. A name that resembles
/// no known option may be a part of a password, and is not repeated.
fn no_option(name: &str) -> Error {
    if COMPRESSION.iter().any(|option| option.eq_ignore_ascii_case(name)) {
        return Error::unsupported(
            "Tenure does not compress what it says to MongoDB, because its commands are small: leave out `compressors`",
        );
    }
    let known = |option: &KnownOption| option.name.to_ascii_lowercase();
    let names: Vec<String> = DESCRIPTION.options.iter().map(known).collect();
    let near = nearest(&name.to_ascii_lowercase(), names.iter().map(String::as_str));
    let meant = near.and_then(|near| names.iter().position(|name| name == near));
    if let Some(near) = meant.map(|at| DESCRIPTION.options[at].name) {
        return Error::invalid(format!(
            "`{name}` is no option of `mongodb:` (did you mean `{near}`?)"
        ));
    }
    let names: Vec<&str> = DESCRIPTION.options.iter().map(|option| option.name).collect();
    Error::invalid(format!(
        "the URL has an option that neither Tenure nor MongoDB's driver knows: there are {}, and what else MongoDB's manual on connection strings has",
        listed(&names, "and")
    ))
}

/// Returns every part of the URL that may be a password.
fn secrets(url: &str) -> Vec<Secret> {
    let body = url.split_once("://").map_or(url, |(_, body)| body);
    let login = body.rsplit_once('@').map_or("", |(login, _)| login);
    let password = login.split_once(':').map_or("", |(_, password)| password);
    let values = url.split(['?', '&']).filter_map(|option| option.split_once('='));
    let secret = |(name, value): (&str, &str)| {
        name.to_ascii_lowercase().contains("password").then(|| Secret::new(value))
    };
    values.filter_map(secret).chain([Secret::new(password)]).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn own_options_are_read_and_all_others_are_the_drivers() {
        let (rest, settings) = split(
            "mongodb://u:p@a,b:5/shop?collection=l%2Fx&replicaSet=rs0&timeout=300ms&w=1&database=x",
        )
        .unwrap();
        assert_eq!(rest, "mongodb://u:p@a,b:5/shop?replicaSet=rs0&w=1");
        assert_eq!(settings.database.as_deref(), Some("x"));
        assert_eq!(settings.collection.as_deref(), Some("l/x"));
        assert_eq!(settings.timeout, Duration::from_millis(300));
        assert_eq!(split("mongodb://h").unwrap(), ("mongodb://h".to_owned(), Settings::new()));
        assert_eq!(split("mongodb://h/?timeout=1s").unwrap().0, "mongodb://h/");
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_refused_without_its_password() {
        for (url, part) in [
            ("mongodb://u:s3cret@h/?database=a.b", "`database` takes the name of a database"),
            ("mongodb://u:s3cret@h/?collection=", "`collection` takes the name of a collection"),
            ("mongodb://u:s3cret@h/?timeout=0s", "`timeout` takes a time from 10ms to 1h"),
            (
                "mongodb://u:s3cret@h/?s3cret=red",
                "an option that neither Tenure nor MongoDB's driver",
            ),
            ("mongodb://u:s3cret@h/?timout=1s", "did you mean `timeout`?"),
            ("mongodb://u:s3cret@h/?replicaset=a&authSuorce=b", "did you mean `authSource`?"),
            ("mongodb://u:s3cret@h/?tls=maybe", "does not take this URL"),
            ("mongodb://u:s3c@ret@h/", "does not take this URL"),
            ("mongodb://u:s3cret@/", "does not take this URL"),
            ("mongodb://u:s3c/x?collection=foo@h", "with %40 for an @"),
            ("mongodb://u:s3c/x?y@127.0.0.1:1", "with %40 for an @"),
            ("mongodb://u:s3cret@h/a.b", "`database` takes the name of a database"),
            ("redis://u:s3cret@h/", "write mongodb://"),
            ("mongodb:h", "two slashes follow the scheme"),
            ("mongodb://u:s3cret@h/?compressors=zlib", "leave out `compressors`"),
            ("mongodb+srv://u:s3cret@no.such.invalid/", "no servers for no.such.invalid"),
        ] {
            let error = read(url).await.err().unwrap_or_else(|| panic!("{url} is taken"));
            let sentence = error.to_string();
            assert!(sentence.contains(part), "{url}: {sentence}");
            assert!(!sentence.contains("s3c") && !sentence.contains("ret@"), "{url}: {sentence}");
        }
    }
}
