//! Answers of the store that several visitors share, so that a crowd costs as much as one visitor.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// Maximum age of an answer that is given to a further visitor.
pub(crate) const AGE_MAX: Duration = Duration::from_millis(500);
/// Maximum questions whose answers are kept.
const QUESTIONS_MAX: usize = 64;

/// An answer and the time at which the store was asked.
type Answered<A> = Arc<Mutex<Option<(Instant, A)>>>;

/// The latest answers to each question.
#[derive(Debug)]
pub(crate) struct SharedAnswers<Q, A>(SyncMutex<HashMap<Q, Answered<A>>>);

impl<Q: Eq + Hash, A: Clone> SharedAnswers<Q, A> {
    pub(crate) fn new() -> Self {
        Self(SyncMutex::new(HashMap::new()))
    }

    /// Returns an answer that is at most [`AGE_MAX`] old. Visitors who wait for the same answer
    /// share it. If the future is dropped, the next visitor asks.
    pub(crate) async fn get(&self, question: Q, ask: impl Future<Output = A>) -> A {
        let place = self.place(question);
        let mut last = place.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(at, _)| at.elapsed() < AGE_MAX) {
            return answer.clone();
        }
        let began = Instant::now();
        let answer = ask.await;
        *last = Some((began, answer.clone()));
        answer
    }

    fn place(&self, question: Q) -> Answered<A> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= QUESTIONS_MAX {
            // No visitor waits for these.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        places.entry(question).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt as _;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_shared_until_it_is_old() {
        let answers = SharedAnswers::new();
        assert_eq!(answers.get("a", ready(1)).await, 1);
        assert_eq!(answers.get("a", ready(2)).await, 1);
        assert_eq!(answers.get("b", ready(3)).await, 3, "another question");
        advance(AGE_MAX).await;
        assert_eq!(answers.get("a", ready(4)).await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn visitors_who_come_meanwhile_wait_for_the_same_answer() {
        let answers = SharedAnswers::new();
        let slow = async {
            sleep(AGE_MAX / 2).await;
            1
        };
        let both = futures_util::future::join(answers.get("a", slow), answers.get("a", ready(2)));
        assert_eq!(both.await, (1, 1));
        advance(AGE_MAX).await;
        assert_eq!(answers.get("a", pending()).now_or_never(), None, "it is dropped");
        assert_eq!(answers.get("a", ready(3)).await, 3);
    }

    #[tokio::test]
    async fn the_number_of_questions_is_limited() {
        let answers = SharedAnswers::new();
        for question in 0..10 * QUESTIONS_MAX {
            answers.get(question, ready(0)).await;
        }
        assert!(answers.0.lock().unwrap().len() <= QUESTIONS_MAX);
    }
}
