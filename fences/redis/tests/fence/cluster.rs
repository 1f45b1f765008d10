//! A Cluster of three nodes: a fence is in the slot of its data, or refuses the data.

use std::time::{Duration, Instant};

use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use tenure_fence_redis::FencedScript;

use super::*;

/// Number of slots of a Cluster.
const SLOTS: u16 = 16_384;
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    fn start() -> Option<Self> {
        let settings = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "yes"];
        let nodes: Vec<Server> = (0..3).map(|_| Server::start(&settings)).collect::<Option<_>>()?;
        Some(Self { nodes })
    }

    /// Assigns a third of the slots to each node, and waits until all nodes agree.
    async fn form(&self) -> ClusterConnection {
        let mut conns = Vec::new();
        for (node, third) in self.nodes.iter().zip(0..3_u16) {
            let mut conn = node.connect().await;
            let (from, to) =
                (SLOTS / 3 * third, if third == 2 { SLOTS } else { SLOTS / 3 * (third + 1) });
            let add = redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(from).arg(to - 1).clone();
            add.query_async::<()>(&mut conn).await.unwrap();
            let numbered = redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(third + 1).clone();
            numbered.query_async::<()>(&mut conn).await.unwrap();
            conns.push(conn);
        }
        for node in &self.nodes[1..] {
            let mut meet = redis::cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(node.port()).arg(node.bus());
            meet.query_async::<()>(&mut conns[0]).await.unwrap();
        }
        let start = Instant::now();
        for conn in &mut conns {
            loop {
                let info: String =
                    redis::cmd("CLUSTER").arg("INFO").query_async(conn).await.unwrap();
                if info.contains("cluster_state:ok") && info.contains("cluster_size:3") {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "the nodes do not agree: {info}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let urls = self.nodes.iter().map(Server::url);
        let client = ClusterClient::builder(urls).response_timeout(PATIENCE).build().unwrap();
        client.get_async_connection().await.unwrap()
    }
}

#[test]
fn a_fence_lives_where_its_data_is() {
    let Some(cluster) = Cluster::start() else { return };
    block_on(async {
        let mut conn = cluster.form().await;
        let script = FencedScript::new(
            "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[2])",
        )
        .unwrap();
        for name in [
            "a",
            "b",
            "c",
            "d",
            "{invoices}",
            "x{invoices}y",
            "a}b",
            "{}x",
            "}{",
            "\0",
            "{\0}",
            "锁",
            "{锁}",
        ] {
            let fence = Fence::new(name).unwrap();
            let beside = name.contains("{invoices}").then(|| "{invoices}:next".to_owned());
            let beside = beside.unwrap_or_else(|| name.to_owned());
            fence.claim(&mut conn, numbered(1)).await.unwrap();
            fence.set(&mut conn, name, "v", numbered(2)).await.unwrap();
            fence.set(&mut conn, &beside, "v", numbered(2)).await.unwrap();
            let keys = [name, &beside];
            let back: String =
                fence.run(&mut conn, &script, &keys, "w", numbered(2)).await.unwrap();
            assert_eq!(back, if name == beside { "w" } else { "v" });
            assert_stale(fence.set(&mut conn, name, "late", numbered(1)).await, 1, 2);
            assert_stale(
                fence.run::<()>(&mut conn, &script, &keys, "late", numbered(1)).await,
                1,
                2,
            );
            assert!(fence.delete(&mut conn, name, numbered(3)).await.unwrap());
        }

        let fence = Fence::new("{invoices}").unwrap();
        let own = "{invoices}:next";
        fence.set(&mut conn, own, "v", numbered(5)).await.unwrap();
        for keys in [vec!["receipts"], vec![own, "receipts"]] {
            let answer = fence.run::<()>(&mut conn, &script, keys, "w", numbered(6)).await;
            assert_failed(
                answer,
                ErrorKind::Invalid,
                "`{invoices}` cannot guard the key `receipts`",
            );
        }
        assert_stale(fence.set(&mut conn, own, "late", numbered(4)).await, 4, 5);
        assert_failed(
            fence.delete(&mut conn, "receipts", numbered(6)).await,
            ErrorKind::Invalid,
            "hash slot",
        );

        // A connection to one node is refused by the two nodes without the slot.
        let mut refusals = 0;
        for node in &cluster.nodes {
            let mut one = node.connect().await;
            if let Err(error) = fence.claim(&mut one, numbered(5)).await {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                assert!(error.to_string().contains("use a Cluster connection"), "{error:?}");
                refusals += 1;
            }
        }
        assert_eq!(refusals, 2);
    });
}
