use std::fs;
use std::path::Path;

use model::Disposition;
use proptest::prelude::*;

use super::*;
use crate::record::Admitted;
use crate::testing::{admitted, at, done, linked, second_visit, small_crawl};

type Entries = Vec<(Position, Record)>;

/// Opens the journal with small segments; gives what it visited and how much it cut off.
fn open(dir: &Path) -> Result<(Journal, Entries, u64), StorageError> {
    let mut visited = Vec::new();
    let (journal, cut) = Journal::open_with(dir, 600, |position, record| {
        visited.push((position, record));
        Ok(())
    })?;
    Ok((journal, visited, cut))
}

fn read(dir: &Path) -> Result<Entries, StorageError> {
    JournalReader::open(dir)?.collect()
}

/// A journal holding the records in one segment, each synced before the next, and its only file.
fn one_segment(dir: &Path, records: &[Record]) -> (Entries, PathBuf) {
    let (mut journal, _) = Journal::open(dir, |_, _| Ok(())).unwrap();
    let mut entries = Vec::new();
    for record in records {
        entries.push((journal.append(record).unwrap(), record.clone()));
        journal.sync().unwrap();
    }
    (entries, dir.join("00000000000000000000.log"))
}

#[test]
fn records_come_back_from_many_segments() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for _session in 0..3 {
        let (mut journal, visited, cut) = open(dir.path()).unwrap();
        assert_eq!((visited, cut), (expected.clone(), 0));
        for record in small_crawl() {
            expected.push((journal.append(&record).unwrap(), record));
        }
        journal.sync().unwrap();
    }
    assert!(SegmentFile::list(dir.path()).unwrap().len() > 3);
    assert_eq!(read(dir.path()).unwrap(), expected);
    let reader = JournalReader::open(dir.path()).unwrap();
    for (index, (position, record)) in expected.iter().enumerate() {
        assert_eq!(reader.read_at(*position).unwrap().as_ref(), Some(record));
        let rest: Entries = JournalReader::open_at(dir.path(), *position).unwrap().map(Result::unwrap).collect();
        assert_eq!(rest, expected[index..]);
    }
    let (journal, _, _) = open(dir.path()).unwrap();
    assert_eq!(reader.read_at(journal.end()).unwrap(), None);
    assert!(JournalReader::open_at(dir.path(), journal.end()).unwrap().next().is_none());
}

#[test]
fn a_record_is_read_only_when_it_was_written_out() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = open(dir.path()).unwrap();
    journal.append(&small_crawl()[0]).unwrap();
    assert_eq!(read(dir.path()).unwrap(), []);
    journal.sync().unwrap();
    assert_eq!(read(dir.path()).unwrap().len(), 1);
}

#[test]
fn a_torn_last_frame_is_cut_wherever_it_was_torn() {
    let source = tempfile::tempdir().unwrap();
    // It does not end in a zero, so that a zero instead of its last byte tears it too.
    let end = Record::SessionEnded { at: at(9), end: crate::End::Limit { which: "crawl.max_pages".to_owned() } };
    let (entries, file) = one_segment(source.path(), &[&small_crawl()[..3], &[end]].concat());
    let whole = fs::read(&file).unwrap();
    let (last, before) = (entries.last().unwrap(), &entries[..entries.len() - 1]);
    let start = last.0.get() as usize;
    for length in start..whole.len() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(file.file_name().unwrap());
        for tail in [whole[start..length].to_vec(), vec![0; length - start], vec![0xff; length - start]] {
            fs::write(&file, [&whole[..start], &tail].concat()).unwrap();
            assert_eq!(read(dir.path()).unwrap(), before, "a reader passes over it");
            let (mut journal, visited, cut) = open(dir.path()).unwrap();
            assert_eq!((visited.as_slice(), cut), (before, tail.len() as u64));
            assert_eq!(fs::metadata(&file).unwrap().len(), start as u64);
            // What is appended now is read again.
            let position = journal.append(&last.1).unwrap();
            journal.sync().unwrap();
            assert_eq!(read(dir.path()).unwrap().last(), Some(&(position, last.1.clone())));
        }
    }
}

