//! What needs `unsafe`, in one place: a prefetch, and the interface of the crate sbbf-rs.
#![expect(unsafe_code, reason = "a prefetch takes a pointer, and sbbf-rs offers nothing else")]

use memmap2::MmapMut;
use sbbf_rs::{BUCKET_SIZE, FilterFn};

use crate::machine::zeroed;

/// Asks for a line that will be looked at soon, and does not wait for it.
#[inline]
pub(crate) fn request(line: &[u64; 8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the pointer is of a live line; a prefetch reads nothing and changes nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The split block filter of the crate sbbf-rs: blocks of 256 bits, eight lanes of 32.
pub(crate) struct SplitBlocks {
    map: MmapMut,
    buckets: usize,
    functions: Functions,
}

/// The functions that sbbf-rs chose for this processor.
struct Functions(FilterFn);

// SAFETY: what it refers to are functions of a type without fields (`arch` in sbbf-rs 0.2.8): there is
// nothing that two threads could disturb. The crate only does not say so.
unsafe impl Send for Functions {}
// SAFETY: as above.
unsafe impl Sync for Functions {}

impl SplitBlocks {
    pub(crate) fn new(buckets: usize) -> Self {
        let buckets = buckets.max(1);
        Self { map: zeroed(buckets * BUCKET_SIZE), buckets, functions: Functions(FilterFn::new()) }
    }

    /// Whether the hash was there; afterwards it is.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64) -> bool {
        // SAFETY: the map starts on a page, so it is aligned, and has room for so many buckets, one at least.
        unsafe { self.functions.0.insert(self.map.as_mut_ptr(), self.buckets, hash) }
    }

    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        // SAFETY: as above.
        unsafe { self.functions.0.contains(self.map.as_ptr(), self.buckets, hash) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.map.len()
    }
}
