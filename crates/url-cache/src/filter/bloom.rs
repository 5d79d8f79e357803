//! The classic filter (Bloom 1970).

use std::io::{self, Read, Write};

use super::hashing::{derive, hash64, hash128};
use super::memory::Memory;
use super::{Fill, Filter, HashKind, Hashing, Nature, Positions, Question, expect_u64, fold, read_u64, scale, wide};

/// Questions whose bits are looked at together.
const BATCH: usize = 64;

/// Words looked at to tell how full a table is: 2¹⁸ bits, so the share of ones is right to 0.1 %.
const SAMPLE: usize = 4096;

/// Odd constants with about as many ones as zeros, one for each word that is derived from a key's hash.
const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP: u64 = 0xd6e8_feb8_6659_fd93;

/// The size of a classic filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BloomShape {
    /// URLs it is made for.
    pub capacity: u64,
    /// Bits of the table, m.
    pub bits: u64,
    /// Positions per URL, k.
    pub hashes: u32,
}

impl BloomShape {
    /// The smallest table with this false-positive rate, between 0 and 1, when it holds `capacity` URLs.
    ///
    /// `k = log₂ 1/ε`, rounded, and then `m = −k·n / ln(1 − ε^(1/k))`: what Bloom's formula gives for a
    /// whole number of positions. `m = −n·ln ε / (ln 2)²` is the same where `k` need not be rounded.
    /// (Cen et al. 2010 must have used it too: their m = 16,829,152 for n = 3,500,000, ε = 0.1, k = 3 is
    /// this, rounded up to 32 bits, and not what their formula 2 gives.)
    pub fn with_rate(capacity: u64, rate: f64) -> Self {
        let hashes = (-rate.log2()).round().clamp(1.0, 64.0);
        let bits_per_hash = -1.0 / (-rate.powf(1.0 / hashes)).ln_1p();
        Self::explicit(capacity, hashes as u32, bits_per_hash)
    }

    /// `m = n·k·M` bits (Gøytil & Lundberg 2010, §5): `bits_per_hash` is M, and the rate at `capacity`
    /// URLs is `(1 − e^(−1/M))^k`.
    pub fn explicit(capacity: u64, hashes: u32, bits_per_hash: f64) -> Self {
        let (capacity, hashes) = (capacity.max(1), hashes.max(1));
        let bits = (capacity as f64 * f64::from(hashes) * bits_per_hash).ceil().max(1.0) as u64;
        Self { capacity, bits, hashes }
    }

    /// Words of 64 bits that hold the table.
    pub(super) fn words(self) -> usize {
        usize::try_from(self.bits.div_ceil(64)).expect("a table fits the address space")
    }
}

/// Bits, and `k` positions per URL (Bloom 1970; algorithms 1 and 2 of Gøytil & Lundberg 2010).
///
/// **Useful for** the fewest bits at a given rate that a filter of single bits can have, any shape, and
/// the experiments of the papers with any of their hash functions. **Not useful for** speed out of cache,
/// where each position is an access to memory of its own ([`super::BlockedFilter`] needs one for all), nor
/// with double hashing for rates below one in `m`: two URLs then share all positions more often than that.
///
/// With [`Hashing::default`] nothing is hashed: the first position comes from the upper half of the key's
/// 128-bit hash, the step from the lower, each mixed with a seed of the generation.
pub struct BloomFilter {
    table: Memory<u64>,
    shape: BloomShape,
    hashing: Hashing,
    seeds: [u64; 2],
    /// One for each position, if positions come from salts.
    salts: Vec<u64>,
    items: u64,
}

/// Where a question's positions begin, and how they go on; nothing where each has a salt of its own.
#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    first: u64,
    step: u64,
}

/// A question of which no bit was found missing so far.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    /// Where it stands in its batch.
    place: usize,
    walk: Walk,
    /// The position to look at next.
    position: u64,
}

impl BloomFilter {
    /// An empty filter.
    pub fn new(shape: BloomShape, hashing: Hashing, seeds: [u64; 2]) -> Self {
        let salts = match hashing.positions {
            Positions::Double => Vec::new(),
            Positions::Salts => (0..u64::from(shape.hashes)).map(|number| derive(seeds, number)).collect(),
        };
        let table = Memory::zeroed(shape.words());
        Self { table, shape, hashing, seeds, salts, items: 0 }
    }

    /// A filter for `capacity` URLs with this false-positive rate when it holds them, that hashes nothing.
    pub fn with_rate(capacity: u64, rate: f64, seeds: [u64; 2]) -> Self {
        Self::new(BloomShape::with_rate(capacity, rate), Hashing::default(), seeds)
    }

