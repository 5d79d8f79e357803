//! One exchange: from the request to the last byte kept.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use model::{CanonicalUrl, Clock, Exchange, FailureKind, Headers, HttpVersion, Truncation};
use reqwest::header::HeaderMap;
use reqwest::{Client, Request, Response, Version};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::DownloaderConfig;
use crate::connecting::Connecting;
use crate::deadline::within;
use crate::failure::{Failure, classify};
use crate::request::head_as_sent;

/// What to fetch.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// The page.
    pub url: CanonicalUrl,
    /// The page that linked to it, told to the server where that gives nothing away.
    pub referrer: Option<Arc<str>>,
    /// Keep at most so many bytes of the body, in place of `downloader.max_body`.
    pub max_body: Option<u64>,
}

/// Limits of every fetch.
#[derive(Debug)]
pub(crate) struct Limits {
    connect: Duration,
    first_byte: Duration,
    idle: Duration,
    total: Duration,
    max_body: u64,
}

impl Limits {
    pub(crate) fn new(config: &DownloaderConfig) -> Self {
        Self {
            connect: config.connect_timeout.0,
            first_byte: config.first_byte_timeout.0,
            idle: config.idle_timeout.0,
            total: config.total_timeout.0,
            max_body: config.max_body.0,
        }
    }
}

/// Room made for a body on the server's word alone. Beyond it, memory follows bytes.
const MAX_TRUSTED_LENGTH: u64 = 256 << 10;

/// Sends `prepared`, which asks for what `request` wants, and reads the answer.
pub(crate) async fn exchange(
    client: &Client,
    prepared: Request,
    request: FetchRequest,
    limits: &Limits,
    started: Instant,
    clock: &Clock,
) -> Result<Exchange, Failure> {
    let sent = head_as_sent(&prepared, &request.url);
    let started_at = clock.now();
    let end = started + limits.total;
    let mut timer = pin!(sleep_until(end.min(started + limits.first_byte)));

    let connecting = Connecting::new(started);
    let answer_due = || end.min(connecting.answer_awaited_since(limits.connect) + limits.first_byte);
    let answer = connecting.watch(client.execute(prepared));
    let Some(answer) = within(timer.as_mut(), answer_due, answer).await else {
        let detail = format!("no answer's head within {:.1?}", started.elapsed());
        return Err(Failure::new(FailureKind::FirstByteTimeout, detail));
    };
    let mut answer = answer.map_err(|error| classify(&error))?;
    let first_byte = started.elapsed();

    let max_body = request.max_body.unwrap_or(limits.max_body);
    let (body, truncated) = read_body(&mut answer, timer, max_body, limits.idle, end).await;
    Ok(Exchange {
        url: request.url,
        address: answer.remote_addr(),
        started: started_at,
        first_byte,
        duration: started.elapsed(),
        request: sent,
        version: version(answer.version()),
        status: answer.status().as_u16(),
        headers: headers(answer.headers()),
        body,
        truncated,
    })
}

/// Reads until the body ends or has to be cut, and what cut it. The connection of a body that was
/// cut is closed with the answer: the rest is not read.
async fn read_body(
    answer: &mut Response,
    mut timer: Pin<&mut Sleep>,
    max: u64,
    idle: Duration,
    end: Instant,
) -> (Vec<u8>, Option<Truncation>) {
    let max_len = usize::try_from(max).unwrap_or(usize::MAX);
    let claimed = answer.content_length().unwrap_or(0);
    let mut body = Vec::with_capacity(claimed.min(max).min(MAX_TRUSTED_LENGTH) as usize);
    let mut last_piece = Instant::now();
    loop {
        let due = || end.min(last_piece + idle);
        let piece = match within(timer.as_mut(), due, answer.chunk()).await {
            None => return (body, Some(Truncation::Time)),
            Some(Err(_)) => return (body, Some(Truncation::Disconnect)),
            Some(Ok(None)) => return (body, None),
            Some(Ok(Some(piece))) => piece,
        };
        let room = max_len - body.len();
        if piece.len() > room {
            body.extend_from_slice(&piece[..room]);
            return (body, Some(Truncation::Length));
        }
        body.extend_from_slice(&piece);
        let now = Instant::now();
        // A server that is never slower than we are never lets the timer run.
        if now >= end {
            return (body, Some(Truncation::Time));
        }
        // An empty piece is no progress.
        if !piece.is_empty() {
            last_piece = now;
        }
    }
}

fn version(version: Version) -> HttpVersion {
    match version {
        Version::HTTP_09 | Version::HTTP_10 => HttpVersion::Http10,
        Version::HTTP_2 => HttpVersion::Http2,
        _ => HttpVersion::Http11,
    }
}

/// Fields in the order their names first came; those of one name stand together, which changes
/// nothing of their meaning (RFC 9110 §5.3).
fn headers(received: &HeaderMap) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in received {
        headers.push(name.as_str(), value.as_bytes());
    }
    headers
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use hyper::body::{Body, Frame};

    use super::*;

    /// A body whose next piece is always there.
    struct Racing;

    impl Body for Racing {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    #[tokio::test]
    async fn time_ends_though_the_timer_never_runs() {
        let mut answer = Response::from(hyper::Response::new(reqwest::Body::wrap(Racing)));
        let end = Instant::now() + Duration::from_millis(50);
        let timer = pin!(sleep_until(end));
        // Were it not for the time, the cap would end this some seconds later.
        let (body, truncated) = read_body(&mut answer, timer, 50_000_000, Duration::from_secs(20), end).await;
        assert_eq!(truncated, Some(Truncation::Time));
        assert!(!body.is_empty());
    }
}
