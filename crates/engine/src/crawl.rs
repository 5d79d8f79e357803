//! The loop: one task owns the crawl's state and carries values between the stages.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use downloader::Downloader;
use frontier::{Fate, Frontier, Lease};
use model::{
    Clock, Disposition, FailureKind, FetchOutcome, HopClass, HostKey, QueuedUrl, Rank, Reason, Refusal, Time,
    Truncation,
};
use politeness::{FetchSummary, Next, Permit, Politeness, RobotsAnswer};
use scope::Scope;
use storage::{Done, End, JobDir, Record, SegmentWriter, Summary};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use url_cache::{Judge, RecentCache, UrlCache};

use crate::config::{Config, PRODUCT_TOKEN};
use crate::ending::Saved;
use crate::error::EngineError;
use crate::event::{Durable, Event};
use crate::fetches::{Fetches, Outcome};
use crate::intake::Intake;
use crate::open::{self, Opened};
use crate::pages::{Finished, PageJob, Pages};
use crate::report::{Report, Tally};
use crate::restore::{self, visit_of};
use crate::signals::Signals;
use crate::tables::{Snapshots, TableThread};
use crate::writer::{Files, Write, Writer};

/// URLs that may be leased beyond those being fetched: on a parse thread, or waiting for their
/// group to become durable. At 10 000 pages a second and a group every 100 ms, that is 1 000.
const PIPELINE: usize = 2048;
/// Bodies that may be on their way through the pipeline, in bytes.
const PIPELINE_BYTES: u64 = 256 << 20;
/// New keys that may wait for the table thread.
const MAX_PENDING: usize = 1 << 20;
/// Hosts looked up at once.
const LOOKUPS: usize = 32;
/// Queue refills under way at once.
const REFILLS: usize = 64;
/// Refused references remembered, so that one that stands on every page is written down once.
const RECENT_REFUSALS: usize = 1 << 16;
/// How long a host is left alone that could not be reached: as long as politeness calls it dead.
const PARKED_FOR: Duration = Duration::from_hours(24);
/// How often the figures are published.
const TICK: Duration = Duration::from_millis(500);

/// What to crawl, where to keep it, and who watches.
pub struct Crawl {
    /// The job's folder. Where there is none, it is made; where there is one, the crawl goes on.
    pub job: PathBuf,
    /// The configuration.
    pub config: Config,
    /// Seeds, as the user wrote them. A job that has seeds already needs none.
    pub seeds: Vec<String>,
    /// Whether to begin the next visit of a finished job: every URL is new again.
    pub revisit: bool,
    /// Called on the loop's thread about twice a second; it must return quickly.
    pub watch: Box<dyn FnMut(&Report) + Send>,
}

impl Crawl {
    /// Crawls until nothing is left, a limit is reached, or somebody interrupts.
    ///
    /// # Errors
    /// When the configuration cannot be used, or the disk is wrong. What was durable stays.
    pub fn run(self) -> Result<Report, EngineError> {
        self.config.check().map_err(crate::settings::SettingsError::from)?;
        let signals = Signals::listen()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| EngineError::System { what: "an event loop", source })?;
        runtime.block_on(async {
            let mut running = Running::open(self, signals)?;
            let end = running.turn().await;
            running.close(end)
        })
    }
}

/// A crawl under way. Its parts stand in the order a URL meets them.
pub(crate) struct Running {
    pub(crate) job: JobDir,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) scope: Arc<Scope>,
    pub(crate) url_cache: UrlCache,
    pub(crate) frontier: Frontier,
    pub(crate) politeness: Politeness,
    pub(crate) fetches: Fetches,
    pub(crate) pages: Pages,
    pub(crate) writer: Writer,
    pub(crate) tables: TableThread,
    pub(crate) events: Receiver<Event>,
    signals: Signals,

    /// Everything ever recorded, this session's records as they are handed to the storage thread.
    pub(crate) summary: Summary,
    pub(crate) recent_refusals: RecentCache,
    /// Attempts of URLs that will be tried again; a URL goes when it has an outcome.
    attempts: HashMap<(HostKey, Rank), u8>,
    pub(crate) pipeline_bytes: u64,
    refills: usize,
    pub(crate) tally: Tally,
    pub(crate) watch: Box<dyn FnMut(&Report) + Send>,
    /// Why nothing more is leased.
    pub(crate) stopping: Option<End>,
    pub(crate) saved: Saved,
    _lock: storage::JobLock,
}

