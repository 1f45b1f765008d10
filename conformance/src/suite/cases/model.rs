//! The model: random steps on the engine and on `Line`, which must agree after each.
//!
//! A failing run is shrunk by leaving out steps, as long as it still fails, and printed with its
//! seed.

use std::fmt::Write as _;
use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::{
    Engine as _, Expiry, LeaveMode, LeaveOutcome, Line, Note, Place, Share, Ticket, TicketId,
    TicketState, Time, WaitMode,
};

use crate::Arena;
use crate::sim::Chance;

/// Tickets of one run.
const OWNERS: usize = 8;
const STEPS: usize = 60;
/// Maximum shrink iterations.
const SHRINKS_MAX: usize = 200;
/// Time limit of shrinking, in ttls.
const SHRINK_TTLS_MAX: u32 = 60;
/// Longer than the ttl of a brief ticket, shorter than that of a long one.
const PASSED_TTLS: u32 = 2;

/// A step, of one owner or of all.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join { owner: usize, take: u32, brief: bool, patience: WaitMode },
    JoinAgain { owner: usize },
    Renew { owner: usize, take: u32, brief: bool },
    Note { owner: usize },
    Leave { owner: usize, how: LeaveMode },
    Pass,
}

/// The features of the engine.
#[derive(Clone, Copy)]
struct Field {
    lives: Expiry,
    /// Waiters are in the line.
    waiters: bool,
    capacity: u32,
    passing: bool,
}

/// The result of a run.
enum Verdict {
    Agreed,
    Differed(String),
    /// The machine stood still, so the expected tickets are unknown.
    Unclear,
}

pub(crate) async fn the_engine_does_what_the_model_does(arena: &Arena) {
    let lives = if arena.lives_by_ttl().await { Expiry::ByTtl } else { Expiry::ByOwner };
    let waiters = arena.profile().await.fair;
    let capacity = if arena.keeps_permits().await { 5 } else { 1 };
    let patient = arena.is_simulated();
    for run in 0..if patient { 8 } else { 6 } {
        let passing = lives == Expiry::ByTtl && (patient || run == 0);
        let capacity = if run % 3 == 0 { 1 } else { capacity };
        let seed = match std::env::var("TENURE_MODEL_SEED") {
            Ok(seed) => seed.parse().expect("TENURE_MODEL_SEED is a number"),
            Err(_) => arena.host().random(),
        };
        agree(arena, seed, Field { lives, waiters, capacity, passing }).await;
    }
}

async fn agree(arena: &Arena, seed: u64, field: Field) {
    let client = arena.client().await;
    let steps = field.steps(&mut Chance::new(seed));
    let Verdict::Differed(difference) = play(arena, &client, field, &steps, 0).await else {
        return;
    };
    let (steps, difference) = shorten(arena, &client, field, steps, difference).await;
    let mut story = String::new();
    for step in steps {
        let _ = writeln!(story, "  {step:?}");
    }
    panic!("the engine and the model differ (TENURE_MODEL_SEED={seed}):\n{story}{difference}");
}

/// Leaves out steps as long as the rest still shows a difference.
async fn shorten(
    arena: &Arena,
    client: &AnyEngine,
    field: Field,
    mut steps: Vec<Step>,
    mut difference: String,
) -> (Vec<Step>, String) {
    let (mut at, began) = (steps.len(), arena.now());
    for run in 1..=SHRINKS_MAX {
        if at == 0 || began.until(arena.now()) > arena.ttl() * SHRINK_TTLS_MAX {
            break;
        }
        at -= 1;
        let mut fewer = steps.clone();
        fewer.remove(at);
        if let Verdict::Differed(still) = play(arena, client, field, &fewer, run).await {
            (steps, difference) = (fewer, still);
            at = at.min(steps.len());
        }
    }
    (steps, difference)
}

/// Runs the steps on a new key of the engine and on a new line.
async fn play(
    arena: &Arena,
    client: &AnyEngine,
    field: Field,
    steps: &[Step],
    run: usize,
) -> Verdict {
    let name = format!("model/{run}/{}", TicketId::fresh());
    let mut both = Both::new(arena, client, field, name);
    for (at, step) in steps.iter().enumerate() {
        let before = both.calm;
        let answer = both.step(*step).await;
        let lingered = before.until(arena.now()) > arena.ttl() / 2;
        if field.passing && lingered && !matches!(step, Step::Pass) {
            return Verdict::Unclear;
        }
        if let Err(difference) = answer {
            return Verdict::Differed(format!("after step {}: {difference}", at + 1));
        }
    }
    Verdict::Agreed
}

impl Field {
    /// A share of the capacity. All of one is a mutex, which every store has.
    fn share(self, take: u32) -> Share {
        match self.capacity {
            1 => Share::WHOLE,
            capacity => Share::new(take, capacity).expect("the share is valid"),
        }
    }

    fn steps(self, chance: &mut Chance) -> Vec<Step> {
        (0..STEPS).map(|_| self.any_step(chance)).collect()
    }

