//! The journal: the durable truth, to which records are only ever added.
//!
//! ```text
//! journal/00000000000000000000.log      one long file, cut into pieces; a piece is named by the
//! journal/00000000000067109431.log      position of its first byte, in twenty decimal digits
//!
//! piece   ┌───────────┬───┬───────────────────┬───────┬───────┬─
//!         │ "ARGJRNL" │ 1 │ start        u64  │ frame │ frame │ …
//!         └───────────┴───┴───────────────────┴───────┴───────┴─
//!          7 bytes     version
//!
//! frame   ┌───────────────┬──────────────┬───────────┬──────────────┬─────────────────────┐
//!         │ checksum  u64 │ length   u32 │ version 2 │ durable  u64 │ payload: a Record   │
//!         └───────────────┴──────────────┴───────────┴──────────────┴─────────────────────┘
//!          xxh3 of all that follows in    u8          up to where    postcard, `length` bytes,
//!          the frame; its seed is a                   the journal    at least 1, at most 64 MiB
//!          constant ^ the frame's position            was synced
//! ```
//!
//! Numbers are big-endian. A position counts every byte before it, headers too. A piece is synced
//! before the next is created, so only the last can end in a torn frame.
//!
//! **Torn or damaged?** A process that dies while writing leaves a piece whose last frame is not
//! whole, and a power cut may leave holes anywhere after the last sync: nobody was told that those
//! frames are durable, and they are cut off. But when an intact frame behind the place that cannot
//! be read was written after that place was synced, bytes that were once durable have changed. No
//! cut is right then, and the journal refuses to open.

mod frame;
mod reader;
mod segment;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

pub use self::reader::JournalReader;
use self::reader::missing_before;
use self::segment::{HEADER_LEN, SegmentFile, SegmentReader, Step, header};
use crate::disk;
use crate::error::{Doing, StorageError};
use crate::record::{Position, Record};

/// A piece is followed by the next once it holds this many bytes: few files for a large crawl, and
/// little to read again for [`JournalReader::open_at`].
const SEGMENT_BYTES: u64 = 64 << 20;

/// Frames are handed to the system in writes of this size, or at a sync.
const WRITE_BYTES: usize = 1 << 20;

const NOT_LAST: &str = "no record can be read here, and later segments follow";

/// Appends records. One per job, held by the process that has its lock; lives on the storage thread.
pub struct Journal {
    dir: PathBuf,
    segment_bytes: u64,
    segment: SegmentFile,
    file: File,
    /// Position up to which bytes were handed to the system.
    written: u64,
    /// Position up to which they are durable.
    durable: u64,
    /// Frames after that.
    buffer: Vec<u8>,
    poisoned: bool,
}

impl Journal {
    /// Opens the journal in `dir`, creating it where there is none, and hands every record to
    /// `visit`, in order. When this returns, all of them are durable. A torn end is cut off.
    ///
    /// Returns the journal, ready to append, and how many torn bytes were cut off.
    ///
    /// # Errors
    /// When the disk fails, when `visit` does, or when the journal is damaged anywhere but at its end.
    pub fn open(
        dir: &Path,
        visit: impl FnMut(Position, Record) -> Result<(), StorageError>,
    ) -> Result<(Self, u64), StorageError> {
        Self::open_with(dir, SEGMENT_BYTES, visit)
    }

