//! Keys that a release leaves behind, which block other clients until their ttl ends.

use super::kinds::{DISTRIBUTED_LOCK, RSLOCK};
use super::meter::Meter;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped};

const RELEASED: u64 = 1_000;

/// Counts the keys that are left behind. Tenure keeps the last token there, which blocks no client.
pub(crate) fn run(table: &mut Table, stores: &Stores) {
    let runtime = workers();
    for kind in [RSLOCK, DISTRIBUTED_LOCK] {
        let urls = stores.urls.clone();
        let left = async move {
            let name = format!("released-{}", kind.name);
            let contender = kind.connect(&urls, 0).await;
            for key in 0..RELEASED {
                contender.lock(&format!("{name}-{key}")).await.unwrap().release.await;
            }
            let mut left = 0;
            for url in &urls {
                left += Meter::connect(url).await.keys(&format!("*{name}-*")).await;
            }
            left
        };
        let left = runtime.block_on(runtime.spawn(left)).unwrap();
        let case = format!("keys that {} released locks left behind, {kind}", grouped(RELEASED));
        table.row(stores.case(&case), grouped(left as u64), "–", "0");
    }
}
