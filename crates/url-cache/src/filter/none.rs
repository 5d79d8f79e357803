use super::{Fill, Filter, Nature, Question};

/// No filter: every answer is "maybe", so the store decides alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFilter;

impl Filter for NoFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, grows: true }
    }

    fn ask_and_mark(&mut self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        maybe.fill(true);
    }

    fn remove(&mut self, _question: Question<'_>) -> bool {
        true
    }

    fn fill(&self) -> Fill {
        Fill { predicted_false_positive_rate: 1.0, ..Fill::default() }
    }
}
