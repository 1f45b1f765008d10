//! Requests and streams over one connection, in the format of gRPC.
//!
//! They are written with h2 itself. A client of tonic passes a request through four tasks, and
//! sends its head, its message and its end by a write each. Each write wakes the member, which
//! costs both sides more than the request does.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use prost::Message;
use tokio::sync::mpsc;

use crate::channel::MemberChannel;
use crate::status::{ENDED, STRANGE, Status};

/// Header that makes a member without a leader refuse a request instead of waiting for one.
const HAS_LEADER: &str = "hasleader";
const GRPC: &str = "application/grpc";
/// Length of the head of each message: a flag for compression, and the length.
const FRAME_HEAD_BYTES: usize = 5;
/// Maximum bytes of an answer. Listings come in pages, and watches in parts of the size of a
/// request, which an operator may raise.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// The login token of a user.
pub type LoginToken = HeaderValue;

/// An open connection, and its user.
#[derive(Clone)]
pub struct AuthorizedChannel {
    /// The connection.
    pub channel: MemberChannel,
    /// The login token, if members have users.
    pub token: Option<LoginToken>,
}

/// Sends one request, and returns its answer.
///
/// # Errors
///
/// The status of the request, as the member reports it.
pub async fn unary<Q, A>(
    wire: &AuthorizedChannel,
    path: &'static str,
    request: Q,
) -> Result<A, Status>
where
    Q: Message,
    A: Message + Default,
{
    let (mut send, mut answers) = begin(wire, path).await?;
    // It is sent with its head, at any length: a frame is cut only where the member's window ends.
    send.send_data(framed(&request)?, true).map_err(lost)?;
    let answer = answers.message().await?;
    // The rest after an answer is the status of the request.
    while answers.message().await?.is_some() {}
    answer.ok_or_else(|| Status::unavailable("an end without an answer"))
}

/// Opens a stream of requests, and one of answers.
///
/// # Errors
///
/// The status of the request, as the member reports it.
pub async fn stream<Q, A>(
    wire: &AuthorizedChannel,
    path: &'static str,
) -> Result<(Requests<Q>, Answers<A>), Status>
where
    Q: Message,
    A: Message + Default,
{
    let (send, answers) = begin(wire, path).await?;
    Ok((Requests { send, what: PhantomData }, answers))
}

async fn begin<A>(
    wire: &AuthorizedChannel,
    path: &'static str,
) -> Result<(SendStream<Bytes>, Answers<A>), Status> {
    let (head, stream) = (head(wire, path)?, wire.channel.begin());
    let mut send = wire.channel.send.clone().ready().await.map_err(lost)?;
    let (response, send) = send.send_request(head, false).map_err(lost)?;
    let (state, buffer) = (ResponseState::Asked(response), BytesMut::new());
    Ok((send, Answers { state, buffer, what: PhantomData, _stream: stream }))
}

fn head(wire: &AuthorizedChannel, path: &'static str) -> Result<Request<()>, Status> {
    let MemberChannel { scheme, authority, .. } = &wire.channel;
    let uri = Uri::builder()
        .scheme(scheme.clone())
        .authority(authority.clone())
        .path_and_query(PathAndQuery::from_static(path))
        .build()
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let mut head = Request::new(());
    *head.method_mut() = Method::POST;
    *head.uri_mut() = uri;
    *head.version_mut() = Version::HTTP_2;
    let headers = head.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(USER_AGENT, HeaderValue::from_static("tenure"));
    headers.insert(HAS_LEADER, HeaderValue::from_static("true"));
    if let Some(token) = &wire.token {
        headers.insert("token", token.clone());
    }
    Ok(head)
}

fn framed(message: &impl Message) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let told =
        u32::try_from(length).map_err(|_| Status::unavailable("a request without an end"))?;
    let mut frame = BytesMut::with_capacity(FRAME_HEAD_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(told);
    message.encode(&mut frame).map_err(|error| Status::unavailable(error.to_string()))?;
    Ok(frame.freeze())
}

/// The requests of a stream, which ends when this is dropped.
pub struct Requests<Q> {
    send: SendStream<Bytes>,
    what: PhantomData<fn(Q)>,
}

