//! One host's queue: its head in memory, its tail in the queue table.

use std::collections::{BTreeMap, HashSet};

use model::{QueuedUrl, Rank, Time};

/// The queued URLs of one host, in rank order.
///
/// The invariant: the URLs on disk that memory does not hold are exactly those queued with a rank
/// above `cursor`, and `spilled` is their number. Without a cursor there are none.
#[derive(Debug, Default)]
pub(crate) struct HostQueue {
    head: BTreeMap<Rank, QueuedUrl>,
    /// URLs to be tried again, by the time of that.
    deferred: BTreeMap<(Time, Rank), QueuedUrl>,
    cursor: Option<Rank>,
    spilled: u64,
    /// A refill is under way. Until it arrives nothing is spilled, so that what arrives is all.
    refilling: bool,
    /// Ranks done while a refill is under way: the table may have been read before it knew.
    done_meanwhile: HashSet<Rank>,
}

/// The queue table gave back fewer URLs than it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) u64);

impl HostQueue {
    /// The queue as the table has it: its first URLs, and how many there are in all.
    pub(crate) fn restored(first: Vec<QueuedUrl>, count: u64) -> Self {
        let head: BTreeMap<_, _> = first.into_iter().map(|url| (url.rank, url)).collect();
        let spilled = count.saturating_sub(head.len() as u64);
        let cursor = (spilled > 0).then(|| head.last_key_value().map_or(Rank::default(), |(rank, _)| *rank));
        Self { head, cursor, spilled, ..Self::default() }
    }

    /// Queued URLs, in memory and on disk.
    pub(crate) fn len(&self) -> u64 {
        (self.head.len() + self.deferred.len()) as u64 + self.spilled
    }

    pub(crate) fn push(&mut self, url: QueuedUrl, max_head: usize) {
        if !self.refilling && self.cursor.is_some_and(|cursor| url.rank > cursor) {
            self.spilled += 1;
            return;
        }
        self.head.insert(url.rank, url);
        if !self.refilling && self.head.len() > max_head {
            self.head.pop_last();
            self.spilled += 1;
            self.cursor = self.head.last_key_value().map(|(rank, _)| *rank);
        }
    }

    /// Puts a URL back that was taken, not to be taken again before a time.
    pub(crate) fn put_back(&mut self, url: QueuedUrl, not_before: Time) {
        self.deferred.insert((not_before, url.rank), url);
    }

    /// When there is something to take; `None` when nothing is in memory.
    pub(crate) fn ready_at(&self) -> Option<Time> {
        if self.head.is_empty() {
            self.deferred.first_key_value().map(|((time, _), _)| *time)
        } else {
            Some(Time::ZERO)
        }
    }

    /// The URL of the lowest rank that may be taken now.
    pub(crate) fn take(&mut self, now: Time) -> Option<QueuedUrl> {
        while let Some(entry) = self.deferred.first_entry()
            && entry.key().0 <= now
        {
            let url = entry.remove();
            self.head.insert(url.rank, url);
        }
        self.head.pop_first().map(|(_, url)| url)
    }

    /// The rank after which the table is to be read, when that is due.
    pub(crate) fn refill_due(&self, max_head: usize) -> Option<Rank> {
        self.cursor.filter(|_| !self.refilling && self.head.len() <= max_head / 4)
    }

    pub(crate) fn refill_started(&mut self) {
        self.refilling = true;
    }

    /// A URL that was taken is done.
    pub(crate) fn done(&mut self, rank: Rank) {
        if self.refilling {
            self.done_meanwhile.insert(rank);
        }
    }

    /// What the table holds after the cursor, up to `limit`. `is_out` tells the ranks that are
    /// leased, which the table still holds.
    pub(crate) fn refilled(
        &mut self,
        urls: Vec<QueuedUrl>,
        limit: usize,
        is_out: impl Fn(Rank) -> bool,
    ) -> Result<(), Lost> {
        self.refilling = false;
        let done_meanwhile = std::mem::take(&mut self.done_meanwhile);
        let deferred: HashSet<Rank> = self.deferred.keys().map(|(_, rank)| *rank).collect();
        let more = urls.len() >= limit;
        let last = urls.last().map(|url| url.rank);
        for url in urls {
            let known = is_out(url.rank) || deferred.contains(&url.rank) || done_meanwhile.contains(&url.rank);
            if !known && self.head.insert(url.rank, url).is_none() {
                self.spilled = self.spilled.saturating_sub(1);
            }
        }
        if let Some(last) = last.filter(|_| more) {
            // What came in meanwhile and belongs behind the new cursor is on disk as well.
            while let Some(entry) = self.head.last_entry()
                && *entry.key() > last
            {
                entry.remove();
                self.spilled += 1;
            }
            self.cursor = Some(last);
        } else {
            self.cursor = None;
        }
        if self.spilled == 0 {
            self.cursor = None;
        }
        // Without a cursor everything must be in memory.
        if self.cursor.is_none() && self.spilled > 0 { Err(Lost(self.spilled)) } else { Ok(()) }
    }
}
