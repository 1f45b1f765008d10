//! The clients of locks over HTTP for Python and JavaScript, over a real Redis.
#![cfg(unix)]

mod kit;
mod referee;

use tenure_servers::{NODE, PYTHON};

use crate::kit::{Program, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_python_holds_renews_and_says_its_loss() {
    let Some(site) = Site::new(&[PYTHON]).await else { return };
    let program = Program::python("check.py", &[&site.servers[0].url()]);
    is_lost_when_broken(&site, program).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_for_javascript_holds_renews_and_says_its_loss() {
    let Some(site) = Site::new(&[NODE]).await else { return };
    let client = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/tenure_lock.mjs");
    let program = Program::new("node", "check.mjs", &[&site.servers[0].url(), client]);
    is_lost_when_broken(&site, program).await;
}

/// Breaks the lock that the program holds at last.
async fn is_lost_when_broken(site: &Site, mut program: Program) {
    assert_eq!(program.line(), "held");
    let holder = site.locks.line("k").await.unwrap().remove(0);
    let pid = format!(" pid {}", program.pid());
    assert!(holder.owner.starts_with("local: ") && holder.owner.ends_with(&pid), "{holder:?}");
    site.locks.break_ticket("k", holder.id).await.unwrap();
    assert_eq!(program.line(), "the lock is lost: its holder was asked to leave");
    program.succeeds();
    assert_eq!(site.locks.keys("").await.unwrap(), [], "all locks are released");
}