    fn walk(&self, question: &Question<'_>) -> Walk {
        let (first, step) = match self.hashing {
            Hashing { positions: Positions::Salts, .. } => (0, 0),
            Hashing { kind: HashKind::Xxh3, .. } => {
                let hash = question.key.url_hash();
                let (high, low) = ((hash >> 64) as u64, hash as u64);
                (fold(high ^ self.seeds[0], FIRST), fold(low ^ self.seeds[1], STEP))
            }
            Hashing { kind, .. } => {
                let hash = hash128(kind, self.seeds, question.url);
                ((hash >> 64) as u64, hash as u64)
            }
        };
        // An odd step never folds onto few positions.
        Walk { first, step: step | 1 }
    }

    /// The position of a number below `k`.
    #[inline]
    fn position(&self, question: &Question<'_>, walk: Walk, number: u32) -> u64 {
        let word = match self.hashing.positions {
            Positions::Double => walk.first.wrapping_add(walk.step.wrapping_mul(u64::from(number))),
            Positions::Salts => hash64(self.hashing.kind, self.salts[number as usize], question.url),
        };
        scale(word, self.shape.bits)
    }

    /// Finds the positions of a batch, one question's after the other's, and requests their words.
    fn find(&self, batch: &[Question<'_>], positions: &mut Vec<u64>) {
        let words = self.table.values();
        positions.clear();
        for question in batch {
            let walk = self.walk(question);
            for number in 0..self.shape.hashes {
                let position = self.position(question, walk, number);
                request(words, position);
                positions.push(position);
            }
        }
    }
}

impl Filter for BloomFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: false, reads_text: self.hashing.reads_text() }
    }

    /// A batch goes through its positions together: the first of each, then the second of those still open,
    /// and so on. Each round requests the words of the next, and soon after its first zero nothing more is
    /// hashed or fetched for a URL. (Measured at 50 million URLs and 1 %: requesting the first words only
    /// takes two to three times as long, requesting all at once twice as long where the answer is "no".)
    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let words = self.table.values();
        let mut open = [Open::default(); BATCH];
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for ((place, open), question) in (0..).zip(&mut open).zip(batch) {
                let walk = self.walk(question);
                let position = self.position(question, walk, 0);
                request(words, position);
                *open = Open { place, walk, position };
            }
            let mut left = batch.len();
            for number in 1..self.shape.hashes {
                // Those whose bit is set move to the front. A branch would be guessed wrong half of the time.
                let mut still = 0;
                for index in 0..left {
                    let Open { place, walk, position } = open[index];
                    let next = self.position(&batch[place], walk, number);
                    request(words, next);
                    open[still] = Open { place, walk, position: next };
                    still += usize::from(is_set(words, position));
                }
                left = still;
            }
            maybe.fill(false);
            for open in &open[..left] {
                maybe[open.place] = is_set(words, open.position);
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut positions = Vec::new();
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            self.find(batch, &mut positions);
            let words = self.table.values_mut();
            for (positions, maybe) in positions.chunks(self.shape.hashes as usize).zip(maybe) {
                *maybe = !set_all(words, positions);
                self.items = self.items.saturating_add(u64::from(!*maybe));
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        let mut positions = Vec::new();
        for batch in questions.chunks(BATCH) {
            self.find(batch, &mut positions);
            set_all(self.table.values_mut(), &positions);
        }
        self.items = self.items.saturating_add(questions.len() as u64);
    }

    fn room(&self) -> u64 {
        self.shape.capacity.saturating_sub(self.items)
    }

    fn fill(&self) -> Fill {
        let ratio = share_of_ones(self.table.values(), self.shape.bits);
        Fill {
            items: self.items,
            capacity: self.shape.capacity,
            ratio,
            predicted_false_positive_rate: ratio.powi(self.shape.hashes.cast_signed()),
            bytes: self.table.bytes(),
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self { table: self.table.duplicate(), salts: self.salts.clone(), ..*self })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        for number in [self.shape.bits, u64::from(self.shape.hashes), self.items] {
            to.write_all(&number.to_le_bytes())?;
        }
        self.table.save(to)
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "bits", self.shape.bits)?;
        expect_u64(from, "positions per URL", u64::from(self.shape.hashes))?;
        self.items = read_u64(from)?;
        self.table.load(from)
    }
}

/// Asks for the word of a position that will be looked at soon.
#[inline]
pub(super) fn request(words: &[u64], position: u64) {
    wide::request(words, (position / 64) as usize);
}

