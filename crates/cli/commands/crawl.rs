//! `argiope crawl`.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Ended, add_layers, job_settings};
use crate::args::{Crawl, Global};
use crate::{printed, progress};

pub(crate) fn run(args: &Crawl, global: &Global) -> anyhow::Result<Ended> {
    // A typing error on the command line is told at once; one line of a long list is reported, and
    // the others are crawled.
    for url in &args.urls {
        if let Err(error) = engine::parse_seed(url) {
            printed::note(false, &format!("argiope: {url} cannot be crawled: {error}"));
            return Ok(Ended::WrongArguments);
        }
    }
    let mut seeds = args.urls.clone();
    for file in &args.seeds {
        match read_seeds(file) {
            Ok(found) => seeds.extend(found),
            Err(error) => {
                printed::error(&error);
                return Ok(Ended::WrongArguments);
            }
        }
    }
    if !seeds.is_empty() && seeds.iter().all(|seed| engine::parse_seed(seed).is_err()) {
        printed::note(false, "argiope: none of the seeds is a URL that can be crawled");
        return Ok(Ended::WrongArguments);
    }
    let Some(job) = args.job.clone().or_else(|| job_of(seeds.first()?)) else {
        printed::note(false, "argiope: nothing to crawl: name a URL, a file by --seeds, or a job by --job");
        return Ok(Ended::WrongArguments);
    };
    let mut settings = job_settings(&job)?;
    add_layers(&mut settings, &args.layers)?;
    let config = settings.config()?;
    if seeds.is_empty() && !storage::JobDir::new(&job).exists() {
        return Err(engine::EngineError::NoSeeds { job }.into());
    }
    if config.crawl.contact.is_empty() {
        printed::note(
            global.quiet,
            "No contact is set: operators of the sites cannot reach you. Set crawl.contact to a URL or an e-mail address.",
        );
    }
    printed::note(global.quiet, &format!("Job folder: {} (Ctrl-C saves; the same command resumes)", job.display()));
    let report = engine::Crawl { job, config, seeds, revisit: false, watch: progress::line(global) }.run()?;
    printed::out(&printed::report(&report));
    printed::out(&printed::files(&report));
    let ended = Ended::of_report(&report);
    if ended == Ended::NothingFetched {
        let job = report.job.display();
        let advice =
            format!("Nothing could be fetched from any seed; `argiope why URL --job {job}` says why for each.");
        printed::note(global.quiet, &advice);
    }
    Ok(ended)
}

/// One URL a line, comments and empty lines left out.
fn read_seeds(file: &Path) -> anyhow::Result<Vec<String>> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read seeds from standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read the seeds {}", file.display()))?;
    }
    Ok(seeds_of(&text))
}

fn seeds_of(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// `jobs/` and the host, as a name every file system takes.
fn job_of(seed: &str) -> Option<PathBuf> {
    let rest = seed.split_once("://").map_or(seed, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next()?;
    let name: String =
        host.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' }).collect();
    (!name.is_empty()).then(|| Path::new("jobs").join(name.trim_start_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_files_have_comments() {
        let text = "# sites\nhttp://a.example/ # the first\n\n  b.example/#top  \n";
        assert_eq!(seeds_of(text), ["http://a.example/", "b.example/#top"]);
    }

    #[test]
    fn jobs_are_named_for_the_first_seed() {
        for (seed, expected) in [
            ("https://example.org/a", Some("jobs/example.org")),
            ("example.org:8080/a", Some("jobs/example.org_8080")),
            ("http://[::1]/", Some("jobs/___1_")),
            ("http://../etc", Some("jobs/")),
            ("", None),
        ] {
            assert_eq!(job_of(seed), expected.map(PathBuf::from), "{seed}");
        }
    }
}
