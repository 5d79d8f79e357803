//! A job seen from outside: its figures, and the life of one URL. Nothing here writes, and a crawl
//! may be running meanwhile.

use std::fs;
use std::path::Path;

use model::CanonicalUrl;
use scope::Scope;
use serde::Serialize;
use storage::{Explanation, JobDir, JournalReader, Summary};

use crate::config::Config;
use crate::error::EngineError;
use crate::report::{Report, State};

/// The figures of a job: of the moment while it runs; when it is at rest, from the journal, whatever
/// its last process had time to say.
///
/// # Errors
/// When there is no job, or its journal cannot be read.
pub fn status(job: &Path) -> Result<Report, EngineError> {
    let job = existing(job)?;
    let last: Option<Report> = fs::read(job.status()).ok().and_then(|json| serde_json::from_slice(&json).ok());
    if job.is_running()?
        && let Some(last) = last
    {
        return Ok(last);
    }
    let mut summary = Summary::default();
    for entry in JournalReader::open(&job.journal())? {
        let (position, record) = entry?;
        summary.add(position, &record);
    }
    let state = summary.end.as_ref().map_or(State::Stopped, State::of_end);
    let mut report = Report::from_summary(job.root(), state, &summary);
    if let Some(last) = last {
        report.session = last.session;
        report.seen_test = last.seen_test;
        report.parked = last.parked;
        report.warnings = last.warnings;
    }
    Ok(report)
}

/// In which of the four states of its life a URL is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UrlState {
    /// No page has offered it, or each time it was refused.
    Unknown,
    /// Admitted, and not done: it waits, or is being fetched.
    Queued,
    /// It has an outcome.
    Done,
}

/// Everything known about one URL.
#[derive(Debug, Serialize)]
pub struct Why {
    /// Its canonical form; the text that was asked about where it has none.
    pub url: String,
    /// Its key in the URL-seen test.
    pub key: Option<String>,
    /// Where it is in its life.
    pub state: UrlState,
    /// What scope says of it as a link from a seed; `None` where it would be admitted.
    pub scope: Option<String>,
    /// What the journal has.
    pub journal: Explanation,
}

/// Explains what became of a URL, and why.
///
/// # Errors
/// When there is no job, or its journal cannot be read.
pub fn why(job: &Path, config: &Config, reference: &str) -> Result<Why, EngineError> {
    let job = existing(job)?;
    let url = crate::parse_seed(reference).ok();
    let reference = url.as_ref().map_or(reference, CanonicalUrl::as_str);
    let mut seeds = Vec::new();
    for entry in JournalReader::open(&job.journal())? {
        seeds.extend(crate::open::seeds_of(&entry?.1).cloned());
    }
    let scope = Scope::new(&config.scope, &seeds).map_err(crate::settings::SettingsError::from)?;
    let journal = storage::explain(JournalReader::open(&job.journal())?, reference)?;
    let state = match (journal.admissions.len(), journal.ends.len()) {
        (0, _) => UrlState::Unknown,
        (admitted, done) if done < admitted => UrlState::Queued,
        _ => UrlState::Done,
    };
    Ok(Why {
        key: url.as_ref().map(|url| url.key().to_string()),
        scope: url
            .as_ref()
            .and_then(|url| scope.judge(url, 1).err())
            .map(|refusal| format!("{}: {}", refusal.reason, refusal.rule)),
        url: reference.to_owned(),
        state,
        journal,
    })
}

fn existing(job: &Path) -> Result<JobDir, EngineError> {
    let job = JobDir::new(job);
    if job.exists() { Ok(job) } else { Err(EngineError::NoJob { job: job.root().to_owned() }) }
}
