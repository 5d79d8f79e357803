//! `kill -9` at random times: nothing is lost, nothing is stored twice.
//!
//! A job is crawled by sessions that are killed one after another, until one finishes by itself; jobs
//! follow each other until there were as many kills as `ARGIOPE_CRASH_ROUNDS` says. One kill in five
//! falls into the first moments, while the job is being opened.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::time::Duration;

use storage::{JobDir, Journal, Record};
use testkit::WebConfig;

use crate::crawl::check_balance;
use crate::harness::{Ended, Run, Site};
use crate::job_files::{Audit, ends, journal, names, report};

/// Few enough for every run of the tests.
const ROUNDS: u32 = 12;
/// Where the time of a kill that is meant for the opening is drawn from.
const OPENING: Duration = Duration::from_millis(150);
/// Fetches that may be under way.
const CONCURRENT: u64 = 16;

/// SplitMix64 (Steele, Lea and Flood 2014): the same kills for the same seed number.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        Duration::from_micros(self.next() % (limit.as_micros() as u64 + 1))
    }
}

/// What the kills came to.
#[derive(Debug, Default)]
struct Toll {
    seed: u64,
    jobs: u32,
    kills: u32,
    while_opening: u32,
    lost: usize,
    stored_twice: usize,
    fetched_twice: u64,
    /// URLs that had been requested and were not durable, over all kills.
    leased: u64,
    torn_bytes: u64,
    rebuilt: u32,
}

impl fmt::Display for Toll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed number            {:>8}", self.seed)?;
        writeln!(f, "jobs                   {:>8}", self.jobs)?;
        writeln!(f, "kills                  {:>8}", self.kills)?;
        writeln!(f, "  before any request   {:>8}", self.while_opening)?;
        writeln!(f, "URLs lost              {:>8}", self.lost)?;
        writeln!(f, "URLs stored twice      {:>8}", self.stored_twice)?;
        writeln!(f, "fetches repeated       {:>8}", self.fetched_twice)?;
        writeln!(f, "  of leased at a kill  {:>8}", self.leased)?;
        writeln!(f, "torn journal bytes cut {:>8}", self.torn_bytes)?;
        write!(f, "databases rebuilt      {:>8}", self.rebuilt)
    }
}

fn web(seed: u64) -> WebConfig {
    WebConfig { latency: Some(Duration::ZERO..Duration::from_millis(3)), ..WebConfig::small(seed) }
}

