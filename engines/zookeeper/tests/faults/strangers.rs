//! What only speaks ZooKeeper's language.

use std::net::{Ipv4Addr, SocketAddr};

use tenure_core::Kind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::stage::{play, soon};

/// What `ClickHouse` Keeper says of itself.
const KEEPER: &str = "ClickHouse Keeper version: v23.8.1.2992-stable-1234567\nLatency min/avg/max: 0/0/0\nMode: standalone\n";

/// A server that says this of itself and is a true one for all else.
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
        assert_eq!(refused.kind(), Kind::Rejected, "{refused}");
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
        assert_eq!(refused.kind(), Kind::Unavailable, "{refused}");
        let said = refused.to_string();
        assert!(said.contains(&at.to_string()) && said.contains("let nobody in"), "{said}");
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
