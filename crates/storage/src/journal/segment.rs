//! One file of the journal, read forward.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::frame;
use crate::error::{Doing, StorageError};
use crate::record::{Position, Record};

/// Bytes before a segment's first frame.
pub(super) const HEADER_LEN: u64 = 16;

const MAGIC: &[u8; 7] = b"ARGJRNL";
const VERSION: u8 = 1;

/// The header of a segment that begins at `start`.
pub(super) fn header(start: Position) -> [u8; HEADER_LEN as usize] {
    let mut bytes = [0; HEADER_LEN as usize];
    bytes[..7].copy_from_slice(MAGIC);
    bytes[7] = VERSION;
    bytes[8..].copy_from_slice(&start.get().to_be_bytes());
    bytes
}

/// A segment's file.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    /// Position of the file's first byte.
    pub(super) start: Position,
}

impl SegmentFile {
    /// The segment beginning at `start`; twenty digits hold every position, so names sort as numbers.
    pub(super) fn at(dir: &Path, start: Position) -> Self {
        Self { path: dir.join(format!("{:020}.log", start.get())), start }
    }

    /// Every segment of a journal, in order.
    pub(super) fn list(dir: &Path) -> Result<Vec<Self>, StorageError> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(dir).doing("list", dir)? {
            let path = entry.doing("list", dir)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let start = name.strip_suffix(".log").filter(|digits| digits.len() == 20);
            if let Some(start) = start.and_then(|digits| digits.parse().ok()) {
                segments.push(Self { path, start: Position::new(start) });
            }
        }
        segments.sort_by_key(|segment| segment.start);
        Ok(segments)
    }
}

/// What stands at a place of a segment.
pub(super) enum Step {
    /// A record, and where it begins.
    Record(Position, Record),
    /// The file ends between two frames.
    End,
    /// No frame can be read here: it was torn, or damaged.
    Bad,
}

/// Reads one segment from its beginning.
pub(super) struct SegmentReader {
    input: BufReader<File>,
    file: SegmentFile,
    /// Where the next frame begins in the file.
    offset: u64,
    frame: Vec<u8>,
}

impl SegmentReader {
    /// Opens a segment and checks its header. `None` when the header itself is torn: the file is
    /// not longer than a header, and holds none.
    pub(super) fn open(file: SegmentFile) -> Result<Option<Self>, StorageError> {
        let input = File::open(&file.path).doing("open", &file.path)?;
        let length = input.metadata().doing("read the size of", &file.path)?.len();
        let mut input = BufReader::with_capacity(1 << 18, input);
        let mut found = Vec::new();
        input.by_ref().take(HEADER_LEN).read_to_end(&mut found).doing("read", &file.path)?;
        if found == header(file.start) {
            return Ok(Some(Self { input, file, offset: HEADER_LEN, frame: Vec::new() }));
        }
        match found.as_slice() {
            _ if length <= HEADER_LEN => Ok(None),
            [magic @ .., version, _, _, _, _, _, _, _, _] if magic == MAGIC && *version > VERSION => {
                Err(StorageError::NewerFormat { path: file.path, version: *version })
            }
            _ => Err(StorageError::CorruptJournal {
                path: file.path,
                offset: 0,
                detail: "the header is not that of a journal segment of this name".to_owned(),
            }),
        }
    }

    /// The next record, or why there is none.
    pub(super) fn step(&mut self) -> Result<Step, StorageError> {
        self.frame.clear();
        match self.fill(frame::HEAD_LEN)? {
            0 => return Ok(Step::End),
            frame::HEAD_LEN => {}
            _ => return Ok(Step::Bad),
        }
        let head = self.frame.first_chunk().expect("the head was read whole");
        let Some(payload) = frame::announced_payload(head) else { return Ok(Step::Bad) };
        // `take` grows the buffer with what is there, not with what a damaged length announces.
        let position = Position::new(self.file.start.get() + self.offset);
        if self.fill(payload)? < payload || !frame::is_intact(position, &self.frame) {
            return Ok(Step::Bad);
        }
        let record = frame::decode(&self.frame, &self.file.path, self.offset)?;
        self.offset += self.frame.len() as u64;
        Ok(Step::Record(position, record))
    }

    /// Goes to the frame at a position within this segment.
    pub(super) fn seek(&mut self, position: Position) -> Result<(), StorageError> {
        self.offset = position.get().saturating_sub(self.file.start.get()).max(HEADER_LEN);
        self.input.seek(SeekFrom::Start(self.offset)).doing("read", &self.file.path)?;
        Ok(())
    }

    /// An error when an intact frame behind the place where [`Step::Bad`] was met says that this
    /// place was durable before it was written.
    pub(super) fn nothing_durable_is_lost(&mut self) -> Result<(), StorageError> {
        // A segment ends with the frame that brought it over its size, so this is all there can be.
        const LONGEST: u64 = super::SEGMENT_BYTES + (frame::MAX_PAYLOAD + frame::HEAD_LEN) as u64;
        self.input.seek(SeekFrom::Start(self.offset)).doing("read", &self.file.path)?;
        let mut rest = Vec::new();
        self.input.by_ref().take(LONGEST).read_to_end(&mut rest).doing("read", &self.file.path)?;
        let position = Position::new(self.file.start.get() + self.offset);
        match frame::find_proof(&rest, position) {
            None => Ok(()),
            Some(start) => {
                let proof = self.offset + start as u64;
                let detail =
                    format!("no record can be read here, and the one at byte {proof} says that it was durable");
                Err(self.corrupt(detail))
            }
        }
    }

    /// Offset in the file of the next frame.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Position of the next frame.
    pub(super) fn end(&self) -> Position {
        Position::new(self.file.start.get() + self.offset)
    }

    /// Damage at the place where [`Step::Bad`] was met.
    pub(super) fn corrupt(&self, detail: String) -> StorageError {
        StorageError::CorruptJournal { path: self.file.path.clone(), offset: self.offset, detail }
    }

    /// Reads up to `count` bytes more into the frame; says how many there were.
    fn fill(&mut self, count: usize) -> Result<usize, StorageError> {
        self.input.by_ref().take(count as u64).read_to_end(&mut self.frame).doing("read", &self.file.path)
    }
}
