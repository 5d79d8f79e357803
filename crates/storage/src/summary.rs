//! Everything that can be said of a job in bounded space, folded from its records.

use std::collections::BTreeMap;

use model::{Census, Complaint, Disposition, FailureKind, HopClass, Reason, Time};
use serde::Serialize;

use crate::record::{Done, End, FetchFacts, PageFacts, Position, Record, page_key, queue_key};

/// The sums of a journal. Adding each record once, in order, gives the same from the start of a job
/// as over any number of sessions, so that a resumed crawl goes on counting.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Where the last record begins.
    pub last: Position,
    /// When the first record was written.
    pub began: Option<Time>,
    /// When the last record was written.
    pub latest: Option<Time>,
    /// Processes that worked on the job.
    pub sessions: u32,
    /// The visit under way, from 1.
    pub visit: u32,
    /// Where its first record begins.
    pub visit_began: Position,
    /// Where the visit before began, and how many URLs it admitted; `None` in the first.
    pub visit_before: Option<(Position, u64)>,
    /// How the last session ended; `None` while one runs, or when it was killed.
    pub end: Option<End>,
    /// Seeds offered.
    pub seeds: u64,
    /// Seeds that a server answered in this visit.
    pub seeds_answered: u64,
    /// References offered; `offered = seen + admitted + refused`.
    pub offered: u64,
    /// Those the job knew already.
    pub seen: u64,
    /// Those refused, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Keys of the URLs queued in this visit, as they stand in the URL-seen test's store.
    pub admitted: Census,
    /// References of this visit's pages to URLs the job knew, as far as they are counted one by one.
    pub references: u64,
    /// URLs queued in the visits before.
    pub admitted_before: u64,
    /// URLs that were still queued when the next visit began.
    pub given_up: u64,
    /// Keys of the URLs still queued, as they stand in the table `queue`.
    pub queued: Census,
    /// Ends of URLs, as they stand in the table `pages`.
    pub done: Census,
    /// URLs done, by status of the answer.
    pub answered: BTreeMap<u16, u64>,
    /// URLs done, by kind of failure.
    pub failed: BTreeMap<FailureKind, u64>,
    /// URLs done without a request, by reason.
    pub refused_late: BTreeMap<Reason, u64>,
    /// Pages parsed.
    pub pages: u64,
    /// Links on them, repetitions included.
    pub links_found: u64,
    /// What was odd about them.
    pub complaints: BTreeMap<Complaint, u64>,
    /// Bytes of the bodies as received.
    pub body_bytes: u64,
    /// Exchanges kept.
    pub captures: u64,
    /// Their bytes in the WARC files.
    pub capture_bytes: u64,
    /// Where the last known record of each WARC segment ends, for [`recover_segments`](crate::recover_segments).
    pub segment_ends: BTreeMap<String, u64>,
    /// The number the next admission gets.
    pub next_admission: u64,
}

impl Summary {
    /// Adds a record, which must be the one that follows the last one added.
    pub fn add(&mut self, position: Position, record: &Record) {
        self.last = position;
        self.began.get_or_insert(record.at());
        self.latest = Some(record.at());
        match record {
            Record::SessionStarted { visit, .. } => {
                self.sessions += 1;
                self.visit = *visit;
                self.end = None;
            }
            Record::Seeds { offered, seen, .. } => {
                self.seeds += u64::from(*offered);
                self.offered += u64::from(*offered);
                self.seen += u64::from(*seen);
            }
            Record::Done(done) => self.add_done(done),
            Record::SessionEnded { end, .. } => self.end = Some(end.clone()),
            Record::HostParked { .. } => {}
            Record::VisitStarted { visit, .. } => self.begin_visit(position, *visit),
        }
        for admitted in record.admitted().0 {
            let key = admitted.url.key();
            self.admitted.add(key.as_bytes());
            self.queued.add(&queue_key(key, admitted.rank));
            self.next_admission = self.next_admission.max(admitted.rank.admission() + 1);
        }
        for refused in record.refused() {
            count(&mut self.refused, refused.reason);
        }
    }

    /// References refused, whatever the reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether every reference and every URL is accounted for:
    /// `offered = seen + admitted + refused`, and `admitted = queued + done + given up`, over all visits.
    pub fn balances(&self) -> bool {
        let admitted = self.admitted_ever();
        self.offered == self.seen + admitted + self.refused_total()
            && admitted == self.queued.entries + self.done.entries + self.given_up
    }

    /// URLs queued, over all visits.
    pub fn admitted_ever(&self) -> u64 {
        self.admitted_before + self.admitted.entries
    }

