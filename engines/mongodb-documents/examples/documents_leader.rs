//! A leader with two callbacks: the holder of the document leads, and is notified when it leads no
//! more.
//!
//! Run it as `cargo run --package tenure-mongodb-documents --example documents_leader -- URL`, with
//! a URL such as `mongodb://127.0.0.1/?replicaSet=rs0`. With `memory:` as the URL it runs in this
//! process's memory.

#[path = "documents/drawer.rs"]
#[allow(dead_code, reason = "each story needs some of it")]
mod drawer;

use std::error::Error;
use std::sync::{Arc, Mutex};

use drawer::Drawer;
use mongodb::bson::{Document, doc};
use tenure_mongodb_documents::{DocumentLocks, Documents};

/// All that a leader must know: when it begins to lead, and when it must have stopped.
trait Callbacks {
    fn on_elected(&mut self, term: u64, plan: &Document);
    fn on_lost(&mut self);
}

/// Leads whenever it can, for as long as it is polled. The command that elects also reads the plan.
async fn lead(
    plans: DocumentLocks<Document>,
    name: &str,
    mut callbacks: impl Callbacks,
) -> tenure_core::Result<()> {
    loop {
        let seat = plans.document("the plan").note(name).lock().await?;
        callbacks.on_elected(seat.token().get(), seat.document());
        seat.lost().await;
        callbacks.on_lost();
    }
}

/// Records the calls of its callbacks.
struct Notes(&'static str, Arc<Mutex<Vec<String>>>);

impl Callbacks for Notes {
    fn on_elected(&mut self, term: u64, plan: &Document) {
        println!("{}: I lead in term {term}, by {plan}", self.0);
        self.1.lock().expect("no callback panics").push(format!("{} leads", self.0));
    }

    fn on_lost(&mut self) {
        println!("{}: I lead no more", self.0);
        self.1.lock().expect("no callback panics").push(format!("{} stops", self.0));
    }
}

/// Two candidates campaign. An operator breaks the lock of the first leader once. Returns the
/// recorded callbacks.
pub(crate) async fn play(url: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let drawer = Drawer::at(url, "plans").await?;
    drawer.insert(&doc! { "_id": "the plan", "every": "night" }).await?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut leaders = Vec::new();
    for name in ["ada", "ben"] {
        let (plans, notes) = (drawer.open(Documents::new()).await?, Notes(name, told.clone()));
        leaders.push(tokio::spawn(lead(plans, name, notes)));
    }
    let office = drawer.open::<Document>(Documents::new()).await?;
    let plan = office.document("the plan");
    let first = loop {
        let line = plan.line().await?;
        if let [leader, _] = &line[..] {
            break leader.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    println!("the office: {} is to stop", first.note);
    plan.break_ticket(first.id).await?;
    while told.lock().expect("no callback panics").len() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    leaders.iter().for_each(tokio::task::JoinHandle::abort);
    let told = told.lock().expect("no callback panics").clone();
    Ok(told)
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("say where the MongoDB is")?;
    play(&url).await.map(drop)
}
