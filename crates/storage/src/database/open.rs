//! Opening a database that may be damaged in any way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use model::{ByteSize, Time};

use super::tables::Tables;
use crate::disk;
use crate::error::{Doing, StorageError};
use crate::record::Position;
use crate::stamp;

/// What opening a database gave.
pub struct Opened {
    /// The tables, every key of theirs read once.
    pub tables: Tables,
    /// Up to where records were applied for certain. Those from here on are to be applied, again
    /// or for the first time.
    pub checkpoint: Position,
    /// Whether snapshot files had to be removed for it to open.
    pub healed: bool,
}

/// A job's database folder.
pub struct Database;

impl Database {
    /// Opens the database in `path`, or makes one, and reads every key of the tables.
    ///
    /// Only for the process that holds the job's lock: it repairs. This happens on a thread of its
    /// own, because sled may panic or not come back. In the latter case the thread is left behind
    /// until the process ends.
    ///
    /// # Errors
    /// When it cannot be opened, read or understood. The caller then calls [`Database::discard`],
    /// opens a new one, and applies the journal to it from its start.
    pub fn open(path: &Path, cache_capacity: ByteSize) -> Result<Opened, StorageError> {
        let first = open_guarded(path, cache_capacity);
        let Err(error) = first else { return first };
        // A snapshot that was not finished, or does not fit the file, makes sled refuse; without
        // snapshots it reads its log from the beginning.
        if remove_snapshots(path)? == 0 {
            return Err(error);
        }
        tracing::warn!(%error, "removed the database's snapshots, because it did not open with them");
        open_guarded(path, cache_capacity).map(|opened| Opened { healed: true, ..opened })
    }

    /// Moves a database that cannot be used aside, to `db.broken-<timestamp>` beside it, for whoever
    /// wants to know what happened to it. An earlier one makes room.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn discard(path: &Path, now: Time) -> Result<PathBuf, StorageError> {
        let aside = disk::beside(path, &format!(".broken-{}", stamp::digits_17(now)));
        for earlier in discarded(path)? {
            fs::remove_dir_all(&earlier).doing("remove", &earlier)?;
        }
        fs::rename(path, &aside).doing("move aside", path)?;
        path.parent().map_or(Ok(()), disk::sync_dir)?;
        Ok(aside)
    }
}

/// sled reads its whole log where there is no snapshot; a slow disk gives 20 MB/s of it.
fn time_limit(path: &Path) -> Duration {
    let bytes = fs::metadata(path.join("db")).map_or(0, |file| file.len());
    Duration::from_secs(60 + bytes / 20_000_000)
}

fn open_guarded(path: &Path, cache_capacity: ByteSize) -> Result<Opened, StorageError> {
    let owned = path.to_owned();
    let open = move || Tables::open(&owned, cache_capacity);
    let (tables, checkpoint) = on_a_thread(path, time_limit(path), open)?;
    Ok(Opened { tables, checkpoint, healed: false })
}

/// Does the work where neither a panic nor an endless loop takes the caller with it.
fn on_a_thread<T: Send + 'static>(
    path: &Path,
    limit: Duration,
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let send = move || {
        // Nobody waits any more when the time was up. What was opened is closed then.
        let _ = sender.send(work());
    };
    thread::Builder::new().name("open-database".to_owned()).spawn(send).doing("begin to open", path)?;
    receiver.recv_timeout(limit).unwrap_or_else(|ended| {
        let detail = match ended {
            RecvTimeoutError::Timeout => "opening it takes too long",
            // A panic ends the thread, which drops the sender.
            RecvTimeoutError::Disconnected => "sled panicked while opening it",
        };
        Err(StorageError::Database { path: path.to_owned(), detail: detail.to_owned() })
    })
}

fn remove_snapshots(path: &Path) -> Result<u32, StorageError> {
    let mut removed = 0;
    if !path.is_dir() {
        return Ok(removed);
    }
    for entry in fs::read_dir(path).doing("list", path)? {
        let entry = entry.doing("list", path)?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            fs::remove_file(entry.path()).doing("remove", &entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn discarded(path: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.broken-", name.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(parent).doing("list", parent)? {
        let entry = entry.doing("list", parent)?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, work: impl FnOnce() -> Result<u8, StorageError> + Send + 'static, expected: &str) {
        let outcome = on_a_thread(Path::new("job/db"), Duration::from_secs(seconds), work);
        assert_eq!(outcome.map_or_else(|error| error.to_string(), |value| value.to_string()), expected);
    }

    #[test]
    fn neither_a_panic_nor_an_endless_wait_comes_through() {
        check(600, || Ok(7), "7");
        check(600, || panic!("as sled does"), "the database in job/db cannot be used: sled panicked while opening it");
        let (held, never) = mpsc::sync_channel::<u8>(1);
        let wait = move || Ok(never.recv().unwrap_or_default());
        check(0, wait, "the database in job/db cannot be used: opening it takes too long");
        drop(held);
    }
}
