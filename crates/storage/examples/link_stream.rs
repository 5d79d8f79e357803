//! Writes the links of a crawl as a stream of keys, to measure the URL-seen test on:
//! `cargo run --release -p storage --example link_stream -- JOB FILE`.
//!
//! The job must have counted its references (`url_cache.count_references = true`): only then does its
//! journal name the links to URLs it knew. The file is, for each page in the order in which pages were
//! finished, the number of its links (u32, little-endian) and their keys (24 bytes each): first those to
//! URLs it knew, then those that were new.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use storage::{JobDir, JournalReader, Record};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(job), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("expected the folder of a job and the file to write".into());
    };
    let mut out = BufWriter::new(File::create(file)?);
    for entry in JournalReader::open(&JobDir::new(job).journal())? {
        let (_, record) = entry?;
        let new = record.admitted().0.iter().map(|admitted| admitted.url.key());
        let keys: Vec<_> = match &record {
            Record::Done(done) => done.references.iter().copied().chain(new).collect(),
            _ => new.collect(),
        };
        if !keys.is_empty() {
            out.write_all(&u32::try_from(keys.len())?.to_le_bytes())?;
            keys.iter().try_for_each(|key| out.write_all(key.as_bytes()))?;
        }
    }
    Ok(out.flush()?)
}
