//! What is measured: our filters and other people's, behind one small trait.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Arc;

use url_cache::{BlockedFilter, BloomFilter, CountingFilter, CuckooFilter, Filter, Question, StableFilter, Stages};

use crate::filters::{Row, row};
use crate::keys::key_of_hash;
use crate::lowlevel::SplitBlocks;

/// Seeds of every filter of ours.
pub(crate) const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

/// A set that can be measured. Arrays instead of slices: the compiler then knows the batch's length.
pub(crate) trait Subject: Send {
    /// Whether it has a call for many hashes at once. The cells for batches stay empty where not.
    const BATCHES: bool;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]);

    /// How many of them are "maybe".
    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64;

    fn bytes(&self) -> usize;
}

/// The rows of the report.
pub(crate) fn rows() -> Vec<Row> {
    vec![
        row("blocked", |n, rate| Hashes(BlockedFilter::with_rate(n, rate, SEEDS))),
        row("blocked, Question", |n, rate| Ours(BlockedFilter::with_rate(n, rate, SEEDS))),
        row("bloom", |n, rate| Ours(BloomFilter::with_rate(n, rate, SEEDS))),
        row("scalable, from 65 536", |_, rate| {
            let make = move |stage: u32| -> Box<dyn Filter> {
                let rate = rate * 0.5_f64.powi(stage.cast_signed() + 1);
                Box::new(BlockedFilter::with_rate(65_536 << stage, rate, [u64::from(stage), SEEDS[1]]))
            };
            Ours(Stages::new(Arc::new(make)))
        }),
        row("cuckoo", |n, rate| Ours(CuckooFilter::with_rate(n, rate, SEEDS))),
        row("counting", |n, rate| Ours(CountingFilter::with_rate(n, rate, SEEDS))),
        row("stable", |n, rate| Ours(StableFilter::with_rate(n, rate, SEEDS))),
        row("fastbloom 0.17", |n, rate| {
            fastbloom::BloomFilter::with_false_pos(rate).hasher(Identity::default()).expected_items(n as usize)
        }),
        row("sbbf-rs 0.2", |n, rate| SplitBlocks::new((n as f64 / split_block_load(rate)).ceil() as usize)),
        row("qfilter 0.3", |n, rate| qfilter::Filter::new(n, rate).expect("the capacity is possible")),
        row("hashbrown set of u64", |n, _| {
            hashbrown::HashSet::with_capacity_and_hasher(n as usize, Identity::default())
        }),
    ]
}

/// A filter of ours through the trait, with its slices of questions.
pub(crate) struct Ours<F>(pub(crate) F);

fn questions<const N: usize>(hashes: &[u128; N]) -> [Question<'static>; N] {
    hashes.map(|hash| Question { key: key_of_hash(hash), url: "" })
}

fn yes(maybe: &[bool]) -> u64 {
    maybe.iter().map(|maybe| u64::from(*maybe)).sum()
}

impl<F: Filter> Subject for Ours<F> {
    const BATCHES: bool = true;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        self.0.ask_and_mark(&questions(hashes), &mut [false; N]);
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        let mut maybe = [false; N];
        self.0.ask(&questions(hashes), &mut maybe);
        yes(&maybe)
    }

    fn bytes(&self) -> usize {
        self.0.fill().bytes
    }
}

/// The blocked filter through its own calls, which take hashes.
struct Hashes(BlockedFilter);

impl Subject for Hashes {
    const BATCHES: bool = true;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        if let [hash] = hashes.as_slice() {
            self.0.ask_and_mark_hash(*hash);
        } else {
            self.0.ask_and_mark_hashes(hashes, &mut [false; N]);
        }
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        if let [hash] = hashes.as_slice() {
            return u64::from(self.0.ask_hash(*hash));
        }
        let mut maybe = [false; N];
        self.0.ask_hashes(hashes, &mut maybe);
        yes(&maybe)
    }

    fn bytes(&self) -> usize {
        self.0.fill().bytes
    }
}

impl<S: BuildHasher + Send> Subject for fastbloom::BloomFilter<S> {
    const BATCHES: bool = false;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        for hash in hashes {
            self.insert_hash(*hash as u64);
        }
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        hashes.iter().map(|hash| u64::from(self.contains_hash(*hash as u64))).sum()
    }

    fn bytes(&self) -> usize {
        self.num_bits() / 8
    }
}

impl Subject for SplitBlocks {
    const BATCHES: bool = false;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        for hash in hashes {
            self.insert(*hash as u64);
        }
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        hashes.iter().map(|hash| u64::from(self.contains(*hash as u64))).sum()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Subject for qfilter::Filter {
    const BATCHES: bool = false;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        for hash in hashes {
            self.insert_fingerprint(false, *hash as u64).expect("there is room for the capacity");
        }
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        hashes.iter().map(|hash| u64::from(self.contains_fingerprint(*hash as u64))).sum()
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

impl<S: BuildHasher + Send> Subject for hashbrown::HashSet<u64, S> {
    const BATCHES: bool = false;

    fn insert<const N: usize>(&mut self, hashes: &[u128; N]) {
        for hash in hashes {
            self.insert(*hash as u64);
        }
    }

    fn ask<const N: usize>(&self, hashes: &[u128; N]) -> u64 {
        hashes.iter().map(|hash| u64::from(self.contains(&(*hash as u64)))).sum()
    }

    fn bytes(&self) -> usize {
        self.allocation_size()
    }
}

/// A hasher for what is a hash already.
type Identity = BuildHasherDefault<IdentityHasher>;

#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only words are hashed here")
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Keys per block of 256 bits at which split blocks have this rate. Blocks fill unevenly (Poisson); a
/// block with `i` keys takes a stranger for a member at `(1 − (1 − 1/32)^i)^8`.
fn split_block_load(rate: f64) -> f64 {
    let rate_at = |load: f64| {
        let (mut probability, mut sum) = ((-load).exp(), 0.0);
        for keys in 0..400_i32 {
            sum += probability * (1.0 - (31.0_f64 / 32.0).powi(keys)).powi(8);
            probability *= load / f64::from(keys + 1);
        }
        sum
    };
    let (mut low, mut high) = (0.01, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if rate_at(middle) > rate { high = middle } else { low = middle }
    }
    low
}
