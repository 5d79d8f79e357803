//! What was fetched, as it was fetched: WARC 1.1 (ISO 28500:2017), one gzip member per record, so
//! that any record can be read by itself from its offset.
//!
//! ```text
//! argiope-20261120182556123-00000.warc.gz[.open]
//! ┌──────────┬──────────┬─────────┬──────────┬─────────┬─
//! │ warcinfo │ response │ request │ response │ request │ …      each box one gzip member
//! └──────────┴──────────┴─────────┴──────────┴─────────┴─
//!            ▲ offset    ▲ offset + length    ▲ end           of a Capture
//! ```
//!
//! [`WarcRenderer`] makes the bytes of an exchange on whatever thread has them; [`SegmentWriter`]
//! puts them in a file, on the storage thread.

mod gzip;
mod recover;
mod render;
mod segment;
#[cfg(test)]
mod tests;

pub use self::recover::{RecoveredSegments, recover_segments};
pub use self::render::{Rendered, WarcRenderer, digest_text, payload_digest};
pub use self::segment::SegmentWriter;
