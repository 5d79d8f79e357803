//! Opening a job: from whatever a crash left to a state the crawl can go on from.
//!
//! 1. The lock is taken: one process per job.
//! 2. The journal is read from its start. A torn end is cut off; what stands before it is the truth.
//! 3. WARC segments are cut where the journal's knowledge ends.
//! 4. The database is opened, what it lacks is applied, and every tree is counted against the
//!    journal. One that does not open, or holds less or more, is healed: its snapshot files are
//!    removed, and where that does not serve it is moved aside and rebuilt.
//!
//! Each step can be killed at any point and repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use frontier::{Frontier, Restored};
use model::{CanonicalUrl, Census, Clock, HopClass};
use storage::{
    Database, HostQueue, JobDir, JobLock, Journal, JournalReader, Position, Record, StorageError, Summary,
    recover_segments,
};
use url_cache::{Filter, Generation, Question, SeenStore, SledStore};

use crate::config::Config;
use crate::error::EngineError;
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
    /// The filter, knowing every URL ever admitted.
    pub(crate) filter: Box<dyn Filter>,
    pub(crate) frontier: Frontier,
    /// Seeds so far, to draw the scope around.
    pub(crate) seeds: Vec<CanonicalUrl>,
    /// What was found wrong and healed, in words for the report.
    pub(crate) healed: Vec<String>,
}

/// Opens the job, or makes it.
pub(crate) fn open(job: &JobDir, config: &Config, clock: &Clock) -> Result<Opened, EngineError> {
    let lock = job.lock()?;
    // Before the first seed is durable: a job that is resumed is resumed as it was started.
    if !job.config().is_file() {
        JobDir::replace(&job.config(), config.to_toml()?.as_bytes())?;
    }
    let mut healed = Vec::new();

    let mut summary = Summary::default();
    let mut filter = config.url_cache.build_filter(Generation::of_visit(0));
    let mut seeds = Vec::new();
    let mut frontier = Frontier::new(&config.frontier);
    let (journal, torn) = Journal::open(&job.journal(), |position, record| {
        summary.add(position, &record);
        for admitted in record.admitted().0 {
            let question = Question { key: admitted.url.key(), url: admitted.url.as_str() };
            filter.ask_and_mark(&[question], &mut [false]);
        }
        seeds.extend(seeds_of(&record).cloned());
        if let Record::Done(done) = &record
            && done.fetch.is_some()
        {
            frontier.count_page(done.url.url.host_key());
        }
        Ok(())
    })?;
    if torn > 0 {
        healed.push(format!("{torn} bytes of an unfinished write were cut off the journal's end"));
    }

    let recovered = recover_segments(&job.warc(), &summary.segment_ends)?;
    if recovered.cut_bytes > 0 {
        healed.push(format!("{} bytes the journal does not know were cut off the WARC files", recovered.cut_bytes));
    }

    let (projection, queues) = open_database(job, config, clock, &summary, journal.end(), &mut healed)?;
    frontier.resume_admissions(summary.next_admission);
    for queue in queues {
        frontier.restore(Restored { first: queue.head, count: queue.count }, clock.now());
    }
    Ok(Opened { lock, journal, summary, projection, filter, frontier, seeds, healed })
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
            let urls = summary.admitted.entries;
            healed.push(format!("the database was missing or empty, and was rebuilt from the journal ({urls} URLs)"));
        } else if summary.end.is_some() && opened.checkpoint < end {
            // A session that ends in order leaves the database up to date, unless it is killed at that.
            healed.push("the database was behind the journal, and was brought up to date".to_owned());
        }
        let seen = SledStore::open(opened.tables.db())?;
        let projection = Projection { tables: opened.tables, seen };
        if opened.checkpoint > end {
            return Ok(Err("it is ahead of the journal".to_owned()));
        }
        caught_up(job, config, projection, opened.checkpoint, summary)
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
    let seen = SledStore::open(opened.tables.db())?;
    let projection = Projection { tables: opened.tables, seen };
    let rebuilt = caught_up(job, config, projection, Position::START, summary)?
        .map_err(|detail| EngineError::Unhealable { job: job.root().to_owned(), detail })?;
    rebuilt.0.tables.checkpoint(end)?;
    healed.push(format!(
        "the database was rebuilt from the journal ({} URLs in {:.1} s), because {why}",
        summary.admitted.entries,
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
) -> Result<Result<Checked, String>, EngineError> {
    let mut batch: Vec<(Position, Record)> = Vec::new();
    for entry in JournalReader::open_at(&job.journal(), from)? {
        let (position, record) = entry?;
        let bytes = batch.first().map_or(0, |(first, _)| position.get() - first.get());
        if batch.len() >= CATCH_UP || bytes >= CATCH_UP_BYTES {
            projection.apply(&batch)?;
            batch.clear();
        }
        batch.push((position, record));
    }
    projection.apply(&batch)?;
    let trees = [
        ("URLs seen", projection.seen.census()?, summary.admitted),
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
