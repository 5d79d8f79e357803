//! The files of a job say what the servers said.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::crawl::check_balance;
use crate::harness::Site;
use crate::job_files::{Audit, WarcRecord, ends, names, read_member, report, warc_records};

/// A finished crawl of a tiny web, and the responses in its WARC files by URL.
fn crawled(settings: &[&str]) -> (Site, BTreeMap<String, WarcRecord>) {
    let site = Site::tiny(11);
    let ended = site.crawl(settings).exits(0);
    let mut wrong = Vec::new();
    let records = warc_records(&site.job(), &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}\n{ended}");
    let of = |kind: &str| -> Vec<&WarcRecord> { records.iter().filter(|record| record.kind == kind).collect() };
    let answered: BTreeSet<_> = site.web.expected().fetched.into_keys().collect();
    for kind in ["response", "request"] {
        let urls: BTreeSet<_> = of(kind).iter().map(|record| record.uri.clone()).collect();
        assert_eq!(urls, answered, "{kind} records");
        assert_eq!(of(kind).len(), answered.len(), "{kind} records");
    }
    let responses = of("response").into_iter().map(|record| (record.uri.clone(), record.clone())).collect();
    (site, responses)
}

#[test]
fn every_answer_stands_in_the_warc_files_once() {
    // So small that there are several files.
    let (site, responses) = crawled(&["storage.warc_max_bytes=1MiB", "storage.compression=1"]);
    assert!(names(&site.job().warc()).len() > 1, "one file was enough");
    for (url, status) in &site.web.expected().fetched {
        assert_eq!(responses[url].status(), Some(*status), "{url}");
    }
    Audit::of(&site.job(), &site.web.expected()).assert_right(&"after an ordinary crawl");
}

#[test]
fn every_line_of_the_index_leads_to_its_record() {
    let (site, responses) = crawled(&[]);
    let text = fs::read_to_string(site.job().index()).unwrap();
    assert!(text.lines().is_sorted(), "the index is not sorted");
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let (key, at, json) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let entry: BTreeMap<String, String> =
            serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = |name: &str| entry[name].parse::<usize>().unwrap();
        let (offset, length) = (number("offset"), number("length"));
        let file = fs::read(site.job().warc().join(&entry["filename"])).unwrap();
        let (record, read) = read_member(&file[offset..offset + length], &entry["filename"], offset as u64).unwrap();
        assert_eq!(read, length as u64, "{line}");
        assert_eq!((record.kind.as_str(), &record.uri), ("response", &entry["url"]), "{line}");
        assert_eq!(record.status(), entry["status"].parse().ok(), "{line}");
        assert_eq!(record.payload_digest.as_ref(), Some(&entry["digest"]), "{line}");
        let host = entry["url"].strip_prefix("http://").unwrap().split('/').next().unwrap();
        let labels: Vec<&str> = host.trim_start_matches("www.").rsplit('.').collect();
        assert!(key.starts_with(&format!("{})/", labels.join(","))), "{line}");
        assert!(at.len() == 14 && at.bytes().all(|byte| byte.is_ascii_digit()), "{line}");
        assert!(found.insert(record.uri), "a second line: {line}");
    }
    assert_eq!(found, responses.into_keys().collect());
}

/// Heritrix's glossary: twelve columns, of which the second is a status or a negative code.
#[test]
fn the_log_has_a_line_for_every_url_done() {
    let (site, responses) = crawled(&[]);
    let text = fs::read_to_string(site.job().crawl_log()).unwrap();
    let mut last = BTreeMap::new();
    let mut repeated = 0;
    for line in text.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert!((12..=13).contains(&columns.len()), "{} columns: {line}", columns.len());
        let time = columns[0].as_bytes();
        assert!(time.len() == 24 && time[10] == b'T' && time[23] == b'Z', "{line}");
        let status: i32 = columns[1].parse().unwrap_or_else(|_| panic!("no status: {line}"));
        assert!(columns[2] == "-" || columns[2].parse::<u64>().is_ok(), "{line}");
        assert!(columns[4].chars().all(|letter| matches!(letter, 'L' | 'R' | '-')), "{line}");
        assert!(columns[7].starts_with('#'), "{line}");
        if status > 0 && !columns[11].contains("to_be_tried_again") {
            let (started, lasted) = columns[8].split_once('+').unwrap_or_else(|| panic!("no duration: {line}"));
            assert!(started.len() == 17 && lasted.parse::<u64>().is_ok(), "{line}");
            assert_eq!(responses[columns[3]].payload_digest.as_deref(), Some(columns[9]), "{line}");
        }
        repeated += u32::from(last.insert(columns[3].to_owned(), status).is_some());
    }
    let expected = site.web.expected();
    let done: BTreeSet<_> = ends(&site.job()).iter().map(|done| done.url.url.as_str().to_owned()).collect();
    assert_eq!(last.keys().cloned().collect::<BTreeSet<_>>(), done);
    for (url, status) in expected.fetched {
        assert_eq!(last[&url], i32::from(status), "{url}");
    }
    for url in expected.robots_refused {
        assert_eq!(last[&url], -9998, "{url}");
    }
    assert!(repeated > 0, "this web has pages that fail at first, and each attempt has its line");
}

