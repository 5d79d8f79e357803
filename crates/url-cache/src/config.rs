//! Section `[url_cache]`.

use model::{ConfigError, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::filter::{HashKind, Positions};
use crate::store::StoreKind;

/// Section `[url_cache]`: how the crawl knows which links are new.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UrlCacheConfig {
    /// The filter in front of the exact store: "blocked", "bloom", "counting", "scalable", "cuckoo", "stable",
    /// "multilayer", "static", or "none" for the store alone. docs/url-cache.md says which when.
    pub filter: FilterKind,
    /// Filters side by side, with seeds of their own, which must all agree (spatial strategy).
    pub filters: u32,
    /// URLs the filter is made for, or "auto": a tenth more than the visit before found, and growing in a first
    /// visit.
    pub capacity: Capacity,
    /// Share of new URLs for which one filter may say "maybe" at its capacity, so that the store must be asked.
    pub false_positive_rate: f64,
    /// Positions per URL, in place of those that follow from the rate; 0 for those. With "bits_per_hash", for
    /// "bloom", "counting" and "multilayer": m = capacity * hashes * bits_per_hash.
    pub hashes: u32,
    /// Bits (counters, for "counting") per URL and position; 0 for those that follow from the rate.
    pub bits_per_hash: f64,
    /// What "bloom" hashes with: "xxh3", "jenkins", "murmur2", "md5" or "sha1".
    pub hash: HashKind,
    /// How "bloom" gets its positions: "double" from one hash, or "salts", one salted hash for each.
    pub positions: Positions,
    /// Layers of "multilayer": URL segments with a filter of their own.
    pub layers: u32,
    /// What the stages of "scalable" are: "blocked" or "bloom".
    pub stage: StageKind,
    /// What a filter does at its capacity: "grow", a second one of twice the size beside it, or "keep", saying
    /// "maybe" more and more often.
    pub when_full: WhenFull,
    /// Who decides: "exact", the store behind the filter; or "trust", the filter alone, which loses pages and
    /// reports how many.
    pub verify: Verify,
    /// When the filter is spun with new seeds: "every-visit" (temporal strategy), or "never".
    pub reseed: Reseed,
    /// The exact store: "sled", or "redb".
    pub store: StoreKind,
    /// Most entries of the in-memory cache of recent and popular URLs, 16 bytes each, taken as the crawl needs
    /// them; 0 for none.
    pub recent: usize,
    /// Whether to count how often each URL is linked. Costs 24 bytes of the journal per link.
    pub count_references: bool,
    /// Other strategies to run beside the real one, deciding nothing, to learn what they would have done.
    pub shadow: Vec<FilterKind>,
    /// How often the filter is saved, so that the next start need not make it again; "0s" for only at the end.
    pub snapshot_interval: Span,
}

/// The filters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterKind {
    /// The classic filter of Bloom 1970.
    Bloom,
    /// One cache line per question (Putze et al. 2007).
    Blocked,
    /// Counters instead of bits, so that URLs can leave (Fan et al. 1998).
    Counting,
    /// Stages that grow with the crawl (Almeida et al. 2007).
    Scalable,
    /// Fingerprints in buckets; URLs can leave (Fan et al. 2014).
    Cuckoo,
    /// Bounded for endless streams, and forgets (Deng & Rafiei 2006).
    Stable,
    /// A filter per URL segment (Cen et al. 2010).
    Multilayer,
    /// The last visit's URLs sealed with a flag each (Gøytil & Lundberg 2010, §7.2.2).
    Static,
    /// No filter: every question that the recent cache cannot answer goes to the store.
    None,
}

impl FilterKind {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Blocked => "blocked",
            Self::Counting => "counting",
            Self::Scalable => "scalable",
            Self::Cuckoo => "cuckoo",
            Self::Stable => "stable",
            Self::Multilayer => "multilayer",
            Self::Static => "static",
            Self::None => "none",
        }
    }
}

/// How many URLs a filter is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capacity {
    /// So many.
    Urls(u64),
    /// A tenth more than the visit before found; in a first visit a small beginning that grows.
    Auto,
}

/// What the stages of a scalable filter are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Blocked filters.
    Blocked,
    /// Classic filters.
    Bloom,
}

/// What a filter does at its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// It becomes the first stage of a scalable one.
    Grow,
    /// It takes more than it was made for.
    Keep,
}

/// Who decides whether a URL is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// The exact store.
    Exact,
    /// The filter.
    Trust,
}

/// When the filter gets other seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reseed {
    /// Every visit has the same.
    Never,
    /// Every visit has its own.
    EveryVisit,
}

impl Default for UrlCacheConfig {
    fn default() -> Self {
        Self {
            filter: FilterKind::Blocked,
            filters: 1,
            capacity: Capacity::Urls(1_000_000),
            false_positive_rate: 0.01,
            hashes: 0,
            bits_per_hash: 0.0,
            hash: HashKind::Xxh3,
            positions: Positions::Double,
            layers: 4,
            stage: StageKind::Blocked,
            when_full: WhenFull::Grow,
            verify: Verify::Exact,
            reseed: Reseed::EveryVisit,
            store: StoreKind::Sled,
            recent: 4_194_304,
            count_references: false,
            shadow: Vec::new(),
            snapshot_interval: Span(std::time::Duration::from_mins(5)),
        }
    }
}

