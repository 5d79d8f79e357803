//! Mode `filters`: what an insert and a question cost, beside the machine's own limit.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use url_cache::{BlockedFilter, Filter};

use crate::goals;
use crate::keys::{STRANGERS, hash};
use crate::machine::LineFetch;
use crate::output::Output;
use crate::subjects::{SEEDS, Subject, rows};

/// Questions in a batch.
const BATCH: usize = 32;

/// One question per call.
const SINGLE: usize = 1;

/// Hashes made in advance, as a crawler's parse threads make them: asking then reads them in sequence.
#[derive(Debug)]
pub(crate) struct Hashes {
    /// In the order in which they are inserted.
    members: Vec<u128>,
    strangers: Vec<u128>,
}

impl Hashes {
    fn new(keys: u64, questions: u64) -> Self {
        let strangers = (0..questions).map(|number| hash(STRANGERS + number)).collect();
        Self { members: (0..keys).map(hash).collect(), strangers }
    }

    /// Some members to ask about, from a place on. They were inserted in the order of their numbers, which
    /// is no order in the table.
    fn members(&self, start: u64, count: u64) -> &[u128] {
        let start = start as usize % self.members.len();
        let count = (count as usize).min(self.members.len() - start);
        &self.members[start..start + count]
    }
}

/// What is measured in one table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'h> {
    pub(crate) hashes: &'h Hashes,
    /// Members.
    pub(crate) keys: u64,
    /// The false-positive rate the filters are made for.
    pub(crate) rate: f64,
    /// Questions per cell.
    pub(crate) questions: u64,
}

/// What is done, with how many threads, in batches or one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) threads: u64,
    pub(crate) action: Action,
    pub(crate) batch: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Insert,
    /// A question about a member.
    Positive,
    /// A question about a stranger.
    Negative,
}

impl Cell {
    pub(crate) const fn one(action: Action, batch: usize) -> Self {
        Self { threads: 1, action, batch }
    }

    fn all() -> impl Iterator<Item = Self> {
        [1, 2].into_iter().flat_map(|threads| {
            [Action::Insert, Action::Positive, Action::Negative]
                .into_iter()
                .flat_map(move |action| [SINGLE, BATCH].map(|batch| Self { threads, action, batch }))
        })
    }

    fn name(self) -> String {
        let action = match self.action {
            Action::Insert => "insert",
            Action::Positive => "positive",
            Action::Negative => "negative",
        };
        let batch = if self.batch == SINGLE { String::new() } else { format!(" ×{}", self.batch) };
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        format!("{action}{batch}{threads}")
    }
}

/// A row's figures: the best of the passes made so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// Nanoseconds for each cell that the row has.
    pub(crate) nanoseconds: BTreeMap<Cell, f64>,
    pub(crate) bits_per_key: f64,
    /// Share of strangers taken for members.
    pub(crate) rate: f64,
    /// Share of members found: 1 but for filters that forget.
    pub(crate) found: f64,
}

impl Measured {
    fn record(&mut self, cell: Cell, elapsed: Duration, count: u64) {
        let nanoseconds = elapsed.as_nanos() as f64 / count as f64;
        self.nanoseconds.entry(cell).and_modify(|best| *best = best.min(nanoseconds)).or_insert(nanoseconds);
    }

    pub(crate) fn get(&self, action: Action, batch: usize) -> Option<f64> {
        self.nanoseconds.get(&Cell::one(action, batch)).copied()
    }
}

type Pass = Box<dyn Fn(&Plan<'_>, &mut Measured)>;

/// A line of the table: its name, and how one pass of it is measured.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pass: Pass,
}

/// A row whose questions two threads may ask together.
pub(crate) fn row<S: Subject + Sync>(name: &'static str, make: impl Fn(u64, f64) -> S + Sync + 'static) -> Row {
    Row { name, pass: Box::new(move |plan, measured| pass(plan, measured, &make, Some(questions_by_two::<S>))) }
}

