//! The report of the URL-seen test: filters beside other people's and beside the machine's limit, the
//! whole gate on a stream of links, and how a filter comes back.
//!
//! `just bench-url-cache` runs all of it and keeps the report under `benches/runs/`;
//! `just bench-url-cache filters --keys 1` a part.

mod filters;
mod gate;
mod goals;
mod keys;
mod lowlevel;
mod machine;
mod output;
mod process;
mod rebuild;
mod shape;
mod stores;
mod stream;
mod subjects;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};

use crate::output::Output;
use crate::process::Cell;
use crate::shape::Measures;
use crate::stores::Kind;
use crate::stream::{Shape, Stream, Web};

/// The report of the URL-seen test, as Markdown; numbers of keys, URLs and links are in millions.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    mode: Option<Mode>,
    /// The folder that gets `report.md` and `raw.jsonl`; both are appended to.
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    /// What cargo says to every benchmark.
    #[arg(long, global = true, hide = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Mode {
    /// Everything below, with the defaults.
    All,
    /// What inserts and questions cost, filter by filter, and the goals.
    Filters(FiltersMode),
    /// A stream of links through the whole gate, design by design.
    Gate(GateMode),
    /// A filter made again from its store, from keys, and from its copy.
    Rebuild(RebuildMode),
    /// The shape of a made stream, and of a recorded one beside it.
    Stream(StreamMode),
    #[command(hide = true)]
    FillStore(Cell),
    #[command(hide = true)]
    RunGate(Cell),
    #[command(hide = true)]
    RunRebuild(Cell),
}

#[derive(Args)]
struct FiltersMode {
    /// Keys in the filter.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 10.0, 50.0])]
    keys: Vec<f64>,
    /// False-positive rates.
    #[arg(long, value_delimiter = ',', default_values_t = [0.01, 0.001])]
    rates: Vec<f64>,
    /// Questions per cell.
    #[arg(long, default_value_t = 10.0)]
    questions: f64,
    /// How often everything is measured; the best counts.
    #[arg(long, default_value_t = 3)]
    passes: u32,
    /// Only rows whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

#[derive(Args)]
struct GateMode {
    /// URLs known before the stream begins.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 10.0, 50.0])]
    known: Vec<f64>,
    /// Links offered.
    #[arg(long, default_value_t = 10.0)]
    links: f64,
    /// A recorded stream instead of a made one.
    #[arg(long)]
    stream: Option<PathBuf>,
    /// Only these stores.
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<Kind>,
    /// The folder on the disk to be measured.
    #[arg(long)]
    work: Option<PathBuf>,
}

#[derive(Args)]
struct RebuildMode {
    /// Keys in the filter and in the store.
    #[arg(long, value_delimiter = ',', default_values_t = [10.0])]
    keys: Vec<f64>,
    /// Only these stores.
    #[arg(long, value_enum, value_delimiter = ',')]
    stores: Vec<Kind>,
    /// The folder on the disk to be measured.
    #[arg(long)]
    work: Option<PathBuf>,
}

#[derive(Args)]
struct StreamMode {
    /// URLs known before the made stream begins.
    #[arg(long, default_value_t = 10.0)]
    known: f64,
    /// Links of the streams.
    #[arg(long, default_value_t = 10.0)]
    links: f64,
    /// A recorded stream.
    #[arg(long)]
    stream: Option<PathBuf>,
    /// Writes the made stream to a file, in the form of a recorded one. To the gate it is none: its URLs
    /// are those that the gate's runs take for known.
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let Some(mode) = arguments.mode else {
        // `cargo bench --workspace` runs every benchmark without arguments; this one takes an hour.
        return writeln!(io::stdout(), "no part of the report was asked for: see `just bench-url-cache --help`");
    };
    // A process of its own prints its figures and nothing else.
    match mode {
        Mode::FillStore(cell) => return print(&fill_store(&cell)),
        Mode::RunGate(cell) => return print(&gate::run(&cell)),
        Mode::RunRebuild(cell) => return print(&rebuild::run(&cell)),
        _ => {}
    }
    let mut output = Output::new(arguments.out.as_deref())?;
    let (command, machine) = (command_line(), machine::description());
    output.text(&format!("URL-seen test, report `{command}` on {machine}."));
    output.raw(&serde_json::json!({"mode": "machine", "command": command, "machine": machine}));
    report(&mut output, mode)
}

fn report(output: &mut Output, mode: Mode) -> io::Result<()> {
    match mode {
        Mode::All => {
            for mode in ["filters", "stream", "gate", "rebuild"] {
                let arguments = Arguments::parse_from(["report", mode]);
                arguments.mode.map_or(Ok(()), |mode| report(output, mode))?;
            }
        }
        Mode::Filters(mode) => {
            let (keys, questions) = (each_million(&mode.keys), million(mode.questions));
            filters::report(output, &keys, &mode.rates, questions, mode.passes, &mode.only);
        }
        Mode::Gate(mode) => {
            let (known, links) = (each_million(&mode.known), million(mode.links) as usize);
            gate::report(output, &known, links, mode.stream.as_deref(), &mode.stores, &work(mode.work));
        }
        Mode::Rebuild(mode) => rebuild::report(output, &each_million(&mode.keys), &mode.stores, &work(mode.work)),
        Mode::Stream(mode) => {
            let links = million(mode.links) as usize;
            let mut web = Web::new(Shape::default(), million(mode.known));
            let made = web.stream(links);
            if let Some(path) = &mode.write {
                made.write(path)?;
            }
            let mut streams = vec![("made", Measures::of(&made, Some(web.found() as usize)))];
            if let Some(path) = &mode.stream {
                streams.push(("recorded", Measures::of(&Stream::read(path, links)?, None)));
            }
            shape::report(output, &streams);
        }
        Mode::FillStore(_) | Mode::RunGate(_) | Mode::RunRebuild(_) => {}
    }
    Ok(())
}

/// Fills a store with known URLs, and says how many seconds it took.
fn fill_store(cell: &Cell) -> f64 {
    let web = Web::new(Shape::default(), cell.known);
    let start = Instant::now();
    stores::fill(cell.kind, &cell.folder, web.known());
    start.elapsed().as_secs_f64()
}

fn print(figures: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(io::stdout(), figures)?;
    io::stdout().flush()
}

fn command_line() -> String {
    env::args().skip(1).filter(|argument| argument != "--bench").collect::<Vec<_>>().join(" ")
}

fn million(millions: f64) -> u64 {
    (millions * 1e6) as u64
}

fn each_million(millions: &[f64]) -> Vec<u64> {
    millions.iter().copied().map(million).collect()
}

fn work(folder: Option<PathBuf>) -> PathBuf {
    folder.unwrap_or_else(env::temp_dir)
}
