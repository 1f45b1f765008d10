//! The registry of engines, from which connecting, help, shell completion and documents follow.

use tenure_core::{Error, Locks, Result};
use tenure_kit::options::nearest;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme};
use tenure_kit::url::Url;

use crate::memory;

/// One line for each engine: its feature, its crate, and its schemes, which are known even without
/// the feature.
macro_rules! engines {
    ($($feature:literal $engine:ident $($scheme:literal)+;)*) => {
        /// The descriptions of all engines of this program.
        pub static REGISTER: &[&EngineDescriptor] = &[
            $(#[cfg(feature = $feature)] &$engine::DESCRIPTION,)*
            &memory::DESCRIPTION,
        ];

        /// The schemes of each feature.
        const FEATURES: &[(&str, &[&str])] = &[$(($feature, &[$($scheme),+])),*];
    };
}

engines! {
    "file" tenure_file "file";
    "mongodb" tenure_mongodb "mongodb" "mongodb+srv";
    "mysql" tenure_mysql "mysql" "mariadb";
    "postgres" tenure_postgres "postgres" "postgresql";
    "redis" tenure_redis "redis" "rediss" "redis+unix" "redis+sentinel" "redis+cluster" "redlock";
    "etcd" tenure_etcd "etcd" "etcds";
    "zookeeper" tenure_zookeeper "zookeeper" "zookeepers";
}

/// Returns the engine of a URL.
///
/// # Errors
///
/// No engine of this program has the scheme.
pub fn engine_of(url: &str) -> Result<&'static EngineDescriptor> {
    engine_beside(&[], url)
}

/// Returns the engine of a URL, for a program that also has schemes of its own.
///
/// # Errors
///
/// No engine of this program has the scheme. The error also names the program's own schemes.
pub fn engine_beside(own: &[Scheme], url: &str) -> Result<&'static EngineDescriptor> {
    if let Some(port) = port_of_server(own, url) {
        let usual =
            PORTS.iter().find(|(usual, _)| *usual == port).map_or("redis", |(_, name)| name);
        let meant = if usual == "mysql" && is_built(usual) {
            format!("did you mean `mariadb://USER:PASSWORD@{url}/DATABASE`?")
        } else if is_built(usual) {
            format!("did you mean `{usual}://{url}`?")
        } else {
            "write its scheme before it".to_owned()
        };
        return Err(Error::invalid(format!("`{url}` names a server and no store: {meant}")));
    }
    let scheme = Url::parse(url)?.scheme();
    let knows = |engine: &&&EngineDescriptor| engine.scheme(scheme).is_some();
    REGISTER.iter().find(knows).copied().ok_or_else(|| unknown(own, scheme))
}

/// Opens the store of a URL. Creates it if its engine creates stores.
///
/// # Errors
///
/// As [`connect`](crate::connect()).
pub async fn open(url: &str) -> Result<OpenedStore> {
    (engine_of(url)?.open)(url.to_owned()).await
}

/// Opens the store of a URL for inspection. Returns `None` if there is none, and creates none.
///
/// # Errors
///
/// As [`connect`](crate::connect()).
pub async fn look(url: &str) -> Result<Option<Locks>> {
    (engine_of(url)?.look)(url.to_owned()).await
}

/// Schemes of other clients for these stores, and the scheme here.
const ELSEWHERE: [(&str, &str); 4] =
    [("http", "etcd"), ("https", "etcds"), ("valkey", "redis"), ("valkeys", "rediss")];

/// The default ports of the stores.
const PORTS: [(u16, &str); 6] = [
    (6379, "redis"),
    (27017, "mongodb"),
    (3306, "mysql"),
    (5432, "postgres"),
    (2379, "etcd"),
    (2181, "zookeeper"),
];

/// Returns the port of `HOST:PORT`, a server without a scheme.
fn port_of_server(own: &[Scheme], url: &str) -> Option<u16> {
    let (host, port) = url.split_once(':')?;
    let mut schemes = own.iter().chain(REGISTER.iter().flat_map(|engine| engine.schemes));
    // `file:6379` is a path. `redis:6379` is a server in a network of containers.
    if schemes.any(|scheme| scheme.name == host && !scheme.form.contains("://")) {
        return None;
    }
    let port = port.split(['/', '?']).next().unwrap_or(port);
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
    (!host.is_empty() && host.chars().all(is_host)).then(|| port.parse().ok()).flatten()
}

