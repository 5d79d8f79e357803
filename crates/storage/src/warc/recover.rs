//! After a crash: every segment holds what the journal knows, and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::Path;

use super::segment::{OPEN_SUFFIX, PREFIX, SUFFIX};
use crate::disk;
use crate::error::{Doing, StorageError};

/// What [`recover_segments`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveredSegments {
    /// Bytes cut off, or removed with their file, because the journal does not know them.
    pub cut_bytes: u64,
    /// Segments that were left open and are complete now.
    pub completed: u32,
    /// Segments removed, because the journal knows no record of theirs.
    pub removed: u32,
}

/// Cuts every open segment in `dir` at the end of the last record the journal knows, then completes
/// it; removes those of which it knows none. `ends` is [`Summary::segment_ends`](crate::Summary).
///
/// A page whose record did not reach the journal is fetched again, so its bytes must not stay:
/// otherwise it would be stored twice. Doing this again changes nothing, wherever it was stopped.
///
/// # Errors
/// When the disk fails, or a segment is shorter than the journal knows it was.
pub fn recover_segments(dir: &Path, ends: &BTreeMap<String, u64>) -> Result<RecoveredSegments, StorageError> {
    let mut recovered = RecoveredSegments::default();
    if !dir.is_dir() {
        return Ok(recovered);
    }
    for entry in fs::read_dir(dir).doing("list", dir)? {
        let path = entry.doing("list", dir)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let segment = name.strip_suffix(OPEN_SUFFIX).unwrap_or(name);
        if !segment.starts_with(PREFIX) || !segment.ends_with(SUFFIX) {
            continue;
        }
        let is_open = segment != name;
        let end = ends.get(segment).copied();
        let found = fs::metadata(&path).doing("read the size of", &path)?.len();
        match end {
            Some(expected) if found < expected => {
                return Err(StorageError::SegmentTooShort { path, found, expected });
            }
            Some(end) if is_open => {
                let file = OpenOptions::new().write(true).open(&path).doing("open", &path)?;
                file.set_len(end).doing("cut", &path)?;
                file.sync_all().doing("sync", &path)?;
                fs::rename(&path, dir.join(segment)).doing("complete", &path)?;
                recovered.cut_bytes += found - end;
                recovered.completed += 1;
            }
            None if is_open => {
                fs::remove_file(&path).doing("remove", &path)?;
                recovered.cut_bytes += found;
                recovered.removed += 1;
            }
            _ => {}
        }
    }
    disk::sync_dir(dir)?;
    Ok(recovered)
}
