//! Opening a job: from whatever a crash left to a state the crawl can go on from.
//!
//! 1. The lock is taken: one process per job.
//! 2. The journal is read from its start. A torn end is cut off; what stands before it is the truth.
//! 3. WARC segments are cut where the journal's knowledge ends.
//! 4. The database is opened, what it lacks is applied, and every tree is counted against the
//!    journal. One that does not open, or holds less or more, is healed: its snapshot files are
//!    removed, and where that does not serve it is moved aside and rebuilt. The exact store of the
//!    URL-seen test is filled anew where only it differs.
//! 5. If the pages are to be visited anew, that is recorded.
//! 6. The filter is loaded from its snapshot, or made again from the journal.
//!
//! Each step can be killed at any point and repeated.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use frontier::Frontier;
use model::{CanonicalUrl, Census, Clock, HopClass};
use storage::{
    Database, End, HostQueue, JobDir, JobLock, Journal, JournalReader, Position, Record, StorageError, Summary,
    recover_segments,
};

use crate::config::Config;
use crate::error::EngineError;
use crate::exact;
use crate::restore::{self, Restored};
use crate::tables::Projection;

/// Records applied to the tables at once when they catch up: enough to sort well.
const CATCH_UP: usize = 20_000;

/// The same in bytes of the journal, for pages with many links.
const CATCH_UP_BYTES: u64 = 16 << 20;

/// Queued URLs of a host read at the start; the frontier asks for more when the host's turn comes.
const FIRST_HEAD: usize = 4;

/// An opened job.
pub(crate) struct Opened {
    pub(crate) lock: JobLock,
    pub(crate) journal: Journal,
    pub(crate) summary: Summary,
    pub(crate) projection: Projection,
    /// The filter and its shadows, knowing every URL this visit admitted.
    pub(crate) filter: Restored,
    pub(crate) frontier: Frontier,
    /// Seeds so far, to draw the scope around.
    pub(crate) seeds: Vec<CanonicalUrl>,
    /// Seeds that this visit must be offered before anything else.
    pub(crate) offer: Vec<String>,
    /// What was found wrong and healed, in words for the report.
    pub(crate) healed: Vec<String>,
}

/// Opens the job, or makes it; `revisit` begins the next visit of one that is finished.
pub(crate) fn open(job: &JobDir, config: &Config, clock: &Clock, revisit: bool) -> Result<Opened, EngineError> {
    let lock = job.lock()?;
    // Before the first seed is durable: a job that is resumed is resumed as it was started.
    if !job.config().is_file() {
        JobDir::replace(&job.config(), config.to_toml()?.as_bytes())?;
    }
    let mut healed = Vec::new();

    let mut summary = Summary::default();
    let mut seeds = Vec::new();
    // The user's seeds of all visits, those of this one, and how many offers there were in it.
    let (mut own_seeds, mut admitted_now, mut offers_now) = (BTreeMap::new(), HashSet::new(), 0);
    let mut frontier = Frontier::new(&config.frontier);
    let (mut journal, torn) = Journal::open(&job.journal(), |position, record| {
        summary.add(position, &record);
        seeds.extend(seeds_of(&record).cloned());
        match &record {
            Record::Seeds { admitted, offered, .. } => {
                own_seeds.extend(admitted.iter().map(|it| (it.url.key(), it.url.clone())));
                admitted_now.extend(admitted.iter().map(|it| it.url.key()));
                offers_now += *offered as usize;
            }
            Record::Done(done) if done.fetch.is_some() => frontier.count_page(done.url.url.host_key()),
            Record::VisitStarted { .. } => {
                frontier = Frontier::new(&config.frontier);
                admitted_now.clear();
                offers_now = 0;
            }
            _ => {}
        }
        Ok(())
    })?;
    if revisit && summary.end != Some(End::Finished) {
        return Err(EngineError::VisitUnfinished { job: job.root().to_owned(), visit: summary.visit.max(1) });
    }
    if torn > 0 {
        healed.push(format!("{torn} bytes of an unfinished write were cut off the journal's end"));
    }

    let recovered = recover_segments(&job.warc(), &summary.segment_ends)?;
    if recovered.cut_bytes > 0 {
        healed.push(format!("{} bytes the journal does not know were cut off the WARC files", recovered.cut_bytes));
    }

    let (mut projection, mut queues) = open_database(job, config, clock, &summary, journal.end(), &mut healed)?;
    if revisit {
        let record = Record::VisitStarted { at: clock.now(), visit: summary.visit + 1 };
        let position = journal.append(&record)?;
        journal.sync()?;
        summary.add(position, &record);
        projection.apply(&[(position, record)])?;
        projection.checkpoint(journal.end())?;
        (frontier, queues) = (Frontier::new(&config.frontier), Vec::new());
        (admitted_now, offers_now) = (HashSet::new(), 0);
    }
    // A visit begins with the seeds of those before. One that was killed before all were durable is
    // offered the rest.
    let offer = if summary.visit > 1 && offers_now < own_seeds.len() {
        let missing = own_seeds.iter().filter(|(key, _)| !admitted_now.contains(key));
        missing.map(|(_, url)| url.as_str().to_owned()).collect()
    } else {
        Vec::new()
    };

    let mut filter = restore::restore(job, &config.url_cache, &summary, journal.end())?;
    healed.extend(filter.healed.take());
    frontier.resume_admissions(summary.next_admission);
    for queue in queues {
        frontier.restore(frontier::Restored { first: queue.head, count: queue.count }, clock.now());
    }
    Ok(Opened { lock, journal, summary, projection, filter, frontier, seeds, offer, healed })
}

