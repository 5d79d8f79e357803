//! Counters in place of bits (Fan, Cao, Almeida & Broder 1998; Liu et al. 2016).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use model::UrlKey;

use super::memory::Memory;
use super::{Fill, Filter, Members, Nature, Question, expect_u64, fold, read_u64, scale, wide};
use crate::store::StoreError;

/// Questions whose counters are requested before the first is looked at.
const BATCH: usize = 32;

/// Bits in a counter: four suffice (Fan et al. 1998), for with the optimal number of positions one counter
/// in 10¹⁵ reaches sixteen.
const COUNTER_BITS: u32 = 4;

/// Counters in a word.
const PER_WORD: u64 = (u64::BITS / COUNTER_BITS) as u64;

/// The largest count, which stands for every larger one, too.
const SATURATED: u64 = (1 << COUNTER_BITS) - 1;

/// The lowest bit of each counter in a word.
const LOWEST: u64 = u64::MAX / SATURATED;

/// Odd constants with as many ones as zeros, one for each word that is derived from a hash.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP: u64 = 0xd6e8_feb8_6659_fd93;

/// A Bloom filter of counters, from which URLs can be removed.
///
/// The source is *Summary Cache* (Fan et al. 1998): each bit of a Bloom filter becomes a counter of
/// four bits, which counts the members that have a position there. Counters stop at 15. What becomes of
/// such a counter when one of its members is removed is the subject of Liu et al. 2016 (*IMP-CBFilter*,
/// §2.3): it is counted anew, from the counter numbers that they keep beside each fingerprint in their
/// exact store. Here they need not be kept: they follow from the keys of the members that remain.
///
/// Each URL is counted once: a question about a known one does not add to its counters, for else they
/// would run full with every page that links to it (Liu et al. 2016, end of §2.3). A URL two of whose
/// positions coincide is counted twice there, and twice taken away.
///
/// **Useful for** forgetting URLs. **Not useful for** memory: it takes four times that of a Bloom filter,
/// and three to four times that of a cuckoo filter, which can forget as well.
///
/// Positions come from the two halves of the key's 128-bit hash, each mixed with a seed of the generation,
/// by double hashing (Kirsch & Mitzenmacher 2006).
pub struct CountingFilter {
    words: Memory<u64>,
    hashes: u32,
    seeds: [u64; 2],
    capacity: u64,
    items: u64,
    /// Counters that are not 0.
    used: u64,
}

impl CountingFilter {
    /// A filter for `capacity` URLs with this false-positive rate when it holds them: as many counters
    /// and positions as the optimal Bloom filter has bits and positions.
    pub fn with_rate(capacity: u64, rate: f64, seeds: [u64; 2]) -> Self {
        let bits = optimal_bits(capacity, rate);
        let hashes = (bits / capacity.max(1) as f64 * std::f64::consts::LN_2).round().clamp(1.0, 64.0);
        Self::sized(capacity, bits, hashes as u32, seeds)
    }

    /// A filter with this number of positions, and so many counters for each position of each of
    /// `capacity` URLs. Liu et al. 2016 have 8 positions and 20 counters per URL: `hashes` is 8,
    /// `bits_per_hash` 2.5.
    pub fn explicit(capacity: u64, hashes: u32, bits_per_hash: f64, seeds: [u64; 2]) -> Self {
        let hashes = hashes.max(1);
        Self::sized(capacity, capacity.max(1) as f64 * f64::from(hashes) * bits_per_hash, hashes, seeds)
    }

    fn sized(capacity: u64, counters: f64, hashes: u32, seeds: [u64; 2]) -> Self {
        let words = (counters / PER_WORD as f64).ceil().max(1.0) as usize;
        Self { words: Memory::zeroed(words), hashes, seeds, capacity: capacity.max(1), items: 0, used: 0 }
    }

    fn counters(&self) -> u64 {
        self.words.values().len() as u64 * PER_WORD
    }

    fn positions(&self, hash: u128) -> Positions {
        Positions::new(hash, self.seeds, self.counters(), self.hashes)
    }

    fn count(&self, position: u64) -> u64 {
        (self.words.values()[(position / PER_WORD) as usize] >> shift(position)) & SATURATED
    }

    fn set(&mut self, position: u64, count: u64) {
        let word = &mut self.words.values_mut()[(position / PER_WORD) as usize];
        let before = (*word >> shift(position)) & SATURATED;
        *word ^= (before ^ count) << shift(position);
        self.used = self.used + u64::from(count != 0) - u64::from(before != 0);
    }

