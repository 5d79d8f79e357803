//! Mode `rebuild`: how a filter comes back, from its store, from a list of keys, or from its copy.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::gate::{self, Marker, Tiers};
use crate::output::Output;
use crate::process::{self, Cell};
use crate::stores::{self, Kind};
use crate::stream::{Shape, Web};

/// Seconds for each step.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rebuild {
    open: f64,
    scan: f64,
    list: f64,
    copy: f64,
    save: f64,
    load: f64,
    /// Of the saved filter.
    bytes: u64,
}

/// Runs the steps with the store of a folder: what the process of its own does.
pub(crate) fn run(cell: &Cell) -> Rebuild {
    let seconds = |start: Instant| start.elapsed().as_secs_f64();
    let start = Instant::now();
    let store = stores::open(cell.kind, &cell.folder).store;
    let open = seconds(start);

    let mut scanned = gate::filter();
    let start = Instant::now();
    let mut marker = Marker::new(&mut *scanned);
    store.scan(&mut |key| marker.push(key)).expect("the store can be read");
    marker.finish();
    let scan = seconds(start);
    assert_eq!(scanned.fill().items, cell.known, "the scan visits every key once");

    let keys: Vec<_> = Web::new(Shape::default(), cell.known).known().collect();
    let mut listed = gate::filter();
    let start = Instant::now();
    let mut marker = Marker::new(&mut *listed);
    for key in &keys {
        marker.push(*key);
    }
    marker.finish();
    let list = seconds(start);

    let start = Instant::now();
    let copied = listed.copy();
    let copy = seconds(start);
    let path = cell.folder.join("filter-copy");
    let start = Instant::now();
    let mut file = BufWriter::new(File::create(&path).expect("the folder can be written"));
    copied.save(&mut file).expect("the copy can be written");
    file.flush().expect("the copy can be written");
    file.get_ref().sync_all().expect("the copy can be made durable");
    let save = seconds(start);

    let mut loaded = gate::filter();
    let start = Instant::now();
    loaded.load(&mut BufReader::new(File::open(&path).expect("it is there"))).expect("it is whole");
    let load = seconds(start);
    assert_eq!(loaded.fill(), listed.fill(), "what was loaded is what was saved");
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    Rebuild { open, scan, list, copy, save, load, bytes }
}

/// Prints a table for every number of keys.
pub(crate) fn report(output: &mut Output, keys: &[u64], kinds: &[Kind], work: &Path) {
    for keys in keys {
        output.title(&format!("A filter of {} million keys made again", *keys as f64 / 1e6));
        let head = ["store", "open, s", "scan ns/key", "list ns/key", "copy ms", "save and sync ms", "load ms", "MB"];
        output.head(&head.map(str::to_owned));
        for kind in [Kind::Sled, Kind::Redb].into_iter().filter(|kind| kinds.is_empty() || kinds.contains(kind)) {
            let folder = tempfile::tempdir_in(work).expect("the work folder can be written");
            let folder = folder.path().to_path_buf();
            let cell = Cell { kind, tiers: Tiers::Filter, known: *keys, links: 0, stream: None, folder };
            let _: f64 = process::run("fill-store", &cell);
            let run: Rebuild = process::run("run-rebuild", &cell);
            let (per_key, ms) = (|s: f64| format!("{:.1}", s * 1e9 / *keys as f64), |s: f64| format!("{:.1}", s * 1e3));
            output.line(&[
                kind.name().to_owned(),
                format!("{:.2}", run.open),
                per_key(run.scan),
                per_key(run.list),
                ms(run.copy),
                ms(run.save),
                ms(run.load),
                format!("{:.1}", run.bytes as f64 / 1e6),
            ]);
            output.raw(&json!({"mode": "rebuild", "store": kind.name(), "keys": keys, "run": run}));
        }
    }
}
