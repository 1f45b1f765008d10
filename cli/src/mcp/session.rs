//! The claims of a session: take, renew, drop.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tenure::inspect::{Note, TicketId};
use tenure::{Error, ErrorKind, Key, Locks};
use tenure_kit::duration::brief;
use tenure_kit::registry::OpenedStore;
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answer::{Outcome, ToolAnswer};
use super::claims::{KeyGuard, SessionClaim, Taken, take_each};
use super::tools::{CLAIMS_MAX, ClaimArgs, KEYS_MAX, TakeArgs, WAIT_MAX};
use crate::failure::{Failure, LOST, REFUSED};
use crate::screen::quoted;
use crate::store::{Address, SETTLE_MAX};

/// Time limit for the release of all claims at the end of the session.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// Hexadecimal digits of a claim id.
const CLAIM_DIGITS: usize = 8;

#[derive(Default)]
struct Claims {
    held: BTreeMap<String, SessionClaim>,
    /// The session has ended: no claim may be added.
    closed: bool,
}

impl Claims {
    /// The answer if no claim can be added.
    fn full(&self) -> Option<ToolAnswer> {
        let message = format!(
            "NOT held: this session has {CLAIMS_MAX} claims. Drop one first; `who` shows them."
        );
        (self.held.len() >= CLAIMS_MAX).then(|| ToolAnswer::stop("limit", message))
    }
}

/// The session with one client: its store and its claims.
pub(super) struct Session {
    address: Address,
    pub(super) url: String,
    store: OnceCell<OpenedStore>,
    claims: Mutex<Claims>,
    stop: watch::Sender<bool>,
}

impl Session {
    /// A session without a connection to its store.
    pub(super) fn new(address: Address) -> Result<Self, Failure> {
        let url = address.url()?;
        address.refuse_private(&url)?;
        let stop = watch::Sender::new(false);
        Ok(Self { address, url, store: OnceCell::new(), claims: Mutex::default(), stop })
    }

    /// The locks of the store. Opens the store if no call has succeeded in it before.
    pub(super) async fn locks(&self) -> Result<&Locks, Failure> {
        let open = async {
            let opened = self.address.open_at(&self.url).await?;
            self.address.warn(&opened.locks);
            Ok::<_, Failure>(opened)
        };
        self.store.get_or_try_init(|| open).await.map(|opened| &opened.locks)
    }

    /// Ends the session: calls that wait return.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the session ends.
    pub(super) async fn stopped(&self) {
        let mut stopped = self.stop.subscribe();
        let _ = stopped.wait_for(|stopped| *stopped).await; // the sender is in this session
    }

