use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::bufread::GzDecoder;
use model::{HttpVersion, Truncation};
use sha1::{Digest, Sha1};

use super::render::{Rendered, WarcRenderer};
use super::{SegmentWriter, digest_text, recover_segments};
use crate::StorageError;
use crate::testing::{at, exchange};

/// A record as an independent reader sees it.
#[derive(Debug)]
struct ReadRecord {
    offset: u64,
    length: u64,
    fields: BTreeMap<String, String>,
    block: Vec<u8>,
}

impl ReadRecord {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn body(&self) -> &[u8] {
        let end = self.block.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        &self.block[end + 4..]
    }

    fn head(&self) -> String {
        String::from_utf8_lossy(&self.block[..self.block.len() - self.body().len()]).into_owned()
    }
}

/// Reads member by member, checking all that WARC 1.1 demands of each record.
fn read_warc(bytes: &[u8]) -> Vec<ReadRecord> {
    let mut records = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let offset = (bytes.len() - rest.len()) as u64;
        let mut member = GzDecoder::new(rest);
        let mut text = Vec::new();
        member.read_to_end(&mut text).unwrap();
        rest = member.into_inner();
        let length = (bytes.len() - rest.len()) as u64 - offset;
        let head_end = text.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&text[..head_end]).unwrap();
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("WARC/1.1"));
        let fields: BTreeMap<String, String> =
            lines.map(|line| line.split_once(": ").unwrap()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let block = text[head_end + 4..].strip_suffix(b"\r\n\r\n").unwrap().to_vec();
        let record = ReadRecord { offset, length, fields, block };
        assert_eq!(record.field("Content-Length"), record.block.len().to_string());
        assert_eq!(record.field("WARC-Block-Digest"), digest_text(&Sha1::digest(&record.block).into()));
        if record.field("WARC-Type") == "response" {
            assert_eq!(record.field("WARC-Payload-Digest"), digest_text(&Sha1::digest(record.body()).into()));
        }
        records.push(record);
    }
    let mut ids: Vec<_> = records.iter().map(|record| record.field("WARC-Record-ID").to_owned()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), records.len(), "no two records share an identifier");
    records
}

fn render(exchange: &model::Exchange) -> Rendered {
    WarcRenderer::new(3).render(exchange)
}

#[test]
fn an_exchange_becomes_two_records() {
    let mut exchange = exchange("http://a.example/?q=1", &[("Content-Type", b"text/html")], b"<p>hello");
    exchange.truncated = Some(Truncation::Length);
    let rendered = render(&exchange);
    let [response, request] = &read_warc(&rendered.bytes)[..] else { panic!("two records") };
    assert_eq!((response.length, request.offset), (rendered.response_len, rendered.response_len));
    assert_eq!(response.head(), "HTTP/1.1 200 \r\ncontent-type: text/html\r\n\r\n");
    assert_eq!(response.body(), b"<p>hello");
    assert_eq!(request.block, exchange.request);
    for (name, value) in [
        ("WARC-Type", "response"),
        ("WARC-Target-URI", "http://a.example/?q=1"),
        ("WARC-Date", "2026-09-21T14:13:20.000000Z"),
        ("WARC-IP-Address", "2001:db8::1"),
        ("WARC-Truncated", "length"),
        ("Content-Type", "application/http; msgtype=response"),
    ] {
        assert_eq!(response.field(name), value);
    }
    let id = response.field("WARC-Record-ID");
    assert_eq!((id.len(), &id[..10], &id[24..25]), (47, "<urn:uuid:", "4"), "{id}");
    assert_eq!(request.field("WARC-Type"), "request");
    assert_eq!(request.field("WARC-Concurrent-To"), id);
    assert_eq!(request.field("Content-Type"), "application/http; msgtype=request");
}

#[test]
fn fields_that_no_longer_hold_are_renamed() {
    for (name, value, kept) in [
        ("Transfer-Encoding", "chunked", false),
        ("Content-Length", "4", true),
        ("Content-Length", " 4 ", true),
        ("Content-Length", "5", false),
        ("Content-Encoding", "gzip", true),
    ] {
        let rendered = render(&exchange("http://a.example/", &[(name, value.as_bytes())], b"body"));
        let head = read_warc(&rendered.bytes)[0].head();
        let prefix = if kept { "" } else { "x-archive-orig-" };
        let line = format!("\r\n{prefix}{}: {value}\r\n", name.to_ascii_lowercase());
        assert!(head.contains(&line), "{head:?}");
    }
}

#[test]
fn a_server_cannot_add_lines() {
    let mut hostile = exchange("http://a.example/", &[("x\r\ny: z", b"1\r\n\r\nset: 2\n\x00")], b"body");
    hostile.version = HttpVersion::Http2;
    hostile.status = 7;
    let record = &read_warc(&render(&hostile).bytes)[0];
    assert_eq!(record.head(), "HTTP/1.1 007 \r\nx--y--z: 1    set: 2  \r\n\r\n");
}

#[test]
fn any_body_is_kept_byte_for_byte() {
    let mut renderer = WarcRenderer::new(3);
    let mut state = 1_u32;
    let mut noise = |length: usize| -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    };
    for body in [vec![], vec![0; 3_000_000], noise(1_000_000), noise(1)] {
        let rendered = renderer.render(&exchange("http://a.example/", &[], &body));
        let records = read_warc(&rendered.bytes);
        assert_eq!(records.len(), 2);
        assert!(records[0].body() == body);
    }
}

