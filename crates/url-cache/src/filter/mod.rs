//! The filter in front of the exact store.

mod blocked;
mod bloom;
mod counting;
mod cuckoo;
mod hashing;
mod memory;
mod multilayer;
mod none;
mod packed;
mod perfect;
mod sealed;
mod spatial;
mod stable;
mod stages;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod wide;

use std::io::{self, Read, Write};

use model::UrlKey;

pub use self::blocked::BlockedFilter;
pub use self::bloom::{BloomFilter, BloomShape};
pub use self::counting::CountingFilter;
pub use self::cuckoo::CuckooFilter;
pub use self::hashing::{HashKind, Hashing, Positions};
pub use self::multilayer::{LayerShape, MultilayerFilter};
pub use self::none::NoFilter;
pub use self::sealed::StaticFilter;
pub use self::spatial::Spatial;
pub use self::stable::StableFilter;
pub use self::stages::{MakeStage, Stages};
use crate::store::StoreError;

/// One URL asked about. Most filters look at the key alone; one that looks at the URL's segments
/// (Cen et al. 2010, multi-layer) or hashes it in a way of its own reads the text.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The URL's key.
    pub key: UrlKey,
    /// The canonical URL.
    pub url: &'a str,
}

/// What a filter's answers are worth, and what it can do. The gate reads this; it never asks which
/// filter it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nature {
    /// Whether "no" proves that the URL was never marked. It does for Bloom's kind. It does not for
    /// a filter that forgets (stable): the gate then checks every "no" as it checks every "maybe".
    pub no_is_proof: bool,
    /// Whether [`Filter::remove`] works (counting, cuckoo).
    pub removes: bool,
    /// Whether it reads [`Question::url`]. One that does not can be made again from keys alone.
    pub reads_text: bool,
}

/// How full a filter is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fill {
    /// URLs marked, as far as the filter could tell: one that it took for a member when it was
    /// marked by [`Filter::ask_and_mark`] is not counted.
    pub items: u64,
    /// URLs it was made for; 0 where it has no such bound.
    pub capacity: u64,
    /// Share of its bits or slots in use, 0 to 1.
    pub ratio: f64,
    /// The false-positive rate that follows from what is in it now.
    pub predicted_false_positive_rate: f64,
    /// Bytes of memory.
    pub bytes: usize,
    /// Fixed filters one after the other: more than one where it has grown.
    pub stages: u32,
}

/// Every member of the exact set, for a filter that must count anew.
pub trait Members {
    /// Calls `each` with every member, in any order; a member may come twice.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError>;
}

/// A set of URLs that may take a stranger for a member.
///
/// Implementors promise: once it is marked (and until it is removed) a URL is answered "maybe",
/// unless [`Nature::no_is_proof`] is false. They promise nothing about URLs never marked.
///
/// The same configuration and the same calls give the same bits on every machine: what
/// [`Filter::save`] wrote here can be loaded elsewhere.
pub trait Filter: Send + Sync {
    /// What its answers are worth. The same at every call.
    fn nature(&self) -> Nature;

    /// For each question, in order: was it perhaps marked before? `maybe` has the length of
    /// `questions`. Marks nothing.
    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]);

    /// As [`Filter::ask`], and marks those it answers "no". The outcome is that of asking and
    /// marking one question after the other: a URL that stands twice in a batch is "maybe" the
    /// second time.
    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]);

    /// Marks URLs that are no members yet, whatever the filter would say of them. Besides filling a
    /// filter, this is how one that counts (and so can remove) learns that its "maybe" was wrong.
    fn mark(&mut self, questions: &[Question<'_>]);

    /// Takes members out; `members` are those that remain. Only for filters whose nature it is. The
    /// caller knows that they were marked: taking out a stranger may make a filter lose a member.
    ///
    /// # Errors
    /// When the members must be read and cannot be. The filter then still knows all that remain.
    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        let _ = (gone, members);
        Ok(())
    }

    /// How many more URLs it was made for; `u64::MAX` where it has no such bound.
    fn room(&self) -> u64;

    /// How full it is. May take a tenth of a millisecond.
    fn fill(&self) -> Fill;

    /// A copy with the same content, to be saved while the original goes on.
    fn copy(&self) -> Box<dyn Filter>;

    /// Writes its content, numbers little-endian.
    ///
    /// # Errors
    /// When `to` fails.
    fn save(&self, to: &mut dyn Write) -> io::Result<()>;

    /// Replaces its content by what a filter of the same configuration and generation saved.
    ///
    /// # Errors
    /// When `from` fails, or holds something else; the content is then undefined.
    fn load(&mut self, from: &mut dyn Read) -> io::Result<()>;
}

/// Two words folded into one: the halves of their 128-bit product, xored. One multiplication, and
/// every bit of the result depends on every bit of both.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product ^ (product >> 64)) as u64
}

/// Scales a random word to `0..n` (Lemire 2016): no division, and no bias worth naming.
pub(crate) fn scale(word: u64, n: u64) -> u64 {
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// Reads a number that [`Filter::save`] wrote.
pub(crate) fn read_u64(from: &mut dyn Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A saved filter does not fit the one it is loaded into.
pub(crate) fn misfit(what: &str, found: u64, expected: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the saved filter has {found} {what} where {expected} are"))
}

/// Refuses a saved number that is not the expected one.
pub(crate) fn expect_u64(from: &mut dyn Read, what: &str, expected: u64) -> io::Result<()> {
    let found = read_u64(from)?;
    if found == expected { Ok(()) } else { Err(misfit(what, found, expected)) }
}
