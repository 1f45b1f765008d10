//! Rights: a user with those that the README names, and no others, can keep locks and do nothing
//! else.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tenure_core::{Key, Locks};
use tenure_servers::have;
use tenure_servers::redis::{Cluster, REDIS, Reply, Rights, Sentinels, Server, Setup};

const NAME: &str = "locks";
const PASSWORD: &str = "secret";

/// The commands that Tenure sends to a server itself. Its scripts call all others.
const SENT_TO_A_SERVER: [&str; 7] =
    ["evalsha", "info", "scan", "script|load", "select", "subscribe", "wait"];
const SENT_TO_A_NODE: [&str; 10] = [
    "asking",
    "cluster|slots",
    "evalsha",
    "info",
    "ping",
    "scan",
    "script|load",
    "ssubscribe",
    "sunsubscribe",
    "wait",
];
/// The commands that every connection may send. The driver sends `client|setinfo` and ignores the
/// answer.
const SENT_BY_ANYBODY: [&str; 3] = ["auth", "client|setinfo", "hello"];
/// The commands whose refusal the engine accepts.
const MAY_BE_REFUSED: [&str; 2] = ["client|setinfo", "config|get"];

#[test]
fn the_readme_names_the_commands_that_are_sent_and_no_others() {
    let scripts = |but: &str| called_by_scripts(&format!("post{but}.lua"));
    let server = &scripts("_sharded") | &SENT_TO_A_SERVER.map(str::to_owned).into();
    assert_eq!(named(Rights::Server), server, "one server");
    let node = &scripts("") | &SENT_TO_A_NODE.map(str::to_owned).into();
    assert_eq!(named(Rights::Cluster), node, "a node of a cluster");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_is_sent_what_the_readme_names() {
    if !have(&[REDIS]) {
        return;
    }
    let server = limited(Rights::Server).start().unwrap();
    let replica = limited(Rights::Server).replica_of(&server).start().unwrap();
    let locks = tenure_redis::connect(server.url() + "/1?acks=1").await.unwrap();
    assert!(!locks.guarantees().warnings.iter().any(|it| it.contains("INFO")));
    use_everything(&locks).await;
    assert_eq!(refused(&server), BTreeSet::new());
    assert!(sent(&server).is_superset(&SENT_TO_A_SERVER.map(str::to_owned).into()));
    let allowed = &named(Rights::Server) | &SENT_BY_ANYBODY.map(str::to_owned).into();
    let more: Vec<_> = sent_by_others(&server).difference(&allowed).cloned().collect();
    assert_eq!(more, Vec::<String>::new());
    drop(replica);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_cluster_are_sent_what_the_readme_names() {
    if !have(&[REDIS]) {
        return;
    }
    let cluster = Cluster::of(&limited(Rights::Cluster), 1).unwrap();
    let locks = tenure_redis::connect(cluster.url() + "?acks=1").await.unwrap();
    use_everything(&locks).await;
    // A slot moves under a lock.
    let key = Key::new("moves").unwrap();
    let slot = cluster.slot_of(&format!("tenure:{{{}}}", key.canonical("tenure"))).unwrap();
    let from = cluster.owner_of(slot).unwrap().port();
    let to = cluster.nodes()[..3].iter().find(|node| node.port() != from).unwrap();
    let guard = locks.mutex("moves").lock().await.unwrap();
    let relocation = cluster.relocate(slot, to).unwrap();
    relocation.carry().unwrap();
    guard.extend().await.unwrap();
    relocation.finish().unwrap();
    guard.release().await.unwrap();
    // 300 lines are waited for in turn, so that the engine unsubscribes from channels.
    let other = tenure_redis::connect(cluster.url()).await.unwrap();
    for count in 0..300 {
        let name = format!("line {count}");
        let first = other.mutex(&name).lock().await.unwrap();
        let mutex = locks.mutex(&name);
        let waits = async { mutex.lock().await.unwrap() };
        let (second, ()) = tokio::join!(waits, async {
            while locks.line(&name).await.unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
            first.release().await.unwrap();
        });
        second.release().await.unwrap();
    }
    let mut all = BTreeSet::new();
    for node in cluster.nodes() {
        assert_eq!(refused(node), BTreeSet::new());
        all.append(&mut sent(node));
    }
    let missing: Vec<_> = SENT_TO_A_NODE.iter().filter(|it| !all.contains(**it)).collect();
    assert!(missing.is_empty(), "{missing:?} are named and not sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_is_sent_what_the_readme_names() {
    if !have(&[REDIS]) {
        return;
    }
    let set = Sentinels::start().unwrap();
    let user = ["ACL", "SETUSER", NAME, "on", &format!(">{PASSWORD}")].map(str::to_owned);
    let rights = Rights::Sentinel.words().into_iter().map(str::to_owned);
    let user: Vec<_> = user.into_iter().chain(rights).collect();
    for sentinel in set.sentinels() {
        sentinel.command(&user).unwrap();
    }
    let url = format!("{}?sentinel_user={NAME}&sentinel_password={PASSWORD}", set.url());
    let locks = tenure_redis::connect(url).await.unwrap();
    locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    for sentinel in set.sentinels() {
        assert_eq!(refused(sentinel), BTreeSet::new());
    }
}

#[test]
fn the_limited_user_can_do_nothing_else() {
    if !have(&[REDIS]) {
        return;
    }
    for rights in [Rights::Server, Rights::Cluster] {
        let server = limited(rights).start().unwrap();
        let mut admin = server.client().unwrap();
        admin.command(&["SET", "other", "a"]).unwrap();
        for script in SCRIPTS {
            admin.command(&["SCRIPT", "LOAD", script]).unwrap();
        }
        let mut user = server.client().unwrap();
        user.command(&["AUTH", NAME, PASSWORD]).unwrap();
        user.command(&["SET", "tenure:a", "b"]).unwrap();
        for words in FORBIDDEN {
            let answer = user.command(&words.split(' ').collect::<Vec<_>>());
            assert!(answer.as_ref().is_err_and(|it| it.contains("NOPERM")), "{words}: {answer:?}");
        }
        for script in SCRIPTS {
            let hash = admin.command(&["SCRIPT", "LOAD", script]).unwrap().text().unwrap();
            let refused = user.command(&["EVALSHA", &hash, "0"]).unwrap_err();
            assert!(REFUSED_IN_SCRIPTS.iter().any(|it| refused.contains(it)), "{refused}");
        }
        assert_eq!(admin.command(&["GET", "other"]).unwrap().text().unwrap(), "a");
    }
}

const FORBIDDEN: [&str; 30] = [
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "RANDOMKEY",
    "CONFIG SET maxmemory 1",
    "CONFIG GET requirepass",
    "CONFIG REWRITE",
    "SCRIPT FLUSH",
    "SCRIPT KILL",
    "EVAL return 1 0",
    "FUNCTION FLUSH",
    "CLIENT KILL TYPE normal",
    "CLIENT LIST",
    "CLIENT PAUSE 1",
    "DEBUG SLEEP 0",
    "ACL LIST",
    "ACL SETUSER locks +@all",
    "MONITOR",
    "SHUTDOWN NOSAVE",
    "REPLICAOF NO ONE",
    "SAVE",
    "SWAPDB 0 1",
    "SLOWLOG GET",
    "PUBSUB CHANNELS",
    "RENAME tenure:a tenure:b",
    "COPY tenure:a tenure:b",
    "MIGRATE 127.0.0.1 1 tenure:a 0 1",
    "GET other",
    "SET other b",
    "DEL other",
];

const SCRIPTS: [&str; 3] = [
    "return redis.call('FLUSHALL')",
    "return redis.call('GET', 'other')",
    "return redis.call('PUBLISH', 'other', 'a')",
];

/// The texts of servers for a call that a script's user may not make. They differ by version.
const REFUSED_IN_SCRIPTS: [&str; 3] =
    ["NOPERM", "ACL failure in script", "The user executing the script can't"];

/// Takes locks of each kind, counts, looks, and breaks.
async fn use_everything(locks: &Locks) {
    let holder = locks.mutex("a").note("mine").lock().await.unwrap();
    let mutex = locks.mutex("a");
    let waits = async { mutex.lock().await.unwrap() };
    let (waiter, ()) = tokio::join!(waits, async {
        while locks.line("a").await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
        holder.extend().await.unwrap();
        locks.force_unlock("a", holder.id()).await.unwrap();
    });
    assert_eq!(locks.keys("").await.unwrap().len(), 1);
    waiter.release().await.unwrap();
    let reader = locks.rwlock("b").read().await.unwrap();
    reader.release().await.unwrap();
    locks.sequence("c").next().await.unwrap();
    let window = std::time::Duration::from_secs(9);
    let _ = locks.counter("d").window(window).add(1).await.unwrap();
    let _ = locks.counter("d").window(window).add(1).await.unwrap();
}

fn limited(rights: Rights) -> Setup {
    Setup::new().limited_user(NAME, PASSWORD, rights)
}

/// Returns the commands that a line of the README allows.
fn named(rights: Rights) -> BTreeSet<String> {
    let words = rights.words().into_iter();
    words.filter_map(|word| word.strip_prefix('+').map(str::to_owned)).collect()
}

/// Returns the commands that the scripts call, without those of the script file `but`.
fn called_by_scripts(but: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut commands = BTreeSet::new();
    for file in files.filter(|file| !file.ends_with(but)) {
        let text = fs::read_to_string(file).unwrap();
        for call in ["redis.call('", "redis.pcall('"] {
            let after = text.split(call).skip(1);
            let command = |rest: &str| rest.split('\'').next().unwrap().to_lowercase();
            commands.extend(after.map(command));
        }
    }
    commands
}

/// Returns the commands that this server has carried out since it was started.
fn sent(server: &Server) -> BTreeSet<String> {
    let stats = server.command(&["INFO", "commandstats"]).unwrap().text().unwrap();
    let stats = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    let carried_out = stats.filter(|(_, numbers)| !numbers.starts_with("calls=0,"));
    carried_out.map(|(command, _)| command.to_owned()).collect()
}

/// The same, without the commands that only the tests and the server's replica send.
fn sent_by_others(server: &Server) -> BTreeSet<String> {
    let mut sent = sent(server);
    for not_ours in ["ping", "psync", "replconf", "acl|log"] {
        sent.remove(not_ours);
    }
    sent
}

/// Returns the commands that the limited user was refused, without those that may be refused.
fn refused(server: &Server) -> BTreeSet<String> {
    let log = server.command(&["ACL", "LOG"]).unwrap();
    // An entry is a list of names and values.
    let object = |entry: &Reply| {
        let words: Vec<_> = entry.list().unwrap().iter().map(Reply::text).collect();
        let at = words.iter().position(|word| word.as_deref() == Ok("object"));
        words[at.unwrap() + 1].clone().unwrap()
    };
    let all = log.list().unwrap().iter().map(object);
    all.filter(|command| !MAY_BE_REFUSED.contains(&command.as_str())).collect()
}