impl Running {
    fn open(crawl: Crawl, signals: Signals) -> Result<Self, EngineError> {
        let Crawl { job, config, mut seeds, revisit, watch } = crawl;
        let clock = Clock::start();
        let job = JobDir::new(job);
        restore::check_memory(&config.url_cache)?;
        let downloader = Downloader::new(&config.downloader, &config.crawl.user_agent_header(), clock)?;
        let opened = open::open(&job, &config, &clock, revisit)?;
        let Opened { lock, journal, summary, projection, filter, frontier, seeds: old_seeds, offer, healed } = opened;
        if seeds.is_empty() && old_seeds.is_empty() {
            return Err(EngineError::NoSeeds { job: job.root().to_owned() });
        }
        seeds.extend(offer);
        let config = Arc::new(config);
        // What may wait in front of the storage thread, and what is under way when that is reached.
        let capacity = 2 * PIPELINE + config.downloader.max_concurrent + REFILLS + 64;
        let (sender, events) = tokio::sync::mpsc::channel(capacity);

        let judge = projection.seen.clone().map_or(Judge::Filter, Judge::Store);
        let url_cache = UrlCache::new(filter.filter, config.url_cache.recent, judge, filter.shadows);
        let identity = config.url_cache.identity(&visit_of(&summary, &[]));
        let saved = Saved::default();
        let under_way = Arc::clone(&saved.under_way);
        let snapshots = Snapshots { path: job.filter(), identity, under_way };
        let (tables, table_sender) = TableThread::start(projection, snapshots, journal.end(), sender.clone())?;
        let software = concat!("argiope/", env!("CARGO_PKG_VERSION"));
        let segments = config
            .storage
            .warc
            .then(|| {
                let user_agent = config.crawl.user_agent_header();
                SegmentWriter::open(&job.warc(), config.storage.warc_max_bytes.0, software, &user_agent)
            })
            .transpose()?;
        let log = storage::CrawlLog::open(&job.crawl_log())?;
        let files = Files { journal, segments, log, sync_interval: config.storage.sync_interval.0 };
        let writer = Writer::start(files, clock, capacity, sender.clone(), table_sender)?;
        let pages = Pages::start(&config, capacity, &sender)?;

        let tally = Tally::begin(&summary, healed, clock.now());
        let scope = Scope::new(&config.scope, &old_seeds).map_err(crate::settings::SettingsError::from)?;
        let mut running = Self {
            politeness: Politeness::new(&config.politeness, PRODUCT_TOKEN),
            scope: Arc::new(scope),
            url_cache,
            frontier,
            fetches: Fetches::new(downloader),
            pages,
            writer,
            tables,
            events,
            signals,
            summary,
            recent_refusals: RecentCache::new(RECENT_REFUSALS),
            attempts: HashMap::new(),
            pipeline_bytes: 0,
            refills: 0,
            tally,
            watch,
            stopping: None,
            saved,
            _lock: lock,
            job,
            config,
            clock,
        };
        let at = running.clock.now();
        let program = software.to_owned();
        let visit = running.summary.visit.max(1);
        running.record(Record::SessionStarted { at, program, visit }, None, 0)?;
        running.offer_seeds(&seeds)?;
        running.warn_of_endless_crawls();
        Ok(running)
    }

