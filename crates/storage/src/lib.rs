//! What is kept of a crawl, and where it resumes.
//!
//! **For:** one job's folder: the journal, the sled tables, the WARC files and what is derived from
//! them.
//! **Principal type:** [`Journal`], a sequence of [`Record`]s.
//! **Called by:** the engine's storage thread, which writes; the command line, which reads
//! ([`JournalReader`]), also while a crawl runs.
//! **Never:** knows the network or another stage, runs on an async thread, or reads a clock: time
//! comes in as an argument.
//!
//! # The journal is the truth
//!
//! Everything the job knows stands in the journal, to which records are only added. A page is one
//! record, with the links it admitted, so no crash can keep the one and lose the other. All else is
//! a projection that can be made again from it: [`Summary`] and [`Tables`] at the start,
//! [`write_index`], [`export_pages`] and [`explain()`] when asked.
//!
//! ```text
//!  parse threads          storage thread                                            when
//!  WarcRenderer ────────► SegmentWriter::append ─► Capture ─┐
//!                                                           ▼
//!                                        Journal::append(Record::Done)
//!                         SegmentWriter::sync       1  the bytes are durable        every
//!                         Journal::sync             2  the record is: URL is done   sync_interval
//!                         SegmentWriter::settle     3  full segments are completed
//!                         CrawlLog::append          4
//!                         Tables::apply             5  lazily, in sorted runs
//!                         Tables::checkpoint           now and then
//! ```
//!
//! The order is what makes a `kill -9` harmless. Bytes without a record are cut off by
//! [`recover_segments`], and the page is fetched again; a record without its bytes cannot be; tables
//! that lag behind are caught up from their checkpoint, and replaced when their [`model::Census`] is not
//! the one the journal gives.
//!
//! # Starting
//!
//! [`JobDir::lock`], [`Database::open`], [`Journal::open`] (feeding each record to [`Summary::add`]
//! and, from the checkpoint on, to [`Tables::apply`]), compare the censuses, [`recover_segments`],
//! [`SegmentWriter::open`]. Where the database does not open, or disagrees: [`Database::discard`],
//! and apply everything a [`JournalReader`] gives.

mod cdxj;
mod config;
mod crawl_log;
mod database;
mod disk;
mod error;
mod explain;
mod export;
mod job;
mod journal;
mod record;
mod stamp;
mod summary;
mod surt;
#[cfg(test)]
mod testing;
mod warc;

pub use crate::cdxj::write_index;
pub use crate::config::{Keep, StorageConfig};
pub use crate::crawl_log::CrawlLog;
pub use crate::database::{Database, HostQueue, HostQueues, Opened, Tables};
pub use crate::error::StorageError;
pub use crate::explain::{Admission, Explanation, Parked, Refusal, explain};
pub use crate::export::export_pages;
pub use crate::job::{JobDir, JobLock};
pub use crate::journal::{Journal, JournalReader};
pub use crate::record::{Admitted, Capture, Done, End, FetchFacts, PageFacts, Position, Record, Refused};
pub use crate::summary::Summary;
pub use crate::warc::{
    RecoveredSegments, Rendered, SegmentWriter, WarcRenderer, digest_text, payload_digest, recover_segments,
};
