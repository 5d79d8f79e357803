//! Pages as lines of JSON.

use std::io::{self, Write};
use std::path::Path;

use model::Disposition;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Doing, StorageError};
use crate::journal::JournalReader;
use crate::record::{Done, Record};
use crate::stamp;
use crate::warc::digest_text;

#[derive(Serialize)]
struct Line<'a> {
    url: &'a str,
    status: u16,
    started: Option<String>,
    duration_ms: Option<u64>,
    mime: Option<&'a str>,
    bytes: Option<u64>,
    truncated: Option<&'static str>,
    digest: Option<String>,
    title: Option<&'a str>,
    charset: Option<&'a str>,
    canonical: Option<&'a str>,
    noindex: Option<bool>,
    nofollow: Option<bool>,
    depth: u16,
    via: Option<&'a str>,
    links_found: Option<u32>,
    fields: Map<String, Value>,
    complaints: Vec<&'static str>,
    warc: Option<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    file: &'a str,
    offset: u64,
    length: u64,
}

/// Writes one line of JSON for every URL that a server answered, in the order they were done; says
/// how many. Where nothing was parsed, what the parser says is `null`. `out` wants a buffer.
///
/// # Errors
/// When the journal cannot be read, or `out` fails.
pub fn export_pages(journal: JournalReader, out: &mut impl Write) -> Result<u64, StorageError> {
    let mut count = 0;
    for record in journal {
        let (_, Record::Done(done)) = record? else { continue };
        let Disposition::Answered(status) = done.disposition else { continue };
        write_line(&line(&done, status), out).doing("write", Path::new("the export"))?;
        count += 1;
    }
    out.flush().doing("write", Path::new("the export"))?;
    Ok(count)
}

fn write_line(line: &Line, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn line(done: &Done, status: u16) -> Line<'_> {
    let (fetch, page) = (done.fetch.as_ref(), done.page.as_ref());
    let fields = page.into_iter().flat_map(|page| &page.fields);
    Line {
        url: done.url.url.as_str(),
        status,
        started: fetch.map(|fetch| stamp::iso_millis(fetch.started)),
        duration_ms: fetch.map(|fetch| fetch.duration_us / 1000),
        mime: fetch.and_then(|fetch| fetch.media_type.as_deref()),
        bytes: fetch.map(|fetch| fetch.body_bytes),
        truncated: fetch.and_then(|fetch| fetch.truncated).map(model::Truncation::as_str),
        digest: fetch.map(|fetch| digest_text(&fetch.payload_digest)),
        title: page.and_then(|page| page.title.as_deref()),
        charset: page.and_then(|page| page.charset.as_deref()),
        canonical: page.and_then(|page| page.canonical.as_ref()).map(model::CanonicalUrl::as_str),
        noindex: page.map(|page| page.robots.noindex),
        nofollow: page.map(|page| page.robots.nofollow),
        depth: done.url.depth,
        via: done.url.via.as_deref(),
        links_found: page.map(|page| page.links_found),
        fields: fields.map(|(name, values)| (name.clone(), values.clone().into())).collect(),
        complaints: page.into_iter().flat_map(|page| &page.complaints).map(|complaint| complaint.as_str()).collect(),
        warc: fetch.and_then(|fetch| fetch.capture.as_ref()).map(|capture| Place {
            file: &capture.segment,
            offset: capture.offset,
            length: capture.length,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Journal, testing};

    #[test]
    fn an_answered_page_has_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), |_, _| Ok(())).unwrap();
        for record in testing::small_crawl() {
            journal.append(&record).unwrap();
        }
        journal.sync().unwrap();
        let mut out = Vec::new();
        assert_eq!(export_pages(JournalReader::open(dir.path()).unwrap(), &mut out).unwrap(), 1);
        let line: Value = serde_json::from_slice(&out).unwrap();
        let expected = serde_json::json!({
            "url": "http://a.example/", "status": 200, "started": "2026-09-21T14:13:21.000Z", "duration_ms": 41,
            "mime": "text/html", "bytes": 1234, "truncated": null, "digest": "sha1:A4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYH",
            "title": "A \"title\"", "charset": "UTF-8", "canonical": "http://a.example/home", "noindex": true,
            "nofollow": false, "depth": 0, "via": null, "links_found": 5, "fields": {"price": ["1", "2"]},
            "complaints": [], "warc": {"file": testing::SEGMENT, "offset": 300, "length": 500},
        });
        assert_eq!(line, expected);
        assert_eq!(out.last(), Some(&b'\n'));
    }
}
