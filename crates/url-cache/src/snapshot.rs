//! A filter's content in a file, so that a start need not ask the store for every member.
//!
//! A snapshot is a copy of what can be made again. So whatever is wrong with one, it is refused, and the
//! filter is rebuilt: nothing in here repairs anything.
//!
//! # Format
//!
//! Numbers are little-endian.
//!
//! ```text
//! file    ┌────────────┬───┬────────────┬──────────┬──────────────┬──────────────┬───────┬───┬─────────┐
//!         │ "ARGIOPEF" │ 1 │ length u16 │ identity │ position u64 │ checksum u64 │ frame │ … │ closing │
//!         └────────────┴───┴────────────┴──────────┴──────────────┴──────────────┴───────┴───┴─────────┘
//!          8 bytes      version          `length`                  xxh3-64 of all
//!                                        bytes, UTF-8              before it, seed 0
//!
//! frame   ┌────────────┬──────────────┬─────────┐
//!         │ length u32 │ checksum u64 │ payload │   1 to 65536 bytes of what the filter saved;
//!         └────────────┴──────────────┴─────────┘   all frames but the last are full
//!                       xxh3-64 of the payload; its seed is the checksum of
//!                       the head plus the number of the frame, from 1
//!
//! closing ┌───────┬──────────────┬───────────┐
//!         │ 0 u32 │ checksum u64 │ total u64 │       bytes of payload in all frames;
//!         └───────┴──────────────┴───────────┘       then the file ends
//!                  xxh3-64 of the total, seeded as that of a frame
//! ```
//!
//! The seeds tie each frame to its file and to its place in it: a frame of another snapshot, or at
//! another place, is damage. `position` is up to where the journal is in the filter.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::filter::Filter;

const MAGIC: &[u8; 8] = b"ARGIOPEF";
const VERSION: u8 = 1;

/// Bytes of payload in a full frame.
const FRAME: usize = 1 << 16;

/// Bytes before a frame's payload.
const FRAME_HEAD: usize = 4 + 8;

/// Why a snapshot was not loaded. The filter's content is undefined then, and it must be made anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is none.
    #[error("there is no snapshot of the filter at {path}: it is rebuilt")]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// The disk could not be read.
    #[error("the filter's snapshot {path} could not be read: {source}; it is rebuilt")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another version of the program wrote it.
    #[error("the filter's snapshot {path} has format {found}, and this program reads format {VERSION}: it is rebuilt")]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u8,
    },
    /// It is whole, but of another filter: other sizes, another strategy or another visit.
    #[error("the snapshot {path} is of the filter \"{found}\", and this one is \"{expected}\": it is rebuilt")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The identity in the file.
        found: String,
        /// The identity asked for.
        expected: String,
    },
    /// It is not what was written.
    #[error("the filter's snapshot {path} is damaged ({what}): it is rebuilt")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Writes a snapshot, and replaces the one before it as one step: whoever opens it finds the old bytes or
/// the new ones, whenever the power goes. The neighbour `<path>.new` is filled, synced and renamed.
/// How many bytes the file has.
///
/// `identity` names all on which the content depends: the strategy, its sizes, the generation, and the
/// version of what this filter saves.
///
/// # Errors
/// When the disk fails, or the identity is longer than 65535 bytes. The snapshot before it then stays.
pub fn write(path: &Path, identity: &str, position: u64, filter: &dyn Filter) -> io::Result<u64> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = write_new(&new, identity, position, filter).and_then(|bytes| {
        fs::rename(&new, path)?;
        Ok(bytes)
    });
    if written.is_err() {
        // It may be a full disk. That this fails too is no more news than what is reported already.
        let _ = fs::remove_file(&new);
    }
    let bytes = written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()?;
    Ok(bytes)
}

