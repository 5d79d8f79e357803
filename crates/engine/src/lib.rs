//! The wiring: the only crate that knows all the others.
//!
//! **For:** carrying values between the stages, so that a stage knows only the nouns of `model`.
//! **Principal type:** [`Crawl`]; [`Crawl::run`] is a whole run.
//! **Called by:** the command line, and programs that embed the crawler.
//! **Never:** decides what a stage should decide. It holds no rule of scope, pace or parsing.
//!
//! # The circle
//!
//! ```text
//!  seeds ──► intake ──► url-cache ──► frontier ──lease──► politeness ──► fetches (tasks)
//!              ▲                        ▲ ▲                                 │ outcome
//!              │ links                  │ └── retry ────────────────────────┤
//!              │                        │ durable                           ▼
//!            the loop ◄── storage ◄─────┴───────── the loop ◄──────── pages (parse threads)
//!                         thread ──► table thread
//! ```
//!
//! One task owns the crawl's state and turns a loop over one closed enum of events; there is no
//! lock around that state. Fetches are a bounded set of owned tasks. Parse threads decode, parse,
//! resolve, hash, judge scope and compress. One storage thread makes groups of pages durable, one
//! table thread brings the database after them. Every queue holds as much as can be under way, so
//! the loop never blocks: it stops leasing instead.

mod config;
mod crawl;
mod ending;
mod error;
mod event;
mod exact;
mod fetches;
mod intake;
mod open;
mod pages;
mod report;
mod restore;
mod settings;
mod signals;
mod status;
mod tables;
mod writer;

pub use crate::config::{Config, CrawlConfig, PRODUCT_TOKEN};
pub use crate::crawl::Crawl;
pub use crate::error::EngineError;
pub use crate::intake::parse_seed;
pub use crate::report::{Parked, Report, SeenTest, Session, State};
pub use crate::settings::{Effective, Settings, SettingsError};
pub use crate::status::{UrlState, Why, status, why};
pub use url_cache::{FilterKind, Loss, ShadowReport, Verify};
