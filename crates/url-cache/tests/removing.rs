//! The filters that can remove, counting and cuckoo, against a set that forgets nothing by mistake.

use std::collections::BTreeSet;

use model::{HostKey, UrlKey};
use proptest::prelude::*;
use url_cache::{CountingFilter, CuckooFilter, Filter, Generation, Members, Question, StableFilter, StoreError};

fn question(number: u64) -> Question<'static> {
    Question { key: UrlKey::new(HostKey::from_bytes([0; 8]), &number.to_string()), url: "" }
}

fn questions(numbers: impl IntoIterator<Item = u64>) -> Vec<Question<'static>> {
    numbers.into_iter().map(question).collect()
}

fn asked(filter: &dyn Filter, numbers: impl IntoIterator<Item = u64>) -> Vec<bool> {
    let questions = questions(numbers);
    let mut maybe = vec![false; questions.len()];
    filter.ask(&questions, &mut maybe);
    maybe
}

fn saved(filter: &dyn Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.save(&mut bytes).expect("memory can be written");
    bytes
}

fn strangers(n: u64) -> impl Iterator<Item = u64> {
    1 << 40..(1 << 40) + n
}

/// The members, each of which comes twice, as the trait allows.
struct Twice<'a>(&'a BTreeSet<u64>);

impl Members for Twice<'_> {
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        for number in self.0.iter().chain(self.0) {
            each(question(*number).key);
        }
        Ok(())
    }
}

/// A store that fails after it gave some members.
struct Unreadable;

impl Members for Unreadable {
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        each(question(1).key);
        Err(StoreError::Sled { doing: "read", source: sled::Error::Unsupported("the disk is gone".into()) })
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A page's links.
    Ask(Vec<u64>),
    /// URLs that are known to be new.
    Mark(Vec<u64>),
    Remove(Vec<u64>),
    /// The store cannot be read when these are removed.
    FailToRemove(u64),
    /// Saved, and loaded into a new filter.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = || proptest::collection::vec(0_u64..150, 0..80);
    let step = prop_oneof![
        4 => numbers().prop_map(Step::Ask),
        2 => numbers().prop_map(Step::Mark),
        3 => numbers().prop_map(Step::Remove),
        1 => (0_u64..150).prop_map(Step::FailToRemove),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..25)
}

