//! Filters one after the other (Almeida, Baquero, Preguiça & Hutchison 2007).

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{Fill, Filter, Members, Nature, Question, read_u64};
use crate::store::StoreError;

/// Makes the stage of a number, from 0: empty, of the same nature as every other, larger and stricter
/// than the one before.
pub type MakeStage = Arc<dyn Fn(u32) -> Box<dyn Filter> + Send + Sync>;

/// Stages a saved filter may have: each doubles, so more is no filter of ours.
const MAX_STAGES: u64 = 64;

/// Marks made between two looks at whether the stage is full.
const SLICE: usize = 1024;

/// A scalable filter: stages of fixed filters, the newest of which takes the marks until it is full and
/// a larger, stricter one follows (*Scalable Bloom filters*, 2007). A URL was perhaps marked when any
/// stage says so, so the compounded rate is at most the sum of the stages' rates; with rates that
/// halve, it stays under twice the first one.
///
/// **Useful for** a crawl whose size nobody knows. **Not useful for** speed: every stage is asked.
pub struct Stages {
    stages: Vec<Box<dyn Filter>>,
    make: MakeStage,
}

impl Stages {
    /// The first stage, empty.
    pub fn new(make: MakeStage) -> Self {
        Self { stages: vec![make(0)], make }
    }

    fn newest(&mut self) -> &mut Box<dyn Filter> {
        if self.stages.last().is_none_or(|stage| stage.room() == 0) {
            let next = (self.make)(self.stages.len() as u32);
            self.stages.push(next);
        }
        self.stages.last_mut().expect("a stage was just pushed")
    }

    /// How many marks may go to the newest stage before it is asked again whether it is full.
    fn slice(&mut self) -> usize {
        let room = self.newest().room();
        usize::try_from(room).unwrap_or(SLICE).clamp(1, SLICE)
    }
}

