//! The gate against a hash set, with every kind of filter there may be, the worst ones above all.

use std::collections::HashSet;

use model::{CanonicalUrl, Census, UrlKey};
use proptest::prelude::*;
use url_cache::{
    Fill, Filter, FilterKind, Generation, Nature, Question, SeenStore, SledStore, Tier, UrlCache, UrlCacheConfig,
    Verdict,
};

/// Says "maybe" to half of all strangers, and never "no" to a member.
struct Careless(HashSet<UrlKey>);

impl Filter for Careless {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, grows: true }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            *maybe = !self.0.insert(question.key) || question.key.url_hash() % 2 == 0;
        }
    }

    fn remove(&mut self, question: Question<'_>) -> bool {
        self.0.remove(&question.key)
    }

    fn fill(&self) -> Fill {
        Fill::default()
    }
}

/// Answers by the toss of a coin, members and strangers alike, as a filter that forgets may.
struct Forgetful(u64);

impl Filter for Forgetful {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: false, removes: false, grows: false }
    }

    fn ask_and_mark(&mut self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        for maybe in maybe {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *maybe = self.0 >> 63 == 1;
        }
    }

    fn fill(&self) -> Fill {
        Fill::default()
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
    Forget(u16),
    /// The process is killed and starts again: filter, cache and pending set are made from what is known.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => proptest::collection::vec(0_u16..200, 0..40).prop_map(Step::Ask),
        2 => Just(Step::Store),
        1 => (0_u16..200).prop_map(Step::Forget),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..30)
}

/// Runs the steps and compares each verdict with a hash set's.
fn check(make: &dyn Fn() -> Box<dyn Filter>, recent: usize, steps: &[Step]) {
    let db = database();
    let store = SledStore::open(&db).expect("the tree opens");
    let mut gate = UrlCache::new(make(), recent, Box::new(store.clone()));
    let mut oracle: HashSet<u16> = HashSet::new();
    let mut unstored: Vec<UrlKey> = Vec::new();
    let mut verdicts = Vec::new();
    for step in steps {
        match step {
            Step::Ask(numbers) => {
                let urls: Vec<_> = numbers.iter().map(|number| url(*number)).collect();
                let questions: Vec<_> = urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect();
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
            Step::Forget(number) => {
                let url = url(*number);
                if oracle.remove(number) {
                    gate.forget(Question { key: url.key(), url: url.as_str() }).expect("the store is written");
                    unstored.retain(|key| *key != url.key());
                }
            }
            Step::Restart => {
                // The journal knows every URL; the engine stores what the tables lack before it asks.
                store.insert(&unstored).expect("the store is written");
                unstored.clear();
                let urls: Vec<_> = oracle.iter().map(|number| url(*number)).collect();
                let known: Vec<_> = urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect();
                let mut filter = make();
                filter.ask_and_mark(&known, &mut vec![false; known.len()]);
                gate = UrlCache::new(filter, recent, Box::new(store.clone()));
            }
        }
        let counts = gate.counts();
        assert_eq!(counts.asked, counts.new_urls() + counts.seen());
    }
    store.insert(&unstored).expect("the store is written");
    let mut expected = Census::default();
    for number in &oracle {
        expected.add(url(*number).key().as_bytes());
    }
    assert_eq!(store.census().expect("the store is read"), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn exact_with_a_bloom_filter_far_too_small(steps in steps(), recent in prop_oneof![Just(0_usize), Just(16), Just(1024)]) {
        let config = UrlCacheConfig { capacity: 4, false_positive_rate: 0.5, ..UrlCacheConfig::default() };
        check(&|| config.build_filter(Generation::of_visit(0)), recent, &steps);
    }

    #[test]
    fn exact_without_a_filter(steps in steps(), recent in prop_oneof![Just(0_usize), Just(16)]) {
        let config = UrlCacheConfig { filter: FilterKind::None, ..UrlCacheConfig::default() };
        check(&|| config.build_filter(Generation::of_visit(0)), recent, &steps);
    }

    #[test]
    fn exact_with_a_careless_filter_that_removes(steps in steps(), recent in prop_oneof![Just(0_usize), Just(16)]) {
        check(&|| Box::new(Careless(HashSet::new())), recent, &steps);
    }

    #[test]
    fn exact_with_a_filter_that_forgets(steps in steps(), recent in prop_oneof![Just(0_usize), Just(16)]) {
        check(&|| Box::new(Forgetful(1)), recent, &steps);
    }
}

/// A good filter's "no" is answered without the store: the store here would panic if it were read.
#[test]
fn a_no_reads_no_disk() {
    struct Unreadable;
    impl SeenStore for Unreadable {
        fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), url_cache::StoreError> {
            assert!(keys.is_empty(), "the store was asked about {keys:?}");
            found.clear();
            Ok(())
        }
        fn insert(&self, _: &[UrlKey]) -> Result<(), url_cache::StoreError> {
            Ok(())
        }
        fn remove(&self, _: &[UrlKey]) -> Result<(), url_cache::StoreError> {
            Ok(())
        }
        fn census(&self) -> Result<Census, url_cache::StoreError> {
            Ok(Census::default())
        }
    }
    let config = UrlCacheConfig { capacity: 100_000, false_positive_rate: 1e-9, ..UrlCacheConfig::default() };
    let mut gate = UrlCache::new(config.build_filter(Generation::of_visit(0)), config.recent, Box::new(Unreadable));
    let urls: Vec<_> = (0..1000).map(url).collect();
    let questions: Vec<_> = urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect();
    let mut verdicts = Vec::new();
    gate.ask_and_mark(&questions, &mut verdicts).expect("nothing is read");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::New));
    gate.ask_and_mark(&questions, &mut verdicts).expect("nothing is read");
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Seen(Tier::Recent)));
    let counts = gate.counts();
    assert_eq!((counts.asked, counts.filter_new, counts.recent), (2000, 1000, 1000));
}
