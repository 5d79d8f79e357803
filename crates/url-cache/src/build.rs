//! From the configuration to a filter.

use std::sync::Arc;

use crate::config::{Capacity, FilterKind, Reseed, StageKind, UrlCacheConfig, WhenFull};
use crate::filter::{
    BlockedFilter, BloomFilter, BloomShape, CountingFilter, CuckooFilter, Filter, Hashing, LayerShape, MakeStage,
    MultilayerFilter, NoFilter, Spatial, StableFilter, Stages, StaticFilter,
};
use crate::generation::Generation;

/// What a first visit begins with where the capacity is "auto".
const AUTO_BEGINNING: u64 = 65_536;

/// Places in a generation's sequence of seeds between filters side by side: stages take those between.
const STAGES: u32 = 256;

/// The same between the real strategy and its shadows.
const SHADOWS: u32 = 1 << 20;

/// Which visit a filter is made for, and what the visit before found.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// How many URLs the visit before admitted; 0 in a first visit.
    pub urls_before: u64,
    /// Their keys' hashes, in any order. Only "static" reads them; it may be given none where a saved
    /// filter will be loaded.
    pub known: &'a [u128],
}

impl Visit<'_> {
    /// A job's first visit.
    pub const FIRST: Self = Self { number: 1, urls_before: 0, known: &[] };
}

impl UrlCacheConfig {
    /// The configured filter for a visit, empty.
    pub fn build_filter(&self, visit: &Visit<'_>) -> Box<dyn Filter> {
        self.build(self.filter, visit, 0)
    }

    /// The shadows for a visit, empty.
    pub fn build_shadows(&self, visit: &Visit<'_>) -> Vec<(FilterKind, Box<dyn Filter>)> {
        (1..).zip(&self.shadow).map(|(place, kind)| (*kind, self.build(*kind, visit, place * SHADOWS))).collect()
    }

    /// Whether some strategy needs the keys of the visit before.
    pub fn needs_known(&self) -> bool {
        self.filter == FilterKind::Static || self.shadow.contains(&FilterKind::Static)
    }

    /// A text that names the filter with all that its bits depend on: a saved one is only loaded where
    /// this is the same.
    pub fn identity(&self, visit: &Visit<'_>) -> String {
        let Self { filter, filters, false_positive_rate, hashes, bits_per_hash, hash, positions, .. } = self;
        let (capacity, generation) = (self.capacity_for(visit), self.generation(visit));
        // Only what matters to this kind, or a snapshot would be refused for a key that changes nothing.
        let of_kind = match filter {
            FilterKind::Multilayer => format!("layers={} grows={} ", self.layers, self.grows()),
            FilterKind::Scalable => format!("stage={:?} ", self.stage),
            FilterKind::Static => format!("stage={:?} visit={} ", self.stage, visit.number),
            FilterKind::Stable => String::new(),
            _ => format!("grows={} ", self.grows()),
        };
        format!(
            "version=1 filter={} filters={filters} capacity={capacity} rate={false_positive_rate:e} hashes={hashes} \
             bits_per_hash={bits_per_hash} hash={hash:?} positions={positions:?} {of_kind}generation={generation:?}",
            filter.name()
        )
    }

    /// Bytes that the filter of the configured capacity takes, or nearly: to refuse what no machine has.
    pub fn filter_bytes(&self) -> u64 {
        let Capacity::Urls(urls) = self.capacity else { return 0 };
        let classic = match self.hashes {
            0 => -self.false_positive_rate.log2() / std::f64::consts::LN_2,
            hashes => f64::from(hashes) * self.bits_per_hash,
        };
        let bits = match self.filter {
            FilterKind::None => 0.0,
            FilterKind::Counting => 4.0 * classic,
            // Each layer for the root of the rate, which is half the bits.
            FilterKind::Multilayer if self.hashes == 0 => f64::from(self.layers + 1) * classic / 2.0,
            FilterKind::Multilayer => f64::from(self.layers + 1) * classic,
            // What is beside the known URLs begins with a tenth.
            FilterKind::Static => classic / 10.0,
            _ => classic,
        };
        (urls as f64 * bits / 8.0) as u64 * u64::from(self.filters)
    }

    /// URLs the filter is made for in this visit.
    pub fn capacity_for(&self, visit: &Visit<'_>) -> u64 {
        match self.capacity {
            Capacity::Urls(urls) => urls,
            // A tenth more than last time (Gøytil & Lundberg 2010, §7.2.1: the last crawl tells the size).
            Capacity::Auto if visit.urls_before > 0 => visit.urls_before + visit.urls_before / 10 + 1024,
            Capacity::Auto => AUTO_BEGINNING,
        }
    }

