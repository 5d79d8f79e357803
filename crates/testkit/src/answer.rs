//! What the web answers to a request.

use std::io::Write;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::graph::{Graph, Kind, Place, What};
use crate::random::Purpose;
use crate::render::Renderer;
use crate::robots::NOT_RULES;
use crate::spelling::Speller;

/// A GET request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Host name, in lower case and without port.
    pub host: &'a str,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// How old the web is, in days: pages change at their own rates.
    pub epoch: u32,
    /// Which request for this URL it is, counted from 1: some fail at first.
    pub nth: u32,
    /// Whether the client takes `Content-Encoding: gzip`.
    pub accepts_gzip: bool,
    /// `If-None-Match`, which wins over the next (RFC 9110 §13.2.2).
    pub if_none_match: Option<&'a str>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// The first, unconditional request for a URL of a new web, by a client without gzip.
    pub fn get(host: &'a str, target: &'a str) -> Self {
        Self { host, target, epoch: 0, nth: 1, accepts_gzip: false, if_none_match: None, if_modified_since: None }
    }
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// All header fields but those of the connection, `Date` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body, as it goes over the wire.
    pub body: Bytes,
    /// How long the server should wait before it answers.
    pub latency: Duration,
}

impl Answer {
    /// An answer without links, for what is not a page.
    pub(crate) fn plain(status: u16, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Self { status, headers, body: body.into(), latency: Duration::ZERO }
    }

    fn error(status: u16) -> Self {
        Self::html(status, format!("<!DOCTYPE html><title>{status}</title><p>This is not a page.\n"))
    }

    fn html(status: u16, body: impl Into<Bytes>) -> Self {
        let mut answer = Self::plain(status, body);
        answer.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        answer
    }

    fn set(&mut self, name: HeaderName, value: String) {
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).expect("our header values are visible ASCII");
        self.headers.insert(name, value);
    }
}

/// The content of a page at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Revision {
    pub(crate) number: u32,
    /// The epoch it appeared in.
    since: u32,
}

impl Graph {
    /// The page's content in an epoch. Home pages change in every one, half of the others never,
    /// the rest every 2 to 64.
    pub(crate) fn revision(&self, host: u32, page: u32, epoch: u32) -> Revision {
        let mut draws = self.draws(Purpose::Revision, host, page);
        let period = match page {
            0 => 1,
            _ if draws.below(2) == 0 => return Revision { number: 0, since: 0 },
            _ => 2 << draws.below(6),
        };
        let phase = draws.below(period);
        let number = epoch.saturating_add(phase) / period;
        Revision { number, since: (number * period).saturating_sub(phase) }
    }

    /// How many answers of the place fail before the right one: none, some, or all of them.
    pub(crate) fn failures(&self, place: Place) -> u32 {
        match place.what {
            What::Robots => self.host(place.host).robots.failures(),
            What::Page(page) => match self.kind(place.host, page) {
                Kind::Flaky { failures, .. } => failures,
                Kind::Broken { .. } => u32::MAX,
                _ => 0,
            },
            _ => 0,
        }
    }

    fn latency(&self, place: Place) -> Duration {
        let Some(range) = &self.config.latency else { return Duration::ZERO };
        let number = if let What::Page(page) = place.what { page } else { u32::MAX };
        let share = self.draws(Purpose::Latency, place.host, number).unit();
        range.start + range.end.saturating_sub(range.start).mul_f64(share)
    }
}

