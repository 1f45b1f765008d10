//! The processor time and the requests that a server reports.

use std::time::Duration;

use futures_util::StreamExt as _;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

const THE_END: &str = "that is all";

pub(crate) struct Meter {
    client: redis::Client,
    connection: MultiplexedConnection,
}

impl Meter {
    pub(crate) async fn connect(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { client, connection }
    }

    /// The processor time of the server.
    pub(crate) async fn cpu(&mut self) -> Duration {
        let info = self.info("cpu").await;
        let seconds = |name: &str| -> f64 {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            line.expect("INFO has the processor time").parse().unwrap()
        };
        Duration::from_secs_f64(seconds("used_cpu_user:") + seconds("used_cpu_sys:"))
    }

    /// The number of scripts that the server has run. All contenders renew by scripts.
    pub(crate) async fn scripts(&mut self) -> u64 {
        let info = self.info("commandstats").await;
        let calls = |line: &str| -> Option<u64> {
            let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let is_script = ["eval", "fcall"].iter().any(|script| name.starts_with(script));
            if is_script { numbers.split(',').next()?.parse().ok() } else { None }
        };
        info.lines().filter_map(calls).sum()
    }

    /// The number of keys that match a pattern.
    pub(crate) async fn keys(&mut self, pattern: &str) -> usize {
        let keys = redis::cmd("KEYS").arg(pattern).query_async(&mut self.connection).await;
        keys.map(|keys: Vec<String>| keys.len()).unwrap()
    }

    async fn info(&mut self, section: &str) -> String {
        redis::cmd("INFO").arg(section).query_async(&mut self.connection).await.unwrap()
    }

    /// Counts the requests of clients, without the calls inside a script.
    ///
    /// The server reports every command to the counter, which takes time: do not measure times
    /// meanwhile.
    pub(crate) async fn count(&self) -> Counter {
        let mut monitor = self.client.get_async_monitor().await.unwrap();
        let connection = self.connection.clone();
        let counted = tokio::spawn(async move {
            let mut commands = monitor.on_message::<String>();
            let mut requests = 0;
            while let Some(command) = commands.next().await {
                if command.contains(THE_END) {
                    break;
                }
                // A command looks like this: `1762000000.000000 [0 127.0.0.1:40000] "SET" "k" "v"`.
                let by_a_script = command.split(']').next().is_some_and(|it| it.ends_with(" lua"));
                requests += u64::from(!by_a_script);
            }
            requests
        });
        Counter { counted, connection }
    }
}

/// A running count.
pub(crate) struct Counter {
    counted: JoinHandle<u64>,
    connection: MultiplexedConnection,
}

impl Counter {
    pub(crate) async fn stop(mut self) -> u64 {
        let _: String =
            redis::cmd("ECHO").arg(THE_END).query_async(&mut self.connection).await.unwrap();
        self.counted.await.unwrap()
    }
}
