//! Section `[url_cache]`.

use model::ConfigError;
use serde::{Deserialize, Serialize};

use crate::filter::{BloomFilter, Filter, NoFilter};
use crate::generation::Generation;

/// Section `[url_cache]`: how the crawl knows which links are new.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UrlCacheConfig {
    /// The filter in front of the exact store: "bloom", or "none" for the store alone.
    pub filter: FilterKind,
    /// URLs the filter is made for; beyond them it stays exact and asks the store more often.
    pub capacity: u64,
    /// Share of new URLs for which the filter may say "maybe" at its capacity, so that the store must be asked.
    pub false_positive_rate: f64,
    /// Entries of the in-memory cache of recent and popular URLs, 16 bytes each; 0 for none.
    pub recent: usize,
}

/// The filters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterKind {
    /// The classic filter of Bloom 1970.
    Bloom,
    /// No filter: every question that the recent cache cannot answer goes to the store.
    None,
}

impl Default for UrlCacheConfig {
    fn default() -> Self {
        Self { filter: FilterKind::Bloom, capacity: 1_000_000, false_positive_rate: 0.01, recent: 262_144 }
    }
}

impl UrlCacheConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        let rate = self.false_positive_rate;
        problems.require(
            rate > 0.0 && rate < 1.0,
            "url_cache.false_positive_rate",
            format!("{rate} is not between 0 and 1 (both excluded); 0.01 is one in a hundred"),
        );
        problems.require(
            (1..=100_000_000_000).contains(&self.capacity),
            "url_cache.capacity",
            format!("{} URLs is not between 1 and 100 billion", self.capacity),
        );
        problems.require(
            self.recent <= 1 << 30,
            "url_cache.recent",
            format!("{} entries of 16 bytes are more than 16 GiB", self.recent),
        );
        problems.into_result()
    }

    /// The configured filter, empty, with the seeds of a generation.
    pub fn build_filter(&self, generation: Generation) -> Box<dyn Filter> {
        match self.filter {
            FilterKind::Bloom => {
                Box::new(BloomFilter::with_rate(self.capacity, self.false_positive_rate, generation.filter_seeds(0)))
            }
            FilterKind::None => Box::new(NoFilter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_named() {
        let config = UrlCacheConfig { false_positive_rate: 1.0, capacity: 0, ..UrlCacheConfig::default() };
        let problems = config.check().unwrap_err().0;
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["url_cache.false_positive_rate", "url_cache.capacity"]);
        assert!(UrlCacheConfig::default().check().is_ok());
    }
}
