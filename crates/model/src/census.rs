//! A count of keys that also notices when one is exchanged for another.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// How many keys a set holds, and the exclusive or of their hashes (xxh3, 64 bits, no seed).
///
/// Useful to compare two sets that were built in different orders, such as a table and what the
/// journal says must be in it: they agree by chance once in 2⁶⁴. Not useful against someone who
/// chooses the keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// Keys in the set.
    pub entries: u64,
    /// Exclusive or of their hashes.
    pub xor: u64,
}

impl Census {
    /// Counts a key that came into the set.
    pub fn add(&mut self, key: &[u8]) {
        self.entries += 1;
        self.xor ^= xxh3_64(key);
    }

    /// Counts a key that left the set. One that never was in it leaves a census no set has.
    pub fn remove(&mut self, key: &[u8]) {
        self.entries = self.entries.saturating_sub(1);
        self.xor ^= xxh3_64(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_exchanges_are_noticed() {
        let census = |keys: &[&str]| {
            let mut census = Census::default();
            for key in keys {
                census.add(key.as_bytes());
            }
            census
        };
        assert_eq!(census(&["a", "b"]), census(&["b", "a"]));
        assert_ne!(census(&["a", "b"]), census(&["a", "c"]));
        let mut left = census(&["a", "b", "c"]);
        left.remove(b"c");
        assert_eq!(left, census(&["a", "b"]));
    }
}
