//! A snapshot of all lines in a scope.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Scope;
use crate::toolbox::known_keys;
use crate::{Engine, ErrorKind, Key, Place, Result, Ticket};

/// All tickets in scope, by key.
pub(crate) type Lines = BTreeMap<Key, Vec<(Ticket, Place)>>;

/// Reads all lines. If the store refuses to read one line, its last snapshot is used. Its key may
/// be one that the store cannot list: so each key of the last snapshot is looked at, if the listing
/// is not complete.
///
/// # Errors
///
/// Every line is refused, and at least one was readable before.
pub(crate) async fn snapshot(
    engine: &impl Engine,
    scope: &Scope,
    last: Option<&Lines>,
) -> Result<Lines> {
    let keys: BTreeSet<Key> = match scope {
        Scope::Key(key) => [key.clone()].into(),
        Scope::Prefix(prefix) => {
            let (listed, trouble) = known_keys(engine.keys(prefix).await)?;
            let lacking = last.filter(|_| trouble.is_some()).into_iter().flatten();
            let lacking = lacking.filter(|(_, line)| !line.is_empty()).map(|(key, _)| key.clone());
            listed.into_iter().chain(lacking).collect()
        }
    };
    let (mut look, mut refused, mut is_seen) = (Lines::new(), None, false);
    for key in keys {
        let line = match engine.line(&key).await {
            Err(error) if error.kind() == ErrorKind::Rejected => {
                tracing::debug!(%key, %error, "a line is not shown");
                let seen = last.and_then(|last| last.get(&key));
                if last.is_none() || seen.is_some() {
                    refused = Some(error);
                }
                seen.cloned()
            }
            line => {
                is_seen = true;
                Some(line?)
            }
        };
        look.extend(line.map(|line| (key, line)));
    }
    match refused {
        Some(error) if !is_seen => Err(error),
        _ => Ok(look),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::layers::{Layer, Operation};
    use crate::toolbox::incomplete;
    use crate::{Error, LeaveMode, Memory, Share, WaitMode};

    /// A store that refuses to show the lines of these keys.
    struct Spoilt(Memory, Mutex<Vec<Key>>);

    impl Layer for Spoilt {
        type Inner = Memory;

        fn inner(&self) -> &Memory {
            &self.0
        }

        async fn intercept<T: Send>(
            &self,
            question: Operation<'_>,
            answer: impl Future<Output = Result<T>> + Send,
        ) -> Result<T> {
            let spoilt = self.1.lock().unwrap().clone();
            match question {
                Operation::Line(key) if spoilt.contains(key) => {
                    Err(Error::rejected("it cannot be read"))
                }
                _ => answer.await,
            }
        }
    }

    /// A store that can list no line while this is set.
    struct Unlisted(Memory, Mutex<bool>);

    impl Layer for Unlisted {
        type Inner = Memory;

        fn inner(&self) -> &Memory {
            &self.0
        }

        async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
            if *self.1.lock().unwrap() {
                return Err(incomplete(Error::rejected("lines cannot be read"), Vec::new()));
            }
            self.0.keys(prefix).await
        }
    }

    #[test]
    fn a_line_that_cannot_be_listed_any_more_is_looked_at() {
        let store = Unlisted(Memory::new(), Mutex::default());
        let ticket = Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
        let scope = Scope::Prefix(String::new());
        crate::blocking::block_on(async {
            store.0.join(&ticket, WaitMode::Wait).await.unwrap();
            let first = snapshot(&store, &scope, None).await.unwrap();
            *store.1.lock().unwrap() = true;
            let next = snapshot(&store, &scope, Some(&first)).await.unwrap();
            assert_eq!(next[&ticket.key].len(), 1);
            store.0.leave(&ticket, LeaveMode::Now).await.unwrap();
            let last = snapshot(&store, &scope, Some(&next)).await.unwrap();
            assert!(last.values().all(Vec::is_empty));
            assert!(snapshot(&store, &scope, Some(&last)).await.unwrap().is_empty());
        });
    }

    #[test]
    fn a_line_that_is_refused_hides_no_other_one_and_nothing_at_all_is_told() {
        let store = Spoilt(Memory::new(), Mutex::default());
        let [a, b] = ["a", "b"].map(|name| Key::new(name).unwrap());
        let scope = Scope::Prefix(String::new());
        let spoil =
            |keys: &[&Key]| *store.1.lock().unwrap() = keys.iter().copied().cloned().collect();
        crate::blocking::block_on(async {
            let join = async |key: &Key| {
                let ticket = Ticket::new(key.clone(), Share::WHOLE);
                store.0.join(&ticket, WaitMode::Wait).await.unwrap();
            };
            join(&a).await;
            join(&b).await;
            let both = snapshot(&store, &scope, None).await.unwrap();
            join(&a).await;
            join(&b).await;
            spoil(&[&a]);
            let next = snapshot(&store, &scope, Some(&both)).await.unwrap();
            assert_eq!(
                (next[&a].len(), next[&b].len()),
                (1, 2),
                "of a is known what was seen last"
            );
            let first = snapshot(&store, &scope, None).await.unwrap();
            assert!(!first.contains_key(&a) && first.contains_key(&b));
            assert!(snapshot(&store, &Scope::Key(a.clone()), Some(&both)).await.is_err());
            spoil(&[&a, &b]);
            let error = snapshot(&store, &scope, Some(&both)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            assert!(snapshot(&store, &scope, None).await.is_err(), "nothing can be seen");
            // A line without an earlier snapshot is not an error if all others are gone.
            spoil(&[&a]);
            for (ticket, _) in store.0.line(&b).await.unwrap() {
                store.0.leave(&ticket, LeaveMode::Now).await.unwrap();
            }
            assert!(snapshot(&store, &scope, Some(&first)).await.unwrap().is_empty());
        });
    }
}
