//! How a session goes on from tick to tick, and how it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use frontier::Fate;
use model::{Time, UrlKey};
use storage::{End, JournalReader, Record};
use url_cache::{Capacity, FilterKind, Verify};

use crate::crawl::Running;
use crate::error::EngineError;
use crate::report::{Report, State, folder_bytes};
use crate::writer::Write;

/// What was last said of the filter, and saved.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// When a copy was last sent to the disk.
    at: Option<Instant>,
    /// URLs it knew.
    admitted: Option<u64>,
    /// Stages it had.
    stages: u32,
    /// Whether it was said that it holds too many.
    overfull: bool,
    /// Whether a copy has not reached the disk yet.
    pub(crate) under_way: Arc<AtomicBool>,
}

impl Running {
    pub(crate) fn stop(&mut self, end: End) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(end);
        let now = self.clock.now();
        for lease in self.fetches.abort() {
            let _ = self.frontier.release(lease, Fate::Back(Time::ZERO), now, now, now);
        }
    }

    /// The counter that ends a run: nothing leased, so everything is durable; and nothing queued but
    /// URLs of parked hosts, unless the crawl was stopped.
    pub(crate) fn ended(&self) -> Option<End> {
        match &self.stopping {
            Some(end) => (self.frontier.leased() == 0).then(|| end.clone()),
            None if self.frontier.is_finished() => Some(End::Finished),
            None => None,
        }
    }

    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        for host in self.frontier.evict(now) {
            self.politeness.forget(host);
        }
        if let Some(which) = self.limit_reached(now) {
            self.stop(End::Limit { which: which.to_owned() });
        }
        self.warn_of_a_full_filter();
        self.save_filter_when_due();
        self.publish(State::Running);
    }

    /// A trusted filter that forgets lets the same URLs through again.
    pub(crate) fn warn_of_endless_crawls(&mut self) {
        let (test, crawl) = (&self.config.url_cache, &self.config.crawl);
        let unlimited = crawl.max_pages == 0 && crawl.max_bytes.0 == 0 && crawl.max_duration.0.is_zero();
        if test.filter == FilterKind::Stable && test.verify == Verify::Trust && unlimited {
            self.tally.warn(
                "a stable filter forgets, and this one is trusted: pages may be fetched again and again, and only a \
                 limit such as crawl.max_pages is sure to end the crawl"
                    .to_owned(),
            );
        }
    }

    /// A filter that is past what it was made for is no fault, but it is not what was asked for.
    fn warn_of_a_full_filter(&mut self) {
        let (fill, config) = (self.url_cache.fill(), &self.config.url_cache);
        let grew = fill.stages > self.saved.stages;
        self.saved.stages = self.saved.stages.max(fill.stages);
        if config.capacity == Capacity::Auto || config.filter == FilterKind::Scalable || fill.capacity == 0 {
            return;
        }
        let rate = fill.predicted_false_positive_rate * 100.0;
        if grew && fill.stages == 2 {
            self.tally.warn(format!(
                "the URL-seen filter reached its capacity and grows beside itself (url_cache.when_full); it says \"maybe\" to \
                 {rate:.2} % of new URLs now"
            ));
        } else if fill.items > fill.capacity && !self.saved.overfull {
            self.saved.overfull = true;
            self.tally.warn(format!(
                "the URL-seen filter holds more than the {} URLs it was made for and says \"maybe\" to {rate:.2} % of new \
                 URLs now; a larger url_cache.capacity, or when_full = \"grow\", keeps that low",
                fill.capacity
            ));
        }
    }

    fn save_filter_when_due(&mut self) {
        let interval = self.config.url_cache.snapshot_interval.0;
        let due = self.saved.at.is_none_or(|at| at.elapsed() >= interval);
        if self.saved.at.is_none() {
            // The first one after an interval, not at once.
            self.saved.at = Some(Instant::now());
        } else if !interval.is_zero()
            && due
            && self.stopping.is_none()
            && !self.saved.under_way.load(Ordering::Relaxed)
            && let Err(error) = self.save_filter()
        {
            tracing::warn!(%error, "the filter could not be saved");
        }
    }

    /// Sends a copy of the filter on its way to the disk, behind everything it knows.
    fn save_filter(&mut self) -> Result<(), EngineError> {
        let admitted = self.summary.admitted.entries;
        self.saved.at = Some(Instant::now());
        if self.config.url_cache.filter != FilterKind::None && self.saved.admitted != Some(admitted) {
            self.saved.admitted = Some(admitted);
            self.saved.under_way.store(true, Ordering::Relaxed);
            self.writer.send(Write::Snapshot(self.url_cache.copy_filter()))?;
        }
        Ok(())
    }

    /// What a trusted filter lost: its sample is looked up among the URLs that were really admitted.
    fn look_for_lost(&mut self) -> Result<(), EngineError> {
        let sample = self.url_cache.loss_sample();
        if self.config.url_cache.verify == Verify::Exact || sample.is_empty() {
            return Ok(());
        }
        let places: HashMap<UrlKey, usize> = sample.iter().copied().zip(0..).collect();
        self.tally.sample_known = vec![false; sample.len()];
        for entry in JournalReader::open_at(&self.job.journal(), self.summary.visit_began)? {
            for admitted in entry?.1.admitted().0 {
                if let Some(place) = places.get(&admitted.url.key()) {
                    self.tally.sample_known[*place] = true;
                }
            }
        }
        Ok(())
    }

    fn limit_reached(&self, now: Time) -> Option<&'static str> {
        let crawl = &self.config.crawl;
        let session = &self.tally.session;
        let over = |limit: u64, value: u64| limit > 0 && value >= limit;
        [
            ("crawl.max_pages", over(crawl.max_pages, session.pages)),
            ("crawl.max_bytes", over(crawl.max_bytes.0, session.body_bytes)),
            ("crawl.max_duration", !crawl.max_duration.0.is_zero() && self.tally.seconds(now) >= crawl.max_duration.0),
            ("crawl.max_disk", crawl.max_disk.0 > 0 && folder_bytes(self.job.root()) >= crawl.max_disk.0),
        ]
        .into_iter()
        .find_map(|(key, reached)| reached.then_some(key))
    }

    /// Tells the figures to whoever watches, and to `argiope status`.
    fn publish(&mut self, state: State) {
        let report = self.report(state);
        if let Err(error) = report.write_passing(&self.job.status()) {
            // Nobody's crawl ends for want of these figures; if the disk is full, the journal will say so.
            tracing::warn!(%error, "the figures of the moment could not be written");
        }
        (self.watch)(&report);
    }

    /// Makes everything durable, writes what is derived from the journal, and says how it ended.
    pub(crate) fn close(mut self, end: Result<End, EngineError>) -> Result<Report, EngineError> {
        let end = end.and_then(|end| self.balance().map(|()| end));
        let last = end.as_ref().map_or(End::Failed, End::clone);
        let told = self.record(Record::SessionEnded { at: self.clock.now(), end: last }, None, 0);
        // What stopped the crawl matters more than that this could not be told.
        let recorded = end.and_then(|end| told.map(|()| end));
        let saved = if recorded.is_ok() { self.save_filter() } else { Ok(()) };
        let recorded = recorded.and_then(|end| saved.map(|()| end));
        // The threads finish what they have. After an orderly end the queue of events has room for all
        // they may say; after an error nobody listens.
        if recorded.is_err() {
            self.events.close();
        }
        let (pages, writer, tables) = (self.pages.stop(), self.writer.stop(), self.tables.join());
        // A thread that failed knows the cause; those behind it, and the loop, only saw that it was gone.
        tables.and(writer).and(pages)?;
        let end = recorded?;
        while let Ok(event) = self.events.try_recv() {
            self.handle(event)?;
        }
        self.look_for_lost()?;
        storage::write_index(JournalReader::open(&self.job.journal())?, &self.job.index())?;
        let report = self.report(State::of_end(&end));
        report.write(&self.job.status())?;
        report.write(&self.job.report())?;
        (self.watch)(&report);
        Ok(report)
    }
}