/// The seeds a record admits: the user's, and what a redirected one led to.
pub(crate) fn seeds_of(record: &Record) -> impl Iterator<Item = &CanonicalUrl> {
    record.admitted().0.iter().filter(|admitted| admitted.hop == HopClass::Seed).map(|admitted| &admitted.url)
}

/// A database that holds exactly what the journal says, and the hosts' queues read from it.
type Checked = (Projection, Vec<HostQueue>);

/// Opens the database, and makes it what the journal says.
fn open_database(
    job: &JobDir,
    config: &Config,
    clock: &Clock,
    summary: &Summary,
    end: Position,
    healed: &mut Vec<String>,
) -> Result<Checked, EngineError> {
    let opened = attempt(|| {
        let opened = Database::open(&job.database(), config.storage.cache_capacity)?;
        if opened.healed {
            healed.push("the database opened only after its snapshot files were removed".to_owned());
        }
        if opened.tables.queue_census().entries + opened.tables.pages_census().entries == 0
            && summary.sessions > 0
            && summary.admitted.entries > 0
        {
            let urls = summary.admitted_ever();
            healed.push(format!("the database was missing or empty, and was rebuilt from the journal ({urls} URLs)"));
        } else if summary.end.is_some() && opened.checkpoint < end {
            // A session that ends in order leaves the database up to date, unless it is killed at that.
            healed.push("the database was behind the journal, and was brought up to date".to_owned());
        }
        let projection = Projection::open(job, config, opened.tables)?;
        if opened.checkpoint > end {
            return Ok(Err("it is ahead of the journal".to_owned()));
        }
        caught_up(job, config, projection, opened.checkpoint, summary, healed)
    });
    let why = match opened {
        Ok(Ok(checked)) => return Ok(checked),
        Ok(Err(difference)) => difference,
        Err(error) => error.to_string(),
    };

    let started = Instant::now();
    tracing::warn!(%why, "the database is rebuilt from the journal");
    if job.database().exists() {
        Database::discard(&job.database(), clock.now())?;
    }
    let opened = Database::open(&job.database(), config.storage.cache_capacity)?;
    let projection = Projection::open(job, config, opened.tables)?;
    let rebuilt = caught_up(job, config, projection, Position::START, summary, healed)?
        .map_err(|detail| EngineError::Unhealable { job: job.root().to_owned(), detail })?;
    rebuilt.0.checkpoint(end)?;
    healed.push(format!(
        "the database was rebuilt from the journal ({} URLs in {:.1} s), because {why}",
        summary.admitted_ever(),
        started.elapsed().as_secs_f64()
    ));
    Ok(rebuilt)
}

/// Applies what came after `from`, then counts. `Err` inside says what differs.
fn caught_up(
    job: &JobDir,
    config: &Config,
    mut projection: Projection,
    from: Position,
    summary: &Summary,
    healed: &mut Vec<String>,
) -> Result<Result<Checked, String>, EngineError> {
    let mut batch: Vec<(Position, Record)> = Vec::new();
    for entry in JournalReader::open_at(&job.journal(), from)? {
        let (position, record) = entry?;
        let bytes = batch.first().map_or(0, |(first, _)| position.get() - first.get());
        if batch.len() >= CATCH_UP || bytes >= CATCH_UP_BYTES {
            projection.apply(&batch)?;
            if projection.run.is_full() {
                projection.write_run()?;
            }
            batch.clear();
        }
        batch.push((position, record));
    }
    projection.apply(&batch)?;
    projection.write_run()?;
    let trees = [
        ("queued URLs", projection.tables.queue_census(), summary.queued),
        ("pages", projection.tables.pages_census(), summary.done),
    ];
    for (name, found, expected) in trees {
        if found != expected {
            let Census { entries, .. } = expected;
            return Ok(Err(if found.entries == entries {
                format!("it holds other {name} than the journal says")
            } else {
                format!("it holds {} {name} where the journal says {entries}", found.entries)
            }));
        }
    }
    if let Some(seen) = &projection.seen
        && let Some(settled) = exact::settle(&**seen, job, summary)?
    {
        healed.push(settled);
    }
    // Values are read here too, where one that cannot be read is still healed.
    let head = config.frontier.head.min(FIRST_HEAD);
    let queues = projection.tables.host_queues(head).collect::<Result<_, _>>()?;
    Ok(Ok((projection, queues)))
}

/// Sled panics on some damaged pages, at whatever call reads them.
fn attempt<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(StorageError::Database { path: "db".into(), detail: "sled panicked while reading it".to_owned() }.into())
    })
}
