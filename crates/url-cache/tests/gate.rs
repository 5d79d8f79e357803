//! The gate against a hash set, with every strategy there is and with filters worse than any of them.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::Arc;

use model::{CanonicalUrl, Census, UrlKey};
use proptest::prelude::*;
use url_cache::{
    Capacity, Fill, Filter, FilterKind, HashKind, Judge, Members, Nature, Positions, Question, RedbStore, SeenStore,
    Shadow, SledStore, StoreError, Tier, UrlCache, UrlCacheConfig, Verdict, Verify, Visit, WhenFull,
};

/// Says "maybe" to half of all strangers, and never "no" to a member.
#[derive(Clone)]
struct Careless(HashSet<UrlKey>);

/// Answers by the toss of a coin, members and strangers alike, as a filter that forgets may.
#[derive(Clone)]
struct Forgetful(u64);

impl Filter for Careless {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, reads_text: false }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            *maybe = self.0.contains(&question.key) || question.key.url_hash() % 2 == 0;
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            self.ask(&[*question], std::slice::from_mut(maybe));
            if !*maybe {
                self.0.insert(question.key);
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        for question in questions {
            assert!(self.0.insert(question.key), "a member is marked once");
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], _members: &dyn Members) -> Result<(), StoreError> {
        for question in gone {
            assert!(self.0.remove(&question.key), "only members are taken out");
        }
        Ok(())
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn fill(&self) -> Fill {
        Fill::default()
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }

    fn save(&self, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn load(&mut self, _from: &mut dyn Read) -> io::Result<()> {
        Ok(())
    }
}

impl Filter for Forgetful {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: false, removes: false, reads_text: false }
    }

    fn ask(&self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        maybe.fill(false);
    }

    fn ask_and_mark(&mut self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        for maybe in maybe {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *maybe = self.0 >> 63 == 1;
        }
    }

    fn mark(&mut self, _questions: &[Question<'_>]) {}

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn fill(&self) -> Fill {
        Fill::default()
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }

    fn save(&self, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn load(&mut self, _from: &mut dyn Read) -> io::Result<()> {
        Ok(())
    }
}

fn database() -> sled::Db {
    sled::Config::new().temporary(true).open().expect("a temporary database opens")
}

fn url(number: u16) -> CanonicalUrl {
    CanonicalUrl::parse(&format!("http://h{}.test/{number}", number % 5)).expect("it is a URL")
}

#[derive(Debug, Clone)]
enum Step {
    Ask(Vec<u16>),
    /// The writer catches up.
    Store,
    Forget(Vec<u16>),
    /// The process is killed and starts again: filter, cache and pending set are made from what is
    /// known; the filter from what it saved, or anew.
    Restart(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => proptest::collection::vec(0_u16..200, 0..40).prop_map(Step::Ask),
        2 => Just(Step::Store),
        1 => proptest::collection::vec(0_u16..200, 1..20).prop_map(Step::Forget),
        1 => any::<bool>().prop_map(Step::Restart),
    ];
    proptest::collection::vec(step, 1..30)
}

/// Every strategy, far too small and at a rate of one half: as bad as each can be.
fn strategies() -> Vec<UrlCacheConfig> {
    let bad = |filter| UrlCacheConfig {
        filter,
        capacity: Capacity::Urls(8),
        false_positive_rate: 0.5,
        ..UrlCacheConfig::default()
    };
    let mut strategies = Vec::new();
    for kind in ALL {
        strategies.push(bad(kind));
        strategies.push(UrlCacheConfig { when_full: WhenFull::Keep, ..bad(kind) });
        strategies.push(UrlCacheConfig { filters: 3, ..bad(kind) });
        strategies.push(UrlCacheConfig { capacity: Capacity::Auto, ..bad(kind) });
    }
    for hash in [HashKind::Jenkins, HashKind::Murmur2, HashKind::Md5, HashKind::Sha1] {
        for positions in [Positions::Double, Positions::Salts] {
            strategies.push(UrlCacheConfig { hash, positions, ..bad(FilterKind::Bloom) });
        }
    }
    for kind in [FilterKind::Bloom, FilterKind::Counting, FilterKind::Multilayer] {
        strategies.push(UrlCacheConfig { hashes: 2, bits_per_hash: 0.5, ..bad(kind) });
    }
    strategies
}

const ALL: [FilterKind; 9] = [
    FilterKind::Bloom,
    FilterKind::Blocked,
    FilterKind::Counting,
    FilterKind::Scalable,
    FilterKind::Cuckoo,
    FilterKind::Stable,
    FilterKind::Multilayer,
    FilterKind::Static,
    FilterKind::None,
];

/// URLs of the visit before, for "static": some of those that will be asked about, and strangers.
fn known() -> Vec<u128> {
    (0..300).step_by(3).map(|number| url(number).key().url_hash()).collect()
}

fn build(config: &UrlCacheConfig, known: &[u128]) -> Box<dyn Filter> {
    config.build_filter(&Visit { number: 2, urls_before: known.len() as u64, known })
}

fn questions(urls: &[CanonicalUrl]) -> Vec<Question<'_>> {
    urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect()
}

/// Runs the steps and compares each verdict with a hash set's.
fn check(make: &dyn Fn() -> Box<dyn Filter>, recent: usize, store: &Arc<dyn SeenStore>, steps: &[Step]) {
    store.clear().expect("the store is emptied");
    let judge = || Judge::Store(Arc::clone(store));
    let mut gate = UrlCache::new(make(), recent, judge(), Vec::new());
    let mut oracle: HashSet<u16> = HashSet::new();
    let mut unstored: Vec<UrlKey> = Vec::new();
    let mut verdicts = Vec::new();
    for step in steps {
        match step {
            Step::Ask(numbers) => {
                let urls: Vec<_> = numbers.iter().map(|number| url(*number)).collect();
                let questions = questions(&urls);
                gate.ask_and_mark(&questions, &mut verdicts).expect("the store is read");
                assert_eq!(verdicts.len(), numbers.len());
                for ((number, question), verdict) in numbers.iter().zip(&questions).zip(&verdicts) {
                    let new = oracle.insert(*number);
                    assert_eq!(*verdict == Verdict::New, new, "URL {number} was answered {verdict:?}");
                    if new {
                        unstored.push(question.key);
                    }
                }
            }
            Step::Store => {
                unstored.sort_unstable();
                store.insert(&unstored).expect("the store is written");
                gate.stored(&unstored);
                unstored.clear();
                assert_eq!(gate.pending(), 0);
            }
            Step::Forget(numbers) => {
                let gone: Vec<_> = numbers.iter().filter(|number| oracle.remove(number)).map(|it| url(*it)).collect();
                let gone = questions(&gone);
                gate.forget(&gone).expect("the store is written");
                unstored.retain(|key| !gone.iter().any(|gone| gone.key == *key));
            }
            Step::Restart(saved) => {
                // The journal knows every URL; the engine stores what the tables lack before it asks.
                unstored.sort_unstable();
                store.insert(&unstored).expect("the store is written");
                unstored.clear();
                let mut filter = make();
                if *saved {
                    let mut bytes = Vec::new();
                    gate.copy_filter().save(&mut bytes).expect("memory is written");
                    filter.load(&mut bytes.as_slice()).expect("what was saved is loaded");
                } else {
                    let urls: Vec<_> = oracle.iter().map(|number| url(*number)).collect();
                    filter.mark(&questions(&urls));
                }
                gate = UrlCache::new(filter, recent, judge(), Vec::new());
            }
        }
        let counts = gate.counts();
        assert_eq!(counts.asked, counts.new_urls() + counts.seen());
    }
    unstored.sort_unstable();
    store.insert(&unstored).expect("the store is written");
    let mut expected = Census::default();
    for number in &oracle {
        expected.add(url(*number).key().as_bytes());
    }
    assert_eq!(store.census().expect("the store is read"), expected);
}

fn recent_sizes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0_usize), Just(16), Just(1024)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn exact_with_every_strategy(steps in steps(), recent in recent_sizes()) {
        let (db, known) = (database(), known());
        let store = sled_store(&db);
        for config in strategies() {
            check(&|| build(&config, &known), recent, &store, &steps);
        }
    }

    #[test]
    fn exact_with_filters_worse_than_any(steps in steps(), recent in recent_sizes()) {
        let dir = tempfile::tempdir().expect("a folder for the test");
        let redb = RedbStore::open(&dir.path().join("seen.redb"), 1 << 20, false).expect("a new store opens");
        let (db, redb): (_, Arc<dyn SeenStore>) = (database(), Arc::new(redb));
        for store in [&sled_store(&db), &redb] {
            // One that must be told apart from a saved one is made anew at each restart.
            let steps: Vec<Step> = steps.iter().map(|step| match step {
                Step::Restart(_) => Step::Restart(false),
                other => other.clone(),
            }).collect();
            check(&|| Box::new(Careless(HashSet::new())), recent, store, &steps);
            check(&|| Box::new(Forgetful(1)), recent, store, &steps);
        }
    }

    /// Whatever the strategy, a trusted filter of Bloom's kind never fetches twice, and every URL it
    /// lets through is new.
    #[test]
    fn trusted_filters_never_fetch_twice(steps in steps(), recent in recent_sizes()) {
        let known = known();
        for config in strategies() {
            if matches!(config.filter, FilterKind::Stable | FilterKind::None) {
                continue;
            }
            let config = UrlCacheConfig { verify: Verify::Trust, ..config };
            let mut gate = UrlCache::new(build(&config, &known), recent, Judge::Filter, Vec::new());
            let (mut offered, mut admitted, mut verdicts) = (HashSet::new(), HashSet::new(), Vec::new());
            for step in &steps {
                let Step::Ask(numbers) = step else { continue };
                let urls: Vec<_> = numbers.iter().map(|number| url(*number)).collect();
                gate.ask_and_mark(&questions(&urls), &mut verdicts).expect("nothing is read");
                for (number, verdict) in numbers.iter().zip(&verdicts) {
                    offered.insert(*number);
                    prop_assert!(*verdict != Verdict::New || admitted.insert(*number), "{:?}: {} twice", config.filter, number);
                }
            }
            // Its loss is known exactly here: the sample holds every URL.
            let sample: Vec<bool> = gate.loss_sample().iter().map(|key| admitted.iter().any(|it| url(*it).key() == *key)).collect();
            let loss = gate.loss(&sample).expect("the filter is trusted");
            if recent == 0 {
                prop_assert_eq!(loss.missing, (offered.len() - admitted.len()) as u64, "{:?}", config.filter);
            }
        }
    }
}