#[test]
fn a_killed_crawl_loses_nothing_and_stores_nothing_twice() {
    let rounds = std::env::var("ARGIOPE_CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let seed = std::env::var("ARGIOPE_CRASH_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = Random(seed);
    let mut toll = Toll { seed, ..Toll::default() };
    // What an undisturbed crawl takes here and now.
    let length = start(&Site::new(web(seed))).exits(0).took;
    while toll.kills < rounds {
        toll.jobs += 1;
        let site = Site::new(web(seed + u64::from(toll.jobs)));
        crash(&site, length, rounds, &mut random, &mut toll);
    }
    eprintln!("{toll}");
    assert_eq!((toll.lost, toll.stored_twice), (0, 0), "{toll}");
    assert!(toll.fetched_twice <= toll.leased, "{toll}");
}

fn start(site: &Site) -> Run {
    site.crawl(&[&format!("downloader.max_concurrent={CONCURRENT}"), "storage.sync_interval=20ms"])
}

/// Crawls one site by sessions that are killed, and judges what is there in the end.
fn crash(site: &Site, length: Duration, rounds: u32, random: &mut Random, toll: &mut Toll) {
    let job = site.job();
    // URLs that were durable at some kill, and how often each was requested until then.
    let mut durable: HashMap<String, u32> = HashMap::new();
    let mut kills_before: HashMap<String, u32> = HashMap::new();
    let mut kills = 0;
    let last = loop {
        let has_seeds = journal(&job).iter().any(|(_, record)| matches!(record, Record::Seeds { .. }));
        let requests = site.server.requests();
        let mut running = if has_seeds { site.resume().start() } else { start(site).start() };
        let until = if random.next().is_multiple_of(5) { random.up_to(OPENING) } else { random.up_to(length) };
        let is_over = toll.kills >= rounds || running.ends_within(until);
        let ended = if is_over { running.wait() } else { running.kill() };
        let is_at_work = site.server.requests() > requests;
        // A session that got to work has said what it healed, also if it was killed.
        toll.rebuilt += u32::from(is_at_work && healed(&job).iter().any(|healed| healed.contains("database")));
        if ended.code.is_some() {
            break ended;
        }
        kills += 1;
        toll.kills += 1;
        toll.while_opening += u32::from(!is_at_work);
        toll.torn_bytes += torn_bytes(site);
        let counts = requests_by_url(site);
        let ends = ends(&job);
        let done: HashSet<&str> = ends.iter().map(|done| done.url.url.as_str()).collect();
        let leased = counts.keys().filter(|url| !done.contains(url.as_str()) && !url.ends_with("/robots.txt"));
        // Some of the requests under way reach the server's log after the kill.
        toll.leased += leased.count() as u64 + CONCURRENT;
        for url in done {
            let url = url.to_owned();
            let count = counts.get(&url).copied().unwrap_or_default();
            kills_before.entry(url.clone()).or_insert(kills - 1);
            let before = *durable.entry(url.clone()).or_insert(count);
            assert_eq!(before, count, "{url} was durable, and was requested again; {toll}");
        }
    };
    judge(site, &last, kills, &kills_before, toll);
}

fn judge(site: &Site, last: &Ended, kills: u32, kills_before: &HashMap<String, u32>, toll: &mut Toll) {
    let (job, expected) = (site.job(), site.web.expected());
    assert_eq!(last.code, Some(0), "{toll}\n{last}");
    let audit = Audit::of(&job, &expected);
    toll.lost += audit.lost.len();
    toll.stored_twice += audit.stored_twice.len();
    audit.assert_right(&format!("{toll}\n{last}"));
    check_balance(&report(&job));

    let judgement = site.judge(&site.server.log());
    let faults = [judgement.missing, judgement.unexpected, judgement.forbidden, judgement.before_robots].concat();
    assert!(faults.is_empty() && judgement.wrong_status.is_empty(), "{faults:#?}\n{toll}\n{last}");
    // A kill costs a URL at most the request that was under way; failures have requests of their own.
    for (url, requests) in requests_by_url(site) {
        if expected.fetched.contains_key(&url) && !expected.failing.contains_key(&url) {
            let kills = kills_before.get(&url).copied().unwrap_or(kills);
            assert!(requests <= 1 + kills, "{url}: {requests} requests, {kills} kills before it was durable; {toll}");
            toll.fetched_twice += u64::from(requests) - 1;
        }
    }

    let again = site.resume().exits(0);
    assert!(again.stdout.contains("is finished") && again.healed().is_empty(), "{toll}\n{again}");
    assert_eq!(ends(&job).len(), kinds_of_url(&job), "{toll}");
}

/// How many URLs were ever queued.
fn kinds_of_url(job: &JobDir) -> usize {
    let records = journal(job);
    let admitted = records.iter().flat_map(|(_, record)| record.admitted().0);
    admitted.map(|admitted| admitted.url.as_str()).collect::<HashSet<_>>().len()
}

fn requests_by_url(site: &Site) -> HashMap<String, u32> {
    let counts = site.server.request_counts().into_iter();
    counts.map(|((host, path), count)| (format!("http://{host}{path}"), count)).collect()
}

/// What the last session that published its figures healed.
fn healed(job: &JobDir) -> Vec<String> {
    let report: Option<engine::Report> =
        fs::read(job.status()).ok().and_then(|json| serde_json::from_slice(&json).ok());
    report.map_or_else(Vec::new, |report| report.healed)
}

/// Bytes at the journal's end that are no whole record, as opening a copy of it finds.
fn torn_bytes(site: &Site) -> u64 {
    let (from, to) = (site.job().journal(), site.path("journal-copy"));
    fs::create_dir_all(&to).expect("it can be made");
    for name in names(&from) {
        fs::copy(from.join(&name), to.join(&name)).expect("it can be copied");
    }
    let (_, torn) = Journal::open(&to, |_, _| Ok(())).expect("a kill damages nothing but the end");
    torn
}