impl Filter for Stages {
    fn nature(&self) -> Nature {
        self.stages[0].nature()
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        self.stages[0].ask(questions, maybe);
        if self.stages.len() > 1 {
            let mut answers = vec![false; questions.len()];
            for stage in &self.stages[1..] {
                stage.ask(questions, &mut answers);
                for (maybe, answer) in maybe.iter_mut().zip(&answers) {
                    *maybe |= answer;
                }
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let (mut questions, mut maybe) = (questions, maybe);
        while !questions.is_empty() {
            let n = self.slice().min(questions.len());
            let (now, later) = questions.split_at(n);
            let (answers, later_answers) = maybe.split_at_mut(n);
            if self.stages.len() == 1 {
                self.newest().ask_and_mark(now, answers);
            } else {
                // Older stages are only asked; what they know need not be known twice.
                let older = self.stages.len() - 1;
                answers.fill(false);
                let mut theirs = vec![false; n];
                for stage in &self.stages[..older] {
                    stage.ask(now, &mut theirs);
                    for (answer, theirs) in answers.iter_mut().zip(&theirs) {
                        *answer |= theirs;
                    }
                }
                let open: Vec<usize> = (0..n).filter(|place| !answers[*place]).collect();
                let unknown: Vec<Question<'_>> = open.iter().map(|place| now[*place]).collect();
                let theirs = &mut theirs[..unknown.len()];
                self.newest().ask_and_mark(&unknown, theirs);
                for (place, theirs) in open.iter().zip(&*theirs) {
                    answers[*place] = *theirs;
                }
            }
            (questions, maybe) = (later, later_answers);
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        let mut questions = questions;
        while !questions.is_empty() {
            let (now, later) = questions.split_at(self.slice().min(questions.len()));
            self.newest().mark(now);
            questions = later;
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        // A member is in one stage, and another may mistake it for one of its own. Taking it out there
        // would lose somebody else, so one that two stages claim stays: later the store refutes it.
        let mut claims = vec![Vec::new(); gone.len()];
        let mut answers = vec![false; gone.len()];
        for (number, stage) in self.stages.iter().enumerate() {
            stage.ask(gone, &mut answers);
            for (claims, _) in claims.iter_mut().zip(&answers).filter(|(_, answer)| **answer) {
                claims.push(number);
            }
        }
        for (number, stage) in self.stages.iter_mut().enumerate() {
            let its: Vec<Question<'_>> =
                gone.iter().zip(&claims).filter(|(_, claims)| **claims == [number]).map(|(gone, _)| *gone).collect();
            if !its.is_empty() {
                stage.remove(&its, members)?;
            }
        }
        Ok(())
    }

    fn room(&self) -> u64 {
        u64::MAX
    }

    fn fill(&self) -> Fill {
        let fills: Vec<Fill> = self.stages.iter().map(|stage| stage.fill()).collect();
        let bytes: usize = fills.iter().map(|fill| fill.bytes).sum();
        Fill {
            items: fills.iter().map(|fill| fill.items).sum(),
            capacity: fills.iter().map(|fill| fill.capacity).sum(),
            ratio: fills.iter().map(|fill| fill.ratio * fill.bytes as f64).sum::<f64>() / bytes.max(1) as f64,
            predicted_false_positive_rate: 1.0
                - fills.iter().map(|fill| 1.0 - fill.predicted_false_positive_rate).product::<f64>(),
            bytes,
            stages: fills.len() as u32,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        let stages = self.stages.iter().map(|stage| stage.copy()).collect();
        Box::new(Self { stages, make: Arc::clone(&self.make) })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&(self.stages.len() as u64).to_le_bytes())?;
        self.stages.iter().try_for_each(|stage| stage.save(to))
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let stages = read_u64(from)?;
        if !(1..=MAX_STAGES).contains(&stages) {
            return Err(super::misfit("stages", stages, MAX_STAGES));
        }
        self.stages.clear();
        for number in 0..stages as u32 {
            // One at a time: a number that was not written by us runs out of bytes before it runs out of memory.
            let mut stage = (self.make)(number);
            stage.load(from)?;
            self.stages.push(stage);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::BlockedFilter;
    use crate::filter::testing::{questions, urls};

    fn doubling(first: u64, rate: f64) -> Stages {
        Stages::new(Arc::new(move |number| {
            let rate = rate * 0.5_f64.powi(number.cast_signed() + 1);
            Box::new(BlockedFilter::with_rate(first << number, rate, [u64::from(number), 7]))
        }))
    }

    /// Almeida et al. 2007, §4: however far it grows, the compounded rate stays under its bound.
    #[test]
    fn it_grows_and_keeps_to_its_rate() {
        let (members, strangers) = (urls(0..60_000), urls(1_000_000..1_050_000));
        let mut filter = doubling(1000, 0.02);
        for page in questions(&members).chunks(97) {
            filter.ask_and_mark(page, &mut vec![false; page.len()]);
        }
        let fill = filter.fill();
        assert_eq!(fill.stages, 6, "1000 + 2000 + … + 32 000 hold 60 000");
        let mut maybe = vec![false; members.len()];
        filter.ask(&questions(&members), &mut maybe);
        assert!(maybe.iter().all(|maybe| *maybe), "members are found in whatever stage they are");
        let mut maybe = vec![false; strangers.len()];
        filter.ask(&questions(&strangers), &mut maybe);
        let wrong = maybe.iter().filter(|maybe| **maybe).count() as f64 / strangers.len() as f64;
        assert!(wrong < 0.02, "{wrong}");
        assert!((fill.predicted_false_positive_rate - wrong).abs() < 0.004, "{fill:?}, {wrong} measured");
        // Those it took for members when they were marked are not counted twice.
        assert!(fill.items <= 60_000 && fill.items > 58_000, "{fill:?}");
    }

    #[test]
    fn a_batch_may_fill_several_stages() {
        let members = urls(0..5000);
        let mut filter = doubling(100, 0.001);
        let mut maybe = vec![false; members.len()];
        filter.ask_and_mark(&questions(&members), &mut maybe);
        filter.mark(&questions(&urls(5000..6000)));
        assert!(filter.fill().stages >= 6);
        let mut again = vec![false; members.len()];
        filter.ask_and_mark(&questions(&members), &mut again);
        assert!(again.iter().all(|maybe| *maybe));
        let mut loaded = doubling(100, 0.001);
        let mut saved = Vec::new();
        filter.save(&mut saved).unwrap();
        loaded.load(&mut saved.as_slice()).unwrap();
        assert_eq!(loaded.fill(), filter.fill());
        assert!(loaded.load(&mut [0xff; 64].as_slice()).is_err(), "no filter has so many stages");
    }
}
