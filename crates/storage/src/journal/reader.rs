//! The journal for everyone who does not write it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::segment::{HEADER_LEN, SegmentFile, SegmentReader, Step};
use crate::error::StorageError;
use crate::record::{Position, Record};

/// Reads a journal forward, also while another process appends to it: what it has not written
/// whole yet is not there. Changes nothing.
pub struct JournalReader {
    dir: PathBuf,
    waiting: VecDeque<SegmentFile>,
    current: Option<SegmentReader>,
}

impl JournalReader {
    /// Reads from the beginning.
    ///
    /// # Errors
    /// When the folder cannot be listed, or its first file begins later than the journal does.
    pub fn open(dir: &Path) -> Result<Self, StorageError> {
        let waiting = VecDeque::from(SegmentFile::list(dir)?);
        if let Some(first) = waiting.front().filter(|first| first.start != Position::START) {
            return Err(missing_before(first));
        }
        Ok(Self { dir: dir.to_owned(), waiting, current: None })
    }

    /// Reads from the record at `position`, or from the first one where that is the journal's start.
    ///
    /// # Errors
    /// As for [`JournalReader::open`], or when the segment cannot be read.
    pub fn open_at(dir: &Path, position: Position) -> Result<Self, StorageError> {
        let mut reader = Self::open(dir)?;
        let before = reader.waiting.partition_point(|segment| segment.start <= position);
        reader.waiting.drain(..before.saturating_sub(1));
        if let Some(segment) = reader.waiting.pop_front() {
            reader.current = SegmentReader::open(segment)?;
            if let Some(current) = &mut reader.current {
                current.seek(position)?;
            }
        }
        Ok(reader)
    }

    /// The one record that begins at `position`; `None` where none does.
    ///
    /// # Errors
    /// When the journal cannot be read there.
    pub fn read_at(&self, position: Position) -> Result<Option<Record>, StorageError> {
        let mut reader = Self::open_at(&self.dir, position)?;
        match reader.current.as_mut().map(SegmentReader::step) {
            Some(Ok(Step::Record(found, record))) if found == position => Ok(Some(record)),
            None | Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }

    fn advance(&mut self) -> Result<Option<(Position, Record)>, StorageError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(next) = self.waiting.pop_front() else { return Ok(None) };
                self.current = SegmentReader::open(next)?;
                if self.current.is_none() && !self.waiting.is_empty() {
                    return Err(missing_before(&self.waiting[0]));
                }
                continue;
            };
            match (current.step()?, self.waiting.front()) {
                (Step::Record(position, record), _) => return Ok(Some((position, record))),
                (Step::End, Some(next)) if current.end() != next.start => return Err(missing_before(next)),
                (Step::End, _) => self.current = None,
                (Step::Bad, None) => return current.nothing_durable_is_lost().map(|()| None),
                (Step::Bad, Some(_)) => return Err(current.corrupt(super::NOT_LAST.to_owned())),
            }
        }
    }
}

impl Iterator for JournalReader {
    type Item = Result<(Position, Record), StorageError>;

    /// The next record. After an error, or at a torn end, there is none any more.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.waiting.clear();
            self.current = None;
        }
        next
    }
}

/// A segment that does not begin where the one before it ends.
pub(super) fn missing_before(segment: &SegmentFile) -> StorageError {
    StorageError::CorruptJournal {
        path: segment.path.clone(),
        offset: 0,
        detail: format!("the journal's part before position {} is missing", segment.start.get() + HEADER_LEN),
    }
}
