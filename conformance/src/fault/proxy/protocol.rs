//! The conversation on one connection: where a message ends, and which request a reply answers.

use std::collections::VecDeque;
use std::mem::take;

use super::act::Deed;
use super::direction::{Both, Direction};
use super::resp::{Found, Scanner, first_word, words};

/// The protocol by which a [`Proxy`](super::Proxy) splits messages.
///
/// Bytes that do not follow the protocol pass as [`Bytes`](Protocol::Bytes), and so does everything
/// after them on that connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// Any protocol: the bytes that arrive at once are a message, and the next bytes of the server
    /// are the reply. That suits short messages of client and server in turn.
    Bytes,
    /// Redis: RESP2 and RESP3, with pipelines and pushes. A confirmation of `SUBSCRIBE` and its
    /// like is a reply, though it looks like a push. After `MONITOR`, `PSYNC` and `CLIENT REPLY`
    /// replies cannot be recognised, so everything after them passes as bytes.
    Resp,
}

/// A request of a client.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// Its first word in upper case, if it has words.
    pub(super) command: Option<String>,
    answer: Answer,
}

/// The form of the answer to a request.
enum Answer {
    Never,
    Reply,
    /// This number of pushes that start with this word, or one error.
    Pushes(String, usize),
}

/// A message of a server.
pub(super) enum Role {
    Push,
    /// The reply to a request, with the treatment that a rule chose.
    Reply(Option<Deed>),
}

struct Question {
    answer: Answer,
    deed: Option<Deed>,
}

/// Bytes of one side. They are framed if they are a whole message of the protocol.
struct Said {
    bytes: Vec<u8>,
    framed: bool,
}

/// Bytes of one side that are not a whole message yet.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    scanner: Scanner,
}

/// The state of the conversation.
pub(super) struct Conversation {
    protocol: Protocol,
    unread: Both<Unread>,
    unanswered: VecDeque<Question>,
    subscribes: bool,
    /// RESP3: pushes have a type of their own.
    in_resp3: bool,
}

