//! A job's folder, read with eyes of its own: the WARC files by a reader that shares no code with
//! the program, the journal by the program's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::bufread::GzDecoder;
use model::{Disposition, Reason};
use sha1::{Digest, Sha1};
use storage::{Done, JobDir, JournalReader, Position, Record};
use testkit::Expectation;

/// A record of a WARC file; of its block, what a crawl's judge needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WarcRecord {
    /// The file's name.
    pub(crate) file: String,
    /// Where its gzip member begins in the file.
    pub(crate) offset: u64,
    /// How long that is.
    pub(crate) length: u64,
    /// `WARC-Type`.
    pub(crate) kind: String,
    /// `WARC-Target-URI`, empty where there is none.
    pub(crate) uri: String,
    /// `WARC-Payload-Digest`, found to be that of the payload.
    pub(crate) payload_digest: Option<String>,
    /// The first line of the block.
    pub(crate) start_line: String,
}

impl WarcRecord {
    /// The status of a response.
    pub(crate) fn status(&self) -> Option<u16> {
        self.start_line.split(' ').nth(1)?.parse().ok()
    }
}

/// SHA-1 as WARC writes it.
fn digest(bytes: &[u8]) -> String {
    let bytes = Sha1::digest(bytes);
    format!("sha1:{}", base32::encode(base32::Alphabet::Rfc4648 { padding: false }, &bytes))
}

/// Reads the gzip member at the beginning of `bytes`, which must hold one whole record. Says how long it is.
pub(crate) fn read_member(bytes: &[u8], file: &str, offset: u64) -> Result<(WarcRecord, u64), String> {
    let fault = |what: &str| format!("{file} at byte {offset}: {what}");
    let mut member = GzDecoder::new(bytes);
    let mut text = Vec::new();
    member.read_to_end(&mut text).map_err(|error| fault(&error.to_string()))?;
    let length = (bytes.len() - member.into_inner().len()) as u64;

    let head_end = find(&text, b"\r\n\r\n").ok_or_else(|| fault("the record's head does not end"))?;
    let head = std::str::from_utf8(&text[..head_end]).map_err(|_| fault("the record's head is not UTF-8"))?;
    let mut lines = head.split("\r\n");
    if lines.next() != Some("WARC/1.1") {
        return Err(fault("it does not begin with WARC/1.1"));
    }
    let mut fields = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").ok_or_else(|| fault(&format!("no field: {line:?}")))?;
        if fields.insert(name.to_ascii_lowercase(), value.to_owned()).is_some() {
            return Err(fault(&format!("{name} twice")));
        }
    }
    let field = |name: &str| fields.get(name).cloned().ok_or_else(|| fault(&format!("no {name}")));
    let announced: usize = field("content-length")?.parse().map_err(|_| fault("Content-Length is no number"))?;
    let block = &text[head_end + 4..];
    let block = block.strip_suffix(b"\r\n\r\n").ok_or_else(|| fault("no two line ends after the block"))?;
    if block.len() != announced {
        return Err(fault(&format!("the block has {} bytes, not {announced}", block.len())));
    }
    if digest(block) != field("warc-block-digest")? {
        return Err(fault("the block's digest is another"));
    }
    for name in ["warc-record-id", "warc-date"] {
        field(name)?;
    }
    let payload_digest = fields.get("warc-payload-digest").cloned();
    if let Some(expected) = &payload_digest {
        let payload = find(block, b"\r\n\r\n").map_or(&[][..], |end| &block[end + 4..]);
        if digest(payload) != *expected {
            return Err(fault("the payload's digest is another"));
        }
    }
    let first_line = block.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let record = WarcRecord {
        file: file.to_owned(),
        offset,
        length,
        kind: field("warc-type")?,
        uri: fields.get("warc-target-uri").cloned().unwrap_or_default(),
        payload_digest,
        start_line: String::from_utf8_lossy(first_line).into_owned(),
    };
    Ok((record, length))
}

fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

/// Every record of every WARC file, to the last byte; what is wrong with them goes to `wrong`.
pub(crate) fn warc_records(job: &JobDir, wrong: &mut Vec<String>) -> Vec<WarcRecord> {
    let mut records = Vec::new();
    for name in names(&job.warc()) {
        if !name.starts_with("argiope-") || !name.ends_with(".warc.gz") {
            wrong.push(format!("warc/{name} is no finished WARC file"));
            continue;
        }
        let bytes = fs::read(job.warc().join(&name)).expect("it can be read");
        let mut offset = 0;
        while offset < bytes.len() {
            match read_member(&bytes[offset..], &name, offset as u64) {
                Ok((record, length)) => {
                    if (record.kind == "warcinfo") != (offset == 0) {
                        wrong.push(format!("{name} at byte {offset}: a {} record", record.kind));
                    }
                    records.push(record);
                    offset += usize::try_from(length).expect("it was in memory");
                }
                Err(fault) => {
                    wrong.push(fault);
                    break;
                }
            }
        }
    }
    records
}

