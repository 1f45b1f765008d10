//! How a request ended, as gRPC says it.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use http::HeaderMap;
use percent_encoding::percent_decode;

/// What is said of a connection that ended.
pub(crate) const ENDED: &str = "the connection has ended";
/// What is said of a server that answered, and not as etcd does.
pub(crate) const STRANGE: &str = "this is no answer of etcd's";

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";

/// Those codes of gRPC that make a difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It did what it was asked to.
    Done,
    /// The request makes no sense to the member, or not now.
    Refused,
    /// The name or the password is wrong, or a name is missing.
    InvalidArgument,
    /// The user has no right to it.
    PermissionDenied,
    /// The member has no space left, or too much to do.
    ResourceExhausted,
    /// The member is not in the state that the request is for.
    FailedPrecondition,
    /// The member does not know who asks.
    Unauthenticated,
    /// The member gave up waiting, and the connection is as good as before.
    GivenUp,
    /// Whether it was done is unknown, and the connection is of no more use.
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

/// How a request ended that did not do what it was asked to.
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

    /// The connection ended, or the request on it, and this is what TLS or the system says of it.
    pub(crate) fn ended(cause: String) -> Self {
        Self { cause, ..Self::unavailable(ENDED) }
    }

    /// What these headers say of the end of a request; `None` if they do not tell. They are a stranger's: whatever stands in
    /// them is read.
    pub(crate) fn told(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = Code::of(headers.get(STATUS)?.as_bytes());
        if code == Code::Done {
            return Some(Ok(()));
        }
        let message = headers.get(MESSAGE).map_or(&b""[..], |message| message.as_bytes());
        Some(Err(Self::new(code, percent_decode(message).decode_utf8_lossy())))
    }

    /// What kind of end it was.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What the member says.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What TLS, or the system, says of a connection that ended. Nothing, if a member answered.
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
