//! Mode `gate`: a stream of links through the whole gate.
//!
//! Each design runs in a process of its own, so that memory and processor time are its own, on a copy
//! of a store that was filled before.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;
use model::UrlKey;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url_cache::{Counts, Filter, Judge, NoFilter, Question, SeenStore, UrlCache, UrlCacheConfig, Verdict, Visit};

use crate::machine::{cpu_seconds, disk_bytes, memory_bytes};
use crate::output::Output;
use crate::process::{self, Cell};
use crate::shape::Measures;
use crate::stores::{self, Kind, Opened, RUN};
use crate::stream::{Shape, Stream, Web};

/// Pages whose new links may wait for the writer.
const WAITING_PAGES: usize = 256;

/// Runs that may wait until the gate hears that they are stored. The gate listens after every page, and
/// a run is many pages, so the writer never waits for a gate that waits for the writer.
const WAITING_REPORTS: usize = 4;

/// Keys marked at once when a filter is made again.
const MARKED_AT_ONCE: usize = 1024;

/// What stands in front of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tiers {
    /// Nothing.
    Store,
    /// A filter.
    Filter,
    /// The recent cache and a filter: the default configuration.
    Recent,
}

impl Tiers {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Filter => "filter",
            Self::Recent => "recent",
        }
    }
}

/// What one design was measured to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GateRun {
    pub(crate) links: usize,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) counts: Counts,
    /// Opening the store.
    pub(crate) open_seconds: f64,
    /// Reading the whole store and marking its keys in the filter.
    pub(crate) rebuild_seconds: f64,
    pub(crate) disk_bytes: u64,
    /// Memory at the end, above what the process held with the stream alone.
    pub(crate) resident_bytes: u64,
    pub(crate) peak_bytes: u64,
}

/// The filter of the designs that have one: the default configuration's, which grows.
pub(crate) fn filter() -> Box<dyn Filter> {
    UrlCacheConfig::default().build_filter(&Visit::FIRST)
}

/// Marks keys in a filter, which come one by one.
pub(crate) struct Marker<'f> {
    filter: &'f mut dyn Filter,
    waiting: Vec<Question<'static>>,
}

impl<'f> Marker<'f> {
    pub(crate) fn new(filter: &'f mut dyn Filter) -> Self {
        Self { filter, waiting: Vec::with_capacity(MARKED_AT_ONCE) }
    }

    pub(crate) fn push(&mut self, key: UrlKey) {
        self.waiting.push(Question { key, url: "" });
        if self.waiting.len() == MARKED_AT_ONCE {
            self.finish();
        }
    }

    pub(crate) fn finish(&mut self) {
        self.filter.mark(&self.waiting);
        self.waiting.clear();
    }
}

/// The stream of a run, and how many of its URLs are new.
pub(crate) fn stream(known: u64, links: usize, recorded: Option<&Path>) -> (Stream, u64) {
    let mut web = Web::new(Shape::default(), known);
    if let Some(path) = recorded {
        // Nothing of a recorded stream is known: the known URLs are of other hosts.
        let stream = Stream::read(path, links).expect("the recorded stream can be read").interleaved(links);
        let new = Measures::of(&stream, None).distinct as u64;
        return (stream, new);
    }
    let stream = web.stream(links);
    let new = web.found();
    (stream, new)
}

/// Runs one design on the store of a folder: what the process of its own does.
pub(crate) fn run(cell: &Cell) -> GateRun {
    let (stream, new) = stream(cell.known, cell.links, cell.stream.as_deref());
    let memory_before = memory_bytes("VmRSS");
    if cell.kind == Kind::OneByOne {
        return one_by_one(cell, &stream, new, memory_before);
    }
    let start = Instant::now();
    let Opened { store, flush } = stores::open(cell.kind, &cell.folder);
    let open_seconds = start.elapsed().as_secs_f64();

    let (recent, mut filter) = match cell.tiers {
        Tiers::Store => (0, Box::new(NoFilter) as Box<dyn Filter>),
        Tiers::Filter => (0, filter()),
        Tiers::Recent => (UrlCacheConfig::default().recent, filter()),
    };
    // The store alone is read too, so that every design starts with the same in memory.
    let start = Instant::now();
    let mut marker = Marker::new(&mut *filter);
    store.scan(&mut |key| marker.push(key)).expect("the store can be read");
    marker.finish();
    let rebuild_seconds = start.elapsed().as_secs_f64();

    let mut gate = UrlCache::new(filter, recent, Judge::Store(Arc::clone(&store)), Vec::new());
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    offer(&mut gate, &*store, &stream);
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_start);
    assert_eq!(gate.counts().new_urls(), new, "each new URL is admitted once, and no other");
    assert_eq!(gate.pending(), 0, "everything admitted was stored");
    let resident_bytes = memory_bytes("VmRSS").saturating_sub(memory_before);
    flush();
    GateRun {
        links: stream.links().len(),
        seconds,
        cpu_seconds,
        counts: gate.counts(),
        open_seconds,
        rebuild_seconds,
        disk_bytes: disk_bytes(&cell.folder),
        resident_bytes,
        peak_bytes: memory_bytes("VmHWM").saturating_sub(memory_before),
    }
}

