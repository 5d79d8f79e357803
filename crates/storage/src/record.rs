//! What the journal says, record by record.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use model::{
    CanonicalUrl, Complaint, Disposition, HopClass, PageRobots, QueuedUrl, Rank, Reason, Time, Truncation, UrlKey,
};
use serde::{Deserialize, Serialize, Serializer};

use crate::warc::digest_text;

/// A place in the journal: bytes from its beginning, over all its segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(u64);

impl Position {
    /// Where the journal begins.
    pub const START: Self = Self(0);

    /// From the number of bytes before it.
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes from the journal's beginning.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One thing that happened, and all that follows from it: a page stands in one record with the
/// links it admitted, so that no crash can keep the one and lose the other.
///
/// Encoded with postcard, whose numbers of the variants are their order here: new variants and new
/// fields go to the end and raise the version byte of the frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A process began to work on the job.
    SessionStarted {
        /// When.
        at: Time,
        /// Name and version of the program.
        program: String,
        /// Which visit of the job's pages it is, from 1.
        visit: u32,
    },
    /// Seeds were offered.
    Seeds {
        /// When.
        at: Time,
        /// How many; `offered = seen + admitted + refused`.
        offered: u32,
        /// How many the job knew already.
        seen: u32,
        /// Those now queued.
        admitted: Vec<Admitted>,
        /// Those that scope refused.
        refused: Vec<Refused>,
    },
    /// A URL's life ended.
    Done(Box<Done>),
    /// The process stopped working on the job, in an orderly way. After a `kill -9` it is missing.
    SessionEnded {
        /// When.
        at: Time,
        /// Why.
        end: End,
    },
    /// A host is left alone for the rest of the session: its URLs stay queued.
    HostParked {
        /// When.
        at: Time,
        /// Scheme, name and port.
        origin: String,
        /// Why.
        reason: Reason,
        /// The rule, or what the system said.
        rule: String,
    },
    /// The pages are visited anew: every URL is new again, and what was still queued is given up.
    VisitStarted {
        /// When.
        at: Time,
        /// Which visit, from 2: the first begins with the job.
        visit: u32,
    },
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Nothing was left to do.
    Finished,
    /// A limit was reached.
    Limit {
        /// Its key, such as `crawl.max_pages`.
        which: String,
    },
    /// A person stopped it.
    Interrupted,
    /// We were wrong, or the disk was.
    Failed,
}

/// A URL that was queued. The page that linked to it is the one whose record this stands in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// What to fetch.
    pub url: CanonicalUrl,
    /// Its place in the host's queue.
    pub rank: Rank,
    /// Links away from a seed.
    pub depth: u16,
    /// Redirects since the last link or seed.
    pub redirects: u8,
    /// How it was reached.
    pub hop: HopClass,
}

/// A reference that did not become a queued URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The URL; where there is none, the reference as it stands on the page, clipped.
    pub reference: String,
    /// Why.
    pub reason: Reason,
    /// The rule that made the decision, in words an operator can find.
    pub rule: String,
    /// Links away from a seed.
    pub depth: u16,
}

/// The end of a URL's life, with everything that came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The URL as it was queued.
    pub url: QueuedUrl,
    /// When it ended.
    pub finished: Time,
    /// How often it was tried; 0 where it was refused before any request.
    pub attempts: u8,
    /// How it ended.
    pub disposition: Disposition,
    /// The rule, or what the system said, clipped; empty where there is nothing to say.
    pub note: String,
    /// What was fetched; `None` unless a server answered.
    pub fetch: Option<FetchFacts>,
    /// What the parser said; `None` where nothing was parsed.
    pub page: Option<PageFacts>,
    /// How many references the page offered; `offered = seen + admitted + refused`.
    pub offered: u32,
    /// How many of them the job knew already.
    pub seen: u32,
    /// Those now queued.
    pub admitted: Vec<Admitted>,
    /// Those refused, and not lately refused already.
    pub refused: Vec<Refused>,
    /// How many others were refused, by reason: the same links stand on every page of a site.
    pub refused_again: Vec<(Reason, u32)>,
    /// The keys of those the job knew already, where references are counted.
    pub references: Vec<UrlKey>,
}

/// Facts of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchFacts {
    /// When the request was sent.
    pub started: Time,
    /// From the request to the last byte kept, in microseconds.
    pub duration_us: u64,
    /// Who answered.
    pub address: Option<SocketAddr>,
    /// The media type the server gave, without parameters, in lower case.
    pub media_type: Option<String>,
    /// Bytes of the body as received.
    pub body_bytes: u64,
    /// Why the body is not whole, if it is not.
    pub truncated: Option<Truncation>,
    /// SHA-1 of the body as received: what WARC calls the payload digest.
    #[serde(serialize_with = "digest_for_people")]
    pub payload_digest: [u8; 20],
    /// Where the exchange stands; `None` where it was not kept.
    pub capture: Option<Capture>,
}

