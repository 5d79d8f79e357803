//! WARC files while they are written.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use model::Time;

use super::render::{Rendered, WarcRenderer};
use crate::disk;
use crate::error::{Doing, StorageError};
use crate::record::Capture;
use crate::stamp;

/// What follows the name of a segment that is being written.
pub(super) const OPEN_SUFFIX: &str = ".open";
/// How every segment's own name ends.
pub(super) const SUFFIX: &str = ".warc.gz";
/// How every segment's own name begins.
pub(super) const PREFIX: &str = "argiope-";

/// Appends rendered exchanges to WARC segments. Lives on the storage thread.
///
/// A group of pages is made durable in three steps:
///
/// 1. [`sync`](Self::sync): the bytes are on the disk;
/// 2. the journal's sync: the records that point to them are;
/// 3. [`settle`](Self::settle): segments that are full lose their `.open`.
///
/// So a segment without `.open` holds only what the journal knows and never changes again, and
/// whatever the journal does not know stands at the end of an `.open` one, where
/// [`recover_segments`](super::recover_segments) cuts it off.
pub struct SegmentWriter {
    dir: PathBuf,
    max_bytes: u64,
    serial: u32,
    software: String,
    user_agent: String,
    renderer: WarcRenderer,
    current: Option<Segment>,
    /// Full ones, waiting for [`SegmentWriter::settle`].
    full: Vec<Segment>,
    poisoned: bool,
}

struct Segment {
    /// Without `.open`.
    name: String,
    path: PathBuf,
    file: File,
    length: u64,
    /// Whether bytes were added since the last sync.
    dirty: bool,
}

impl SegmentWriter {
    /// Writes to `dir`, which is created where it is missing; files begin with the first exchange.
    /// `software` and `user_agent` stand in each file's warcinfo record.
    ///
    /// # Errors
    /// When the folder cannot be made or listed.
    pub fn open(dir: &Path, max_bytes: u64, software: &str, user_agent: &str) -> Result<Self, StorageError> {
        disk::create_dir(dir)?;
        let mut serial = 0;
        for entry in fs::read_dir(dir).doing("list", dir)? {
            let name = entry.doing("list", dir)?.file_name();
            serial = serial.max(name.to_str().and_then(serial_of).map_or(0, |serial| serial.saturating_add(1)));
        }
        Ok(Self {
            dir: dir.to_owned(),
            max_bytes,
            serial,
            software: software.to_owned(),
            user_agent: user_agent.to_owned(),
            // Only warcinfo records are rendered here.
            renderer: WarcRenderer::new(6),
            current: None,
            full: Vec::new(),
            poisoned: false,
        })
    }

    /// Appends the records of an exchange, beginning a new segment where they do not fit; an exchange
    /// larger than a segment gets one to itself. `now` names the new one.
    ///
    /// # Errors
    /// When the disk fails, now or earlier.
    pub fn append(&mut self, rendered: &Rendered, now: Time) -> Result<Capture, StorageError> {
        self.guarded(|writer| writer.append_unguarded(rendered, now))
    }

