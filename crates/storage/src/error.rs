//! What can go wrong with the disk, or with us.

use std::io;
use std::path::{Path, PathBuf};

/// What storage could not do. Each says what was being done, to which path, and what to do now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The system refused.
    #[error("could not {doing} {}: {source}", path.display())]
    Io {
        /// The action, as a verb phrase.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the job's lock.
    #[error("the job in {} is already running: wait until it ends, or stop it", path.display())]
    AlreadyRunning {
        /// The job's folder.
        path: PathBuf,
    },
    /// The journal holds something that was not written there.
    #[error(
        "{} is damaged at byte {offset}: {detail}. Restore the file from a copy; or, giving up every record \
         from there on, run `truncate -s {offset}` on it and move the journal's later files away",
        path.display()
    )]
    CorruptJournal {
        /// The damaged segment of the journal.
        path: PathBuf,
        /// Offset in that file, in bytes.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// Written by a later version of this program.
    #[error("{} has format {version}, newer than this program reads: use a newer one", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The version byte found.
        version: u8,
    },
    /// A record that the journal would refuse to read back.
    #[error("a record of {bytes} bytes is larger than the journal takes")]
    RecordTooLarge {
        /// Its encoded length.
        bytes: u64,
    },
    /// An earlier write failed, so nobody knows what the file holds: only a restart can tell.
    #[error("{} is not written to any more, because an earlier write failed", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
    /// A WARC segment is shorter than what the journal says was durable in it.
    #[error(
        "{} holds {found} bytes, but the journal knows records up to byte {expected}: \
         restore the file from a copy, or move it away to give its records up",
        path.display()
    )]
    SegmentTooShort {
        /// The segment.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The end of the last record the journal knows.
        expected: u64,
    },
    /// The database cannot be used; it is a projection of the journal and can be rebuilt.
    #[error("the database in {} cannot be used: {detail}", path.display())]
    Database {
        /// The database's folder.
        path: PathBuf,
        /// What it said, or what was missing.
        detail: String,
    },
}

/// Adds to an I/O error what was being done to which path.
pub(crate) trait Doing<T> {
    /// Says what was being done.
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StorageError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::Io { doing, path: path.to_owned(), source })
    }
}
