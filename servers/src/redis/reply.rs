//! Replies of a server to commands, in RESP 2.

use std::io::BufRead;

use crate::Result;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Null.
    Nil,
    /// A number.
    Integer(i64),
    /// A simple string such as `OK`.
    Word(String),
    /// An error inside a list. An error that is the whole reply is returned as an error.
    Refusal(String),
    /// A bulk string.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Reply>),
}

impl Reply {
    /// Returns a number. It may have been sent as text.
    pub fn integer(&self) -> Result<i64> {
        match self {
            Self::Integer(number) => Ok(*number),
            other => other.text()?.parse().map_err(|_| format!("{other:?} is not a number.")),
        }
    }

    /// Returns a string as text.
    pub fn text(&self) -> Result<String> {
        match self {
            Self::Word(text) => Ok(text.clone()),
            Self::Bytes(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            other => Err(format!("{other:?} is not a text.")),
        }
    }

    /// Returns the elements of a list.
    pub fn list(&self) -> Result<&[Reply]> {
        match self {
            Self::List(replies) => Ok(replies),
            other => Err(format!("{other:?} is not a list.")),
        }
    }

    /// Returns the element of a list at this index.
    pub fn at(&self, place: usize) -> Result<&Reply> {
        self.list()?.get(place).ok_or_else(|| format!("{self:?} has no place {place}."))
    }

    /// Returns the value of the line `name:value` in a text such as that of INFO.
    pub fn field(&self, name: &str) -> Result<String> {
        let text = self.text()?;
        let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().into());
        text.lines().find_map(value).ok_or_else(|| format!("There is no `{name}` in: {text}."))
    }

    /// Reads a reply from a connection.
    pub(super) fn read(from: &mut impl BufRead) -> std::io::Result<Self> {
        let line = line(from)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| garbled(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| garbled(&line));
        Ok(match kind {
            "+" => Self::Word(rest.into()),
            "-" => Self::Refusal(rest.into()),
            ":" => Self::Integer(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(length) => Self::Bytes(bytes(from, length)?),
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(count) => {
                    Self::List((0..count).map(|_| Self::read(from)).collect::<Result<_, _>>()?)
                }
            },
            _ => return Err(garbled(&line)),
        })
    }
}

fn line(from: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.into()),
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

fn bytes(from: &mut impl BufRead, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    from.read_exact(&mut [0; 2])?;
    Ok(bytes)
}

fn garbled(line: &str) -> std::io::Error {
    std::io::Error::other(format!("`{line}` is no reply"))
}

#[cfg(test)]
mod tests {
    use super::Reply;

    fn read(text: &str) -> std::io::Result<Reply> {
        Reply::read(&mut text.as_bytes())
    }

    #[test]
    fn each_kind_is_read() {
        let list =
            read("*4\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*1\r\n-ERR no\r\n").expect("it is well");
        assert_eq!(list.at(0).and_then(Reply::integer), Ok(-7));
        assert_eq!(list.at(1).and_then(Reply::text), Ok("a\r\nb".into()));
        assert_eq!(list.at(2), Ok(&Reply::Nil));
        assert_eq!(list.at(3), Ok(&Reply::List(vec![Reply::Refusal("ERR no".into())])));
        assert!(list.at(4).is_err());
        assert_eq!(read("+OK\r\n").expect("it is well"), Reply::Word("OK".into()));
        assert_eq!(read("*-1\r\n").expect("it is well"), Reply::Nil);
    }

    #[test]
    fn what_is_cut_or_garbled_is_an_error() {
        for text in ["", "+OK", "\r\n", "$3\r\nab", "*2\r\n:1\r\n", "?what\r\n", ":x\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = Reply::Bytes(b"# Replication\r\nrole_was:x\r\nrole:master\r\n".to_vec());
        assert_eq!(info.field("role"), Ok("master".into()));
        assert!(info.field("rol").is_err());
    }
}
