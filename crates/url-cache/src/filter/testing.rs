//! URLs and hashes for the filters' tests.

use model::CanonicalUrl;
use xxhash_rust::xxh3::xxh3_128;

use super::Question;

/// The hash of a number, as good as a URL's.
pub(crate) fn hash(number: u64) -> u128 {
    xxh3_128(&number.to_le_bytes())
}

pub(crate) fn urls(numbers: std::ops::Range<u32>) -> Vec<CanonicalUrl> {
    numbers
        .map(|number| CanonicalUrl::parse(&format!("http://h{}.test/{number}", number % 7)).expect("it is a URL"))
        .collect()
}

pub(crate) fn questions(urls: &[CanonicalUrl]) -> Vec<Question<'_>> {
    urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect()
}
