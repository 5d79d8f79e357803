//! A job whose files were damaged at rest is healed, or refused in words that help.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use storage::JobDir;

use crate::crawl::check_balance;
use crate::harness::{Ended, Site};
use crate::job_files::{Audit, journal, names, report};

/// What sled and the system write at once.
const PAGE: u64 = 4096;

/// How a job came to rest before it was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// By a limit: everything is closed in an orderly way.
    Stopped,
    /// By `kill -9`, with most of the work done.
    Killed,
}

/// What the report must say of the damage.
#[derive(Debug, Clone, Copy)]
enum Healing {
    /// Something with this word.
    Told(&'static str),
    /// The damage may have hit what nobody needs.
    AsItMayBe,
}

/// A job at rest, of which copies can be damaged.
struct Patient {
    site: Site,
    rest: Rest,
}

impl Patient {
    fn new(rest: Rest) -> Self {
        let site = Site::tiny(41);
        let settings = ["storage.sync_interval=10ms", "frontier.head=16"];
        match rest {
            Rest::Stopped => drop(site.crawl(&settings).set(&["crawl.max_pages=120"]).exits(3)),
            Rest::Killed => {
                // So slow that the database has reached the disk before the crawl is over.
                let mut running = site.crawl(&settings).set(&["politeness.min_delay=25ms"]).start();
                let is_ripe = || site.server.requests() > 150 && used_pages(&log_of(&site.job())).len() > 4;
                assert!(running.until(is_ripe), "it ended before it could be killed");
                drop(running.kill());
            }
        }
        Self { site, rest }
    }

    fn copy(&self, name: &str) -> JobDir {
        let copy = JobDir::new(self.site.path(name));
        copy_folder(self.site.job().root(), copy.root());
        copy
    }

    fn resume(&self, name: &str) -> crate::harness::Run {
        self.site.argiope(&["crawl", "--job", name, "--set", "crawl.max_pages=0"])
    }

