//! The exact set behind the filter.

use model::{Census, UrlKey};

/// The exact store failed. What it held is still in the journal, from which it can be rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Sled could not read or write.
    #[error("the URL-seen table could not be {doing}: {source}")]
    Sled {
        /// "read" or "written".
        doing: &'static str,
        /// What sled said.
        source: sled::Error,
    },
}

/// An exact set of keys on a disk. Cloning an implementor's handle and writing from another thread
/// than the one that asks is allowed: a key that is being written may be answered either way, and
/// the gate holds it as pending until the writer says it is there.
pub trait SeenStore: Send {
    /// For each key: is it in the set? `keys` are sorted, so that a host's keys are read together;
    /// `found` is cleared first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), StoreError>;

    /// Puts keys into the set; ones that are there stay. Sorted keys are written fastest.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn insert(&self, keys: &[UrlKey]) -> Result<(), StoreError>;

    /// Takes keys out; ones that are not there are no error.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn remove(&self, keys: &[UrlKey]) -> Result<(), StoreError>;

    /// Walks the whole set: to be compared with what the journal says it must hold.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn census(&self) -> Result<Census, StoreError>;
}

/// The set as a sled tree, one entry per key. A handle: clones share the tree.
#[derive(Debug, Clone)]
pub struct SledStore {
    tree: sled::Tree,
}

impl SledStore {
    /// The tree `seen` of a database.
    ///
    /// # Errors
    /// When sled cannot open the tree.
    pub fn open(db: &sled::Db) -> Result<Self, StoreError> {
        let tree = db.open_tree("seen").map_err(|source| StoreError::Sled { doing: "opened", source })?;
        Ok(Self { tree })
    }
}

fn reading(source: sled::Error) -> StoreError {
    StoreError::Sled { doing: "read", source }
}

fn writing(source: sled::Error) -> StoreError {
    StoreError::Sled { doing: "written", source }
}

impl SeenStore for SledStore {
    fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), StoreError> {
        found.clear();
        for key in keys {
            found.push(self.tree.contains_key(key.as_bytes()).map_err(reading)?);
        }
        Ok(())
    }

    fn insert(&self, keys: &[UrlKey]) -> Result<(), StoreError> {
        // Single inserts: sled's `Batch` is no faster and pins memory (3.5 GB for a million keys).
        for key in keys {
            self.tree.insert(key.as_bytes(), &[]).map_err(writing)?;
        }
        Ok(())
    }

    fn remove(&self, keys: &[UrlKey]) -> Result<(), StoreError> {
        for key in keys {
            self.tree.remove(key.as_bytes()).map_err(writing)?;
        }
        Ok(())
    }

    fn census(&self) -> Result<Census, StoreError> {
        let mut census = Census::default();
        for entry in &self.tree {
            let (key, _) = entry.map_err(reading)?;
            census.add(&key);
        }
        Ok(census)
    }
}
