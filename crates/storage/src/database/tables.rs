//! The trees, and how records change them.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use model::{ByteSize, HostKey, QueuedUrl, Rank, UrlKey};

use crate::disk;
use crate::error::{Doing, StorageError};
use crate::record::{Position, Record, page_key, queue_key};
use model::Census;

/// 2 added the admission to the keys of `pages`.
const FORMAT: &[u8] = &[2];

/// The tables of an open database. Lives on the table thread.
pub struct Tables {
    db: sled::Db,
    queue: sled::Tree,
    pages: sled::Tree,
    meta: sled::Tree,
    queue_census: Census,
    pages_census: Census,
    path: PathBuf,
}

/// A host that has queued URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostQueue {
    /// The host.
    pub host: HostKey,
    /// How many URLs it has in the queue.
    pub count: u64,
    /// The first of them, in queue order.
    pub head: Vec<QueuedUrl>,
}

/// Every host that has queued URLs; see [`Tables::host_queues`].
pub struct HostQueues<'a> {
    tables: &'a Tables,
    entries: sled::Iter,
    head: usize,
    /// The entry that showed that its host's predecessor was over.
    next: Option<(sled::IVec, sled::IVec)>,
}

impl Tables {
    pub(super) fn open(path: &Path, cache_capacity: ByteSize) -> Result<(Self, Position), StorageError> {
        let failed = |error: sled::Error| database_error(path, &error);
        let db = sled::Config::new()
            .path(path)
            .cache_capacity(cache_capacity.0)
            // Only this thread of sled's collects its garbage: it must never be turned off.
            .flush_every_ms(Some(500))
            .open()
            .map_err(failed)?;
        let tree = |name: &str| db.open_tree(name).map_err(failed);
        let (queue, pages, meta) = (tree("queue")?, tree("pages")?, tree("meta")?);
        let mut tables = Self {
            queue,
            pages,
            meta,
            db,
            queue_census: Census::default(),
            pages_census: Census::default(),
            path: path.to_owned(),
        };
        let checkpoint = tables.check_format()?;
        tables.queue_census = census_of(&tables.queue).map_err(failed)?;
        tables.pages_census = census_of(&tables.pages).map_err(failed)?;
        Ok((tables, checkpoint))
    }

    fn check_format(&self) -> Result<Position, StorageError> {
        match self.meta.get("format").map_err(|error| self.failed(&error))? {
            Some(found) if found == FORMAT => {}
            Some(found) => return Err(self.unusable(format!("its format is {found:?}, not {FORMAT:?}"))),
            None if self.queue.is_empty() && self.pages.is_empty() => {
                self.meta.insert("format", FORMAT).map_err(|error| self.failed(&error))?;
            }
            None => return Err(self.unusable("it has entries, but no format".to_owned())),
        }
        match self.meta.get("checkpoint").map_err(|error| self.failed(&error))? {
            None => Ok(Position::START),
            Some(bytes) => self.position(&bytes),
        }
    }

    /// Applies records, in the order of the journal, without gaps. Doing so again changes nothing
    /// in the end, provided that everything after them is applied again too: a URL that was admitted
    /// and done comes back with its admission, and leaves again with its end.
    ///
    /// Entries are written one by one in the order of their keys. That is sled's fastest way, and a
    /// `sled::Batch` would pin all of it in memory.
    ///
    /// # Errors
    /// When sled fails.
    pub fn apply(&mut self, records: &[(Position, Record)]) -> Result<(), StorageError> {
        let began = records.iter().rposition(|(_, record)| matches!(record, Record::VisitStarted { .. }));
        if let Some(began) = began {
            // What is queued before it is given up, but its pages are kept.
            let (before, since) = records.split_at(began);
            self.apply(before)?;
            self.queue.clear().map_err(|error| self.failed(&error))?;
            self.queue_census = Census::default();
            return self.apply_to_trees(since);
        }
        self.apply_to_trees(records)
    }

    fn apply_to_trees(&mut self, records: &[(Position, Record)]) -> Result<(), StorageError> {
        let mut queue = BTreeMap::new();
        let mut pages = BTreeMap::new();
        for (position, record) in records {
            if let Record::Done(done) = record {
                let key = done.url.url.key();
                queue.insert(queue_key(key, done.url.rank), None);
                pages.insert(page_key(key, done.url.rank), position.get().to_be_bytes());
            }
            let (admitted, via) = record.admitted();
            for admitted in admitted {
                let key = queue_key(admitted.url.key(), admitted.rank);
                queue.insert(key, Some((admitted, via.clone())));
            }
        }
        for (key, entry) in queue {
            match entry {
                None => {
                    if self.queue.remove(key).map_err(|error| self.failed(&error))?.is_some() {
                        self.queue_census.remove(&key);
                    }
                }
                Some((admitted, via)) => {
                    let value = postcard::to_stdvec(&admitted.queued(via)).expect("a queued URL can be encoded");
                    if self.queue.insert(key, value).map_err(|error| self.failed(&error))?.is_none() {
                        self.queue_census.add(&key);
                    }
                }
            }
        }
        for (key, position) in pages {
            if self.pages.insert(key, &position).map_err(|error| self.failed(&error))?.is_none() {
                self.pages_census.add(&key);
            }
        }
        Ok(())
    }