    /// Waits for a future, unless the session ends before.
    pub(super) async fn unless_stopped<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        tokio::select! {
            output = future => Ok(output),
            () = self.stopped() => Err(Failure::new(REFUSED, "the session is ending")),
        }
    }

    /// Releases all claims, and accepts no more.
    pub(super) async fn release_all(&self) {
        let held = {
            let mut claims = self.claims();
            claims.closed = true;
            std::mem::take(&mut claims.held)
        };
        drop(held);
        if let Some(opened) = self.store.get() {
            // A store that does not answer ends the leases by itself.
            let _ = timeout(RELEASE_MAX, opened.locks.flush()).await;
        }
    }

    /// Closes the store.
    pub(super) async fn close(&self) {
        if let Some(opened) = self.store.get() {
            let _ = timeout(SETTLE_MAX, opened.locks.close()).await; // leases end by themselves
        }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        // A panic between two statements leaves the table whole.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the claim with this ticket.
    pub(super) fn claim_of(&self, ticket: TicketId) -> Option<String> {
        let claims = self.claims();
        let has = |claim: &SessionClaim| claim.0.iter().any(|guard| guard.handle().id() == ticket);
        claims.held.iter().find(|(_, claim)| has(claim)).map(|(id, _)| id.clone())
    }

    /// The refusal of a key that this session holds already, unless both would share it.
    pub(super) fn refusal_of_own(&self, key: &Key, shared: bool) -> Option<ToolAnswer> {
        let claims = self.claims();
        let excludes =
            |guard: &KeyGuard| guard.handle().key() == key && !(shared && guard.is_shared());
        let (id, _) = claims.held.iter().find(|(_, claim)| claim.0.iter().any(excludes))?;
        let message = format!(
            "NOT held by this call: this session holds {} already, as claim {id}. If you took that \
             claim, check it with `renew` and use it. If not, another agent of this session did: \
             leave the key alone.",
            quoted(key.as_str())
        );
        Some(ToolAnswer::stop("own_claim", message).with("claim", id.as_str()))
    }

    /// Takes all keys or none.
    pub(super) async fn take(&self, args: TakeArgs, client: String) -> Outcome {
        let (keys, wait, shared) = (args.keys()?, args.wait()?, args.shared.unwrap_or_default());
        let note = args.note.unwrap_or(client);
        Note::new(note.as_str())?;
        for key in &keys {
            if let Some(own) = self.refusal_of_own(key, shared) {
                return Ok(own);
            }
        }
        if let Some(full) = self.claims().full() {
            return Ok(full);
        }
        let locks = self.locks().await?;
        let taking = take_each(locks, &keys, shared, wait, &note);
        // A call that does not wait is answered even if the input ends right after it.
        let taken =
            if wait.is_zero() { taking.await? } else { self.unless_stopped(taking).await?? };
        match taken {
            Taken::All(claim) => self.keep(claim),
            Taken::Busy(busy) => self.busy(locks, &keys, &busy, shared).await,
        }
    }

    /// Adds a claim to the table, and returns it as an answer.
    fn keep(&self, claim: SessionClaim) -> Outcome {
        let mut claims = self.claims();
        if claims.closed {
            return Err(Failure::new(REFUSED, "the session is ending"));
        }
        if let Some(full) = claims.full() {
            return Ok(full);
        }
        claim.check()?;
        let whole =
            claim.0.first().map(|guard| guard.handle().id().to_string()).unwrap_or_default();
        let short = whole[..CLAIM_DIGITS.min(whole.len())].to_owned();
        let id = if claims.held.contains_key(&short) { whole } else { short };
        let message = format!(
            "HELD: {} as claim {id}. Call `renew` with it before each step that must not happen twice; \
             pass the token to a resource that checks tokens; call `drop` when you are done.",
            claim.names()
        );
        let keys: Vec<_> = claim.0.iter().map(KeyGuard::data).collect();
        let answer = ToolAnswer::held(message).with("claim", id.as_str()).with("keys", keys);
        let answer = answer.with("lease_left_ms", millis(claim.remaining()));
        claims.held.insert(id, claim);
        Ok(answer)
    }

    /// Checks with the store whether a claim is held.
    pub(super) async fn renew(&self, args: ClaimArgs) -> Outcome {
        let id = args.claim;
        let handles: Vec<_> = match self.claims().held.get(&id) {
            Some(claim) => claim.0.iter().map(KeyGuard::handle).collect(),
            None => return Ok(unknown(&id)),
        };
        let mut renewals = JoinSet::new();
        for handle in handles {
            renewals.spawn(async move { handle.extend().await });
        }
        let outcomes = renewals.join_all().await;
        let trouble = outcomes.into_iter().find_map(Result::err);
        let mut claims = self.claims();
        // Another call may have dropped it meanwhile.
        let Some(claim) = claims.held.get(&id) else { return Ok(unknown(&id)) };
        let (names, left) = (claim.names(), claim.remaining());
        if let Err(error) = claim.check() {
            // The model learns of the loss from this answer, so the next in line may be served.
            claims.held.remove(&id);
            return Err(lost(&id, &names, &error));
        }
        let until = left.map_or_else(String::new, |left| format!(" for {}", brief(left)));
        let message = match &trouble {
            None => {
                format!("HELD: claim {id} holds {names}. Go on; call `drop` when you are done.")
            }
            Some(error) => format!(
                "HELD{until} at most: claim {id} holds {names}, but the store did not confirm it: \
                 {error}. Finish the present step and begin no other until `renew` succeeds."
            ),
        };
        let answer = ToolAnswer::held(message).with("claim", id.as_str());
        let answer = answer.with("confirmed", trouble.is_none());
        Ok(answer.with("lease_left_ms", millis(left)))
    }

    /// Releases a claim.
    pub(super) async fn drop_claim(&self, args: ClaimArgs) -> Outcome {
        let id = args.claim;
        let Some(claim) = self.claims().held.remove(&id) else { return Ok(unknown(&id)) };
        let names = claim.names();
        let mut releases = JoinSet::new();
        for guard in claim.0 {
            releases.spawn(guard.release());
        }
        let errors: Vec<_> =
            releases.join_all().await.into_iter().filter_map(Result::err).collect();
        if let Some(error) = errors.iter().find(|error| error.kind() == ErrorKind::Lost) {
            return Err(lost(&id, &names, error));
        }
        let message = match errors.first() {
            None => format!("Released: {names}."),
            Some(error) => format!(
                "Released here, but the store did not confirm it: {error}. {names} is free for others \
                 once the store has removed the lock."
            ),
        };
        Ok(ToolAnswer::not_held(message).with("released", true))
    }
}

impl TakeArgs {
    /// The keys in the order in which all clients lock them, each once.
    fn keys(&self) -> Result<Vec<Key>, Failure> {
        if !(1..=KEYS_MAX).contains(&self.keys.len()) {
            let sentence = format!("{} keys: name 1 to {KEYS_MAX}", self.keys.len());
            return Err(Failure::usage(sentence));
        }
        let mut keys = self.keys.iter().map(Key::new).collect::<tenure::Result<Vec<_>>>()?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    fn wait(&self) -> Result<Duration, Failure> {
        limited("wait_ms", self.wait_ms, Duration::ZERO, WAIT_MAX)
    }
}

/// Returns a time of the arguments, or its default. Refuses one above the maximum.
pub(super) fn limited(
    name: &str,
    ms: Option<u64>,
    default: Duration,
    max: Duration,
) -> Result<Duration, Failure> {
    let time = ms.map_or(default, Duration::from_millis);
    if time > max {
        return Err(Failure::usage(format!("{name} is at most {}", max.as_millis())));
    }
    Ok(time)
}

/// A time as data: in milliseconds, or null.
pub(super) fn millis(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into())
}

fn unknown(id: &str) -> ToolAnswer {
    let message = format!(
        "NOT held: this session has no claim {id:?}. It was dropped or lost, or is of another \
         session. `who` shows the claims of this session; `take` makes a new one."
    );
    ToolAnswer::stop("unknown_claim", message)
}

/// The claim is over. Its other locks are released.
fn lost(id: &str, names: &str, error: &Error) -> Failure {
    Failure::new(LOST, format!("claim {id} of {names} is over: {error}"))
}
