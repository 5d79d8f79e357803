//! Everything that can wake the loop, in one place.

use frontier::{Lease, Refill};
use model::{HostKey, QueuedUrl, Rank, UrlKey};
use tokio::sync::mpsc::Sender;

use crate::fetches::{Outcome, Resolution};
use crate::pages::Finished;

/// What woke the loop.
pub(crate) enum Event {
    /// A fetch ended, well or not. Its lease comes back with it.
    Fetched(Lease, Outcome),
    /// A host was looked up.
    Resolved(HostKey, Resolution),
    /// A page came from the parse threads.
    Finished(Box<Finished>),
    /// Records are durable.
    Durable(Vec<Durable>),
    /// The exact store has these keys.
    Stored(Vec<UrlKey>),
    /// The queue table was read.
    Refilled(Refill, Vec<QueuedUrl>),
    /// A thread ended before its time: the disk is wrong, or we are. It says which when it is joined.
    Broken(&'static str),
    /// Somebody wants us to stop.
    Interrupted,
    /// A host's time has come.
    Due,
    /// The figures are to be published, and limits looked at.
    Tick,
}

/// A URL whose record is durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Durable {
    pub(crate) host: HostKey,
    pub(crate) rank: Rank,
    /// Bytes of its records in the WARC file, if it was kept.
    pub(crate) capture_bytes: Option<u64>,
    /// Bytes of memory that its way through the pipeline had taken.
    pub(crate) weight: u64,
}

/// Held by a thread while it works: the loop hears of its end, be it an error or a panic.
pub(crate) struct Alarm {
    thread: &'static str,
    events: Sender<Event>,
    armed: bool,
}

impl Alarm {
    pub(crate) fn new(thread: &'static str, events: Sender<Event>) -> Self {
        Self { thread, events, armed: true }
    }

    /// The thread ends as it should.
    pub(crate) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.armed {
            // The queue has room for the end of every thread; if nobody listens, nobody minds.
            let _ = self.events.try_send(Event::Broken(self.thread));
        }
    }
}
