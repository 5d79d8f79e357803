//! Which of the runs may hold a key: a small filter for each.

use crate::filter::{fold, scale};

use super::chunk::Fingerprint;

/// Bits per key: with [`PROBES`] bits set for each, one stranger in sixteen passes. A page that is
/// read in vain costs some hundred times what asking here does.
const BITS_PER_KEY: u64 = 6;
const PROBES: u32 = 4;

/// Words in a line of the processor's cache, in which all bits of a key are (Putze, Sanders &
/// Singler 2007, §3, blocked Bloom filters).
const LINE: usize = 8;

/// A filter of fixed size that is filled once. It lives in memory only and is never saved, so it
/// can be changed at will.
#[derive(Debug)]
pub(super) struct Sieve {
    lines: Vec<[u64; LINE]>,
}

impl Sieve {
    /// An empty one for so many keys.
    pub(super) fn new(keys: u64) -> Self {
        let lines = (keys * BITS_PER_KEY).div_ceil(64 * LINE as u64).max(1);
        Self { lines: vec![[0; LINE]; lines as usize] }
    }

    pub(super) fn mark(&mut self, fingerprint: Fingerprint) {
        let (line, mut bits) = self.place(fingerprint);
        for _ in 0..PROBES {
            self.lines[line][(bits >> 6) as usize % LINE] |= 1 << (bits % 64);
            bits >>= 9;
        }
    }

    /// Whether a fingerprint was perhaps marked.
    pub(super) fn may_hold(&self, fingerprint: Fingerprint) -> bool {
        let (line, mut bits) = self.place(fingerprint);
        let line = &self.lines[line];
        (0..PROBES).all(|_| {
            let set = line[(bits >> 6) as usize % LINE] >> (bits % 64) & 1 == 1;
            bits >>= 9;
            set
        })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.lines.as_slice())
    }

    /// A line, and the bits in it. The line is of the hash's upper bits, the others use its lower 36.
    fn place(&self, fingerprint: Fingerprint) -> (usize, u64) {
        // Two odd numbers of no meaning (digits of π), so that this filter's mistakes are not those
        // of the filter that let the question through to the store.
        let (high, low) = fingerprint.url_hash();
        let hash = fold(high ^ 0x2439_68a8_85a3_08d3, low ^ 0x1319_8a2e_0370_7345);
        (scale(hash, self.lines.len() as u64) as usize, hash)
    }
}

#[cfg(test)]
mod tests {
    use model::UrlKey;

    use super::*;

    fn key(number: u32) -> Fingerprint {
        let mut bytes = [0; UrlKey::LEN];
        bytes[8..16].copy_from_slice(&xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), 1).to_le_bytes());
        bytes[16..].copy_from_slice(&xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), 2).to_le_bytes());
        Fingerprint::of(&UrlKey::from_bytes(bytes))
    }

    #[test]
    fn members_pass_and_few_others() {
        let mut sieve = Sieve::new(50_000);
        (0..50_000).for_each(|number| sieve.mark(key(number)));
        assert!((0..50_000).all(|number| sieve.may_hold(key(number))));
        let passed = (50_000..150_000).filter(|&number| sieve.may_hold(key(number))).count();
        assert!((5_500..7_500).contains(&passed), "{passed} of 100 000 strangers passed");
    }
}
