//! What is refused is told as what it is, and without a password.

use tenure_core::Kind;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::{Store as _, have};

async fn refused(url: &str) -> String {
    let error = tenure_etcd::connect(url).await.map(drop).expect_err("it is refused");
    assert_eq!(error.kind(), Kind::Rejected, "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn users_are_told_what_they_may_not() {
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let cluster = Cluster::with_users(1, "tenure", "locks", "hunter2").unwrap();
    let url = cluster.url();
    let at = url.rsplit('@').next().unwrap();
    tenure_etcd::connect(&url).await.expect("this user may");
    let said = refused(&format!("etcd://locks:hunter2x@{at}")).await;
    assert!(said.contains("does not know this user and password"), "{said}");
    let said = refused(&format!("{url}?prefix=elsewhere")).await;
    assert!(said.contains("does not let this user"), "{said}");
    let said = refused(&format!("etcd://{at}")).await;
    assert!(said.contains("wants a user"), "{said}");
}

#[tokio::test]
async fn members_of_two_clusters_are_refused() {
    if !have(&[ETCD]) {
        return;
    }
    let (one, two) = (Cluster::of(1).unwrap(), Cluster::of(1).unwrap());
    let ports = [&one, &two].map(|cluster| cluster.members()[0].port());
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let locks = tenure_etcd::connect(&url).await.unwrap();
    let guard = locks.mutex("k").lock().await.unwrap();
    for cluster in [&one, &two] {
        cluster.members()[0].kill().unwrap();
        let tried = locks.mutex("other").try_lock().await;
        cluster.members()[0].restart().unwrap();
        // An attempt that was not answered may stand before the refusal.
        if tried.is_err_and(|error| error.to_string().contains("different clusters")) {
            drop(guard);
            return;
        }
    }
    panic!("nobody noticed");
}

#[tokio::test]
async fn certificates_that_nobody_trusts_are_told_with_the_way_out() {
    if !have(&[ETCD]) {
        return;
    }
    let cluster = Cluster::with_tls(1).unwrap();
    let url = cluster.url();
    let (members, options) = url.split_once('?').unwrap();
    let ca = options.split('&').find(|option| option.starts_with("ca=")).unwrap();
    let said = refused(members).await;
    assert!(said.contains("do not trust") && said.contains("`ca=FILE`"), "{said}");
    // Why it lets nobody in, a member does not say.
    let told = tenure_etcd::connect(format!("{members}?{ca}")).await.map(drop).unwrap_err();
    assert!(told.to_string().contains("`cert=FILE` and `key=FILE`"), "{told}");
}

#[tokio::test]
async fn a_file_that_is_not_what_it_should_be_is_named() {
    if !have(&[ETCD]) {
        return;
    }
    let (cluster, other) = (Cluster::with_tls(1).unwrap(), Cluster::with_tls(1).unwrap());
    let (url, stranger) = (cluster.url(), other.url());
    let (members, options) = url.split_once('?').unwrap();
    let file = |options: &str, option: &str| {
        let named = options.split('&').find_map(|it| it.strip_prefix(&format!("{option}=")));
        named.expect("it is there").to_owned()
    };
    let [ca, cert, key] = ["ca", "cert", "key"].map(|option| file(options, option));
    let said = async |ca: &str, cert: &str, key: &str| {
        let url = format!("{members}?ca={ca}&cert={cert}&key={key}");
        let error = tenure_etcd::connect(url).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        error.to_string()
    };
    let swapped = said(&ca, &key, &cert).await;
    let sentence = format!("`cert`: {key} has no certificate in PEM, but a private key");
    assert_eq!(swapped, sentence);
    let no_ca = said("/etc/hostname", &cert, &key).await;
    assert_eq!(no_ca, "`ca`: /etc/hostname has no certificate in PEM");
    let theirs = file(&stranger, "key");
    let mixed = said(&ca, &cert, &theirs).await;
    assert!(mixed.contains(&cert) && mixed.contains(&theirs), "{mixed}");
    let absent = said("/nowhere/ca.pem", &cert, &key).await;
    assert!(absent.starts_with("`ca`: /nowhere/ca.pem cannot be read"), "{absent}");
}
