//! Renewals of tickets that are alone in their lines, several in one statement.

use std::pin::Pin;
use std::sync::Arc;

use tenure_core::{Error, Result};
use tenure_kit::Link;
use tenure_record::{LoneRenewal, RenewalStore};
use tokio_postgres::Row;

use crate::primary::{Parameter, Primary, query};
use crate::sql::TABLE_TIMEOUT;
use crate::trouble;

/// Sends renewals by the function `renew_1`.
pub(crate) struct PostgresRenewals {
    pub(crate) link: Arc<Link<Primary>>,
    pub(crate) statement: String,
}

impl RenewalStore for PostgresRenewals {
    type Renewed = Row;

    async fn renew(&self, renewals: &[LoneRenewal]) -> Result<Vec<Row>> {
        let keys: Vec<_> = renewals.iter().map(|it| it.key.as_str().as_bytes()).collect();
        let tickets: Vec<_> = renewals.iter().map(|it| it.tickets.as_slice()).collect();
        let ttl = |it: &LoneRenewal| i64::try_from(it.ttl_us).unwrap_or(i64::MAX);
        let ttls: Vec<_> = renewals.iter().map(ttl).collect();
        let parameters = [
            Parameter::Text(TABLE_TIMEOUT),
            Parameter::AllBytes(&keys),
            Parameter::AllBytes(&tickets),
            Parameter::Numbers(&ttls),
        ];
        match query(&self.link, &self.statement, &parameters).await {
            Ok(rows) if rows.len() == renewals.len() => Ok(rows),
            Ok(_) => Err(trouble::no_meta(&self.link.server().settings)),
            Err(refusal) => refusal.conflict().map(|()| Vec::new()),
        }
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.link.home().spawn(task);
    }

    fn no_answer(&self) -> Error {
        trouble::no_answer(&self.link.server().settings)
    }
}
