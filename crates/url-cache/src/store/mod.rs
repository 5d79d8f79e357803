//! The exact set behind the filter.

mod chunk;
mod map;
mod merge;
mod packed;
mod redb;
mod sieve;
mod sled;

use model::{Census, UrlKey};
use serde::{Deserialize, Serialize};

pub use self::map::{ENTRY_KEY_LEN, Entry, EntryKey, OrderedMap, Visitor};
pub use self::packed::{PackedStore, Shape};
pub use self::redb::{RedbMap, RedbStore};
pub use self::sled::{SledMap, SledStore};

/// Which database holds the exact set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A tree of the job's sled database.
    #[default]
    Sled,
    /// A redb file of its own.
    Redb,
}

/// The exact store failed. What it held is still in the journal, from which it can be rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Sled could not open, read or write.
    #[error("the URL-seen table could not be {doing}: {source}")]
    Sled {
        /// "opened", "read" or "written".
        doing: &'static str,
        /// What sled said.
        source: ::sled::Error,
    },
    /// Redb could not open, read or write.
    #[error("the URL-seen table could not be {doing}: {source}")]
    Redb {
        /// "opened", "read" or "written".
        doing: &'static str,
        /// What redb said.
        source: Box<::redb::Error>,
    },
    /// The database gave back something that this store never wrote.
    #[error("the URL-seen table is damaged: {what}; it must be rebuilt from the journal")]
    Damaged {
        /// What is wrong with it.
        what: &'static str,
    },
}

/// An exact set of keys on a disk. Cloning an implementor's handle and writing from another thread
/// than the one that asks is allowed: a key that is being written may be answered either way, and
/// the gate holds it as pending until the writer says it is there.
///
/// A store may also count how often each of its URLs was linked (IMP-CBFilter, Liu et al. 2016).
/// One that does not answers 0 to every question about references.
pub trait SeenStore: Send + Sync {
    /// For each key: is it in the set? Sorted keys are answered fastest, as those of one host are
    /// then read together; `found` is cleared first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), StoreError>;

    /// Puts keys into the set; ones that are there stay. Sorted keys are written fastest, and some
    /// 100 000 of them at a time. Where references are counted, each key counts one more.
    ///
    /// # Errors
    /// When the store cannot be written. Some of the keys may then be in it.
    fn insert(&self, keys: &[UrlKey]) -> Result<(), StoreError>;

    /// Takes keys out; ones that are not there are no error.
    ///
    /// # Errors
    /// When the store cannot be written. Some of the keys may then be gone.
    fn remove(&self, keys: &[UrlKey]) -> Result<(), StoreError>;

    /// Takes every key out.
    ///
    /// # Errors
    /// When the store cannot be written. Some of the keys may then be left.
    fn clear(&self) -> Result<(), StoreError>;

    /// Calls `each` with every key, in ascending order, once. `each` may ask this store, but must
    /// not write to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn scan(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError>;

    /// Walks the whole set: to be compared with what the journal says it must hold.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn census(&self) -> Result<Census, StoreError> {
        let mut census = Census::default();
        self.scan(&mut |key| census.add(key.as_bytes()))?;
        Ok(census)
    }

    /// Makes everything that was written durable. A store that lives in a database of several trees
    /// does nothing: whoever owns the database flushes it.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether it counts how often each URL was linked.
    fn is_counting(&self) -> bool {
        false
    }

    /// Counts that URLs were linked so many times more. Keys that are not in the set are left out.
    /// After a crash the counts of what was being written may be too high; the set itself is exact.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    fn add_references(&self, counts: &[(UrlKey, u32)]) -> Result<(), StoreError> {
        let _ = counts;
        Ok(())
    }

    /// How often each URL was linked; 0 for one that is not in the set.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn references(&self, keys: &[UrlKey]) -> Result<Vec<u64>, StoreError> {
        Ok(vec![0; keys.len()])
    }

    /// The sum of all references.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn reference_total(&self) -> Result<u64, StoreError> {
        Ok(0)
    }
}
