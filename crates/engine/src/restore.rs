//! The filter of a job: loaded from its snapshot, or made again from the journal.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use model::ConfigError;
use storage::{Admitted, JobDir, JournalReader, Position, Summary};
use url_cache::{Filter, FilterKind, Question, Shadow, SnapshotError, UrlCacheConfig, Visit, snapshot};

use crate::error::EngineError;
use crate::settings::SettingsError;

/// URLs marked at once.
const BATCH: usize = 4096;

/// A filter, and the shadows', that know every URL this visit admitted.
pub(crate) struct Restored {
    pub(crate) filter: Box<dyn Filter>,
    pub(crate) shadows: Vec<Shadow>,
    /// What was made again, in words for the report.
    pub(crate) healed: Option<String>,
}

/// Refuses a filter that this machine cannot hold, before anything is touched.
pub(crate) fn check_memory(config: &UrlCacheConfig) -> Result<(), EngineError> {
    let (wanted, there) = (config.filter_bytes(), physical_memory().unwrap_or(u64::MAX));
    if wanted <= there {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut problems = ConfigError::default();
    problems.require(
        false,
        "url_cache.capacity",
        format!("the filter would take {:.0} GiB, and this machine has {:.0}", gib(wanted), gib(there)),
    );
    problems.into_result().map_err(|error| SettingsError::from(error).into())
}

/// Bytes of memory the machine has, from Linux's `/proc`.
fn physical_memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Loads the filter's snapshot and marks what the journal has admitted since; where there is no
/// snapshot that fits, marks everything this visit admitted.
pub(crate) fn restore(
    job: &JobDir,
    config: &UrlCacheConfig,
    summary: &Summary,
    end: Position,
) -> Result<Restored, EngineError> {
    let mut visit = visit_of(summary, &[]);
    let mut filter = config.build_filter(&visit);
    let loaded = if config.filter == FilterKind::None {
        Ok(end)
    } else {
        load(&job.filter(), &config.identity(&visit), &mut *filter, summary.visit_began, end)
    };
    let known = if config.needs_known() && (loaded.is_err() || !config.shadow.is_empty()) {
        hashes_before(job, summary)?
    } else {
        Vec::new()
    };
    visit.known = &known;
    // One that was refused must not be taken for a good one later, when the journal has grown past it.
    if loaded.is_err() && config.filter != FilterKind::None {
        remove(&job.filter())?;
    }
    // What a snapshot was half read into is not used.
    let from = if let Ok(position) = loaded {
        position
    } else {
        filter = config.build_filter(&visit);
        summary.visit_began
    };
    let mut shadows = config.build_shadows(&visit);

    let started = if shadows.is_empty() { from } else { summary.visit_began };
    let (mut marked, mut spent) = (0, Duration::ZERO);
    let mut admitted: Vec<(Position, Admitted)> = Vec::with_capacity(BATCH);
    let mut mark = |admitted: &mut Vec<(Position, Admitted)>| {
        let began = Instant::now();
        let questions: Vec<Question<'_>> =
            admitted.iter().map(|(_, it)| Question { key: it.url.key(), url: it.url.as_str() }).collect();
        let since = admitted.partition_point(|(position, _)| *position < from);
        filter.mark(&questions[since..]);
        spent += began.elapsed();
        marked += (questions.len() - since) as u64;
        for (_, shadow) in &mut shadows {
            shadow.mark(&questions);
        }
        admitted.clear();
    };
    for entry in JournalReader::open_at(&job.journal(), started)? {
        let (position, record) = entry?;
        admitted.extend(record.admitted().0.iter().map(|it| (position, it.clone())));
        if admitted.len() >= BATCH {
            mark(&mut admitted);
        }
    }
    mark(&mut admitted);

    let healed = loaded.err().filter(|_| marked > 0).map(|why| {
        format!(
            "the filter was made again from the journal ({marked} URLs in {:.3} s), because {why}",
            spent.as_secs_f64()
        )
    });
    let shadows = shadows.into_iter().map(|(kind, filter)| Shadow::new(kind, filter)).collect();
    Ok(Restored { filter, shadows, healed })
}

/// The visit under way, and what the one before found.
pub(crate) fn visit_of<'a>(summary: &Summary, known: &'a [u128]) -> Visit<'a> {
    let urls_before = summary.visit_before.map_or(0, |(_, urls)| urls);
    Visit { number: summary.visit.max(1), urls_before, known }
}

fn remove(path: &Path) -> Result<(), EngineError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(EngineError::File { doing: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The journal's position up to which a saved filter knows the visit's URLs; else why it cannot be used.
fn load(
    path: &Path,
    identity: &str,
    filter: &mut dyn Filter,
    visit_began: Position,
    end: Position,
) -> Result<Position, String> {
    match snapshot::load(path, identity, filter) {
        // One of this visit lies behind the visit's first record; the last visit's ends where it begins.
        Ok(position) if position > visit_began.get() && position <= end.get() => Ok(Position::new(position)),
        Ok(position) if position <= visit_began.get() => Err("its snapshot is of the visit before".to_owned()),
        Ok(position) => Err(format!("its snapshot is of position {position}, which the journal does not have")),
        Err(SnapshotError::Identity { .. }) => Err("the strategy has changed since it was saved".to_owned()),
        Err(SnapshotError::Missing { .. }) => Err("it had no snapshot".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Hashes of the keys that the visit before admitted.
fn hashes_before(job: &JobDir, summary: &Summary) -> Result<Vec<u128>, EngineError> {
    let Some((began, urls)) = summary.visit_before else { return Ok(Vec::new()) };
    let mut hashes = Vec::with_capacity(usize::try_from(urls).unwrap_or_default());
    for entry in JournalReader::open_at(&job.journal(), began)? {
        let (position, record) = entry?;
        if position >= summary.visit_began {
            break;
        }
        hashes.extend(record.admitted().0.iter().map(|admitted| admitted.url.key().url_hash()));
    }
    Ok(hashes)
}