    fn any_step(self, chance: &mut Chance) -> Step {
        let mut below = |most: u64| chance.next() % most;
        let owner = usize::try_from(below(OWNERS as u64)).unwrap_or(0);
        let take = u32::try_from(below(self.capacity.into())).unwrap_or(0) + 1;
        let brief = self.passing && below(2) == 0;
        let patient = self.waiters && below(4) > 0;
        let patience = if patient { WaitMode::Wait } else { WaitMode::NoWait };
        match below(20) {
            0..8 => Step::Join { owner, take, brief, patience },
            8 => Step::JoinAgain { owner },
            9..12 => Step::Renew { owner, take, brief },
            12 => Step::Note { owner },
            13..17 => Step::Leave { owner, how: LeaveMode::Now },
            17 | 18 => Step::Leave { owner, how: LeaveMode::Graceful },
            _ if self.passing => Step::Pass,
            _ => Step::Renew { owner, take, brief },
        }
    }
}

/// The engine and the model, side by side.
struct Both<'a> {
    arena: &'a Arena,
    client: &'a AnyEngine,
    field: Field,
    name: String,
    line: Line,
    /// The model's clock, which advances only when a step lets time pass.
    now: u64,
    /// The last time at which a step let time pass.
    calm: Time,
    tickets: [Option<Ticket>; OWNERS],
    notes: u32,
}

impl<'a> Both<'a> {
    fn new(arena: &'a Arena, client: &'a AnyEngine, field: Field, name: String) -> Self {
        let line = Line::above(0);
        let tickets = [const { None }; OWNERS];
        Self { arena, client, field, name, line, now: 1, calm: arena.now(), tickets, notes: 0 }
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Join { owner, take, brief, patience } => {
                let share = self.field.share(take);
                let ticket = self.arena.ticket(&self.name, share);
                let ttl = self.ttl(brief);
                let ticket = Ticket { ttl, ..ticket };
                self.tickets[owner] = Some(ticket.clone());
                self.join(&ticket, patience).await?;
            }
            Step::JoinAgain { owner } => {
                // A ticket that is not in the line would join anew rather than again. So would one
                // that was asked to leave, which a store that consists of several does not
                // remember.
                if let Some(ticket) = self.tickets[owner].clone()
                    && let Some(place) = self.line.find_place(ticket.id, self.now)
                    && (self.field.waiters || !place.leaving)
                {
                    self.join(&ticket, WaitMode::Wait).await?;
                }
            }
            Step::Renew { owner, take, brief } => {
                let (ttl, field) = (self.ttl(brief), self.field);
                if let Some(ticket) = &mut self.tickets[owner] {
                    let take = take.min(ticket.share.take());
                    ticket.share = field.share(take);
                    ticket.ttl = ttl;
                    self.renew(owner).await?;
                }
            }
            Step::Note { owner } => {
                self.notes += 1;
                if let Some(ticket) = &mut self.tickets[owner] {
                    ticket.note = Note::shortened(&self.notes.to_string());
                    self.renew(owner).await?;
                }
            }
            Step::Leave { owner, how } => self.leave(owner, how).await?,
            Step::Pass => self.pass().await,
        }
        self.compare().await
    }

    fn ttl(&self, brief: bool) -> Duration {
        let ttl = self.arena.ttl();
        if brief { ttl } else { ttl * 1000 }
    }

    async fn join(&mut self, ticket: &Ticket, patience: WaitMode) -> Result<(), String> {
        let answer = self.client.join(ticket, patience).await.expect("the join succeeds");
        let model = self.line.join(ticket, (), patience, self.field.lives, self.now, &mut |_| {});
        same("a join", &answer.map(shape), &model.expect("the join succeeds").map(shape))
    }

    async fn renew(&mut self, owner: usize) -> Result<(), String> {
        let Some(ticket) = &self.tickets[owner] else { return Ok(()) };
        let answer = self.client.renew(ticket).await.expect("the renewal succeeds");
        let model = self.line.renew(ticket, self.now, &mut |_| {});
        same("a renewal", &answer.map(shape), &model.map(shape))
    }

    async fn leave(&mut self, owner: usize, how: LeaveMode) -> Result<(), String> {
        let Some(ticket) = &self.tickets[owner] else { return Ok(()) };
        let answer = match self.client.leave(ticket, how).await.expect("the leave succeeds") {
            LeaveOutcome::Unsure => LeaveOutcome::Absent,
            left => left,
        };
        let model = self.line.leave(ticket.id, how, self.now, &mut |_| {});
        same("a leave", &answer, &model)
    }

    async fn pass(&mut self) {
        let time = self.arena.ttl() * PASSED_TTLS;
        self.arena.pass(time).await;
        self.now += u64::try_from(time.as_micros()).unwrap_or(0);
        self.line.expire(self.now, &mut |_| {});
        self.calm = self.arena.now();
    }

    async fn compare(&mut self) -> Result<(), String> {
        let key = tenure_core::Key::new(&self.name).expect("the key is valid");
        let seen = self.client.line(&key).await.expect("the line can be seen");
        if !seen.is_sorted_by(|(_, before), (_, after)| before.number < after.number) {
            return Err(format!("numbers do not grow along the line: {seen:?}"));
        }
        let rows = |line: Vec<(Ticket, Place)>| {
            let row = |(ticket, place): (Ticket, Place)| {
                (ticket.id, ticket.share, ticket.note, shape(place))
            };
            line.into_iter().map(row).collect::<Vec<_>>()
        };
        same("the line", &rows(seen), &rows(self.line.list(self.now)))
    }
}

/// The parts of a place that do not depend on clocks.
fn shape(place: Place) -> (TicketState, u64, bool) {
    (place.state, place.ahead, place.leaving)
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: &T, model: &T) -> Result<(), String> {
    if engine == model {
        return Ok(());
    }
    Err(format!("{what}\n  of the engine: {engine:?}\n  of the model:  {model:?}"))
}
