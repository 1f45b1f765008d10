//! Passwords: no server that repeats one has it repeated by an error, whatever the deployment.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use tenure_core::{Error, ErrorKind};
use tenure_redis::RedLock;
use tenure_servers::redis::{Cluster, Sentinels, Server, Setup};

use super::stage::{connect, play, soon};

const SECRET: &str = "s3cret-of-the-house";
/// Longer than the text that a server repeats before it cuts it.
const LONG_SECRET: &str = "s3cret-of-the-house-0123456789-0123456789-0123456789-0123456789-\
    0123456789-0123456789-0123456789-0123456789-0123456789-0123456789";
/// The part of the password that no output may contain, because a part is a hint.
const PART: &str = "s3cr";

/// Everything that a program could print of an error.
#[track_caller]
fn assert_untold(error: &Error) {
    let mut all = format!("{error} {error:?} {error:#?}");
    let mut source = StdError::source(error);
    while let Some(cause) = source {
        write!(all, " {cause} {cause:?} {cause:#?}").unwrap();
        source = cause.source();
    }
    println!("{all}");
    assert!(!all.contains(PART), "{all}");
}

async fn refused_at(url: &str) -> Error {
    let error = if url.starts_with("redlock") {
        soon("it is said", RedLock::open(url)).await.map(drop).unwrap_err()
    } else {
        soon("it is said", tenure_redis::connect(url)).await.map(drop).unwrap_err()
    };
    assert_untold(&error);
    error
}

/// A server that has no command of this name, and repeats its arguments in the error.
fn without(command: &str) -> Setup {
    Setup::new().setting(&["rename-command", command, ""])
}

#[test]
fn a_server_that_repeats_the_password_has_it_repeated_by_no_error() {
    play(async || {
        let plain = without("HELLO").start().unwrap();
        let tls = without("HELLO").tls().start().unwrap();
        let masters: Vec<Server> = (0..3).map(|_| without("HELLO").start().unwrap()).collect();
        let host = |server: &Server| format!("127.0.0.1:{}", server.port());
        let redlock = masters.iter().map(host).collect::<Vec<_>>().join(",");
        let ca = tls.certificates().unwrap().ca().display().to_string();
        let tls_at = format!("127.0.0.1:{}", tls.tls_port().unwrap());
        for secret in [SECRET, LONG_SECRET] {
            for login in [format!(":{secret}@"), format!("clerk:{secret}@")] {
                for url in [
                    format!("redis://{login}{}", host(&plain)),
                    format!("rediss://{login}{tls_at}?ca={ca}"),
                    format!("redis+cluster://{login}{}", host(&plain)),
                    format!("redis+sentinel://{login}{}/main", host(&plain)),
                    format!(
                        "redis+sentinel://{login}{}/main?sentinel_user=clerk&sentinel_password={secret}",
                        host(&plain)
                    ),
                    format!("redlock://{login}{redlock}"),
                ] {
                    refused_at(&url).await;
                }
            }
        }
    });
}

#[test]
fn a_cluster_and_a_master_behind_sentinels_that_repeat_the_password_are_not_quoted() {
    play(async || {
        let cluster = Cluster::of(&without("HELLO"), 0).unwrap();
        let url = cluster.url().replace("://", &format!("://clerk:{SECRET}@"));
        refused_at(&url).await;
        let sentinels = Sentinels::over(&without("HELLO"), 0).unwrap();
        let url = sentinels.url().replace("://", &format!("://:{SECRET}@"));
        refused_at(&url).await;
    });
}

#[test]
fn a_stranger_that_repeats_all_it_hears_is_not_quoted() {
    play(async || {
        // The service answers each line with errors that contain the line.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut heard = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut heard) {
                        let words = String::from_utf8_lossy(&heard[..count]).replace("\r\n", " ");
                        for begins in ["-ERR", "-WRONGPASS", "-NOPERM", "-ODD"] {
                            if stream.write_all(format!("{begins} {words}\r\n").as_bytes()).is_err()
                            {
                                return;
                            }
                        }
                    }
                });
            }
        });
        for secret in [SECRET, "s3cr", "S3CRET-s3cret"] {
            for scheme in ["redis", "redis+cluster"] {
                refused_at(&format!("{scheme}://clerk:{secret}@{at}?timeout=500ms")).await;
            }
            let url = format!("redis+sentinel://clerk:{secret}@{at}/main?timeout=500ms");
            refused_at(&format!("{url}&sentinel_user=a&sentinel_password={secret}")).await;
        }
    });
}

#[test]
fn a_password_that_is_refused_later_is_not_told_either() {
    play(async || {
        let server = Setup::new().password(SECRET).start().unwrap();
        let locks = connect(server.url()).await;
        let mut admin = server.client().unwrap();
        admin.command(&["CONFIG", "SET", "requirepass", "another"]).unwrap();
        for kind in ["normal", "pubsub"] {
            admin.command(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
        }
        let error = locks.mutex("a").lock().await.unwrap_err();
        // Where the killed connection had taken the call already, its outcome stays unknown.
        assert!(matches!(error.kind(), ErrorKind::Rejected | ErrorKind::Unavailable), "{error}");
        assert!(error.to_string().contains("user and password"), "{error}");
        assert_untold(&error);
    });
}