impl UrlCacheConfig {
    /// Finds every value that cannot be, alone or with the others.
    ///
    /// # Errors
    /// All of them at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        use FilterKind::{Bloom, Counting, Multilayer, None, Scalable};
        let mut problems = ConfigError::default();
        let rate = self.false_positive_rate;
        problems.require(
            (1e-12..1.0).contains(&rate),
            "url_cache.false_positive_rate",
            format!("{rate} is not between 1e-12 and 1 (excluded); 0.01 is one in a hundred"),
        );
        problems.require(
            (1..=16).contains(&self.filters),
            "url_cache.filters",
            format!("{} filters are not between 1 and 16", self.filters),
        );
        if let Capacity::Urls(urls) = self.capacity {
            problems.require(
                (1..=100_000_000_000).contains(&urls),
                "url_cache.capacity",
                format!("{urls} URLs is not between 1 and 100 billion"),
            );
        }
        problems.require(
            self.hashes <= 64 && (0.0..=1000.0).contains(&self.bits_per_hash),
            "url_cache.hashes",
            "at most 64 hashes, and at most 1000 bits for each".to_owned(),
        );
        problems.require(
            (self.hashes == 0) == (self.bits_per_hash <= 0.0),
            "url_cache.bits_per_hash",
            "hashes and bits_per_hash are given both or not at all".to_owned(),
        );
        problems.require(
            self.hashes == 0 || matches!(self.filter, Bloom | Counting | Multilayer),
            "url_cache.hashes",
            format!("{:?} has no such shape; bloom, counting and multilayer have", self.filter.name()),
        );
        let hashes_texts = self.hash != HashKind::Xxh3 || self.positions != Positions::Double;
        let is_classic = self.filter == Bloom || (self.filter == Scalable && self.stage == StageKind::Bloom);
        problems.require(
            !hashes_texts || is_classic,
            "url_cache.hash",
            format!("{:?} takes its positions from the key; only bloom hashes in other ways", self.filter.name()),
        );
        problems.require(
            (1..=16).contains(&self.layers),
            "url_cache.layers",
            format!("{} layers are not between 1 and 16", self.layers),
        );
        problems.require(
            self.verify == Verify::Exact || self.filter != None,
            "url_cache.verify",
            "without a filter there is nothing to trust".to_owned(),
        );
        problems.require(
            self.verify == Verify::Exact || !self.count_references,
            "url_cache.count_references",
            "references are counted in the exact store, which verify = \"trust\" does without".to_owned(),
        );
        problems.require(
            !self.shadow.contains(&None),
            "url_cache.shadow",
            "\"none\" would call every URL known".to_owned(),
        );
        problems.require(
            self.recent <= 1 << 30,
            "url_cache.recent",
            format!("{} entries of 16 bytes are more than 16 GiB", self.recent),
        );
        problems.into_result()
    }
}

impl Serialize for Capacity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Urls(urls) => serializer.serialize_u64(*urls),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Capacity;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a number of URLs, or \"auto\"")
            }

            fn visit_u64<E>(self, urls: u64) -> Result<Capacity, E> {
                Ok(Capacity::Urls(urls))
            }

            fn visit_i64<E: serde::de::Error>(self, urls: i64) -> Result<Capacity, E> {
                u64::try_from(urls)
                    .map(Capacity::Urls)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(urls), &self))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Capacity, E> {
                match text {
                    "auto" => Ok(Capacity::Auto),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut UrlCacheConfig)) -> Vec<String> {
        let mut config = UrlCacheConfig::default();
        change(&mut config);
        match config.check() {
            Ok(()) => Vec::new(),
            Err(error) => error.0.iter().map(|problem| problem.key.clone()).collect(),
        }
    }

    #[test]
    fn impossible_values_are_named() {
        assert_eq!(problems(|_| {}), [""; 0]);
        let both = problems(|config| (config.false_positive_rate, config.capacity) = (1.0, Capacity::Urls(0)));
        assert_eq!(both, ["url_cache.false_positive_rate", "url_cache.capacity"]);
        assert_eq!(problems(|config| config.filters = 0), ["url_cache.filters"]);
        assert_eq!(problems(|config| config.layers = 0), ["url_cache.layers"]);
    }

    #[test]
    fn values_that_do_not_go_together_are_named() {
        assert_eq!(problems(|config| config.hash = HashKind::Md5), ["url_cache.hash"]);
        assert_eq!(problems(|config| (config.hash, config.filter) = (HashKind::Md5, FilterKind::Bloom)), [""; 0]);
        let shape = |filter| {
            move |config: &mut UrlCacheConfig| {
                (config.hashes, config.bits_per_hash, config.filter) = (8, 2.5, filter);
            }
        };
        assert_eq!(problems(shape(FilterKind::Counting)), [""; 0]);
        assert_eq!(problems(shape(FilterKind::Cuckoo)), ["url_cache.hashes"]);
        let half = problems(|config| (config.hashes, config.filter) = (8, FilterKind::Bloom));
        assert_eq!(half, ["url_cache.bits_per_hash"]);
        let blind = problems(|config| (config.verify, config.filter) = (Verify::Trust, FilterKind::None));
        assert_eq!(blind, ["url_cache.verify"]);
        let uncounted = problems(|config| (config.verify, config.count_references) = (Verify::Trust, true));
        assert_eq!(uncounted, ["url_cache.count_references"]);
        assert_eq!(problems(|config| config.shadow = vec![FilterKind::None]), ["url_cache.shadow"]);
    }
}
