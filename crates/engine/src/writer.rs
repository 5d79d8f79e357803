//! The storage thread: what is finished becomes durable here, in groups.
//!
//! The order within a group is what makes a crawl survive `kill -9` (see `docs/formats.md`):
//!
//! 1. the WARC bytes are written and synced;
//! 2. the journal's records, which point to them, are written and synced;
//! 3. the loop is told, and the table thread applies the records.
//!
//! Whatever is cut off between two steps is either unknown to the journal, and cut off the WARC
//! file at the next start, or in the journal, and applied to the tables then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frontier::Refill;
use model::Clock;
use storage::{CrawlLog, Done, Journal, Position, Record, Rendered, SegmentWriter, StorageError};
use tokio::sync::mpsc::Sender;
use url_cache::Filter;

use crate::error::EngineError;
use crate::event::{Alarm, Durable, Event};
use crate::tables::TableWork;

/// A group is synced early when it has grown to this many bytes.
const GROUP_BYTES: u64 = 16 << 20;

/// How long a host whose head is nearly used up waits for others: few enough pages are fetched
/// meanwhile, and with many hosts one commit serves all that ask.
const REFILL_WAIT: Duration = Duration::from_millis(5);

/// What the storage thread is told, in order.
pub(crate) enum Write {
    /// Something happened.
    Record {
        record: Box<Record>,
        /// The exchange's records, if it is kept.
        rendered: Option<Rendered>,
        /// Bytes of memory the URL took on its way.
        weight: u64,
    },
    /// An attempt failed and will be repeated: it stands in the log alone.
    Attempt(Box<Done>),
    /// The queue table is to be read, after all that was told before.
    Refill(Refill),
    /// A copy of the filter, which knows what was told before and nothing else.
    Snapshot(Box<dyn Filter>),
}

/// The storage thread and the queue in front of it.
pub(crate) struct Writer {
    sender: Option<SyncSender<Write>>,
    /// Messages in the queue.
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<Result<(), EngineError>>>,
}

/// What the storage thread writes to.
pub(crate) struct Files {
    pub(crate) journal: Journal,
    pub(crate) segments: Option<SegmentWriter>,
    pub(crate) log: CrawlLog,
    pub(crate) sync_interval: Duration,
}

impl Writer {
    /// Starts the thread. `capacity` messages can wait: as many as can be under way.
    pub(crate) fn start(
        files: Files,
        clock: Clock,
        capacity: usize,
        events: Sender<Event>,
        tables: SyncSender<TableWork>,
    ) -> Result<Self, EngineError> {
        let (sender, receiver) = sync_channel(capacity);
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("storage".to_owned())
            .spawn(move || {
                let alarm = Alarm::new("storage", events.clone());
                let mut worker = Worker {
                    files,
                    clock,
                    events,
                    tables,
                    waiting: taken,
                    refills: Vec::new(),
                    group: Vec::new(),
                    group_bytes: 0,
                };
                worker.run(&receiver)?;
                worker.finish()?;
                alarm.disarm();
                Ok(())
            })
            .map_err(|source| EngineError::System { what: "the storage thread", source })?;
        Ok(Self { sender: Some(sender), waiting, thread: Some(thread) })
    }

    /// Messages the thread has not taken yet. The loop leases nothing more while there are many.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Hands something over. The queue holds everything that can be under way, so it is never full.
    pub(crate) fn send(&self, write: Write) -> Result<(), EngineError> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let died = EngineError::ThreadDied { thread: "storage" };
        match self.sender.as_ref().map(|sender| sender.try_send(write)) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(EngineError::Accounts("more is under way than can be".to_owned())),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(died),
        }
    }

    /// Makes everything durable, completes the WARC file and ends the thread.
    pub(crate) fn stop(&mut self) -> Result<(), EngineError> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) | None => Err(EngineError::ThreadDied { thread: "storage" }),
        }
    }
}

struct Worker {
    files: Files,
    clock: Clock,
    events: Sender<Event>,
    tables: SyncSender<TableWork>,
    waiting: Arc<AtomicUsize>,
    /// Wanted after the next commit.
    refills: Vec<Refill>,
    group: Vec<(Box<Record>, u64)>,
    group_bytes: u64,
}

