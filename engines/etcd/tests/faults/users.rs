//! Users: a password check costs a member much, so clients ask for it as rarely as possible. No
//! error contains a password.

use std::net::Ipv4Addr;

use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, Member};
use tokio::net::TcpListener;

use super::between::Between;
use super::network::proxy_to;
use super::stage::{at_last, play_on};

const SECRET: &str = "hunter2-and-more";

fn with_users() -> tenure_servers::Result<Cluster> {
    Cluster::with_users(1, "tenure", "locks", SECRET)
}

/// Returns how often a member has checked the password of an engine.
fn checks(member: &Member) -> u64 {
    member.requests("Authenticate")
}

#[test]
fn a_connection_that_is_made_anew_has_no_password_checked() {
    play_on(with_users, async |cluster| {
        let (proxy, member) = (proxy_to(&cluster), &cluster.members()[0]);
        let before = checks(member);
        let url = format!("etcd://locks:{SECRET}@127.0.0.1:{}", proxy.port());
        let locks = tenure_etcd::connect(url).await.unwrap();
        for _ in 0..5 {
            proxy.cut();
            let again = at_last("it is back", async || locks.mutex("k").try_lock().await).await;
            again.expect("it is free").release().await.unwrap();
        }
        assert!(proxy.counts().connections > 5, "each cut took another connection");
        assert_eq!(checks(member) - before, 1);
    });
}

#[test]
fn a_member_that_forgot_a_client_checks_one_password_for_all_its_callers() {
    play_on(with_users, async |cluster| {
        let (locks, member) = (super::stage::connect(&cluster).await, &cluster.members()[0]);
        let guard = locks.mutex("held").lock().await.unwrap();
        member.kill().unwrap();
        member.restart().unwrap();
        let before = checks(member);
        let callers = (0..40).map(async |caller| {
            let mutex = locks.mutex(format!("k{caller}"));
            let taken = at_last("it is back", async || mutex.try_lock().await).await;
            taken.expect("it is free").release().await.unwrap();
        });
        join_all(callers).await;
        let checks = checks(member) - before;
        println!("{checks} passwords were checked for 40 callers");
        assert!(checks <= 2, "{checks} passwords were checked");
        guard.check().expect("it is held all the time");
    });
}

#[test]
fn who_is_known_goes_on_when_users_and_roles_change() {
    play_on(with_users, async |cluster| {
        let locks = super::stage::connect(&cluster).await;
        let guard = locks.mutex("held").lock().await.unwrap();
        for number in 0..3 {
            cluster.ctl(&["role", "add", &format!("role{number}")]).unwrap();
            let mutex = locks.mutex("k");
            let taken = at_last("it goes on", async || mutex.try_lock().await).await;
            taken.expect("it is free").release().await.unwrap();
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn a_member_that_tells_root_alone_what_it_is_serves_whoever_may_write() {
    play_on(with_users, async |cluster| {
        let between = Between::of(&cluster).await;
        between.forbid("Status");
        let url = |secret: &str| between.url().replace("://", &format!("://locks:{secret}@"));
        let locks = tenure_etcd::connect(url(SECRET)).await.unwrap();
        let told = &locks.guarantees().warnings;
        assert!(!told.iter().any(|warning| warning.contains("not known")), "{told:?}");
        let guard = locks.mutex("k").lock().await.unwrap();
        // A restarted member may have forgotten the client's login. The client learns of that with
        // its next request, and logs in again.
        cluster.members()[0].kill().unwrap();
        cluster.members()[0].restart().unwrap();
        let others = at_last("it goes on", async || locks.mutex("k").try_lock().await).await;
        assert!(others.is_none(), "it is held");
        guard.release().await.unwrap();
        // A user without the right to write still gets the error that says so.
        let elsewhere = format!("{}?prefix=elsewhere", url(SECRET));
        let error = tenure_etcd::connect(elsewhere).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("does not let this user"), "{error}");
    });
}

/// Answers every request with an error that repeats the request.
async fn repeat(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let asked = request.into_body().collect().await?.to_bytes();
    let said: String = asked.iter().map(|&byte| char::from(byte)).collect();
    let said: String = said.chars().filter(char::is_ascii_graphic).collect();
    let answer = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", "3")
        .header("grpc-message", said);
    Ok(answer.body(Empty::new()).expect("these are headers"))
}

#[tokio::test]
async fn a_stranger_that_repeats_the_password_has_it_repeated_by_no_error() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stranger = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service_fn(repeat)));
        }
    });
    for secret in [SECRET, "s"] {
        let url = format!("etcd://locks:{secret}@127.0.0.1:{port}?timeout=500ms");
        let error = tenure_etcd::connect(url).await.map(drop).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        println!("{error}");
    }
    stranger.abort();
}

#[test]
fn a_user_who_is_taken_away_later_is_told_without_the_password() {
    play_on(with_users, async |cluster| {
        let locks = super::stage::connect(&cluster).await;
        assert!(cluster.url().contains(SECRET));
        cluster.ctl(&["user", "delete", "locks"]).unwrap();
        cluster.members()[0].kill().unwrap();
        cluster.members()[0].restart().unwrap();
        let error = loop {
            match locks.mutex("k").lock().await {
                Err(error) if !error.is_retryable() => break error,
                Err(error) => assert!(!format!("{error:?}").contains("hunter2"), "{error:?}"),
                Ok(_) => panic!("the user is gone"),
            }
        };
        assert!(error.to_string().contains("user and password"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    });
}
