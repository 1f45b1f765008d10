//! TLS: a client that is not trusted gets an error that says how to go on. Held locks outlive the
//! server.

use std::fs;

use tenure_core::{ErrorKind, Loss};
use tenure_servers::Store as _;
use tenure_servers::zookeeper::Ensemble;
use tenure_zookeeper::{AclOwner, Pem, Settings, Tls};

use super::stage::{TTL, at_last, play_on, soon, until_line};

/// Returns the servers of a URL, and its options.
fn parts(url: &str) -> (&str, Vec<&str>) {
    let (servers, options) = url.split_once('?').unwrap();
    (servers, options.split('&').collect())
}

async fn refused(url: &str) -> (ErrorKind, String) {
    let error = tenure_zookeeper::connect(url).await.map(drop).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn certificates_that_nobody_trusts_are_told_with_the_way_out() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let (url, other) = (ensemble.url(), Ensemble::with_tls().unwrap());
        let (servers, ours) = parts(&url);
        let theirs = other.url();
        let (_, theirs) = parts(&theirs);
        for (options, means) in [
            (vec![theirs[0], ours[1], ours[2]], "`ca=FILE`"),
            (vec![ours[0]], "`cert=FILE` and `key=FILE`"),
            (vec![ours[0], theirs[1], theirs[2]], "does not accept the certificate of this client"),
        ] {
            let (kind, said) = refused(&format!("{servers}?{}", options.join("&"))).await;
            assert_eq!(kind, ErrorKind::Rejected, "{said}");
            assert!(said.contains(means), "{said}");
        }
        // The engine finds a key that does not belong to the certificate before it connects.
        let (kind, said) =
            refused(&format!("{servers}?{}&{}&{}", ours[0], ours[1], theirs[2])).await;
        assert_eq!(kind, ErrorKind::Invalid, "{said}");
        assert!(said.contains("KeyMismatch"), "{said}");
    });
}

#[test]
fn a_port_without_tls_is_told_from_one_with_it() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let url = ensemble.url();
        let (_, options) = parts(&url);
        let [plain, secure] =
            [ensemble.servers()[0].port(), ensemble.servers()[0].secure_port().unwrap()];
        let (_, said) =
            refused(&format!("zookeepers://127.0.0.1:{plain}?{}", options.join("&"))).await;
        assert!(said.contains("write zookeeper://"), "{said}");
        let (_, said) = refused(&format!("zookeeper://127.0.0.1:{secure}")).await;
        assert!(said.contains("write zookeepers://"), "{said}");
    });
}

#[test]
fn what_is_held_by_tls_outlives_the_server_and_is_handed_over() {
    play_on(Ensemble::with_tls, async |ensemble| {
        // The login goes with each new connection.
        let url = ensemble.url().replacen("://", "://locks:hunter2@", 1);
        let [one, two] = [&url, &url].map(tenure_zookeeper::connect);
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        assert!(
            !one.guarantees().warnings.iter().any(|said| said.contains("version")),
            "it is asked by TLS, too"
        );
        let held = one.mutex("k").ttl(TTL * 8).lock().await.unwrap();
        let waits = tokio::spawn(async move { two.mutex("k").ttl(TTL * 8).lock().await });
        until_line(&one, "k", 2).await;
        ensemble.servers()[0].kill().unwrap();
        ensemble.servers()[0].restart().unwrap();
        at_last("it is still held", async || one.line("k").await).await;
        held.check().unwrap();
        let token = held.token();
        held.release().await.unwrap();
        let next = waits.await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    });
}

#[test]
fn many_who_log_in_at_once_are_let_in_however_the_server_orders_its_answers() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let url = ensemble.url();
        let plain = format!("zookeeper://127.0.0.1:{}", ensemble.servers()[0].port());
        for (place, options) in [url.split_once('?').unwrap(), (plain.as_str(), "prefix=plain")] {
            // On a busy machine, all these handshakes take longer than the default timeout.
            let url = format!(
                "{}?{options}&timeout=20s&connect_timeout=20s",
                place.replacen("://", "://locks:hunter2@", 1)
            );
            let one = |_| {
                let url = url.clone();
                tokio::spawn(async move {
                    let locks = tenure_zookeeper::connect(url).await?;
                    locks.mutex("k").lock().await?.release().await
                })
            };
            for (caller, ended) in (0..40).map(one).collect::<Vec<_>>().into_iter().enumerate() {
                ended.await.unwrap().unwrap_or_else(|error| panic!("{caller} at {place}: {error}"));
            }
        }
    });
}