#[test]
fn a_torn_header_is_written_again() {
    for header_bytes in 0..HEADER_LEN {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _, _) = open(dir.path()).unwrap();
        let mut expected = Vec::new();
        while SegmentFile::list(dir.path()).unwrap().len() < 2 {
            for record in small_crawl() {
                expected.push((journal.append(&record).unwrap(), record));
            }
        }
        drop(journal);
        let newest = SegmentFile::list(dir.path()).unwrap().pop().unwrap();
        fs::write(&newest.path, &header(newest.start)[..header_bytes as usize]).unwrap();
        expected.retain(|(position, _)| *position < newest.start);
        assert_eq!(read(dir.path()).unwrap(), expected);
        let (mut journal, visited, cut) = open(dir.path()).unwrap();
        assert_eq!((&visited, cut), (&expected, header_bytes));
        let record = &small_crawl()[0];
        expected.push((journal.append(record).unwrap(), record.clone()));
        journal.sync().unwrap();
        assert_eq!(read(dir.path()).unwrap(), expected);
    }
}

#[test]
fn damage_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (entries, file) = one_segment(dir.path(), &small_crawl());
    let whole = fs::read(&file).unwrap();
    let last = entries.last().unwrap().0.get() as usize;
    for place in HEADER_LEN as usize..last {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x10;
        fs::write(&file, &damaged).unwrap();
        let frame = entries.iter().rfind(|(position, _)| position.get() <= place as u64).unwrap().0.get();
        match open(dir.path()) {
            Err(StorageError::CorruptJournal { path, offset, .. }) => assert_eq!((path, offset), (file.clone(), frame)),
            other => panic!("byte {place}: {:?}", other.map(|(_, visited, cut)| (visited, cut))),
        }
        assert_eq!(fs::read(&file).unwrap(), damaged);
    }
    // In the header too, and when the file has no header at all.
    for damaged in [[b"XRGJRNL", &whole[7..]].concat(), vec![0; 500]] {
        fs::write(&file, damaged).unwrap();
        assert!(matches!(open(dir.path()), Err(StorageError::CorruptJournal { offset: 0, .. })));
    }
}

/// After a power cut, any block of the last group may be missing while later ones are there.
#[test]
fn a_group_that_was_never_synced_is_cut_wherever_it_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (synced, file) = one_segment(dir.path(), &small_crawl());
    let (mut journal, _) = Journal::open(dir.path(), |_, _| Ok(())).unwrap();
    let group: Vec<_> = small_crawl().iter().map(|record| journal.append(record).unwrap()).collect();
    journal.sync().unwrap();
    let whole = fs::read(&file).unwrap();
    for place in group[0].get() as usize..whole.len() {
        let mut torn = whole.clone();
        torn[place..].iter_mut().take(16).for_each(|byte| *byte ^= 0xff);
        fs::write(&file, &torn).unwrap();
        let (journal, visited, cut) = open(dir.path()).unwrap();
        let kept = group.iter().take_while(|position| position.get() <= place as u64).count() - 1;
        assert_eq!(visited.len(), synced.len() + kept, "byte {place}");
        assert_eq!(cut, whole.len() as u64 - journal.end().get(), "byte {place}");
    }
}

#[test]
fn only_the_last_segment_may_end_torn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = open(dir.path()).unwrap();
    for record in small_crawl().iter().cycle().take(30) {
        journal.append(record).unwrap();
    }
    journal.sync().unwrap();
    let segments = SegmentFile::list(dir.path()).unwrap();
    let first = fs::read(&segments[0].path).unwrap();
    for shorter in [first.len() - 1, HEADER_LEN as usize, 3] {
        fs::write(&segments[0].path, &first[..shorter]).unwrap();
        assert!(matches!(open(dir.path()), Err(StorageError::CorruptJournal { .. })), "{shorter}");
        assert!(matches!(read(dir.path()), Err(StorageError::CorruptJournal { .. })), "{shorter}");
    }
    fs::write(&segments[0].path, &first).unwrap();
    fs::remove_file(&segments[1].path).unwrap();
    assert!(matches!(open(dir.path()), Err(StorageError::CorruptJournal { .. })));
    assert!(matches!(read(dir.path()), Err(StorageError::CorruptJournal { .. })));
    fs::remove_file(&segments[0].path).unwrap();
    assert!(matches!(open(dir.path()), Err(StorageError::CorruptJournal { .. })));
    assert!(matches!(read(dir.path()), Err(StorageError::CorruptJournal { .. })));
}

#[test]
fn a_newer_format_is_named_and_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = one_segment(dir.path(), &small_crawl()[..1]);
    let mut bytes = fs::read(&file).unwrap();
    bytes[7] = 2;
    fs::write(&file, &bytes).unwrap();
    assert!(matches!(open(dir.path()), Err(StorageError::NewerFormat { version: 2, .. })));
}

