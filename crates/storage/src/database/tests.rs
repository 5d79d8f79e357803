use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use model::{ByteSize, CanonicalUrl, Disposition, HostKey, QueuedUrl, Rank};
use proptest::prelude::*;

use super::*;
use crate::error::StorageError;
use crate::record::{Done, Position, Record};
use crate::summary::Summary;
use crate::testing::{admitted, at, done, linked, numbered, second_visit, small_crawl};

const CACHE: ByteSize = ByteSize(16 << 20);

type Entries = Vec<(Position, Record)>;

/// A crawl of one page per record: page n links to the pages 3n+1 to 3n+3, on seven hosts, while
/// the first `done_count` are done.
fn crawl(done_count: u64) -> Entries {
    let url = |page: u64| format!("http://h{}.example/{page}?{}", page % 7, "x".repeat((page % 50) as usize));
    let seed = admitted(&url(0), 0);
    let mut records =
        vec![Record::Seeds { at: at(0), offered: 1, seen: 0, admitted: vec![seed.clone()], refused: vec![] }];
    for page in 0..done_count {
        let itself = if page == 0 { seed.clone() } else { linked(&url(page), page) };
        let links: Vec<_> = (3 * page + 1..=3 * page + 3).map(|link| linked(&url(link), link)).collect();
        let ended = done(&itself, Disposition::Answered(200));
        records.push(Record::Done(Box::new(Done { offered: 3, admitted: links, ..ended })));
    }
    numbered(&records)
}

fn summary_of(records: &Entries) -> Summary {
    let mut summary = Summary::default();
    for (position, record) in records {
        summary.add(*position, record);
    }
    summary
}

fn agrees(tables: &Tables, summary: &Summary) -> bool {
    tables.queue_census() == summary.queued && tables.pages_census() == summary.done
}

/// The queue by the plain way: what was admitted and is not done, host by host.
fn expected_queue(records: &Entries) -> BTreeMap<HostKey, BTreeMap<Rank, QueuedUrl>> {
    let mut queue: BTreeMap<HostKey, BTreeMap<Rank, QueuedUrl>> = BTreeMap::new();
    for (_, record) in records {
        if let Record::VisitStarted { .. } = record {
            queue.clear();
        }
        if let Record::Done(done) = record {
            queue.entry(done.url.url.host_key()).or_default().remove(&done.url.rank);
        }
        let (admitted, via) = record.admitted();
        for admitted in admitted {
            let queued = admitted.queued(via.clone());
            queue.entry(admitted.url.host_key()).or_default().insert(admitted.rank, queued);
        }
    }
    queue.retain(|_, urls| !urls.is_empty());
    queue
}

/// Everything the tables answer, against the plain way.
fn check(tables: &Tables, records: &Entries) {
    let expected = expected_queue(records);
    assert!(agrees(tables, &summary_of(records)));
    let hosts: Vec<_> = tables.host_queues(3).map(Result::unwrap).collect();
    assert_eq!(hosts.len(), expected.len());
    for (found, (host, urls)) in hosts.iter().zip(&expected) {
        assert_eq!((found.host, found.count), (*host, urls.len() as u64));
        let urls: Vec<_> = urls.values().cloned().collect();
        assert_eq!(found.head, urls[..urls.len().min(3)]);
        let mut scanned = Vec::new();
        loop {
            let more = tables.scan_queue(*host, scanned.last().map(|last: &QueuedUrl| last.rank), 2).unwrap();
            if more.is_empty() {
                break;
            }
            scanned.extend(more);
        }
        assert_eq!(scanned, urls);
    }
    let mut ends = BTreeMap::new();
    for (position, record) in records {
        if let Record::Done(done) = record {
            ends.insert(done.url.url.key(), *position);
        }
    }
    for (key, last) in ends {
        assert_eq!(tables.page_position(key).unwrap(), Some(last));
    }
    let stranger = CanonicalUrl::parse("http://stranger.example/").unwrap();
    assert_eq!(tables.page_position(stranger.key()).unwrap(), None);
    assert_eq!(tables.scan_queue(stranger.host_key(), None, 2).unwrap(), []);
}

