//! The table thread: the database follows the journal, in its own time.
//!
//! It is the only writer of sled and of the exact store. The loop reads the store meanwhile; a key that
//! is not there yet is still pending in the gate. It also saves the filter.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frontier::Refill;
use model::UrlKey;
use storage::{JobDir, Position, Record, Tables};
use tokio::sync::mpsc::Sender;
use url_cache::{Filter, SeenStore, snapshot};

use crate::config::Config;
use crate::error::EngineError;
use crate::event::{Alarm, Event};
use crate::exact::{self, Run};

/// A checkpoint costs a flush of the whole database. After a crash, at most what came since the
/// last one is applied again: some ten thousand records a second.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(10);

/// Groups that may wait before the storage thread does.
const QUEUE: usize = 16;

/// What the table thread is told, in order.
pub(crate) enum TableWork {
    /// These records are durable; the journal goes on at this position.
    Apply(Vec<(Position, Record)>, Position),
    /// A host's queue is wanted.
    Refill(Refill),
    /// A copy of the filter, which knows what the journal admitted up to this position.
    Snapshot(Box<dyn Filter>, Position),
}

/// The database's trees, and the exact store of the URL-seen test; `None` where the filter is trusted.
pub(crate) struct Projection {
    pub(crate) tables: Tables,
    pub(crate) seen: Option<Arc<dyn SeenStore>>,
    /// What is on its way into the store. Until it is there, its keys are pending in the gate.
    pub(crate) run: Run,
}

impl Projection {
    /// The store beside the tables.
    pub(crate) fn open(job: &JobDir, config: &Config, tables: Tables) -> Result<Self, EngineError> {
        let seen = exact::open(job, &config.url_cache, &tables, config.storage.cache_capacity.0)?;
        Ok(Self { tables, seen, run: Run::default() })
    }

    /// Applies records to all trees; doing it again changes nothing.
    pub(crate) fn apply(&mut self, records: &[(Position, Record)]) -> Result<(), EngineError> {
        if let Some(seen) = &self.seen {
            for (_, record) in records {
                self.run.take(record, &**seen)?;
            }
        }
        Ok(self.tables.apply(records)?)
    }

    /// Writes what was collected for the store. Returns its keys.
    pub(crate) fn write_run(&mut self) -> Result<Vec<UrlKey>, EngineError> {
        match &self.seen {
            Some(seen) => self.run.write(&**seen),
            None => Ok(Vec::new()),
        }
    }

    /// Makes everything applied durable. What was collected must have been written.
    pub(crate) fn checkpoint(&self, position: Position) -> Result<(), EngineError> {
        if let Some(seen) = &self.seen {
            seen.flush()?;
        }
        Ok(self.tables.checkpoint(position)?)
    }
}

/// The table thread.
pub(crate) struct TableThread {
    thread: Option<JoinHandle<Result<(), EngineError>>>,
}

impl TableThread {
    /// Starts the thread. It ends when the sender is dropped.
    pub(crate) fn start(
        projection: Projection,
        snapshots: Snapshots,
        applied: Position,
        events: Sender<Event>,
    ) -> Result<(Self, SyncSender<TableWork>), EngineError> {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("tables".to_owned())
            .spawn(move || {
                let alarm = Alarm::new("table", events.clone());
                run(projection, &snapshots, applied, &receiver, &events)?;
                alarm.disarm();
                Ok(())
            })
            .map_err(|source| EngineError::System { what: "the table thread", source })?;
        Ok((Self { thread: Some(thread) }, sender))
    }

    /// Waits until everything is applied and the last checkpoint is made.
    pub(crate) fn join(&mut self) -> Result<(), EngineError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            None => Ok(()),
            Some(Err(_)) => Err(EngineError::ThreadDied { thread: "table" }),
        }
    }
}

fn run(
    mut projection: Projection,
    snapshots: &Snapshots,
    mut applied: Position,
    receiver: &Receiver<TableWork>,
    events: &Sender<Event>,
) -> Result<(), EngineError> {
    let tell = |event| {
        if events.blocking_send(event).is_err() {
            tracing::debug!("the loop has ended");
        }
    };
    let mut checkpointed = (applied, Instant::now());
    while let Ok(work) = receiver.recv() {
        match work {
            TableWork::Apply(records, end) => {
                projection.apply(&records)?;
                applied = end;
                if projection.run.is_full() {
                    tell(Event::Stored(projection.write_run()?));
                }
            }
            TableWork::Refill(refill) => {
                let urls = projection.tables.scan_queue(refill.host, Some(refill.after), refill.limit)?;
                tell(Event::Refilled(refill, urls));
            }
            TableWork::Snapshot(filter, position) => {
                snapshots.write(&*filter, position);
                snapshots.under_way.store(false, Ordering::Relaxed);
            }
        }
        if checkpointed.1.elapsed() >= CHECKPOINT_EVERY && checkpointed.0 != applied {
            tell(Event::Stored(projection.write_run()?));
            projection.checkpoint(applied)?;
            checkpointed = (applied, Instant::now());
        }
    }
    if checkpointed.0 != applied {
        tell(Event::Stored(projection.write_run()?));
        projection.checkpoint(applied)?;
    }
    Ok(())
}

/// Where snapshots of the filter go, and what they are called.
pub(crate) struct Snapshots {
    pub(crate) path: PathBuf,
    pub(crate) identity: String,
    /// Whether a copy is on its way to the disk: a second one would only take memory.
    pub(crate) under_way: Arc<AtomicBool>,
}

impl Snapshots {
    /// A crawl does not end for want of a snapshot: the next start makes the filter again.
    fn write(&self, filter: &dyn Filter, position: Position) {
        let started = Instant::now();
        let folder = self.path.parent().map_or(Ok(()), fs::create_dir_all);
        match folder.and_then(|()| snapshot::write(&self.path, &self.identity, position.get(), filter)) {
            Ok(bytes) => tracing::debug!(bytes, elapsed = ?started.elapsed(), "the filter is saved"),
            Err(error) => {
                let path = self.path.display();
                tracing::warn!(%path, %error, "the filter could not be saved; the next start makes it again");
            }
        }
    }
}
