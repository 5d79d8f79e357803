//! `argiope recrawl`.

use super::{Ended, add_layers, job_settings};
use crate::args::{Global, Recrawl};
use crate::{printed, progress};

pub(crate) fn run(args: &Recrawl, global: &Global) -> anyhow::Result<Ended> {
    let job = args.job.clone();
    if !storage::JobDir::new(&job).exists() {
        return Err(engine::EngineError::NoJob { job }.into());
    }
    let mut settings = job_settings(&job)?;
    add_layers(&mut settings, &args.layers)?;
    let config = settings.config()?;
    let shown = job.display();
    printed::note(
        global.quiet,
        &format!("The next visit of {shown} (Ctrl-C saves; `argiope crawl --job {shown}` goes on with it)"),
    );
    let crawl =
        engine::Crawl { job: job.clone(), config, seeds: Vec::new(), revisit: true, watch: progress::line(global) };
    let report = crawl.run()?;
    printed::out(&printed::report(&report));
    printed::out(&printed::files(&report));
    Ok(Ended::of_report(&report))
}