#[test]
fn an_old_frame_shown_at_another_place_is_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let (entries, file) = one_segment(dir.path(), &small_crawl()[..2]);
    let mut bytes = fs::read(&file).unwrap();
    let first = bytes[HEADER_LEN as usize..entries[1].0.get() as usize].to_vec();
    bytes.extend_from_slice(&first);
    fs::write(&file, bytes).unwrap();
    let (_, visited, cut) = open(dir.path()).unwrap();
    assert_eq!((visited, cut), (entries, first.len() as u64));
}

#[test]
fn after_a_failed_write_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = open(dir.path()).unwrap();
    // A file that cannot be written stands for a full disk.
    journal.file = File::open(&journal.segment.path).unwrap();
    journal.append(&small_crawl()[0]).unwrap();
    assert!(matches!(journal.sync(), Err(StorageError::Io { doing: "write", .. })));
    assert!(matches!(journal.sync(), Err(StorageError::Poisoned { .. })));
    assert!(matches!(journal.append(&small_crawl()[0]), Err(StorageError::Poisoned { .. })));
}

#[test]
fn a_record_too_large_is_refused_and_the_journal_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, _, _) = open(dir.path()).unwrap();
    let program = "x".repeat(frame::MAX_PAYLOAD);
    let large = Record::SessionStarted { at: at(0), program, visit: 1 };
    assert!(matches!(journal.append(&large), Err(StorageError::RecordTooLarge { .. })));
    journal.append(&small_crawl()[0]).unwrap();
    journal.sync().unwrap();
    assert_eq!(read(dir.path()).unwrap().len(), 1);
}

#[test]
fn a_visitor_can_stop_the_opening() {
    let dir = tempfile::tempdir().unwrap();
    one_segment(dir.path(), &small_crawl());
    let refuse = |_, _| Err(StorageError::RecordTooLarge { bytes: 1 });
    assert!(matches!(Journal::open(dir.path(), refuse), Err(StorageError::RecordTooLarge { bytes: 1 })));
}

/// These bytes reached disks. If this test fails, old jobs can no longer be read: raise the version
/// and keep reading this one.
#[test]
fn the_format_never_changes() {
    let mut bytes = header(Position::START).to_vec();
    for record in small_crawl().iter().chain(&second_visit()) {
        let position = Position::new(bytes.len() as u64);
        frame::seal(&mut bytes, position, Position::START, record).unwrap();
    }
    assert_eq!(bytes, include_bytes!("golden.journal"));
}

/// What version 1 wrote is still read: it lacks the references of pages, and has no visits.
#[test]
fn the_version_before_is_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("00000000000000000000.log"), include_bytes!("golden-1.journal")).unwrap();
    let read: Vec<Record> = read(dir.path()).unwrap().into_iter().map(|(_, record)| record).collect();
    assert_eq!(read, small_crawl());
}

fn any_record() -> impl Strategy<Value = Record> {
    let any_admitted = (0..50_u32, 0..1_000_000_u64).prop_map(|(page, admission)| -> Admitted {
        linked(&format!("http://h{}.example/{page}", page % 7), admission)
    });
    prop_oneof![
        (any::<u64>(), ".{0,40}", any::<u32>()).prop_map(|(at, program, visit)| Record::SessionStarted {
            at: model::Time::from_micros(at),
            program,
            visit
        }),
        (prop::collection::vec(any_admitted, 0..20), any::<u16>(), ".{0,20}").prop_map(|(links, status, note)| {
            let page = done(&admitted("http://a.example/", 3), Disposition::Answered(status));
            Record::Done(Box::new(crate::Done { admitted: links, note, ..page }))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is appended and wherever the file ends, a whole prefix of it comes back.
    #[test]
    fn a_prefix_survives(records in prop::collection::vec(any_record(), 1..12), cut in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let (entries, file) = one_segment(dir.path(), &records);
        let length = fs::metadata(&file).unwrap().len();
        let kept = cut.index(length as usize + 1) as u64;
        OpenOptions::new().write(true).open(&file).unwrap().set_len(kept).unwrap();
        let ends = entries.iter().skip(1).map(|(position, _)| position.get()).chain([length]);
        let whole = ends.filter(|end| *end <= kept).count();
        let (journal, visited, _) = open(dir.path()).unwrap();
        prop_assert_eq!(visited.as_slice(), &entries[..whole]);
        prop_assert_eq!(journal.end(), entries.get(whole).map_or(Position::new(length), |(position, _)| *position));
    }

    /// Bytes of a stranger's disk never make a panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("00000000000000000000.log"), [&header(Position::START)[..], &bytes].concat()).unwrap();
        prop_assert_eq!(read(dir.path()).unwrap(), vec![]);
        prop_assert!(open(dir.path()).is_ok());
    }
}
