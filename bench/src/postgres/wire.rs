//! A connection of the driver, as the engine opens it: without a delay of small packets.

use std::future::poll_fn;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::config::Host;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row};

/// A parameter, with its type. So the statement needs no name, as in the engine.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Opens a connection. Each notification that arrives on it is sent to the receiver.
pub(super) async fn open(url: &str) -> Result<(Client, UnboundedReceiver<()>), String> {
    let config: Config = url.parse().map_err(text)?;
    let [Host::Tcp(host), ..] = config.get_hosts() else { return Err("no host over TCP".into()) };
    let stream = TcpStream::connect((host.as_str(), config.get_ports()[0])).await;
    let stream = stream.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (client, mut connection) = config.connect_raw(stream, NoTls).await.map_err(text)?;
    let (sender, notifications) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                // A contender that does not listen has dropped the receiver.
                let _ = sender.send(());
            }
        }
    });
    Ok((client, notifications))
}

/// Executes a statement without a name.
pub(super) async fn rows(
    client: &Client,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Vec<Row> {
    client.query_typed(statement, parameters).await.unwrap()
}

/// The text of an error, with the message of the server.
#[allow(clippy::needless_pass_by_value, reason = "the form that `map_err` needs")]
pub(super) fn text(error: tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}
