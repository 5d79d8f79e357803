//! The index of the WARC files, made wholly from the journal.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use model::Disposition;
use serde::Serialize;

use crate::disk::{beside, replace_file};
use crate::error::{Doing, StorageError};
use crate::journal::JournalReader;
use crate::record::{Done, Record};
use crate::stamp;
use crate::surt::surt;
use crate::warc::digest_text;

/// Lines are sorted in memory in runs of this many bytes: 250 000 captures each, so that 64 open
/// files merge 16 million.
const RUN_BYTES: usize = 64 << 20;

/// What a line says after its key and timestamp. pywb and its kin want numbers as text.
#[derive(Serialize)]
struct Entry<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime: Option<&'a str>,
    status: String,
    digest: String,
    length: String,
    offset: String,
    filename: &'a str,
}

/// Writes a sorted CDXJ index of every capture in the journal to `path`, as one step, and says how
/// many lines it has:
///
/// ```text
/// com,example)/ 20261120182556 {"url": "http://example.com/", "mime": "text/html", "status": "200", …}
/// ```
///
/// Memory is bounded by 64 MiB, whatever the journal's size; sorted runs stand beside `path`
/// meanwhile.
///
/// # Errors
/// When the journal cannot be read, or the disk fails.
pub fn write_index(journal: JournalReader, path: &Path) -> Result<u64, StorageError> {
    write_index_in_runs(journal, path, RUN_BYTES)
}

fn write_index_in_runs(journal: JournalReader, path: &Path, run_bytes: usize) -> Result<u64, StorageError> {
    let mut runs = Runs { beside: path.to_owned(), count: 0 };
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for record in journal {
        let (_, record) = record?;
        let Record::Done(done) = record else { continue };
        let Some(line) = line(&done) else { continue };
        bytes += line.len() + size_of::<String>();
        lines.push(line);
        if bytes >= run_bytes {
            runs.spill(&mut lines)?;
            bytes = 0;
        }
    }
    lines.sort_unstable();
    replace_file(path, |out| runs.merge(lines, out, path))
}

fn line(done: &Done) -> Option<String> {
    let fetch = done.fetch.as_ref()?;
    let capture = fetch.capture.as_ref()?;
    let Disposition::Answered(status) = done.disposition else { return None };
    let entry = Entry {
        url: done.url.url.as_str(),
        mime: fetch.media_type.as_deref(),
        status: status.to_string(),
        digest: digest_text(&fetch.payload_digest),
        length: capture.length.to_string(),
        offset: capture.offset.to_string(),
        filename: &capture.segment,
    };
    let entry = serde_json::to_string(&entry).expect("text can be written as JSON");
    Some(format!("{} {} {entry}\n", surt(&done.url.url), stamp::digits_14(fetch.started)))
}

/// Sorted files beside the index, which go away with this.
struct Runs {
    beside: PathBuf,
    count: usize,
}

impl Runs {
    fn path(&self, run: usize) -> PathBuf {
        beside(&self.beside, &format!(".run-{run}.tmp"))
    }

    fn spill(&mut self, lines: &mut Vec<String>) -> Result<(), StorageError> {
        lines.sort_unstable();
        let path = self.path(self.count);
        self.count += 1;
        let mut out = BufWriter::new(File::create(&path).doing("create", &path)?);
        for line in lines.drain(..) {
            out.write_all(line.as_bytes()).doing("write", &path)?;
        }
        out.flush().doing("write", &path)
    }

    /// Merges the runs with the lines still in memory; says how many lines there are.
    fn merge(&self, rest: Vec<String>, out: &mut impl Write, path: &Path) -> Result<u64, StorageError> {
        let mut sources: Vec<Box<dyn Iterator<Item = Result<String, StorageError>>>> =
            vec![Box::new(rest.into_iter().map(Ok))];
        for run in 0..self.count {
            let path = self.path(run);
            let file = BufReader::new(File::open(&path).doing("open", &path)?);
            let with_newline = |line: String| line + "\n";
            sources.push(Box::new(file.lines().map(move |line| line.map(with_newline).doing("read", &path))));
        }
        let mut heads = BinaryHeap::new();
        for (index, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next().transpose()?.map(|line| Reverse((line, index))));
        }
        let mut count = 0;
        while let Some(Reverse((line, index))) = heads.pop() {
            out.write_all(line.as_bytes()).doing("write", path)?;
            count += 1;
            heads.extend(sources[index].next().transpose()?.map(|line| Reverse((line, index))));
        }
        Ok(count)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        for run in 0..self.count {
            // One that stays is overwritten by the next index.
            let _ = fs::remove_file(self.path(run));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Capture;
    use crate::testing::{self, SEGMENT, admitted, at, done, fetch};
    use crate::{Journal, StorageError};

    fn journal_of(dir: &Path, records: &[Record]) -> Result<JournalReader, StorageError> {
        let (mut journal, _) = Journal::open(dir, |_, _| Ok(()))?;
        for record in records {
            journal.append(record)?;
        }
        journal.sync()?;
        JournalReader::open(dir)
    }

    #[test]
    fn a_capture_has_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let reader = journal_of(&dir.path().join("journal"), &testing::small_crawl()).unwrap();
        let path = dir.path().join("index.cdxj");
        assert_eq!(write_index(reader, &path).unwrap(), 1);
        let expected = format!(
            "example,a)/ 20260921141321 {{\"url\":\"http://a.example/\",\"mime\":\"text/html\",\"status\":\"200\",\
             \"digest\":\"sha1:A4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYH\",\"length\":\"500\",\"offset\":\"300\",\
             \"filename\":\"{SEGMENT}\"}}\n"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }

    #[test]
    fn the_index_is_sorted_however_many_runs_it_took() {
        let records: Vec<_> = (0..200_u64)
            .map(|number| {
                let url = admitted(&format!("http://h{}.example/{}", number * 7 % 10, number * 31 % 97), number);
                let capture = Capture { segment: SEGMENT.to_owned(), offset: number, length: 1, end: number + 2 };
                let mut done = done(&url, Disposition::Answered(200));
                done.fetch = Some(crate::FetchFacts { started: at(number), ..fetch(Some(capture)) });
                Record::Done(Box::new(done))
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal");
        journal_of(&journal, &records).unwrap();
        let path = dir.path().join("index.cdxj");
        let mut outcomes = Vec::new();
        for run_bytes in [RUN_BYTES, 4000, 1] {
            let count = write_index_in_runs(JournalReader::open(&journal).unwrap(), &path, run_bytes).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.lines().is_sorted());
            assert_eq!((count, text.lines().count()), (200, 200));
            outcomes.push(text);
        }
        assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no run stays");
    }
}
