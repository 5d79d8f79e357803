//! Why a URL is not fetched. Closed: an unexplained skip cannot be written down.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a URL was not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The reference is no URL.
    Malformed,
    /// A URL, but neither http nor https.
    UnsupportedScheme,
    /// Longer than `scope.max_url_length`.
    UrlTooLong,
    /// More links away from a seed than `scope.max_depth`.
    TooDeep,
    /// Its host is in `scope.deny_hosts`.
    DeniedHost,
    /// Outside what `scope.kind` draws around the seeds.
    OutOfScope,
    /// Matches a pattern of `scope.exclude`.
    Excluded,
    /// Matches no pattern of `scope.include`.
    NotIncluded,
    /// The page asks robots not to follow the link.
    Nofollow,
    /// More than `downloader.max_redirects` redirects in a row.
    TooManyRedirects,
    /// Its host has had `frontier.per_host_max_pages` pages.
    HostPageLimit,
    /// A rule of the host's robots.txt.
    RobotsDisallowed,
    /// The host's robots.txt could not be had, which RFC 9309 §2.3.1.4 counts as a refusal.
    RobotsUnreachable,
    /// The host did not answer as often as its kind of failure allows.
    HostDead,
    /// Its host's address is private, loopback or otherwise special, and such are not allowed.
    PrivateAddress,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::UnsupportedScheme,
        Self::UrlTooLong,
        Self::TooDeep,
        Self::DeniedHost,
        Self::OutOfScope,
        Self::Excluded,
        Self::NotIncluded,
        Self::Nofollow,
        Self::TooManyRedirects,
        Self::HostPageLimit,
        Self::RobotsDisallowed,
        Self::RobotsUnreachable,
        Self::HostDead,
        Self::PrivateAddress,
    ];

    /// The word used in reports and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnsupportedScheme => "unsupported-scheme",
            Self::UrlTooLong => "url-too-long",
            Self::TooDeep => "too-deep",
            Self::DeniedHost => "denied-host",
            Self::OutOfScope => "out-of-scope",
            Self::Excluded => "excluded",
            Self::NotIncluded => "not-included",
            Self::Nofollow => "nofollow",
            Self::TooManyRedirects => "too-many-redirects",
            Self::HostPageLimit => "host-page-limit",
            Self::RobotsDisallowed => "robots-disallowed",
            Self::RobotsUnreachable => "robots-unreachable",
            Self::HostDead => "host-dead",
            Self::PrivateAddress => "private-address",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal and the rule that made it, in words an operator can find in the configuration, on the
/// page or in robots.txt. The text is shared: rules are few, refusals are many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The rule, for example `scope.exclude[1] = "\\.pdf$"`.
    pub rule: Arc<str>,
}
