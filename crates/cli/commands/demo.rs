//! `argiope demo`: the whole circle on a web of our own.

use std::path::{Path, PathBuf};

use anyhow::Context;
use testkit::{Server, ServerOptions, Web, WebConfig};

use super::{Ended, add_layers};
use crate::args::{Demo, Global};
use crate::{printed, progress};

/// Polite, but to a server that is our own: pauses of the right form, a thousandth of the length.
const PACE: &str =
    "[politeness]\ndelay_factor = 1.0\nmin_delay = \"2ms\"\nmax_delay = \"20ms\"\nretry_delay = \"200ms\"\n";

pub(crate) fn run(args: &Demo, global: &Global) -> anyhow::Result<Ended> {
    let mut web = WebConfig::demo();
    if let Some(pages) = args.pages {
        web.pages = pages;
    }
    let web = Web::new(web);
    let server = Server::start(web.clone(), ServerOptions::default()).context("cannot serve the demo's web")?;
    let job = args.job.clone().unwrap_or_else(new_job);
    let mut settings = engine::Settings::default();
    settings.add_text(&server.config_toml(), "the demo's web")?;
    settings.add_text(PACE, "the demo's pace")?;
    add_layers(&mut settings, &args.layers)?;
    let config = settings.config()?;
    let seeds = web.seeds();
    printed::note(
        global.quiet,
        &format!(
            "Serving {} hosts on loopback, and crawling them from {} seeds into {}.",
            web.hosts().len(),
            seeds.len(),
            job.display()
        ),
    );
    let report = engine::Crawl { job, config, seeds, revisit: false, watch: progress::line(global) }.run()?;
    printed::out(&printed::report(&report));
    let judgement = web.expected().judge(&server.log());
    printed::out(&format!("\nJudged by the server's own log\n{judgement}\n"));
    printed::out(&printed::files(&report));
    printed::out(&format!("\nNext: argiope why {} --job {}\n", web.seeds()[0], report.job.display()));
    let ended = Ended::of_report(&report);
    Ok(if ended == Ended::Finished && !judgement.is_right() { Ended::Failed } else { ended })
}

/// The first free `jobs/demo-N`: an earlier demo is left as it is.
fn new_job() -> PathBuf {
    (1..=u32::MAX)
        .map(|number| Path::new("jobs").join(format!("demo-{number}")))
        .find(|path| !path.exists())
        .expect("some number is free")
}
