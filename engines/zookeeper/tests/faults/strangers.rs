//! Servers that speak ZooKeeper's protocol but are not ZooKeeper.

use std::net::{Ipv4Addr, SocketAddr};

use std::time::{Duration, Instant};

use tenure_core::ErrorKind;
use tenure_servers::Store as _;
use tenure_servers::zookeeper::Ensemble;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::stage::{play, soon};

/// The answer of `ClickHouse` Keeper to the word `srvr`.
const KEEPER: &str = "ClickHouse Keeper version: v23.8.1.2992-stable-1234567\nLatency min/avg/max: 0/0/0\nMode: standalone\n";

/// Starts a server that gives this answer to `srvr`, and passes all other requests to a real
/// server.
async fn pretends(said: &'static str, server: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut word = [0; 4];
                client.read_exact(&mut word).await?;
                if word == *b"srvr" {
                    return client.write_all(said.as_bytes()).await;
                }
                let there = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
                let mut server = TcpStream::connect(there).await?;
                server.write_all(&word).await?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            });
        }
    });
    port
}

#[test]
fn what_only_speaks_the_language_is_refused_by_name() {
    play(1, async |ensemble| {
        let port = pretends(KEEPER, ensemble.servers()[0].port()).await;
        let url = format!("zookeeper://127.0.0.1:{port}");
        let refused = soon("it is answered", tenure_zookeeper::connect(&url)).await;
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        assert!(refused.to_string().contains("is ClickHouse Keeper"), "{refused}");
    });
}

#[test]
fn whoever_listens_and_says_nothing_is_told_to_let_nobody_in() {
    play(1, async |_| {
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let at = silent.local_addr().unwrap();
        let url = format!("zookeeper://{at}?timeout=500ms&connect_timeout=500ms");
        let refused = soon("it is answered", tenure_zookeeper::connect(&url)).await;
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let said = refused.to_string();
        assert!(said.contains(&at.to_string()) && said.contains("no client"), "{said}");
    });
}

#[test]
fn a_server_that_says_nothing_of_itself_is_a_warning() {
    play(1, async |ensemble| {
        let said = "srvr is not executed because it is not in the whitelist.\n";
        let port = pretends(said, ensemble.servers()[0].port()).await;
        let url = format!("zookeeper://127.0.0.1:{port}");
        let locks = soon("it connects", tenure_zookeeper::connect(&url)).await.unwrap();
        let warnings = locks.guarantees().warnings.join(" ");
        assert!(warnings.contains("let it answer `srvr`"), "{warnings}");
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

/// Returns the URL of the servers of all these ensembles.
fn url_of_all(ensembles: &[&Ensemble]) -> String {
    let urls: Vec<_> = ensembles.iter().map(|ensemble| ensemble.url()).collect();
    urls.join(",").replace(",zookeeper://", ",")
}

#[test]
fn servers_that_are_not_one_ensemble_are_refused() {
    play(1, async |alone| {
        let (other, three) = (Ensemble::of(1).unwrap(), Ensemble::of(3).unwrap());
        for all in [vec![&alone, &other], vec![&three, &alone], vec![&alone, &three]] {
            let url = url_of_all(&all);
            // A client begins with any of them.
            for _ in 0..4 {
                let refused = soon("it is refused", refused(&url)).await;
                assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
                let said = refused.to_string();
                assert!(said.contains("are not one ensemble"), "{said}");
                let servers = all.iter().flat_map(|ensemble| ensemble.servers());
                for server in servers {
                    assert!(said.contains(&format!("127.0.0.1:{}", server.port())), "{said}");
                }
            }
        }
        // By themselves they are.
        for ensemble in [&alone, &other, &three] {
            let locks = tenure_zookeeper::connect(ensemble.url()).await.unwrap();
            soon("the sessions that only looked are closed", async {
                while connected(ensemble) > 1 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        }
    });
}

/// Connects until it is refused. A server that is too busy to answer in time is not compared.
async fn refused(url: &str) -> tenure_core::Error {
    loop {
        match tenure_zookeeper::connect(url).await {
            Ok(locks) => locks.close().await,
            Err(error) => return error,
        }
    }
}

/// Returns the number of sessions that are connected to any of these servers.
fn connected(ensemble: &Ensemble) -> usize {
    let said = ensemble.servers().iter().map(|server| server.ask("cons").expect("it answers"));
    said.map(|said| said.matches("sid=").count()).sum()
}

#[test]
fn who_cannot_be_reached_now_is_not_waited_for_and_one_server_may_have_two_names() {
    play(1, async |alone| {
        let other = Ensemble::of(1).unwrap();
        let twice = format!("{},localhost:{}", alone.url(), alone.servers()[0].port());
        tenure_zookeeper::connect(&twice).await.unwrap();
        let url = url_of_all(&[&alone, &other]);
        other.servers()[0].freeze().unwrap();
        let begun = Instant::now();
        let url = format!("{url}?connect_timeout=1s&timeout=1s");
        let locks = soon("it connects", tenure_zookeeper::connect(&url)).await.unwrap();
        println!("it took {:?} to connect", begun.elapsed());
        let warnings = locks.guarantees().warnings.join(" ");
        assert!(warnings.contains("the URL names several servers"), "{warnings}");
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}
