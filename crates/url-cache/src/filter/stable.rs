//! A filter that forgets (Deng & Rafiei 2006).

use std::io::{self, Read, Write};

use super::counting::{Positions, optimal_bits};
use super::memory::Memory;
use super::{Fill, Filter, Nature, Question, expect_u64, fold, read_u64, scale, wide};

/// Questions whose cells are requested before the first is looked at.
const BATCH: usize = 32;

/// Positions tried: more only make a URL be forgotten sooner.
const MOST_HASHES: u32 = 10;

/// Bits of a cell tried.
const MOST_BITS: u32 = 3;

/// Odd constants with as many ones as zeros, for the cells that are decremented.
const RUN: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// A stable Bloom filter: it forgets what was long ago, so it is never full.
///
/// The source is *Approximately detecting duplicates for streaming data using stable Bloom filters*
/// (2006). It has *m* cells of *d* bits. Each URL that passes, known or not, first decrements *P* cells
/// and then sets its own *K* cells to Max = 2ᵈ − 1; it was perhaps seen when none of them was 0. However
/// many pass, the share of cells that are 0 tends to (1 / (1 + 1 / (P (1/K − 1/m))))^Max, the stable point,
/// and with it the rate of false positives: (1 − that share)^K.
///
/// As the paper advises, the *P* cells are successive ones from a random place on, which costs one
/// access to memory and leaves each cell's chances as they are. The random places come from the seeds and
/// the number of URLs that have passed, so the same URLs give the same bits.
///
/// **Useful for** an endless stream in bounded memory, where a repetition is likely to come soon.
/// **Not useful for** proofs: here "no" may be wrong as well, and the exact store must check both answers.
pub struct StableFilter {
    words: Memory<u64>,
    plan: Plan,
    seeds: [u64; 2],
    /// URLs that were taken for new ones.
    items: u64,
    /// URLs that have passed.
    passed: u64,
    /// Cells that are not 0.
    used: u64,
}

/// How many cells of how many bits there are, and how many of them a URL sets and decrements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// d, bits in a cell.
    bits: u32,
    /// m. A multiple of the cells in a word.
    cells: u64,
    /// K, cells that a URL sets.
    hashes: u32,
    /// P, cells that a URL decrements.
    decrements: u64,
}

impl StableFilter {
    /// A filter in the memory of a classic Bloom filter for `capacity` URLs at this rate, which takes no
    /// more than this share of strangers for members however many URLs have passed.
    ///
    /// *P* follows from the rate, K and Max (§5). K and *d* are those with the fewest false negatives by
    /// the paper's analysis, taken over repetitions after 1/1000 of the capacity to the whole of
    /// it, where every order of magnitude counts the same.
    pub fn with_rate(capacity: u64, rate: f64, seeds: [u64; 2]) -> Self {
        let words = (optimal_bits(capacity, rate) / f64::from(u64::BITS)).ceil().max(1.0) as u64;
        let mut best = (f64::INFINITY, Plan::new(words, 1, 1, rate));
        for bits in 1..=MOST_BITS {
            for hashes in 1..=MOST_HASHES {
                let plan = Plan::new(words, bits, hashes, rate);
                let missed = plan.missed(capacity.max(1));
                if plan.rate() <= rate && missed < best.0 {
                    best = (missed, plan);
                }
            }
        }
        Self { words: Memory::zeroed(words as usize), plan: best.1, seeds, items: 0, passed: 0, used: 0 }
    }

    fn positions(&self, hash: u128) -> Positions {
        Positions::new(hash, self.seeds, self.plan.cells, self.plan.hashes)
    }

    /// The first of the cells that the URL of this number decrements.
    fn run(&self, number: u64) -> u64 {
        // Folded twice: once would spread successive places evenly, and the theory wants them random.
        scale(fold(fold(number ^ self.seeds[0], RUN[0]) ^ self.seeds[1], RUN[1]), self.plan.cells)
    }

    fn request(&self, cell: u64) {
        wide::request(self.words.values(), (cell / self.plan.per_word()) as usize);
    }

