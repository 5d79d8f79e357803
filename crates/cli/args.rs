//! What a user types.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// A web crawler for one machine: fast where it can be, never wrong where it matters.
#[derive(Debug, Parser)]
#[command(name = "argiope", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

const EXIT_CODES: &str = "Exit codes: 0 finished; 1 failed; 2 wrong arguments or configuration, nothing was touched; \
3 stopped at a limit, resumable; 4 finished, but nothing could be fetched from any seed; \
130 interrupted (Ctrl-C), saved, resumable.";

/// Options of every command.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Global {
    /// Say only what went wrong.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what is being done; twice for every fetch.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Colours in messages.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
    /// The form of messages on standard error.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// The form of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a small web on loopback from inside the program, and crawl it. Needs no network.
    Demo(Demo),
    /// Start a crawl, or resume it where it stopped.
    Crawl(Crawl),
    /// Start the next visit of a finished job: every page is visited again, and the filter gets new seeds.
    Recrawl(Recrawl),
    /// Show where a job stands.
    Status(Status),
    /// Explain what became of a URL, and why.
    Why(Why),
    /// Write a job's pages in another format.
    Export(Export),
    /// Show the defaults, check a file, or show the effective configuration.
    #[command(subcommand)]
    Config(Config),
}

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// The job's folder; by default a new one below `jobs`.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: Option<PathBuf>,
    /// Pages of the web that is served.
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<u32>,
    #[command(flatten)]
    pub(crate) layers: Layers,
}

/// Layers of configuration, later over earlier.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Layers {
    /// A configuration file; a later one overlays an earlier one.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// One value, such as politeness.min_delay=2s.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Allow loopback, private, link-local and other special addresses.
    #[arg(long)]
    pub(crate) allow_private: bool,
}

/// Arguments of `crawl`.
#[derive(Debug, clap::Args)]
pub(crate) struct Crawl {
    /// Where to begin. A job that has seeds already needs none.
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// A file of URLs, one a line; `#` begins a comment; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) seeds: Vec<PathBuf>,
    /// The job's folder; by default `jobs/` and the first seed's host.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layers: Layers,
}

/// Arguments of `recrawl`.
#[derive(Debug, clap::Args)]
pub(crate) struct Recrawl {
    /// The job's folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    #[command(flatten)]
    pub(crate) layers: Layers,
}

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The job's folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `why`.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// The URL to explain.
    pub(crate) url: String,
    /// The job's folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The job's folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    /// The format.
    #[arg(long)]
    pub(crate) format: Format,
    /// Where to write; by default standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Formats of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object per page and line.
    Jsonl,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print every key with its default and what it does.
    Default,
    /// Check files, each laid over those before.
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the effective configuration, and where each value came from.
    Show {
        /// Show that of this job.
        #[arg(long, value_name = "DIR")]
        job: Option<PathBuf>,
        #[command(flatten)]
        layers: Layers,
    },
}
