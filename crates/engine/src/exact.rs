//! The exact store of a job: opened, compared with the journal, and filled from it where it differs.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use model::{Census, UrlKey};
use storage::{JobDir, JournalReader, Record, Summary, Tables};
use url_cache::{RedbStore, SeenStore, SledStore, StoreKind, UrlCacheConfig, Verify};

use crate::error::EngineError;

/// Keys written as one run: enough to sort well, and a few megabytes.
const RUN: usize = 1 << 16;

/// Opens the configured store beside the tables, and removes what another strategy has left there.
/// `None` where the filter is trusted.
pub(crate) fn open(
    job: &JobDir,
    config: &UrlCacheConfig,
    tables: &Tables,
    cache_bytes: u64,
) -> Result<Option<Arc<dyn SeenStore>>, EngineError> {
    let wanted = (config.verify == Verify::Exact).then_some(config.store);
    if wanted != Some(StoreKind::Sled) {
        SledStore::discard(tables.db())?;
    }
    let file = redb_file(job);
    if wanted != Some(StoreKind::Redb) && file.exists() {
        let path = file.clone();
        fs::remove_file(&file).map_err(|source| EngineError::File { doing: "remove", path, source })?;
    }
    Ok(match wanted {
        Some(StoreKind::Sled) => Some(Arc::new(SledStore::open(tables.db(), config.count_references)?)),
        Some(StoreKind::Redb) => {
            let cache = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
            Some(Arc::new(RedbStore::open(&file, cache, config.count_references)?))
        }
        None => None,
    })
}

fn redb_file(job: &JobDir) -> PathBuf {
    job.database().join("seen.redb")
}

/// Keys and references on their way into the store, collected until they make a run worth writing.
#[derive(Default)]
pub(crate) struct Run {
    keys: Vec<UrlKey>,
    references: HashMap<UrlKey, u32>,
}

impl Run {
    /// Takes what a record says of this visit's URLs. `store` is emptied where a visit begins.
    pub(crate) fn take(&mut self, record: &Record, store: &dyn SeenStore) -> Result<(), EngineError> {
        if let Record::VisitStarted { .. } = record {
            *self = Self::default();
            store.clear()?;
        }
        self.keys.extend(record.admitted().0.iter().map(|admitted| admitted.url.key()));
        if let Record::Done(done) = record {
            for key in &done.references {
                *self.references.entry(*key).or_default() += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() >= RUN || self.references.len() >= 4 * RUN
    }

    /// Writes what was collected; the keys that the store has now.
    pub(crate) fn write(&mut self, store: &dyn SeenStore) -> Result<Vec<UrlKey>, EngineError> {
        let mut keys = std::mem::take(&mut self.keys);
        keys.sort_unstable();
        if !keys.is_empty() {
            store.insert(&keys)?;
        }
        let mut references: Vec<_> = self.references.drain().collect();
        references.sort_unstable();
        if !references.is_empty() {
            store.add_references(&references)?;
        }
        Ok(keys)
    }
}

/// Compares the store with what the journal says this visit admitted, and fills it anew where it
/// differs: after a strategy was changed, after damage, or where references were counted twice
/// because a crash came between two checkpoints. Says what was done.
pub(crate) fn settle(store: &dyn SeenStore, job: &JobDir, summary: &Summary) -> Result<Option<String>, EngineError> {
    let why = match differs(store, summary) {
        Ok(None) => return Ok(None),
        Ok(Some(difference)) => difference,
        Err(error) => error.to_string(),
    };
    let started = Instant::now();
    store.clear()?;
    let mut run = Run::default();
    for entry in JournalReader::open_at(&job.journal(), summary.visit_began)? {
        let (_, record) = entry?;
        run.take(&record, store)?;
        if run.is_full() {
            run.write(store)?;
        }
    }
    run.write(store)?;
    store.flush()?;
    // A filter that forgets and was trusted admits a URL twice, so fewer can be right here.
    let found = store.census()?.entries;
    if found > summary.admitted.entries || (found == 0 && summary.admitted.entries > 0) {
        let detail = format!("the exact store holds {found} URLs where {} were admitted", summary.admitted.entries);
        return Err(EngineError::Unhealable { job: job.root().to_owned(), detail });
    }
    Ok(Some(format!(
        "the exact store was filled from the journal ({found} URLs in {:.1} s), because {why}",
        started.elapsed().as_secs_f64()
    )))
}

fn differs(store: &dyn SeenStore, summary: &Summary) -> Result<Option<String>, EngineError> {
    let Census { entries, .. } = summary.admitted;
    let found = store.census()?;
    Ok(if found == summary.admitted {
        let (counted, expected) = (store.reference_total()?, entries + summary.references);
        let wrong = store.is_counting() && counted != expected;
        wrong.then(|| format!("it had counted {counted} references where the journal has {expected}"))
    } else if found.entries == 0 {
        Some("it was empty".to_owned())
    } else if found.entries == entries {
        Some("it held other URLs than the journal says".to_owned())
    } else {
        Some(format!("it held {} URLs where the journal says {entries}", found.entries))
    })
}
