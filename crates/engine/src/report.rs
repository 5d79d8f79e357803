//! What a crawl says of itself: while it runs, in `status.json`, and at its end, in `report.json`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

use model::{Complaint, FailureKind, HostKey, Reason, Time};
use serde::{Deserialize, Serialize};
use storage::{End, JobDir, Summary};
use url_cache::{Counts, FilterKind, Loss, ShadowReport, Verify};

use crate::crawl::Running;
use crate::error::EngineError;

/// Over how many publications the current rate is taken.
const RATE_WINDOW: usize = 10;

/// Warnings a report holds; a list of a million seeds may have many that cannot be fetched.
const MAX_WARNINGS: usize = 20;

/// Where a crawl stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is under way.
    Running,
    /// Nothing was left to do.
    Finished,
    /// A limit was reached; the key says which. It can be resumed.
    Limit(String),
    /// A person stopped it. It can be resumed.
    Interrupted,
    /// We were wrong, or the disk was. It can be resumed.
    Failed,
    /// The process ended without a word. It can be resumed.
    Stopped,
}

impl State {
    /// The state a session's end leaves behind.
    pub fn of_end(end: &End) -> Self {
        match end {
            End::Finished => Self::Finished,
            End::Limit { which } => Self::Limit(which.clone()),
            End::Interrupted => Self::Interrupted,
            End::Failed => Self::Failed,
        }
    }
}

/// Figures of the URL-seen test, for this session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeenTest {
    /// The filter in front of the store.
    pub filter: FilterKind,
    /// Who decides: the store, or the filter alone.
    pub verify: Verify,
    /// Filters side by side, which must all agree.
    pub filters: u32,
    /// Filters one after the other: more than one where it has grown.
    pub stages: u32,
    /// Questions and who answered them.
    pub counts: Counts,
    /// URLs the filter holds, and is made for.
    pub filter_items: u64,
    /// See `filter_items`.
    pub filter_capacity: u64,
    /// Share of the filter's bits that are set, 0 to 1.
    pub filter_fill: f64,
    /// The false-positive rate that follows from its fill.
    pub predicted_false_positive_rate: f64,
    /// Share of new URLs for which the filter said "maybe", as the store found out.
    pub observed_false_positive_rate: Option<f64>,
    /// Bytes of memory of recent cache, filter and pending set.
    pub memory_bytes: u64,
    /// New URLs not yet in the store.
    pub pending: u64,
    /// What a trusted filter lost; `None` where the store decides, and nothing is.
    pub loss: Option<Loss>,
    /// What other strategies would have done.
    pub shadows: Vec<ShadowReport>,
}

/// The figures of a crawl. Counts are of the whole job, over all its sessions, but for those in
/// `session` and `seen_test`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where it stands.
    pub state: State,
    /// The job's folder.
    pub job: PathBuf,
    /// The visit under way, from 1.
    pub visit: u32,
    /// What this session did.
    pub session: Session,
    /// URLs a server answered, whatever the status.
    pub pages: u64,
    /// Of these, pages that were parsed.
    pub parsed: u64,
    /// Seeds that a server answered in this visit.
    pub seeds_answered: u64,
    /// Bytes of bodies as received.
    pub body_bytes: u64,
    /// URLs waiting.
    pub queued: u64,
    /// URLs being fetched, or on their way to the disk.
    pub leased: u64,
    /// Hosts with something queued or leased, while the crawl runs.
    pub hosts: Option<u64>,
    /// References offered; `offered = admitted + refused + seen`.
    pub offered: u64,
    /// URLs admitted; `admitted = queued + leased + done + given_up`.
    pub admitted: u64,
    /// References the job knew already.
    pub seen: u64,
    /// URLs done.
    pub done: u64,
    /// URLs that were still queued when the next visit began.
    pub given_up: u64,
    /// Answers by status.
    pub answered: BTreeMap<u16, u64>,
    /// URLs given up, by kind of failure.
    pub failed: BTreeMap<FailureKind, u64>,
    /// References refused before they were queued, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// URLs refused after they were queued, by reason.
    pub refused_late: BTreeMap<Reason, u64>,
    /// Hosts left alone in the last session, whose URLs are still queued, by reason.
    pub parked: BTreeMap<Reason, Parked>,
    /// What was odd about pages.
    pub complaints: BTreeMap<Complaint, u64>,
    /// Exchanges kept in WARC files.
    pub captures: u64,
    /// Their bytes there.
    pub capture_bytes: u64,
    /// The URL-seen test, for this session.
    pub seen_test: Option<SeenTest>,
    /// Bytes of memory of the process, where the system tells.
    pub memory_bytes: Option<u64>,
    /// What was found wrong as the job was opened, and healed.
    pub healed: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// Hosts left alone for the rest of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// How many.
    pub hosts: u64,
    /// Their queued URLs.
    pub urls: u64,
}

