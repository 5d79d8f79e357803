//! The classic filter (Bloom 1970).

use super::{Fill, Filter, Nature, Question};

/// Bits, and `k` positions per URL.
///
/// Sizes are the optimal ones: `m = −n·ln ε / (ln 2)²` bits and `k = (m/n)·ln 2` positions for `n`
/// URLs at rate `ε`. Positions come from the key's 128-bit hash by double hashing (Kirsch &
/// Mitzenmacher 2006): position *i* is `a + i·b`, scaled to the table by multiply-shift, where `a`
/// and `b` are the hash's halves mixed with the generation's seeds. Nothing is hashed again.
#[derive(Debug)]
pub struct BloomFilter {
    words: Vec<u64>,
    hashes: u32,
    seeds: [u64; 2],
    capacity: u64,
    bits_set: u64,
}

impl BloomFilter {
    /// A filter for `capacity` URLs with this false-positive rate when it holds them.
    pub fn with_rate(capacity: u64, rate: f64, seeds: [u64; 2]) -> Self {
        let capacity = capacity.max(1);
        let ln2 = std::f64::consts::LN_2;
        let bits = (capacity as f64 * -rate.ln() / (ln2 * ln2)).ceil().max(64.0);
        let hashes = (bits / capacity as f64 * ln2).round().clamp(1.0, 64.0) as u32;
        let words = vec![0; (bits as u64).div_ceil(64) as usize];
        Self { words, hashes, seeds, capacity, bits_set: 0 }
    }

    /// Whether all positions were set; afterwards they are.
    fn test_and_set(&mut self, hash: u128) -> bool {
        let bits = self.words.len() as u128 * 64;
        let (low, high) = (hash as u64, (hash >> 64) as u64);
        let mut walk = mix(low ^ self.seeds[0], high ^ self.seeds[1]);
        // An odd step never folds onto few positions.
        let step = mix(high ^ self.seeds[0].rotate_left(32), low ^ self.seeds[1].rotate_left(32)) | 1;
        let mut fresh = 0;
        for _ in 0..self.hashes {
            let bit = ((u128::from(walk) * bits) >> 64) as usize;
            // `bit` is below the number of bits, so its word exists.
            if let Some(word) = self.words.get_mut(bit / 64) {
                let mask = 1 << (bit % 64);
                fresh += u64::from(*word & mask == 0);
                *word |= mask;
            }
            walk = walk.wrapping_add(step);
        }
        self.bits_set += fresh;
        fresh == 0
    }
}

/// Two words folded into one: the 128-bit product's halves, xored.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
    (product ^ (product >> 64)) as u64
}

impl Filter for BloomFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: false, grows: false }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            *maybe = self.test_and_set(question.key.url_hash());
        }
    }

    fn fill(&self) -> Fill {
        let ratio = self.bits_set as f64 / (self.words.len() as f64 * 64.0);
        Fill {
            capacity: self.capacity,
            ratio,
            predicted_false_positive_rate: ratio.powi(self.hashes.cast_signed()),
            bytes: size_of_val(self.words.as_slice()),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::CanonicalUrl;

    use super::*;
    use crate::Generation;

    fn asked(filter: &mut BloomFilter, range: std::ops::Range<u32>) -> Vec<bool> {
        range
            .map(|number| {
                let url = CanonicalUrl::parse(&format!("http://h{}.test/{number}", number % 7)).unwrap();
                let mut maybe = [false];
                filter.ask_and_mark(&[Question { key: url.key(), url: url.as_str() }], &mut maybe);
                maybe[0]
            })
            .collect()
    }

    fn filled(generation: u32, n: u32, rate: f64) -> BloomFilter {
        let mut filter = BloomFilter::with_rate(u64::from(n), rate, Generation::of_visit(generation).filter_seeds(0));
        asked(&mut filter, 0..n);
        filter
    }

    /// Strangers are asked of clones, so that asking does not fill the filter.
    fn strangers(filter: &BloomFilter, n: u32) -> Vec<bool> {
        let mut probe = BloomFilter { words: filter.words.clone(), ..BloomFilter::with_rate(1, 0.5, filter.seeds) };
        probe.hashes = filter.hashes;
        (0..n)
            .map(|number| {
                let before = probe.words.clone();
                let maybe = asked(&mut probe, 10_000_000 + number..10_000_001 + number)[0];
                probe.words = before;
                maybe
            })
            .collect()
    }

    #[test]
    fn members_are_always_found() {
        let mut filter = filled(0, 20_000, 0.01);
        assert!(asked(&mut filter, 0..20_000).iter().all(|maybe| *maybe));
    }

    #[test]
    fn the_rate_is_the_one_asked_for() {
        for rate in [0.1, 0.01] {
            let filter = filled(3, 2_000, rate);
            let wrong = strangers(&filter, 20_000).iter().filter(|maybe| **maybe).count() as f64 / 20_000.0;
            // Four standard deviations of a binomial of 20 000.
            let margin = 4.0 * (rate * (1.0 - rate) / 20_000.0).sqrt() + rate * 0.15;
            assert!((wrong - rate).abs() < margin, "{wrong} measured, {rate} asked");
            let predicted = filter.fill().predicted_false_positive_rate;
            assert!((predicted - rate).abs() < rate * 0.3, "{predicted} predicted, {rate} asked");
        }
    }

    #[test]
    fn generations_err_independently() {
        let (first, second) = (filled(0, 2_000, 0.1), filled(1, 2_000, 0.1));
        let both = strangers(&first, 20_000)
            .iter()
            .zip(strangers(&second, 20_000))
            .filter(|(first, second)| **first && *second)
            .count();
        // ε² of 20 000 is 200; one shared seed would give 2 000.
        assert!((130..280).contains(&both), "{both} strangers were taken for members twice");
    }

    #[test]
    fn sizes_are_the_optimal_ones() {
        let filter = BloomFilter::with_rate(1_000_000, 0.01, [1, 2]);
        assert_eq!(filter.hashes, 7);
        let bits_per_url = filter.fill().bytes as f64 * 8.0 / 1e6;
        assert!((bits_per_url - 9.585).abs() < 0.01, "{bits_per_url}");
    }
}
