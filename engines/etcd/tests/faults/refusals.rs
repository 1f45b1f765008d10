//! Refusals are reported with their reason, and without a password.

use std::net::Ipv4Addr;

use tenure_core::ErrorKind;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::{Store as _, have};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn refused(url: &str) -> String {
    let error = tenure_etcd::connect(url).await.map(drop).expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
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
    let said = refused(&url).await;
    assert!(said.contains("different clusters: name those of one"), "{said}");
    // One that cannot be reached when the client begins is looked at later.
    two.members()[0].kill().unwrap();
    let locks = tenure_etcd::connect(&url).await.unwrap();
    two.members()[0].restart().unwrap();
    let guard = locks.mutex("k").lock().await.unwrap();
    for cluster in [&one, &two] {
        cluster.members()[0].kill().unwrap();
        let tried = locks.mutex("other").try_lock().await;
        cluster.members()[0].restart().unwrap();
        // An attempt that was not answered may stand before the refusal.
        if let Err(error) = tried
            && error.to_string().contains("different clusters")
        {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "the other may come back: {error}");
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
    assert!(said.contains("UnknownIssuer") && said.contains("`ca=FILE`"), "{said}");
    let other = Cluster::with_tls(1).unwrap();
    let other = other.url();
    let theirs: Vec<_> = other.split(['?', '&']).skip(1).collect();
    let their_ca = theirs.iter().find_map(|option| option.strip_prefix("ca=")).unwrap();
    let said = refused(&format!("{members}?ca={their_ca}")).await;
    assert!(said.contains("certificate") && said.contains("`ca=FILE`"), "{said}");
    // A member does not always give the reason for which it refuses a connection.
    let told = tenure_etcd::connect(format!("{members}?{ca}")).await.map(drop).unwrap_err();
    assert!(told.to_string().contains("`cert=FILE` and `key=FILE`"), "{told}");
    let mine: Vec<_> = theirs.into_iter().filter(|option| !option.starts_with("ca=")).collect();
    let url = format!("{members}?{ca}&{}", mine.join("&"));
    let told = tenure_etcd::connect(url).await.map(drop).unwrap_err().to_string();
    // With its reason, or without.
    assert!(told.contains("`cert=FILE` and `key=FILE`") || told.contains("`cert`"), "{told}");
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
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    let swapped = said(&ca, &key, &cert).await;
    let sentence = format!("`cert`: {key} has no certificate in PEM, but a private key");
    assert_eq!(swapped, sentence);
    let no_ca = said("/etc/hostname", &cert, &key).await;
    assert_eq!(no_ca, "`ca`: /etc/hostname has no certificate in PEM");
    let theirs = file(&stranger, "key");
    let mixed = said(&ca, &cert, &theirs).await;
    let sentence = format!(
        "`ca` {ca}, `cert` {cert}, `key` {theirs} cannot be used for TLS: keys may not be consistent: KeyMismatch"
    );
    assert_eq!(mixed, sentence);
    let absent = said("/nowhere/ca.pem", &cert, &key).await;
    assert!(absent.starts_with("`ca`: /nowhere/ca.pem cannot be read"), "{absent}");
}

async fn unavailable(url: &str) -> String {
    let error = tenure_etcd::connect(url).await.map(drop).expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    error.to_string()
}

/// Starts another service, which runs `serve` for each client. It ends with the test's runtime.
async fn service<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    port
}

/// A service that waits for a request, and then sends these bytes.
async fn says(words: &'static [u8]) -> u16 {
    let answer = move |mut stream: TcpStream| async move {
        // The client may have closed the connection at any of these steps.
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(words).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    service(answer).await
}

#[tokio::test]
async fn another_service_at_the_port_is_told_with_the_way_out() {
    let echo = service(async |mut stream: TcpStream| {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await; // The client may hang up.
    })
    .await;
    let http = says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
    let redis = says(b"-ERR unknown command 'PRI'\r\n").await;
    for port in [echo, http, redis] {
        let said = unavailable(&format!("etcd://127.0.0.1:{port}")).await;
        let sentence = format!(
            "a server answers at 127.0.0.1:{port}, and not as etcd does: name the port of etcd's clients, which is 2379 by default, or write etcds:// if it is one that wants TLS"
        );
        assert_eq!(said, sentence);
        let said = unavailable(&format!("etcds://127.0.0.1:{port}")).await;
        assert!(said.contains("not by TLS: write etcd://"), "{said}");
    }
    let rude = service(async |mut stream: TcpStream| {
        let _ = stream.read(&mut [0; 1024]).await; // The service hangs up in any case.
    })
    .await;
    let said = unavailable(&format!("etcd://127.0.0.1:{rude}")).await;
    assert!(said.contains("if it wants TLS, write etcds://"), "{said}");
    let said = unavailable(&format!("etcds://127.0.0.1:{rude}")).await;
    assert!(said.contains("without it, write etcd://"), "{said}");
}

#[tokio::test]
async fn a_member_that_wants_tls_is_told_with_its_scheme() {
    if !have(&[ETCD]) {
        return;
    }
    let (tls, plain) = (Cluster::with_tls(1).unwrap(), Cluster::of(1).unwrap());
    let [secure, open] = [&tls, &plain].map(|cluster| cluster.members()[0].port());
    let said = unavailable(&format!("etcd://127.0.0.1:{secure}")).await;
    assert!(said.contains("write etcds://"), "{said}");
    let said = unavailable(&format!("etcds://127.0.0.1:{open}")).await;
    assert!(said.contains("write etcd://"), "{said}");
}

#[tokio::test]
async fn a_member_that_stands_still_is_told_as_one_that_listens() {
    if !have(&[ETCD]) {
        return;
    }
    let cluster = Cluster::of(1).unwrap();
    let member = &cluster.members()[0];
    let url = format!("{}?timeout=300ms&connect_timeout=300ms", cluster.url());
    let locks = tenure_etcd::connect(&url).await.unwrap();
    member.freeze().unwrap();
    let said = unavailable(&url).await;
    let sentence = format!(
        "something listens at 127.0.0.1:{}, and does not answer within 300ms: is the member stopped or overloaded, or is it another service's port? `connect_timeout=TIME` waits longer",
        member.port()
    );
    assert_eq!(said, sentence);
    let said = locks.line("k").await.map(drop).unwrap_err().to_string();
    assert!(said.contains("connect_timeout=TIME") || said.contains("`timeout=TIME`"), "{said}");
    member.thaw().unwrap();
}
