//! TLS: changed certificate files count from the next connection on.

use std::fs;
use std::path::PathBuf;

use tenure_core::ErrorKind;
use tenure_etcd::{Pem, Settings, Tls};
use tenure_servers::Store as _;
use tenure_servers::etcd::Cluster;

use super::stage::{TTL, at_last, connect, play_on, soon};

#[test]
fn files_that_are_being_replaced_keep_nobody_out_for_good() {
    play_on(
        || Cluster::with_tls(1),
        async |cluster| {
            let (url, member) = (cluster.url(), &cluster.members()[0]);
            let authority =
                url.split(['?', '&']).find_map(|part| part.strip_prefix("ca=")).unwrap();
            let mine = format!("{authority}.mine");
            fs::copy(authority, &mine).unwrap();
            let locks = tenure_etcd::connect(url.replace(authority, &mine)).await.unwrap();
            fs::rename(&mine, format!("{mine}.gone")).unwrap();
            member.kill().unwrap();
            member.restart().unwrap();
            let said = soon("the file is missed", async {
                loop {
                    match locks.mutex("k").try_lock().await {
                        Err(error) if error.to_string().contains("cannot be read") => return error,
                        Err(error) => assert!(error.is_retryable(), "{error}"),
                        Ok(_) => panic!("there is no connection"),
                    }
                }
            });
            assert!(said.await.is_retryable(), "it may be there again in a moment");
            fs::rename(format!("{mine}.gone"), &mine).unwrap();
            let taken =
                at_last("it is there again", async || locks.mutex("k").try_lock().await).await;
            taken.expect("it is free").release().await.unwrap();
        },
    );
}

#[test]
fn a_holder_keeps_its_lock_while_all_certificates_and_their_authority_are_replaced() {
    play_on(
        || Cluster::with_tls(1),
        async |cluster| {
            let (locks, member) = (connect(&cluster).await, &cluster.members()[0]);
            let guard = locks.mutex("held").ttl(TTL * 30).lock().await.unwrap();
            cluster.certificates().expect("it speaks TLS").renew().unwrap();
            // A member reads its own certificate for each connection, and its authorities when it
            // starts.
            member.kill().unwrap();
            member.restart().unwrap();
            let taken = at_last("it is trusted", async || locks.mutex("k").try_lock().await).await;
            taken.expect("it is free").release().await.unwrap();
            guard.check().expect("it is held all the time");
            let next = connect(&cluster).await;
            assert!(next.mutex("held").try_lock().await.unwrap().is_none());
            guard.release().await.unwrap();
        },
    );
}

#[test]
fn a_program_connects_with_a_password_and_certificates_from_its_memory() {
    play_on(
        || Cluster::with_tls(1),
        async |cluster| {
            for words in
                [&["user", "add", "root:secret"][..], &["user", "grant-role", "root", "root"]]
            {
                cluster.ctl(words).unwrap();
            }
            cluster.ctl(&["auth", "enable"]).unwrap();
            let files = cluster.certificates().unwrap();
            let memory = |file: PathBuf| Pem::Bytes(fs::read(file).unwrap());
            let settings =
                Settings::servers([format!("localhost:{}", cluster.members()[0].port())]);
            let settings = settings.unwrap().tls(
                Tls::new()
                    .ca(memory(files.ca()))
                    .identity(memory(files.client()), memory(files.client_key())),
            );
            let wrong = settings.clone().login("root", "wrong");
            at_last("the password is refused", async || match wrong.clone().connect().await {
                Ok(_) => panic!("a wrong password was accepted"),
                Err(error) if error.kind() == ErrorKind::Rejected => Ok(()),
                Err(error) => Err(error),
            })
            .await;
            let settings = settings.login("root", "secret");
            let locks = at_last("it connects", async || settings.clone().connect().await).await;
            let guard = at_last("it locks", async || locks.mutex("k").lock().await).await;
            guard.release().await.unwrap();
        },
    );
}