/// Where an exchange stands in the WARC files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Name of the file when it is complete: while it is written, `.open` follows.
    pub segment: String,
    /// Where the response record begins, in bytes of the compressed file.
    pub offset: u64,
    /// Compressed length of the response record in bytes.
    pub length: u64,
    /// Where the group of response and request records ends.
    pub end: u64,
}

/// Facts of a parsed page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFacts {
    /// The title, white space folded, clipped.
    pub title: Option<String>,
    /// The charset it was decoded from, by its WHATWG name.
    pub charset: Option<String>,
    /// `rel=canonical`, resolved.
    pub canonical: Option<CanonicalUrl>,
    /// What the page asks of robots.
    pub robots: PageRobots,
    /// Links as they stand on the page, repetitions included.
    pub links_found: u32,
    /// The configured fields: name and every match.
    pub fields: Vec<(String, Vec<String>)>,
    /// What was odd.
    pub complaints: Vec<Complaint>,
}

impl Admitted {
    /// What the frontier holds of it; `via` is the page of the record, `None` in [`Record::Seeds`].
    pub fn queued(&self, via: Option<Arc<str>>) -> QueuedUrl {
        QueuedUrl {
            url: self.url.clone(),
            rank: self.rank,
            depth: self.depth,
            redirects: self.redirects,
            hop: self.hop,
            via,
        }
    }
}

impl Done {
    /// The end of a URL that offers nothing: it failed, was refused, or is not parsed yet.
    pub fn new(url: QueuedUrl, finished: Time, attempts: u8, disposition: Disposition, note: String) -> Self {
        Self {
            url,
            finished,
            attempts,
            disposition,
            note,
            fetch: None,
            page: None,
            offered: 0,
            seen: 0,
            admitted: Vec::new(),
            refused: Vec::new(),
            refused_again: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Leaves out what is only told and not needed: the page's fields, and the refused references
    /// one by one. For a record that the journal would not take.
    pub fn shrink(&mut self) {
        if let Some(page) = self.page.as_mut().filter(|page| !page.fields.is_empty()) {
            page.fields.clear();
            if !page.complaints.contains(&Complaint::FieldsTooLarge) {
                page.complaints.push(Complaint::FieldsTooLarge);
            }
        }
        for Refused { reason, .. } in self.refused.drain(..) {
            match self.refused_again.iter_mut().find(|(again, _)| *again == reason) {
                Some((_, times)) => *times += 1,
                None => self.refused_again.push((reason, 1)),
            }
        }
    }
}

impl Record {
    /// The URLs it queues, and the page that linked to them.
    pub fn admitted(&self) -> (&[Admitted], Option<Arc<str>>) {
        match self {
            Self::Seeds { admitted, .. } => (admitted, None),
            Self::Done(done) => (&done.admitted, Some(done.url.url.shared())),
            Self::SessionStarted { .. }
            | Self::SessionEnded { .. }
            | Self::HostParked { .. }
            | Self::VisitStarted { .. } => (&[], None),
        }
    }

    /// The references it refuses.
    pub fn refused(&self) -> &[Refused] {
        match self {
            Self::Seeds { refused, .. } => refused,
            Self::Done(done) => &done.refused,
            Self::SessionStarted { .. }
            | Self::SessionEnded { .. }
            | Self::HostParked { .. }
            | Self::VisitStarted { .. } => &[],
        }
    }

    /// When it happened.
    pub fn at(&self) -> Time {
        match self {
            Self::SessionStarted { at, .. }
            | Self::Seeds { at, .. }
            | Self::SessionEnded { at, .. }
            | Self::HostParked { at, .. }
            | Self::VisitStarted { at, .. } => *at,
            Self::Done(done) => done.finished,
        }
    }
}

/// Twenty bytes in the journal; in JSON the text that WARC and CDXJ have.
fn digest_for_people<S: Serializer>(digest: &[u8; 20], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.serialize_str(&digest_text(digest))
    } else {
        digest.serialize(serializer)
    }
}

/// The key of a URL in the table `queue`: its host's key, then its rank, both big-endian, so that
/// byte order is host by host in queue order.
pub(crate) fn queue_key(key: UrlKey, rank: Rank) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.host().to_bytes());
    bytes[8..].copy_from_slice(&rank.to_bytes());
    bytes
}

/// The key of a URL's end in the table `pages`: its key, then the number of its admission.
/// A URL that is visited again has one entry for each visit, in their order.
pub(crate) fn page_key(key: UrlKey, rank: Rank) -> [u8; UrlKey::LEN + 8] {
    let mut bytes = [0; UrlKey::LEN + 8];
    bytes[..UrlKey::LEN].copy_from_slice(key.as_bytes());
    bytes[UrlKey::LEN..].copy_from_slice(&rank.admission().to_be_bytes());
    bytes
}