#[test]
fn the_export_has_a_line_for_every_answer() {
    let fields = r#"parser.fields={ heading = "h1", home = "nav a@href", nothing = "blink" }"#;
    let (site, responses) = crawled(&[fields]);
    let ended = site.argiope(&["export", "--job", "job", "--format", "jsonl"]).exits(0);
    assert_eq!(ended.stderr, "");
    let to_file = site.argiope(&["export", "--job", "job", "--format", "jsonl", "--out", "pages.jsonl"]).exits(0);
    assert_eq!(to_file.stdout, "");
    assert_eq!(fs::read_to_string(site.path("pages.jsonl")).unwrap(), ended.stdout);

    let mut urls = BTreeSet::new();
    let (mut html, mut headings) = (0, 0);
    for line in ended.stdout.lines() {
        let page: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let response = &responses[page["url"].as_str().unwrap()];
        assert_eq!(page["status"].as_u64(), response.status().map(u64::from), "{line}");
        assert_eq!(page["digest"].as_str(), response.payload_digest.as_deref(), "{line}");
        assert_eq!(page["warc"]["offset"].as_u64(), Some(response.offset), "{line}");
        assert_eq!(page["warc"]["length"].as_u64(), Some(response.length), "{line}");
        if page["status"] == 200 && page["mime"] == "text/html" {
            html += 1;
            assert!(page["title"].as_str().is_some_and(|title| title.starts_with("Café ")), "{line}");
            assert!(page["fields"].get("nothing").is_none_or(|found| found.as_array().is_some_and(Vec::is_empty)));
            let heading = page["fields"]["heading"].as_array().expect("every page has a heading");
            headings += heading.len();
            assert!(heading.iter().all(|text| text.as_str().is_some_and(|text| !text.is_empty())), "{line}");
        }
        assert!(urls.insert(response.uri.clone()), "a second line: {line}");
    }
    assert_eq!(urls, responses.into_keys().collect());
    assert!(html > 100 && headings == html, "{headings} headings of {html} pages");
}

#[test]
fn the_status_at_rest_is_the_report() {
    let (site, _) = crawled(&[]);
    check_balance(&report(&site.job()));
    let status = site.argiope(&["status", "--job", "job", "--json"]).exits(0);
    let status: Value = serde_json::from_str(&status.stdout).expect("one JSON document and nothing else");
    let report: Value = serde_json::from_slice(&fs::read(site.job().report()).unwrap()).unwrap();
    // What only a living process can say.
    let of_the_moment = ["hosts", "memory_bytes", "healed"];
    for (key, value) in report.as_object().unwrap() {
        if !of_the_moment.contains(&key.as_str()) {
            assert_eq!(status[key], *value, "{key}");
        }
    }
    let printed = site.argiope(&["status", "--job", "job"]).exits(0);
    assert!(printed.stdout.contains("is finished"), "{printed}");
}

#[test]
fn nothing_is_kept_where_nothing_is_wanted() {
    let site = Site::tiny(11);
    site.crawl(&["storage.warc=false"]).exits(0);
    assert!(names(&site.job().warc()).is_empty());
    assert_eq!(fs::read_to_string(site.job().index()).unwrap(), "");
    let export = site.argiope(&["export", "--job", "job", "--format", "jsonl"]).exits(0);
    assert_eq!(export.stdout.lines().count(), site.web.expected().fetched.len());

    let site = Site::tiny(11);
    site.crawl(&["storage.keep=html"]).exits(0);
    let mut wrong = Vec::new();
    let kept = warc_records(&site.job(), &mut wrong);
    let expected = ends(&site.job()).into_iter().filter(|done| {
        let media_type = done.fetch.as_ref().and_then(|fetch| fetch.media_type.as_deref());
        media_type == Some("text/html")
    });
    assert_eq!(kept.iter().filter(|record| record.kind == "response").count(), expected.count());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