impl<Q: Message> Requests<Q> {
    /// Sends one when the member has room for it. Until then it waits here, so that nothing piles
    /// up behind it.
    ///
    /// # Errors
    ///
    /// The status of the request, as the member reports it.
    pub async fn say(&mut self, request: &Q) -> Result<(), Status> {
        let frame = framed(request)?;
        self.send.reserve_capacity(frame.len());
        while self.send.capacity() < frame.len() {
            let more = poll_fn(|context| self.send.poll_capacity(context)).await;
            more.ok_or_else(|| Status::unavailable(ENDED))?.map_err(lost)?;
        }
        self.send.send_data(frame, false).map_err(lost)
    }

    /// Sends all of these, one after the other. Ends with them, and with the stream.
    pub(crate) async fn say_all(mut self, requests: &mut mpsc::Receiver<Q>) {
        while let Some(request) = requests.recv().await {
            if self.say(&request).await.is_err() {
                return;
            }
        }
    }
}

/// The answers of a stream.
pub struct Answers<A> {
    state: ResponseState,
    /// The received part of the next answer.
    buffer: BytesMut,
    what: PhantomData<fn() -> A>,
    /// Counts as an open stream of the connection.
    _stream: Option<Arc<()>>,
}

enum ResponseState {
    Asked(ResponseFuture),
    Told(RecvStream),
    Over,
}

impl<A: Message + Default> Answers<A> {
    /// Returns the next answer; `None` after the last one. Cancel safe: no answer is lost.
    ///
    /// # Errors
    ///
    /// The status of the request, as the member reports it.
    pub async fn message(&mut self) -> Result<Option<A>, Status> {
        loop {
            match &mut self.state {
                ResponseState::Asked(response) => {
                    let response = response.await.map_err(lost)?;
                    refuse(&response)?;
                    self.state = ResponseState::Told(response.into_body());
                }
                ResponseState::Told(body) => {
                    if let Some(message) = cut(&mut self.buffer)? {
                        let answer = A::decode(message);
                        let strange = |error| Status::unavailable(format!("{error}"));
                        return Ok(Some(answer.map_err(strange)?));
                    }
                    if let Some(some) = body.data().await {
                        let some = some.map_err(lost)?;
                        body.flow_control().release_capacity(some.len()).map_err(lost)?;
                        self.buffer.extend_from_slice(&some);
                        continue;
                    }
                    let ending = body.trailers().await.map_err(lost)?;
                    self.state = ResponseState::Over;
                    // A stream without a status was cut off.
                    let told = ending.as_ref().and_then(Status::told);
                    return told.unwrap_or_else(|| Err(Status::unavailable(ENDED))).map(|()| None);
                }
                ResponseState::Over => return Ok(None),
            }
        }
    }
}

/// Returns the next message, if it is complete.
fn cut(buffer: &mut BytesMut) -> Result<Option<Bytes>, Status> {
    let Some((head, _)) = buffer.split_at_checked(FRAME_HEAD_BYTES) else { return Ok(None) };
    let length = (&head[1..]).get_u32() as usize;
    if head[0] != 0 || length > MESSAGE_BYTES_MAX {
        return Err(Status::unavailable(format!(
            "an answer of {length} bytes, or a compressed one"
        )));
    }
    if buffer.len() < FRAME_HEAD_BYTES + length {
        return Ok(None);
    }
    buffer.advance(FRAME_HEAD_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// Refuses a response that is an error without an answer, or that is not etcd's.
fn refuse(response: &Response<RecvStream>) -> Result<(), Status> {
    Status::told(response.headers()).unwrap_or(Ok(()))?;
    let kind = response.headers().get(CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()));
    if response.status().is_success() && is_grpc {
        return Ok(());
    }
    Err(Status::unavailable(STRANGE))
}

/// Returns the status of a connection or request that ended, with or without an answer.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn lost(error: h2::Error) -> Status {
    if error.is_library() {
        // This side could not read the data.
        return Status::unavailable(STRANGE);
    }
    // A server's text as it goes away may be anything, so an error does not quote it.
    Status::ended(if error.is_io() { error.to_string() } else { String::new() })
}
