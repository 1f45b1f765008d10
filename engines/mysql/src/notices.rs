//! Notices between clients: rows of a table, and `KILL QUERY` for the statement that awaits them.
//!
//! A write that changes the ticket of another client inserts a notice in its own transaction. After
//! the commit it ends the sleep of that client. A sleep that it may not end is over within
//! [`SLEEP_MAX`].

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error as SqlError};
use tenure_core::{Backoff, Result};
use tenure_kit::Link;
use tenure_record::{Inbox, NOTICES_MAX, RecordNotice};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::connection::{connect_primary, drop_elsewhere};
use crate::primary::MysqlPrimary;
use crate::sql::{NOTICE_BYTES, Procedures};
use crate::trouble;

/// Longest sleep of a statement that waits for notices. It is half as long at least, by jitter.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The sleeps, one after the other.
const SLEEPS: Backoff = Backoff::new(SLEEP_MAX, SLEEP_MAX);
/// The answer of a statement that slept to its end.
const SLEPT: u64 = 0;

/// Notices as `write_1` reads them: texts of one length, one behind the other.
pub(crate) fn texts(notices: &[RecordNotice]) -> Vec<u8> {
    notices
        .iter()
        .flat_map(|it| format!("{it:<0$}", NOTICE_BYTES, it = it.to_string()).into_bytes())
        .collect()
}

/// Listens over a connection of its own. Returns once it reads each notice that is committed from
/// then on.
pub(crate) async fn listen(
    link: &Link<MysqlPrimary>,
    statements: Arc<Procedures>,
    inbox: Inbox,
) -> Result<mpsc::Receiver<RecordNotice>> {
    let settings = &link.server().settings;
    let (mut connection, _) = connect_primary(settings).await?;
    let limit = settings.timeout;
    // The crate reads its lines when it begins to listen, so the notices before are known then.
    let forget = statements.forget_all(inbox);
    let Ok(forgotten) = timeout(limit, connection.query_drop(forget)).await else {
        drop_elsewhere(connection);
        return Err(trouble::no_answer(settings));
    };
    forgotten.map_err(|error| trouble::error(settings, &error))?;
    let (sender, receiver) = mpsc::channel(NOTICES_MAX);
    let reader = NoticeReader { connection, statements, inbox, sender };
    tokio::spawn(reader.run(limit, link.closed()));
    Ok(receiver)
}

/// The connection that listens.
struct NoticeReader {
    connection: Conn,
    statements: Arc<Procedures>,
    inbox: Inbox,
    sender: mpsc::Sender<RecordNotice>,
}

impl NoticeReader {
    /// Delivers notices until the reader is gone, or the connection or the link ends. `limit`: the
    /// time limit of an answer.
    async fn run(mut self, limit: Duration, closed: impl Future<Output = ()>) {
        let mut closed = pin!(closed);
        let mut sleeps = SLEEPS;
        loop {
            let is_closed =
                poll_fn(|context| Poll::Ready(closed.as_mut().poll(context).is_ready()));
            let is_closed = is_closed.await;
            if is_closed || self.sender.is_closed() {
                break;
            }
            // No answer is left half read: the statement ends soon, also if the reader has gone.
            match timeout(limit + SLEEP_MAX, self.round(sleeps.pause())).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => break,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the connection that listens has ended");
                    break;
                }
                Err(_) => {
                    drop_elsewhere(self.connection);
                    return;
                }
            }
        }
        // Fails if the connection has ended already.
        let _ = timeout(limit, self.connection.disconnect()).await;
    }

    /// Waits for notices, and delivers them. Returns whether to go on.
    async fn round(&mut self, sleep: Duration) -> Result<bool, SqlError> {
        let listen = self.statements.listen(self.inbox, sleep);
        let woken = self.connection.query_first(listen).await;
        let woken: Option<(u64, u64, u64)> = unless_ended(woken)?.flatten();
        if let Some((_, woken, writes)) = woken {
            // Another server writes the notices now.
            if writes == 0 {
                return Ok(false);
            }
            if woken == SLEPT {
                return Ok(true);
            }
        }
        // In MySQL, a late `KILL QUERY` ends the next statement.
        let read = self.connection.query(self.statements.notices(self.inbox)).await;
        let texts: Vec<Vec<u8>> = unless_ended(read)?.unwrap_or_default();
        if texts.is_empty() {
            return Ok(true);
        }
        // The reader has gone. They may be the notices of a successor with the same inbox.
        if self.sender.is_closed() {
            return Ok(false);
        }
        // A row may be read before its commit is on the disk. The commit of the deletion, which
        // comes behind it in the log, has reached the disk when it is answered.
        let deletion = self.connection.query_drop(self.statements.forget(&texts)).await;
        if unless_ended(deletion)?.is_none() {
            return Ok(true);
        }
        let is_deleted = self.connection.affected_rows() > 0;
        Ok(!is_deleted || texts.iter().all(|text| self.deliver(text)))
    }

    /// Returns whether to go on. The channel ends if it is full: the crate reads its lines then.
    fn deliver(&self, text: &[u8]) -> bool {
        let notice = String::from_utf8_lossy(text).trim_end().parse();
        match notice {
            Ok(notice) => self.sender.try_send(notice).is_ok(),
            Err(error) => {
                tracing::debug!(%error, "a notice is ignored");
                true
            }
        }
    }
}