/// Whether an engine of this build has this scheme.
fn is_built(scheme: &str) -> bool {
    REGISTER.iter().any(|engine| engine.scheme(scheme).is_some())
}

fn unknown(own: &[Scheme], scheme: &str) -> Error {
    if let Some((feature, _)) = FEATURES.iter().find(|(_, schemes)| schemes.contains(&scheme)) {
        return Error::unsupported(format!(
            "this program was built without the {feature} engine: build it with the feature `{feature}`"
        ));
    }
    let schemes = || own.iter().chain(REGISTER.iter().flat_map(|engine| engine.schemes));
    let known: Vec<String> = schemes().map(|scheme| format!("{}:", scheme.name)).collect();
    let scheme_is = |other: &&(&str, &'static str)| other.0.eq_ignore_ascii_case(scheme);
    let elsewhere = ELSEWHERE.iter().find(scheme_is).map(|(_, here)| *here);
    let elsewhere = elsewhere.filter(|here| is_built(here));
    let near = || nearest(&scheme.to_ascii_lowercase(), schemes().map(|scheme| scheme.name));
    let meant = elsewhere.or_else(near);
    let meant = meant.map_or(String::new(), |name| format!(" (did you mean `{name}:`?)"));
    Error::invalid(format!(
        "no engine answers to the scheme `{scheme}:`{meant}; there are {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemes_of_a_feature_are_those_of_its_engine() {
        for engine in REGISTER.iter().filter(|engine| engine.name != memory::DESCRIPTION.name) {
            let (_, schemes) = FEATURES.iter().find(|(name, _)| *name == engine.name).unwrap();
            let described: Vec<&str> = engine.schemes.iter().map(|scheme| scheme.name).collect();
            assert_eq!(*schemes, described);
        }
    }

    #[test]
    fn a_server_without_a_scheme_is_refused_with_the_url_that_was_meant() {
        for (url, meant) in [
            ("localhost:6379", "`redis://localhost:6379`"),
            ("127.0.0.1:2379", "`etcd://127.0.0.1:2379`"),
            ("db-1.example.org:27017", "`mongodb://db-1.example.org:27017`"),
            ("zk:2181", "`zookeeper://zk:2181`"),
            ("cache:7000", "`redis://cache:7000`"),
            ("redis:6379", "`redis://redis:6379`"),
            ("localhost:6379/0", "`redis://localhost:6379/0`"),
        ] {
            let error = engine_of(url).unwrap_err().to_string();
            let meant = if is_built(meant[1..].split(':').next().unwrap()) {
                format!("did you mean {meant}?")
            } else {
                "write its scheme before it".to_owned()
            };
            assert_eq!(error, format!("`{url}` names a server and no store: {meant}"));
        }
        if is_built("mysql") {
            let error = engine_of("db:3306").unwrap_err().to_string();
            assert!(error.contains("`mariadb://USER:PASSWORD@db:3306/DATABASE`"), "{error}");
        }
        for url in ["file:6379", "memory:6379"] {
            assert!(engine_of(url).is_ok(), "{url}: a path or a name may be a number");
        }
    }

    #[test]
    fn only_schemes_of_this_build_are_suggested() {
        for (scheme, here) in ELSEWHERE {
            let error = engine_of(&format!("{scheme}://host")).unwrap_err().to_string();
            assert_eq!(
                error.contains(&format!("did you mean `{here}:`?")),
                is_built(here),
                "{error}"
            );
        }
    }

    #[test]
    fn every_form_and_example_begins_with_its_scheme() {
        for scheme in REGISTER.iter().flat_map(|engine| engine.schemes) {
            let beginning = format!("{}:", scheme.name);
            assert!(scheme.form.starts_with(&beginning), "{}", scheme.form);
            assert!(scheme.example.starts_with(&beginning), "{}", scheme.example);
            assert_eq!(engine_of(scheme.example).unwrap().scheme(scheme.name), Some(scheme));
        }
    }
}