/// The names in a folder, sorted; none where there is no folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every record of the journal; none where there is no journal yet.
pub(crate) fn journal(job: &JobDir) -> Vec<(Position, Record)> {
    if !job.journal().is_dir() {
        return Vec::new();
    }
    let reader = JournalReader::open(&job.journal()).expect("the journal can be opened");
    reader.map(|entry| entry.expect("the journal can be read")).collect()
}

/// The ends of URLs, in the journal's order.
pub(crate) fn ends(job: &JobDir) -> Vec<Done> {
    let records = journal(job).into_iter();
    records.filter_map(|(_, record)| if let Record::Done(done) = record { Some(*done) } else { None }).collect()
}

/// A job against what it should hold. Nothing is wrong where all lists are empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Expected, and without its end in the journal or its exchange in the WARC files.
    pub(crate) lost: Vec<String>,
    /// More than one end, response or request.
    pub(crate) stored_twice: Vec<String>,
    /// Anything else.
    pub(crate) wrong: Vec<String>,
}

impl Audit {
    /// Holds journal and WARC files of a finished job against each other, and both against the web.
    pub(crate) fn of(job: &JobDir, expected: &Expectation) -> Self {
        let mut audit = Self::default();
        let records = warc_records(job, &mut audit.wrong);
        let ends = ends(job);

        let mut count = BTreeMap::<(&str, &str), u32>::new();
        for record in &records {
            *count.entry((&record.kind, &record.uri)).or_default() += 1;
        }
        count.retain(|(kind, _), _| *kind != "warcinfo");
        let by_place: BTreeMap<(&str, u64), &WarcRecord> =
            records.iter().map(|record| ((record.file.as_str(), record.offset), record)).collect();

        let mut answered = BTreeSet::new();
        for done in &ends {
            let url = done.url.url.as_str();
            *count.entry(("end", url)).or_default() += 1;
            let is_right = match done.disposition {
                Disposition::Answered(status) => expected.fetched.get(url) == Some(&status),
                Disposition::Refused(reason) => {
                    reason == Reason::RobotsDisallowed && expected.robots_refused.contains(url)
                }
                Disposition::Failed(_) => false,
            };
            if !is_right {
                audit.wrong.push(format!("{url} ended {:?} ({})", done.disposition, done.note));
            }
            let Disposition::Answered(status) = done.disposition else { continue };
            answered.insert(url);
            let capture = done.fetch.as_ref().and_then(|fetch| fetch.capture.as_ref());
            let record = capture.and_then(|capture| by_place.get(&(capture.segment.as_str(), capture.offset)));
            let agrees = record.is_some_and(|record| {
                record.kind == "response"
                    && record.uri == url
                    && record.status() == Some(status)
                    && Some(record.length) == capture.map(|capture| capture.length)
            });
            if !agrees {
                audit.wrong.push(format!("{url} is not where the journal says: {capture:?}, but {record:?}"));
            }
        }
        for ((kind, url), times) in &count {
            if *times > 1 {
                audit.stored_twice.push(format!("{url}: {times} times as {kind}"));
            }
            if *kind != "end" && !answered.contains(url) {
                audit.wrong.push(format!("a {kind} of {url}, which the journal does not know as answered"));
            }
        }
        let is_there = |kind: &str, url: &str| count.contains_key(&(kind, url));
        for url in expected.fetched.keys() {
            if ["end", "response", "request"].iter().any(|kind| !is_there(kind, url)) {
                audit.lost.push(url.clone());
            }
        }
        audit.lost.extend(expected.robots_refused.iter().filter(|url| !is_there("end", url)).cloned());
        audit
    }

    /// Fails where something is wrong.
    #[track_caller]
    pub(crate) fn assert_right(&self, context: &dyn std::fmt::Display) {
        assert!(*self == Self::default(), "{context}\n{self:#?}");
    }
}

/// `report.json`.
pub(crate) fn report(job: &JobDir) -> engine::Report {
    let json = fs::read(job.report()).expect("there is a report");
    serde_json::from_slice(&json).expect("the report is a report")
}