#[test]
fn one_server_whose_certificate_is_wrong_refuses_nobody_for_the_others() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let (url, other) = (ensemble.url(), Ensemble::with_tls().unwrap());
        let stranger = other.servers()[0].secure_port().unwrap();
        let server = &ensemble.servers()[0];
        let url = url.replacen("://", &format!("://127.0.0.1:{stranger},"), 1);
        server.freeze().unwrap();
        let (kind, said) = refused(&url).await;
        assert_eq!(kind, ErrorKind::Unavailable, "the other one may come back: {said}");
        assert!(said.contains(&stranger.to_string()), "{said}");
        server.thaw().unwrap();
        let locks = at_last("one answers", async || tenure_zookeeper::connect(&url).await).await;
        at_last("it locks", async || locks.mutex("k").lock().await?.release().await).await;
    });
}

#[test]
fn files_that_are_being_replaced_keep_nobody_out_for_good() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let url = ensemble.url();
        let (servers, options) = parts(&url);
        let file = |option: &str| std::path::PathBuf::from(option.split_once('=').unwrap().1);
        let (cert, key) = (file(options[1]), file(options[2]));
        let mine = key.with_extension("mine");
        std::fs::copy(&key, &mine).unwrap();
        let options = format!("{}&cert={}&key={}", options[0], cert.display(), mine.display());
        let locks = tenure_zookeeper::connect(format!("{servers}?{options}")).await.unwrap();
        // Each ttl has a session of its own.
        let gone = key.with_extension("gone");
        std::fs::rename(&mine, &gone).unwrap();
        let error = locks.mutex("k").ttl(TTL * 2).lock().await.map(drop).unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("cannot be read"), "{error}");
        std::fs::rename(&gone, &mine).unwrap();
        let guard =
            at_last("it is there again", async || locks.mutex("k").ttl(TTL * 2).lock().await);
        guard.await.release().await.unwrap();
    });
}

#[test]
fn certificates_of_another_authority_cost_the_locks_that_are_held_and_no_restart_of_a_client() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let (other, url) = (Ensemble::with_tls().unwrap(), ensemble.url());
        let locks = tenure_zookeeper::connect(&url).await.unwrap();
        let held = locks.mutex("k").ttl(TTL * 2).lock().await.unwrap();
        let theirs = other.url();
        for (ours, theirs) in parts(&url).1.into_iter().zip(parts(&theirs).1) {
            let [ours, theirs] = [ours, theirs].map(|option| option.split_once('=').unwrap().1);
            std::fs::copy(theirs, ours).unwrap();
        }
        let [server, theirs] = [&ensemble, &other].map(|of| &of.servers()[0]);
        let [ours, theirs] = [server, theirs].map(|of| of.folder().join("server-and-key.pem"));
        std::fs::copy(theirs, ours).unwrap();
        server.kill().unwrap();
        server.restart().unwrap();
        // A session trusts the authority that it began with. The next one reads the files.
        let loss = soon("the holder is told", held.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        let next = at_last("it locks", async || locks.mutex("k").ttl(TTL * 2).lock().await).await;
        assert!(next.token() > held.token());
        next.release().await.unwrap();
    });
}

#[test]
fn a_program_connects_with_a_password_and_certificates_from_its_memory() {
    play_on(Ensemble::with_tls, async |ensemble| {
        let url = ensemble.url();
        let (_, options) = parts(&url);
        let [ca, cert, key] = [0, 1, 2].map(|at| {
            let (_, file) = options[at].split_once('=').unwrap();
            Pem::Bytes(fs::read(file).unwrap())
        });
        let port = ensemble.servers()[0].secure_port().unwrap();
        let settings = Settings::servers([format!("localhost:{port}")]).unwrap();
        let settings = settings.tls(Tls::new().ca(ca).identity(cert, key)).login("me", "secret");
        let settings = settings.acl(AclOwner::Creator).unwrap();
        let locks = at_last("it connects", async || settings.clone().connect().await).await;
        let guard = at_last("it locks", async || locks.mutex("k").lock().await).await;
        // The nodes belong to that user and that certificate.
        let stranger = format!("zookeeper://127.0.0.1:{}", ensemble.servers()[0].port());
        let stranger = soon("it is refused", tenure_zookeeper::connect(stranger)).await.map(drop);
        assert_eq!(stranger.unwrap_err().kind(), ErrorKind::Rejected);
        guard.release().await.unwrap();
    });
}
