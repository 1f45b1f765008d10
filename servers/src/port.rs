//! Ports that stay claimed until their server is dropped, also while the server is down.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;

use crate::Result;

/// Below the ephemeral ports, so that no outgoing connection uses one of them.
const RANGE: RangeInclusive<u16> = 12_000..=32_000;
/// Maximum number of ports to try.
const TRIES_MAX: u32 = 1_000;
/// Maximum starts of a server whose port another program takes.
const STARTS_MAX: u32 = 8;
/// The text in the log of a server whose port is taken.
const PORT_IS_TAKEN: &str = "Address already in use";

/// A port of 127.0.0.1 that no other test server gets, in this process or in another.
///
/// The claim is a socket on the UDP port of the same number, which no store uses. It ends with the
/// process, in any case.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    /// Claims a port on which no program listens now. Another program may still take it before use.
    pub(crate) fn claim() -> Result<Self> {
        let count = u64::from(RANGE.end() - RANGE.start()) + 1;
        for _ in 0..TRIES_MAX {
            let offset = u16::try_from(RandomState::new().hash_one(0) % count);
            let number = RANGE.start() + offset.expect("it is smaller than the range");
            let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _claim: claim });
            }
        }
        Err(format!("There is no free port from {} to {}.", RANGE.start(), RANGE.end()))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Calls `start`, which claims a port, again while another program takes the port.
pub(crate) fn with_free_port<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    let mut starts = 1;
    loop {
        let started = start();
        let is_taken = started.as_ref().is_err_and(|error| error.contains(PORT_IS_TAKEN));
        if !is_taken || starts == STARTS_MAX {
            return started;
        }
        starts += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Port;
    use std::collections::BTreeSet;

    #[test]
    fn no_port_is_claimed_twice() {
        let claimed: Vec<Port> = (0..200).map(|_| Port::claim().expect("many are free")).collect();
        let different: BTreeSet<u16> = claimed.iter().map(Port::number).collect();
        assert_eq!(different.len(), claimed.len());
    }
}