    fn generation(&self, visit: &Visit<'_>) -> Generation {
        match self.reseed {
            Reseed::EveryVisit => Generation::of_visit(visit.number),
            Reseed::Never => Generation::of_visit(1),
        }
    }

    fn grows(&self) -> bool {
        self.when_full == WhenFull::Grow || self.capacity == Capacity::Auto
    }

    fn build(&self, kind: FilterKind, visit: &Visit<'_>, seeds_from: u32) -> Box<dyn Filter> {
        if kind == FilterKind::None {
            return Box::new(NoFilter);
        }
        let mut filters: Vec<Box<dyn Filter>> =
            (0..self.filters).map(|place| self.build_one(kind, visit, seeds_from + place * STAGES)).collect();
        match filters.pop() {
            Some(only) if filters.is_empty() => only,
            last => Box::new(Spatial::new(filters.into_iter().chain(last).collect())),
        }
    }

    /// One of the filters side by side, with the seeds from here on.
    fn build_one(&self, kind: FilterKind, visit: &Visit<'_>, seeds_from: u32) -> Box<dyn Filter> {
        let generation = self.generation(visit);
        let capacity = self.capacity_for(visit);
        let recipe = Recipe { config: self.clone(), generation, capacity, seeds_from };
        match kind {
            FilterKind::Static => {
                // Most of a revisit's URLs are known: what is beside them begins small.
                let beside = Recipe { capacity: (capacity / 10).max(AUTO_BEGINNING), ..recipe.clone() };
                let beside = beside.stages(FilterKind::Scalable);
                let seeds = generation.filter_seeds(seeds_from + STAGES - 1);
                Box::new(StaticFilter::new(visit.known, self.false_positive_rate, seeds, beside))
            }
            FilterKind::Scalable => recipe.stages(kind),
            // It is never full: it forgets.
            FilterKind::Stable => recipe.stage(kind, 0),
            _ if self.grows() => recipe.stages(kind),
            _ => recipe.stage(kind, 0),
        }
    }
}

/// All that the stages of one filter are made from.
#[derive(Clone)]
struct Recipe {
    config: UrlCacheConfig,
    generation: Generation,
    capacity: u64,
    seeds_from: u32,
}

impl Recipe {
    fn stages(self, kind: FilterKind) -> Box<dyn Filter> {
        let make: MakeStage = Arc::new(move |number| self.stage(kind, number));
        Box::new(Stages::new(make))
    }

    /// The stage of a number: each has twice the capacity of the one before and half its rate.
    fn stage(&self, kind: FilterKind, number: u32) -> Box<dyn Filter> {
        let config = &self.config;
        let capacity = self.capacity << number.min(32);
        let seeds = self.generation.filter_seeds(self.seeds_from + number);
        // A scalable filter keeps to its rate however far it grows: ε/2 + ε/4 + … < ε (Almeida et al.
        // 2007, §4, with r = ½). A fixed one has its whole rate at its capacity, and at most twice that
        // when it has grown.
        let halvings = number + u32::from(kind == FilterKind::Scalable);
        let rate = config.false_positive_rate * 0.5_f64.powi(halvings.cast_signed());
        let explicit = config.hashes > 0;
        let hashes = config.hashes + number;
        let hashing = Hashing { kind: config.hash, positions: config.positions };
        let classic = || -> Box<dyn Filter> {
            let shape = if explicit {
                // One more position of as many bits as the others halves the rate, or nearly.
                BloomShape::explicit(capacity, hashes, config.bits_per_hash)
            } else {
                BloomShape::with_rate(capacity, rate)
            };
            Box::new(BloomFilter::new(shape, hashing, seeds))
        };
        match kind {
            FilterKind::Bloom => classic(),
            FilterKind::Scalable if config.stage == StageKind::Bloom => classic(),
            FilterKind::Counting if explicit => {
                Box::new(CountingFilter::explicit(capacity, hashes, config.bits_per_hash, seeds))
            }
            FilterKind::Counting => Box::new(CountingFilter::with_rate(capacity, rate, seeds)),
            FilterKind::Cuckoo => Box::new(CuckooFilter::with_rate(capacity, rate, seeds)),
            FilterKind::Stable => Box::new(StableFilter::with_rate(capacity, rate, seeds)),
            FilterKind::Multilayer => {
                let shape = if explicit {
                    LayerShape::explicit(capacity, hashes, config.bits_per_hash)
                } else {
                    LayerShape::with_rate(capacity, rate)
                };
                Box::new(MultilayerFilter::new(config.layers, shape, seeds))
            }
            FilterKind::Blocked | FilterKind::Scalable | FilterKind::Static => {
                Box::new(BlockedFilter::with_rate(capacity, rate, seeds))
            }
            FilterKind::None => Box::new(NoFilter),
        }
    }
}