impl Conversation {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            unread: Both::default(),
            unanswered: VecDeque::new(),
            subscribes: false,
            in_resp3: false,
        }
    }

    /// Adds bytes of the client, and returns the requests that are complete.
    pub(super) fn requests(&mut self, bytes: &[u8]) -> Vec<Request> {
        let said = self.hear(Direction::Requests, bytes);
        said.into_iter().map(|said| self.request(said)).collect()
    }

    /// Notes a request that passes, and the treatment of its reply.
    pub(super) fn asked(&mut self, request: &mut Request, deed: Option<Deed>) {
        let answer = std::mem::replace(&mut request.answer, Answer::Never);
        if !matches!(answer, Answer::Never) {
            self.unanswered.push_back(Question { answer, deed });
        }
    }

    /// Adds bytes of the server, and returns the replies and pushes that are complete.
    pub(super) fn replies(&mut self, bytes: &[u8]) -> Vec<(Vec<u8>, Role)> {
        let said = self.hear(Direction::Replies, bytes);
        let message = |said: Said| {
            let role = if said.framed { self.role(&said.bytes) } else { self.role_of_bytes() };
            (said.bytes, role)
        };
        said.into_iter().map(message).collect()
    }

    /// Returns the incomplete message, if the side has ended or its messages are not split any
    /// more.
    pub(super) fn rest(&mut self, direction: Direction, ended: bool) -> Option<Vec<u8>> {
        let over = ended || self.protocol == Protocol::Bytes;
        let rest = over.then(|| take(&mut self.unread.of_mut(direction).bytes))?;
        Some(rest).filter(|rest| !rest.is_empty())
    }

    fn hear(&mut self, direction: Direction, bytes: &[u8]) -> Vec<Said> {
        let Unread { bytes: heard, scanner } = self.unread.of_mut(direction);
        heard.extend_from_slice(bytes);
        let (mut said, mut from) = (Vec::new(), 0);
        while self.protocol == Protocol::Resp && from < heard.len() {
            match scanner.find(direction, &heard[from..]) {
                Found::Whole(length) => {
                    said.push(Said { bytes: heard[from..from + length].to_vec(), framed: true });
                    from += length;
                }
                Found::Part => break,
                Found::Garbage => self.protocol = Protocol::Bytes,
            }
        }
        heard.drain(..from);
        if self.protocol == Protocol::Bytes && !heard.is_empty() {
            said.push(Said { bytes: take(heard), framed: false });
        }
        said
    }

    fn request(&mut self, said: Said) -> Request {
        if !said.framed {
            return Request { bytes: said.bytes, command: None, answer: Answer::Reply };
        }
        let words = words(&said.bytes);
        let Some(first) = words.first() else {
            return Request { bytes: said.bytes, command: None, answer: Answer::Never };
        };
        let command = String::from_utf8_lossy(first).to_ascii_uppercase();
        let second = words.get(1).map(|word| word.to_ascii_uppercase());
        let answer = match (command.as_str(), second.as_deref()) {
            ("HELLO", Some(version)) => {
                self.in_resp3 = version == b"3";
                Answer::Reply
            }
            ("MONITOR" | "SYNC" | "PSYNC", _) | ("CLIENT", Some(b"REPLY")) => {
                self.protocol = Protocol::Bytes;
                Answer::Reply
            }
            _ if command.ends_with("SUBSCRIBE") => {
                self.subscribes = true;
                Answer::Pushes(command.to_ascii_lowercase(), words.len().max(2) - 1)
            }
            _ => Answer::Reply,
        };
        Request { bytes: said.bytes, command: Some(command), answer }
    }

    fn role(&mut self, bytes: &[u8]) -> Role {
        self.in_resp3 |= bytes.first() == Some(&b'>');
        let Some(word) = self.push_word(bytes) else {
            return Role::Reply(self.unanswered.pop_front().and_then(|question| question.deed));
        };
        let Some(question) = self.unanswered.front_mut() else { return Role::Push };
        let deed = match &mut question.answer {
            Answer::Pushes(expected, left) if expected.as_bytes() == word => {
                *left -= 1;
                let last = *left == 0;
                let deed = question.deed.take();
                if last {
                    self.unanswered.pop_front();
                }
                deed
            }
            _ => return Role::Push,
        };
        Role::Reply(deed)
    }

    /// The first word of a push, or of a RESP2 message that looks like a reply and is a push.
    fn push_word<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match bytes.first()? {
            b'>' => first_word(bytes).or(Some(b"")),
            b'*' if self.subscribes && !self.in_resp3 => first_word(bytes)
                .filter(|word| word.ends_with(b"message") || word.ends_with(b"subscribe")),
            _ => None,
        }
    }

    /// The role of the bytes: the reply to the oldest request, or to the one that a rule waits for.
    fn role_of_bytes(&mut self) -> Role {
        while let Some(question) = self.unanswered.pop_front() {
            if question.deed.is_some() {
                return Role::Reply(question.deed);
            }
        }
        Role::Reply(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{Conversation, Direction, Protocol, Role};
    use crate::fault::proxy::act::{Deed, OnReply};

    /// Sends a request, and marks its reply with its index.
    fn ask(conversation: &mut Conversation, asked: &[u8]) {
        for mut request in conversation.requests(asked) {
            let rule = conversation.unanswered.len();
            conversation.asked(&mut request, Some(Deed { rule, act: OnReply::Hold }));
        }
    }

    /// The index of the request of each message; `None` is a push.
    fn roles(conversation: &mut Conversation, bytes: &[u8]) -> Vec<Option<usize>> {
        let replies = conversation.replies(bytes).into_iter();
        let rule = |role| match role {
            Role::Push => None,
            Role::Reply(deed) => Some(deed.map_or(99, |deed| deed.rule)),
        };
        replies.map(|(_, role)| rule(role)).collect()
    }

    #[test]
    fn replies_come_in_turn_and_pushes_between_them() {
        let mut resp = Conversation::new(Protocol::Resp);
        ask(&mut resp, b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\nPING\r\n*0\r\n*1\r\n$4\r\nPI");
        ask(&mut resp, b"NG\r\n");
        let bytes = b"%0\r\n>1\r\n+a\r\n+PONG\r\n>1\r\n+b\r\n*1\r\n$7\r\nmessage\r\n";
        assert_eq!(roles(&mut resp, bytes), [Some(0), None, Some(1), None, Some(2)]);
    }

    #[test]
    fn a_subscription_is_answered_by_pushes() {
        for mark in ["*", ">"] {
            let mut resp = Conversation::new(Protocol::Resp);
            ask(&mut resp, b"SUBSCRIBE a b\r\nPING\r\nUNSUBSCRIBE\r\n");
            let push = |word: &str| format!("{mark}2\r\n${}\r\n{word}\r\n+a\r\n", word.len());
            let bytes = [push("subscribe"), push("message"), push("subscribe"), "+PONG\r\n".into()];
            let bytes = bytes.concat() + &push("unsubscribe") + &push("unsubscribe");
            let roles = roles(&mut resp, bytes.as_bytes());
            assert_eq!(roles, [Some(0), None, Some(99), Some(1), Some(2), None]);
        }
    }

    #[test]
    fn a_subscription_may_be_answered_by_an_error() {
        let mut resp = Conversation::new(Protocol::Resp);
        ask(&mut resp, b"SUBSCRIBE a b\r\nPING\r\n");
        assert_eq!(roles(&mut resp, b"-NOPERM\r\n+PONG\r\n"), [Some(0), Some(1)]);
    }

    #[test]
    fn garbage_releases_an_incomplete_message() {
        let mut resp = Conversation::new(Protocol::Resp);
        ask(&mut resp, b"*1\r\n$4\r\nPI");
        assert_eq!(resp.rest(Direction::Requests, false), None);
        assert_eq!(resp.replies(b"+OK\r\nHTTP").len(), 2);
        assert_eq!(resp.rest(Direction::Requests, false).as_deref(), Some(&b"*1\r\n$4\r\nPI"[..]));
        assert_eq!(resp.rest(Direction::Requests, false), None);
    }

    #[test]
    fn an_end_releases_an_incomplete_message() {
        let mut resp = Conversation::new(Protocol::Resp);
        ask(&mut resp, b"PING\r\n*1");
        assert_eq!(resp.rest(Direction::Replies, true), None);
        assert_eq!(resp.rest(Direction::Requests, true).as_deref(), Some(&b"*1"[..]));
    }

    #[test]
    fn bytes_are_answered_by_the_next_bytes() {
        let mut bytes = Conversation::new(Protocol::Bytes);
        ask(&mut bytes, b"what");
        ask(&mut bytes, b"who");
        assert_eq!(roles(&mut bytes, b"this"), [Some(0)]);
        assert_eq!(roles(&mut bytes, b"he"), [Some(1)]);
        assert_eq!(roles(&mut bytes, b"and so on"), [Some(99)]);
    }
}
