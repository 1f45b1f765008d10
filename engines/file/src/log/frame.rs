//! A frame carries one record through a crash: it is complete, cut short at the end, or damaged.

use crate::checksum::checksum;

/// Length, its complement, and the checksum.
pub(crate) const HEAD_BYTES: usize = 16;
/// Maximum bytes of a record.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The kind of bytes at a place of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cut<'a> {
    /// One frame: its body. The next one begins behind it.
    Whole(&'a [u8]),
    /// Nothing: the log ends here.
    End,
    /// The beginning of a frame whose writer died, or the zeros that a power cut leaves.
    Torn,
    /// Bytes that no writer of this engine leaves at any death.
    Damaged,
}

/// Appends a frame to `log`. Its place in the file is `base + log.len()`.
///
/// The place and the file's own `seed` go into the checksum, so that bytes from elsewhere never
/// fit.
pub(crate) fn push(log: &mut Vec<u8>, seed: u64, base: u64, body: impl FnOnce(&mut Vec<u8>)) {
    let start = log.len();
    log.extend_from_slice(&[0; HEAD_BYTES]);
    body(log);
    let (head, body) = log[start..].split_at_mut(HEAD_BYTES);
    let length = u32::try_from(body.len()).expect("a record is far below 4 GiB");
    let sum = checksum(seed ^ (base + start as u64), body);
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&(!length).to_le_bytes());
    head[8..].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the body of the frame that begins `rest`, if it has the length in its head. Does not
/// check its sum.
pub(crate) fn peek(rest: &[u8]) -> Option<&[u8]> {
    let (head, behind) = rest.split_at_checked(HEAD_BYTES)?;
    behind.get(..length(head)?)
}

/// Returns the length of the body; `None` if this is no head.
fn length(head: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
    let complement = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
    (complement == !length && length as usize <= BODY_BYTES_MAX).then_some(length as usize)
}

/// Reads the frame that begins `rest`, which goes to the end of the file from place `at`.
pub(crate) fn cut(rest: &[u8], seed: u64, at: u64) -> Cut<'_> {
    if rest.is_empty() {
        return Cut::End;
    }
    if rest.iter().all(|byte| *byte == 0) {
        return Cut::Torn;
    }
    let Some((head, behind)) = rest.split_at_checked(HEAD_BYTES) else { return Cut::Torn };
    let Some(length) = length(head) else { return Cut::Damaged };
    let sum = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
    match behind.get(..length) {
        None => Cut::Torn,
        Some(body) if checksum(seed ^ at, body) == sum => Cut::Whole(body),
        Some(_) => Cut::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        push(&mut log, 7, 100, |body| body.extend_from_slice(b"first"));
        push(&mut log, 7, 100, |body| body.extend_from_slice(b"the second one"));
        log
    }

    #[test]
    fn a_frame_is_read_back_as_it_was_written() {
        let log = log();
        assert_eq!(cut(&log, 7, 100), Cut::Whole(b"first"));
        let second = &log[HEAD_BYTES + 5..];
        assert_eq!(cut(second, 7, 100 + 21), Cut::Whole(b"the second one"));
        assert_eq!(cut(&[], 7, 100), Cut::End);
    }

    #[test]
    fn a_frame_cut_at_any_byte_is_torn_and_never_damaged() {
        let log = log();
        for length in 1..HEAD_BYTES + 5 {
            assert_eq!(cut(&log[..length], 7, 100), Cut::Torn, "cut at {length}");
        }
    }

    #[test]
    fn a_flipped_bit_is_damage_wherever_it_is() {
        let log = log();
        for bit in 0..(HEAD_BYTES + 5) * 8 {
            let mut flipped = log.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(cut(&flipped, 7, 100), Cut::Damaged, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_fits_only_its_own_file_and_place() {
        let log = log();
        assert_eq!(cut(&log, 8, 100), Cut::Damaged);
        assert_eq!(cut(&log, 7, 101), Cut::Damaged);
    }
}
