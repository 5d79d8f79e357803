//! The filter in front of the exact store.

mod bloom;
mod none;

use model::UrlKey;

pub use self::bloom::BloomFilter;
pub use self::none::NoFilter;

/// One URL asked about. Most filters look at the key alone; one that looks at the URL's segments
/// (Cen et al. 2010, multi-layer) reads the text.
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
    /// a filter that forgets (stable) or that is sealed and takes no marks (static): the gate then
    /// checks every "no" as it checks every "maybe".
    pub no_is_proof: bool,
    /// Whether [`Filter::remove`] works (counting, cuckoo).
    pub removes: bool,
    /// Whether it grows with its load (scalable). One that does not is past its capacity at some time.
    pub grows: bool,
}

/// How full a filter is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Fill {
    /// URLs it was made for; 0 where that has no meaning.
    pub capacity: u64,
    /// Share of its bits or slots in use, 0 to 1.
    pub ratio: f64,
    /// The false-positive rate that follows from `ratio` now.
    pub predicted_false_positive_rate: f64,
    /// Bytes of memory.
    pub bytes: usize,
}

/// A set of URLs that may take a stranger for a member.
///
/// Implementors promise: after [`Filter::ask_and_mark`] (and until it is removed) a URL is answered
/// "maybe", unless [`Nature::no_is_proof`] is false. They promise nothing about URLs never marked.
pub trait Filter: Send {
    /// What its answers are worth. The same at every call.
    fn nature(&self) -> Nature;

    /// For each question, in order: was it perhaps marked before? Then marks it. `maybe` has the
    /// length of `questions`.
    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]);

    /// Takes a marked URL out; whether it could. The caller knows that it was marked: taking out a
    /// stranger may make a filter lose a member.
    fn remove(&mut self, question: Question<'_>) -> bool {
        let _ = question;
        false
    }

    /// How full it is.
    fn fill(&self) -> Fill;
}
