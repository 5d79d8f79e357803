//! A job's folder: where everything is, who may write there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::disk;
use crate::error::{Doing, StorageError};

/// The folder of a job, which need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDir {
    root: PathBuf,
}

/// The right to write to a job's folder. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

impl JobDir {
    /// The job in `root`. Touches nothing.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether a job was ever started here.
    pub fn exists(&self) -> bool {
        self.config().is_file() || self.journal().is_dir()
    }

    /// Creates the folder where it is missing and takes the right to write to it.
    ///
    /// # Errors
    /// When another process has it, or the disk fails.
    pub fn lock(&self) -> Result<JobLock, StorageError> {
        disk::create_dir(&self.root)?;
        let path = self.lock_file();
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).doing("open", &path)?;
        // `is_running` holds the lock for microseconds: not every refusal means a running job.
        for _ in 0..5 {
            match file.try_lock() {
                Ok(()) => return Ok(JobLock { _file: file }),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(20)),
                Err(TryLockError::Error(source)) => return Err(source).doing("lock", &path),
            }
        }
        Err(StorageError::AlreadyRunning { path: self.root.clone() })
    }

    /// Whether a process is working on the job.
    ///
    /// # Errors
    /// When the lock file is there but cannot be asked.
    pub fn is_running(&self) -> Result<bool, StorageError> {
        let path = self.lock_file();
        if !path.exists() {
            return Ok(false);
        }
        let file = File::open(&path).doing("open", &path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(source)) => Err(source).doing("lock", &path),
        }
    }

    /// Replaces a small file as one step: whoever reads it finds the old text or the new one.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn replace(path: &Path, contents: &[u8]) -> Result<(), StorageError> {
        disk::replace_file(path, |out| out.write_all(contents).doing("write", path))
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `job.toml`: the effective configuration the job was started with.
    pub fn config(&self) -> PathBuf {
        self.root.join("job.toml")
    }

    /// `journal/`: the durable truth.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// `db/`: sled.
    pub fn database(&self) -> PathBuf {
        self.root.join("db")
    }

    /// `filter/seen.filter`: the snapshot of the URL-seen filter.
    pub fn filter(&self) -> PathBuf {
        self.root.join("filter").join("seen.filter")
    }

    /// `warc/`: what was fetched.
    pub fn warc(&self) -> PathBuf {
        self.root.join("warc")
    }

    /// `index.cdxj`: the index of `warc/`.
    pub fn index(&self) -> PathBuf {
        self.root.join("index.cdxj")
    }

    /// `crawl.log`: one line per URL, Heritrix's columns.
    pub fn crawl_log(&self) -> PathBuf {
        self.root.join("crawl.log")
    }

    /// `report.json`: the final report.
    pub fn report(&self) -> PathBuf {
        self.root.join("report.json")
    }

    /// `status.json`: what a running crawl says of itself.
    pub fn status(&self) -> PathBuf {
        self.root.join("status.json")
    }

    fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let job = JobDir::new(dir.path().join("job"));
        assert!(!job.exists());
        assert!(!job.is_running().unwrap());
        let lock = job.lock().unwrap();
        assert!(job.is_running().unwrap());
        assert!(matches!(job.lock(), Err(StorageError::AlreadyRunning { path }) if path == job.root()));
        drop(lock);
        assert!(!job.is_running().unwrap());
        drop(job.lock().unwrap());
    }

    #[test]
    fn a_small_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let job = JobDir::new(dir.path());
        for text in ["[crawl]\nuser_agent = \"a\"\n", "[crawl]\n"] {
            JobDir::replace(&job.config(), text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(job.config()).unwrap(), text);
        }
        assert!(job.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }
}
