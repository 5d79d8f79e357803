//! `argiope why`.

use std::fmt::Write as _;

use anyhow::Context;
use engine::{UrlState, Why};
use model::Disposition;

use super::{Ended, job_settings};
use crate::args;
use crate::printed;

pub(crate) fn run(args: &args::Why) -> anyhow::Result<Ended> {
    let config = job_settings(&args.job)?.config()?;
    let why = engine::why(&args.job, &config, &args.url)?;
    if args.json {
        let json = serde_json::to_string_pretty(&why).context("cannot write the answer as JSON")?;
        printed::out(&format!("{json}\n"));
    } else {
        printed::out(&told(&why));
    }
    Ok(Ended::Finished)
}

fn told(why: &Why) -> String {
    let mut text = String::new();
    let state = match why.state {
        UrlState::Unknown => "unknown: never admitted",
        UrlState::Queued => "queued: admitted, and not fetched yet",
        UrlState::Done => "done",
    };
    let _ = writeln!(text, "{}\n  is {state}", why.url);
    for admission in &why.journal.admissions {
        let from = admission.via.as_deref().map_or_else(|| "as a seed".to_owned(), |via| format!("from {via}"));
        let _ = writeln!(text, "  admitted {from}, {} links away from a seed", admission.depth);
    }
    if why.journal.references > 0 {
        let _ = writeln!(text, "  linked {} times more, when it was known", why.journal.references);
    }
    for refusal in &why.journal.refusals {
        let from = refusal.via.as_deref().map_or_else(|| "as a seed".to_owned(), |via| format!("from {via}"));
        let _ = writeln!(text, "  refused {from}: {}, by {}", refusal.reason, refusal.rule);
    }
    if let Some(parked) = &why.journal.parked {
        let _ = writeln!(text, "  its host is left for another run: {}, by {}", parked.reason, parked.rule);
    }
    for (_, done) in &why.journal.ends {
        let end = match done.disposition {
            Disposition::Answered(status) => format!("answered with status {status}"),
            Disposition::Failed(kind) => format!("given up: {}", kind.as_str()),
            Disposition::Refused(reason) => format!("not fetched: {reason}"),
        };
        let attempts = match done.attempts {
            0 | 1 => String::new(),
            attempts => format!(", at attempt {attempts}"),
        };
        let note = if done.note.is_empty() { String::new() } else { format!(" ({})", done.note) };
        let _ = writeln!(text, "  {end}{attempts}{note}");
        if let Some(fetch) = &done.fetch {
            let _ = writeln!(text, "  {} bytes in {} ms", fetch.body_bytes, fetch.duration_us / 1000);
            if let Some(capture) = &fetch.capture {
                let _ = writeln!(text, "  kept in warc/{} at byte {}", capture.segment, capture.offset);
            }
        }
        if let Some(page) = &done.page {
            let _ = writeln!(text, "  {} links, {} of them new", page.links_found, done.admitted.len());
        }
    }
    if why.state == UrlState::Unknown && why.journal.refusals.is_empty() {
        let _ = match &why.scope {
            Some(refusal) => writeln!(text, "  no page offered it; scope would refuse it: {refusal}"),
            None => writeln!(text, "  no page offered it; scope would admit it"),
        };
    }
    text
}
