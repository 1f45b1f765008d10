//! Slots: the part of a cluster that keeps a key.
//!
//! The servers of a cluster have adjacent slots, so each part of the slots belongs to one server,
//! or to few.

/// Count of parts of the slots.
pub(super) const PARTS: usize = 64;

const SLOTS: u16 = 16_384;

/// Returns the part of this key's slot.
pub(super) fn part(key: &[u8]) -> usize {
    usize::from(slot(key)) * PARTS / usize::from(SLOTS)
}

/// Returns the slot of one of Tenure's keys, which its tag determines: a CRC of 16 bits, as in
/// Redis Cluster.
fn slot(key: &[u8]) -> u16 {
    let tag = key
        .split(|byte| *byte == b'{')
        .nth(1)
        .and_then(|rest| rest.split(|byte| *byte == b'}').next());
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use redis::cluster_routing::Slot;

    use super::*;

    #[test]
    fn a_slot_is_the_one_that_a_cluster_has_for_the_key() {
        for key in ["123456789", "tenure:{v1.ab}", "tenure:{v1.ab}:t", "tenure:{turn.v1.0}", "x"] {
            assert_eq!(Slot::new(slot(key.as_bytes())), Some(Slot::for_key(key)), "{key}");
            assert!(part(key.as_bytes()) < PARTS);
        }
    }
}