    /// Finds the positions of a batch and requests their cells.
    fn find<'p>(&self, batch: &[Question<'_>], places: &'p mut [Positions; BATCH]) -> &'p [Positions] {
        for (place, question) in places.iter_mut().zip(batch) {
            *place = self.positions(question.key.url_hash());
            place.each().for_each(|cell| self.request(cell));
        }
        &places[..batch.len()]
    }

    fn knows(&self, positions: Positions) -> bool {
        let max = self.plan.max();
        positions.each().all(|cell| {
            let (word, shift) = self.plan.locate(cell);
            (self.words.values()[word] >> shift) & max != 0
        })
    }

    /// A URL passes: some cells are decremented, its own are set.
    fn pass(&mut self, positions: Positions) {
        let plan = self.plan;
        self.decrement();
        self.passed = self.passed.wrapping_add(1);
        for cell in positions.each() {
            let (word, shift) = plan.locate(cell);
            let word = &mut self.words.values_mut()[word];
            self.used += u64::from((*word >> shift) & plan.max() == 0);
            *word |= plan.max() << shift;
        }
    }

    /// Decrements a run of cells, those of a word at once.
    fn decrement(&mut self) {
        let plan = self.plan;
        let (mut word, shift) = plan.locate(self.run(self.passed));
        let mut first = u64::from(shift / plan.bits);
        let mut left = plan.decrements;
        while left > 0 {
            let cells = left.min(plan.per_word() - first);
            let run = plan.lowest(cells) << (first * u64::from(plan.bits));
            let value = &mut self.words.values_mut()[word];
            let before = plan.nonzero(*value) & run;
            // Each of these cells is at least 1, so none borrows from the next.
            *value -= before;
            let after = plan.nonzero(*value) & run;
            self.used -= u64::from((before ^ after).count_ones());
            left -= cells;
            first = 0;
            word = if word + 1 == self.words.values().len() { 0 } else { word + 1 };
        }
    }

    fn pass_all(&mut self, questions: &[Question<'_>], mut answer: impl FnMut(usize, bool)) {
        let mut places = [Positions::NOWHERE; BATCH];
        let mut number = 0;
        for batch in questions.chunks(BATCH) {
            for ahead in 0..batch.len() as u64 {
                self.request(self.run(self.passed.wrapping_add(ahead)));
            }
            for place in self.find(batch, &mut places) {
                let maybe = self.knows(*place);
                self.pass(*place);
                answer(number, maybe);
                number += 1;
            }
        }
    }
}

impl Plan {
    /// As many decrements as keep the rate of false positives at or under this one (§5: the formula of
    /// the stable point, solved for P).
    fn new(words: u64, bits: u32, hashes: u32, rate: f64) -> Self {
        let cells = words * u64::from(u64::BITS / bits);
        let plan = Self { bits, cells, hashes, decrements: 0 };
        let k = f64::from(hashes);
        let zeros = 1.0 - rate.powf(1.0 / k);
        let decrements = 1.0 / ((zeros.powf(-1.0 / plan.max() as f64) - 1.0) * (1.0 / k - 1.0 / cells as f64));
        Self { decrements: (decrements.ceil() as u64).clamp(1, cells), ..plan }
    }

    /// Max, the value of a cell that was just set.
    fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn per_word(self) -> u64 {
        u64::from(u64::BITS / self.bits)
    }

    /// The word of a cell, and where in it the cell begins.
    fn locate(self, cell: u64) -> (usize, u32) {
        ((cell / self.per_word()) as usize, (cell % self.per_word()) as u32 * self.bits)
    }

    /// The lowest bit of each of the first cells of a word.
    fn lowest(self, cells: u64) -> u64 {
        let bits = cells as u32 * self.bits;
        (u64::MAX >> (u64::BITS - bits)) / self.max()
    }

    /// The lowest bit of each cell that is not 0.
    fn nonzero(self, word: u64) -> u64 {
        (0..self.bits).fold(0, |any, bit| any | (word >> bit)) & self.lowest(self.per_word())
    }

    /// The share of cells that are not 0 at the stable point.
    fn ratio(self) -> f64 {
        let turnover = self.decrements as f64 * (1.0 / f64::from(self.hashes) - 1.0 / self.cells as f64);
        1.0 - (1.0 / (1.0 + 1.0 / turnover)).powf(self.max() as f64)
    }

    /// The rate of false positives at the stable point.
    fn rate(self) -> f64 {
        self.ratio().powi(self.hashes.cast_signed())
    }

    /// The share of repetitions that are not recognised when so many other URLs have passed since.
    fn missed_after(self, gap: f64) -> f64 {
        const STEPS: u32 = 32;
        let (sets, decrements) =
            (f64::from(self.hashes) / self.cells as f64, self.decrements as f64 / self.cells as f64);
        // The chance that a cell has been decremented Max times at an age: a Poisson distribution's tail.
        let worn = |age: f64| {
            let mean = age * decrements;
            let mut term = (-mean).exp();
            let mut fewer = term;
            for count in 1..self.max() {
                term *= mean / count as f64;
                fewer += term;
            }
            1.0 - fewer
        };
        // A cell's age is the whole gap, or less when another URL has set it since (by trapezoids).
        let density = |age: f64| sets * (-age * sets).exp() * worn(age);
        let step = gap / f64::from(STEPS);
        let inner: f64 = (1..STEPS).map(|number| density(step * f64::from(number))).sum();
        let zero = (-gap * sets).exp() * worn(gap) + step * (inner + density(gap) / 2.0);
        1.0 - (1.0 - zero).powi(self.hashes.cast_signed())
    }

