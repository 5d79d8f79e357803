//! Have we seen this URL? One atomic question, asked in batches.
//!
//! **For:** telling the new links of a page from the ones the crawl already knows, fast where it
//! can be and never wrong where it matters.
//! **Principal type:** [`UrlCache`], the gate; its one call, [`UrlCache::ask_and_mark`], asks and
//! marks at once, so that two askers can never both be told "new".
//! **Called by:** the engine's intake, with one page's links as one batch; and its table thread,
//! which writes to the [`SeenStore`] what the gate was the first to see.
//! **Never:** fetches, schedules, or decides whether a URL is wanted.
//!
//! # The way of a question
//!
//! ```text
//!  a page's links ──► recent cache ──► filter ──► pending ──► exact store
//!                      │ seen           │ "no": new  │ seen     │ seen
//!                      ▼                ▼            ▼          ▼ not there: new, and the
//!                   most links       no disk read             filter's false positive
//! ```
//!
//! * The **recent cache** ([`RecentCache`]) holds the last and the most repeated URLs. It answers
//!   the navigation links that stand on every page.
//! * The **filter** ([`Filter`]) is the first tier of Bloom's gate (Bloom 1970, "space/time
//!   trade-offs in hash coding with allowable errors"): its "no" is a proof for most filters, and
//!   then no disk is read.
//! * **Pending** are the URLs that are new and on their way to the store.
//! * The **exact store** ([`SeenStore`]; sled) confirms or refutes every "maybe". A URL is taken
//!   for seen only when an exact tier says so, whatever the filter answers.

mod build;
mod config;
mod counts;
mod filter;
mod gate;
mod generation;
mod loss;
mod recent;
mod shadow;
pub mod snapshot;
mod store;

pub use crate::build::Visit;
pub use crate::config::{Capacity, FilterKind, Reseed, StageKind, UrlCacheConfig, Verify, WhenFull};
pub use crate::counts::{Counts, Tier, Verdict};
pub use crate::filter::{
    BlockedFilter, BloomFilter, BloomShape, CountingFilter, CuckooFilter, Fill, Filter, HashKind, Hashing, LayerShape,
    MakeStage, Members, MultilayerFilter, Nature, NoFilter, Positions, Question, Spatial, StableFilter, Stages,
    StaticFilter,
};
pub use crate::gate::{Judge, UrlCache};
pub use crate::generation::Generation;
pub use crate::loss::Loss;
pub use crate::recent::RecentCache;
pub use crate::shadow::{Shadow, ShadowReport};
pub use crate::snapshot::SnapshotError;
pub use crate::store::{
    ENTRY_KEY_LEN, Entry, EntryKey, OrderedMap, PackedStore, RedbMap, RedbStore, SeenStore, Shape, SledMap, SledStore,
    StoreError, StoreKind, Visitor,
};
