use std::io::{self, Read, Write};

use super::{Fill, Filter, Members, Nature, Question};
use crate::store::StoreError;

/// No filter: every answer is "maybe", so the store decides alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFilter;

impl Filter for NoFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: true, reads_text: false }
    }

    fn ask(&self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        maybe.fill(true);
    }

    fn ask_and_mark(&mut self, _questions: &[Question<'_>], maybe: &mut [bool]) {
        maybe.fill(true);
    }

    fn mark(&mut self, _questions: &[Question<'_>]) {}

    fn remove(&mut self, _gone: &[Question<'_>], _members: &dyn Members) -> Result<(), StoreError> {
        Ok(())
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn fill(&self) -> Fill {
        Fill { predicted_false_positive_rate: 1.0, ..Fill::default() }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self)
    }

    fn save(&self, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn load(&mut self, _from: &mut dyn Read) -> io::Result<()> {
        Ok(())
    }
}