fn write_new(new: &Path, identity: &str, position: u64, filter: &dyn Filter) -> io::Result<u64> {
    let mut file = File::create(new)?;
    let bytes = write_to(&mut file, identity, position, filter)?;
    file.sync_all()?;
    Ok(bytes)
}

/// Writes the file's bytes. How many they are.
fn write_to(to: &mut dyn Write, identity: &str, position: u64, filter: &dyn Filter) -> io::Result<u64> {
    let length = u16::try_from(identity.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a snapshot's identity has 65535 bytes at most"))?;
    let mut head = Vec::from(MAGIC);
    head.push(VERSION);
    head.extend(length.to_le_bytes());
    head.extend(identity.as_bytes());
    head.extend(position.to_le_bytes());
    let checksum = xxh3_64_with_seed(&head, 0);
    head.extend(checksum.to_le_bytes());
    to.write_all(&head)?;
    let mut frames = FrameWriter::new(to, checksum);
    filter.save(&mut frames)?;
    Ok(head.len() as u64 + frames.close()?)
}

/// Loads a snapshot into a filter of the same identity. Its position in the journal.
///
/// # Errors
/// Whenever the file is not, to the last bit, one that [`write`](fn@write) wrote for this identity.
pub fn load(path: &Path, identity: &str, filter: &mut dyn Filter) -> Result<u64, SnapshotError> {
    let mut file = File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => SnapshotError::Missing { path: path.to_owned() },
        _ => SnapshotError::Io { path: path.to_owned(), source },
    })?;
    let path = || path.to_owned();
    load_from(&mut file, identity, filter).map_err(|fault| match fault {
        Fault::Version(found) => SnapshotError::Version { path: path(), found },
        Fault::Identity(found) => SnapshotError::Identity { path: path(), found, expected: identity.to_owned() },
        Fault::Read(source) => match source.kind() {
            // The first is what a filter and the frames say of bytes that make no sense, the second what a
            // filter says that finds too few of them.
            io::ErrorKind::InvalidData => SnapshotError::Damaged { path: path(), what: source.to_string() },
            io::ErrorKind::UnexpectedEof => {
                SnapshotError::Damaged { path: path(), what: "it ends too early".to_owned() }
            }
            _ => SnapshotError::Io { path: path(), source },
        },
    })
}