fn pass<S: Subject>(
    plan: &Plan<'_>,
    measured: &mut Measured,
    make: &(impl Fn(u64, f64) -> S + Sync),
    by_two: Option<fn(&S, &Plan<'_>, &mut Measured)>,
) {
    if S::BATCHES {
        let mut subject = make(plan.keys, plan.rate);
        let elapsed = insert::<S, BATCH>(&mut subject, &plan.hashes.members);
        measured.record(Cell::one(Action::Insert, BATCH), elapsed, plan.keys);
        insert_by_two::<S, BATCH>(plan, measured, make);
    }
    insert_by_two::<S, SINGLE>(plan, measured, make);
    let mut subject = make(plan.keys, plan.rate);
    let elapsed = insert::<S, SINGLE>(&mut subject, &plan.hashes.members);
    measured.record(Cell::one(Action::Insert, SINGLE), elapsed, plan.keys);
    measured.bits_per_key = subject.bytes() as f64 * 8.0 / plan.keys as f64;

    questions::<S, SINGLE>(&subject, plan, measured);
    if S::BATCHES {
        questions::<S, BATCH>(&subject, plan, measured);
    }
    if let Some(by_two) = by_two {
        by_two(&subject, plan, measured);
    }
}

fn insert<S: Subject, const N: usize>(subject: &mut S, hashes: &[u128]) -> Duration {
    let start = Instant::now();
    let (batches, rest) = hashes.as_chunks::<N>();
    for batch in batches {
        subject.insert(batch);
    }
    for hash in rest {
        subject.insert(&[*hash]);
    }
    start.elapsed()
}

/// Two shards, each with one owner, of half the keys each.
fn insert_by_two<S: Subject, const N: usize>(
    plan: &Plan<'_>,
    measured: &mut Measured,
    make: &(impl Fn(u64, f64) -> S + Sync),
) {
    let half = plan.keys / 2;
    let mut shards = [make(half, plan.rate), make(half, plan.rate)];
    let start = Instant::now();
    thread::scope(|scope| {
        for (number, shard) in (0..).zip(&mut shards) {
            scope.spawn(move || insert::<S, N>(shard, plan.hashes.members(number * half, half)));
        }
    });
    measured.record(Cell { threads: 2, action: Action::Insert, batch: N }, start.elapsed(), half * 2);
}

/// How many of them are "maybe".
fn ask<S: Subject, const N: usize>(subject: &S, hashes: &[u128]) -> u64 {
    let (batches, rest) = hashes.as_chunks::<N>();
    let in_batches: u64 = batches.iter().map(|batch| subject.ask(batch)).sum();
    in_batches + rest.iter().map(|hash| subject.ask(&[*hash])).sum::<u64>()
}

fn questions<S: Subject, const N: usize>(subject: &S, plan: &Plan<'_>, measured: &mut Measured) {
    let members = plan.hashes.members(0, plan.questions);
    let start = Instant::now();
    let found = ask::<S, N>(subject, members);
    measured.record(Cell::one(Action::Positive, N), start.elapsed(), members.len() as u64);
    let start = Instant::now();
    let wrong = ask::<S, N>(subject, &plan.hashes.strangers);
    measured.record(Cell::one(Action::Negative, N), start.elapsed(), plan.questions);
    measured.found = found as f64 / members.len() as f64;
    measured.rate = wrong as f64 / plan.questions as f64;
}

fn questions_by_two<S: Subject + Sync>(subject: &S, plan: &Plan<'_>, measured: &mut Measured) {
    let half = plan.questions.min(plan.keys) / 2;
    let mut cell = |action, batch, ask: &(dyn Fn(u64) -> u64 + Sync)| {
        let elapsed = two_threads(|thread| black_box(ask(thread)));
        measured.record(Cell { threads: 2, action, batch }, elapsed, half * 2);
    };
    let members = |thread: u64| plan.hashes.members(thread * (plan.keys / 2), half);
    let strangers = |thread: u64| &plan.hashes.strangers[(thread * half) as usize..][..half as usize];
    cell(Action::Positive, SINGLE, &|thread| ask::<S, SINGLE>(subject, members(thread)));
    cell(Action::Negative, SINGLE, &|thread| ask::<S, SINGLE>(subject, strangers(thread)));
    if S::BATCHES {
        cell(Action::Positive, BATCH, &|thread| ask::<S, BATCH>(subject, members(thread)));
        cell(Action::Negative, BATCH, &|thread| ask::<S, BATCH>(subject, strangers(thread)));
    }
}

/// The time from when both threads are there until both are done.
fn two_threads<R: Send>(work: impl Fn(u64) -> R + Sync) -> Duration {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            barrier.wait();
            work(1)
        });
        barrier.wait();
        let start = Instant::now();
        work(0);
        other.join().map(|_| start.elapsed()).expect("the other thread does not panic")
    })
}

/// The machine's limit at the size of the blocked filter, in nanoseconds per line; the best of the passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) by_32: f64,
    pub(crate) called_by_32: f64,
    by_64: f64,
    by_32_two_threads: f64,
    dependent: f64,
}

impl Limit {
    const UNKNOWN: Self = Self {
        by_32: f64::INFINITY,
        called_by_32: f64::INFINITY,
        by_64: f64::INFINITY,
        by_32_two_threads: f64::INFINITY,
        dependent: f64::INFINITY,
    };