    /// Damages a copy of the job, resumes it to its end, and looks at what is there then.
    #[track_caller]
    fn check(&self, name: &str, damage: impl FnOnce(&JobDir), healing: Healing) -> Ended {
        let job = self.copy(name);
        damage(&job);
        let ended = self.resume(name).exits(0);
        let context = format!("{name}, {:?}\n{ended}", self.rest);
        if let Healing::Told(word) = healing {
            assert!(ended.healed().iter().any(|healed| healed.contains(word)), "{word:?} was not told: {context}");
        }
        Audit::of(&job, &self.site.web.expected()).assert_right(&context);
        let report = report(&job);
        check_balance(&report);
        assert_eq!(report.healed.len(), ended.healed().len(), "{context}");
        let again = self.resume(name).exits(0);
        assert!(again.stdout.contains("is finished") && again.healed().is_empty(), "{context}\nand then\n{again}");
        ended
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

fn resize(path: &Path, change: impl FnOnce(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(change(length)).unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

fn last_segment(job: &JobDir) -> PathBuf {
    job.journal().join(names(&job.journal()).pop().expect("there is a journal"))
}

/// Sled's own file.
fn log_of(job: &JobDir) -> PathBuf {
    job.database().join("db")
}

/// The pages of a file that are not empty. Sled asks for more room than it needs.
fn used_pages(path: &Path) -> Vec<u64> {
    let bytes = fs::read(path).unwrap_or_default();
    let pages = bytes.chunks_exact(PAGE as usize).map(|page| page.iter().any(|byte| *byte != 0));
    (0..).zip(pages).filter_map(|(page, is_used)| is_used.then_some(page)).collect()
}

/// Cuts a file so that this share of its used part stays.
fn cut(path: &Path, (part, whole): (u64, u64)) {
    let used = used_pages(path).last().expect("the database holds something") + 1;
    resize(path, |_| used * PAGE * part / whole);
}

fn zero_a_page(path: &Path) {
    let used = used_pages(path);
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(used[used.len() / 2] * PAGE)).unwrap();
    file.write_all(&[0; PAGE as usize]).unwrap();
}

fn snapshot(job: &JobDir, name: &str, bytes: &[u8]) {
    fs::write(job.database().join(name), bytes).unwrap();
}

fn check_database(rest: Rest) {
    let patient = Patient::new(rest);
    // After an orderly end the database was up to date: whatever it lacks was lost.
    let lost = match rest {
        Rest::Stopped => Healing::Told("database"),
        Rest::Killed => Healing::AsItMayBe,
    };
    let as_it_is = patient.check("as-it-is", |_| (), Healing::AsItMayBe);
    assert!(matches!(rest, Rest::Killed) || as_it_is.healed().is_empty(), "{as_it_is}");
    patient.check("a-tenth-off", |job| cut(&log_of(job), (9, 10)), lost);
    patient.check("half-off", |job| cut(&log_of(job), (1, 2)), lost);
    patient.check("empty", |job| resize(&log_of(job), |_| 0), Healing::Told("database"));
    patient.check("gone", |job| fs::remove_dir_all(job.database()).unwrap(), Healing::Told("database"));
    patient.check("page-zeroed", |job| zero_a_page(&log_of(job)), Healing::AsItMayBe);
    patient.check("noise", |job| fs::write(log_of(job), [0xa5; 10_000]).unwrap(), Healing::Told("database"));
    let garbage = |job: &JobDir| snapshot(job, "snap.0000.generating", b"half a snapshot");
    patient.check("snapshot-generating", garbage, Healing::AsItMayBe);
    patient.check("snapshot-empty", |job| snapshot(job, "snap.00000000000F0000", b""), Healing::AsItMayBe);
}

/// Torn at every 4 KiB, with a page zeroed, of noise, or gone: the filter is made again, and no URL is
/// dropped for it.
#[test]
fn a_damaged_snapshot_of_the_filter_is_made_again() {
    let site = Site::tiny(43);
    site.crawl(&["url_cache.capacity=20_000", "crawl.max_pages=40"]).exits(3);
    let path = site.job().filter();
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 5 * PAGE as usize, "{} bytes", whole.len());
    let mut damaged: Vec<(String, Vec<u8>)> =
        (0..whole.len()).step_by(PAGE as usize).map(|end| (format!("cut at {end}"), whole[..end].to_vec())).collect();
    let mut zeroed = whole.clone();
    zeroed[2 * PAGE as usize..3 * PAGE as usize].fill(0);
    damaged.push(("zeroed".to_owned(), zeroed));
    damaged.push(("noise".to_owned(), (0..20_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()));
    for (number, (name, bytes)) in (0..).zip(damaged) {
        let name = name.replace(' ', "-");
        let job = JobDir::new(site.path(&name));
        copy_folder(site.job().root(), job.root());
        fs::write(job.filter(), bytes).unwrap();
        // A few pages more, so that each has to tell new URLs from known ones; the last goes to the end.
        let limit = format!("crawl.max_pages={}", 10 + number);
        let ended = site.argiope(&["crawl", "--job", &name, "--set", &limit]).exits(3);
        assert!(ended.healed().iter().any(|healed| healed.contains("filter was made again")), "{name}: {ended}");
        assert_eq!(ended.healed().len(), 1, "{name}: {ended}");
        let mut admitted = std::collections::HashSet::new();
        for (_, record) in journal(&job) {
            for it in record.admitted().0 {
                assert!(admitted.insert(it.url.clone()), "{name}: {} was admitted twice", it.url);
            }
        }
    }
    fs::remove_file(&path).unwrap();
    let ended = site.resume().set(&["crawl.max_pages=0"]).exits(0);
    assert!(ended.healed().iter().any(|healed| healed.contains("it had no snapshot")), "{ended}");
    Audit::of(&site.job(), &site.web.expected()).assert_right(&ended.to_string());
    assert!(path.is_file(), "a session saves the filter at its end");
}

/// The exact store in redb: gone, cut, or of noise.
#[test]
fn a_damaged_redb_file_is_filled_again() {
    let site = Site::tiny(44);
    site.crawl(&["url_cache.store=redb", "crawl.max_pages=60"]).exits(3);
    for (name, damage) in [
        ("gone", (&|path: &Path| fs::remove_file(path).unwrap()) as &dyn Fn(&Path)),
        ("cut", &|path| OpenOptions::new().write(true).open(path).unwrap().set_len(3 * PAGE).unwrap()),
        ("noise", &|path| fs::write(path, vec![0xa5; 40_000]).unwrap()),
    ] {
        let job = JobDir::new(site.path(name));
        copy_folder(site.job().root(), job.root());
        damage(&job.database().join("seen.redb"));
        let ended = site.argiope(&["crawl", "--job", name, "--set", "crawl.max_pages=0"]).exits(0);
        let told = |word| ended.healed().iter().any(|healed| healed.contains(word));
        assert!(told("exact store was filled") || told("database was rebuilt"), "{name}: {ended}");
        Audit::of(&job, &site.web.expected()).assert_right(&format!("{name}: {ended}"));
    }
}

#[test]
fn a_damaged_database_of_a_stopped_crawl_is_healed() {
    check_database(Rest::Stopped);
}

#[test]
fn a_damaged_database_of_a_killed_crawl_is_healed() {
    check_database(Rest::Killed);
}

#[test]
fn a_torn_end_of_the_journal_is_cut_off() {
    for rest in [Rest::Stopped, Rest::Killed] {
        let patient = Patient::new(rest);
        for count in [1, 12, 200] {
            let name = format!("journal-{count}-more");
            let ended = patient.check(
                &name,
                |job| append(&last_segment(job), &vec![0x5a; count]),
                Healing::Told("journal's end"),
            );
            assert!(ended.healed().iter().any(|healed| healed.starts_with(&format!("{count} bytes"))), "{ended}");
        }
    }
    // Only what was being written can be torn: the records of a stopped crawl were durable, and
    // their exchanges stand in finished WARC files.
    let patient = Patient::new(Rest::Killed);
    for count in [1, 30, 200] {
        let name = format!("journal-{count}-less");
        patient.check(&name, |job| resize(&last_segment(job), |length| length - count), Healing::Told("journal's end"));
    }
}

#[test]
fn bytes_the_journal_does_not_know_are_cut_off_the_warc_files() {
    let patient = Patient::new(Rest::Killed);
    let open = |job: &JobDir| {
        let open = names(&job.warc()).into_iter().find(|name| name.strip_suffix(".open").is_some());
        job.warc().join(open.expect("a killed crawl leaves one open"))
    };
    patient.check("warc-more", |job| append(&open(job), &[0x1f; 5000]), Healing::Told("WARC files"));
    let stray = "argiope-20260101000000000-00099.warc.gz.open";
    patient.check(
        "warc-stray",
        |job| fs::write(job.warc().join(stray), [0x1f; 70]).unwrap(),
        Healing::Told("WARC files"),
    );
}

/// Leftovers of small files being replaced, and logs without a last line end.
#[test]
fn small_leftovers_do_no_harm() {
    let patient = Patient::new(Rest::Killed);
    let leave = |job: &JobDir| {
        for name in ["report.json.tmp", "status.json.tmp", "index.cdxj.tmp", "index.cdxj.run-0.tmp", "job.toml.tmp"] {
            fs::write(job.root().join(name), "half a").unwrap();
        }
        fs::write(job.status(), "{\"state\": \"runn").unwrap();
        append(&job.crawl_log(), b"2026-01-01T00:00:00.000Z   200  half a li");
    };
    patient.check("leftovers", leave, Healing::AsItMayBe);
}

/// Bytes that were durable have changed: no cut is right, so a person must decide.
#[test]
fn a_journal_damaged_in_the_middle_is_refused() {
    let patient = Patient::new(Rest::Stopped);
    let job = patient.copy("journal-middle");
    let path = last_segment(&job);
    let mut bytes = fs::read(&path).unwrap();
    let records = journal(&job);
    let damaged = records[records.len() / 2].0.get();
    bytes[damaged as usize + 20] ^= 0xff;
    fs::write(&path, &bytes).unwrap();
    let warc = names(&job.warc());
    for command in [
        &["crawl", "--job", "journal-middle"][..],
        &["status", "--job", "journal-middle"],
        &["export", "--job", "journal-middle", "--format", "jsonl"],
    ] {
        let ended = patient.site.argiope(command).exits(1);
        let file = Path::new("journal-middle/journal").join(path.file_name().unwrap());
        for words in
            [file.to_str().unwrap(), &format!("is damaged at byte {damaged}"), &format!("truncate -s {damaged}")]
        {
            assert!(ended.stderr.contains(words), "{words:?} is not in\n{ended}");
        }
        assert!(command[0] == "export" || ended.stdout.is_empty(), "{ended}");
    }
    assert_eq!(fs::read(&path).unwrap(), bytes, "a journal that is refused is left as it is");
    assert_eq!(names(&job.warc()), warc);
}
