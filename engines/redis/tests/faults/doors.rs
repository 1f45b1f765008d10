//! There is no way in: each reason is one sentence that names the place, and never a password.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;

use tenure_core::{ErrorKind, Locks, Result};
use tenure_redis::{Pem, Settings, Tls};
use tenure_servers::Certificates;
use tenure_servers::redis::{Cluster, Sentinels, Server, Setup};

use super::stage::{assert_refused, connect, play, soon, until_line};

const SECRET: &str = "s3cret";

/// Asserts that the connection is refused with this kind and these parts of the message.
async fn assert_closed(url: &str, kind: ErrorKind, parts: &[&str]) {
    let answer: Result<Locks> = soon("it is said", tenure_redis::connect(url)).await;
    let error = answer.unwrap_err();
    println!("{kind:?}: {error}");
    let all = format!("{error} {error:?} {error:#?}");
    assert!(!all.contains(SECRET), "{all}");
    assert_refused::<()>(Err(error), kind, parts);
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    play(async || {
        let server = Setup::new().password("right").start().unwrap();
        let port = server.port();
        let at = format!("127.0.0.1:{port}");
        let url = format!("redis://:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Rejected, &[&at, "user and password"]).await;
        assert_closed(&format!("redis://{at}"), ErrorKind::Rejected, &[&at, "password"]).await;
        let url = format!("redis://nobody:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Rejected, &[&at, "user and password"]).await;
        let url = format!("redis://:right@{at}/99");
        assert_closed(
            &url,
            ErrorKind::Rejected,
            &[&at, "has no database 99: name one", "DB index is out of range"],
        )
        .await;
        connect(server.url()).await;
    });
}

#[test]
fn a_cluster_tells_a_wrong_password_as_one_server_does() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        for node in cluster.nodes() {
            node.command(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
        }
        let at = format!("127.0.0.1:{}", cluster.nodes()[0].port());
        let url = format!("redis+cluster://:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Rejected, &[&at, "user and password"]).await;
        let url = format!("redis+cluster://{at}");
        assert_closed(&url, ErrorKind::Rejected, &[&at, "wants a password"]).await;
    });
}

#[test]
fn a_user_without_a_right_is_told_which() {
    play(async || {
        let server = Setup::new().user("clerk", SECRET).start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(locks.guarantees().warnings.is_empty(), "{:?}", locks.guarantees());
        let guard = locks.mutex("a").lock().await.unwrap();
        let waiter = tokio::spawn(async move { other.mutex("a").lock().await });
        until_line(&locks, "a", 2).await;
        guard.release().await.unwrap();
        soon("the waiter is served", waiter).await.unwrap().unwrap().release().await.unwrap();
        assert_eq!(locks.sequence("n").next().await.unwrap(), 1);
        assert!(locks.keys("").await.unwrap().is_empty());
        server.client().unwrap().command(&["ACL", "SETUSER", "clerk", "-set"]).unwrap();
        let refused = locks.mutex("a").lock().await;
        assert_refused(
            refused,
            ErrorKind::Rejected,
            &["127.0.0.1", "does not let this user", "ACL"],
        );
        server
            .client()
            .unwrap()
            .command(&["ACL", "SETUSER", "clerk", "+set", "-subscribe"])
            .unwrap();
        assert_closed(&server.url(), ErrorKind::Rejected, &["does not let this user", "ACL"]).await;
        let blind = ["ACL", "SETUSER", "clerk", "+subscribe", "-info", "-config"];
        server.client().unwrap().command(&blind).unwrap();
        let locks = connect(server.url()).await;
        assert!(!locks.guarantees().survives.full_memory);
        assert_eq!(locks.guarantees().warnings.len(), 1);
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_password_is_in_no_later_error_either() {
    play(async || {
        let server = Setup::new().password(SECRET).start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").lock().await.unwrap();
        server.kill().unwrap();
        let error = locks.mutex("b").try_lock().await.unwrap_err();
        let all = format!("{error} {error:?} {locks:?} {guard:?} {:?}", locks.guarantees());
        assert!(!all.contains(SECRET), "{all}");
        assert!(error.to_string().contains("no server listens at 127.0.0.1"), "{error}");
    });
}

#[test]
fn a_program_connects_with_a_password_and_certificates_from_its_memory() {
    play(async || {
        let server = Setup::new().password(SECRET).mutual_tls().start().unwrap();
        let files = server.certificates().unwrap();
        let memory = |file: PathBuf| Pem::Bytes(fs::read(file).unwrap());
        let settings = Settings::server(format!("localhost:{}", server.tls_port().unwrap()));
        let settings = settings.unwrap().tls(
            Tls::new()
                .ca(memory(files.ca()))
                .identity(memory(files.client()), memory(files.client_key())),
        );
        assert_refused(settings.clone().connect().await, ErrorKind::Rejected, &["password"]);
        let locks = soon("it connects", settings.password(SECRET).connect()).await.unwrap();
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn tls_is_spoken_by_both_or_by_none() {
    play(async || {
        let (plain, tls) = (Server::start().unwrap(), Setup::new().tls().start().unwrap());
        let both = Setup::new().mutual_tls().start().unwrap();
        let strangers = Certificates::new().unwrap();
        let port = |server: &Server| server.tls_port().unwrap();
        let ca = |of: &Certificates| of.ca().display().to_string();
        connect(tls.url()).await;
        connect(both.url()).await;

        let at = format!("127.0.0.1:{}", plain.port());
        let url = format!("rediss://:{SECRET}@{at}?ca={}&timeout=1s", ca(&strangers));
        assert_closed(&url, ErrorKind::Unavailable, &[&at, "does it speak TLS?"]).await;
        let at = format!("127.0.0.1:{}", port(&tls));
        let url = format!("redis://:{SECRET}@{at}?timeout=1s");
        assert_closed(&url, ErrorKind::Unavailable, &[&at, "does it want TLS?"]).await;
        let url = format!("rediss://:{SECRET}@{at}?ca={}", ca(&strangers));
        assert_closed(&url, ErrorKind::Rejected, &[&at, "certificate"]).await;
        let at = format!("127.0.0.1:{}", port(&both));
        let url = format!("rediss://:{SECRET}@{at}?ca={}", ca(both.certificates().unwrap()));
        assert_closed(&url, ErrorKind::Rejected, &[&at, "certificate"]).await;
        let url = format!("rediss://:{SECRET}@{at}?ca=/no/such/file.pem");
        assert_closed(&url, ErrorKind::Invalid, &["/no/such/file.pem"]).await;
        let key = both.certificates().unwrap().client_key().display().to_string();
        let url = format!("rediss://:{SECRET}@{at}?ca={key}");
        assert_closed(&url, ErrorKind::Invalid, &[&key, "no certificate"]).await;
        let cert = strangers.client().display().to_string();
        let ca = ca(both.certificates().unwrap());
        let url = format!("rediss://:{SECRET}@{at}?ca={ca}&cert={cert}&key={key}");
        assert_closed(&url, ErrorKind::Invalid, &[&cert, &key, "KeyMismatch"]).await;
    });
}

#[test]
fn nobody_is_there() {
    play(async || {
        let server = Server::start().unwrap();
        server.kill().unwrap();
        let at = format!("127.0.0.1:{}", server.port());
        let url = format!("redis://:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Unavailable, &["no server listens at", &at]).await;
        let at = "no-such-host.invalid:6379";
        let url = format!("redis://:{SECRET}@{at}");
        let unknown = "cannot be looked up";
        assert_closed(&url, ErrorKind::Unavailable, &[at, unknown, "is the name of the host"])
            .await;
        let url = format!("redis+sentinel://:{SECRET}@{at}/main");
        assert_closed(&url, ErrorKind::Unavailable, &["no sentinel", "main", at, unknown]).await;
        let url = format!("redis+cluster://:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Unavailable, &[at, unknown]).await;
        let url = "redis+unix:///no/such/redis.sock";
        assert_closed(url, ErrorKind::Unavailable, &["/no/such/redis.sock"]).await;
        let at = format!("127.0.0.1:{}", server.port());
        let url = format!("redis+sentinel://:{SECRET}@{at}/main");
        let told = ["no sentinel", "main", &at, "no server listens there", "26379"];
        assert_closed(&url, ErrorKind::Unavailable, &told).await;
        let url = format!("redis+cluster://:{SECRET}@{at}");
        assert_closed(&url, ErrorKind::Unavailable, &["no server listens at", &at]).await;
    });
}

#[test]
fn a_server_and_a_cluster_are_not_taken_for_each_other() {
    play(async || {
        let (alone, cluster) = (Server::start().unwrap(), Cluster::start().unwrap());
        let at = format!("127.0.0.1:{}", alone.port());
        let url = format!("redis+cluster://{at}");
        assert_closed(&url, ErrorKind::Invalid, &[&at, "write redis://"]).await;
        let at = format!("127.0.0.1:{}", cluster.nodes()[0].port());
        let url = format!("redis://{at}");
        assert_closed(&url, ErrorKind::Invalid, &[&at, "write redis+cluster://"]).await;
    });
}

#[test]
fn a_sentinel_keeps_no_locks() {
    play(async || {
        let set = Sentinels::start().unwrap();
        let at = format!("127.0.0.1:{}", set.sentinels()[0].port());
        let way_out = format!("write redis+sentinel://{at}/NAME");
        assert_closed(&format!("redis://{at}"), ErrorKind::Invalid, &["is a sentinel", &way_out])
            .await;
        // Nothing else is wrong with this quorum: of several errors, any may be reported.
        let others = [(); 2].map(|()| Setup::new().start().unwrap());
        let [one, two] = others.each_ref().map(|it| format!("127.0.0.1:{}", it.port()));
        let url = format!("redlock://{at},{one},{two}");
        assert_closed(&url, ErrorKind::Invalid, &["is a sentinel", &way_out]).await;
        let url = format!("redis+cluster://{at}");
        assert_closed(&url, ErrorKind::Invalid, &[&at, "write redis://"]).await;
    });
}

#[test]
fn somebody_else_is_there() {
    play(async || {
        // One service answers like a web server, one hangs up, and one never answers.
        let say = |text: Option<&'static [u8]>, stays: bool| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let at = listener.local_addr().unwrap().to_string();
            std::thread::spawn(move || {
                let mut kept: Vec<TcpStream> = Vec::new();
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    if let Some(text) = text {
                        // The client may have closed the connection.
                        let _ = stream.read(&mut [0; 64]);
                        let _ = stream.write_all(text);
                    }
                    if stays {
                        kept.push(stream);
                    }
                }
            });
            at
        };
        let web = say(Some(b"HTTP/1.1 400 Bad Request\r\n\r\n"), true);
        let terms = "timeout=500ms&connect_timeout=500ms";
        let url = format!("redis://:{SECRET}@{web}?{terms}");
        assert_closed(&url, ErrorKind::Unavailable, &[&web, "not as Redis does"]).await;
        let rude = say(None, false);
        let url = format!("redis://:{SECRET}@{rude}?{terms}");
        assert_closed(&url, ErrorKind::Unavailable, &[&rude]).await;
        let silent = say(None, true);
        for scheme in ["redis", "redis+cluster"] {
            let url = format!("{scheme}://:{SECRET}@{silent}?{terms}");
            assert_closed(&url, ErrorKind::Unavailable, &[&silent]).await;
        }
        let url = format!("redis+sentinel://{silent}/main?{terms}");
        assert_closed(&url, ErrorKind::Unavailable, &[&silent]).await;
    });
}

#[test]
fn whoever_is_silent_is_told_with_the_time_and_the_option() {
    play(async || {
        let server = Server::start().unwrap();
        server.freeze().unwrap();
        let at = format!("127.0.0.1:{}", server.port());
        for scheme in ["redis", "redis+cluster"] {
            let url = format!("{scheme}://:{SECRET}@{at}?connect_timeout=300ms");
            let told = [&at, "came about within 300ms", "`connect_timeout=TIME`"];
            assert_closed(&url, ErrorKind::Unavailable, &told).await;
        }
        let url = format!("redis+sentinel://:{SECRET}@{at}/main?connect_timeout=300ms");
        let told = ["no sentinel", &at, "none answered within 300ms", "`connect_timeout=TIME`"];
        assert_closed(&url, ErrorKind::Unavailable, &told).await;
    });
}