/// What is wrong with a snapshot, wherever it came from.
#[derive(Debug)]
enum Fault {
    Version(u8),
    Identity(String),
    Read(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Reads the file's bytes into the filter.
fn load_from(from: &mut dyn Read, identity: &str, filter: &mut dyn Filter) -> Result<u64, Fault> {
    let mut head = vec![0; MAGIC.len() + 3];
    from.read_exact(&mut head)?;
    if !head.starts_with(MAGIC) {
        return Err(damaged("it does not begin as a snapshot does").into());
    }
    let version = head[MAGIC.len()];
    if version != VERSION {
        return Err(Fault::Version(version));
    }
    let name = head.len();
    let length = usize::from(u16::from_le_bytes([head[name - 2], head[name - 1]]));
    head.resize(name + length + 8, 0);
    from.read_exact(&mut head[name..])?;
    let checksum = xxh3_64_with_seed(&head, 0);
    if read_u64(from)? != checksum {
        return Err(damaged("its head has another checksum").into());
    }
    let (found, position) = head[name..].split_at(length);
    if found != identity.as_bytes() {
        return Err(Fault::Identity(String::from_utf8_lossy(found).into_owned()));
    }
    let position = position.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mut frames = FrameReader::new(from, checksum);
    filter.load(&mut frames)?;
    frames.close()?;
    Ok(position)
}

fn read_u64(from: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Cuts what is written to it into frames.
struct FrameWriter<'w> {
    to: &'w mut dyn Write,
    /// The frame in the making; its head is filled in when it is full.
    frame: Vec<u8>,
    seed: u64,
    payload: u64,
    written: u64,
}

impl<'w> FrameWriter<'w> {
    fn new(to: &'w mut dyn Write, seed: u64) -> Self {
        let mut frame = Vec::with_capacity(FRAME_HEAD + FRAME);
        frame.resize(FRAME_HEAD, 0);
        Self { to, frame, seed, payload: 0, written: 0 }
    }

    /// Writes the frame in the making, with this length in its head.
    fn put(&mut self, length: u32) -> io::Result<()> {
        self.seed = self.seed.wrapping_add(1);
        let checksum = xxh3_64_with_seed(&self.frame[FRAME_HEAD..], self.seed);
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.frame[4..FRAME_HEAD].copy_from_slice(&checksum.to_le_bytes());
        self.to.write_all(&self.frame)?;
        self.written += self.frame.len() as u64;
        self.payload += u64::from(length);
        self.frame.truncate(FRAME_HEAD);
        Ok(())
    }

    /// Writes the frame in the making, if there is something in it.
    fn put_begun(&mut self) -> io::Result<()> {
        match self.frame.len() - FRAME_HEAD {
            0 => Ok(()),
            length => self.put(length as u32),
        }
    }

    /// Writes what is left and the closing frame. How many bytes all frames have.
    fn close(mut self) -> io::Result<u64> {
        self.put_begun()?;
        self.frame.extend(self.payload.to_le_bytes());
        self.put(0)?;
        Ok(self.written)
    }
}

impl Write for FrameWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.frame.len() == FRAME_HEAD + FRAME {
            self.put_begun()?;
        }
        let taken = bytes.len().min(FRAME_HEAD + FRAME - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Nothing: a frame is written when it is full, so that they are the same whoever flushes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts the payloads of frames together again, each after its checksum was found to be right.
struct FrameReader<'r> {
    from: &'r mut dyn Read,
    /// The payload of the last frame that was read, and how much of it has been taken.
    payload: Vec<u8>,
    taken: usize,
    seed: u64,
    total: u64,
    closed: bool,
}

impl<'r> FrameReader<'r> {
    fn new(from: &'r mut dyn Read, seed: u64) -> Self {
        Self { from, payload: Vec::new(), taken: 0, seed, total: 0, closed: false }
    }

    /// Reads the next frame, if the closing one has not been read.
    fn next(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let mut length = [0; 4];
        self.from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME {
            return Err(damaged(format!("a frame of {length} bytes, after {} bytes of payload", self.total)));
        }
        let checksum = read_u64(self.from)?;
        self.payload.resize(if length == 0 { 8 } else { length }, 0);
        self.from.read_exact(&mut self.payload)?;
        self.seed = self.seed.wrapping_add(1);
        if xxh3_64_with_seed(&self.payload, self.seed) != checksum {
            return Err(damaged(format!("a frame has another checksum, after {} bytes of payload", self.total)));
        }
        self.taken = 0;
        self.total += length as u64;
        if length == 0 {
            let total = read_u64(&mut self.payload.as_slice())?;
            self.payload.clear();
            self.closed = true;
            if total != self.total {
                return Err(damaged(format!("{} bytes of payload of {total}", self.total)));
            }
        }
        Ok(())
    }

    /// Makes sure that there is nothing more: not in the frames, and not after them.
    fn close(mut self) -> io::Result<()> {
        if self.taken == self.payload.len() {
            self.next()?;
        }
        if !self.closed {
            return Err(damaged(format!("it goes on when the filter is complete, at {} bytes of payload", self.total)));
        }
        match self.from.read_exact(&mut [0]) {
            Ok(()) => Err(damaged("it goes on after its end")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Read for FrameReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.payload.len() {
            self.next()?;
        }
        let left = &self.payload[self.taken..];
        let given = left.len().min(to.len());
        to[..given].copy_from_slice(&left[..given]);
        self.taken += given;
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use model::{HostKey, UrlKey};

    use super::*;
    use crate::{BlockedFilter, BloomFilter, NoFilter, Question, StaticFilter};

    const IDENTITY: &str = "a filter, its sizes, its visit";

    fn key(number: u64) -> UrlKey {
        UrlKey::new(HostKey::of_origin("http://snapshot.test"), &number.to_string())
    }

    fn mark(filter: &mut dyn Filter, numbers: std::ops::Range<u64>) {
        for number in numbers {
            filter.mark(&[Question { key: key(number), url: "" }]);
        }
    }

    fn answers(filter: &dyn Filter) -> Vec<bool> {
        let keys: Vec<UrlKey> = (0..150_000).step_by(23).map(key).collect();
        let questions: Vec<Question<'_>> = keys.iter().map(|key| Question { key: *key, url: "" }).collect();
        let mut maybe = vec![false; keys.len()];
        filter.ask(&questions, &mut maybe);
        maybe
    }

    fn bytes_of(filter: &dyn Filter) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = write_to(&mut bytes, IDENTITY, 0x0102_0304_0506_0708, filter).unwrap();
        assert_eq!(written, bytes.len() as u64);
        bytes
    }

    /// Damages a snapshot in every way, and loads it into filters that `make` makes, empty.
    fn check_damage(full: &dyn Filter, make: impl Fn() -> Box<dyn Filter>) {
        let bytes = bytes_of(full);
        assert!(bytes.len() > 2 * FRAME, "several frames, not {} bytes", bytes.len());
        let mut filter = make();
        assert_ne!(answers(full), answers(filter.as_ref()));
        let position = load_from(&mut bytes.as_slice(), IDENTITY, filter.as_mut()).unwrap();
        assert_eq!(position, 0x0102_0304_0506_0708);
        assert_eq!(answers(full), answers(filter.as_ref()));
        assert_eq!(bytes_of(filter.as_ref()), bytes, "saved again, it is the same file");

        let mut refused = |damaged: &[u8], how: &str| {
            assert_ne!(damaged, bytes, "{how} changes nothing");
            assert!(load_from(&mut &*damaged, IDENTITY, filter.as_mut()).is_err(), "{how} went unnoticed");
        };
        let places = (0..200).map(|number| xxh3_64_with_seed(b"place", number) as usize % bytes.len());
        for end in (0..bytes.len()).step_by(4096).chain(places).chain(bytes.len() - 30..bytes.len()) {
            refused(&bytes[..end], &format!("cut at {end}"));
        }
        let mut damaged = bytes.clone();
        for place in (0..4096).chain(bytes.len() - 30..bytes.len()) {
            for bits in [0xff, 1 << (place % 8)] {
                damaged[place] ^= bits;
                refused(&damaged, &format!("{bits:08b} flipped at {place}"));
                damaged[place] ^= bits;
            }
        }
        for start in (0..bytes.len()).step_by(4096) {
            let page = start..bytes.len().min(start + 4096);
            damaged[page.clone()].fill(0);
            refused(&damaged, &format!("the page at {start} zeroed"));
            damaged[page.clone()].copy_from_slice(&bytes[page]);
        }
        for more in [1, 4096] {
            let longer = [&bytes[..], &vec![0; more]].concat();
            refused(&longer, &format!("{more} bytes more"));
        }
        refused(&[&bytes[..], &bytes[..]].concat(), "two files in one");
        // Two full frames exchanged, each whole in itself.
        let (first, frame) = (MAGIC.len() + 3 + IDENTITY.len() + 16, FRAME_HEAD + FRAME);
        damaged[first..first + 2 * frame].rotate_left(frame);
        refused(&damaged, "two frames exchanged");
    }

    #[test]
    fn every_damage_to_a_blocked_filter_is_found() {
        let make = || Box::new(BlockedFilter::with_rate(130_000, 0.01, [1, 2])) as Box<dyn Filter>;
        let mut full = make();
        mark(full.as_mut(), 0..100_000);
        check_damage(full.as_ref(), make);
    }

    #[test]
    fn every_damage_to_a_bloom_filter_is_found() {
        let make = || Box::new(BloomFilter::with_rate(130_000, 0.01, [1, 2])) as Box<dyn Filter>;
        let mut full = make();
        mark(full.as_mut(), 0..100_000);
        check_damage(full.as_ref(), make);
    }

    #[test]
    fn every_damage_to_a_static_filter_is_found() {
        let known: Vec<u128> = (0..80_000).map(|number| key(number).url_hash()).collect();
        let make = |known: &[u128]| {
            let beside = BlockedFilter::with_rate(30_000, 0.01, [3, 4]);
            Box::new(StaticFilter::new(known, 0.01, [1, 2], Box::new(beside))) as Box<dyn Filter>
        };
        let mut full = make(&known);
        mark(full.as_mut(), 40_000..100_000);
        check_damage(full.as_ref(), || make(&[]));
    }

    #[test]
    fn a_snapshot_replaces_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter.snapshot");
        let mut filter = BlockedFilter::with_rate(10_000, 0.01, [1, 2]);
        let mut loaded = BlockedFilter::with_rate(10_000, 0.01, [1, 2]);
        for position in [0, 7, u64::MAX] {
            mark(&mut filter, position % 1000..position % 1000 + 500);
            let bytes = write(&path, IDENTITY, position, &filter).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
            assert_eq!(load(&path, IDENTITY, &mut loaded).unwrap(), position);
            assert_eq!(answers(&loaded), answers(&filter));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter.snapshot");
        write(&path, IDENTITY, 3, &NoFilter).unwrap();
        let error = write(&path, &"x".repeat(70_000), 4, &NoFilter).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(load(&path, IDENTITY, &mut NoFilter).unwrap(), 3);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("no/such/folder"), IDENTITY, 4, &NoFilter).is_err());
    }

    #[test]
    fn an_error_says_what_is_wrong_and_what_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("filter.snapshot");
        let said = |identity: &str| load(&path, identity, &mut NoFilter).unwrap_err();

        assert!(matches!(said(IDENTITY), SnapshotError::Missing { .. }));
        write(&path, IDENTITY, 3, &NoFilter).unwrap();
        let other = said("bloom, of the next visit");
        assert!(matches!(&other, SnapshotError::Identity { found, expected, .. }
                if found == IDENTITY && expected == "bloom, of the next visit"));
        let text = other.to_string();
        assert!(text.contains("filter.snapshot") && text.contains("it is rebuilt"), "{text}");

        let bytes = fs::read(&path).unwrap();
        let with = |place: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            fs::write(&path, bytes).unwrap();
            said(IDENTITY)
        };
        assert!(matches!(with(8, 2), SnapshotError::Version { found: 2, .. }));
        assert!(matches!(with(0, b'x'), SnapshotError::Damaged { .. }));
        // A damaged identity is damage, not the identity of another filter.
        assert!(matches!(with(13, b'x'), SnapshotError::Damaged { .. }));
        fs::write(&path, b"").unwrap();
        assert!(said(IDENTITY).to_string().contains("it ends too early"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(said(IDENTITY), SnapshotError::Io { .. }));
    }

    #[test]
    fn a_whole_snapshot_of_other_sizes_is_refused() {
        let bytes = bytes_of(&BlockedFilter::with_rate(10_000, 0.01, [1, 2]));
        for capacity in [9_000, 11_000, 1_000_000] {
            let mut other = BlockedFilter::with_rate(capacity, 0.01, [1, 2]);
            assert!(matches!(load_from(&mut bytes.as_slice(), IDENTITY, &mut other), Err(Fault::Read(_))));
        }
        // The filter is content with nothing, and the snapshot has more.
        assert!(matches!(load_from(&mut bytes.as_slice(), IDENTITY, &mut NoFilter), Err(Fault::Read(_))));
    }
}