impl Renderer<'_> {
    /// Answers for a place, or for none.
    pub(crate) fn answer(self, place: Option<Place>, request: &Request<'_>) -> Answer {
        let Some(place) = place else { return Answer::error(404) };
        let graph = self.graph;
        let host = graph.host(place.host);
        let mut answer = match place.what {
            What::Robots if request.nth <= host.robots.failures() => Answer::plain(500, NOT_RULES),
            What::Robots => Answer::plain(host.robots.status(), host.robots.text(&host.name, graph.config.crawl_delay)),
            What::Trap { .. } => Answer::html(200, "<!DOCTYPE html><title>Trap</title><p>Nothing leads here.\n"),
            What::Hop { .. } | What::Loop { .. } | What::Endless(_) => self.redirect(place, request),
            What::Page(page) => match graph.kind(place.host, page) {
                Kind::Redirect { .. } => self.redirect(place, request),
                Kind::Missing { status } | Kind::Broken { status } => Answer::error(status),
                Kind::Flaky { failures, status } if request.nth <= failures => Answer::error(status),
                kind => self.page(place.host, page, kind, request),
            },
        };
        answer.latency = graph.latency(place);
        answer
    }

    fn redirect(self, place: Place, request: &Request<'_>) -> Answer {
        let Some((status, destination)) = self.graph.redirect(place) else { return Answer::error(404) };
        let mut answer = Answer::html(status, "<!DOCTYPE html><title>Moved</title><p>It is elsewhere.\n");
        let mut draws = self.graph.draws(Purpose::Redirect, place.host, request.target.len() as u32);
        let mut speller = Speller::new(self.graph, place.host, request.target);
        answer.set(header::LOCATION, speller.location(&mut draws, destination).to_owned());
        answer
    }

    fn page(self, host: u32, page: u32, kind: Kind, request: &Request<'_>) -> Answer {
        let revision = self.graph.revision(host, page, request.epoch);
        let mut headers = HeaderMap::with_capacity(8);
        let is_fresh = self.set_validators(host, page, revision, request, &mut headers);
        if is_fresh {
            return Answer { status: 304, headers, body: Bytes::new(), latency: Duration::ZERO };
        }
        let (content_type, body) = match kind {
            Kind::Pdf => ("application/pdf", self.pdf(host, page, revision.number)),
            Kind::Text => ("text/plain; charset=utf-8", self.text(host, page, revision.number)),
            _ => (self.charset(host, page).content_type(), self.html(host, page, revision.number)),
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let is_coded = self.graph.draws(Purpose::Coding, host, page).chance(self.graph.config.gzip);
        let body = if is_coded && request.accepts_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
            gzip(&body)
        } else {
            body
        };
        Answer { status: 200, headers, body: body.into(), latency: Duration::ZERO }
    }

    /// Sets `ETag` and `Last-Modified`, where the page has them; true when they say that the client
    /// has this revision (RFC 9110 §13).
    fn set_validators(
        self,
        host: u32,
        page: u32,
        revision: Revision,
        request: &Request<'_>,
        headers: &mut HeaderMap,
    ) -> bool {
        // One page in four has neither, one only the first, one only the second, one both.
        let has = self.graph.draws(Purpose::Validators, host, page).below(4);
        let mut is_fresh = false;
        let mut set = |name, value: String| {
            let value = HeaderValue::from_maybe_shared(Bytes::from(value)).expect("validators are visible ASCII");
            headers.insert(name, value);
        };
        if has & 1 != 0 {
            // Weak, because the bytes differ between codings.
            let etag = format!("W/\"{host}-{page}-{}\"", revision.number);
            is_fresh |= request.if_none_match.is_some_and(|sent| sent.contains(&etag));
            set(header::ETAG, etag);
        }
        if has & 2 != 0 {
            let modified = date_of(revision.since);
            let since = request.if_modified_since.filter(|_| request.if_none_match.is_none());
            is_fresh |=
                since.and_then(|sent| httpdate::parse_http_date(sent).ok()).is_some_and(|sent| modified <= sent);
            set(header::LAST_MODIFIED, httpdate::fmt_http_date(modified));
        }
        is_fresh
    }
}

/// Epoch 0 is the first day of 2026.
fn date_of(epoch: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 86_400 * u64::from(epoch))
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 2), Compression::fast());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("writing to a Vec cannot fail")
}
