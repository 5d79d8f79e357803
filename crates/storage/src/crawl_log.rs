//! crawl.log, for the tools that read Heritrix's.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use model::{Disposition, QueuedUrl, Reason, Truncation};

use crate::error::{Doing, StorageError};
use crate::record::Done;
use crate::stamp;
use crate::warc::digest_text;

/// Letters of a discovery path that are written out, as in Heritrix.
const PATH_LETTERS: usize = 50;

/// Appends lines to crawl.log. It is for people and tools: nothing is read back from it, so a crash
/// may cost it its last lines.
pub struct CrawlLog {
    path: PathBuf,
    out: BufWriter<File>,
}

impl CrawlLog {
    /// Opens the log, creating it where it is missing. A last line that a crash cut off is ended.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).doing("open", path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last).doing("read", path)?;
        }
        if last != *b"\n" {
            file.write_all(b"\n").doing("write", path)?;
        }
        Ok(Self { path: path.to_owned(), out: BufWriter::new(file) })
    }

    /// Appends the line of an attempt.
    ///
    /// Columns: when it was written, status or Heritrix's code for what went wrong, size, URL,
    /// discovery path, referring page, media type, worker (a fetch has no thread of its own: #000), start and duration in milliseconds,
    /// digest, source tag, annotations.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn append(&mut self, done: &Done) -> Result<(), StorageError> {
        let line = line(done);
        self.out.write_all(line.as_bytes()).doing("write", &self.path)
    }

    /// Hands every line to the system.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&mut self) -> Result<(), StorageError> {
        self.out.flush().doing("write", &self.path)
    }
}

fn line(done: &Done) -> String {
    let fetch = done.fetch.as_ref();
    let or_dash = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let size = fetch.map_or_else(|| "-".to_owned(), |fetch| fetch.body_bytes.to_string());
    let timing = fetch.map(|fetch| format!("{}+{}", stamp::digits_17(fetch.started), fetch.duration_us / 1000));
    format!(
        "{} {:>5} {size:>10} {} {} {} {} #000 {} {} - {}\n",
        stamp::iso_millis(done.finished),
        status(done.disposition),
        done.url.url,
        or_dash(Some(discovery_path(&done.url))),
        or_dash(done.url.via.as_deref().map(one_word)),
        fetch.and_then(|fetch| fetch.media_type.as_deref()).map_or_else(|| "unknown".to_owned(), one_word),
        or_dash(timing),
        or_dash(fetch.map(|fetch| digest_text(&fetch.payload_digest))),
        or_dash(Some(annotations(done))),
    )
}

/// The status, or the code Heritrix's glossary gives to the case.
fn status(disposition: Disposition) -> i32 {
    match disposition {
        Disposition::Answered(status) => i32::from(status),
        Disposition::Failed(kind) => kind.heritrix_status(),
        Disposition::Refused(reason) => match reason {
            Reason::Malformed | Reason::UnsupportedScheme | Reason::UrlTooLong | Reason::PrivateAddress => -7,
            Reason::TooDeep | Reason::TooManyRedirects => -4001,
            Reason::OutOfScope | Reason::NotIncluded | Reason::Excluded | Reason::Nofollow => -5000,
            Reason::DeniedHost => -5001,
            Reason::HostPageLimit => -5003,
            Reason::RobotsDisallowed => -9998,
            Reason::RobotsUnreachable => -61,
            Reason::HostDead => -8,
        },
    }
}

/// One letter for each hop from the seed. The journal keeps how many links there were, and how many
/// redirects since the last one; those before are not written.
fn discovery_path(url: &QueuedUrl) -> String {
    let (links, redirects) = (usize::from(url.depth), usize::from(url.redirects));
    let omitted = (links + redirects).saturating_sub(PATH_LETTERS);
    let mut path = if omitted > 0 { format!("{omitted}+") } else { String::new() };
    path.extend((omitted..links + redirects).map(|hop| if hop < links { 'L' } else { 'R' }));
    path
}

fn annotations(done: &Done) -> String {
    let mut words = Vec::new();
    if done.attempts > 1 {
        words.push(format!("{}t", done.attempts));
    }
    words.extend(done.fetch.as_ref().and_then(|fetch| fetch.truncated).map(|truncated| {
        match truncated {
            Truncation::Length => "lenTrunc",
            Truncation::Time => "timeTrunc",
            Truncation::Disconnect => "midFetchAbort",
        }
        .to_owned()
    }));
    if !done.note.is_empty() {
        words.push(one_word(&done.note));
    }
    words.join(",")
}

/// Text from outside as one column: whatever could begin another, or another line, becomes `_`.
fn one_word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() || c == ',' { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::testing;

    fn lines() -> Vec<String> {
        let records = testing::small_crawl();
        let done = records.iter().filter_map(|record| if let Record::Done(done) = record { Some(done) } else { None });
        done.map(|done| line(done)).collect()
    }

    #[test]
    fn lines_have_heritrix_columns() {
        let expected = [
            "2026-09-21T14:13:22.000Z   200       1234 http://a.example/ - - text/html #000 20260921141321000+41 \
             sha1:A4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYH - -\n",
            "2026-09-21T14:13:23.000Z    -2          - http://b.example/dead L http://a.example/ unknown #000 - - - \
             3t,connection_refused\n",
            "2026-09-21T14:13:24.000Z -9998          - http://a.example/private L http://a.example/ unknown #000 - - - \
             Disallow:_/private\n",
        ];
        assert_eq!(lines(), expected);
    }

    #[test]
    fn discovery_paths() {
        for (depth, redirects, expected) in [(0, 0, ""), (2, 1, "LLR"), (0, 1, "R")] {
            let mut url = testing::admitted("http://a.example/", 0).queued(None);
            (url.depth, url.redirects) = (depth, redirects);
            assert_eq!(discovery_path(&url), expected);
            url.depth = 51;
            url.redirects = 1;
            assert_eq!(discovery_path(&url), format!("2+{}R", "L".repeat(49)));
        }
    }

    #[test]
    fn nothing_from_outside_begins_a_column_or_a_line() {
        let mut done = testing::done(&testing::admitted("http://a.example/", 0), Disposition::Answered(200));
        let columns = line(&done).split_whitespace().count();
        done.note = "a b\nc\u{85}d,e".to_owned();
        done.fetch = Some(crate::FetchFacts { media_type: Some("x y\r\nz".to_owned()), ..testing::fetch(None) });
        let line = line(&done);
        assert_eq!((line.lines().count(), line.split_whitespace().count()), (1, columns));
    }

    #[test]
    fn a_torn_line_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("crawl.log");
        let records = testing::small_crawl();
        let Record::Done(done) = &records[2] else { unreachable!() };
        for (before, lines) in [("", 1), ("whole\n", 2), ("whole\nto", 3)] {
            std::fs::write(&path, before).unwrap();
            let mut log = CrawlLog::open(&path).unwrap();
            log.append(done).unwrap();
            log.flush().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(before));
            assert_eq!((text.lines().count(), text.ends_with('\n')), (lines, true), "{text}");
        }
    }
}
