//! The packed store in a tree of a sled database.

use super::StoreError;
use super::map::{Entry, EntryKey, OrderedMap, Visitor};
use super::packed::{PackedStore, Shape};

/// The set as packed chunks in the tree `seen` of a sled database.
///
/// [`super::SeenStore::flush`] does nothing here: whoever owns the database flushes all its trees.
pub type SledStore = PackedStore<SledMap>;

impl SledStore {
    /// The tree `seen` of a database. `counting` must be what it was made with.
    ///
    /// # Errors
    /// When sled cannot open the tree, or it holds something else.
    pub fn open(db: &::sled::Db, counting: bool) -> Result<Self, StoreError> {
        Self::new(SledMap::open(db)?, Shape::default(), counting)
    }

    /// Removes the tree from a database whose set is kept elsewhere now, or nowhere.
    ///
    /// # Errors
    /// When sled cannot write.
    pub fn discard(db: &::sled::Db) -> Result<(), StoreError> {
        db.drop_tree("seen").map_err(writing)?;
        Ok(())
    }
}

/// Times that an entry is read again which was read in passing.
///
/// Sled's cache is cut into 256 parts, and a part looks whether it is too full once it was accessed 128
/// times. A leaf of packed chunks has 18 KiB, so reading each chunk once brings in half a gigabyte before
/// anything is let go. Reading again from memory costs 0.3 µs and brings the next look nearer: at opening
/// ten million URLs, 165 MB of memory became 60.
const PASSED_READS: usize = 3;

/// A tree of sled as an [`OrderedMap`].
#[derive(Debug)]
pub struct SledMap {
    tree: ::sled::Tree,
}

impl SledMap {
    /// The tree `seen` of a database.
    ///
    /// # Errors
    /// When sled cannot open the tree.
    pub fn open(db: &::sled::Db) -> Result<Self, StoreError> {
        let tree = db.open_tree("seen").map_err(|source| StoreError::Sled { doing: "opened", source })?;
        Ok(Self { tree })
    }
}

fn reading(source: ::sled::Error) -> StoreError {
    StoreError::Sled { doing: "read", source }
}

fn writing(source: ::sled::Error) -> StoreError {
    StoreError::Sled { doing: "written", source }
}

impl OrderedMap for SledMap {
    /// Sled keeps 9 entries in a leaf that was filled in order, and reads and writes it whole. Of 0.5
    /// to 4 KiB each, smaller ones cost more to insert, and larger ones more to read.
    const CHUNK_BYTES: usize = 2_032;

    /// Sled always shows its newest state.
    type View = ();

    fn view(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn get<R>(&self, (): &(), key: &EntryKey, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        Ok(self.tree.get(key).map_err(reading)?.map(|value| look(&value)))
    }

    fn passed(&self, key: &[u8]) -> Result<(), StoreError> {
        for _ in 0..PASSED_READS {
            self.tree.contains_key(key).map_err(reading)?;
        }
        Ok(())
    }

    fn put(&self, entries: &[Entry]) -> Result<(), StoreError> {
        // Single inserts: sled's `Batch` is no faster and pins memory (3.5 GB for a million keys).
        for (key, value) in entries {
            self.tree.insert(key, value.as_slice()).map_err(writing)?;
        }
        Ok(())
    }

    fn delete(&self, keys: &[EntryKey]) -> Result<(), StoreError> {
        for key in keys {
            self.tree.remove(key).map_err(writing)?;
        }
        Ok(())
    }

    fn visit(&self, each: &mut Visitor<'_>) -> Result<(), StoreError> {
        for entry in &self.tree {
            let (key, value) = entry.map_err(reading)?;
            each(&key, &value)?;
            self.passed(&key)?;
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.tree.clear().map_err(writing)
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
