//! A checksum, to detect damage.

/// Protects against crashes and bad disks, and not against malice. Every step can be undone, so
/// that two bodies that differ in one word never have the same sum.
pub(crate) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words
        .iter()
        .fold(step(seed, bytes.len() as u64), |sum, word| step(sum, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum = step(sum, u64::from_le_bytes(last));
    step(sum ^ (sum >> 29), 0)
}
