//! The cost of renewing 10,000 held locks over one connection.

use std::sync::Arc;
use std::time::Duration;

use super::kinds::{DISTKIT, OURS};
use super::meter::Meter;
use crate::contest::contender::{Contender, Held};
use crate::contest::kind::Kind;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::Table;
use crate::processor;

const HELD: usize = 10_000;
const AT_ONCE: usize = 64;
/// Two periods of renewal.
const WATCHED: Duration = Duration::from_secs(20);

pub(crate) fn run(table: &mut Table, stores: &Stores) {
    let urls = &stores.urls;
    for kind in [OURS, DISTKIT] {
        let runtime = workers();
        let renewing = renewing(kind, urls.clone());
        let Renewing { requests, client, server } =
            runtime.block_on(runtime.spawn(renewing)).unwrap();
        let case = "redis: renewing 10,000 locks over one connection";
        let ours = kind.name == OURS.name;
        table.row(
            if ours { case.to_owned() } else { format!("{case}, {kind}") },
            format!("{:.2} % of a core, {requests} requests/s", client * 100.0),
            format!("{:.2} % of a core for the server", server * 100.0),
            "–",
        );
    }
}

/// Requests per second, and shares of a core.
struct Renewing {
    requests: u64,
    client: f64,
    server: f64,
}

async fn renewing(kind: Kind, urls: Vec<String>) -> Renewing {
    let contender = kind.connect(&urls, 0).await;
    let held = hold(&contender).await;
    let mut meter = Meter::connect(&urls[0]).await;
    let (client, server, scripts) = (processor::own(), meter.cpu().await, meter.scripts().await);
    tokio::time::sleep(WATCHED).await;
    let share = |used: Duration| used.as_secs_f64() / WATCHED.as_secs_f64();
    let client = share(processor::own().saturating_sub(client));
    let server = share(meter.cpu().await.saturating_sub(server));
    let requests = (meter.scripts().await - scripts) / WATCHED.as_secs();
    for held in held {
        held.release.await;
    }
    Renewing { requests, client, server }
}

async fn hold(contender: &Arc<dyn Contender>) -> Vec<Held> {
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|task| {
            let contender = contender.clone();
            tokio::spawn(async move {
                let mut held = Vec::new();
                for key in (task..HELD).step_by(AT_ONCE) {
                    held.push(contender.lock(&format!("held-{key}")).await.unwrap());
                }
                held
            })
        })
        .collect();
    let mut held = Vec::new();
    for task in tasks {
        held.extend(task.await.unwrap());
    }
    held
}