fn sled_store(db: &sled::Db) -> Arc<dyn SeenStore> {
    Arc::new(SledStore::open(db, false).expect("the tree opens"))
}

/// A good filter's "no" is answered without the store: the store here would panic if it were read.
#[test]
fn a_no_reads_no_disk() {
    struct Unreadable;
    impl SeenStore for Unreadable {
        fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), StoreError> {
            assert!(keys.is_empty(), "the store was asked about {keys:?}");
            found.clear();
            Ok(())
        }
        fn insert(&self, _: &[UrlKey]) -> Result<(), StoreError> {
            Ok(())
        }
        fn remove(&self, _: &[UrlKey]) -> Result<(), StoreError> {
            Ok(())
        }
        fn clear(&self) -> Result<(), StoreError> {
            Ok(())
        }
        fn scan(&self, _: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }
    let config = UrlCacheConfig { false_positive_rate: 1e-9, ..UrlCacheConfig::default() };
    let judge = Judge::Store(Arc::new(Unreadable));
    let mut gate = UrlCache::new(config.build_filter(&Visit::FIRST), config.recent, judge, Vec::new());
    let urls: Vec<_> = (0..1000).map(url).collect();
    let questions = questions(&urls);
    let mut verdicts = Vec::new();
    gate.ask_and_mark(&questions, &mut verdicts).expect("nothing is read");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::New));
    gate.ask_and_mark(&questions, &mut verdicts).expect("nothing is read");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Seen(Tier::Recent)));
    let counts = gate.counts();
    assert_eq!((counts.asked, counts.filter_new, counts.recent), (2000, 1000, 1000));
}

