//! A connection of the engine's driver, with statements as text, as the engine sends them.

use tenure_mysql::mysql_async::prelude::{FromRow, Queryable as _};
use tenure_mysql::mysql_async::{Conn, Error, Opts, OptsBuilder};
use tokio::sync::Mutex;

/// A connection that tasks use one after the other.
pub(super) struct Wire(Mutex<Conn>);

impl Wire {
    /// Opens a connection to the server of this URL of Tenure.
    pub(super) async fn open(url: &str) -> Result<Self, String> {
        let url = url.replacen("mariadb:", "mysql:", 1);
        let options = OptsBuilder::from_opts(Opts::from_url(&url).map_err(text)?);
        let options = options.client_found_rows(true).prefer_socket(false);
        Ok(Self(Mutex::new(Conn::new(options).await.map_err(text)?)))
    }

    /// Returns the number of the connection, by which `KILL` names it.
    pub(super) async fn id(&self) -> u32 {
        self.0.lock().await.id()
    }

    /// Executes a statement, and returns the number of rows that it found.
    pub(super) async fn write(&self, statement: impl AsRef<str>) -> u64 {
        let mut connection = self.0.lock().await;
        connection.query_drop(statement.as_ref()).await.unwrap();
        connection.affected_rows()
    }

    /// Returns the first row of a query.
    pub(super) async fn row<T: FromRow + Send + 'static>(
        &self,
        query: impl AsRef<str>,
    ) -> Result<Option<T>, Error> {
        self.0.lock().await.query_first(query.as_ref()).await
    }
}

/// The text of an error.
#[allow(clippy::needless_pass_by_value, reason = "the form that `map_err` needs")]
pub(super) fn text(error: impl ToString) -> String {
    error.to_string()
}
