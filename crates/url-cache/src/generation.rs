//! A generation of the filter, and the seeds that are its own.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One spinning of the filter. Each visit may begin a new generation with other seeds, so that a
/// URL which collides in one visit does not in the next (Gøytil & Lundberg 2010, §4.2, the temporal
/// strategy).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u32);

impl Generation {
    /// The generation of a visit; visits count from 1.
    pub fn of_visit(visit: u32) -> Self {
        Self(visit)
    }

    /// Two seeds for the filter at this place. Filters side by side in one generation have
    /// different ones (§4.3, the spatial strategy).
    pub fn filter_seeds(self, filter: u32) -> [u64; 2] {
        let mut name = [0; 8];
        name[..4].copy_from_slice(&self.0.to_be_bytes());
        name[4..].copy_from_slice(&filter.to_be_bytes());
        [xxh3_64_with_seed(&name, 1), xxh3_64_with_seed(&name, 2)]
    }
}
