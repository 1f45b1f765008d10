//! Tenure, through its public interface, as a program has it.

use tenure_core::Locks;

use super::contender::{Contender, Held, Later};

pub(crate) struct Tenure(Locks);

impl Tenure {
    /// One server, or RedLock over several.
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let locks = match urls {
            [url] => tenure_redis::connect(url).await,
            many => tenure_redis::connect(&redlock(many)).await,
        };
        Self(locks.unwrap())
    }
}

/// The servers have just started, which a RedLock would refuse to trust: it cannot know that they
/// have nothing to forget.
fn redlock(urls: &[String]) -> String {
    let hosts: Vec<&str> =
        urls.iter().map(|url| url.strip_prefix("redis://").unwrap_or(url)).collect();
    format!("redlock://{}?young=trust", hosts.join(","))
}

impl Contender for Tenure {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let guard = self.0.mutex(key).lock().await.map_err(|error| error.to_string())?;
            let token = Some(guard.token());
            Ok(Held { token, release: Box::pin(async move { guard.release().await.unwrap() }) })
        })
    }

    fn line<'a>(&'a self, key: &'a str) -> Later<'a, Option<u64>> {
        Box::pin(async move { Some(self.0.line(key).await.unwrap().len() as u64) })
    }
}
