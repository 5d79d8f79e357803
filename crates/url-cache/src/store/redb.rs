//! The packed store in a redb file of its own.

use std::path::Path;

use ::redb::{Database, Durability, Error, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use super::StoreError;
use super::map::{ENTRY_KEY_LEN, Entry, EntryKey, OrderedMap, Visitor};
use super::packed::{PackedStore, Shape};

const TABLE: TableDefinition<'_, &[u8; ENTRY_KEY_LEN], &[u8]> = TableDefinition::new("seen");

/// The set as packed chunks in a redb file of its own. What is written is durable after
/// [`super::SeenStore::flush`].
pub type RedbStore = PackedStore<RedbMap>;

impl RedbStore {
    /// The file at `path`, which is made if there is none; redb keeps up to `cache_bytes` of it in
    /// memory. `counting` must be what it was made with.
    ///
    /// # Errors
    /// When redb cannot open the file, or it holds something else.
    pub fn open(path: &Path, cache_bytes: usize, counting: bool) -> Result<Self, StoreError> {
        Self::new(RedbMap::open(path, cache_bytes)?, Shape::default(), counting)
    }
}

/// A file of redb as an [`OrderedMap`].
pub struct RedbMap {
    db: Database,
}

fn reading(source: impl Into<Error>) -> StoreError {
    StoreError::Redb { doing: "read", source: Box::new(source.into()) }
}

fn writing(source: impl Into<Error>) -> StoreError {
    StoreError::Redb { doing: "written", source: Box::new(source.into()) }
}

type Writing<'a> = ::redb::Table<'a, &'static [u8; ENTRY_KEY_LEN], &'static [u8]>;

impl RedbMap {
    /// The file at `path`, which is made if there is none.
    ///
    /// # Errors
    /// When redb cannot open the file, or it is something else.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, StoreError> {
        let opening = |source: Error| StoreError::Redb { doing: "opened", source: Box::new(source) };
        let db = Database::builder().set_cache_size(cache_bytes).create(path).map_err(|error| opening(error.into()))?;
        let map = RedbMap { db };
        // The table must exist before it is read.
        map.write(Durability::Immediate, |_| Ok(())).map_err(opening)?;
        Ok(map)
    }

    /// One transaction.
    fn write(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Writing<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(durability)?;
        change(&mut transaction.open_table(TABLE)?)?;
        Ok(transaction.commit()?)
    }
}

impl OrderedMap for RedbMap {
    /// One chunk fills a leaf page of 4 096 bytes, together with its key and the page's header.
    const CHUNK_BYTES: usize = 4_040;

    type View = ReadOnlyTable<&'static [u8; ENTRY_KEY_LEN], &'static [u8]>;

    fn view(&self) -> Result<Self::View, StoreError> {
        self.db.begin_read().map_err(reading)?.open_table(TABLE).map_err(reading)
    }

    fn get<R>(
        &self,
        view: &Self::View,
        key: &EntryKey,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        Ok(view.get(key).map_err(reading)?.map(|value| look(value.value())))
    }

    fn put(&self, entries: &[Entry]) -> Result<(), StoreError> {
        self.write(Durability::None, |table| {
            for (key, value) in entries {
                table.insert(key, value.as_slice())?;
            }
            Ok(())
        })
        .map_err(writing)
    }

    fn delete(&self, keys: &[EntryKey]) -> Result<(), StoreError> {
        self.write(Durability::None, |table| {
            for key in keys {
                table.remove(key)?;
            }
            Ok(())
        })
        .map_err(writing)
    }

    fn visit(&self, each: &mut Visitor<'_>) -> Result<(), StoreError> {
        for entry in self.view()?.iter().map_err(reading)? {
            let (key, value) = entry.map_err(reading)?;
            each(key.value(), value.value())?;
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.write(Durability::None, |table| Ok(table.retain(|_, _| false)?)).map_err(writing)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.write(Durability::Immediate, |_| Ok(())).map_err(writing)
    }
}
