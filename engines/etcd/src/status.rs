//! The status of a request in gRPC.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use http::HeaderMap;
use percent_encoding::percent_decode;

/// Message for a connection that ended.
pub(crate) const ENDED: &str = "the connection has ended";
/// Message for a server whose answer is not etcd's.
pub(crate) const STRANGE: &str = "this is no answer of etcd's";

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// The codes of gRPC that this engine distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request was carried out.
    Done,
    /// The member cannot carry out this request, or not now.
    Refused,
    /// The name or the password is wrong, or a name is missing.
    InvalidArgument,
    /// The user has no right to it.
    PermissionDenied,
    /// The member has no space left, or too much to do.
    ResourceExhausted,
    /// The member is not in the state that the request is for.
    FailedPrecondition,
    /// The member does not know the user.
    Unauthenticated,
    /// The member gave up waiting, and the connection is still good.
    GivenUp,
    /// The outcome is unknown, and the connection is of no more use.
    Unavailable,
}

impl Code {
    fn of(number: &[u8]) -> Self {
        match number {
            b"0" => Self::Done,
            b"3" => Self::InvalidArgument,
            b"7" => Self::PermissionDenied,
            b"8" => Self::ResourceExhausted,
            b"9" => Self::FailedPrecondition,
            b"16" => Self::Unauthenticated,
            // Not found, out of range, not implemented.
            b"5" | b"11" | b"12" => Self::Refused,
            // Cancelled, deadline exceeded, already exists, aborted, data loss.
            b"1" | b"4" | b"6" | b"10" | b"15" => Self::GivenUp,
            _ => Self::Unavailable,
        }
    }
}

/// The status of a request that failed.
#[derive(Clone, Debug)]
pub struct Status {
    code: Code,
    message: String,
    cause: String,
}

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: String::new() }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, message)
    }

    /// Returns the status for a connection or request that ended, with the text of TLS or the
    /// system.
    pub(crate) fn ended(cause: String) -> Self {
        Self { cause, ..Self::unavailable(ENDED) }
    }

    /// Reads the status of a request from headers; `None` if they have none. A strange server may
    /// have sent them, so any text is accepted.
    pub(crate) fn told(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = Code::of(headers.get(STATUS)?.as_bytes());
        if code == Code::Done {
            return Some(Ok(()));
        }
        let message = headers.get(MESSAGE).map_or(&b""[..], |message| message.as_bytes());
        Some(Err(Self::new(code, percent_decode(message).decode_utf8_lossy())))
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the member's message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the text of TLS or the system for a connection that ended. Empty if a member
    /// answered.
    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: &'static str, message: &'static str) -> Option<Result<(), Status>> {
        let mut headers = HeaderMap::new();
        headers.insert(STATUS, status.parse().unwrap());
        headers.insert(MESSAGE, message.parse().unwrap());
        headers.insert("grpc-status-details-bin", "%%% no base64".parse().unwrap());
        Status::told(&headers)
    }

    #[test]
    fn headers_tell_how_a_request_ended_whatever_stands_in_them() {
        assert!(Status::told(&HeaderMap::new()).is_none());
        assert!(matches!(told("0", "fine"), Some(Ok(()))));
        let status = told("7", "etcdserver: permission%20denied%zz").unwrap().unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(status.message(), "etcdserver: permission denied%zz");
        assert_eq!(told("", "").unwrap().unwrap_err().code(), Code::Unavailable);
        assert_eq!(told("4711", "%ff").unwrap().unwrap_err().message(), "\u{fffd}");
    }
}