    fn begin_visit(&mut self, position: Position, visit: u32) {
        // Until it ends in order, nobody may take it for finished.
        self.end = None;
        self.visit_before = Some((self.visit_began, self.admitted.entries));
        self.visit_began = position;
        self.visit = visit;
        self.admitted_before += self.admitted.entries;
        self.admitted = Census::default();
        self.references = 0;
        self.seeds_answered = 0;
        self.given_up += self.queued.entries;
        self.queued = Census::default();
    }

    fn add_done(&mut self, done: &Done) {
        let key = done.url.url.key();
        self.queued.remove(&queue_key(key, done.url.rank));
        self.done.add(&page_key(key, done.url.rank));
        self.offered += u64::from(done.offered);
        self.seen += u64::from(done.seen);
        self.references += done.references.len() as u64;
        for (reason, times) in &done.refused_again {
            *self.refused.entry(*reason).or_default() += u64::from(*times);
        }
        match done.disposition {
            Disposition::Answered(status) => {
                count(&mut self.answered, status);
                self.seeds_answered += u64::from(done.url.hop == HopClass::Seed);
            }
            Disposition::Failed(kind) => count(&mut self.failed, kind),
            Disposition::Refused(reason) => count(&mut self.refused_late, reason),
        }
        if let Some(fetch) = &done.fetch {
            self.add_fetch(fetch);
        }
        if let Some(page) = &done.page {
            self.add_page(page);
        }
    }

    fn add_fetch(&mut self, fetch: &FetchFacts) {
        self.body_bytes += fetch.body_bytes;
        if let Some(capture) = &fetch.capture {
            self.captures += 1;
            self.capture_bytes += capture.end.saturating_sub(capture.offset);
            match self.segment_ends.get_mut(&capture.segment) {
                Some(end) => *end = capture.end.max(*end),
                None => _ = self.segment_ends.insert(capture.segment.clone(), capture.end),
            }
        }
    }

    fn add_page(&mut self, page: &PageFacts) {
        self.pages += 1;
        self.links_found += u64::from(page.links_found);
        for complaint in &page.complaints {
            count(&mut self.complaints, *complaint);
        }
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use model::FailureKind;

    use super::*;
    use crate::testing::{self, admitted, done};

    #[test]
    fn every_record_is_summed_up() {
        let mut summary = Summary::default();
        for (position, record) in testing::numbered(&testing::small_crawl()) {
            summary.add(position, &record);
        }
        assert!(summary.balances());
        assert_eq!((summary.sessions, summary.visit, summary.end.clone()), (1, 1, Some(End::Finished)));
        assert_eq!((summary.seeds, summary.seeds_answered), (2, 1));
        assert_eq!((summary.offered, summary.seen, summary.refused_total()), (6, 1, 2));
        assert_eq!((summary.admitted.entries, summary.done.entries, summary.queued), (3, 3, Census::default()));
        assert_eq!(summary.answered, BTreeMap::from([(200, 1)]));
        assert_eq!(summary.failed, BTreeMap::from([(FailureKind::ConnectRefused, 1)]));
        assert_eq!(summary.refused_late, BTreeMap::from([(Reason::RobotsDisallowed, 1)]));
        assert_eq!(summary.refused, BTreeMap::from([(Reason::OutOfScope, 1), (Reason::Malformed, 1)]));
        assert_eq!(summary.segment_ends, BTreeMap::from([(testing::SEGMENT.to_owned(), 900)]));
        assert_eq!((summary.captures, summary.capture_bytes, summary.next_admission), (1, 600, 3));
    }

    #[test]
    fn a_visit_begins_anew_and_gives_up_what_was_queued() {
        let mut summary = Summary::default();
        let mut records = testing::small_crawl();
        // The last URL of the first visit is still queued when the second begins.
        records.retain(|record| !matches!(record, Record::Done(done) if done.attempts == 0));
        records.extend(testing::second_visit());
        for (position, record) in testing::numbered(&records) {
            summary.add(position, &record);
        }
        assert!(summary.balances(), "{summary:?}");
        assert_eq!((summary.visit, summary.sessions), (2, 2));
        assert_eq!(summary.visit_before, Some((Position::START, 3)));
        assert_eq!((summary.admitted.entries, summary.admitted_ever(), summary.given_up), (1, 4, 1));
        assert_eq!((summary.queued, summary.done.entries, summary.references), (Census::default(), 3, 2));
    }

    #[test]
    fn a_url_done_but_never_queued_does_not_balance() {
        let mut summary = Summary::default();
        let stray = done(&admitted("http://a.example/", 0), Disposition::Answered(200));
        summary.add(Position::START, &Record::Done(Box::new(stray)));
        assert!(!summary.balances());
    }
}
