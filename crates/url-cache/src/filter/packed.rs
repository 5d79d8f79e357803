//! Buckets of four fingerprints, packed without a gap between them.

use std::io::{self, Read, Write};

use super::memory::Memory;
use super::wide;

/// Fingerprints in a bucket: with four a cuckoo filter can be filled to 95 % (Fan et al. 2014, §5.1).
pub(super) const SLOTS: u32 = 4;

/// Up to this many bits in a fingerprint, a bucket is within eight bytes from where it begins; with
/// more, up to the 32 that there may be, within sixteen. It begins at a byte or in its middle.
const NARROW: u32 = 16;

/// Bytes after the last bucket, so that the sixteen from any bucket's beginning exist.
const PADDING: usize = 16;

/// A table of buckets. A slot holds a fingerprint of `bits` bits, or 0: nothing.
pub(super) struct Buckets {
    bytes: Memory<u8>,
    count: u64,
    bits: u32,
    /// The lowest bit of each of a bucket's four slots.
    lowest: u128,
}

impl Buckets {
    /// `count` empty buckets for fingerprints of 4 to 32 bits.
    pub(super) fn empty(count: u64, bits: u32) -> Self {
        assert!((4..=32).contains(&bits), "a fingerprint of {bits} bits does not fit the window that is read");
        let lowest = (0..SLOTS).map(|slot| 1 << (slot * bits)).sum();
        Self { bytes: Memory::zeroed(length(count, bits) + PADDING), count, bits, lowest }
    }

    pub(super) fn duplicate(&self) -> Self {
        Self { bytes: self.bytes.duplicate(), ..*self }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.bytes()
    }

    /// Asks for a bucket that will be looked at soon.
    #[inline]
    pub(super) fn request(&self, bucket: u64) {
        let (byte, _) = self.begin(bucket);
        wide::request(self.bytes.values(), byte);
        // What is read may go on in the next line; of the same one it costs next to nothing to ask twice.
        wide::request(self.bytes.values(), byte + if self.bits <= NARROW { 7 } else { 15 });
    }

    /// Whether one of these buckets holds this fingerprint.
    #[inline]
    pub(super) fn hold(&self, buckets: [u64; 2], fingerprint: u32) -> bool {
        if self.bits <= NARROW {
            // As below, in words of half the size: measurably faster for the usual rates.
            let lowest = self.lowest as u64;
            let (highest, everywhere) = (lowest << (self.bits - 1), u64::from(fingerprint) * lowest);
            let [one, other] = buckets.map(|bucket| {
                let window = self.narrow_window(bucket) ^ everywhere;
                window.wrapping_sub(lowest) & !window & highest
            });
            one | other != 0
        } else {
            let everywhere = self.everywhere(fingerprint);
            let [one, other] = buckets.map(|bucket| self.zeros(self.window(bucket) ^ everywhere));
            one | other != 0
        }
    }

    /// Puts a fingerprint into an empty slot of a bucket, or says that there is none.
    pub(super) fn put(&mut self, bucket: u64, fingerprint: u32) -> bool {
        self.replace(bucket, 0, fingerprint)
    }

    /// Takes one copy of a fingerprint out of a bucket, or says that there is none.
    pub(super) fn take(&mut self, bucket: u64, fingerprint: u32) -> bool {
        self.replace(bucket, fingerprint, 0)
    }

    /// What a slot holds.
    pub(super) fn at(&self, bucket: u64, slot: u32) -> u32 {
        (self.window(bucket) >> (slot * self.bits)) as u32 & (u32::MAX >> (32 - self.bits))
    }

    /// Puts a fingerprint in the place of another, which is returned.
    pub(super) fn swap(&mut self, bucket: u64, slot: u32, fingerprint: u32) -> u32 {
        let before = self.at(bucket, slot);
        self.flip(bucket, slot * self.bits, before ^ fingerprint);
        before
    }

    /// Slots that are not empty. Reads the whole table.
    pub(super) fn used(&self) -> u64 {
        (0..self.count).map(|bucket| u64::from(self.used_in(bucket))).sum()
    }

