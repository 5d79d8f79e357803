//! Parts of the report that run in a process of their own.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use serde::de::DeserializeOwned;

use crate::gate::Tiers;
use crate::stores::Kind;

/// What such a process is told: one design, and the folder of its store.
#[derive(Debug, Clone, Args)]
pub(crate) struct Cell {
    /// The store.
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// What stands in front of it.
    #[arg(long, value_enum)]
    pub(crate) tiers: Tiers,
    /// Known URLs.
    #[arg(long)]
    pub(crate) known: u64,
    /// Links offered.
    #[arg(long)]
    pub(crate) links: usize,
    /// A recorded stream.
    #[arg(long)]
    pub(crate) stream: Option<PathBuf>,
    /// Where the store is.
    #[arg(long)]
    pub(crate) folder: PathBuf,
}

/// Runs this program with a hidden command, and reads the JSON that it prints.
pub(crate) fn run<T: DeserializeOwned>(command: &str, cell: &Cell) -> T {
    let mut child = Command::new(env::current_exe().expect("this program has a path"));
    child.args([command, "--kind", cell.kind.name(), "--tiers", cell.tiers.name()]);
    child.args(["--known", &cell.known.to_string(), "--links", &cell.links.to_string()]);
    child.arg("--folder").arg(&cell.folder);
    if let Some(stream) = &cell.stream {
        child.arg("--stream").arg(stream);
    }
    let done = child.stderr(Stdio::inherit()).output().expect("this program can be started");
    assert!(done.status.success(), "{command} failed for {cell:?}");
    serde_json::from_slice(&done.stdout).expect("it prints one value")
}