/// What one session did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Seconds since it began.
    pub seconds: f64,
    /// URLs a server answered.
    pub pages: u64,
    /// Bytes of bodies as received.
    pub body_bytes: u64,
    /// Answers per second over the whole session.
    pub pages_per_second: f64,
    /// Answers per second lately.
    pub pages_per_second_now: f64,
    /// Attempts that were repeated.
    pub retries: u64,
    /// Requests for robots.txt.
    pub robots_fetched: u64,
}

/// The part of the figures that only this session knows.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) session: Session,
    /// Answers and bytes of the sessions before.
    pub(crate) earlier_pages: u64,
    pub(crate) earlier_bytes: u64,
    started: Time,
    window: VecDeque<(Time, u64)>,
    /// Hosts left alone for the rest of the session, and why. As many as the frontier holds.
    pub(crate) parked: HashMap<HostKey, Reason>,
    /// Which URLs of the gate's sample were really admitted; empty until somebody has looked.
    pub(crate) sample_known: Vec<bool>,
    healed: Vec<String>,
    warnings: Vec<String>,
}

impl Tally {
    pub(crate) fn begin(earlier: &Summary, healed: Vec<String>, now: Time) -> Self {
        Self {
            session: Session::default(),
            earlier_pages: earlier.answered.values().sum(),
            earlier_bytes: earlier.body_bytes,
            started: now,
            window: VecDeque::new(),
            parked: HashMap::new(),
            sample_known: Vec::new(),
            healed,
            warnings: Vec::new(),
        }
    }

    /// Something a person should know; said once.
    pub(crate) fn warn(&mut self, warning: String) {
        tracing::warn!("{warning}");
        match self.warnings.len() {
            ..MAX_WARNINGS => self.warnings.push(warning),
            MAX_WARNINGS => self.warnings.push("there is more like this in the log".to_owned()),
            _ => {}
        }
    }

    pub(crate) fn seconds(&self, now: Time) -> std::time::Duration {
        now.since(self.started)
    }

    fn measure(&mut self, now: Time) {
        let seconds = now.since(self.started).as_secs_f64();
        self.session.seconds = seconds;
        self.session.pages_per_second = self.session.pages as f64 / seconds.max(1e-6);
        self.window.push_back((now, self.session.pages));
        if self.window.len() > RATE_WINDOW {
            self.window.pop_front();
        }
        if let (Some((from, before)), true) = (self.window.front().copied(), self.window.len() > 1) {
            let elapsed = now.since(from).as_secs_f64().max(1e-6);
            self.session.pages_per_second_now = (self.session.pages - before) as f64 / elapsed;
        }
    }
}