/// Uses a filter as the gate does: strangers it takes for members are marked afterwards.
fn check(make: &dyn Fn() -> Box<dyn Filter>, steps: &[Step], order_matters: bool) {
    let mut filter = make();
    let mut members = BTreeSet::new();
    for step in steps {
        match step {
            Step::Ask(numbers) => {
                let mut alone = filter.copy();
                let questions = questions(numbers.iter().copied());
                let (mut maybe, mut one) = (vec![false; numbers.len()], [false]);
                filter.ask_and_mark(&questions, &mut maybe);
                for (question, maybe) in questions.iter().zip(&maybe) {
                    alone.ask_and_mark(&[*question], &mut one);
                    assert_eq!(one[0], *maybe, "a batch is its questions one after the other");
                }
                assert_eq!(saved(&*alone), saved(&*filter));
                for ((number, question), maybe) in numbers.iter().zip(&questions).zip(&maybe) {
                    let new = members.insert(*number);
                    assert!(new || *maybe, "{number} is a member");
                    if new && *maybe {
                        filter.mark(&[*question]);
                    }
                }
            }
            Step::Mark(numbers) => {
                let new: Vec<u64> = numbers.iter().copied().filter(|number| members.insert(*number)).collect();
                filter.mark(&questions(new));
            }
            Step::Remove(numbers) => {
                let gone: Vec<u64> = numbers.iter().copied().filter(|number| members.remove(number)).collect();
                filter.remove(&questions(gone), &Twice(&members)).expect("the members are read");
            }
            Step::FailToRemove(number) => {
                let before = saved(&*filter);
                if members.contains(number) {
                    match filter.remove(&[question(*number)], &Unreadable) {
                        Ok(()) => drop(members.remove(number)),
                        Err(_) => assert_eq!(saved(&*filter), before, "a failure changes nothing"),
                    }
                }
            }
            Step::Restart => {
                let mut loaded = make();
                loaded.load(&mut saved(&*filter).as_slice()).expect("it was saved by its like");
                assert_eq!((loaded.fill(), saved(&*loaded)), (filter.fill(), saved(&*filter)));
                filter = loaded;
            }
        }
        assert!(asked(&*filter, members.iter().copied()).iter().all(|maybe| *maybe), "every member is found");
        assert_eq!(filter.fill().items, members.len() as u64);
        if !order_matters {
            let mut fresh = make();
            fresh.mark(&questions(members.iter().copied()));
            assert_eq!(saved(&*fresh), saved(&*filter), "it counts the members, whatever has been");
            assert_eq!(fresh.fill(), filter.fill());
        }
    }
    let gone = questions(members);
    filter.remove(&gone, &Twice(&BTreeSet::new())).expect("there are no members to be read");
    assert_eq!(saved(&*filter), saved(&*make()), "nothing is left of what was removed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Sixteen counters, which saturate all the time; a few more; and as many as there should be.
    #[test]
    fn counters_count_the_members(steps in steps(), hashes in 1_u32..6, which in 0_usize..3) {
        let capacity = [1, 30, 150][which];
        check(&|| Box::new(CountingFilter::explicit(capacity, hashes, 1.5, [3, 4])), &steps, false);
    }

    /// From one bucket for everything, far beyond its capacity, to enough of them, of every width.
    #[test]
    fn fingerprints_are_never_lost(steps in steps(), bits in 4_i32..=32, capacity in 1_u64..200) {
        let rate = 8.0 * 0.5_f64.powi(bits);
        check(&|| Box::new(CuckooFilter::with_rate(capacity, rate, [5, 6])), &steps, true);
    }
}

/// A full filter, marked as the gate marks.
fn full(mut filter: Box<dyn Filter>, n: u64) -> Box<dyn Filter> {
    for from in (0..n).step_by(97) {
        let page = questions(from..(from + 97).min(n));
        let mut maybe = vec![false; page.len()];
        filter.ask_and_mark(&page, &mut maybe);
        let missed: Vec<_> = page.iter().zip(&maybe).filter(|(_, maybe)| **maybe).map(|(page, _)| *page).collect();
        filter.mark(&missed);
    }
    filter
}

fn counting(capacity: u64, rate: f64, generation: u32) -> Box<dyn Filter> {
    Box::new(CountingFilter::with_rate(capacity, rate, Generation::of_visit(generation).filter_seeds(0)))
}

fn cuckoo(capacity: u64, rate: f64, generation: u32) -> Box<dyn Filter> {
    Box::new(CuckooFilter::with_rate(capacity, rate, Generation::of_visit(generation).filter_seeds(0)))
}

fn wrong(filter: &dyn Filter, n: u64) -> f64 {
    asked(filter, strangers(n)).iter().filter(|maybe| **maybe).count() as f64 / n as f64
}

#[test]
fn a_counting_filter_has_the_rate_of_a_bloom_filter_in_four_times_its_memory() {
    for rate in [0.1, 0.01, 0.001] {
        let filter = full(counting(20_000, rate, 0), 20_000);
        let (fill, wrong) = (filter.fill(), wrong(&*filter, 100_000));
        let margin = 4.0 * (rate / 100_000.0).sqrt() + 0.05 * rate;
        assert!((wrong - rate).abs() < margin, "{wrong} measured, {rate} asked");
        assert!((fill.predicted_false_positive_rate / rate - 1.0).abs() < 0.1, "{fill:?}");
        let optimal = -rate.log2() / std::f64::consts::LN_2;
        let bits = fill.bytes as f64 * 8.0 / 20_000.0;
        assert!((bits / (4.0 * optimal) - 1.0).abs() < 0.01, "{bits} bits per URL");
        assert_eq!(filter.room(), 0);
    }
}

#[test]
fn the_papers_counting_filter_has_twenty_counters_for_each_url() {
    let filter = CountingFilter::explicit(500_000, 8, 2.5, [1, 2]);
    assert_eq!(filter.fill().bytes, 500_000 * 20 / 2);
    let filter = full(Box::new(CountingFilter::explicit(20_000, 8, 2.5, [1, 2])), 20_000);
    let wrong = wrong(&*filter, 300_000);
    // (1 − e^(−1/2.5))⁸ is 0.000140.
    assert!((0.000_07..0.000_21).contains(&wrong), "{wrong} measured");
}

#[test]
fn a_cuckoo_filter_takes_its_capacity_at_95_percent_load() {
    for (rate, bits) in [(0.1, 7), (0.01, 10), (0.001, 13), (0.000_1, 17), (0.000_001, 23)] {
        let mut filter = full(cuckoo(100_000, rate, 0), 99_999);
        // It would be 0 if a fingerprint had found no slot.
        assert_eq!(filter.room(), 1, "{rate}");
        filter.mark(&[question(99_999)]);
        let fill = filter.fill();
        assert!((fill.ratio - 0.95).abs() < 0.000_1, "{fill:?}");
        let bits_per_url = fill.bytes as f64 * 8.0 / 100_000.0;
        assert!((bits_per_url - f64::from(bits) / 0.95).abs() < 0.01, "{bits_per_url} bits per URL at {rate}");
        assert!(fill.predicted_false_positive_rate < rate, "{fill:?}");
        let wrong = wrong(&*filter, 1_000_000);
        assert!(wrong <= rate, "{wrong} measured, {rate} asked");
        let margin = 4.0 * (rate / 1_000_000.0).sqrt() + 0.05 * rate;
        assert!((wrong - fill.predicted_false_positive_rate).abs() < margin, "{wrong} measured, {fill:?}");
        assert!(asked(&*filter, 0..100_000).iter().all(|maybe| *maybe));
    }
}

#[test]
fn the_usual_rates_cost_at_most_a_twentieth_more_than_the_limit() {
    for rate in [0.01_f64, 0.001] {
        let bits = cuckoo(1_000_000, rate, 0).fill().bytes as f64 * 8.0 / 1e6;
        assert!(bits <= 1.05 * ((1.0 / rate).log2() + 3.0) / 0.95, "{bits} bits per URL at {rate}");
    }
}

#[test]
fn a_cuckoo_filter_far_beyond_its_capacity_says_so_and_forgets_nothing() {
    let mut filter = full(cuckoo(10_000, 0.01, 0), 40_000);
    assert_eq!((filter.room(), filter.fill().items), (0, 40_000));
    assert!(asked(&*filter, 0..40_000).iter().all(|maybe| *maybe));
    let fill = filter.fill();
    let wrong = wrong(&*filter, 100_000);
    assert!((wrong / fill.predicted_false_positive_rate - 1.0).abs() < 0.1, "{wrong} measured, {fill:?}");
    filter.remove(&questions(0..30_000), &Twice(&BTreeSet::new())).expect("a cuckoo filter reads no members");
    assert!(asked(&*filter, 30_000..40_000).iter().all(|maybe| *maybe));
    filter.remove(&questions(30_000..40_000), &Twice(&BTreeSet::new())).expect("a cuckoo filter reads no members");
    assert_eq!(saved(&*filter), saved(&*cuckoo(10_000, 0.01, 0)));
    assert_eq!(filter.room(), 10_000);
}

#[test]
fn twenty_urls_alike_are_twenty_urls() {
    let mut filter = cuckoo(1_000, 0.01, 0);
    // As if twenty different URLs had one fingerprint and one pair of buckets, which has eight slots.
    filter.mark(&questions([7; 20]));
    assert_eq!((filter.fill().items, filter.room()), (20, 0));
    let mut loaded = cuckoo(1_000, 0.01, 0);
    loaded.load(&mut saved(&*filter).as_slice()).expect("it was saved by its like");
    for left in (0..20).rev() {
        assert!(asked(&*loaded, [7])[0]);
        loaded.remove(&[question(7)], &Twice(&BTreeSet::new())).expect("a cuckoo filter reads no members");
        assert_eq!(loaded.fill().items, left);
    }
    assert!(!asked(&*loaded, [7])[0]);
    assert_eq!(loaded.room(), 1_000);
}

#[test]
fn generations_err_independently() {
    for make in [counting, cuckoo] {
        let rate = 0.05;
        let [first, second] = [0, 1].map(|generation| {
            let filter = full(make(20_000, rate, generation), 20_000);
            asked(&*filter, strangers(200_000))
        });
        let once = first.iter().filter(|maybe| **maybe).count() as f64;
        let again = first.iter().zip(&second).filter(|(first, second)| **first && **second).count() as f64;
        let rate = second.iter().filter(|maybe| **maybe).count() as f64 / 200_000.0;
        // Some 10 000 are wrong once: a standard deviation of their rate is 0.002.
        assert!((again / once - rate).abs() < 0.008, "{again} of {once} were wrong again, {rate} are anyway");
    }
}

#[test]
fn torn_and_foreign_bytes_are_refused() {
    for make in [counting, cuckoo] {
        let filter = full(make(50, 0.01, 0), 120);
        let bytes = saved(&*filter);
        for length in 0..bytes.len() {
            assert!(make(50, 0.01, 0).load(&mut &bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        assert!(make(80, 0.01, 0).load(&mut bytes.as_slice()).is_err(), "another capacity");
        assert!(make(50, 0.000_1, 0).load(&mut bytes.as_slice()).is_err(), "another rate");
        assert!(make(50, 0.01, 0).load(&mut &[0xff; 4096][..]).is_err());
    }
    // The third number of a cuckoo filter says how many homeless fingerprints follow the table.
    let mut bytes = saved(&*cuckoo(50, 0.01, 0));
    bytes[16..24].fill(0xff);
    assert!(cuckoo(50, 0.01, 0).load(&mut bytes.as_slice()).is_err(), "they do not follow");
    bytes.resize(1 << 16, 0xff);
    assert!(cuckoo(50, 0.01, 0).load(&mut bytes.as_slice()).is_err(), "they are not of this filter");
}

proptest! {
    /// Whatever bytes are loaded, and whatever is asked of it then, there is no panic.
    #[test]
    fn a_damaged_filter_does_not_panic(at in 24_usize..400, byte: u8, which in 0_usize..2) {
        let make = [counting, cuckoo][which];
        let mut bytes = saved(&*full(make(50, 0.01, 0), 120));
        if let Some(there) = bytes.get_mut(at) {
            *there = byte;
        }
        let mut filter = make(50, 0.01, 0);
        if filter.load(&mut bytes.as_slice()).is_ok() {
            filter.remove(&questions(0..120), &Twice(&BTreeSet::new())).expect("the members are read");
            filter.mark(&questions(0..120));
            prop_assert!(asked(&*filter, 0..120).iter().all(|maybe| *maybe));
            prop_assert!(filter.fill().ratio <= 1.0);
        }
    }
}

/// Saved filters are read by later versions: their bits may not change.
#[test]
fn bits_never_change() {
    let hash = |filter: Box<dyn Filter>| xxhash_rust::xxh3::xxh3_64(&saved(&*full(filter, 1_000)));
    let counting = hash(Box::new(CountingFilter::with_rate(900, 0.01, [1, 2])));
    let cuckoo = hash(Box::new(CuckooFilter::with_rate(900, 0.01, [1, 2])));
    let stable = hash(Box::new(StableFilter::with_rate(900, 0.01, [1, 2])));
    let hashes = [counting, cuckoo, stable].map(|hash| format!("{hash:016x}"));
    assert_eq!(hashes, ["9351ec4c4cabd38c", "956741254474d032", "1880a07495e2aae3"]);
}