/// What is in a folder: name, and the URLs kept in it.
fn contents(dir: &Path) -> BTreeMap<String, Vec<String>> {
    let read = |entry: fs::DirEntry| {
        let records = read_warc(&fs::read(entry.path()).unwrap());
        assert_eq!(records[0].field("WARC-Type"), "warcinfo");
        let name = entry.file_name().into_string().unwrap();
        assert_eq!(records[0].field("WARC-Filename"), name.trim_end_matches(".open"));
        assert!(String::from_utf8_lossy(&records[0].block).contains("software: test/1\r\n"));
        let responses = records.iter().filter(|record| record.field("WARC-Type") == "response");
        (name, responses.map(|record| record.field("WARC-Target-URI").to_owned()).collect())
    };
    fs::read_dir(dir).unwrap().map(|entry| read(entry.unwrap())).collect()
}

fn writer(dir: &Path, max_bytes: u64) -> SegmentWriter {
    SegmentWriter::open(dir, max_bytes, "test/1", "test/1 (+http://a.example/)").unwrap()
}

#[test]
fn segments_roll_and_settle() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 2500);
    let mut captures = Vec::new();
    for page in 0..6 {
        let rendered = render(&exchange(&format!("http://a.example/{page}"), &[], b"body"));
        captures.push(writer.append(&rendered, at(page)).unwrap());
    }
    let open = |dir: &Path| contents(dir).keys().filter(|name| name.ends_with(super::segment::OPEN_SUFFIX)).count();
    let files = contents(dir.path()).len();
    assert!(files > 1);
    writer.settle().unwrap();
    assert_eq!(open(dir.path()), files, "nothing is complete that was not synced");
    writer.sync().unwrap();
    writer.settle().unwrap();
    assert_eq!(open(dir.path()), 1);
    writer.finish().unwrap();
    assert_eq!(open(dir.path()), 0);
    let names: Vec<_> = contents(dir.path()).into_keys().collect();
    assert_eq!(names[0], "argiope-20260921141320000-00000.warc.gz");
    assert!(names[1].ends_with("-00001.warc.gz"));
    for (page, capture) in captures.iter().enumerate() {
        let bytes = fs::read(dir.path().join(&capture.segment)).unwrap();
        let group = read_warc(&bytes[capture.offset as usize..capture.end as usize]);
        assert_eq!(group.len(), 2);
        assert_eq!(group[0].length, capture.length);
        assert_eq!(group[0].field("WARC-Target-URI"), format!("http://a.example/{page}"));
    }
    let mut later = self::writer(dir.path(), 2500);
    later.append(&render(&exchange("http://a.example/", &[], b"")), at(0)).unwrap();
    assert!(contents(dir.path()).keys().any(|name| name.ends_with(&format!("-{files:05}.warc.gz.open"))));
}

#[test]
fn a_session_without_pages_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 1000);
    writer.sync().unwrap();
    writer.finish().unwrap();
    assert!(contents(dir.path()).is_empty());
}

#[test]
fn whatever_the_journal_does_not_know_is_cut() {
    let source = tempfile::tempdir().unwrap();
    let mut writer = writer(source.path(), 1 << 20);
    let rendered: Vec<_> =
        ["http://a.example/1", "http://a.example/2"].map(|url| render(&exchange(url, &[], b"body"))).into();
    let known = writer.append(&rendered[0], at(0)).unwrap();
    let unknown = writer.append(&rendered[1], at(0)).unwrap();
    let open_name = format!("{}.open", known.segment);
    let whole = fs::read(source.path().join(&open_name)).unwrap();
    assert_eq!(whole.len() as u64, unknown.end);
    let ends = BTreeMap::from([(known.segment.clone(), known.end)]);
    for length in 0..=whole.len() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(&open_name);
        fs::write(&path, &whole[..length]).unwrap();
        match recover_segments(dir.path(), &ends) {
            Ok(recovered) => {
                assert_eq!((recovered.completed, recovered.cut_bytes), (1, length as u64 - known.end));
                let expected = BTreeMap::from([(known.segment.clone(), vec!["http://a.example/1".to_owned()])]);
                assert_eq!(contents(dir.path()), expected);
                assert_eq!(recover_segments(dir.path(), &ends).unwrap(), super::RecoveredSegments::default());
                assert_eq!(contents(dir.path()), expected);
            }
            Err(StorageError::SegmentTooShort { found, expected, .. }) => {
                assert_eq!((found, expected), (length as u64, known.end));
                assert!(length < known.end as usize);
                assert_eq!(fs::metadata(&path).unwrap().len(), found, "nothing was changed");
            }
            Err(other) => panic!("{other}"),
        }
    }
    for length in [0, 1, known.offset as usize, known.end as usize, whole.len()] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(&open_name);
        fs::write(&path, &whole[..length]).unwrap();
        let recovered = recover_segments(dir.path(), &BTreeMap::new()).unwrap();
        assert_eq!((recovered.removed, recovered.cut_bytes), (1, length as u64));
        assert!(!path.exists());
    }
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["other.warc.gz.open", "argiope-notes.txt", "argiope-20260921141320000-00003.warc.gz"] {
        fs::write(dir.path().join(name), b"bytes").unwrap();
    }
    assert_eq!(recover_segments(dir.path(), &BTreeMap::new()).unwrap(), super::RecoveredSegments::default());
    assert_eq!(recover_segments(&dir.path().join("none"), &BTreeMap::new()).unwrap().completed, 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}
