//! A book's header has the state before its first record.

use crate::checksum::checksum;

/// Length of every header.
pub(crate) const HEADER_BYTES: usize = 64;

/// First bytes: the kind of the file, and its format. A later format changes the digit, and keeps
/// the length of the header and the place of its checksum.
const MAGIC: [u8; 8] = *b"tenure1\n";

/// The rest of a log that was rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// The index of the book in the store.
    pub(crate) book: u64,
    /// Count of earlier logs of this book. It shows a reader whether it has seen them all.
    pub(crate) generation: u64,
    /// Every new number in this book is above this.
    pub(crate) floor: u64,
    /// Bytes of records behind the header that are kept state, and no events.
    pub(crate) kept_bytes: u64,
    /// The start of the machine in which it was written.
    pub(crate) boot: u64,
}

impl Header {
    /// Returns its bytes in the file.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let fields = [self.book, self.generation, self.floor, self.kept_bytes, self.boot];
        for (at, field) in fields.into_iter().enumerate() {
            bytes[8 + at * 8..][..8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = sum_of(&bytes);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&sum);
        bytes
    }

    /// Returns whether a header that cannot be read is whole, and of another format.
    pub(crate) fn is_newer(bytes: &[u8; HEADER_BYTES]) -> bool {
        bytes.starts_with(b"tenure") && bytes[..8] != MAGIC && bytes.ends_with(&sum_of(bytes))
    }

    /// Reads it from these bytes; `None` if they are no header of this book.
    pub(crate) fn decode(bytes: &[u8], book: u64) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
        let header = Self {
            book: word(8),
            generation: word(16),
            floor: word(24),
            kept_bytes: word(32),
            boot: word(40),
        };
        (header.encode() == bytes && header.book == book).then_some(header)
    }

    /// Returns the seed of the checksums of this file's frames.
    pub(crate) fn seed(&self) -> u64 {
        checksum(self.book, &self.generation.to_le_bytes())
    }
}

fn sum_of(header: &[u8; HEADER_BYTES]) -> [u8; 8] {
    checksum(0, &header[..HEADER_BYTES - 8]).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_or_refused() {
        let header = Header { book: 3, generation: 4, floor: 5, kept_bytes: 6, boot: 7 };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes, 3), Some(header));
        assert_eq!(Header::decode(&bytes, 4), None, "another book's");
        assert_eq!(Header::decode(&bytes[..HEADER_BYTES - 1], 3), None, "cut short");
        for at in 0..HEADER_BYTES {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert_eq!(Header::decode(&bytes, 3), None, "byte {at}");
            assert!(!Header::is_newer(&bytes), "byte {at}");
        }
        let mut newer = bytes;
        newer[6] = b'2';
        let sum = sum_of(&newer);
        newer[HEADER_BYTES - 8..].copy_from_slice(&sum);
        assert!(Header::is_newer(&newer) && !Header::is_newer(&bytes));
    }
}