#[test]
fn records_are_applied_and_found() {
    let mut visits = small_crawl();
    visits.retain(|record| !matches!(record, Record::Done(done) if done.attempts == 0));
    visits.extend(second_visit());
    for records in [numbered(&small_crawl()), crawl(60), numbered(&visits)] {
        let dir = tempfile::tempdir().unwrap();
        let mut tables = Database::open(dir.path(), CACHE).unwrap().tables;
        tables.apply(&records).unwrap();
        check(&tables, &records);
        tables.apply(&records).unwrap();
        check(&tables, &records);
    }
}

#[test]
fn a_checkpoint_says_where_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let records = crawl(100);
    let mut opened = Database::open(dir.path(), CACHE).unwrap();
    assert_eq!((opened.checkpoint, opened.healed), (Position::START, false));
    opened.tables.apply(&records[..50]).unwrap();
    opened.tables.checkpoint(records[50].0).unwrap();
    opened.tables.apply(&records[50..80]).unwrap();
    drop(opened);
    let mut opened = Database::open(dir.path(), CACHE).unwrap();
    assert_eq!(opened.checkpoint, records[50].0);
    opened.tables.apply(&records[50..]).unwrap();
    check(&opened.tables, &records);
}

#[test]
fn another_format_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let opened = Database::open(dir.path(), CACHE).unwrap();
    opened.tables.db().open_tree("meta").unwrap().insert("format", &[9]).unwrap();
    drop(opened);
    assert!(Database::open(dir.path(), CACHE).is_err());
}

#[test]
fn a_discarded_database_is_kept_once() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("db");
    for second in 0..2 {
        drop(Database::open(&path, CACHE).unwrap());
        Database::discard(&path, at(second)).unwrap();
    }
    let left: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["db.broken-20260921141321000"]);
}

/// Damages a database in one way; whatever sled makes of it, the tables must either be right, or be
/// known to be wrong.
fn check_damage(damage: impl FnOnce(&Path)) -> Option<Opened> {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("db");
    let records = crawl(3000);
    let mut opened = Database::open(&path, CACHE).unwrap();
    opened.tables.apply(&records).unwrap();
    opened.tables.checkpoint(records.last().unwrap().0).unwrap();
    drop(opened);
    damage(&path);
    let right = match Database::open(&path, CACHE) {
        Ok(opened) if agrees(&opened.tables, &summary_of(&records)) => {
            check(&opened.tables, &records);
            Some(opened)
        }
        Ok(_) | Err(StorageError::Database { .. }) => None,
        Err(other) => panic!("{other}"),
    };
    if right.is_none() {
        Database::discard(&path, at(0)).unwrap();
        let mut opened = Database::open(&path, CACHE).unwrap();
        opened.tables.apply(&records).unwrap();
        check(&opened.tables, &records);
    }
    right
}

fn patch(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_snapshot_left_unfinished_is_removed() {
    let opened = check_damage(|path| fs::write(path.join("snap.0000000000001A2B.generating"), b"half").unwrap());
    assert!(opened.is_some_and(|opened| opened.healed), "every key comes back");
}

#[test]
fn a_database_cut_short_is_noticed() {
    check_damage(|path| {
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            if entry.file_name().to_string_lossy().starts_with("snap.") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        patch(&path.join("db"), |bytes| bytes.truncate(bytes.len() / 10 * 9));
    });
}

#[test]
fn a_zeroed_page_is_noticed() {
    for page in [0, 1, 7, 30] {
        check_damage(|path| {
            patch(&path.join("db"), |bytes| {
                let start = (page * 4096).min(bytes.len() - 4096);
                bytes[start..start + 4096].fill(0);
            });
        });
    }
}

#[test]
fn a_missing_database_is_noticed() {
    assert!(check_damage(|path| fs::remove_dir_all(path).unwrap()).is_none());
    assert!(check_damage(|path| fs::remove_file(path.join("db")).unwrap()).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// However the records are cut into runs, and from wherever they are applied a second time.
    #[test]
    fn applying_again_changes_nothing(runs in prop::collection::vec(1..30_usize, 1..8), again in 0..100_usize) {
        let dir = tempfile::tempdir().unwrap();
        let records = crawl(100);
        let mut tables = Database::open(dir.path(), CACHE).unwrap().tables;
        let mut applied = 0;
        for run in runs {
            let end = (applied + run).min(records.len());
            tables.apply(&records[applied..end]).unwrap();
            applied = end;
        }
        tables.apply(&records[again.min(applied)..]).unwrap();
        check(&tables, &records);
    }
}
