//! The cache of recent and popular URLs.

/// Entries that share a set: 128 bytes, two neighbouring cache lines.
const WAYS: usize = 8;

/// An exact, set-associative cache of 128-bit URL hashes with move-to-front in each set.
///
/// **Useful for** the navigation links that stand on every page: with 2¹⁸ entries it answers three
/// of four links of a crawl (Broder, Najork & Wiener 2003: 50 000 entries answer about 80 %).
/// **Not useful for** telling that a URL is new: it forgets.
///
/// It compares the whole 128-bit hash, as the store does, so that a hit is as good as the store's.
#[derive(Debug)]
pub struct RecentCache {
    sets: Vec<[u128; WAYS]>,
}

impl RecentCache {
    /// A cache of at least this many entries, rounded up to a whole set; 0 makes one that never hits.
    pub fn new(entries: usize) -> Self {
        Self { sets: vec![[0; WAYS]; entries.div_ceil(WAYS)] }
    }

    /// Whether the hash was there; afterwards it is, in front.
    pub fn touch(&mut self, hash: u128) -> bool {
        let Some(set) = self.set(hash) else { return false };
        let place = set.iter().position(|entry| *entry == hash);
        set[..=place.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = hash;
        // The all-zero hash looks like an empty entry; it is never said to be known.
        place.is_some() && hash != 0
    }

    /// Takes a hash out.
    pub fn remove(&mut self, hash: u128) {
        if let Some(set) = self.set(hash)
            && let Some(place) = set.iter().position(|entry| *entry == hash)
        {
            set[place..].rotate_left(1);
            set[WAYS - 1] = 0;
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.sets.as_slice())
    }

    fn set(&mut self, hash: u128) -> Option<&mut [u128; WAYS]> {
        // Lemire's multiply-shift: the upper half of the hash, scaled to the number of sets.
        let index = ((hash >> 64) * self.sets.len() as u128) >> 64;
        self.sets.get_mut(index as usize)
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