    /// The share of repetitions that are not recognised when they come after 1/1000 of `capacity` to all
    /// of it, evenly on a logarithmic scale.
    fn missed(self, capacity: u64) -> f64 {
        const GAPS: u32 = 30;
        let gap = |number: u32| capacity as f64 * 0.001_f64.powf(f64::from(number) / f64::from(GAPS));
        (0..=GAPS).map(|number| self.missed_after(gap(number))).sum::<f64>() / f64::from(GAPS + 1)
    }
}

impl Filter for StableFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: false, removes: false, reads_text: false }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = [Positions::NOWHERE; BATCH];
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            for (place, maybe) in self.find(batch, &mut places).iter().zip(maybe) {
                *maybe = self.knows(*place);
            }
        }
    }

    /// As the trait says; but a URL that is known passes as well, and is remembered from now on.
    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        self.pass_all(questions, |number, answer| maybe[number] = answer);
        self.items = self.items.saturating_add(maybe.iter().filter(|maybe| !**maybe).count() as u64);
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        self.pass_all(questions, |_, _| ());
        self.items = self.items.saturating_add(questions.len() as u64);
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn fill(&self) -> Fill {
        let ratio = self.used as f64 / self.plan.cells as f64;
        Fill {
            items: self.items,
            capacity: 0,
            ratio,
            predicted_false_positive_rate: ratio.powi(self.plan.hashes.cast_signed()),
            bytes: self.words.bytes(),
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self { words: self.words.duplicate(), ..*self })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        let Plan { bits, cells, hashes, decrements } = self.plan;
        for number in [cells, u64::from(bits), u64::from(hashes), decrements, self.items, self.passed] {
            to.write_all(&number.to_le_bytes())?;
        }
        self.words.save(to)
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let Plan { bits, cells, hashes, decrements } = self.plan;
        expect_u64(from, "cells", cells)?;
        expect_u64(from, "bits in a cell", u64::from(bits))?;
        expect_u64(from, "positions", u64::from(hashes))?;
        expect_u64(from, "decrements", decrements)?;
        self.items = read_u64(from)?;
        self.passed = read_u64(from)?;
        self.words.load(from)?;
        let words = self.words.values().iter();
        self.used = words.map(|word| u64::from(self.plan.nonzero(*word).count_ones())).sum();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::{HostKey, UrlKey};

    use super::*;
    use crate::Generation;

    fn question(number: u64) -> Question<'static> {
        Question { key: UrlKey::new(HostKey::from_bytes([0; 8]), &number.to_string()), url: "" }
    }

    fn questions(range: std::ops::Range<u64>) -> Vec<Question<'static>> {
        range.map(question).collect()
    }

    /// A filter that different URLs have passed, twenty times its capacity of them.
    fn worn(capacity: u64, rate: f64, generation: u32) -> StableFilter {
        let mut filter = StableFilter::with_rate(capacity, rate, Generation::of_visit(generation).filter_seeds(0));
        filter.mark(&questions(0..20 * capacity));
        filter
    }

    fn wrong(filter: &StableFilter, strangers: u64) -> Vec<bool> {
        let mut maybe = vec![false; strangers as usize];
        filter.ask(&questions(1 << 40..(1 << 40) + strangers), &mut maybe);
        maybe
    }

    #[test]
    fn the_share_of_zeros_tends_to_the_stable_point() {
        for bits in 1..=MOST_BITS {
            for hashes in [1, 3, 6] {
                let mut filter = StableFilter::with_rate(4_000, 0.01, [1, 2]);
                filter.plan = Plan::new(filter.words.values().len() as u64, bits, hashes, 0.01);
                let (mut sum, rounds) = (0.0, 40_u64);
                for round in 0..rounds {
                    filter.mark(&questions(round * 2_000..(round + 1) * 2_000));
                    if round >= 20 {
                        sum += filter.fill().ratio / 20.0;
                    }
                }
                let predicted = filter.plan.ratio();
                assert!((sum / predicted - 1.0).abs() < 0.03, "{:?}: {sum} measured, {predicted}", filter.plan);
                let counted: u64 =
                    filter.words.values().iter().map(|word| u64::from(filter.plan.nonzero(*word).count_ones())).sum();
                assert_eq!(filter.used, counted);
            }
        }
    }

    #[test]
    fn the_rate_stays_where_it_was_asked_to_be() {
        for rate in [0.2, 0.05, 0.01, 0.001] {
            let filter = worn(5_000, rate, 0);
            let strangers = 100_000;
            let wrong = wrong(&filter, strangers).iter().filter(|maybe| **maybe).count() as f64 / strangers as f64;
            // Three standard deviations, of the strangers and of the cells.
            let margin = 3.0 * (rate / strangers as f64).sqrt() + 0.05 * rate;
            assert!(wrong <= rate + margin, "{wrong} measured, {rate} asked, {:?}", filter.plan);
            assert!(wrong >= 0.8 * rate - margin, "{wrong} measured, {rate} asked, {:?}", filter.plan);
            let predicted = filter.fill().predicted_false_positive_rate;
            assert!((predicted - wrong).abs() < 0.1 * rate + margin, "{predicted} predicted, {wrong} measured");
        }
    }

    #[test]
    fn as_many_repetitions_are_missed_as_predicted() {
        let capacity = 10_000;
        for rate in [0.1, 0.01, 0.001] {
            let filter = worn(capacity, rate, 0);
            for gap in [0, 300, 1_000, 3_000, 10_000, 100_000] {
                let mut maybe = [false; 500];
                let newest = 20 * capacity - gap;
                filter.ask(&questions(newest - 500..newest), &mut maybe);
                let missed = maybe.iter().filter(|maybe| !**maybe).count() as f64 / 500.0;
                let predicted = [gap, gap + 500].map(|gap| filter.plan.missed_after(gap as f64));
                // Three standard deviations at the worst.
                let range = predicted[0] - 0.07..predicted[1] + 0.07;
                assert!(range.contains(&missed), "{missed} of the URLs {gap} ago, {predicted:?} predicted");
            }
        }
    }

    #[test]
    fn recent_urls_are_found() {
        let capacity = 10_000;
        for rate in [0.1, 0.01, 0.001] {
            let filter = worn(capacity, rate, 0);
            let mut maybe = [false; 500];
            filter.ask(&questions(20 * capacity - 500..20 * capacity), &mut maybe);
            let missed = maybe.iter().filter(|maybe| !**maybe).count();
            assert!(missed <= 5, "{missed} of the last 500 URLs were missed at {rate}, {:?}", filter.plan);
        }
    }

    #[test]
    fn a_repetition_counts_as_new_again() {
        let mut filter = StableFilter::with_rate(1_000, 0.01, [3, 4]);
        let (mut missed, rounds) = (0, 200);
        for round in 0..=rounds {
            let mut maybe = [false];
            filter.ask_and_mark(&[question(u64::MAX)], &mut maybe);
            missed += u32::from(round > 0 && !maybe[0]);
            filter.mark(&questions(round * 20..(round + 1) * 20));
        }
        // 4 000 URLs after the first time its cells would be worn.
        assert!(missed <= 2, "{missed} of {rounds} repetitions after 20 others were missed");
    }

    #[test]
    fn memory_is_the_classic_filters() {
        let bits = StableFilter::with_rate(1_000_000, 0.01, [1, 2]).fill().bytes as f64 * 8.0 / 1e6;
        assert!((bits - 9.585).abs() < 0.01, "{bits} bits per URL");
    }

    #[test]
    fn generations_err_independently() {
        let (first, second) = (worn(2_000, 0.1, 0), worn(2_000, 0.1, 1));
        let (first, second) = (wrong(&first, 50_000), wrong(&second, 50_000));
        let once = first.iter().filter(|maybe| **maybe).count() as f64;
        let twice = first.iter().zip(&second).filter(|(first, second)| **first && **second).count() as f64;
        assert!((0.08..0.12).contains(&(twice / once)), "{twice} of {once} were wrong again");
    }

    #[test]
    fn a_saved_filter_goes_on_as_the_original_does() {
        for rate in [0.3, 0.01, 0.000_1] {
            let mut original = worn(500, rate, 2);
            let mut saved = Vec::new();
            original.save(&mut saved).unwrap();
            let mut loaded = StableFilter::with_rate(500, rate, original.seeds);
            loaded.load(&mut saved.as_slice()).unwrap();
            assert_eq!(loaded.fill(), original.fill());
            let (mut one, mut other) = (vec![false; 3_000], vec![false; 3_000]);
            original.ask_and_mark(&questions(9_000..12_000), &mut one);
            // One after the other is what a batch does.
            for (question, maybe) in questions(9_000..12_000).iter().zip(&mut other) {
                loaded.ask_and_mark(&[*question], std::slice::from_mut(maybe));
            }
            assert_eq!(one, other);
            assert_eq!(loaded.words.values(), original.words.values());
            for length in 0..saved.len() {
                assert!(loaded.load(&mut &saved[..length]).is_err());
            }
            assert!(StableFilter::with_rate(700, rate, [1, 2]).load(&mut saved.as_slice()).is_err());
        }
    }
}
