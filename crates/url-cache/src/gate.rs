//! The gate: the tiers in their order.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use model::UrlKey;

use crate::counts::{Counts, Tier, Verdict};
use crate::filter::{Fill, Filter, Members, Question};
use crate::loss::{Loss, LossEstimate};
use crate::recent::RecentCache;
use crate::shadow::{Shadow, ShadowReport};
use crate::store::{SeenStore, StoreError};

/// Questions whose places in the recent cache are requested before the first is looked at.
const AHEAD: usize = 32;

/// URLs let through between two looks at how full a trusted filter is.
const LOOK_EVERY: u64 = 256;

/// Whose word is final.
pub enum Judge {
    /// The exact store's: `verify = "exact"`. No URL is ever taken for another.
    Store(Arc<dyn SeenStore>),
    /// The filter's own: `verify = "trust"`. URLs it takes for members are lost, and it is reckoned how many.
    Filter,
}

/// The URL-seen test: recent cache, filter, pending set and exact store behind one question.
///
/// With [`Judge::Store`] a URL is answered [`Verdict::New`] exactly once (until it is forgotten). That
/// holds because the recent cache, the pending set and the store compare whole keys; because every new
/// key enters the pending set before the next question is answered, and leaves it only when the
/// writer says that the store holds it ([`UrlCache::stored`]); and because the filter is believed
/// only when it says "no" and its nature makes that a proof.
pub struct UrlCache {
    recent: RecentCache,
    filter: Box<dyn Filter>,
    pending: Pending,
    judge: Judge,
    shadows: Vec<Shadow>,
    counts: Counts,
    loss: LossEstimate,
    /// The share of strangers a trusted filter takes for members, as of the last look.
    trusted_rate: f64,
    since_look: u64,
    scratch: Scratch,
}

type Pending = HashSet<UrlKey, BuildHasherDefault<KeyHasher>>;

/// Buffers kept between batches.
#[derive(Default)]
struct Scratch {
    maybe: Vec<bool>,
    /// Keys to look up in the store, with their place in the batch.
    lookups: Vec<(UrlKey, u32)>,
    keys: Vec<UrlKey>,
    found: Vec<bool>,
    in_store: Vec<bool>,
}

