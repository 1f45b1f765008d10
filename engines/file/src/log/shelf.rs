//! The shelf: the books of a store, and the book of a key's line.

use tenure_core::Key;

use crate::checksum::checksum;

/// Count of books. All keys share them: no file is ever made or removed for a key.
pub(crate) const BOOKS: usize = 64;

/// Returns a book's name in its directory.
pub(crate) fn name(book: u64) -> String {
    format!("{book:02x}")
}

/// Returns the book of a key's line. Two keys in one book only share its lock for some
/// microseconds, so the strength of this hash does not matter. But every program that uses the
/// store must use the same.
pub(crate) fn book_of(key: &Key) -> usize {
    let hash = checksum(0, key.as_str().as_bytes());
    usize::try_from(hash >> (u64::BITS - BOOKS.ilog2())).expect("it is below the number of books")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(name: &str) -> usize {
        book_of(&Key::new(name).unwrap())
    }

    #[test]
    fn a_key_is_in_the_same_book_for_every_version() {
        assert_eq!([book("a"), book("invoices/42"), book("nightly")], [57, 29, 0]);
    }

    #[test]
    fn keys_are_spread_over_all_books() {
        let mut full = [0_u32; BOOKS];
        for key in 0..64_000 {
            full[book(&format!("orders/{key}"))] += 1;
        }
        assert!(full.iter().all(|keys| (800..1200).contains(keys)), "{full:?}");
    }
}