    /// Finds the positions of a batch and requests their counters.
    fn find<'p>(&self, batch: &[Question<'_>], places: &'p mut [Positions; BATCH]) -> &'p [Positions] {
        for (place, question) in places.iter_mut().zip(batch) {
            *place = self.positions(question.key.url_hash());
            place.each().for_each(|position| wide::request(self.words.values(), (position / PER_WORD) as usize));
        }
        &places[..batch.len()]
    }

    fn knows(&self, positions: Positions) -> bool {
        positions.each().all(|position| self.count(position) != 0)
    }

    fn add(&mut self, positions: Positions) {
        self.items = self.items.saturating_add(1);
        for position in positions.each() {
            self.set(position, (self.count(position) + 1).min(SATURATED));
        }
    }

    /// Counts these counters anew, in one pass over all members.
    fn recount(&self, saturated: Vec<u64>, members: &dyn Members) -> Result<BTreeMap<u64, u64>, StoreError> {
        // A member may come twice, so each counter remembers who was counted: the key, and for which of its
        // positions, for two may coincide. No more of them than a counter can count.
        let mut counted: BTreeMap<u64, Vec<(UrlKey, usize)>> =
            saturated.into_iter().map(|position| (position, Vec::new())).collect();
        members.visit(&mut |key| {
            for (which, position) in self.positions(key.url_hash()).each().enumerate() {
                if let Some(who) = counted.get_mut(&position)
                    && who.len() < SATURATED as usize
                    && !who.contains(&(key, which))
                {
                    who.push((key, which));
                }
            }
        })?;
        Ok(counted.into_iter().map(|(position, who)| (position, who.len() as u64)).collect())
    }
}

impl Filter for CountingFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, reads_text: false }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = [Positions::NOWHERE; BATCH];
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for (place, maybe) in self.find(batch, &mut places).iter().zip(maybe) {
                *maybe = self.knows(*place);
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = [Positions::NOWHERE; BATCH];
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for (place, maybe) in self.find(batch, &mut places).iter().zip(maybe) {
                *maybe = self.knows(*place);
                if !*maybe {
                    self.add(*place);
                }
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        let mut places = [Positions::NOWHERE; BATCH];
        for batch in questions.chunks(BATCH) {
            for place in self.find(batch, &mut places) {
                self.add(*place);
            }
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        // First what can fail, so that after a failure nothing has been taken away, and the same URLs may
        // be removed again.
        let positions: Vec<u64> = gone.iter().flat_map(|gone| self.positions(gone.key.url_hash()).each()).collect();
        let saturated: Vec<u64> =
            positions.iter().copied().filter(|position| self.count(*position) == SATURATED).collect();
        let recounted = if saturated.is_empty() { BTreeMap::new() } else { self.recount(saturated, members)? };
        // Saturated counters stay as they are here, whatever is taken from them, so the order does not matter.
        for position in positions {
            let count = self.count(position);
            if count != SATURATED {
                self.set(position, count.saturating_sub(1));
            }
        }
        for (position, count) in recounted {
            self.set(position, count);
        }
        self.items = self.items.saturating_sub(gone.len() as u64);
        Ok(())
    }

    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    fn fill(&self) -> Fill {
        let ratio = self.used as f64 / self.counters() as f64;
        Fill {
            items: self.items,
            capacity: self.capacity,
            ratio,
            predicted_false_positive_rate: ratio.powi(self.hashes.cast_signed()),
            bytes: self.words.bytes(),
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self { words: self.words.duplicate(), ..*self })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        for number in [self.counters(), u64::from(self.hashes), self.items] {
            to.write_all(&number.to_le_bytes())?;
        }
        self.words.save(to)
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "counters", self.counters())?;
        expect_u64(from, "positions", u64::from(self.hashes))?;
        self.items = read_u64(from)?;
        self.words.load(from)?;
        self.used = self.words.values().iter().map(|word| used(*word)).sum();
        Ok(())
    }
}

/// Bits of the optimal Bloom filter: −n·ln ε / (ln 2)².
pub(super) fn optimal_bits(capacity: u64, rate: f64) -> f64 {
    let ln2 = std::f64::consts::LN_2;
    capacity.max(1) as f64 * -rate.ln() / (ln2 * ln2)
}

/// Where a counter begins in its word.
fn shift(position: u64) -> u32 {
    (position % PER_WORD) as u32 * COUNTER_BITS
}

/// Counters in a word that are not 0.
fn used(word: u64) -> u64 {
    u64::from(((word | (word >> 1) | (word >> 2) | (word >> 3)) & LOWEST).count_ones())
}

/// The positions of a URL in a table, by double hashing: position *i* is *start* + *i* · *step*, scaled to
/// the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Positions {
    start: u64,
    step: u64,
    size: u64,
    count: u32,
}

impl Positions {
    pub(super) const NOWHERE: Self = Self { start: 0, step: 0, size: 0, count: 0 };

    /// So many positions in a table of this size.
    #[inline]
    pub(super) fn new(hash: u128, seeds: [u64; 2], size: u64, count: u32) -> Self {
        let (high, low) = ((hash >> 64) as u64, hash as u64);
        // An odd step does not come back to where it was.
        Self { start: fold(high ^ seeds[0], START), step: fold(low ^ seeds[1], STEP) | 1, size, count }
    }

    #[inline]
    pub(super) fn each(self) -> impl Iterator<Item = u64> {
        (0..u64::from(self.count))
            .map(move |number| scale(self.start.wrapping_add(number.wrapping_mul(self.step)), self.size))
    }
}
