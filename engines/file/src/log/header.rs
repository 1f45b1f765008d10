//! A book's header says what was before its first record.

use crate::checksum::checksum;

/// Every header is as long as this.
pub(crate) const HEADER_BYTES: usize = 64;

/// Says what the file is, and in which form.
const MAGIC: [u8; 8] = *b"tenure1\n";

/// What a log that was thrown away has left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Which book of the store it is.
    pub(crate) book: u64,
    /// How many logs this book has had before. Says to a reader whether it has seen them all.
    pub(crate) generation: u64,
    /// Every number that will be given in this book is above this.
    pub(crate) floor: u64,
    /// How many bytes of records behind the header are the state that was kept, and no events.
    pub(crate) kept_bytes: u64,
    /// Which start of the machine it was written in.
    pub(crate) boot: u64,
}

impl Header {
    /// As it stands in the file.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let fields = [self.book, self.generation, self.floor, self.kept_bytes, self.boot];
        for (at, field) in fields.into_iter().enumerate() {
            bytes[8 + at * 8..][..8].copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(0, &bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads it back; `None` if these bytes are no header of this book.
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

    /// What goes into the checksums of this file's frames.
    pub(crate) fn seed(&self) -> u64 {
        checksum(self.book, &self.generation.to_le_bytes())
    }
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
        }
    }
}
