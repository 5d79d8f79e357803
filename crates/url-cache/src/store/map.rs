//! What a packed store asks of the database under it.

use super::StoreError;
use super::chunk::Fingerprint;

/// Bytes in an [`EntryKey`].
pub const ENTRY_KEY_LEN: usize = 28;

/// The key of an entry: the run's number, big-endian, then the first fingerprint of the chunk as a
/// [`model::UrlKey`] writes it. So a run's chunks stand together and in order.
pub type EntryKey = [u8; ENTRY_KEY_LEN];

/// An entry: its key, and a chunk of packed fingerprints.
pub type Entry = (EntryKey, Vec<u8>);

/// What is shown every key and value of a map, until it refuses one.
pub type Visitor<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// An ordered map of bytes on a disk: all that [`super::PackedStore`] needs of a database. Values
/// are of some kilobytes.
///
/// Implementors promise that what [`OrderedMap::put`] has returned from is seen by every view opened
/// after it, and that after a crash an entry is there whole or not at all.
pub trait OrderedMap: Send + Sync {
    /// Values get no longer than this. Chosen by measurement for each database.
    const CHUNK_BYTES: usize;

    /// A state of the map that can be read. It sees at least what was there when it was opened.
    type View;

    /// Opens a view of what is there now.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn view(&self) -> Result<Self::View, StoreError>;

    /// Shows the value of a key to `look`, without copying it; `None` if there is no such entry.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn get<R>(&self, view: &Self::View, key: &EntryKey, look: impl FnOnce(&[u8]) -> R)
    -> Result<Option<R>, StoreError>;

    /// An entry was read in passing, from one end to the other, and will not be read again soon. For a
    /// database that must be told.
    ///
    /// # Errors
    /// When the database cannot be read.
    fn passed(&self, key: &[u8]) -> Result<(), StoreError> {
        let _ = key;
        Ok(())
    }

    /// Puts entries in, in their order; ones with the same keys are replaced.
    ///
    /// # Errors
    /// When the database cannot be written. Some of the entries may then be there.
    fn put(&self, entries: &[Entry]) -> Result<(), StoreError>;

    /// Takes entries out.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn delete(&self, keys: &[EntryKey]) -> Result<(), StoreError>;

    /// Shows every key and value to `each`, in the order of the keys, until one is refused.
    ///
    /// # Errors
    /// When the database cannot be read, or what `each` returned.
    fn visit(&self, each: &mut Visitor<'_>) -> Result<(), StoreError>;

    /// Takes every entry out.
    ///
    /// # Errors
    /// When the database cannot be written. Some of the entries may then be left.
    fn clear(&self) -> Result<(), StoreError>;

    /// Makes what was written durable, where that is this map's affair.
    ///
    /// # Errors
    /// When the database cannot be written.
    fn flush(&self) -> Result<(), StoreError>;
}

/// The key of a run's chunk.
pub(super) fn entry_key(run: u32, first: Fingerprint) -> EntryKey {
    let mut key = [0; ENTRY_KEY_LEN];
    key[..4].copy_from_slice(&run.to_be_bytes());
    key[4..].copy_from_slice(first.to_key().as_bytes());
    key
}

/// The inverse of [`entry_key`].
pub(super) fn split_entry_key(key: &[u8]) -> Option<(u32, Fingerprint)> {
    let (run, first) = key.split_first_chunk()?;
    let first = model::UrlKey::from_bytes(first.try_into().ok()?);
    Some((u32::from_be_bytes(*run), Fingerprint::of(&first)))
}