    fn pass(&mut self, plan: &Plan<'_>) {
        let table = LineFetch::new(BlockedFilter::with_rate(plan.keys, plan.rate, SEEDS).fill().bytes);
        let (hashes, reads) = (&plan.hashes.strangers, plan.questions);
        let best = |best: &mut f64, elapsed: Duration, reads: u64| {
            *best = best.min(elapsed.as_nanos() as f64 / reads as f64);
        };
        best(&mut self.by_32, table.batched::<32>(hashes), reads);
        best(&mut self.called_by_32, table.called::<32>(hashes), reads);
        best(&mut self.by_64, table.batched::<64>(hashes), reads);
        let halves = hashes.split_at(hashes.len() / 2);
        let half = |thread| if thread == 0 { halves.0 } else { halves.1 };
        best(&mut self.by_32_two_threads, two_threads(|thread| table.batched::<32>(half(thread))), reads);
        best(&mut self.dependent, table.dependent(&hashes[..hashes.len() / 8]), reads / 8);
    }
}

/// Prints a table for every number of keys and every rate, then the goals at the last number of keys
/// and the strictest rate.
pub(crate) fn report(output: &mut Output, keys: &[u64], rates: &[f64], questions: u64, passes: u32, only: &[String]) {
    // Whole batches for two threads.
    let questions = (questions / 2 / BATCH as u64).max(1) * 2 * BATCH as u64;
    let wanted = |row: &Row| only.is_empty() || only.iter().any(|name| row.name.starts_with(name));
    let rows: Vec<Row> = rows().into_iter().filter(wanted).collect();
    let mut last = None;
    for keys in keys {
        let hashes = Hashes::new(*keys, questions);
        for rate in rates {
            let plan = Plan { hashes: &hashes, keys: *keys, rate: *rate, questions };
            let (measured, limit) = measure(&plan, &rows, passes);
            print(output, &plan, &rows, &measured, limit);
            last = Some((*keys, *rate, measured, limit));
        }
    }
    if let Some((keys, rate, measured, limit)) = last {
        let named: BTreeMap<&str, &Measured> = rows.iter().map(|row| row.name).zip(&measured).collect();
        goals::report(output, keys, rate, &named, limit);
    }
}

/// Every row in turn, then every row again: what disturbs the machine for a while disturbs them all.
fn measure(plan: &Plan<'_>, rows: &[Row], passes: u32) -> (Vec<Measured>, Limit) {
    let mut measured = vec![Measured::default(); rows.len()];
    let mut limit = Limit::UNKNOWN;
    for _ in 0..passes.max(1) {
        for (row, measured) in rows.iter().zip(&mut measured) {
            (row.pass)(plan, measured);
        }
        limit.pass(plan);
    }
    (measured, limit)
}

fn print(output: &mut Output, plan: &Plan<'_>, rows: &[Row], measured: &[Measured], limit: Limit) {
    output.title(&format!("Filters: {} million keys, ε = {} %", plan.keys as f64 / 1e6, plan.rate * 100.0));
    output.text("Nanoseconds per key, the best of the passes; an empty cell: no such call.");
    let mut head = vec!["filter".to_owned(), "bits/key".to_owned(), "measured ε".to_owned(), "found".to_owned()];
    head.extend(Cell::all().map(Cell::name));
    output.head(&head);
    for (row, measured) in rows.iter().zip(measured) {
        let mut line = vec![row.name.to_owned(), format!("{:.2}", measured.bits_per_key)];
        line.push(format!("{:.4} %", measured.rate * 100.0));
        line.push(format!("{:.4} %", measured.found * 100.0));
        line.extend(
            Cell::all().map(|cell| measured.nanoseconds.get(&cell).map_or(String::new(), |ns| format!("{ns:.1}"))),
        );
        output.line(&line);
        let cells: BTreeMap<String, f64> =
            measured.nanoseconds.iter().map(|(cell, nanoseconds)| (cell.name(), *nanoseconds)).collect();
        output.raw(&json!({
            "mode": "filters", "row": row.name, "keys": plan.keys, "rate": plan.rate, "questions": plan.questions,
            "bits_per_key": measured.bits_per_key, "measured_rate": measured.rate, "found": measured.found,
            "nanoseconds": cells,
        }));
    }
    output.text(&format!(
        "Line fetch from a table of the blocked filter's size: {:.1} ns ×32 with a call for each batch, {:.1} ns ×32 in one \
         loop, {:.1} ns ×64, {:.1} ns ×32 by two threads, {:.1} ns one by one, each place depending on the line before.",
        limit.called_by_32, limit.by_32, limit.by_64, limit.by_32_two_threads, limit.dependent
    ));
    output.raw(&json!({
        "mode": "line fetch", "keys": plan.keys, "rate": plan.rate, "by_32": limit.by_32, "called_by_32": limit.called_by_32, "by_64": limit.by_64,
        "by_32_two_threads": limit.by_32_two_threads, "dependent": limit.dependent,
    }));
}
