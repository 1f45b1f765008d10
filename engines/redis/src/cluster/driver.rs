//! The driver's connection to a cluster. It is opened again once its answers cannot be matched to
//! requests any more.

use std::sync::Arc;

use redis::RedisResult;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use tenure_core::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use crate::trouble;

/// One connection to all servers of a cluster.
pub(super) struct ClusterDriver {
    client: ClusterClient,
    /// The runtime of the connection, for all callers.
    home: Handle,
    connection: Mutex<Arc<OnceCell<ClusterConnection>>>,
}

impl ClusterDriver {
    /// Begins with this connection. The client opens later ones.
    pub(super) fn new(connection: ClusterConnection, client: ClusterClient) -> Arc<Self> {
        let connection = Mutex::new(Arc::new(OnceCell::from(connection)));
        Arc::new(Self { client, home: Handle::current(), connection })
    }

    /// Runs a request over the connection. Returns an error if the answers of the connection could
    /// not be matched any more meanwhile.
    pub(super) async fn ask<T, F>(
        &self,
        request: impl FnOnce(ClusterConnection) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let current = self.connection.lock().clone();
        let connection = current.get_or_try_init(|| self.connect()).await?.clone();
        let answer = request(connection).await;
        if Arc::ptr_eq(&current, &self.connection.lock()) { answer } else { Err(trouble::over()) }
    }

    /// Drops the connection: the next request opens another one. The driver ends this one when no
    /// caller waits for its answers any more.
    pub(super) fn distrust(&self) {
        let mut current = self.connection.lock();
        if current.initialized() {
            *current = Arc::default();
        }
    }

    async fn connect(&self) -> RedisResult<ClusterConnection> {
        let client = self.client.clone();
        let made = self.home.spawn(async move { client.get_async_connection().await });
        made.await.unwrap_or_else(|_| Err(trouble::over()))
    }
}