/// Offers every page to the gate, with the store's writer in a thread of its own, until all is stored.
fn offer(gate: &mut UrlCache, store: &dyn SeenStore, stream: &Stream) {
    let (admit, admitted) = sync_channel(WAITING_PAGES);
    let (report, reports) = sync_channel::<Vec<UrlKey>>(WAITING_REPORTS);
    thread::scope(|scope| {
        scope.spawn(move || write(store, &admitted, &report));
        let (mut questions, mut verdicts) = (Vec::new(), Vec::new());
        for page in stream.pages() {
            questions.clear();
            questions.extend(page.iter().map(|key| Question { key: *key, url: "" }));
            gate.ask_and_mark(&questions, &mut verdicts).expect("the store can be read");
            let new = page.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::New);
            let new: Vec<UrlKey> = new.map(|(key, _)| *key).collect();
            if !new.is_empty() {
                admit.send(new).expect("the writer lives until the last page");
            }
            for keys in reports.try_iter() {
                gate.stored(&keys);
            }
        }
        drop(admit);
        for keys in reports {
            gate.stored(&keys);
        }
    });
}

/// Sorts runs of new keys and stores them, until no more come.
fn write(store: &dyn SeenStore, admitted: &Receiver<Vec<UrlKey>>, report: &SyncSender<Vec<UrlKey>>) {
    let mut run = Vec::with_capacity(RUN);
    let store_run = |run: &mut Vec<UrlKey>| {
        run.sort_unstable();
        store.insert(run).expect("the store can be written");
        let stored = std::mem::replace(run, Vec::with_capacity(RUN));
        report.send(stored).expect("the gate listens until the writer ends");
    };
    for keys in admitted {
        run.extend(keys);
        if run.len() >= RUN {
            store_run(&mut run);
        }
    }
    store_run(&mut run);
}

/// The baseline: no gate, every link looked up in sled and written when it is not there.
fn one_by_one(cell: &Cell, stream: &Stream, new: u64, memory_before: u64) -> GateRun {
    let start = Instant::now();
    let db = stores::open_sled(&cell.folder);
    let open_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let held = db.iter().flatten().count();
    let rebuild_seconds = start.elapsed().as_secs_f64();
    assert_eq!(held as u64, cell.known, "the store was filled");

    let (start, cpu_start, mut counts) = (Instant::now(), cpu_seconds(), Counts::default());
    for link in stream.links() {
        counts.asked += 1;
        if db.contains_key(link.as_bytes()).expect("the database can be read") {
            counts.store_seen += 1;
        } else {
            counts.store_new += 1;
            db.insert(link.as_bytes(), &[]).expect("the database can be written");
        }
    }
    let (seconds, cpu_seconds) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_start);
    assert_eq!(counts.new_urls(), new, "each new URL is admitted once, and no other");
    let resident_bytes = memory_bytes("VmRSS").saturating_sub(memory_before);
    db.flush().expect("the database can be written");
    GateRun {
        links: stream.links().len(),
        seconds,
        cpu_seconds,
        counts,
        open_seconds,
        rebuild_seconds,
        disk_bytes: disk_bytes(&cell.folder),
        resident_bytes,
        peak_bytes: memory_bytes("VmHWM").saturating_sub(memory_before),
    }
}