    /// Makes everything applied durable, and then says so: records before `position` need not be
    /// applied again. What the URL-seen test keeps in the same database is made durable with it.
    ///
    /// # Errors
    /// When sled or the disk fails.
    pub fn checkpoint(&self, position: Position) -> Result<(), StorageError> {
        self.db.flush().map_err(|error| self.failed(&error))?;
        // sled's flush hands the bytes to the system and does not wait for the disk.
        let file = self.path.join("db");
        File::open(&file).and_then(|file| file.sync_all()).doing("sync", &file)?;
        disk::sync_dir(&self.path)?;
        self.meta.insert("checkpoint", &position.get().to_be_bytes()).map_err(|error| self.failed(&error))?;
        Ok(())
    }

    /// Where the record of a URL's last end stands; `None` while it has none.
    ///
    /// # Errors
    /// When sled fails.
    pub fn page_position(&self, key: UrlKey) -> Result<Option<Position>, StorageError> {
        let last = self.pages.scan_prefix(key.as_bytes()).next_back().transpose();
        last.map_err(|error| self.failed(&error))?.map(|(_, bytes)| self.position(&bytes)).transpose()
    }

    /// Up to `limit` of a host's queued URLs in queue order, from the first after `after`.
    ///
    /// # Errors
    /// When sled fails, or an entry cannot be understood.
    pub fn scan_queue(&self, host: HostKey, after: Option<Rank>, limit: usize) -> Result<Vec<QueuedUrl>, StorageError> {
        let key = |rank: [u8; 8]| [host.to_bytes(), rank].concat();
        let from = after.map_or(Bound::Included(key([0; 8])), |rank| Bound::Excluded(key(rank.to_bytes())));
        let entries = self.queue.range((from, Bound::Included(key([0xff; 8])))).take(limit);
        entries
            .map(|entry| entry.map_err(|error| self.failed(&error)).and_then(|(_, value)| self.queued(&value)))
            .collect()
    }

    /// Every host that has queued URLs, with their number and the first `head` of them: what the
    /// frontier loads at the start.
    pub fn host_queues(&self, head: usize) -> HostQueues<'_> {
        HostQueues { tables: self, entries: self.queue.iter(), head, next: None }
    }

    /// How many URLs are queued, to be compared with what the journal says.
    pub fn queue_census(&self) -> Census {
        self.queue_census
    }

    /// How many URLs are done, to be compared with what the journal says.
    pub fn pages_census(&self) -> Census {
        self.pages_census
    }

    /// The database, for the trees of the URL-seen test.
    pub fn db(&self) -> &sled::Db {
        &self.db
    }

    fn queued(&self, value: &[u8]) -> Result<QueuedUrl, StorageError> {
        postcard::from_bytes(value).map_err(|error| self.unusable(format!("a queued URL cannot be read ({error})")))
    }

    fn position(&self, bytes: &[u8]) -> Result<Position, StorageError> {
        let bytes = bytes.try_into().map_err(|_| self.unusable(format!("{bytes:?} is no position")))?;
        Ok(Position::new(u64::from_be_bytes(bytes)))
    }

    fn failed(&self, error: &sled::Error) -> StorageError {
        database_error(&self.path, error)
    }

    fn unusable(&self, detail: String) -> StorageError {
        StorageError::Database { path: self.path.clone(), detail }
    }
}

impl HostQueues<'_> {
    fn next_entry(&mut self) -> Result<Option<(sled::IVec, sled::IVec)>, StorageError> {
        match self.next.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.entries.next().transpose().map_err(|error| self.tables.failed(&error)),
        }
    }

    fn next_host(&mut self) -> Result<Option<HostQueue>, StorageError> {
        let Some(first) = self.next_entry()? else { return Ok(None) };
        let Some(host) = first.0.first_chunk::<8>().copied() else {
            return Err(self.tables.unusable(format!("{:?} is no key of the queue", first.0)));
        };
        let mut queue = HostQueue { host: HostKey::from_bytes(host), count: 0, head: Vec::new() };
        self.next = Some(first);
        while let Some((key, value)) = self.next_entry()? {
            if !key.starts_with(&host) {
                self.next = Some((key, value));
                break;
            }
            queue.count += 1;
            if queue.head.len() < self.head {
                queue.head.push(self.tables.queued(&value)?);
            }
        }
        Ok(Some(queue))
    }
}

impl Iterator for HostQueues<'_> {
    type Item = Result<HostQueue, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_host().transpose()
    }
}

fn census_of(tree: &sled::Tree) -> sled::Result<Census> {
    let mut census = Census::default();
    for key in tree.iter().keys() {
        census.add(&key?);
    }
    Ok(census)
}

fn database_error(path: &Path, error: &sled::Error) -> StorageError {
    StorageError::Database { path: path.to_owned(), detail: error.to_string() }
}
