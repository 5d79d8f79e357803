//! One module per command.

pub(crate) mod config;
pub(crate) mod crawl;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod recrawl;
pub(crate) mod status;
pub(crate) mod why;

use std::path::Path;
use std::process::ExitCode;

use engine::{EngineError, Report, Settings, SettingsError, State};

use crate::args::Layers;

/// How a command ended, as its exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Finished = 0,
    Failed = 1,
    WrongArguments = 2,
    Limit = 3,
    NothingFetched = 4,
    Interrupted = 130,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(ended as u8)
    }
}

impl Ended {
    /// The end a crawl's report tells of.
    pub(crate) fn of_report(report: &Report) -> Self {
        match report.state {
            State::Finished if report.seeds_answered == 0 => Self::NothingFetched,
            State::Finished => Self::Finished,
            State::Limit(_) => Self::Limit,
            State::Interrupted => Self::Interrupted,
            State::Running | State::Failed | State::Stopped => Self::Failed,
        }
    }

    /// What a user typed is told apart from what failed.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        let engine = error.downcast_ref::<EngineError>();
        let wrong = error.is::<SettingsError>()
            || matches!(
                engine,
                Some(
                    EngineError::Settings(_)
                        | EngineError::Downloader(_)
                        | EngineError::NoSeeds { .. }
                        | EngineError::NoJob { .. }
                        | EngineError::VisitUnfinished { .. }
                )
            );
        if wrong { Self::WrongArguments } else { Self::Failed }
    }
}

/// Lays the layers a user gave over `settings`.
pub(crate) fn add_layers(settings: &mut Settings, layers: &Layers) -> Result<(), SettingsError> {
    for file in &layers.config {
        settings.add_file(file)?;
    }
    for assignment in &layers.set {
        settings.add_assignment(assignment)?;
    }
    if layers.allow_private {
        settings.add_assignment("downloader.allow_private_addresses=true")?;
    }
    Ok(())
}

/// The settings a job was started with; none for a new job.
pub(crate) fn job_settings(job: &Path) -> Result<Settings, SettingsError> {
    let mut settings = Settings::default();
    let file = job.join("job.toml");
    if file.is_file() {
        settings.add_file(&file)?;
    }
    Ok(settings)
}