impl Running {
    /// The figures now.
    pub(crate) fn report(&mut self, state: State) -> Report {
        self.tally.measure(self.clock.now());
        let frontier = self.frontier.counts();
        let fill = self.url_cache.fill();
        let counts = self.url_cache.counts();
        let mut report = Report::from_summary(self.job.root(), state, &self.summary);
        report.session = self.tally.session.clone();
        // Pages on their way to the disk are pages too.
        report.pages = self.tally.earlier_pages + self.tally.session.pages;
        report.body_bytes = self.tally.earlier_bytes + self.tally.session.body_bytes;
        report.queued = frontier.queued;
        report.leased = frontier.leased;
        report.hosts = Some(frontier.hosts);
        for (host, reason) in &self.tally.parked {
            let parked = report.parked.entry(*reason).or_default();
            parked.hosts += 1;
            parked.urls += self.frontier.queued_of(*host);
        }
        report.seen_test = Some(SeenTest {
            filter: self.config.url_cache.filter,
            verify: self.config.url_cache.verify,
            filters: self.config.url_cache.filters,
            stages: fill.stages,
            counts,
            filter_items: fill.items,
            filter_capacity: fill.capacity,
            filter_fill: fill.ratio,
            predicted_false_positive_rate: fill.predicted_false_positive_rate,
            observed_false_positive_rate: counts.observed_false_positive_rate(),
            memory_bytes: self.url_cache.memory_bytes() as u64,
            pending: self.url_cache.pending() as u64,
            loss: self.url_cache.loss(&self.tally.sample_known),
            shadows: self.url_cache.shadows(),
        });
        report.memory_bytes = resident_bytes();
        report.healed.clone_from(&self.tally.healed);
        report.warnings.clone_from(&self.tally.warnings);
        report
    }

    /// What a run must have kept: every reference and every URL is accounted for.
    pub(crate) fn balance(&self) -> Result<(), EngineError> {
        let summary = &self.summary;
        let counts = self.frontier.counts();
        let (queued, leased) = (counts.queued, counts.leased);
        let asked = self.url_cache.counts();
        let mut wrong = Vec::new();
        if !summary.balances() {
            wrong.push(format!(
                "offered {} = admitted {} + refused {} + seen {}; admitted = queued {} + done {} + given up {}",
                summary.offered,
                summary.admitted_ever(),
                summary.refused_total(),
                summary.seen,
                summary.queued.entries,
                summary.done.entries,
                summary.given_up
            ));
        }
        if summary.queued.entries != queued + leased {
            wrong.push(format!("the journal has {} queued, the frontier {queued} + {leased}", summary.queued.entries));
        }
        if asked.asked != asked.new_urls() + asked.seen() {
            wrong.push(format!("the seen test's answers: {asked:?}"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(EngineError::Accounts(wrong.join("; "))) }
    }
}

impl Report {
    /// What the journal alone can say.
    pub(crate) fn from_summary(job: &Path, state: State, summary: &Summary) -> Self {
        Self {
            state,
            job: job.to_owned(),
            visit: summary.visit.max(1),
            session: Session::default(),
            pages: summary.answered.values().sum(),
            parsed: summary.pages,
            seeds_answered: summary.seeds_answered,
            body_bytes: summary.body_bytes,
            queued: summary.queued.entries,
            leased: 0,
            hosts: None,
            offered: summary.offered,
            admitted: summary.admitted_ever(),
            seen: summary.seen,
            done: summary.done.entries,
            given_up: summary.given_up,
            answered: summary.answered.clone(),
            failed: summary.failed.clone(),
            refused: summary.refused.clone(),
            refused_late: summary.refused_late.clone(),
            parked: BTreeMap::new(),
            complaints: summary.complaints.clone(),
            captures: summary.captures,
            capture_bytes: summary.capture_bytes,
            seen_test: None,
            memory_bytes: None,
            healed: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Writes it as JSON, as one step, to stay.
    pub(crate) fn write(&self, path: &Path) -> Result<(), EngineError> {
        Ok(JobDir::replace(path, &self.json()?)?)
    }

    /// Writes it as JSON, as one step, for the moment: twice a second nobody waits for the disk.
    pub(crate) fn write_passing(&self, path: &Path) -> Result<(), EngineError> {
        let beside = path.with_extension("json.new");
        let written = std::fs::write(&beside, self.json()?).and_then(|()| std::fs::rename(&beside, path));
        written.map_err(|source| EngineError::Status { path: path.to_owned(), source })
    }

    fn json(&self) -> Result<Vec<u8>, EngineError> {
        serde_json::to_vec_pretty(self).map_err(|error| EngineError::Accounts(error.to_string()))
    }
}

/// Resident memory, from Linux's `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Bytes of all files in a folder and below.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