/// Shadows are asked what the real filter is asked, change nothing, and are counted by the truth.
#[test]
fn shadows_follow_and_decide_nothing() {
    let db = database();
    let config = UrlCacheConfig {
        capacity: Capacity::Urls(100),
        when_full: WhenFull::Keep,
        shadow: vec![FilterKind::Bloom, FilterKind::Cuckoo, FilterKind::Stable],
        ..UrlCacheConfig::default()
    };
    let shadows = config.build_shadows(&Visit::FIRST);
    let shadows = shadows.into_iter().map(|(kind, filter)| Shadow::new(kind, filter)).collect();
    let mut gate = UrlCache::new(config.build_filter(&Visit::FIRST), 0, Judge::Store(sled_store(&db)), shadows);
    let urls: Vec<_> = (0..5000).map(url).collect();
    let mut verdicts = Vec::new();
    for _ in 0..2 {
        for page in urls.chunks(50) {
            gate.ask_and_mark(&questions(page), &mut verdicts).expect("the store is read");
        }
    }
    assert_eq!(gate.counts().new_urls(), 5000, "the store decides");
    let [bloom, cuckoo, stable] = &gate.shadows()[..] else { panic!("three shadows were asked for") };
    for shadow in [bloom, cuckoo, stable] {
        assert_eq!((shadow.asked, shadow.new), (10_000, 5000), "{:?}", shadow.filter);
    }
    assert!(bloom.false_positives > 4000, "made for 100 and given 5000: {bloom:?}");
    assert_eq!((bloom.false_negatives, cuckoo.false_negatives), (0, 0));
    assert!(stable.false_negatives > 1000, "it forgets what came 5000 URLs ago: {stable:?}");
}