    fn open_with(
        dir: &Path,
        segment_bytes: u64,
        mut visit: impl FnMut(Position, Record) -> Result<(), StorageError>,
    ) -> Result<(Self, u64), StorageError> {
        disk::create_dir(dir)?;
        let mut cut = 0;
        let mut end = 0;
        let mut last = None;
        let segments = SegmentFile::list(dir)?;
        let count = segments.len();
        for (index, segment) in segments.into_iter().enumerate() {
            if segment.start.get() != end {
                return Err(missing_before(&segment));
            }
            let is_last = index + 1 == count;
            let Some(mut reader) = SegmentReader::open(segment.clone())? else {
                if !is_last {
                    let detail = NOT_LAST.to_owned();
                    return Err(StorageError::CorruptJournal { path: segment.path, offset: 0, detail });
                }
                cut = fs::metadata(&segment.path).doing("read the size of", &segment.path)?.len();
                fs::remove_file(&segment.path).doing("remove", &segment.path)?;
                disk::sync_dir(dir)?;
                break;
            };
            loop {
                match reader.step()? {
                    Step::Record(position, record) => visit(position, record)?,
                    Step::End => break,
                    Step::Bad if is_last => {
                        cut = cut_torn_end(&mut reader, &segment.path)?;
                        break;
                    }
                    Step::Bad => return Err(reader.corrupt(NOT_LAST.to_owned())),
                }
            }
            end = segment.start.get() + reader.offset();
            last = Some(segment);
        }
        let (segment, file) = match last {
            None => create_segment(dir, Position::START)?,
            Some(segment) => {
                let file = OpenOptions::new().append(true).open(&segment.path).doing("open", &segment.path)?;
                // A process that was killed may have left these bytes in the system's cache alone.
                file.sync_all().doing("sync", &segment.path)?;
                (segment, file)
            }
        };
        let written = end.max(HEADER_LEN);
        let dir = dir.to_owned();
        Ok((
            Self { dir, segment_bytes, segment, file, written, durable: written, buffer: Vec::new(), poisoned: false },
            cut,
        ))
    }

    /// Adds a record; it is durable after the next [`Journal::sync`]. Returns where it begins.
    ///
    /// # Errors
    /// When the disk fails, now or earlier, or the record is larger than 64 MiB.
    pub fn append(&mut self, record: &Record) -> Result<Position, StorageError> {
        self.guarded(|journal| {
            if journal.end().get() - journal.segment.start.get() >= journal.segment_bytes {
                journal.begin_next_segment()?;
            }
            Ok(())
        })?;
        let position = self.end();
        frame::seal(&mut self.buffer, position, Position::new(self.durable), record)?;
        if self.buffer.len() >= WRITE_BYTES {
            self.guarded(Self::write_out)?;
        }
        Ok(position)
    }

    /// Makes every record appended so far durable.
    ///
    /// # Errors
    /// When the disk fails, now or earlier. Nothing is appended any more then.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        self.guarded(|journal| {
            journal.write_out()?;
            journal.file.sync_data().doing("sync", &journal.segment.path)?;
            journal.durable = journal.written;
            Ok(())
        })
    }

    /// Where the next record will begin, unless it begins a new segment.
    pub fn end(&self) -> Position {
        Position::new(self.written + self.buffer.len() as u64)
    }

    /// After a failed write nobody knows what the file holds, and after a failed sync the system may
    /// have dropped the pages it could not write, and call the next sync a success. So both end the
    /// journal; opening it again reads what really is there.
    fn guarded(&mut self, write: impl FnOnce(&mut Self) -> Result<(), StorageError>) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned { path: self.segment.path.clone() });
        }
        let outcome = write(self);
        self.poisoned = outcome.is_err();
        outcome
    }

    fn write_out(&mut self) -> Result<(), StorageError> {
        self.file.write_all(&self.buffer).doing("write", &self.segment.path)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn begin_next_segment(&mut self) -> Result<(), StorageError> {
        self.write_out()?;
        self.file.sync_data().doing("sync", &self.segment.path)?;
        (self.segment, self.file) = create_segment(&self.dir, Position::new(self.written))?;
        self.written += HEADER_LEN;
        self.durable = self.written;
        Ok(())
    }
}

/// Cuts the file at the place that cannot be read, unless what follows shows that it was durable.
fn cut_torn_end(reader: &mut SegmentReader, path: &Path) -> Result<u64, StorageError> {
    reader.nothing_durable_is_lost()?;
    let file = OpenOptions::new().write(true).open(path).doing("open", path)?;
    let length = file.metadata().doing("read the size of", path)?.len();
    file.set_len(reader.offset()).doing("cut the torn end off", path)?;
    file.sync_all().doing("sync", path)?;
    Ok(length - reader.offset())
}

fn create_segment(dir: &Path, start: Position) -> Result<(SegmentFile, File), StorageError> {
    let segment = SegmentFile::at(dir, start);
    let mut file =
        OpenOptions::new().append(true).create_new(true).open(&segment.path).doing("create", &segment.path)?;
    file.write_all(&header(start)).doing("write", &segment.path)?;
    file.sync_all().doing("sync", &segment.path)?;
    disk::sync_dir(dir)?;
    Ok((segment, file))
}
