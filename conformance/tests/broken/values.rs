//! Engines whose values are broken.

use tenure_core::{Engine as _, Key, Result};

use crate::twist::twist;
use tenure_conformance::pause;

twist! {
    /// It reads the value, and then writes it: not in one step.
    SwapsInTwoSteps {
        async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
            let stored = self.0.memory.swap(key, "", "").await?;
            if stored != seen {
                return Ok(stored);
            }
            pause().await;
            let now = self.0.memory.swap(key, "", "").await?;
            self.0.memory.swap(key, &now, value).await
        }
    }
}

twist! {
    /// It replaces a value that the caller has not seen.
    SwapsWhatNobodySaw {
        async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
            let stored = self.0.memory.swap(key, "", "").await?;
            let seen = if value.is_empty() { seen } else { stored.as_str() };
            self.0.memory.swap(key, seen, value).await
        }
    }
}

twist! {
    /// It answers with the value before the exchange.
    AnswersWithTheOldValue {
        async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
            let before = self.0.memory.swap(key, "", "").await?;
            self.0.memory.swap(key, seen, value).await?;
            Ok(before)
        }
    }
}

twist! {
    /// All keys have one value.
    SharesValues {
        async fn swap(&self, _: &Key, seen: &str, value: &str) -> Result<String> {
            self.0.memory.swap(&Key::new("one")?, seen, value).await
        }
    }
}

twist! {
    /// A value is cut to a kibibyte.
    CutsValues {
        async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
            let ends = (0..=value.len().min(1024)).rev().find(|at| value.is_char_boundary(*at));
            self.0.memory.swap(key, seen, &value[..ends.unwrap_or(0)]).await
        }
    }
}

twist! {
    /// A value ends with the client that wrote it.
    ForgetsValues {
        async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
            let key = Key::new(format!("{key} of {}", self.0.client))?;
            self.0.memory.swap(&key, seen, value).await
        }
    }
}