#[inline]
pub(super) fn is_set(words: &[u64], position: u64) -> bool {
    words[(position / 64) as usize] >> (position % 64) & 1 == 1
}

/// Sets the bits at these positions. Whether one of them was not set before.
#[inline]
pub(super) fn set_all(words: &mut [u64], positions: &[u64]) -> bool {
    let mut missing = 0;
    for position in positions {
        let (word, bit) = (&mut words[(position / 64) as usize], 1 << (position % 64));
        missing |= !*word & bit;
        *word |= bit;
    }
    missing != 0
}

/// The share of ones in a table of `bits` bits. Of a large one it looks at a sample: positions are
/// spread evenly, so one part is as full as another.
pub(super) fn share_of_ones(words: &[u64], bits: u64) -> f64 {
    let step = words.len().div_ceil(SAMPLE).max(1);
    let sampled = words.iter().step_by(step);
    // The last word may have fewer bits than 64.
    let looked_at = if step == 1 { bits } else { sampled.len() as u64 * 64 };
    let ones: u64 = sampled.map(|word| u64::from(word.count_ones())).sum();
    ones as f64 / looked_at.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::CanonicalUrl;
    use proptest::prelude::*;

    use super::*;
    use crate::Generation;

    const KINDS: [HashKind; 5] = [HashKind::Xxh3, HashKind::Jenkins, HashKind::Murmur2, HashKind::Md5, HashKind::Sha1];

    fn every_hashing() -> impl Iterator<Item = Hashing> {
        let both = [Positions::Double, Positions::Salts];
        KINDS.into_iter().flat_map(move |kind| both.map(|positions| Hashing { kind, positions }))
    }

    fn pages(numbers: std::ops::Range<u32>) -> Vec<CanonicalUrl> {
        numbers.map(|n| CanonicalUrl::parse(&format!("http://h{}.test/{n}", n % 7)).unwrap()).collect()
    }

    fn questions(urls: &[CanonicalUrl]) -> Vec<Question<'_>> {
        urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect()
    }

    fn ask(filter: &BloomFilter, urls: &[CanonicalUrl]) -> Vec<bool> {
        let mut maybe = vec![false; urls.len()];
        filter.ask(&questions(urls), &mut maybe);
        maybe
    }

    fn filled(shape: BloomShape, hashing: Hashing, generation: u32, urls: &[CanonicalUrl]) -> BloomFilter {
        let mut filter = BloomFilter::new(shape, hashing, Generation::of_visit(generation).filter_seeds(0));
        filter.mark(&questions(urls));
        filter
    }

    fn share(answers: &[bool]) -> f64 {
        answers.iter().filter(|maybe| **maybe).count() as f64 / answers.len() as f64
    }

    #[test]
    fn the_rate_is_the_one_asked_for_with_every_hashing() {
        let (known, strangers) = (pages(0..2000), pages(10_000_000..10_020_000));
        for hashing in every_hashing() {
            for rate in [0.1, 0.01] {
                let filter = filled(BloomShape::with_rate(2000, rate), hashing, 3, &known);
                assert!(ask(&filter, &known).iter().all(|maybe| *maybe), "{hashing:?}: members are always found");
                let wrong = share(&ask(&filter, &strangers));
                // Four standard deviations of a binomial of 20 000, and the table's own deviation.
                let margin = 4.0 * (rate * (1.0 - rate) / 20_000.0).sqrt() + rate * 0.1;
                assert!((wrong - rate).abs() < margin, "{hashing:?}: {wrong} measured, {rate} asked");
                let predicted = filter.fill().predicted_false_positive_rate;
                assert!((predicted / rate - 1.0).abs() < 0.15, "{hashing:?}: {predicted} predicted, {rate} asked");
            }
        }
    }

    /// The thesis's tables 5.1 to 5.10 are of these shapes.
    #[test]
    fn explicit_shapes_have_the_rate_of_the_thesis() {
        let (known, strangers) = (pages(0..2000), pages(10_000_000..10_020_000));
        for (hashes, bits_per_hash) in [(1, 1.0), (2, 1.0), (2, 2.5), (4, 1.5), (4, 2.0), (8, 1.0), (8, 1.5)] {
            let shape = BloomShape::explicit(2000, hashes, bits_per_hash);
            assert_eq!(shape.bits, (2000.0 * f64::from(hashes) * bits_per_hash) as u64);
            let rate = (1.0 - (-1.0 / bits_per_hash).exp()).powi(hashes.cast_signed());
            for positions in [Positions::Double, Positions::Salts] {
                let filter = filled(shape, Hashing { kind: HashKind::Xxh3, positions }, 0, &known);
                let wrong = share(&ask(&filter, &strangers));
                let margin = 4.0 * (rate * (1.0 - rate) / 20_000.0).sqrt() + rate * 0.15;
                assert!(
                    (wrong - rate).abs() < margin,
                    "{hashes} × {bits_per_hash}: {wrong} measured, {rate} predicted"
                );
            }
        }
    }

    #[test]
    fn generations_err_independently_with_every_hashing() {
        let (known, strangers) = (pages(0..2000), pages(10_000_000..10_020_000));
        for hashing in every_hashing() {
            let shape = BloomShape::with_rate(2000, 0.1);
            let [first, second] = [0, 1].map(|generation| ask(&filled(shape, hashing, generation, &known), &strangers));
            let both = first.iter().zip(&second).filter(|(first, second)| **first && **second).count();
            // ε² of 20 000 is 200; one shared seed would give 2 000.
            assert!((130..280).contains(&both), "{hashing:?}: {both} strangers were taken for members twice");
        }
    }

    #[test]
    fn sizes_are_the_optimal_ones() {
        let shape = BloomShape::with_rate(1_000_000, 0.01);
        assert_eq!(shape.hashes, 7);
        let bits_per_url = shape.bits as f64 / 1e6;
        assert!((bits_per_url - 9.585).abs() < 0.01, "{bits_per_url}");
        // Where the best number of positions is whole, it is the textbook's size.
        let shape = BloomShape::with_rate(1_000_000, 1.0 / 1024.0);
        assert_eq!(shape.hashes, 10);
        assert!((shape.bits as f64 - 1e6 * 10.0 / std::f64::consts::LN_2).abs() < 2.0);
        // Cen et al. 2010, §V.
        let shape = BloomShape::with_rate(3_500_000, 0.1);
        assert_eq!((shape.hashes, shape.bits.next_multiple_of(32)), (3, 16_829_152));
    }

    #[test]
    fn only_hashing_of_its_own_reads_the_text() {
        for hashing in every_hashing() {
            let nature = BloomFilter::new(BloomShape::with_rate(10, 0.1), hashing, [1, 2]).nature();
            let default = hashing.kind == HashKind::Xxh3 && hashing.positions == Positions::Double;
            assert_eq!(nature, Nature { no_is_proof: true, removes: false, reads_text: !default });
        }
        assert!(!BloomFilter::with_rate(10, 0.1, [1, 2]).nature().reads_text);
    }

    #[test]
    fn it_counts_what_was_marked() {
        let urls = pages(0..100);
        let mut filter = filled(BloomShape::with_rate(150, 0.01), Hashing::default(), 0, &urls);
        assert_eq!((filter.fill().items, filter.fill().capacity, filter.room()), (100, 150, 50));
        filter.ask_and_mark(&questions(&urls), &mut [false; 100]);
        assert_eq!(filter.room(), 50, "members are not counted twice");
        filter.mark(&questions(&urls[..60]));
        assert_eq!(filter.room(), 0, "whom the caller marks is a member more");
    }

    #[test]
    fn the_share_of_ones_is_exact_in_small_tables_and_near_in_large_ones() {
        assert!((share_of_ones(&[u64::MAX, 1], 65) - 1.0).abs() < 1e-12);
        let filter = filled(BloomShape::explicit(200_000, 2, 2.0), Hashing::default(), 0, &pages(0..200_000));
        let words = filter.table.values();
        assert!(words.len() > SAMPLE);
        let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
        let exact = f64::from(ones) / filter.shape.bits as f64;
        assert!((filter.fill().ratio - exact).abs() < 0.005, "{} for {exact}", filter.fill().ratio);
    }

    proptest! {
        /// Batches answer and mark as algorithms 1 and 2 of the thesis, one URL after the other.
        #[test]
        fn batches_do_what_the_thesis_algorithms_do(
            batches in proptest::collection::vec((0_u8..3, proptest::collection::vec(0_u32..300, 0..150)), 1..6),
            hashing in proptest::sample::select(every_hashing().collect::<Vec<_>>()),
            bits in 1_u64..3000,
            hashes in 1_u32..9,
        ) {
            let seeds = [5, 6];
            let mut filter = BloomFilter::new(BloomShape { capacity: 100, bits, hashes }, hashing, seeds);
            let mut set = HashSet::new();
            for (call, numbers) in batches {
                let urls: Vec<CanonicalUrl> = numbers.iter().flat_map(|n| pages(*n..n + 1)).collect();
                let (mut maybe, mut expected) = (vec![false; urls.len()], vec![false; urls.len()]);
                match call {
                    0 => filter.ask(&questions(&urls), &mut maybe),
                    1 => filter.ask_and_mark(&questions(&urls), &mut maybe),
                    _ => filter.mark(&questions(&urls)),
                }
                for (url, expected) in urls.iter().zip(&mut expected) {
                    let positions: Vec<u64> =
                        (0..hashes).map(|number| slowly(hashing, seeds, url, number, bits)).collect();
                    *expected = call < 2 && positions.iter().all(|position| set.contains(position));
                    if call > 0 {
                        set.extend(positions);
                    }
                }
                prop_assert_eq!(maybe, expected);
            }
            let share = set.len() as f64 / bits as f64;
            prop_assert!((filter.fill().ratio - share).abs() < 1e-9);
        }
    }

    /// A position, by the definition.
    fn slowly(hashing: Hashing, seeds: [u64; 2], url: &CanonicalUrl, number: u32, bits: u64) -> u64 {
        let word = match hashing.positions {
            Positions::Salts => hash64(hashing.kind, derive(seeds, u64::from(number)), url.as_str()),
            Positions::Double => {
                let hash = hash128(hashing.kind, seeds, url.as_str());
                let (mut walk, mut step) = ((hash >> 64) as u64, hash as u64);
                if hashing.kind == HashKind::Xxh3 {
                    let key = url.key().url_hash();
                    walk = fold((key >> 64) as u64 ^ seeds[0], FIRST);
                    step = fold(key as u64 ^ seeds[1], STEP);
                }
                (0..number).for_each(|_| walk = walk.wrapping_add(step | 1));
                walk
            }
        };
        ((u128::from(word) * u128::from(bits)) >> 64) as u64
    }

    #[test]
    fn it_is_saved_loaded_and_copied() {
        let urls = pages(0..2000);
        let shape = BloomShape::with_rate(3000, 0.01);
        for hashing in every_hashing() {
            let filter = filled(shape, hashing, 2, &urls);
            let mut saved = Vec::new();
            filter.save(&mut saved).unwrap();
            let mut loaded = filled(shape, hashing, 2, &pages(5000..5009));
            loaded.load(&mut saved.as_slice()).unwrap();
            assert!(ask(&loaded, &urls).iter().all(|maybe| *maybe));
            assert_eq!(loaded.fill(), filter.fill());
            let mut again = Vec::new();
            filter.copy().save(&mut again).unwrap();
            assert_eq!(again, saved);
        }
    }

    #[test]
    fn what_is_no_saved_filter_is_refused() {
        let (urls, shape) = (pages(0..2000), BloomShape::with_rate(3000, 0.01));
        let mut filter = filled(shape, Hashing::default(), 2, &urls);
        let mut saved = Vec::new();
        filter.save(&mut saved).unwrap();
        for length in [0, 7, 23, 24, saved.len() - 1] {
            assert!(filter.load(&mut &saved[..length]).is_err(), "torn after {length} bytes");
        }
        for other in [BloomShape::with_rate(3001, 0.01), BloomShape { hashes: shape.hashes + 1, ..shape }] {
            let mut other = BloomFilter::new(other, Hashing::default(), [1, 2]);
            assert!(other.load(&mut saved.as_slice()).is_err(), "of another shape");
        }
        // A count that cannot be does no harm.
        saved[16..24].fill(0xff);
        filter.load(&mut saved.as_slice()).unwrap();
        filter.mark(&questions(&urls));
        assert_eq!(filter.room(), 0);
    }

    /// Saved filters reach the disk. If this test fails, old ones can no longer be read.
    #[test]
    fn bits_never_change() {
        let sums = every_hashing().map(|hashing| {
            let mut saved = Vec::new();
            filled(BloomShape { capacity: 100, bits: 1000, hashes: 4 }, hashing, 0, &pages(0..100))
                .save(&mut saved)
                .unwrap();
            xxhash_rust::xxh3::xxh3_64(&saved) as u32
        });
        let expected = [
            0x9aec_33fb,
            0x13fd_a6e0,
            0x1f95_60c8,
            0x3eb1_2787,
            0x681e_f439,
            0x6343_5deb,
            0x1d5f_806a,
            0x5b1a_bd54,
            0x6ccb_31c8,
            0x7d89_80de,
        ];
        assert_eq!(sums.collect::<Vec<u32>>(), expected);
    }
}
