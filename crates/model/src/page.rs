//! What the parser says of a page.

use serde::{Deserialize, Serialize};

use crate::{CanonicalUrl, Link, Reason};

/// Links and facts of one page. Parsing cannot fail: what was odd stands in `complaints`.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Distinct links, in the order of their first occurrence.
    pub links: Vec<Link>,
    /// References that cannot become URLs, with their text (clipped) and reason.
    pub refused: Vec<RefusedLink>,
    /// Links as they stand on the page, repetitions included.
    pub links_found: u32,
    /// The title, white space folded, clipped.
    pub title: Option<String>,
    /// `rel=canonical`, resolved.
    pub canonical: Option<CanonicalUrl>,
    /// The charset the page was decoded from, by its WHATWG name.
    pub charset: Option<&'static str>,
    /// What the page asks of robots.
    pub robots: PageRobots,
    /// The configured fields: name and every match, in the order of the configuration.
    pub fields: Vec<(String, Vec<String>)>,
    /// What was odd.
    pub complaints: Vec<Complaint>,
}

/// A reference the parser could not make a URL of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLink {
    /// The reference as it stands on the page, clipped.
    pub reference: String,
    /// [`Reason::Malformed`] or [`Reason::UnsupportedScheme`].
    pub reason: Reason,
}

/// `<meta name=robots>` and `X-Robots-Tag`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRobots {
    /// Do not show this page. Recorded; what an index does with it is the index's business.
    pub noindex: bool,
    /// Do not follow this page's links.
    pub nofollow: bool,
}

/// Something odd about a page, worth counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Complaint {
    /// More links than `parser.max_links`; the rest was dropped.
    TooManyLinks,
    /// Elements nested deeper than `parser.max_nesting`: fields were not read, links were.
    NestedTooDeep,
    /// The page had bytes that are no text in its charset.
    BadCharacters,
    /// The content coding could not be undone, or not to its end.
    BadContentCoding,
    /// Decoded, it was larger than `downloader.max_decoded_body`; the rest was dropped.
    DecodedTooLarge,
    /// The link pass gave up; links before that point were kept.
    LinkPassStopped,
    /// The configured fields matched more than is kept of a page; the rest was dropped.
    FieldsTooLarge,
}

impl Complaint {
    /// The word used in reports and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TooManyLinks => "too-many-links",
            Self::NestedTooDeep => "nested-too-deep",
            Self::BadCharacters => "bad-characters",
            Self::BadContentCoding => "bad-content-coding",
            Self::DecodedTooLarge => "decoded-too-large",
            Self::LinkPassStopped => "link-pass-stopped",
            Self::FieldsTooLarge => "fields-too-large",
        }
    }
}
