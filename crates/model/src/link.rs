//! A link as a page gives it, and as the frontier keeps it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CanonicalUrl, UrlKey};

/// How a URL was reached; the letters are those of Heritrix's hop paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HopClass {
    /// Given by the user.
    Seed,
    /// A link a person would follow: `a`, `area`, `link rel=next` and their kin, frames.
    Navigation,
    /// A `Location` header or a meta refresh.
    Redirect,
}

/// A link found on a page, resolved, canonical and hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub url: CanonicalUrl,
    /// Its key, computed on the parse thread.
    pub key: UrlKey,
    /// How it was linked.
    pub hop: HopClass,
    /// `rel=nofollow`, or the page forbids following any of its links.
    pub nofollow: bool,
}

/// A URL's place in its host's queue: lower ranks are fetched first. No two URLs of a job share one.
///
/// The upper 16 bits order (in breadth-first order: the depth), the lower 48 number the admissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank(u64);

impl Rank {
    /// A rank from its order and the number of the admission.
    pub fn new(order: u16, admission: u64) -> Self {
        Self(u64::from(order) << 48 | admission & 0xffff_ffff_ffff)
    }

    /// The number of the admission.
    pub fn admission(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }

    /// Big-endian, so that byte order is queue order.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// A URL the frontier holds: admitted, and not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedUrl {
    /// What to fetch.
    pub url: CanonicalUrl,
    /// Its place in the host's queue, given by the frontier when it is admitted.
    pub rank: Rank,
    /// Links away from a seed; redirects do not count.
    pub depth: u16,
    /// Redirects since the last link or seed.
    pub redirects: u8,
    /// How it was reached.
    pub hop: HopClass,
    /// The page that linked to it first; `None` for a seed.
    pub via: Option<Arc<str>>,
}
