//! The table thread: the database follows the journal, in its own time.
//!
//! It is the only writer of sled. The loop reads the URL-seen tree meanwhile; a key that is being
//! written is still pending there.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frontier::Refill;
use model::UrlKey;
use storage::{Position, Record, Tables};
use tokio::sync::mpsc::Sender;
use url_cache::{SeenStore, SledStore};

use crate::error::EngineError;
use crate::event::{Alarm, Event};

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
}

/// The database's trees.
pub(crate) struct Projection {
    pub(crate) tables: Tables,
    pub(crate) seen: SledStore,
}

impl Projection {
    /// Applies records to all trees; doing it again changes nothing.
    pub(crate) fn apply(&mut self, records: &[(Position, Record)]) -> Result<Vec<UrlKey>, EngineError> {
        let mut keys: Vec<UrlKey> =
            records.iter().flat_map(|(_, record)| record.admitted().0).map(|admitted| admitted.url.key()).collect();
        keys.sort_unstable();
        self.seen.insert(&keys)?;
        self.tables.apply(records)?;
        Ok(keys)
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
        applied: Position,
        events: Sender<Event>,
    ) -> Result<(Self, SyncSender<TableWork>), EngineError> {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("tables".to_owned())
            .spawn(move || {
                let alarm = Alarm::new("table", events.clone());
                run(projection, applied, &receiver, &events)?;
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
    mut applied: Position,
    receiver: &Receiver<TableWork>,
    events: &Sender<Event>,
) -> Result<(), EngineError> {
    let mut checkpointed = (applied, Instant::now());
    while let Ok(work) = receiver.recv() {
        let event = match work {
            TableWork::Apply(records, end) => {
                let keys = projection.apply(&records)?;
                applied = end;
                Event::Stored(keys)
            }
            TableWork::Refill(refill) => {
                let urls = projection.tables.scan_queue(refill.host, Some(refill.after), refill.limit)?;
                Event::Refilled(refill, urls)
            }
        };
        if events.blocking_send(event).is_err() {
            tracing::debug!("the loop has ended");
        }
        if checkpointed.1.elapsed() >= CHECKPOINT_EVERY && checkpointed.0 != applied {
            projection.tables.checkpoint(applied)?;
            checkpointed = (applied, Instant::now());
        }
    }
    if checkpointed.0 != applied {
        projection.tables.checkpoint(applied)?;
    }
    Ok(())
}