    /// Turns the loop until the crawl is over.
    async fn turn(&mut self) -> Result<End, EngineError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            self.ask_for_hosts()?;
            self.lease()?;
            if let Some(end) = self.ended() {
                return Ok(end);
            }
            let due = self.next_due();
            let event = tokio::select! {
                biased;
                () = self.signals.next() => Event::Interrupted,
                // Before what is ready all the time, or limits would wait for a quiet moment.
                _ = tick.tick() => Event::Tick,
                Some(event) = self.events.recv() => event,
                event = self.fetches.next() => event,
                () = tokio::time::sleep_until(due) => Event::Due,
            };
            self.handle(event)?;
            // What has come meanwhile is handled before new leases are given.
            while let Ok(event) = self.events.try_recv() {
                self.handle(event)?;
            }
            while let Some(event) = self.fetches.try_next() {
                self.handle(event)?;
            }
        }
    }

    pub(crate) fn handle(&mut self, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Fetched(lease, Outcome::Page(outcome)) => self.page_fetched(lease, outcome),
            Event::Fetched(lease, Outcome::Robots { outcome, too_many_redirects }) => {
                self.robots_fetched(lease, &outcome, too_many_redirects);
                Ok(())
            }
            Event::Resolved(host, resolution) => {
                self.host_resolved(host, resolution);
                Ok(())
            }
            Event::Finished(finished) => self.page_finished(*finished),
            Event::Durable(durable) => {
                for Durable { host, rank, capture_bytes, weight } in durable {
                    self.frontier.done(host, rank);
                    self.pipeline_bytes -= weight;
                    // Where an exchange stands is known only once it was written.
                    self.summary.captures += u64::from(capture_bytes.is_some());
                    self.summary.capture_bytes += capture_bytes.unwrap_or_default();
                }
                Ok(())
            }
            Event::Stored(keys) => {
                self.url_cache.stored(&keys);
                Ok(())
            }
            Event::Refilled(refill, urls) => {
                self.refills -= 1;
                Ok(self.frontier.refilled(refill, urls, self.clock.now())?)
            }
            Event::Broken(thread) => Err(EngineError::ThreadDied { thread }),
            Event::Interrupted => {
                self.stop(End::Interrupted);
                Ok(())
            }
            Event::Due => Ok(()),
            Event::Tick => {
                self.tick();
                Ok(())
            }
        }
    }

    /// Starts look-ups of new hosts and refills of queues.
    fn ask_for_hosts(&mut self) -> Result<(), EngineError> {
        let now = self.clock.now();
        while self.fetches.lookups() < LOOKUPS
            && let Some(unresolved) = self.frontier.next_unresolved(now)
        {
            self.tally.parked.remove(&unresolved.host);
            self.fetches.resolve(unresolved);
        }
        while self.refills < REFILLS
            && let Some(refill) = self.frontier.next_refill()
        {
            self.refills += 1;
            self.writer.send(Write::Refill(refill))?;
        }
        Ok(())
    }

    /// Gives leases as long as there is room for what will come of them.
    fn lease(&mut self) -> Result<(), EngineError> {
        let now = self.clock.now();
        while self.stopping.is_none() && self.has_room() {
            let Some(lease) = self.frontier.lease(now) else { return Ok(()) };
            let place = (lease.host(), lease.url.rank);
            if self.frontier.is_full(lease.host()) {
                let rule = format!("frontier.per_host_max_pages = {}", self.config.frontier.per_host_max_pages);
                self.park(lease, Reason::HostPageLimit, &rule)?;
                continue;
            }
            match self.politeness.permit(&lease.url.url, now) {
                Permit::Go => self.fetches.fetch_page(lease),
                Permit::RobotsFirst => self.fetches.fetch_robots(lease),
                Permit::NotBefore(time) => {
                    let _ = self.frontier.release(lease, Fate::Back(Time::ZERO), time, now, now);
                }
                // This concerns the URL; every other refusal concerns its host.
                Permit::Refused(Refusal { reason: Reason::RobotsDisallowed, rule }) => {
                    let attempts = self.attempts.remove(&place).unwrap_or_default();
                    if let Some(url) = self.frontier.release(lease, Fate::Finished, now, now, now) {
                        let disposition = Disposition::Refused(Reason::RobotsDisallowed);
                        self.end_unfetched(url, attempts, disposition, rule.to_string())?;
                    }
                }
                Permit::Refused(refusal) => self.park(lease, refusal.reason, &refusal.rule)?,
            }
        }
        Ok(())
    }

    /// Leaves a host alone for the rest of this run. Its URLs are not lost: they stay queued, and the
    /// next run tries them again, with the network back or the configuration changed.
    fn park(&mut self, lease: Lease, reason: Reason, rule: &str) -> Result<(), EngineError> {
        let now = self.clock.now();
        let (host, url) = (lease.host(), lease.url.url.clone());
        if lease.url.hop == HopClass::Seed {
            self.tally.warn(format!("the seed {url} was not fetched: {reason} ({rule})"));
        }
        tracing::info!(host = url.origin(), %reason, rule, "parked");
        self.frontier.park(lease, now + PARKED_FOR, now);
        self.tally.parked.insert(host, reason);
        let record = Record::HostParked { at: now, origin: url.origin(), reason, rule: rule.to_owned() };
        self.record(record, None, 0)
    }

    /// A full pipeline stops leasing; nothing ever waits in front of a full queue.
    fn has_room(&self) -> bool {
        let limit = self.config.crawl.max_pages;
        let fetching = self.fetches.leased();
        fetching < self.config.downloader.max_concurrent
            && self.frontier.leased() < self.config.downloader.max_concurrent + PIPELINE
            && self.writer.waiting() < PIPELINE
            && self.pipeline_bytes < PIPELINE_BYTES
            && self.url_cache.pending() < MAX_PENDING
            && (limit == 0 || self.tally.session.pages + (fetching as u64) < limit)
    }

    fn page_fetched(&mut self, lease: Lease, outcome: FetchOutcome) -> Result<(), EngineError> {
        let now = self.clock.now();
        let place = (lease.host(), lease.url.rank);
        let attempts = self.attempts.get(&place).copied().unwrap_or_default().saturating_add(1);
        let duration = match &outcome {
            FetchOutcome::Answered(exchange) => exchange.duration,
            FetchOutcome::Failed { duration, .. } => *duration,
        };
        match &outcome {
            FetchOutcome::Answered(exchange) => {
                tracing::debug!(url = %lease.url.url, status = exchange.status, ?duration, attempts, "fetched");
            }
            FetchOutcome::Failed { kind, detail, .. } => {
                tracing::info!(url = %lease.url.url, kind = kind.as_str(), detail, ?duration, attempts, "failed");
            }
        }
        let after = self.politeness.fetched(place.0, duration, FetchSummary::from(&outcome), attempts, now);
        let not_before = match after.next {
            Next::Retry { not_before } => Some(not_before),
            // The host is left for a later run, and this URL with it.
            Next::HostDead => Some(Time::ZERO),
            Next::Done | Next::GiveUp => None,
        };
        if let Some(not_before) = not_before {
            if after.next == Next::HostDead {
                self.attempts.remove(&place);
            } else {
                self.attempts.insert(place, attempts);
                self.tally.session.retries += 1;
            }
            self.writer.send(Write::Attempt(Box::new(attempted(&lease.url, attempts, &outcome, now))))?;
            let fate = Fate::Back(not_before);
            let _ = self.frontier.release(lease, fate, after.host_until, after.address_until, now);
            self.find_again(place.0, &outcome);
            return Ok(());
        }
        self.attempts.remove(&place);
        let Some(url) = self.frontier.release(lease, Fate::Finished, after.host_until, after.address_until, now) else {
            return Ok(());
        };
        match outcome {
            FetchOutcome::Answered(exchange) => {
                self.frontier.count_page(place.0);
                self.tally.session.pages += 1;
                self.tally.session.body_bytes += exchange.body.len() as u64;
                self.pipeline_bytes += exchange.body.len() as u64;
                self.pages.send(PageJob { url, exchange, attempts, scope: Arc::clone(&self.scope) })
            }
            FetchOutcome::Failed { kind, detail, .. } => {
                self.end_unfetched(url, attempts, Disposition::Failed(kind), detail)
            }
        }
    }

    fn robots_fetched(&mut self, lease: Lease, outcome: &FetchOutcome, too_many_redirects: bool) {
        let now = self.clock.now();
        let host = lease.host();
        let (answer, duration) = match outcome {
            // Half a robots.txt may lack the very rule that matters: it counts as none that came.
            FetchOutcome::Answered(exchange)
                if matches!(exchange.truncated, Some(Truncation::Time | Truncation::Disconnect)) =>
            {
                let answer = RobotsAnswer::Failed(FailureKind::Disconnected);
                (self.politeness.robots_arrived(host, answer, now), exchange.duration)
            }
            FetchOutcome::Answered(exchange) => {
                let body = downloader::decode_body(exchange, 1 << 20).body;
                let state = RobotsAnswer::Answered { status: exchange.status, body: &body };
                (self.politeness.robots_arrived(host, state, now), exchange.duration)
            }
            FetchOutcome::Failed { kind, duration, .. } => {
                (self.politeness.robots_arrived(host, RobotsAnswer::Failed(*kind), now), *duration)
            }
        };
        tracing::info!(host = lease.url.url.origin(), ?answer, too_many_redirects, "robots.txt");
        let after = self.politeness.fetched(host, duration, FetchSummary::from(outcome), 1, now);
        self.tally.session.robots_fetched += 1;
        let _ = self.frontier.release(lease, Fate::Back(Time::ZERO), after.host_until, after.address_until, now);
        self.find_again(host, outcome);
    }

    /// A host whose name led nowhere is looked up again, so that it shares the lease of the address it
    /// may have by then.
    fn find_again(&mut self, host: HostKey, outcome: &FetchOutcome) {
        if let FetchOutcome::Failed { kind: FailureKind::DnsFailed | FailureKind::DnsNotFound, .. } = outcome {
            self.frontier.resolve_again(host);
        }
    }

    fn host_resolved(&mut self, host: HostKey, resolution: crate::fetches::Resolution) {
        let now = self.clock.now();
        // A host without an address is leased all the same: the fetch fails with the resolver's
        // reason, and the table of failures decides about trying again.
        let address = resolution.ok().and_then(|addresses| addresses.first().copied());
        self.frontier.resolved(host, address.filter(|_| self.config.politeness.per_ip), now);
    }

    fn page_finished(&mut self, finished: Finished) -> Result<(), EngineError> {
        let weight = finished.fetch.body_bytes;
        let Finished { url, attempts, disposition, note, fetch, page, candidates, refused, rendered } = finished;
        let offered = (candidates.len() + refused.len()) as u32;
        let (refused, refused_again) = self.note_refusals(refused);
        let Intake { admitted, seen, references } = self.intake(candidates, Some(&url.url))?;
        let done = Done {
            fetch: Some(fetch),
            page,
            offered,
            seen,
            admitted,
            refused,
            refused_again,
            references,
            ..Done::new(url, self.clock.now(), attempts, disposition, note)
        };
        self.record(Record::Done(Box::new(done)), rendered, weight)
    }

    /// A URL's life ends without an answer.
    fn end_unfetched(
        &mut self,
        url: QueuedUrl,
        attempts: u8,
        disposition: Disposition,
        note: String,
    ) -> Result<(), EngineError> {
        if url.hop == HopClass::Seed {
            let what = match disposition {
                Disposition::Answered(status) => format!("status {status}"),
                Disposition::Failed(kind) => kind.as_str().to_owned(),
                Disposition::Refused(reason) => reason.to_string(),
            };
            self.tally.warn(format!("the seed {} was not fetched: {what} ({note})", url.url));
        }
        let done = Done::new(url, self.clock.now(), attempts, disposition, note);
        self.record(Record::Done(Box::new(done)), None, 0)
    }

    /// Counts a record and hands it to the storage thread.
    pub(crate) fn record(
        &mut self,
        record: Record,
        rendered: Option<storage::Rendered>,
        weight: u64,
    ) -> Result<(), EngineError> {
        self.summary.add(self.summary.last, &record);
        self.writer.send(Write::Record { record: Box::new(record), rendered, weight })
    }

    /// When the loop has something to do of its own accord.
    fn next_due(&self) -> Instant {
        let far = Duration::from_hours(1);
        // While leasing is stopped, or there is no room, only an event can change that.
        let wait = if self.stopping.is_some() || !self.has_room() {
            far
        } else {
            let lookups = self.frontier.next_unresolved_due().filter(|_| self.fetches.lookups() < LOOKUPS);
            let due = self.frontier.next_due().into_iter().chain(lookups).min();
            due.map_or(far, |due| due.since(self.clock.now()).min(far))
        };
        Instant::now() + wait
    }
}

/// What the log says of an attempt that will be repeated.
fn attempted(url: &QueuedUrl, attempts: u8, outcome: &FetchOutcome, now: Time) -> Done {
    let (disposition, note) = match outcome {
        FetchOutcome::Answered(exchange) => (Disposition::Answered(exchange.status), "to be tried again".to_owned()),
        FetchOutcome::Failed { kind, detail, .. } => {
            (Disposition::Failed(*kind), format!("to be tried again: {detail}"))
        }
    };
    Done::new(url.clone(), now, attempts, disposition, note)
}
