//! Strategies that run beside the real one and decide nothing.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::config::FilterKind;
use crate::counts::Verdict;
use crate::filter::{Fill, Filter, Question};

/// A filter that is asked what the real one is asked, to learn what it would have done.
pub struct Shadow {
    kind: FilterKind,
    filter: Box<dyn Filter>,
    asked: u64,
    new: u64,
    false_positives: u64,
    false_negatives: u64,
    nanoseconds: u64,
    maybe: Vec<bool>,
}

/// What a strategy would have done with the questions of this session that the recent cache did not
/// answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShadowReport {
    /// The strategy.
    pub filter: FilterKind,
    /// Questions.
    pub asked: u64,
    /// Of these, URLs that were new.
    pub new: u64,
    /// New URLs it would have called known: with `verify = "trust"` these pages would be lost, with
    /// "exact" each is one look into the store for nothing.
    pub false_positives: u64,
    /// Known URLs it would have called new: with `verify = "trust"` these pages would be fetched again.
    pub false_negatives: u64,
    /// Nanoseconds per question, marking included.
    pub nanoseconds_per_question: f64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The false-positive rate that follows from what is in it.
    pub predicted_false_positive_rate: f64,
}

impl Shadow {
    /// A strategy's filter, which must know what the real one knows.
    pub fn new(kind: FilterKind, filter: Box<dyn Filter>) -> Self {
        Self {
            kind,
            filter,
            asked: 0,
            new: 0,
            false_positives: 0,
            false_negatives: 0,
            nanoseconds: 0,
            maybe: Vec::new(),
        }
    }

    /// Asks the questions, and compares with what became of them.
    pub(crate) fn follow(&mut self, questions: &[Question<'_>], verdicts: impl Iterator<Item = Verdict>) {
        self.maybe.clear();
        self.maybe.resize(questions.len(), false);
        let started = Instant::now();
        self.filter.ask_and_mark(questions, &mut self.maybe);
        self.nanoseconds += started.elapsed().as_nanos() as u64;
        self.asked += questions.len() as u64;
        for ((question, maybe), verdict) in questions.iter().zip(&self.maybe).zip(verdicts) {
            match (verdict, *maybe) {
                (Verdict::New, true) => {
                    self.new += 1;
                    self.false_positives += 1;
                    if self.filter.nature().removes {
                        self.filter.mark(&[*question]);
                    }
                }
                (Verdict::New, false) => self.new += 1,
                (Verdict::Seen(_), false) => self.false_negatives += 1,
                (Verdict::Seen(_), true) => {}
            }
        }
    }

    /// What it would have done so far.
    pub fn report(&self) -> ShadowReport {
        let Fill { bytes, predicted_false_positive_rate, .. } = self.filter.fill();
        ShadowReport {
            filter: self.kind,
            asked: self.asked,
            new: self.new,
            false_positives: self.false_positives,
            false_negatives: self.false_negatives,
            nanoseconds_per_question: self.nanoseconds as f64 / self.asked.max(1) as f64,
            bytes: bytes as u64,
            predicted_false_positive_rate,
        }
    }
}
