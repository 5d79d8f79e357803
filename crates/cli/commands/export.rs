//! `argiope export`.

use std::fs::File;
use std::io::BufWriter;

use anyhow::Context;
use storage::{JobDir, JournalReader};

use super::Ended;
use crate::args::{Export, Format};

pub(crate) fn run(args: &Export) -> anyhow::Result<Ended> {
    let job = JobDir::new(&args.job);
    if !job.exists() {
        return Err(engine::EngineError::NoJob { job: args.job.clone() }.into());
    }
    let journal = JournalReader::open(&job.journal())?;
    match args.format {
        Format::Jsonl => match &args.out {
            None => storage::export_pages(journal, &mut BufWriter::new(std::io::stdout().lock()))?,
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                storage::export_pages(journal, &mut BufWriter::new(file))?
            }
        },
    };
    Ok(Ended::Finished)
}
