//! The invariants of the house that a machine can hold: who may depend on whom, how long a file may
//! be, what every crate's first page says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that may be longer than [`MAX_LINES`], each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];
const MAX_LINES: usize = 600;

/// Stages know the nouns and no other stage.
const STAGES: [&str; 7] = ["scope", "url-cache", "frontier", "politeness", "downloader", "parser", "storage"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn manifest(path: &str) -> toml::Table {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The crates of the house.
fn house() -> BTreeSet<String> {
    fs::read_dir(root().join("crates"))
        .expect("crates/ is there")
        .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("it is UTF-8"))
        .filter(|name| name != "cli")
        .collect()
}

/// Which crates of the house a crate uses in its product, tests left aside.
fn uses(name: &str) -> BTreeSet<String> {
    let table = manifest(&format!("crates/{name}/Cargo.toml"));
    let house = house();
    let dependencies = table.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    dependencies.into_iter().map(|(name, _)| name).filter(|name| house.contains(name)).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_stage_depends_on_the_nouns_and_on_no_other_stage() {
    assert_eq!(uses("model"), set([]), "the nouns know nobody");
    for stage in STAGES {
        assert_eq!(uses(stage), set(["model"]), "{stage}");
    }
    assert_eq!(uses("testkit"), set(["model"]));
    let mut everything = set(STAGES);
    everything.insert("model".to_owned());
    assert_eq!(uses("engine"), everything, "the engine is the only one that knows all the others");
    let known: BTreeSet<String> = everything.into_iter().chain(set(["engine", "testkit"])).collect();
    assert_eq!(house(), known, "a new crate has its place in this test");
}

#[test]
fn versions_are_written_once() {
    for name in house() {
        let table = manifest(&format!("crates/{name}/Cargo.toml"));
        for section in ["dependencies", "dev-dependencies"] {
            let Some(dependencies) = table.get(section).and_then(toml::Value::as_table) else { continue };
            for (dependency, value) in dependencies {
                let inherited = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                assert!(inherited, "{name}: {dependency} has a version of its own; write it in the root manifest");
            }
        }
        assert!(table.get("lints").is_some(), "{name} does not inherit the lints");
    }
}

#[test]
fn no_file_is_too_long() {
    let mut long = Vec::new();
    for file in rust_files() {
        let lines = fs::read_to_string(&file).expect("it is UTF-8").lines().count();
        let name = file.strip_prefix(root()).expect("it is below the root").display().to_string();
        if lines > MAX_LINES && !LONG_FILES.iter().any(|(listed, _)| *listed == name) {
            long.push(format!("{name}: {lines} lines"));
        }
    }
    assert!(long.is_empty(), "split these along the way the data flows, or list them with a reason: {long:#?}");
}

/// What it is for, its principal type, who calls it, what it never does.
#[test]
fn every_crate_opens_with_a_page_of_prose() {
    for name in house() {
        let text = fs::read_to_string(root().join(format!("crates/{name}/src/lib.rs"))).expect("it has a lib.rs");
        let prose: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for heading in ["**For:**", "**Principal type", "**Called by:**", "**Never:**"] {
            assert!(prose.contains(heading), "crates/{name}/src/lib.rs does not say {heading}");
        }
    }
}

/// There is no switch that turns robots.txt off, and none may slip in.
#[test]
fn robots_have_no_switch() {
    let defaults = fs::read_to_string(root().join("config/default.toml")).expect("it is there");
    for line in defaults.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let key = line.split('=').next().unwrap_or_default();
        assert!(!key.contains("robots"), "{line}");
    }
}

#[test]
fn nothing_is_switched_off() {
    // Put together here, so that this file does not find itself.
    let forbidden = [["#[ig", "nore"].concat(), ["to", "do!("].concat(), ["unimpl", "emented!("].concat()];
    for file in rust_files() {
        let text = fs::read_to_string(&file).expect("it is UTF-8");
        for word in &forbidden {
            assert!(!text.contains(word), "{} has {word}", file.display());
        }
    }
}

fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["crates", "tests", "benches", "fuzz"].iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 50, "only {} files were found", files.len());
    files
}
