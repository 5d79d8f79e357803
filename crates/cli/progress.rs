//! The live line of a crawl, on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use engine::{Report, State};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Global;
use crate::printed::{bytes, thousands};

/// A line that shows where the crawl stands, redrawn about twice a second. Only on a terminal.
pub(crate) fn line(global: &Global) -> Box<dyn FnMut(&Report) + Send> {
    if global.quiet || !std::io::stderr().is_terminal() {
        return Box::new(|_| {});
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    Box::new(move |report| {
        if report.state == State::Running {
            bar.set_message(text(report));
        } else {
            bar.finish_and_clear();
        }
    })
}

fn text(report: &Report) -> String {
    let errors: u64 = report.failed.values().sum::<u64>()
        + report.answered.iter().filter(|(status, _)| **status >= 400).map(|(_, count)| count).sum::<u64>();
    // What a narrow terminal cuts off stands last.
    format!(
        "{} pages · {}/s · {} queued · {} hosts · {} errors · links {} new / {} seen · {}",
        thousands(report.pages),
        thousands(report.session.pages_per_second_now.round() as u64),
        thousands(report.queued),
        thousands(report.hosts.unwrap_or_default()),
        thousands(errors),
        thousands(report.admitted),
        thousands(report.seen),
        bytes(report.body_bytes),
    )
}
