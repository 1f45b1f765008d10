//! The keys of the keyboard, as a terminal sends them.

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
}

/// The keys with a sequence of their own.
const SEQUENCES: [(&[u8], Pressed); 6] = [
    (b"\x1b[A", Pressed::Up),
    (b"\x1bOA", Pressed::Up),
    (b"\x1b[B", Pressed::Down),
    (b"\x1bOB", Pressed::Down),
    (b"\x1b[5~", Pressed::PageUp),
    (b"\x1b[6~", Pressed::PageDown),
];

/// Reads what one read of the terminal has returned. Unknown sequences and bytes that are no UTF-8
/// are left out.
pub(super) fn pressed(mut bytes: &[u8]) -> Vec<Pressed> {
    let mut all = Vec::new();
    while let Some(first) = bytes.first() {
        if let Some((sequence, key)) =
            SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence))
        {
            all.push(*key);
            bytes = &bytes[sequence.len()..];
            continue;
        }
        let length = match first {
            b'\x1b' => escape(bytes),
            0x80.. => bytes.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count() + 1,
            _ => 1,
        };
        let (head, rest) = bytes.split_at(length);
        bytes = rest;
        match head {
            b"\x1b" => all.push(Pressed::Escape),
            b"\r" | b"\n" => all.push(Pressed::Enter),
            b"\x08" | b"\x7f" => all.push(Pressed::Backspace),
            [b'\x1b', ..] => {}
            _ => {
                let letter = str::from_utf8(head).ok().and_then(|text| text.chars().next());
                all.extend(letter.filter(|letter| !letter.is_control()).map(Pressed::Letter));
            }
        }
    }
    all
}

/// Length of an unknown sequence; 1 for the escape key itself.
fn escape(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'[' | b'O') => {
            let is_middle = |byte: &&u8| !(0x40..=0x7e).contains(*byte);
            (bytes.iter().skip(2).take_while(is_middle).count() + 3).min(bytes.len())
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_unknown_sequences_are_left_out() {
        use Pressed::{Backspace, Down, Enter, Escape, Letter, PageDown, Up};
        assert_eq!(
            pressed(b"j\x1b[Ak\x1bOB\x1b[6~"),
            [Letter('j'), Up, Letter('k'), Down, PageDown]
        );
        assert_eq!(pressed("ü\r\x7f".as_bytes()), [Letter('ü'), Enter, Backspace]);
        assert_eq!(pressed(b"\x1b"), [Escape]);
        assert_eq!(pressed(b"\x1b[15~q"), [Letter('q')]);
        assert_eq!(pressed(b"\x1b["), []);
        assert_eq!(pressed(b"\xff\xc3q\x01"), [Letter('q')]);
    }
}