impl Worker {
    fn run(&mut self, receiver: &Receiver<Write>) -> Result<(), EngineError> {
        let mut deadline: Option<Instant> = None;
        loop {
            let received = match deadline {
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(deadline) => receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            };
            if received.is_ok() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            match received {
                Ok(Write::Record { record, rendered, weight }) => {
                    self.take(record, rendered, weight)?;
                    deadline.get_or_insert_with(|| Instant::now() + self.files.sync_interval);
                }
                Ok(Write::Attempt(attempt)) => self.files.log.append(&attempt)?,
                Ok(Write::Refill(refill)) => {
                    self.refills.push(refill);
                    let soon = Instant::now() + REFILL_WAIT.min(self.files.sync_interval);
                    deadline = Some(deadline.map_or(soon, |deadline| deadline.min(soon)));
                }
                Ok(Write::Snapshot(filter)) => {
                    // What the copy knows must be durable before the copy is.
                    self.commit()?;
                    deadline = None;
                    self.to_tables(TableWork::Snapshot(filter, self.files.journal.end()))?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.commit(),
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) || self.group_bytes >= GROUP_BYTES {
                self.commit()?;
                deadline = None;
            }
        }
    }

    /// Writes the exchange at once, and keeps the record until the group is synced.
    fn take(&mut self, mut record: Box<Record>, rendered: Option<Rendered>, weight: u64) -> Result<(), StorageError> {
        if let (Record::Done(done), Some(rendered), Some(segments)) = (&mut *record, rendered, &mut self.files.segments)
        {
            let capture = segments.append(&rendered, self.clock.now())?;
            self.group_bytes += rendered.bytes.len() as u64;
            if let Some(fetch) = &mut done.fetch {
                fetch.capture = Some(capture);
            }
        }
        self.group.push((record, weight));
        Ok(())
    }

    /// Makes the group durable, in the order this module opens with.
    fn commit(&mut self) -> Result<(), EngineError> {
        self.group_bytes = 0;
        if !self.group.is_empty() {
            self.commit_group()?;
        }
        // Tables are read once they know all that was told before, and no sync is made for it.
        for refill in std::mem::take(&mut self.refills) {
            self.to_tables(TableWork::Refill(refill))?;
        }
        Ok(())
    }

    fn commit_group(&mut self) -> Result<(), EngineError> {
        if let Some(segments) = &mut self.files.segments {
            segments.sync()?;
        }
        let mut applied: Vec<(Position, Record)> = Vec::with_capacity(self.group.len());
        let mut durable = Vec::with_capacity(self.group.len());
        for (mut record, weight) in self.group.drain(..) {
            let position = append(&mut self.files.journal, &mut record)?;
            if let Record::Done(done) = &*record {
                let capture = done.fetch.as_ref().and_then(|fetch| fetch.capture.as_ref());
                let capture_bytes = capture.map(|capture| capture.end - capture.offset);
                durable.push(Durable { host: done.url.url.host_key(), rank: done.url.rank, capture_bytes, weight });
                self.files.log.append(done)?;
            }
            applied.push((position, *record));
        }
        self.files.journal.sync()?;
        if let Some(segments) = &mut self.files.segments {
            segments.settle()?;
        }
        self.files.log.flush()?;
        if self.events.blocking_send(Event::Durable(durable)).is_err() {
            tracing::debug!("the loop has ended");
        }
        self.to_tables(TableWork::Apply(applied, self.files.journal.end()))
    }

    fn to_tables(&self, work: TableWork) -> Result<(), EngineError> {
        self.tables.send(work).map_err(|_| EngineError::ThreadDied { thread: "table" })
    }

    fn finish(self) -> Result<(), EngineError> {
        Ok(self.files.segments.map_or(Ok(()), SegmentWriter::finish)?)
    }
}

/// What strangers write may not stop a job: a page whose record is too large loses what can be missed.
fn append(journal: &mut Journal, record: &mut Record) -> Result<Position, StorageError> {
    match (journal.append(record), record) {
        (Err(StorageError::RecordTooLarge { bytes }), Record::Done(done)) => {
            tracing::warn!(url = %done.url.url, bytes, "a page's record is too large; its fields are left out");
            done.shrink();
            journal.append(&Record::Done(done.clone()))
        }
        (appended, _) => appended,
    }
}

#[cfg(test)]
mod tests {
    use model::{CanonicalUrl, Disposition, HopClass, PageRobots, QueuedUrl, Rank, Reason, Time};
    use storage::{JournalReader, PageFacts, Refused};

    use super::*;

    #[test]
    fn no_page_is_too_large_for_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(dir.path(), |_, _| Ok(())).unwrap();
        let url = CanonicalUrl::parse("http://a.test/").unwrap();
        let url = QueuedUrl { url, rank: Rank::default(), depth: 0, redirects: 0, hop: HopClass::Seed, via: None };
        let mut done = Done::new(url, Time::ZERO, 1, Disposition::Answered(200), String::new());
        let refused = |reason| Refused { reference: String::new(), reason, rule: String::new(), depth: 1 };
        done.refused = vec![refused(Reason::TooDeep), refused(Reason::Excluded), refused(Reason::TooDeep)];
        done.page = Some(PageFacts {
            title: None,
            charset: None,
            canonical: None,
            robots: PageRobots::default(),
            links_found: 3,
            fields: vec![("all".to_owned(), vec!["x".repeat(70 << 20)])],
            complaints: Vec::new(),
        });
        append(&mut journal, &mut Record::Done(Box::new(done))).unwrap();
        journal.sync().unwrap();

        let kept = JournalReader::open(dir.path()).unwrap().next().unwrap().unwrap().1;
        let Record::Done(kept) = kept else { panic!("another record was kept") };
        assert_eq!(kept.page.unwrap().fields, []);
        assert_eq!(kept.refused, []);
        assert_eq!(kept.refused_again, [(Reason::TooDeep, 2), (Reason::Excluded, 1)]);
    }
}
