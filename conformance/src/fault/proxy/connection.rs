//! One connection: its two ends, the queue of each direction, and the conversation.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::act::{Deed, OnReply, RuleState, Verdict, judge};
use super::counts::Counts;
use super::direction::{Both, Direction};
use super::protocol::{Conversation, Protocol, Role};
use super::queue::Queue;

pub(super) struct Connection {
    pub(super) client: Arc<TcpStream>,
    pub(super) server: Option<Arc<TcpStream>>,
    pub(super) queues: Both<Queue>,
    conversation: Conversation,
}

/// The way in which a connection ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Close,
    /// With a reset, sent when the last of its threads closes the socket.
    Reset,
}

impl Connection {
    /// An accepted client without a connection to the server.
    pub(super) fn from_client(client: TcpStream, protocol: Protocol) -> Self {
        let conversation = Conversation::new(protocol);
        Self { client: Arc::new(client), server: None, queues: Both::default(), conversation }
    }

    pub(super) fn wake(&self) {
        self.queues.requests.changed.notify_all();
        self.queues.replies.changed.notify_all();
    }

    /// Takes the bytes of one side; none mean that it has ended.
    pub(super) fn hear(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        rules: &mut [RuleState],
        counts: &mut Counts,
    ) {
        match direction {
            Direction::Requests => self.hear_requests(bytes, rules, counts),
            Direction::Replies => self.hear_replies(bytes, rules, counts),
        }
        let ended = bytes.is_empty();
        for of in [Direction::Requests, Direction::Replies] {
            let rest = self.conversation.rest(of, ended && of == direction);
            let queue = self.queues.of_mut(of);
            if let Some(rest) = rest.filter(|_| !queue.shut) {
                queue.push(rest);
            }
        }
        if ended {
            self.queues.of_mut(direction).push_end(None);
        }
        self.wake();
    }

    /// Ends both sides. Queued bytes are lost.
    pub(super) fn end(self, how: End) {
        for end in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            let how = match how {
                End::Reset if linger_not(end) => Shutdown::Read,
                _ => Shutdown::Both,
            };
            // A failure means that it is closed already.
            let _ = end.shutdown(how);
        }
        self.wake();
    }

    fn hear_requests(&mut self, bytes: &[u8], rules: &mut [RuleState], counts: &mut Counts) {
        let queue = &mut self.queues.requests;
        for mut request in self.conversation.requests(bytes) {
            if queue.shut {
                return;
            }
            counts.requests += 1;
            if let Some(command) = request.command.take() {
                *counts.commands.entry(command).or_default() += 1;
            }
            match judge(rules, &request.bytes) {
                Verdict::Cut { rule } => {
                    queue.shut = true;
                    queue.push_end(Some(rule));
                }
                Verdict::Pass(deed) => {
                    queue.shut = matches!(deed, Some(Deed { act: OnReply::Cut, .. }));
                    self.conversation.asked(&mut request, deed);
                    queue.push(request.bytes);
                }
            }
        }
    }

    fn hear_replies(&mut self, bytes: &[u8], rules: &mut [RuleState], counts: &mut Counts) {
        let queue = &mut self.queues.replies;
        for (bytes, role) in self.conversation.replies(bytes) {
            if queue.shut {
                return;
            }
            counts.pushes += u64::from(matches!(role, Role::Push));
            let Role::Reply(Some(Deed { rule, act })) = role else {
                queue.push(bytes);
                continue;
            };
            match act {
                OnReply::Cut => {
                    queue.shut = true;
                    queue.push_end(Some(rule));
                    continue;
                }
                OnReply::Hold => queue.push_held(bytes, Duration::ZERO, Some(rule)),
                OnReply::Delay(by) => queue.push_held(bytes, by, None),
            }
            rules[rule].hit = true;
        }
    }
}

/// Makes the close a reset. Returns `false` if the system cannot.
#[cfg(unix)]
fn linger_not(end: &TcpStream) -> bool {
    rustix::net::sockopt::set_socket_linger(end, Some(Duration::ZERO)).is_ok()
}

#[cfg(not(unix))]
fn linger_not(_: &TcpStream) -> bool {
    false
}
