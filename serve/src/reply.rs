//! Responses, and the refusal of a request.

use std::convert::Infallible;
use std::fmt;

use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde::Serialize;
use tenure_core::{Error, ErrorKind};

use std::pin::Pin;
use std::task::{Context, Poll};

/// Nothing is loaded from other hosts, and no code is inline.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The body of a response.
pub struct ReplyBody(UnsyncBoxBody<Bytes, Infallible>);

impl ReplyBody {
    pub(crate) fn new(body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static) -> Self {
        Self(body.boxed_unsync())
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyBody")
    }
}

pub(crate) type HttpReply = Response<ReplyBody>;

/// A request that is not answered: the status, and two lines for the caller.
#[derive(Clone, Debug)]
pub(crate) struct HttpRefusal {
    status: StatusCode,
    sentence: String,
    cure: &'static str,
    /// Why a lock is not held.
    cause: Option<&'static str>,
    /// The methods of the path, if the request has another one.
    allow: Option<&'static str>,
}

impl HttpRefusal {
    pub(crate) fn new(status: StatusCode, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into(), cure: cure(status), cause: None, allow: None }
    }

    /// The ticket is out of the line.
    pub(crate) fn gone(sentence: impl Into<String>) -> Self {
        let refused = Self::new(StatusCode::GONE, sentence).with_cause("gone");
        refused.with_cure("stop the work, and take the lock again with a new id")
    }

    /// The path has only these methods.
    pub(crate) fn method(allow: &'static str) -> Self {
        let sentence = format!("this path has only the methods {allow}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, sentence) }
    }

    /// Replaces the way out that the status has.
    pub(crate) fn with_cure(self, cure: &'static str) -> Self {
        Self { cure, ..self }
    }

    /// Adds the reason why a lock is not held.
    pub(crate) fn with_cause(self, cause: &'static str) -> Self {
        Self { cause: Some(cause), ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// The way out of a refusal with this status.
fn cure(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "send the token of this server",
        StatusCode::FORBIDDEN => "send the header that is named, or ask the operator for the role",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST => {
            "correct the request: /v1/openapi.json describes all of them"
        }
        StatusCode::REQUEST_TIMEOUT => "send the whole request at once",
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::URI_TOO_LONG => "send a shorter request",
        StatusCode::MISDIRECTED_REQUEST => "add the name with `tenure serve --host NAME`",
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            "send the same request again later"
        }
        StatusCode::NOT_IMPLEMENTED => "use a store that can do it",
        _ => "read the line of the key, and decide again",
    }
}

impl From<Error> for HttpRefusal {
    fn from(error: Error) -> Self {
        if error.loss().is_some() {
            return Self::gone(error.to_string());
        }
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<HttpRefusal> for HttpReply {
    fn from(HttpRefusal { status, sentence, cure, cause, allow }: HttpRefusal) -> Self {
        let mut error = serde_json::json!({ "error": sentence, "cure": cure });
        if let Some(cause) = cause {
            error["cause"] = cause.into();
        }
        let mut reply = json(status, &error);
        let more = match status {
            StatusCode::UNAUTHORIZED => {
                Some((WWW_AUTHENTICATE, "Basic realm=\"tenure: the password is the token\""))
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Some((RETRY_AFTER, "1"))
            }
            _ => allow.map(|methods| (ALLOW, methods)),
        };
        if let Some((name, value)) = more {
            reply.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        // A client that may not enter must not hold a connection.
        if matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST
        ) {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }
}

/// An answer of the API.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> HttpReply {
    match serde_json::to_vec(value) {
        Ok(text) => whole(status, "application/json", "no-store", text),
        Err(error) => {
            let text = format!("{{\"error\":\"the answer cannot be written: {}\"}}", error.line());
            whole(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "no-store", text)
        }
    }
}

/// A response with a body of known length.
pub(crate) fn whole(
    status: StatusCode,
    kind: &'static str,
    caching: &'static str,
    body: impl Into<Bytes>,
) -> HttpReply {
    reply(status, kind, caching, ReplyBody::new(Full::new(body.into())))
}

/// A response with the headers that all have.
pub(crate) fn reply(
    status: StatusCode,
    kind: &'static str,
    caching: &'static str,
    body: ReplyBody,
) -> HttpReply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}
