//! What became of a fetch. The web being wrong is not an error: it is an outcome.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{CanonicalUrl, Reason, Time};

/// What one request gave.
#[derive(Debug)]
pub enum FetchOutcome {
    /// The server answered, with whatever status.
    Answered(Box<Exchange>),
    /// No answer that could be kept.
    Failed {
        /// What kind of failure, which decides about waiting and trying again.
        kind: FailureKind,
        /// For the log: what was being done, and what the system said.
        detail: String,
        /// From the request to the failure.
        duration: Duration,
    },
}

/// One HTTP exchange as it went over the wire.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// What was asked for.
    pub url: CanonicalUrl,
    /// The address that answered.
    pub address: Option<SocketAddr>,
    /// When the request was sent.
    pub started: Time,
    /// From the request to the answer's head.
    pub first_byte: Duration,
    /// From the request to the last byte kept.
    pub duration: Duration,
    /// The request's head as sent: request line, header fields, empty line.
    pub request: Vec<u8>,
    /// HTTP version of the answer.
    pub version: HttpVersion,
    /// Status code.
    pub status: u16,
    /// Header fields of the answer, in their order.
    pub headers: Headers,
    /// The body as received: transfer coding undone, content coding kept.
    pub body: Vec<u8>,
    /// Why the body is not whole, if it is not.
    pub truncated: Option<Truncation>,
}

impl Exchange {
    /// The `Location` header of a redirect status, as text.
    pub fn location(&self) -> Option<&str> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308).then(|| self.headers.get_str("location")).flatten()
    }
}

/// HTTP version of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0 (and the HTTP/0.9 that a tolerant client reports as such)
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl HttpVersion {
    /// As it stands in a status line, and in a WARC record of one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            // A WARC record holds HTTP/1.1 text; HTTP/2 has no status line of its own.
            Self::Http11 | Self::Http2 => "HTTP/1.1",
        }
    }
}

/// Why a body is not whole; the words of WARC 1.1 §5.13 (`WARC-Truncated`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Truncation {
    /// It was longer than `downloader.max_body`.
    Length,
    /// It took longer than `downloader.total_timeout`.
    Time,
    /// The connection ended before the body did.
    Disconnect,
}

impl Truncation {
    /// WARC's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
        }
    }
}

/// Header fields in the order they came. Names are lower-case, values are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// Adds a field at the end.
    pub fn push(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.0.push((name.to_ascii_lowercase(), value.into()));
    }

    /// The first field of that (lower-case) name.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_slice())
    }

    /// The first field of that name, if it is UTF-8.
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok()).map(str::trim)
    }

    /// Every field of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(field, _)| *field == name).map(|(_, value)| value)
    }

    /// All fields, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The media type without parameters, in lower case; `None` where the server did not say.
    pub fn media_type(&self) -> Option<String> {
        let value = self.get_str("content-type")?;
        let media = value.split(';').next()?.trim().to_ascii_lowercase();
        (!media.is_empty()).then_some(media)
    }
}

/// What can go wrong with a fetch, closed, so that one table can say for each how long to wait,
/// how often to try again, and whether the host is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The name does not exist.
    DnsNotFound,
    /// The name could not be looked up now.
    DnsFailed,
    /// The address is private, loopback or otherwise special, and such are not allowed.
    PrivateAddress,
    /// The connection was refused.
    ConnectRefused,
    /// The connection was not made in time.
    ConnectTimeout,
    /// The connection was not made for another reason.
    ConnectFailed,
    /// TLS could not be agreed, or the certificate is not valid.
    Tls,
    /// Connected, but no answer began in time.
    FirstByteTimeout,
    /// The connection ended before the answer's head was whole.
    Disconnected,
    /// The answer is not HTTP we understand, or its head is too large.
    Protocol,
    /// Parsing the page panicked: our fault, kept apart so that it is seen.
    Internal,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::DnsNotFound,
        Self::DnsFailed,
        Self::PrivateAddress,
        Self::ConnectRefused,
        Self::ConnectTimeout,
        Self::ConnectFailed,
        Self::Tls,
        Self::FirstByteTimeout,
        Self::Disconnected,
        Self::Protocol,
        Self::Internal,
    ];

    /// The word used in reports and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DnsNotFound => "dns-not-found",
            Self::DnsFailed => "dns-failed",
            Self::PrivateAddress => "private-address",
            Self::ConnectRefused => "connect-refused",
            Self::ConnectTimeout => "connect-timeout",
            Self::ConnectFailed => "connect-failed",
            Self::Tls => "tls",
            Self::FirstByteTimeout => "first-byte-timeout",
            Self::Disconnected => "disconnected",
            Self::Protocol => "protocol",
            Self::Internal => "internal",
        }
    }

    /// The number Heritrix writes in the status column of crawl.log for such a failure.
    pub fn heritrix_status(self) -> i32 {
        match self {
            Self::DnsNotFound | Self::DnsFailed => -1,
            Self::ConnectRefused | Self::ConnectTimeout | Self::ConnectFailed | Self::Tls => -2,
            Self::Disconnected | Self::FirstByteTimeout => -3,
            Self::Protocol => -4,
            Self::Internal => -5,
            Self::PrivateAddress => -7,
        }
    }
}

/// How a URL's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disposition {
    /// The server answered with this status.
    Answered(u16),
    /// It was tried as often as its kind of failure allows.
    Failed(FailureKind),
    /// It was queued, and then refused.
    Refused(Reason),
}
