//! Fingerprints in one of two buckets (Fan, Andersen, Kaminsky & Mitzenmacher 2014).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use super::packed::{Buckets, SLOTS};
use super::{Fill, Filter, Members, Nature, Question, expect_u64, fold, misfit, read_u64, scale};
use crate::store::StoreError;

/// Questions whose buckets are requested before the first is looked at.
const BATCH: usize = 64;

/// Share of the slots that may be filled: what buckets of four reach (Fan et al. 2014, §5.1).
const LOAD: f64 = 0.95;

/// Fingerprints moved at most to make room for one: as many as in the paper (§3.1).
const KICKS: u64 = 500;

/// Odd constants with as many ones as zeros, one for each word that is derived from a hash.
const BUCKET: u64 = 0x9e37_79b9_7f4a_7c15;
const FINGERPRINT: u64 = 0xd6e8_feb8_6659_fd93;
const TURN: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];
const KICK: [u64; 2] = [0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// A cuckoo filter: of each URL a fingerprint of *f* bits, in one of two buckets of four slots.
///
/// The source is *Cuckoo Filter: Practically Better Than Bloom* (2014). A URL's first bucket and its
/// fingerprint come from the two halves of its hash, its second bucket from the first one and the
/// fingerprint alone, so that a fingerprint can be moved to its other bucket when a slot is needed
/// (§3.1, partial-key cuckoo hashing). A stranger is taken for a member when one of the eight slots
/// has its fingerprint, so *f* = ⌈log₂(8/ε)⌉ bits (§5.1).
///
/// It differs from the paper in three points. The second bucket is `(H(fingerprint) − first) mod n`
/// where the paper has an exclusive or: this is its own inverse for every `n`, so the number of buckets
/// need not be a power of two. Fingerprints have any number of bits from 4 to 32 and are packed. And a
/// fingerprint that finds no slot is not lost: it is kept in an exact list beside the table, which is
/// asked as well, and from then on [`Filter::room`] is 0.
///
/// **Useful for** forgetting URLs in a quarter of a counting filter's memory (10.5 bits per URL at 1 %,
/// 13.7 at 0.1 %, where a plain Bloom filter takes 9.6 and 14.4), and for two accesses to memory at any
/// rate. **Not useful for** being filled beyond its capacity: most of the URLs beyond it go to the list.
pub struct CuckooFilter {
    buckets: Buckets,
    /// How many copies of a fingerprint are homeless; its pair of buckets is named by the lower one.
    overflow: BTreeMap<(u64, u32), u32>,
    seeds: [u64; 2],
    capacity: u64,
    items: u64,
}

/// Where a URL may be, and as what.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    buckets: [u64; 2],
    fingerprint: u32,
}

impl Place {
    /// Its name in the overflow: the same from either bucket.
    fn name(self) -> (u64, u32) {
        (self.buckets[0].min(self.buckets[1]), self.fingerprint)
    }
}

impl CuckooFilter {
    /// A filter for `capacity` URLs with this false-positive rate when it holds them.
    pub fn with_rate(capacity: u64, rate: f64, seeds: [u64; 2]) -> Self {
        let capacity = capacity.max(1);
        let bits = (f64::from(2 * SLOTS) / rate).log2().ceil().clamp(4.0, 32.0) as u32;
        let count = (capacity as f64 / (LOAD * f64::from(SLOTS))).ceil() as u64;
        Self { buckets: Buckets::empty(count, bits), overflow: BTreeMap::new(), seeds, capacity, items: 0 }
    }

    #[inline]
    fn place(&self, hash: u128) -> Place {
        let (high, low) = ((hash >> 64) as u64, hash as u64);
        let bucket = scale(fold(high ^ self.seeds[0], BUCKET), self.buckets.count());
        // 0 is the empty slot.
        let fingerprint = 1 + scale(fold(low ^ self.seeds[1], FINGERPRINT), self.fingerprints()) as u32;
        Place { buckets: [bucket, self.other(bucket, fingerprint)], fingerprint }
    }

    /// How many different fingerprints there are.
    fn fingerprints(&self) -> u64 {
        (1 << self.buckets.bits()) - 1
    }

    /// The other bucket of a fingerprint. The other one's other bucket is the one.
    #[inline]
    fn other(&self, bucket: u64, fingerprint: u32) -> u64 {
        // Folded twice: once would put the turns of successive fingerprints at equal distances, and the
        // buckets that can be reached from each other by moving fingerprints would be few.
        let turn = fold(fold(u64::from(fingerprint) ^ self.seeds[0], TURN[0]) ^ self.seeds[1], TURN[1]);
        let turn = scale(turn, self.buckets.count());
        if turn >= bucket { turn - bucket } else { turn + self.buckets.count() - bucket }
    }

