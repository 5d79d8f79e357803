//! Several filters side by side (Gøytil & Lundberg 2010, §4.3).

use std::io::{self, Read, Write};

use super::{Fill, Filter, Members, Nature, Question, expect_u64};
use crate::store::StoreError;

/// Filters with seeds of their own, all of which must agree that a URL was marked: algorithms 3 and 4
/// of Gøytil & Lundberg 2010 (*spatial strategy*). Rates multiply, and so do memory and time; with
/// seeds that change at every visit it is their *spatio-temporal strategy*.
pub struct Spatial {
    filters: Vec<Box<dyn Filter>>,
    answers: Vec<bool>,
}

impl Spatial {
    /// The filters must have been made alike, but for their seeds. There must be one at least.
    pub fn new(filters: Vec<Box<dyn Filter>>) -> Self {
        assert!(!filters.is_empty(), "no filter cannot agree");
        Self { filters, answers: Vec::new() }
    }
}

impl Filter for Spatial {
    fn nature(&self) -> Nature {
        self.filters[0].nature()
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        maybe.fill(true);
        let mut answers = vec![false; questions.len()];
        for filter in &self.filters {
            filter.ask(questions, &mut answers);
            for (maybe, answer) in maybe.iter_mut().zip(&answers) {
                *maybe &= answer;
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let n = questions.len();
        self.answers.clear();
        self.answers.resize(n * self.filters.len(), false);
        maybe.fill(true);
        for (filter, answers) in self.filters.iter_mut().zip(self.answers.chunks_mut(n.max(1))) {
            filter.ask_and_mark(questions, answers);
            for (maybe, answer) in maybe.iter_mut().zip(answers) {
                *maybe &= *answer;
            }
        }
        // A new URL that one filter took for a member is not marked there yet. Filters of bits have its
        // bits; one that counts must count it, or it would forget it with whomever it mistook it for.
        if self.nature().removes {
            for (filter, answers) in self.filters.iter_mut().zip(self.answers.chunks(n.max(1))) {
                for ((question, answer), maybe) in questions.iter().zip(answers).zip(&*maybe) {
                    if *answer && !maybe {
                        filter.mark(&[*question]);
                    }
                }
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        for filter in &mut self.filters {
            filter.mark(questions);
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        self.filters.iter_mut().try_for_each(|filter| filter.remove(gone, members))
    }

    fn room(&self) -> u64 {
        self.filters.iter().map(|filter| filter.room()).min().unwrap_or_default()
    }

    fn fill(&self) -> Fill {
        let fills: Vec<Fill> = self.filters.iter().map(|filter| filter.fill()).collect();
        let first = fills.first().copied().unwrap_or_default();
        Fill {
            items: fills.iter().map(|fill| fill.items).max().unwrap_or_default(),
            ratio: fills.iter().map(|fill| fill.ratio).sum::<f64>() / fills.len() as f64,
            predicted_false_positive_rate: fills.iter().map(|fill| fill.predicted_false_positive_rate).product(),
            bytes: fills.iter().map(|fill| fill.bytes).sum(),
            ..first
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self::new(self.filters.iter().map(|filter| filter.copy()).collect()))
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&(self.filters.len() as u64).to_le_bytes())?;
        self.filters.iter().try_for_each(|filter| filter.save(to))
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "filters side by side", self.filters.len() as u64)?;
        self.filters.iter_mut().try_for_each(|filter| filter.load(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generation;
    use crate::filter::BlockedFilter;
    use crate::filter::testing::{questions, urls};

    /// Gøytil & Lundberg 2010, table 5.20 and others: with `n` filters the rate is the `n`-th power.
    #[test]
    fn rates_multiply() {
        for (filters, expected) in [(1, 0.2), (2, 0.04), (3, 0.008)] {
            let one = |place| -> Box<dyn Filter> {
                Box::new(BlockedFilter::with_rate(20_000, 0.2, Generation::of_visit(1).filter_seeds(place)))
            };
            let mut filter = Spatial::new((0..filters).map(one).collect());
            let members = urls(0..20_000);
            filter.mark(&questions(&members));
            let mut maybe = vec![false; members.len()];
            filter.ask(&questions(&members), &mut maybe);
            assert!(maybe.iter().all(|maybe| *maybe));
            let strangers = urls(1_000_000..1_100_000);
            let mut maybe = vec![false; strangers.len()];
            filter.ask(&questions(&strangers), &mut maybe);
            let wrong = maybe.iter().filter(|maybe| **maybe).count() as f64 / strangers.len() as f64;
            assert!((wrong - expected).abs() < expected * 0.15, "{filters} filters: {wrong}, not {expected}");
            let predicted = filter.fill().predicted_false_positive_rate;
            assert!((predicted - wrong).abs() < expected * 0.15, "{filters} filters: {predicted} predicted");
        }
    }
}
