//! A transaction with a token.

use std::ops::{Deref, DerefMut};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Transaction, TxOpts};
use tenure_core::{Error, Result, Token};

use crate::{Fence, into_error, quoted};

/// A transaction whose writes to fenced tables are compared with its token.
///
/// It is a [`Transaction`] otherwise. Commit it with [`commit`](Self::commit): a `COMMIT` as a
/// statement would leave the token to its session. If it is dropped, its connection rolls it back
/// when it is used next or closed.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is rolled back"]
pub struct FencedTransaction<'a> {
    transaction: Transaction<'a>,
    /// The table with the tokens of transactions.
    tokens: String,
}

impl Fence {
    /// Begins a transaction with this token. It costs two round trips.
    ///
    /// # Errors
    ///
    /// `Invalid` if the database has no fence. `Unavailable` if there was no answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection rolls back when it is used next.
    pub async fn begin<'a>(
        &self,
        connection: &'a mut Conn,
        token: Token,
    ) -> Result<FencedTransaction<'a>> {
        self.begin_with(connection, token, TxOpts::default()).await
    }

    /// As [`begin`](Self::begin), with options such as the level of isolation.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    ///
    /// # Cancel safety
    ///
    /// As [`begin`](Self::begin).
    pub async fn begin_with<'a>(
        &self,
        connection: &'a mut Conn,
        token: Token,
        options: TxOpts,
    ) -> Result<FencedTransaction<'a>> {
        let tokens = format!("{}.tenure_fence_session", quoted(&self.database));
        let mut transaction = connection.start_transaction(options).await.map_err(into_error)?;
        let first = format!(
            "SET @tenure_fence = uuid_short(); INSERT INTO {tokens} VALUES (@tenure_fence, {token})"
        );
        match transaction.query_drop(first).await {
            Ok(()) => Ok(FencedTransaction { transaction, tokens }),
            Err(error) => {
                // The first error is the one to report.
                let _ = transaction.rollback().await;
                Err(into_error(error))
            }
        }
    }
}

impl FencedTransaction<'_> {
    /// Replaces the token, for the statements of the next lock. A rollback to an earlier savepoint
    /// restores the earlier token.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there was no answer, or the transaction has no token: the server may have
    /// rolled it back.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction may have either token.
    pub async fn set_token(&mut self, token: Token) -> Result<()> {
        let tokens = &self.tokens;
        // The update of an equal token counts no row.
        let set = format!(
            "SELECT count(*) FROM {tokens} WHERE id = @tenure_fence; \
             UPDATE {tokens} SET token = {token} WHERE id = @tenure_fence"
        );
        let found: Option<u64> = self.transaction.query_first(set).await.map_err(into_error)?;
        if found == Some(1) { Ok(()) } else { Err(self.no_token()) }
    }

    /// Removes the token, and commits. It costs two round trips.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there was no answer: the writes may be done or not. `Unavailable` also if
    /// the server has rolled the transaction back, after a deadlock: repeat it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the writes may be done or not.
    pub async fn commit(mut self) -> Result<()> {
        let tokens = &self.tokens;
        let last =
            format!("DELETE FROM {tokens} WHERE id = @tenure_fence; SET @tenure_fence = NULL");
        let result = self.transaction.query_iter(last).await.map_err(into_error)?;
        // The answer to the first of the two statements.
        let deleted = result.affected_rows();
        result.drop_result().await.map_err(into_error)?;
        if deleted == 0 {
            let error = self.no_token();
            // The first error is the one to report.
            let _ = self.transaction.rollback().await;
            return Err(error);
        }
        self.transaction.commit().await.map_err(into_error)
    }

    /// Removes the token from the session, and rolls back. It costs two round trips.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there was no answer: the server rolls back when the connection ends.
    pub async fn rollback(mut self) -> Result<()> {
        // A statement that commits by itself, such as `ALTER TABLE`, has committed the row.
        let forget = "SET @tenure_fence = NULL";
        self.transaction.query_drop(forget).await.map_err(into_error)?;
        self.transaction.rollback().await.map_err(into_error)
    }

    fn no_token(&self) -> Error {
        Error::unavailable(format!(
            "the transaction has no token in {}, because the server has rolled it back or a statement has deleted the token: roll back and repeat the transaction",
            self.tokens
        ))
    }
}

impl<'a> Deref for FencedTransaction<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Self::Target {
        &self.transaction
    }
}

impl DerefMut for FencedTransaction<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.transaction
    }
}
