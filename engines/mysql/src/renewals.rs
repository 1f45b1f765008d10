//! Renewals of tickets that are alone in their lines, several in one statement.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use mysql_async::Row;
use tenure_core::{Error, Result};
use tenure_kit::Link;
use tenure_record::{LoneRenewal, RenewalStore};

use crate::primary::{MysqlPrimary, query};
use crate::sql::{Literal, Procedures};
use crate::store::{bytes, number};
use crate::trouble;

/// Sends renewals by the procedures `renew_1` and `renew_all_1`.
pub(crate) struct MysqlRenewals {
    pub(crate) link: Arc<Link<MysqlPrimary>>,
    pub(crate) statements: Arc<Procedures>,
}

/// The result of a renewal.
pub(crate) enum Renewed {
    /// The answer of `renew_1`, with the record if the line has other tickets.
    Alone(Vec<Row>),
    /// The record's `last`, and the server's clock.
    Yes { last: u64, now_us: u64 },
    /// The line has other tickets, or another transaction has its row.
    No,
}

impl RenewalStore for MysqlRenewals {
    type Renewed = Renewed;

    async fn renew(&self, renewals: &[LoneRenewal]) -> Result<Vec<Renewed>> {
        let text = match renewals {
            [one] => {
                let key = Literal::Bytes(one.key.as_str().as_bytes());
                let parameters =
                    [Literal::Flag(false), key, Literal::Bytes(&one.tickets), one.ttl_us.into()];
                self.statements.call("renew_1", &parameters)
            }
            all => self.statements.call("renew_all_1", &[Literal::Bytes(&parameter(all))]),
        };
        let rows = match query(&self.link, text).await {
            Ok(rows) => rows,
            Err(refusal) => return refusal.conflict().map(|()| Vec::new()),
        };
        if renewals.len() == 1 {
            return Ok(vec![Renewed::Alone(rows)]);
        }
        Ok(rows.first().map_or_else(Vec::new, each))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.link.home().spawn(task);
    }

    fn no_answer(&self) -> Error {
        trouble::no_answer(&self.link.server().settings)
    }
}

/// Returns renewals as `renew_all_1` reads them.
fn parameter(renewals: &[LoneRenewal]) -> Vec<u8> {
    let mut all = Vec::new();
    for LoneRenewal { key, tickets, ttl_us } in renewals {
        let key = key.as_str().as_bytes();
        let mut lengths = String::new();
        // A number that is too large would be refused together with all others.
        let ttl_us = (*ttl_us).min(i64::MAX.unsigned_abs());
        write!(lengths, "{:04}{:08}{ttl_us:020}", key.len(), tickets.len())
            .expect("writing to a string cannot fail");
        all.extend([lengths.as_bytes(), key, tickets].concat());
    }
    all
}

/// Returns the results in the answer of `renew_all_1`.
fn each(row: &Row) -> Vec<Renewed> {
    let now_us = number(row, "now_us").unwrap_or(0);
    // The procedure writes digits and spaces. An answer of other bytes confirms no renewal.
    let numbers = String::from_utf8(bytes(row, "numbers")).unwrap_or_default();
    let renewed = |text: &str| match text.parse() {
        Ok(last) if last > 0 => Renewed::Yes { last, now_us },
        _ => Renewed::No,
    };
    numbers.split_ascii_whitespace().map(renewed).collect()
}