impl UrlCache {
    /// The gate: a filter ([`crate::UrlCacheConfig::build_filter`]) and a recent cache of so many entries
    /// in front of the judge. What the crawl knows must have been marked in the filter, and in the
    /// filters of the shadows.
    pub fn new(filter: Box<dyn Filter>, recent: usize, judge: Judge, shadows: Vec<Shadow>) -> Self {
        let trusted_rate = filter.fill().predicted_false_positive_rate;
        Self {
            recent: RecentCache::new(recent),
            filter,
            pending: HashSet::default(),
            judge,
            shadows,
            counts: Counts::default(),
            loss: LossEstimate::default(),
            trusted_rate,
            since_look: 0,
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
        let (mut places, mut asked) = (Vec::new(), Vec::new());
        for (from, ahead) in (0..).step_by(AHEAD).zip(questions.chunks(AHEAD)) {
            for question in ahead {
                self.recent.request(question.key.url_hash());
            }
            for (place, question) in (from..).zip(ahead) {
                if !self.recent.touch(question.key.url_hash()) {
                    places.push(place);
                    asked.push(*question);
                }
            }
        }
        self.counts.recent += (questions.len() - asked.len()) as u64;
        if asked.is_empty() {
            return Ok(());
        }
        self.scratch.maybe.clear();
        self.scratch.maybe.resize(asked.len(), false);
        self.filter.ask_and_mark(&asked, &mut self.scratch.maybe);
        match self.judge {
            Judge::Store(_) => self.verify(&asked, &places, verdicts)?,
            Judge::Filter => self.trust(&asked, &places, verdicts),
        }
        for shadow in &mut self.shadows {
            shadow.follow(&asked, places.iter().map(|place| verdicts[*place]));
        }
        Ok(())
    }

    /// Asks the store wherever the filter's word is no proof.
    fn verify(&mut self, asked: &[Question<'_>], places: &[usize], verdicts: &mut [Verdict]) -> Result<(), StoreError> {
        let Judge::Store(store) = &self.judge else { return Ok(()) };
        let nature = self.filter.nature();
        let Scratch { maybe, lookups, keys, found, in_store } = &mut self.scratch;

        // The store is asked about the whole batch in key order, before any verdict: what is new in
        // this batch cannot be in the store yet.
        lookups.clear();
        for (index, (question, maybe)) in (0..).zip(asked.iter().zip(&*maybe)) {
            if (*maybe || !nature.no_is_proof) && !self.pending.contains(&question.key) {
                lookups.push((question.key, index));
            }
        }
        in_store.clear();
        in_store.resize(asked.len(), false);
        if !lookups.is_empty() {
            lookups.sort_unstable();
            keys.clear();
            keys.extend(lookups.iter().map(|(key, _)| *key));
            store.contains(keys, found)?;
            for ((_, index), found) in lookups.iter().zip(&*found) {
                in_store[*index as usize] = *found;
            }
        }

        for (index, (place, question)) in places.iter().zip(asked).enumerate() {
            let maybe = maybe[index];
            let verdict = if in_store[index] {
                self.counts.store_seen += 1;
                Verdict::Seen(Tier::Store)
            } else if !self.pending.insert(question.key) {
                self.counts.pending += 1;
                Verdict::Seen(Tier::Pending)
            } else if !maybe && nature.no_is_proof {
                self.counts.filter_new += 1;
                Verdict::New
            } else {
                self.counts.store_new += 1;
                self.counts.false_positives += u64::from(maybe);
                if maybe && nature.removes {
                    // It took the URL for another, and did not count it.
                    self.filter.mark(std::slice::from_ref(question));
                }
                Verdict::New
            };
            self.counts.false_negatives += u64::from(!maybe && verdict != Verdict::New);
            verdicts[*place] = verdict;
        }
        Ok(())
    }

    /// Takes the filter's word, and reckons what that costs.
    fn trust(&mut self, asked: &[Question<'_>], places: &[usize], verdicts: &mut [Verdict]) {
        let mut let_through = 0;
        for ((place, question), maybe) in places.iter().zip(asked).zip(&self.scratch.maybe) {
            verdicts[*place] = if *maybe {
                self.counts.filter_seen += 1;
                self.loss.called_known(question);
                Verdict::Seen(Tier::Filter)
            } else {
                self.counts.filter_new += 1;
                let_through += 1;
                Verdict::New
            };
        }
        self.loss.let_through(let_through, self.trusted_rate);
        self.since_look += let_through;
        if self.since_look >= LOOK_EVERY {
            self.since_look = 0;
            self.trusted_rate = self.filter.fill().predicted_false_positive_rate;
        }
    }

    /// The writer has put these keys into the store.
    pub fn stored(&mut self, keys: &[UrlKey]) {
        for key in keys {
            self.pending.remove(key);
        }
    }

    /// Forgets URLs that were admitted: the next time one is asked about, it is new. They leave the
    /// filter too where it can take them out. Where it cannot, the next question about one is a
    /// "maybe" that the store refutes; a filter that is trusted keeps calling it known.
    ///
    /// A URL that is still on its way to the store must be kept from it by the caller, who writes there.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn forget(&mut self, gone: &[Question<'_>]) -> Result<(), StoreError> {
        // One that is named twice was marked once.
        let mut gone = gone.to_vec();
        gone.sort_unstable_by_key(|question| question.key);
        gone.dedup_by_key(|question| question.key);
        let keys: Vec<UrlKey> = gone.iter().map(|question| question.key).collect();
        for key in &keys {
            self.recent.remove(key.url_hash());
            self.pending.remove(key);
        }
        if let Judge::Store(store) = &self.judge {
            store.remove(&keys)?;
            if self.filter.nature().removes {
                self.filter.remove(&gone, &Remaining { store: &**store, pending: &self.pending })?;
            }
        }
        Ok(())
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

    /// A copy of the filter, for its snapshot.
    pub fn copy_filter(&self) -> Box<dyn Filter> {
        self.filter.copy()
    }

    /// What the shadows would have done.
    pub fn shadows(&self) -> Vec<ShadowReport> {
        self.shadows.iter().map(Shadow::report).collect()
    }

    /// URLs that a trusted filter called known, to be looked up among those that were really queued.
    pub fn loss_sample(&self) -> Vec<UrlKey> {
        self.loss.sample()
    }

    /// What a trusted filter lost; `known` answers [`UrlCache::loss_sample`], and is empty as long as
    /// nobody has looked. `None` where the store is the judge, and nothing is lost.
    pub fn loss(&self, known: &[bool]) -> Option<Loss> {
        matches!(self.judge, Judge::Filter).then(|| self.loss.loss(known))
    }

    /// Bytes of memory of the recent cache, the filter and the pending set.
    pub fn memory_bytes(&self) -> usize {
        self.recent.bytes() + self.filter.fill().bytes + self.pending.capacity() * (UrlKey::LEN + 1)
    }
}

/// What is left after URLs were forgotten.
struct Remaining<'a> {
    store: &'a dyn SeenStore,
    pending: &'a Pending,
}

impl Members for Remaining<'_> {
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        self.pending.iter().copied().for_each(&mut *each);
        self.store.scan(each)
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