/// The answer to a statement. `None`: `KILL QUERY` has ended it, or another transaction was in its
/// way.
fn unless_ended<T>(answer: Result<T, SqlError>) -> Result<Option<T>, SqlError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if trouble::is_interrupted(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mysql_async::prelude::Queryable as _;
    use mysql_async::{Conn, Opts};
    use tenure_core::TicketId;
    use tenure_record::{Inbox, RecordNotice, RecordNoticeKind, RecordStore as _};
    use tenure_servers::have;
    use tenure_servers::mariadb::{MARIADB, Server};
    use tokio::sync::mpsc;

    use super::texts;
    use crate::sql::bytes_literal;
    use crate::{MysqlStore, Settings};

    const INBOX: Inbox = Inbox(7);

    async fn listener(store: &MysqlStore) -> mpsc::Receiver<RecordNotice> {
        store.listen(INBOX).await.unwrap().expect("the server wakes")
    }

    /// Sends a notice to the inbox as `root`, who may write also on a server that is read-only.
    fn ring(server: &Server, number: u64) -> RecordNotice {
        let kind = RecordNoticeKind::Served(number);
        let notice = RecordNotice { inbox: INBOX, ticket: TicketId::fresh(), kind };
        let text = bytes_literal(&texts(&[notice]));
        let insert = format!("INSERT INTO locks.tenure_notice VALUES ({text}, 0)");
        server.sql(&format!("{insert}; CALL locks.tenure_ring_1({text})")).unwrap();
        notice
    }

    #[tokio::test]
    async fn a_reader_without_a_receiver_leaves_the_notices_to_its_successor() {
        if !have(&[MARIADB]) {
            return;
        }
        let server = Server::start().unwrap();
        let store = MysqlStore::open(Settings::from_url(server.url()).unwrap()).await.unwrap();
        for number in 1..=8 {
            // Its reader sleeps for up to a second more, and has the same inbox.
            drop(listener(&store).await);
            let mut next = listener(&store).await;
            let notice = ring(&server, number);
            assert_eq!(next.recv().await, Some(notice));
        }
    }

    #[tokio::test]
    async fn the_listener_leaves_a_server_that_is_read_only_and_deletes_nothing_there() {
        if !have(&[MARIADB]) {
            return;
        }
        let server = Server::start().unwrap();
        let store = MysqlStore::open(Settings::from_url(server.url()).unwrap()).await.unwrap();
        let mut notices = listener(&store).await;
        server.sql("SET GLOBAL read_only = 1").unwrap();
        // As the thread of a replica does.
        ring(&server, 1);
        assert_eq!(notices.recv().await, None);
        assert_eq!(server.sql("SELECT count(*) FROM locks.tenure_notice").unwrap(), "1");
    }

    #[tokio::test]
    async fn old_notices_are_swept_beside_an_open_insert() {
        if !have(&[MARIADB]) {
            return;
        }
        let server = Server::start().unwrap();
        let store = MysqlStore::open(Settings::from_url(server.url()).unwrap()).await.unwrap();
        server.sql("INSERT INTO locks.tenure_notice VALUES ('a', 0), ('z', 0)").unwrap();
        let url = server.url().replace("mariadb:", "mysql:");
        let mut stranger = Conn::new(Opts::from_url(&url).unwrap()).await.unwrap();
        stranger.query_drop("BEGIN").await.unwrap();
        stranger.query_drop("INSERT INTO tenure_notice VALUES ('m', 0)").await.unwrap();
        store.sweep(Duration::ZERO).await.unwrap();
        assert_eq!(server.sql("SELECT count(*) FROM locks.tenure_notice").unwrap(), "0");
        stranger.query_drop("COMMIT").await.unwrap();
        assert_eq!(server.sql("SELECT notice FROM locks.tenure_notice").unwrap(), "m");
    }
}
