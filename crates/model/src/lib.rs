//! The nouns every stage of Argiope speaks.
//!
//! **For:** one meaning per word. A stage knows this crate and no other stage; the engine carries
//! these values between them.
//! **Principal type:** [`CanonicalUrl`], with its [`UrlKey`].
//! **Called by:** every crate of the house.
//! **Never:** does I/O, reads a clock it was not given, or decides anything a stage should decide.
//!
//! # The life of a URL
//!
//! A URL is in exactly one of four states, and each move has one owner:
//!
//! ```text
//!              intake: scope admits it and the
//!              url-cache has not seen it                 frontier: its host's turn has come
//!   unknown ────────────────────────────────► queued ────────────────────────────────► leased
//!                                               ▲                                        │
//!                                               │  frontier: to be tried again           │
//!                                               │  (retry, robots.txt first, back-off)   │
//!                                               └────────────────────────────────────────┤
//!                                                                                        │
//!                                             storage: its record and its out-links      ▼
//!                                             are durable                               done
//! ```
//!
//! | state | who says so | what a `kill -9` makes of it |
//! |---|---|---|
//! | **unknown** | nobody: no table knows it | stays unknown; the page that links to it is not done, so it is offered again |
//! | **queued** | an admission in the journal, durable together with the page that linked to it | stays queued |
//! | **leased** | memory alone: the frontier's lease, then the pipeline until the disk has it | queued again: at most these are fetched twice |
//! | **done** | a disposition in the journal | stays done, with exactly one record |
//!
//! A URL that scope refuses never leaves *unknown*: the refusal is counted with its [`Reason`] and
//! kept for `argiope why`. A URL that robots.txt refuses was queued; it becomes *done* with that
//! reason. One whose host cannot be fetched from now stays *queued*, for a later run. So at every
//! moment
//!
//! ```text
//! offered = admitted + refused + seen          admitted = queued + leased + done + given up
//! ```
//!
//! and the engine asserts both when a run ends.

mod census;
mod config;
mod key;
mod link;
mod outcome;
mod page;
mod reason;
mod time;
mod units;
mod url;

pub use crate::census::Census;
pub use crate::config::{ConfigError, Problem};
pub use crate::key::{HostKey, UrlKey};
pub use crate::link::{HopClass, Link, QueuedUrl, Rank};
pub use crate::outcome::{Disposition, Exchange, FailureKind, FetchOutcome, Headers, HttpVersion, Truncation};
pub use crate::page::{Complaint, Page, PageRobots, RefusedLink};
pub use crate::reason::{Reason, Refusal};
pub use crate::time::{Clock, Time};
pub use crate::units::{ByteSize, Span, UnitError};
pub use crate::url::{CanonicalUrl, UrlError};
