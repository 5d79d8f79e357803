//! The database: a projection of the journal that answers questions about one URL or one host
//! without reading it all. It may be deleted at any time.
//!
//! sled 0.34 opens some damaged files without a word and panics on others, so nothing here is
//! believed: what it holds is counted at every start and compared with what the journal says.
//!
//! ```text
//! tree      key                              value
//! queue     host key 8 B ‖ rank 8 B          QueuedUrl, postcard
//! pages     URL key 24 B ‖ admission 8 B     position of its Done record, u64
//! meta      "format"                         version byte
//!           "checkpoint"                     position up to which records were applied, u64
//! ```
//!
//! Numbers are big-endian. The URL-seen test keeps trees of its own in the same database.

mod open;
mod tables;
#[cfg(test)]
mod tests;

pub use self::open::{Database, Opened};
pub use self::tables::{HostQueue, HostQueues, Tables};
