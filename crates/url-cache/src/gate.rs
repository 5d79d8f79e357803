//! The gate: the tiers in their order.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use model::UrlKey;
use serde::{Deserialize, Serialize};

use crate::filter::{Fill, Filter, Question};
use crate::recent::RecentCache;
use crate::store::{SeenStore, StoreError};

/// The answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Never offered before; it is marked now.
    New,
    /// Offered before, as this tier knows.
    Seen(Tier),
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The recent cache.
    Recent,
    /// The set of URLs on their way to the store.
    Pending,
    /// The exact store.
    Store,
}

/// What was asked, and who answered. `asked` is the sum of the five answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Questions.
    pub asked: u64,
    /// Seen, said the recent cache.
    pub recent: u64,
    /// New, said the filter, and its word was proof: no disk was read.
    pub filter_new: u64,
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
        self.recent + self.pending + self.store_seen
    }

    /// Share of new URLs for which the filter said "maybe"; `None` before the first new one.
    pub fn observed_false_positive_rate(&self) -> Option<f64> {
        let new = self.new_urls();
        (new > 0).then(|| self.false_positives as f64 / new as f64)
    }
}

/// The URL-seen test: recent cache, filter, pending set and exact store behind one question.
///
/// The invariant: a URL is answered [`Verdict::New`] exactly once (until it is forgotten). It holds
/// because the recent cache, the pending set and the store compare whole keys; because every new
/// key enters the pending set before the next question is answered, and leaves it only when the
/// store has it; and because a filter's "no" counts only where it is a proof.
///
/// One owner: the engine's loop. The store's writer is another thread; it reports back through
/// [`UrlCache::stored`].
pub struct UrlCache {
    recent: RecentCache,
    filter: Box<dyn Filter>,
    pending: HashSet<UrlKey, BuildHasherDefault<KeyHasher>>,
    store: Box<dyn SeenStore>,
    counts: Counts,
    scratch: Scratch,
}

/// Buffers kept between batches.
#[derive(Default)]
struct Scratch {
    maybe: Vec<bool>,
    /// Keys to look up in the store, with their place in the batch.
    lookups: Vec<(UrlKey, u32)>,
    keys: Vec<UrlKey>,
    found: Vec<bool>,
}

impl UrlCache {
    /// The gate: a filter ([`crate::UrlCacheConfig::build_filter`]) and a recent cache of so many entries
    /// in front of a store. What the store already holds must have been marked in the filter.
    pub fn new(filter: Box<dyn Filter>, recent: usize, store: Box<dyn SeenStore>) -> Self {
        Self {
            recent: RecentCache::new(recent),
            filter,
            pending: HashSet::default(),
            store,
            counts: Counts::default(),
            scratch: Scratch::default(),
        }
    }

    /// Answers every question and marks its URL as seen: `verdicts` is cleared, then has one answer
    /// per question, in order. A URL that stands twice in a batch is new at most once.
    ///
    /// # Errors
    /// When the store cannot be read. The gate has then marked URLs nobody was told of, and must be
    /// made anew from the journal.
    pub fn ask_and_mark(&mut self, questions: &[Question<'_>], verdicts: &mut Vec<Verdict>) -> Result<(), StoreError> {
        verdicts.clear();
        verdicts.resize(questions.len(), Verdict::Seen(Tier::Recent));
        self.counts.asked += questions.len() as u64;

        // The recent cache takes most of the batch away.
        let missed: Vec<(u32, Question<'_>)> = (0..)
            .zip(questions)
            .filter(|(_, question)| !self.recent.touch(question.key.url_hash()))
            .map(|(place, question)| (place, *question))
            .collect();
        self.counts.recent += (questions.len() - missed.len()) as u64;
        if missed.is_empty() {
            return Ok(());
        }

        let asked: Vec<Question<'_>> = missed.iter().map(|(_, question)| *question).collect();
        let Scratch { maybe, lookups, keys, found } = &mut self.scratch;
        maybe.clear();
        maybe.resize(asked.len(), false);
        self.filter.ask_and_mark(&asked, maybe);
        let no_is_proof = self.filter.nature().no_is_proof;

        // The store is asked about the whole batch in key order, before any verdict: what is new in
        // this batch cannot be in the store yet.
        lookups.clear();
        for (index, (question, maybe)) in (0..).zip(asked.iter().zip(&*maybe)) {
            if (*maybe || !no_is_proof) && !self.pending.contains(&question.key) {
                lookups.push((question.key, index));
            }
        }
        lookups.sort_unstable();
        keys.clear();
        keys.extend(lookups.iter().map(|(key, _)| *key));
        self.store.contains(keys, found)?;
        let mut in_store = vec![false; asked.len()];
        for ((_, index), found) in lookups.iter().zip(&*found) {
            in_store[*index as usize] = *found;
        }

        for (index, (place, question)) in missed.iter().enumerate() {
            let (maybe, in_store) = (maybe[index], in_store[index]);
            let verdict = if !maybe && no_is_proof {
                self.pending.insert(question.key);
                self.counts.filter_new += 1;
                Verdict::New
            } else if in_store {
                self.counts.store_seen += 1;
                Verdict::Seen(Tier::Store)
            } else if self.pending.insert(question.key) {
                self.counts.store_new += 1;
                self.counts.false_positives += u64::from(maybe);
                Verdict::New
            } else {
                self.counts.pending += 1;
                Verdict::Seen(Tier::Pending)
            };
            self.counts.false_negatives += u64::from(!maybe && verdict != Verdict::New);
            verdicts[*place as usize] = verdict;
        }
        Ok(())
    }

    /// The writer has put these keys into the store.
    pub fn stored(&mut self, keys: &[UrlKey]) {
        for key in keys {
            self.pending.remove(key);
        }
    }

    /// Forgets a URL: the next time it is asked about, it is new. Whether the filter could take it
    /// out; if not, the next question about it is a "maybe" that the store refutes.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn forget(&mut self, question: Question<'_>) -> Result<bool, StoreError> {
        self.recent.remove(question.key.url_hash());
        self.pending.remove(&question.key);
        self.store.remove(&[question.key])?;
        Ok(self.filter.nature().removes && self.filter.remove(question))
    }

    /// New keys the store does not hold yet. They are memory: the engine leases nothing more while
    /// there are too many.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// What was asked, and who answered.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How full the filter is.
    pub fn fill(&self) -> Fill {
        self.filter.fill()
    }

    /// Bytes of memory: recent cache, filter and pending set.
    pub fn memory_bytes(&self) -> usize {
        self.recent.bytes() + self.filter.fill().bytes + self.pending.capacity() * (UrlKey::LEN + 1)
    }
}

impl std::fmt::Debug for UrlCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UrlCache")
            .field("counts", &self.counts)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}

/// A key is a hash already: its last eight bytes serve.
#[derive(Debug, Default, Clone, Copy)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk::<8>() {
            self.0 ^= u64::from_be_bytes(*last);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
