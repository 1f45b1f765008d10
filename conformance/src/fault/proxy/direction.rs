//! The two directions of a connection, and a pair of values for them.

/// The two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From clients to the server.
    Requests,
    /// From the server to clients: replies and pushes.
    Replies,
}

/// A value for each direction.
#[derive(Default)]
pub(super) struct Both<T> {
    pub(super) requests: T,
    pub(super) replies: T,
}

impl<T> Both<T> {
    pub(super) fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Requests => &self.requests,
            Direction::Replies => &self.replies,
        }
    }

    pub(super) fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Requests => &mut self.requests,
            Direction::Replies => &mut self.replies,
        }
    }
}
