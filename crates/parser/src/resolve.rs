//! From references to links.

use encoding_rs::Encoding;
use hashbrown::HashTable;
use model::{CanonicalUrl, Link, Page, Reason, RefusedLink, UrlError};
use url::Url;

use crate::query::encode_query;
use crate::references::{Against, Reference, References};
use crate::text;

/// References reported as refused, and bytes kept of each.
const MAX_REFUSED: usize = 100;
const MAX_REFUSED_BYTES: usize = 256;

/// A longer base is passed over: it would be copied into every link of the page, none of which
/// anybody would fetch.
const MAX_BASE_BYTES: usize = 4 << 10;

/// What a page's references are resolved against.
#[derive(Debug)]
pub(crate) struct Bases {
    page: Url,
    /// What the page's base element says, if it says something else.
    element: Option<Url>,
    /// The encoding of queries.
    encoding: &'static Encoding,
}

impl Bases {
    /// The bases of a page, from its URL, its encoding and its base element's `href` (WHATWG HTML
    /// §4.2.3, "set the frozen base URL").
    pub(crate) fn new(url: &CanonicalUrl, charset: &'static Encoding, base: Option<&str>) -> Self {
        let page = url.to_url();
        let encoding = charset.output_encoding();
        let element = base
            .filter(|href| href.len() <= MAX_BASE_BYTES)
            .and_then(|href| page.join(&encode_query(href, encoding)).ok())
            .filter(|base| !matches!(base.scheme(), "data" | "javascript") && *base != page);
        Self { page, element, encoding }
    }

    /// The URL a reference leads to.
    pub(crate) fn join(&self, reference: &str, against: Against) -> Result<CanonicalUrl, UrlError> {
        CanonicalUrl::join(self.base(against), &encode_query(reference, self.encoding))
    }

    fn base(&self, against: Against) -> &Url {
        match against {
            Against::Base => self.element.as_ref().unwrap_or(&self.page),
            Against::Page => &self.page,
        }
    }

    /// An empty reference, which is what is left of `#top`, leads to the page itself unless the
    /// base says otherwise.
    fn leads_to_page_itself(&self, reference: &Reference<'_>) -> bool {
        reference.text.is_empty() && (reference.against == Against::Page || self.element.is_none())
    }
}

/// Resolves references, and finds those that lead to the same URL.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    /// Indices into the page's links, found by key.
    table: HashTable<u32>,
}

impl Resolver {
    /// Adds the links and the refused references to the page. `nofollow` says whether the page's
    /// wishes not to be followed are honoured; `page.robots` is one of them.
    pub(crate) fn resolve(&mut self, references: &References, bases: &Bases, nofollow: bool, page: &mut Page) {
        self.table.clear();
        page.links.reserve(references.iter().len());
        page.links_found = references.dropped();
        for reference in references.iter().filter(|reference| !bases.leads_to_page_itself(reference)) {
            page.links_found = page.links_found.saturating_add(reference.count);
            match bases.join(reference.text, reference.against) {
                Ok(url) => {
                    let nofollow = nofollow && (reference.nofollow || page.robots.nofollow);
                    self.add(&mut page.links, Link { key: url.key(), url, hop: reference.hop, nofollow });
                }
                Err(error) => refuse(&mut page.refused, reference.text, error),
            }
        }
    }

    fn add(&mut self, links: &mut Vec<Link>, link: Link) {
        let hash = link.key.url_hash() as u64;
        let key_at = |index: u32| links[index as usize].key;
        if let Some(&index) = self.table.find(hash, |index| key_at(*index) == link.key) {
            links[index as usize].nofollow &= link.nofollow;
        } else {
            self.table.insert_unique(hash, links.len() as u32, |index| key_at(*index).url_hash() as u64);
            links.push(link);
        }
    }
}

fn refuse(refused: &mut Vec<RefusedLink>, reference: &str, error: UrlError) {
    let reason = match error {
        UrlError::Malformed(_) => Reason::Malformed,
        UrlError::Scheme => Reason::UnsupportedScheme,
    };
    let reference = text::clip(reference, MAX_REFUSED_BYTES);
    if refused.len() < MAX_REFUSED && refused.iter().all(|known| known.reference != reference) {
        refused.push(RefusedLink { reference: reference.to_owned(), reason });
    }
}
