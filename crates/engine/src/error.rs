//! What stops a crawl.

use std::path::PathBuf;

/// Why a crawl could not go on. What was durable stays; starting the job again goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] crate::settings::SettingsError),
    /// The disk, or what is on it.
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
    /// The URL-seen table.
    #[error(transparent)]
    UrlCache(#[from] url_cache::StoreError),
    /// The queue table.
    #[error(transparent)]
    Frontier(#[from] frontier::FrontierError),
    /// The HTTP client could not be made.
    #[error("the downloader could not be set up: {0}")]
    Downloader(#[from] downloader::DownloaderError),
    /// The system gave no thread, no event loop or no signal handler.
    #[error("the system refused {what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The figures of the moment could not be written.
    #[error("could not write {}: {source}", path.display())]
    Status {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the job could not be removed.
    #[error("could not {doing} {}: {source}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The next visit was asked for, and this one is not over.
    #[error(
        "visit {visit} of the job in {0} is not finished: `argiope crawl --job {0}` goes on with it", job.display()
    )]
    VisitUnfinished {
        /// The job's folder.
        job: PathBuf,
        /// The visit under way.
        visit: u32,
    },
    /// No job was ever started there.
    #[error("there is no job in {0}: start one with `argiope crawl URL --job {0}`", job.display())]
    NoJob {
        /// The folder.
        job: PathBuf,
    },
    /// A job without a single seed.
    #[error("the job in {} has no seeds: name at least one URL, or a file of URLs by --seeds", job.display())]
    NoSeeds {
        /// The job's folder.
        job: PathBuf,
    },
    /// The database, rebuilt from the journal, still does not hold what the journal says.
    #[error("the database of {} does not hold what its journal says, even rebuilt: {detail}", job.display())]
    Unhealable {
        /// The job's folder.
        job: PathBuf,
        /// What differs.
        detail: String,
    },
    /// One of our threads ended before its time.
    #[error("the {thread} thread ended unexpectedly; this is a fault of argiope. Start the job again to go on")]
    ThreadDied {
        /// Which.
        thread: &'static str,
    },
    /// Numbers that must agree do not.
    #[error("the crawl's accounts do not balance, which is a fault of argiope: {0}")]
    Accounts(String),
}
