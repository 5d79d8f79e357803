//! The static strategy against sets: members are never lost, and strangers err at the rate promised.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use model::{HostKey, UrlKey};
use proptest::prelude::*;
use url_cache::{
    BlockedFilter, Fill, Filter, Generation, Members, Nature, Question, Spatial, StaticFilter, StoreError,
};

fn key(number: u64) -> UrlKey {
    UrlKey::new(HostKey::of_origin("http://static.test"), &number.to_string())
}

fn hashes(numbers: std::ops::Range<u64>) -> Vec<u128> {
    numbers.map(|number| key(number).url_hash()).collect()
}

fn questions(keys: &[UrlKey]) -> Vec<Question<'static>> {
    keys.iter().map(|key| Question { key: *key, url: "" }).collect()
}

fn asked(filter: &dyn Filter, numbers: std::ops::Range<u64>) -> Vec<bool> {
    let keys: Vec<UrlKey> = numbers.map(key).collect();
    let mut maybe = vec![false; keys.len()];
    filter.ask(&questions(&keys), &mut maybe);
    maybe
}

fn marked(filter: &mut dyn Filter, numbers: std::ops::Range<u64>) -> Vec<bool> {
    let keys: Vec<UrlKey> = numbers.map(key).collect();
    let mut maybe = vec![false; keys.len()];
    filter.ask_and_mark(&questions(&keys), &mut maybe);
    maybe
}

fn saved(filter: &dyn Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.save(&mut bytes).expect("a vector takes every byte");
    bytes
}

/// A static filter of a visit, with a blocked one beside it.
fn of_visit(visit: u32, known: &[u128], rate: f64, beside: u64) -> StaticFilter {
    let generation = Generation::of_visit(visit);
    let beside = BlockedFilter::with_rate(beside, rate, generation.filter_seeds(1));
    StaticFilter::new(known, rate, generation.filter_seeds(0), Box::new(beside))
}

/// How many of its saved bytes are the other filter's.
fn saved_beside(visit: u32, rate: f64, beside: u64) -> usize {
    saved(&BlockedFilter::with_rate(beside, rate, Generation::of_visit(visit).filter_seeds(1))).len()
}

fn share(answers: &[bool]) -> f64 {
    answers.iter().filter(|maybe| **maybe).count() as f64 / answers.len() as f64
}

/// Counts in so few cells that strangers are members more often than not, and forgets what it is told to.
#[derive(Clone)]
struct Counting([u32; 61]);

impl Counting {
    fn cells(question: &Question<'_>) -> [usize; 2] {
        let hash = question.key.url_hash();
        [(hash % 61) as usize, (hash / 61 % 61) as usize]
    }
}

impl Filter for Counting {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, reads_text: false }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            *maybe = Self::cells(question).iter().all(|cell| self.0[*cell] > 0);
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        for (question, maybe) in questions.iter().zip(maybe) {
            self.ask(&[*question], std::slice::from_mut(maybe));
            if !*maybe {
                self.mark(&[*question]);
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        for cell in questions.iter().flat_map(Self::cells) {
            self.0[cell] += 1;
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        for cell in gone.iter().flat_map(Self::cells) {
            self.0[cell] -= 1;
        }
        // What it would be if it were counted anew from the members it is shown.
        let mut anew = Self([0; 61]);
        members.visit(&mut |key| anew.mark(&[Question { key, url: "" }]))?;
        assert_eq!(anew.0, self.0, "only those that are in this filter remain in it");
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

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        self.0.iter().try_for_each(|count| to.write_all(&count.to_le_bytes()))
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let mut bytes = [0; 4];
        for count in &mut self.0 {
            from.read_exact(&mut bytes)?;
            *count = u32::from_le_bytes(bytes);
        }
        Ok(())
    }
}

struct Exact<'s>(&'s BTreeSet<u64>);

impl Members for Exact<'_> {
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        self.0.iter().for_each(|number| each(key(*number)));
        Ok(())
    }
}

