//! `argiope export`.

use std::fs::File;
use std::io::{BufWriter, ErrorKind};

use anyhow::Context;
use storage::{JobDir, JournalReader, StorageError};

use super::Ended;
use crate::args::{Export, Format};

pub(crate) fn run(args: &Export) -> anyhow::Result<Ended> {
    let job = JobDir::new(&args.job);
    if !job.exists() {
        return Err(engine::EngineError::NoJob { job: args.job.clone() }.into());
    }
    let journal = JournalReader::open(&job.journal())?;
    let written = match (args.format, &args.out) {
        (Format::Jsonl, None) => storage::export_pages(journal, &mut BufWriter::new(std::io::stdout().lock())),
        (Format::Jsonl, Some(path)) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            storage::export_pages(journal, &mut BufWriter::new(file))
        }
    };
    match written {
        // `export | head` has what it wanted.
        Err(StorageError::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {}
        written => _ = written?,
    }
    Ok(Ended::Finished)
}