    /// Makes all that was appended durable. To be called before the journal is synced.
    ///
    /// # Errors
    /// When the disk fails, now or earlier. Nothing is appended any more then.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        self.guarded(|writer| {
            for segment in writer.full.iter_mut().chain(&mut writer.current).filter(|segment| segment.dirty) {
                segment.file.sync_data().doing("sync", &segment.path)?;
                segment.dirty = false;
            }
            Ok(())
        })
    }

    /// Completes the segments that were full at the last sync. To be called after the journal has
    /// been synced.
    ///
    /// # Errors
    /// When the disk fails, now or earlier.
    pub fn settle(&mut self) -> Result<(), StorageError> {
        self.guarded(|writer| {
            if writer.full.is_empty() {
                return Ok(());
            }
            let (settled, waiting) = std::mem::take(&mut writer.full).into_iter().partition(|full| !full.dirty);
            writer.full = waiting;
            let settled: Vec<Segment> = settled;
            for segment in &settled {
                segment.file.sync_all().doing("sync", &segment.path)?;
                fs::rename(&segment.path, writer.dir.join(&segment.name)).doing("complete", &segment.path)?;
            }
            disk::sync_dir(&writer.dir)
        })
    }

    /// Completes the segment being written too, at the end of a session. To be called after
    /// [`sync`](Self::sync) and the journal's sync.
    ///
    /// # Errors
    /// When the disk fails, now or earlier.
    pub fn finish(mut self) -> Result<(), StorageError> {
        self.full.extend(self.current.take());
        self.settle()
    }

    fn append_unguarded(&mut self, rendered: &Rendered, now: Time) -> Result<Capture, StorageError> {
        let fits = |segment: &mut Segment| segment.length + rendered.bytes.len() as u64 <= self.max_bytes;
        let mut segment = if let Some(segment) = self.current.take_if(fits) {
            segment
        } else {
            self.full.extend(self.current.take());
            self.create(now)?
        };
        let offset = segment.length;
        segment.file.write_all(&rendered.bytes).doing("write", &segment.path)?;
        segment.length += rendered.bytes.len() as u64;
        segment.dirty = true;
        let capture =
            Capture { segment: segment.name.clone(), offset, length: rendered.response_len, end: segment.length };
        self.current = Some(segment);
        Ok(capture)
    }

    fn create(&mut self, now: Time) -> Result<Segment, StorageError> {
        let name = format!("{PREFIX}{}-{:05}{SUFFIX}", stamp::digits_17(now), self.serial);
        self.serial += 1;
        let path = self.dir.join(format!("{name}{OPEN_SUFFIX}"));
        let mut file = OpenOptions::new().append(true).create_new(true).open(&path).doing("create", &path)?;
        let info = [
            ("software", self.software.as_str()),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
            ("http-header-user-agent", self.user_agent.as_str()),
            ("robots", "obey"),
        ];
        let warcinfo = self.renderer.render_warcinfo(now, &name, &info);
        file.write_all(&warcinfo).doing("write", &path)?;
        disk::sync_dir(&self.dir)?;
        Ok(Segment { name, path, file, length: warcinfo.len() as u64, dirty: true })
    }

    /// A segment that could not be written or synced holds nobody knows what until it is recovered.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, StorageError>) -> Result<T, StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned { path: self.dir.clone() });
        }
        let outcome = write(self);
        self.poisoned = outcome.is_err();
        outcome
    }
}

/// The serial number in a segment's name, open or complete.
fn serial_of(name: &str) -> Option<u32> {
    let name = name.strip_suffix(OPEN_SUFFIX).unwrap_or(name);
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, exchange};

    #[test]
    fn after_a_failed_write_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(dir.path(), 1 << 20, "test/1", "test/1").unwrap();
        let rendered = WarcRenderer::new(3).render(&exchange("http://a.example/", &[], b"body"));
        writer.append(&rendered, at(0)).unwrap();
        // A file that cannot be written stands for a full disk.
        let segment = writer.current.as_mut().unwrap();
        segment.file = File::open(&segment.path).unwrap();
        assert!(matches!(writer.append(&rendered, at(0)), Err(StorageError::Io { doing: "write", .. })));
        assert!(matches!(writer.append(&rendered, at(0)), Err(StorageError::Poisoned { .. })));
        assert!(matches!(writer.sync(), Err(StorageError::Poisoned { .. })));
        assert!(writer.finish().is_err());
        assert!(
            fs::read_dir(dir.path())
                .unwrap()
                .all(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with(OPEN_SUFFIX) })
        );
    }

    #[test]
    fn serial_numbers_are_read_from_names() {
        for (name, serial) in [
            ("argiope-20260921141320000-00017.warc.gz", Some(17)),
            ("argiope-20260921141320000-00017.warc.gz.open", Some(17)),
            ("argiope-20260921141320000-123456.warc.gz", Some(123_456)),
            ("argiope-20260921141320000.warc.gz", None),
            ("other-20260921141320000-00017.warc.gz", None),
        ] {
            assert_eq!(serial_of(name), serial, "{name}");
        }
    }
}