/// What is run for each number of known URLs.
const DESIGNS: [(Kind, &[Tiers]); 3] = [
    (Kind::OneByOne, &[Tiers::Store]),
    (Kind::Sled, &[Tiers::Store, Tiers::Filter, Tiers::Recent]),
    (Kind::Redb, &[Tiers::Store, Tiers::Filter, Tiers::Recent]),
];

/// Prints a table for every number of known URLs. Stores are filled below `work`.
pub(crate) fn report(
    output: &mut Output,
    known: &[u64],
    links: usize,
    recorded: Option<&Path>,
    kinds: &[Kind],
    work: &Path,
) {
    for known in known {
        output.title(&format!(
            "The gate: {} million links, {} million known URLs",
            links / MILLION,
            *known as f64 / 1e6
        ));
        output.head(&COLUMNS.map(str::to_owned));
        for (kind, designs) in DESIGNS.iter().filter(|(kind, _)| kinds.is_empty() || kinds.contains(kind)) {
            let filled = tempfile::tempdir_in(work).expect("the work folder can be written");
            let cell = |tiers, folder: &Path| Cell {
                kind: *kind,
                tiers,
                known: *known,
                links,
                stream: recorded.map(Path::to_path_buf),
                folder: folder.to_path_buf(),
            };
            let fill_seconds: f64 = process::run("fill-store", &cell(Tiers::Store, filled.path()));
            for tiers in *designs {
                let copy = tempfile::tempdir_in(work).expect("the work folder can be written");
                stores::copy_folder(filled.path(), copy.path()).expect("the store can be copied");
                let run: GateRun = process::run("run-gate", &cell(*tiers, copy.path()));
                line(output, *kind, *tiers, *known, fill_seconds, &run);
            }
        }
        output.text(
            "Wall and processor time end when the last new URL is stored. Memory is what the process holds above the \
             stream itself; memory and disk are per URL, known and new. Filling: sorted runs of 64 Ki keys in random order \
             (the baseline: one by one). Rebuild: the whole store read and marked in the filter.",
        );
    }
}

const MILLION: usize = 1_000_000;

const COLUMNS: [&str; 15] = [
    "design",
    "M links/s",
    "M links/CPU s",
    "ns/link",
    "recent %",
    "filter new %",
    "pending %",
    "store seen %",
    "store new %",
    "new wrongly maybe %",
    "disk B/URL",
    "memory B/URL",
    "peak B/URL",
    "filling ns/key",
    "rebuild ns/key",
];

fn line(output: &mut Output, kind: Kind, tiers: Tiers, known: u64, fill_seconds: f64, run: &GateRun) {
    let design = match (kind, tiers) {
        (Kind::OneByOne, _) => "sled, one key per URL, one by one".to_owned(),
        (kind, Tiers::Store) => format!("{} alone", kind.name()),
        (kind, Tiers::Filter) => format!("filter, {}", kind.name()),
        (kind, Tiers::Recent) => format!("recent, filter, {}", kind.name()),
    };
    let (links, counts) = (run.links as f64, &run.counts);
    let urls = (known + counts.new_urls()) as f64;
    let wrong = format!("{:.3}", counts.observed_false_positive_rate().unwrap_or_default() * 100.0);
    let share = |count: u64| format!("{:.2}", count as f64 * 100.0 / links);
    output.line(&[
        design,
        format!("{:.2}", links / run.seconds / 1e6),
        format!("{:.2}", links / run.cpu_seconds / 1e6),
        format!("{:.0}", run.seconds * 1e9 / links),
        share(counts.recent),
        share(counts.filter_new),
        share(counts.pending),
        share(counts.store_seen),
        share(counts.store_new),
        // Without a filter every answer is "maybe", which says nothing.
        if tiers == Tiers::Store { String::new() } else { wrong },
        format!("{:.0}", run.disk_bytes as f64 / urls),
        format!("{:.0}", run.resident_bytes as f64 / urls),
        format!("{:.0}", run.peak_bytes as f64 / urls),
        format!("{:.0}", fill_seconds * 1e9 / known as f64),
        format!("{:.0}", run.rebuild_seconds * 1e9 / known as f64),
    ]);
    output.raw(&json!({
        "mode": "gate", "store": kind.name(), "tiers": tiers.name(), "known": known, "fill_seconds": fill_seconds,
        "run": run,
    }));
}