/// What the gate does with a link: asks, and where the filter is wrong, marks.
fn meet(filter: &mut dyn Filter, members: &mut BTreeSet<u64>, number: u64) {
    let question = [Question { key: key(number), url: "" }];
    let mut maybe = [false];
    filter.ask_and_mark(&question, &mut maybe);
    let is_new = members.insert(number);
    assert!(maybe[0] || is_new, "{number} was marked and is answered no");
    if maybe[0] && is_new {
        filter.mark(&question);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One known URL in two shares its slot's fingerprint with a stranger, so flags are shared all the time.
    #[test]
    fn no_member_is_lost_whoever_is_removed(
        known in 0_u64..200,
        steps in proptest::collection::vec((0_u64..400, 0_u8..3), 1..300),
    ) {
        let mut filter = StaticFilter::new(&hashes(0..known), 0.5, [1, 2], Box::new(Counting([0; 61])));
        let mut members = BTreeSet::new();
        for (number, step) in steps {
            if step > 0 {
                meet(&mut filter, &mut members, number);
            } else if members.remove(&number) {
                filter.remove(&[Question { key: key(number), url: "" }], &Exact(&members)).unwrap();
            }
            for member in &members {
                prop_assert!(asked(&filter, *member..member + 1)[0], "{member} was lost");
            }
        }
        let copy = filter.copy();
        let mut loaded = StaticFilter::new(&[], 0.5, [1, 2], Box::new(Counting([0; 61])));
        loaded.load(&mut saved(copy.as_ref()).as_slice()).unwrap();
        prop_assert_eq!(asked(&loaded, 0..1000), asked(&filter, 0..1000));
        prop_assert_eq!(loaded.fill(), filter.fill());
    }

    /// A batch is its questions one by one, to the last bit.
    #[test]
    fn a_batch_is_its_questions_one_by_one(numbers in proptest::collection::vec(0_u64..600, 0..400)) {
        let mut one_by_one = of_visit(1, &hashes(0..300), 0.3, 300);
        let mut batch = of_visit(1, &hashes(0..300), 0.3, 300);
        let keys: Vec<UrlKey> = numbers.iter().map(|number| key(*number)).collect();
        let expected: Vec<bool> =
            numbers.iter().map(|number| marked(&mut one_by_one, *number..number + 1)[0]).collect();
        let mut maybe = vec![false; keys.len()];
        batch.ask_and_mark(&questions(&keys), &mut maybe);
        prop_assert_eq!(maybe, expected);
        prop_assert_eq!(saved(&batch), saved(&one_by_one));
        let (mut marked_once, mut marked_in_turn) = (of_visit(1, &hashes(0..300), 0.3, 300), batch);
        marked_in_turn.mark(&questions(&keys));
        marked_once.mark(&questions(&keys));
        prop_assert_eq!(asked(&marked_once, 0..600), asked(&marked_in_turn, 0..600));
    }
}

#[test]
fn the_known_are_never_mistaken_for_each_other() {
    let mut filter = of_visit(1, &hashes(0..50_000), 0.1, 1000);
    assert!(marked(&mut filter, 0..50_000).iter().all(|maybe| !maybe), "nobody was seen before");
    assert!(marked(&mut filter, 0..50_000).iter().all(|maybe| *maybe));
    let fill = filter.fill();
    assert_eq!((fill.items, fill.capacity, fill.stages), (50_000, 51_000, 1));
    assert_eq!(filter.room(), 1000, "the known take no room beside");
}

#[test]
fn strangers_err_at_the_rate_asked_for_and_predicted() {
    for (rate, bits) in [(0.1, 4), (0.01, 7), (0.001, 10)] {
        let mut filter = of_visit(3, &hashes(0..100_000), rate, 1_000_000);
        assert!(share(&asked(&filter, 1_000_000..1_400_000)).abs() < 1e-9, "nothing is marked yet");
        for (seen, part) in [(50_000, 0.5), (100_000, 1.0)] {
            marked(&mut filter, 0..seen);
            let wrong = share(&asked(&filter, 1_000_000..1_400_000));
            // One in a hundred strangers gets no slot, so it is a little less than the fingerprint's rate.
            let (predicted, most) = (filter.fill().predicted_false_positive_rate, part / f64::from(1 << bits));
            assert!(predicted <= most && predicted > 0.97 * most, "{predicted} predicted, {most} at most");
            // Four standard deviations of 400 000.
            let margin = 4.0 * (predicted / 400_000.0).sqrt();
            assert!((wrong - predicted).abs() < margin, "{wrong} measured, {predicted} predicted");
        }
    }
}

#[test]
fn the_filter_beside_takes_the_new_and_errs_as_it_does() {
    let mut filter = of_visit(0, &[], 0.01, 20_000);
    let mut alone = BlockedFilter::with_rate(20_000, 0.01, Generation::of_visit(0).filter_seeds(1));
    assert_eq!(marked(&mut filter, 0..20_000), marked(&mut alone, 0..20_000), "a first visit knows nothing");
    assert_eq!(asked(&filter, 50_000..90_000), asked(&alone, 50_000..90_000));
    let fill = filter.fill();
    assert_eq!(fill, Fill { ..alone.fill() });
    assert_eq!(filter.room(), alone.room());
}

#[test]
fn generations_err_independently() {
    let visits = [0, 1].map(|visit| {
        let mut filter = of_visit(visit, &hashes(0..20_000), 0.1, 1000);
        marked(&mut filter, 0..20_000);
        asked(&filter, 100_000..200_000)
    });
    let first = share(&visits[0]);
    let both = visits[0].iter().zip(&visits[1]).filter(|(first, second)| **first && **second).count() as f64;
    // One in sixteen is wrong in each, so 391 of 100 000 in both if they are independent, and 6250 if they are one.
    assert!((first - 0.0625).abs() < 0.004, "{first}");
    assert!((both - 391.0).abs() < 80.0, "{both}");
}

#[test]
fn the_size_is_that_of_the_fingerprint_the_flag_and_the_perfect_hash() {
    let alone = BlockedFilter::with_rate(1, 0.001, [1, 2]).fill().bytes;
    let bits = (of_visit(1, &hashes(0..200_000), 0.001, 1).fill().bytes - alone) as f64 * 8.0 / 200_000.0;
    assert!((bits - 14.35).abs() < 0.05, "{bits} bits per URL");
}

#[test]
fn known_urls_may_come_in_any_order_and_twice() {
    let expected = saved(&of_visit(1, &hashes(0..3000), 0.01, 100));
    let mut known = hashes(0..3000);
    known.reverse();
    known.extend(hashes(500..700));
    assert_eq!(saved(&of_visit(1, &known, 0.01, 100)), expected);
}

#[test]
fn two_known_with_one_upper_half_are_both_found() {
    let hash = |low: u64| 77 << 64 | u128::from(low);
    let key_of = |hash: u128| {
        let mut bytes = [0; UrlKey::LEN];
        bytes[8..].copy_from_slice(&hash.to_be_bytes());
        UrlKey::from_bytes(bytes)
    };
    let twins: Vec<u128> = (0..40).map(hash).collect();
    let mut filter = of_visit(1, &twins, 1e-6, 100);
    let keys: Vec<UrlKey> = twins.iter().map(|hash| key_of(*hash)).collect();
    let mut maybe = vec![true; 40];
    filter.ask_and_mark(&questions(&keys), &mut maybe);
    assert!(maybe.iter().all(|maybe| !maybe));
    filter.ask(&questions(&keys), &mut maybe);
    assert!(maybe.iter().all(|maybe| *maybe));
    assert_eq!(filter.fill().items, 40);
}

#[test]
fn the_bits_are_the_same_on_every_machine() {
    let mut filter = of_visit(7, &hashes(0..5000), 0.003, 500);
    marked(&mut filter, 2500..5500);
    let bytes = saved(&filter);
    let its_own = &bytes[..bytes.len() - saved_beside(7, 0.003, 500)];
    assert_eq!((its_own.len(), xxhash_rust::xxh3::xxh3_64(its_own)), (8592, 2_067_910_096_216_941_653));
}

#[test]
fn one_loaded_into_an_empty_one_goes_on_where_the_saved_one_was() {
    let mut filter = of_visit(1, &hashes(0..20_000), 0.01, 2000);
    marked(&mut filter, 10_000..21_000);
    let bytes = saved(&filter);
    let mut loaded = of_visit(1, &[], 0.01, 2000);
    let mut rest = bytes.as_slice();
    loaded.load(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert_eq!(loaded.fill(), filter.fill());
    assert_eq!(marked(&mut loaded, 0..40_000), marked(&mut filter, 0..40_000));
    assert_eq!(saved(&loaded), saved(&filter));
    for other in [of_visit(1, &[], 0.1, 2000), of_visit(1, &[], 0.01, 9000)] {
        let mut other = other;
        assert!(other.load(&mut bytes.as_slice()).is_err(), "another configuration");
    }
}

#[test]
fn hostile_bytes_are_an_error_or_a_filter_and_never_a_panic() {
    let mut filter = of_visit(1, &hashes(0..2000), 0.01, 200);
    marked(&mut filter, 0..2000);
    let bytes = saved(&filter);
    let mut loaded = of_visit(1, &[], 0.01, 200);
    for end in (0..bytes.len()).step_by(7) {
        assert!(loaded.load(&mut &bytes[..end]).is_err(), "torn at {end}");
    }
    let mut refused = 0;
    for word in 0..(bytes.len() - saved_beside(1, 0.01, 200)) / 8 {
        for number in [0, 1, 1 << 33, u64::MAX / 8, u64::MAX] {
            let mut hostile = bytes.clone();
            hostile[word * 8..word * 8 + 8].copy_from_slice(&number.to_le_bytes());
            refused += u32::from(loaded.load(&mut hostile.as_slice()).is_err());
            assert_eq!(marked(&mut loaded, 0..200).len(), 200);
            let fill = loaded.fill();
            assert!(fill.items <= fill.capacity, "{fill:?}");
        }
    }
    // What stands in the slots may be anything. The perfect hash is a hundred words, nearly every one of
    // which is refused with nearly every other number.
    assert!(refused > 400, "{refused} were refused");
}

/// Side by side with another of its kind, as the spatial strategy has it.
#[test]
fn it_stands_side_by_side_with_others() {
    let known = hashes(0..1000);
    let filters = (0..2).map(|visit| Box::new(of_visit(visit, &known, 0.1, 1000)) as Box<dyn Filter>).collect();
    let mut spatial = Spatial::new(filters);
    marked(&mut spatial, 0..1500);
    assert!(asked(&spatial, 0..1500).iter().all(|maybe| *maybe));
    let wrong = share(&asked(&spatial, 10_000..110_000));
    assert!(wrong < 0.01, "{wrong}");
}
