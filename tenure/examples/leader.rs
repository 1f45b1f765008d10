//! Three workers elect a leader. An operator removes the leader, and the next worker takes over.
//!
//! The work of a leader stops *before* its successor is elected, so there are never two leaders.
//! The note contains the address of the leader.

use tenure::{Locks, Result, Token};
use tokio::sync::mpsc;

async fn worker(
    locks: Locks,
    address: &'static str,
    led: mpsc::UnboundedSender<(&'static str, Token)>,
) {
    let election = locks.election("scheduler").note(address);
    let outcome = election
        .run(|term, _| {
            let led = led.clone();
            async move {
                // Fails only after the example has ended.
                let _ = led.send((address, term));
                std::future::pending::<()>().await;
            }
        })
        .await;
    println!("{address}: {outcome:?}");
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let (led, mut terms) = mpsc::unbounded_channel();
    for address in ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"] {
        tokio::spawn(worker(locks.clone(), address, led.clone()));
    }
    let mut last = None;
    for _ in 0..5 {
        let (address, token) = terms.recv().await.expect("the workers go on");
        println!("{address} leads in term {token}");
        assert!(Some(token) > last, "each term has a larger number");
        last = Some(token);
        let leader = locks.election("scheduler").leader().await?.expect("there is a leader");
        assert_eq!(&*leader.note, address);
        locks.break_ticket("scheduler", leader.id).await?;
    }
    Ok(())
}
