//! A holder sleeps through its lease and then writes. The ledger refuses the write.
//!
//! A lock cannot stop a program that is paused between its check and its write. The token can:
//! every later holder has a greater one, and the ledger refuses writes with an older token.

use std::sync::Mutex;

use tenure::{Result, Token};

/// A resource that protects itself: the check of the token and the write are one step.
#[derive(Default)]
struct Ledger(Mutex<(Option<Token>, Vec<&'static str>)>);

impl Ledger {
    /// Raises the newest token before the holder's first read.
    fn claim(&self, token: Token) -> bool {
        let mut ledger = self.0.lock().unwrap();
        let newest = Some(token) >= ledger.0;
        ledger.0 = ledger.0.max(Some(token));
        newest
    }

    fn write(&self, token: Token, entry: &'static str) -> bool {
        let mut ledger = self.0.lock().unwrap();
        if Some(token) < ledger.0 {
            return false;
        }
        ledger.0 = Some(token);
        ledger.1.push(entry);
        true
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let ledger = Ledger::default();

    let sleepy = locks.mutex("ledger").lock().await?;
    assert!(ledger.claim(sleepy.token()));

    // Its lease ends while it sleeps: here an operator removes its ticket.
    locks.force_unlock("ledger", sleepy.id()).await?;
    let brisk = locks.mutex("ledger").lock().await?;
    assert!(ledger.claim(brisk.token()));
    assert!(ledger.write(brisk.token(), "paid 10"));

    let refused = !ledger.write(sleepy.token(), "paid 10 again");
    println!("the sleeper's write with token {} is refused: {refused}", sleepy.token());
    assert!(refused);
    println!("and its release fails: {}", sleepy.release().await.unwrap_err());
    brisk.release().await
}
