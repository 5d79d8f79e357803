//! The cache of recent and popular URLs.

use crate::filter::scale;
use crate::filter::wide::request;

/// Entries that share a set: 128 bytes, two neighbouring cache lines.
const WAYS: usize = 8;

/// Sets that a cache begins with, unless it may not have so many.
const BEGINNING: usize = 1 << 11;

/// An exact, set-associative cache of 128-bit URL hashes with move-to-front in each set.
///
/// **Useful for** the navigation links that stand on every page, and for whatever else comes again
/// soon (Broder, Najork & Wiener 2003: 50 000 entries answer about 80 % of a crawl of few hosts at a
/// time). **Not useful for** telling that a URL is new: it forgets.
///
/// It compares the whole 128-bit hash, as the store does, so that a hit is as good as the store's.
/// It begins small and doubles as long as it is too small for what it is given, up to its bound, so a
/// small crawl takes little memory.
#[derive(Debug)]
pub struct RecentCache {
    sets: Vec<[u128; WAYS]>,
    most: usize,
    /// Entries in use.
    used: usize,
}

impl RecentCache {
    /// A cache of up to this many entries, rounded up to a whole set; 0 makes one that never hits.
    pub fn new(entries: usize) -> Self {
        let most = entries.div_ceil(WAYS);
        Self { sets: vec![[0; WAYS]; most.min(BEGINNING)], most, used: 0 }
    }

    /// Whether the hash was there; afterwards it is, in front.
    pub fn touch(&mut self, hash: u128) -> bool {
        let Some(set) = self.set(hash) else { return false };
        let place = set.iter().position(|entry| *entry == hash);
        let forgotten = set[place.unwrap_or(WAYS - 1)];
        set[..=place.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = hash;
        if forgotten == 0 && hash != 0 {
            self.used += 1;
            // From here on, more and more sets are full, and forget: one entry in seventy by now.
            if self.used >= self.sets.len() * WAYS * 5 / 8 && self.sets.len() < self.most {
                self.grow();
            }
        }
        // The all-zero hash looks like an empty entry; it is never said to be known.
        place.is_some() && hash != 0
    }

    /// Asks for the memory in which the hash would be, for a [`RecentCache::touch`] soon after.
    pub(crate) fn request(&self, hash: u128) {
        let index = self.index(hash);
        request(&self.sets, index);
        // A set is two lines long; the second is the one of the last four entries.
        if let Some(set) = self.sets.get(index) {
            request(set, WAYS / 2);
        }
    }

    /// Takes a hash out.
    pub fn remove(&mut self, hash: u128) {
        if let Some(set) = self.set(hash)
            && let Some(place) = set.iter().position(|entry| *entry == hash)
        {
            set[place..].rotate_left(1);
            set[WAYS - 1] = 0;
            self.used -= usize::from(hash != 0);
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.sets.as_slice())
    }

    fn set(&mut self, hash: u128) -> Option<&mut [u128; WAYS]> {
        let index = self.index(hash);
        self.sets.get_mut(index)
    }

    fn index(&self, hash: u128) -> usize {
        scale((hash >> 64) as u64, self.sets.len() as u64) as usize
    }

    /// Doubles, and deals every entry to its new set, the latest in front as before.
    fn grow(&mut self) {
        let larger = vec![[0; WAYS]; (2 * self.sets.len()).min(self.most)];
        let entries = std::mem::replace(&mut self.sets, larger);
        self.used = 0;
        for hash in entries.into_iter().flat_map(|set| set.into_iter().rev()).filter(|hash| *hash != 0) {
            if let Some(set) = self.set(hash) {
                set.rotate_right(1);
                set[0] = hash;
                self.used += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_of_a_set_gives_way() {
        let mut cache = RecentCache::new(WAYS);
        for hash in 1..=WAYS as u128 {
            assert!(!cache.touch(hash));
        }
        assert!(cache.touch(1), "still there, and now in front");
        assert!(!cache.touch(100));
        assert!(!cache.touch(2), "2 was the oldest");
        assert!(cache.touch(1));
    }

    #[test]
    fn without_entries_nothing_is_known() {
        let mut cache = RecentCache::new(0);
        assert!(!cache.touch(1));
        assert!(!cache.touch(1));
        cache.remove(1);
    }

    #[test]
    fn it_grows_as_far_as_it_is_allowed_and_keeps_what_it_has() {
        let mut cache = RecentCache::new(1 << 17);
        let hash = |number: u64| xxhash_rust::xxh3::xxh3_128(&number.to_le_bytes());
        let before = cache.bytes();
        for number in 0..10_000 {
            assert!(!cache.touch(hash(number)));
        }
        assert_eq!(cache.bytes(), before, "three of eight entries are not in use");
        for number in 10_000..60_000 {
            assert!(!cache.touch(hash(number)));
        }
        assert_eq!(cache.bytes(), 8 * before, "never more than five of eight are");
        let kept = (0..60_000).filter(|number| cache.touch(hash(*number))).count();
        assert!(kept > 56_000, "{kept} of 60 000 are there: few sets are full");
        for number in 0..1_000_000 {
            cache.touch(hash(number));
        }
        assert_eq!(cache.bytes(), 16 << 17, "no further");
    }

    proptest! {
        /// Against a set that forgets nothing: a hit is always true.
        #[test]
        fn a_hit_is_never_wrong(steps in proptest::collection::vec((any::<bool>(), 0_u128..40), 1..300)) {
            let mut cache = RecentCache::new(16);
            let mut oracle = std::collections::HashSet::new();
            for (remove, small) in steps {
                let hash = small.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                if remove {
                    cache.remove(hash);
                    oracle.remove(&hash);
                } else if cache.touch(hash) {
                    prop_assert!(oracle.contains(&hash));
                } else {
                    oracle.insert(hash);
                }
            }
        }
    }
}
