//! One record in the journal: sealed when it is written, checked when it is read.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::StorageError;
use crate::record::{Position, Record};

/// Bytes before the payload: checksum, length, version, and the position up to which the journal
/// was durable when the frame was written.
pub(super) const HEAD_LEN: usize = 21;

/// A frame with a longer payload is not read, and so not written. A page of 50 000 links of
/// 200 bytes makes 10 MiB.
pub(super) const MAX_PAYLOAD: usize = 64 << 20;

/// Version of the payload's encoding. 2 added [`Done::references`](crate::Done) and the beginning of a
/// visit.
const VERSION: u8 = 2;

/// Seed of the checksums. It reaches the disk, so it never changes.
const CHECKSUM_SEED: u64 = 0x4152_4749_4f50_4502; // "ARGIOPE", use 2

/// Where the version stands in the head.
const VERSION_AT: usize = 12;

/// Appends the frame of a record that will stand at `position`, in a journal that is durable up to
/// `durable`.
pub(super) fn seal(
    frames: &mut Vec<u8>,
    position: Position,
    durable: Position,
    record: &Record,
) -> Result<(), StorageError> {
    let start = frames.len();
    frames.extend_from_slice(&[0; HEAD_LEN]);
    postcard::to_io(record, &mut *frames).expect("a record has no part that postcard or memory refuses");
    let payload = frames.len() - start - HEAD_LEN;
    if payload > MAX_PAYLOAD {
        frames.truncate(start);
        return Err(StorageError::RecordTooLarge { bytes: payload as u64 });
    }
    let frame = &mut frames[start..];
    frame[8..12].copy_from_slice(&(payload as u32).to_be_bytes());
    frame[VERSION_AT] = VERSION;
    frame[VERSION_AT + 1..HEAD_LEN].copy_from_slice(&durable.get().to_be_bytes());
    let checksum = checksum(position, &frame[8..]);
    frame[..8].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// The position goes into the seed, so that a frame is valid in one place only: an old block that
/// the disk shows again elsewhere is not taken for a record.
fn checksum(position: Position, checked: &[u8]) -> u64 {
    xxh3_64_with_seed(checked, CHECKSUM_SEED ^ position.get())
}

/// Length of the payload that a frame's head announces; `None` when no frame begins like this.
pub(super) fn announced_payload(head: &[u8; HEAD_LEN]) -> Option<usize> {
    let length = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    (1..=MAX_PAYLOAD).contains(&length).then_some(length)
}

/// Up to where the journal was durable when a frame with this head was written.
fn durable_before(head: &[u8; HEAD_LEN]) -> u64 {
    head.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Whether a whole frame is the one that was written at this position.
pub(super) fn is_intact(position: Position, frame: &[u8]) -> bool {
    frame.split_first_chunk::<8>().is_some_and(|(stored, checked)| {
        frame.len() > HEAD_LEN && u64::from_be_bytes(*stored) == checksum(position, checked)
    })
}

/// The record of an intact frame, which stands in `path` at `offset`.
pub(super) fn decode(frame: &[u8], path: &Path, offset: u64) -> Result<Record, StorageError> {
    let version = frame[VERSION_AT];
    let mut older = Vec::new();
    let payload = match version {
        VERSION => &frame[HEAD_LEN..],
        1 => {
            // What version 2 added to a page's end stands at the end of its record, and nothing of it
            // is a zero. Other records did not change.
            older.extend_from_slice(&frame[HEAD_LEN..]);
            older.push(0);
            &older
        }
        _ => return Err(StorageError::NewerFormat { path: path.to_owned(), version }),
    };
    match postcard::take_from_bytes(payload) {
        Ok((record, [])) => Ok(record),
        Ok((record, [0])) if version == 1 => Ok(record),
        Ok((_, rest)) => Err(undecodable(path, offset, &format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(undecodable(path, offset, &error.to_string())),
    }
}

fn undecodable(path: &Path, offset: u64, why: &str) -> StorageError {
    let detail = format!("the record's checksum is right, but it cannot be read ({why})");
    StorageError::CorruptJournal { path: path.to_owned(), offset, detail }
}

/// Where the first intact frame begins that proves that `position` was durable, in `bytes` which
/// begin there. The first byte is not looked at: it is the one where no frame could be read.
///
/// An intact frame alone proves nothing: after a power cut, blocks that were never synced may have
/// reached the disk in any order.
pub(super) fn find_proof(bytes: &[u8], position: Position) -> Option<usize> {
    (1..bytes.len()).find(|&start| {
        let rest = &bytes[start..];
        let Some(head) = rest.first_chunk::<HEAD_LEN>() else { return false };
        // Asking for the version first spares almost every checksum.
        (1..=VERSION).contains(&head[VERSION_AT])
            && durable_before(head) > position.get()
            && announced_payload(head)
                .and_then(|payload| rest.get(..HEAD_LEN + payload))
                .is_some_and(|frame| is_intact(Position::new(position.get() + start as u64), frame))
    })
}
