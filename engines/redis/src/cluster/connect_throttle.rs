//! A rate limit of one client's attempts to connect to each server of a cluster.
//!
//! If no server answers, the driver tries to connect to each of them for every call. It looks up a
//! server's address before each attempt, which is where this module refuses one.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisFuture;
use redis::io::AsyncDNSResolver;
use tenure_core::sync::Mutex;
use tenure_kit::rate_limiter::{EACH, RateLimiter};

/// Maximum servers. Beyond it all are forgotten: a cluster has fewer, and names of old ones must
/// not pile up.
const SERVERS_MAX: usize = 1024;

/// The attempts of one client, over all of its connections.
#[derive(Clone, Default)]
pub(super) struct ConnectThrottle(Arc<Mutex<HashMap<(String, u16), RateLimiter>>>);

impl ConnectThrottle {
    /// Returns whether another connection to this server may be tried now. It does not wait: the
    /// driver blocks all calls meanwhile.
    fn may_try(&self, host: &str, port: u16, now: Instant) -> bool {
        let mut servers = self.0.lock();
        if servers.len() >= SERVERS_MAX {
            servers.clear();
        }
        servers.entry((host.to_owned(), port)).or_default().turn(now, 0, Duration::ZERO).is_some()
    }
}

impl AsyncDNSResolver for ConnectThrottle {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            if !self.may_try(host, port, Instant::now()) {
                return Err(io::Error::other(format!(
                    "this client has made too many connections to it to make one more now: it makes one in {EACH:?}"
                ))
                .into());
            }
            let found = tokio::net::lookup_host((host, port)).await?;
            let found: Box<dyn Iterator<Item = SocketAddr> + Send> = Box::new(found);
            Ok(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_pace_of_its_own_and_few_are_remembered() {
        let (tries, now) = (ConnectThrottle::default(), Instant::now());
        let of = |port| (0..100).filter(|_| tries.may_try("h", port, now)).count();
        assert!((2..20).contains(&of(1)) && of(1) == 0 && of(2) > 0);
        assert!((0..5000).all(|port| tries.may_try("other", port, now)));
        assert!(tries.0.lock().len() <= SERVERS_MAX);
    }
}
