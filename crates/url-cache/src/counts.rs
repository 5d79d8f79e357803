//! What the gate answered, and who knew.

use serde::{Deserialize, Serialize};

/// The answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Never offered before; it is marked now.
    New,
    /// Offered before, as this tier says.
    Seen(Tier),
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The recent cache.
    Recent,
    /// The filter alone, which may be wrong: only with `verify = "trust"`.
    Filter,
    /// The set of URLs on their way to the store.
    Pending,
    /// The exact store.
    Store,
}

/// What was asked, and who answered. `asked` is the sum of the six answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Questions.
    pub asked: u64,
    /// Seen, said the recent cache.
    pub recent: u64,
    /// New, said the filter, and no disk was read.
    pub filter_new: u64,
    /// Seen, said the filter, and it was trusted.
    pub filter_seen: u64,
    /// Seen, said the pending set.
    pub pending: u64,
    /// Seen, said the store.
    pub store_seen: u64,
    /// New, said the store.
    pub store_new: u64,
    /// New URLs for which the filter had said "maybe".
    pub false_positives: u64,
    /// Known URLs for which the filter had said "no", which only one that forgets may say.
    pub false_negatives: u64,
}

impl Counts {
    /// New URLs.
    pub fn new_urls(&self) -> u64 {
        self.filter_new + self.store_new
    }

    /// URLs seen before.
    pub fn seen(&self) -> u64 {
        self.recent + self.filter_seen + self.pending + self.store_seen
    }

    /// Share of new URLs for which the filter said "maybe", as the store found out; `None` before the
    /// first new one.
    pub fn observed_false_positive_rate(&self) -> Option<f64> {
        let new = self.new_urls();
        (new > 0).then(|| self.false_positives as f64 / new as f64)
    }
}