    /// Writes the table. Its bytes have one order on every machine.
    pub(super) fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&self.bytes.values()[..length(self.count, self.bits)])
    }

    /// Reads a table of as many buckets.
    pub(super) fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let length = length(self.count, self.bits);
        from.read_exact(&mut self.bytes.values_mut()[..length])
    }

    fn used_in(&self, bucket: u64) -> u32 {
        let window = self.window(bucket);
        // Each slot's bits are gathered in its lowest one.
        let any = (0..self.bits).fold(0, |any, bit| any | ((window >> bit) & self.lowest));
        any.count_ones()
    }

    fn replace(&mut self, bucket: u64, before: u32, after: u32) -> bool {
        let zeros = self.zeros(self.window(bucket) ^ self.everywhere(before));
        if zeros == 0 {
            return false;
        }
        self.flip(bucket, zeros.trailing_zeros() + 1 - self.bits, before ^ after);
        true
    }

    /// A fingerprint in all four slots.
    #[inline]
    fn everywhere(&self, fingerprint: u32) -> u128 {
        u128::from(fingerprint) * self.lowest
    }

    /// Where slots are zero: of such slots the highest bit is set. Above the first one other bits may be
    /// set, too (the subtraction borrows), so look at the lowest bit set only.
    #[inline]
    fn zeros(&self, window: u128) -> u128 {
        window.wrapping_sub(self.lowest) & !window & (self.lowest << (self.bits - 1))
    }

    /// The byte where a bucket begins, and the bits of that byte which are its neighbour's: none or four.
    #[inline]
    fn begin(&self, bucket: u64) -> (usize, u32) {
        let bit = bucket * u64::from(SLOTS * self.bits);
        ((bit / 8) as usize, (bit % 8) as u32)
    }

    /// The four slots of a bucket; what stands above them is its neighbours'.
    fn window(&self, bucket: u64) -> u128 {
        if self.bits <= NARROW {
            return u128::from(self.narrow_window(bucket));
        }
        let (byte, shift) = self.begin(bucket);
        let bytes = self.bytes.values()[byte..].first_chunk().expect("the table is padded");
        u128::from_le_bytes(*bytes) >> shift
    }

    /// The same, for narrow fingerprints.
    #[inline]
    fn narrow_window(&self, bucket: u64) -> u64 {
        let (byte, shift) = self.begin(bucket);
        let bytes = self.bytes.values()[byte..].first_chunk().expect("the table is padded");
        u64::from_le_bytes(*bytes) >> shift
    }

    /// Flips bits of a bucket, the lowest of them at `from`.
    fn flip(&mut self, bucket: u64, from: u32, difference: u32) {
        let (byte, shift) = self.begin(bucket);
        let difference = u128::from(difference) << (from + shift);
        let bytes = &mut self.bytes.values_mut()[byte..];
        if self.bits <= NARROW {
            let bytes = bytes.first_chunk_mut().expect("the table is padded");
            *bytes = (u64::from_le_bytes(*bytes) ^ difference as u64).to_le_bytes();
        } else {
            let bytes = bytes.first_chunk_mut().expect("the table is padded");
            *bytes = (u128::from_le_bytes(*bytes) ^ difference).to_le_bytes();
        }
    }
}

/// Bytes of so many buckets.
fn length(count: u64, bits: u32) -> usize {
    (count * u64::from(SLOTS * bits)).div_ceil(8) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Put(u64, u32),
        Take(u64, u32),
        Swap(u64, u32, u32),
    }

    /// Few fingerprints, so that they meet, and the extreme ones.
    fn fingerprint(raw: u32, bits: u32) -> u32 {
        let most = u32::MAX >> (32 - bits);
        match raw % 8 {
            0 => most,
            1 => 1 << (bits - 1),
            2 => most - 1,
            small => small,
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (0_u64..5, any::<u32>()).prop_map(|(bucket, raw)| Step::Put(bucket, raw)),
            1 => (0_u64..5, any::<u32>()).prop_map(|(bucket, raw)| Step::Take(bucket, raw)),
            1 => (0_u64..5, 0..SLOTS, any::<u32>()).prop_map(|(bucket, slot, raw)| Step::Swap(bucket, slot, raw)),
        ];
        proptest::collection::vec(step, 1..100)
    }

    proptest! {
        /// Every width does what an array of arrays does, and no bucket touches its neighbours.
        #[test]
        fn packed_buckets_are_arrays_of_four(bits in 4_u32..=32, steps in steps()) {
            let mut buckets = Buckets::empty(5, bits);
            let mut model = [[0_u32; SLOTS as usize]; 5];
            for step in steps {
                match step {
                    Step::Put(bucket, raw) => {
                        let slot = model[bucket as usize].iter_mut().find(|slot| **slot == 0);
                        prop_assert_eq!(buckets.put(bucket, fingerprint(raw, bits)), slot.is_some());
                        if let Some(slot) = slot {
                            *slot = fingerprint(raw, bits);
                        }
                    }
                    Step::Take(bucket, raw) => {
                        let slot = model[bucket as usize].iter_mut().find(|slot| **slot == fingerprint(raw, bits));
                        prop_assert_eq!(buckets.take(bucket, fingerprint(raw, bits)), slot.is_some());
                        if let Some(slot) = slot {
                            *slot = 0;
                        }
                    }
                    Step::Swap(bucket, slot, raw) => {
                        let there = &mut model[bucket as usize][slot as usize];
                        let before = std::mem::replace(there, fingerprint(raw, bits));
                        prop_assert_eq!(buckets.swap(bucket, slot, fingerprint(raw, bits)), before);
                    }
                }
                for (pair, raw) in (0..5).flat_map(|one| (0..5).map(move |other| [one, other])).zip(0..) {
                    let sought = fingerprint(raw, bits);
                    let there = pair.iter().any(|bucket: &u64| model[*bucket as usize].contains(&sought));
                    prop_assert_eq!(buckets.hold(pair, sought), there);
                }
                let used = model.iter().flatten().filter(|slot| **slot != 0).count() as u64;
                prop_assert_eq!(buckets.used(), used);
            }
            let mut saved = Vec::new();
            buckets.save(&mut saved).unwrap();
            let mut loaded = Buckets::empty(5, bits);
            loaded.load(&mut saved.as_slice()).unwrap();
            prop_assert_eq!(loaded.bytes.values(), buckets.bytes.values());
            prop_assert!(loaded.load(&mut &saved[1..]).is_err());
        }
    }
}