    /// Finds the places of a batch and requests their buckets.
    #[inline]
    fn find<'p>(&self, batch: &[Question<'_>], places: &'p mut [Place; BATCH]) -> &'p [Place] {
        for (place, question) in places.iter_mut().zip(batch) {
            *place = self.place(question.key.url_hash());
            place.buckets.iter().for_each(|bucket| self.buckets.request(*bucket));
        }
        &places[..batch.len()]
    }

    #[inline]
    fn knows(&self, place: Place) -> bool {
        self.buckets.hold(place.buckets, place.fingerprint)
            || (!self.overflow.is_empty() && self.overflow.contains_key(&place.name()))
    }

    fn add(&mut self, place: Place) {
        self.items += 1;
        let Place { buckets: [one, other], mut fingerprint } = place;
        if self.buckets.put(one, fingerprint) || self.buckets.put(other, fingerprint) {
            return;
        }
        let mut bucket = one;
        // Beyond the capacity moving others would be in vain, and slow.
        if self.items <= self.capacity {
            let start = fold(one ^ self.seeds[1], u64::from(fingerprint) ^ KICK[0]);
            for kick in 0..KICKS {
                // One step is looked ahead: the other buckets of all four victims come from memory at the
                // same time, and one with room ends the walk. Filling 50 million slots takes half the time
                // that it takes to try one after the other.
                let victims: [Place; SLOTS as usize] = std::array::from_fn(|slot| {
                    let fingerprint = self.buckets.at(bucket, slot as u32);
                    let other = self.other(bucket, fingerprint);
                    self.buckets.request(other);
                    Place { buckets: [bucket, other], fingerprint }
                });
                for (victim, slot) in victims.into_iter().zip(0..) {
                    if self.buckets.put(victim.buckets[1], victim.fingerprint) {
                        self.buckets.swap(bucket, slot, fingerprint);
                        return;
                    }
                }
                // Folded twice: once would make a pattern of the slots, and the walk would go in circles.
                let slot = fold(fold(start.wrapping_add(kick), KICK[0]), KICK[1]) >> 62;
                fingerprint = self.buckets.swap(bucket, slot as u32, fingerprint);
                bucket = victims[slot as usize].buckets[1];
            }
        }
        let homeless = Place { buckets: [bucket, self.other(bucket, fingerprint)], fingerprint };
        *self.overflow.entry(homeless.name()).or_default() += 1;
    }

    fn take(&mut self, place: Place) {
        // All copies of a fingerprint in a pair of buckets are alike: whichever is taken, as many remain.
        if let Some(copies) = self.overflow.get_mut(&place.name()) {
            *copies -= 1;
            if *copies == 0 {
                self.overflow.remove(&place.name());
            }
        } else if !place.buckets.iter().any(|bucket| self.buckets.take(*bucket, place.fingerprint)) {
            return;
        }
        self.items -= 1;
    }

    /// Fingerprints that found no slot.
    fn homeless(&self) -> u64 {
        self.overflow.values().map(|copies| u64::from(*copies)).sum()
    }
}

impl Filter for CuckooFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, reads_text: false }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = [Place::default(); BATCH];
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for (place, maybe) in self.find(batch, &mut places).iter().zip(maybe) {
                *maybe = self.knows(*place);
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = [Place::default(); BATCH];
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
        let mut places = [Place::default(); BATCH];
        for batch in questions.chunks(BATCH) {
            for place in self.find(batch, &mut places) {
                self.add(*place);
            }
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], _: &dyn Members) -> Result<(), StoreError> {
        let mut places = [Place::default(); BATCH];
        for batch in gone.chunks(BATCH) {
            for place in self.find(batch, &mut places) {
                self.take(*place);
            }
        }
        Ok(())
    }

    fn room(&self) -> u64 {
        if self.overflow.is_empty() { self.capacity.saturating_sub(self.items) } else { 0 }
    }

    fn fill(&self) -> Fill {
        let slots = self.buckets.count() as f64 * f64::from(SLOTS);
        let ratio = (self.items - self.homeless()) as f64 / slots;
        let one = 1.0 / self.fingerprints() as f64;
        // A stranger meets eight slots, and a homeless fingerprint if one of the pair is its first bucket.
        let met = f64::from(2 * SLOTS) * ratio + 2.0 * self.overflow.len() as f64 / self.buckets.count() as f64;
        Fill {
            items: self.items,
            capacity: self.capacity,
            ratio,
            predicted_false_positive_rate: 1.0 - (1.0 - one).powf(met),
            bytes: self.buckets.bytes() + self.overflow.len() * size_of::<((u64, u32), u32)>(),
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self { buckets: self.buckets.duplicate(), overflow: self.overflow.clone(), ..*self })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        for number in [self.buckets.count(), u64::from(self.buckets.bits()), self.overflow.len() as u64] {
            to.write_all(&number.to_le_bytes())?;
        }
        self.buckets.save(to)?;
        for ((bucket, fingerprint), copies) in &self.overflow {
            for number in [*bucket, u64::from(*fingerprint), u64::from(*copies)] {
                to.write_all(&number.to_le_bytes())?;
            }
        }
        Ok(())
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "buckets", self.buckets.count())?;
        expect_u64(from, "bits in a fingerprint", u64::from(self.buckets.bits()))?;
        let homeless = read_u64(from)?;
        self.buckets.load(from)?;
        self.overflow.clear();
        // One at a time: a number that was not written by us runs out of bytes before it runs out of memory.
        for _ in 0..homeless {
            let (bucket, fingerprint, copies) = (read_u64(from)?, read_u64(from)?, read_u64(from)?);
            if bucket >= self.buckets.count() {
                return Err(misfit("as a homeless fingerprint's bucket", bucket, self.buckets.count()));
            }
            if !(1..=self.fingerprints()).contains(&fingerprint) {
                return Err(misfit("as a homeless fingerprint", fingerprint, self.fingerprints()));
            }
            let Some(copies) = u32::try_from(copies).ok().filter(|copies| *copies > 0) else {
                return Err(misfit("copies of a homeless fingerprint", copies, 1));
            };
            self.overflow.insert((bucket, fingerprint as u32), copies);
        }
        self.items = self.buckets.used() + self.homeless();
        Ok(())
    }
}
