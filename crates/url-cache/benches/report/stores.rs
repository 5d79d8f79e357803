//! The stores behind the gate: how each is made, in one place.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use model::UrlKey;
use url_cache::{RedbStore, SeenStore, SledStore};

/// Memory that a store may use for what it has read: what the crawler gives it by default.
const CACHE_BYTES: usize = 16 << 20;

/// Keys in a run, which the writer sorts and inserts at once.
pub(crate) const RUN: usize = 1 << 16;

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The baseline: sled with one entry per URL, asked and written one by one in the stream's order.
    OneByOne,
    /// The crate's store on sled.
    Sled,
    /// A store on redb.
    Redb,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one-by-one",
            Self::Sled => "sled",
            Self::Redb => "redb",
        }
    }
}

/// A store opened for two threads: one asks, the other writes.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn SeenStore>,
    /// Makes durable what was written.
    pub(crate) flush: Box<dyn Fn()>,
}

/// Opens the store of a folder, or makes it.
pub(crate) fn open(kind: Kind, folder: &Path) -> Opened {
    match kind {
        Kind::Sled | Kind::OneByOne => {
            let db = open_sled(folder);
            let store = SledStore::open(&db, false).expect("the tree opens");
            Opened { store: Arc::new(store), flush: flush_sled(db) }
        }
        Kind::Redb => {
            fs::create_dir_all(folder).expect("the folder can be made");
            let store = RedbStore::open(&folder.join("seen.redb"), CACHE_BYTES, false).expect("the file opens");
            let flush = store.clone();
            let flush = Box::new(move || flush.flush().expect("the file can be written"));
            Opened { store: Arc::new(store), flush }
        }
    }
}

pub(crate) fn open_sled(folder: &Path) -> sled::Db {
    sled::Config::new().path(folder).cache_capacity(CACHE_BYTES as u64).open().expect("the database opens")
}

fn flush_sled(db: sled::Db) -> Box<dyn Fn()> {
    Box::new(move || {
        db.flush().expect("the database can be written");
    })
}

/// Puts the known URLs into a new store, as a crawl would have: in sorted runs, or for the baseline one
/// by one.
pub(crate) fn fill(kind: Kind, folder: &Path, known: impl Iterator<Item = UrlKey>) {
    if kind == Kind::OneByOne {
        let db = open_sled(folder);
        for key in known {
            db.insert(key.as_bytes(), &[]).expect("the database can be written");
        }
        flush_sled(db)();
        return;
    }
    let Opened { store, flush } = open(kind, folder);
    let mut known = known.peekable();
    while known.peek().is_some() {
        let mut run: Vec<UrlKey> = known.by_ref().take(RUN).collect();
        run.sort_unstable();
        store.insert(&run).expect("the store can be written");
    }
    flush();
}

/// Copies a folder and what is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.metadata()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
