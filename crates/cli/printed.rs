//! Results as a person reads them.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;

use engine::{FilterKind, Loss, Report, SeenTest, ShadowReport, State, Verify};
use model::Reason;

/// Writes a result to standard output. A reader that went away (`| head`) is no error.
pub(crate) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Writes an error and its causes to standard error.
pub(crate) fn error(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Our own messages name their cause already.
        if !text.contains(&cause) {
            let _ = write!(text, "{}{cause}", if text.is_empty() { "" } else { ": " });
        }
    }
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "argiope: {text}");
}

/// Tells a person something that is no result, unless they want quiet.
pub(crate) fn note(quiet: bool, text: &str) {
    if !quiet {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "{text}");
    }
}

/// `1234567` as `1 234 567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a unit a person can compare.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, scale)| bytes >= *scale) {
        Some((unit, scale)) => format!("{:.1} {unit}", bytes as f64 / *scale as f64),
        None => format!("{bytes} B"),
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // A rate of 0.0003 % must not look like none.
    if percent > 0.0 && percent < 0.01 { format!("{percent:.1e} %") } else { format!("{percent:.2} %") }
}

/// A report with aligned columns.
struct Table(String);

impl Table {
    fn section(&mut self, title: &str) {
        let _ = writeln!(self.0, "\n{title}");
    }

    fn row(&mut self, name: &str, value: impl Display, remark: impl Display) {
        let line = format!("  {name:<28}{value:>14}  {remark}");
        let _ = writeln!(self.0, "{}", line.trim_end());
    }
}

/// Where a crawl stands, in a phrase.
struct Phrase<'a>(&'a Report, &'a str);

impl Display for Phrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report, go_on) = self;
        match &report.state {
            State::Running => f.write_str("running"),
            State::Finished if report.queued == 0 => f.write_str("finished: nothing is left to fetch"),
            State::Finished => {
                write!(f, "finished, but for what is left of hosts left alone (URLs: {})", thousands(report.queued))
            }
            State::Limit(which) if which == "crawl.max_disk" => {
                write!(f, "stopped at the limit {which}; raise it or move files away, and {go_on} to go on")
            }
            State::Limit(which) => write!(f, "stopped at the limit {which}; {go_on} to go on"),
            State::Interrupted => write!(f, "interrupted and saved; {go_on} to go on"),
            State::Failed => write!(f, "stopped by an error; mend its cause and {go_on} to go on"),
            State::Stopped => write!(f, "stopped without saying why; {go_on} to go on"),
        }
    }
}

/// The report of a crawl, for its end and for `argiope status`.
pub(crate) fn report(report: &Report) -> String {
    let mut table = Table(String::new());
    // The command that began a revisit begins the next one.
    let go_on = match report.visit {
        0 | 1 => "run the same command".to_owned(),
        _ => format!("run `argiope crawl --job {}`", report.job.display()),
    };
    let _ = writeln!(table.0, "{} is {}.", report.job.display(), Phrase(report, &go_on));
    if report.visit > 1 {
        let _ = writeln!(table.0, "This is visit {}; pages and links are counted over all visits.", report.visit);
    }

    table.section("Pages");
    let session = &report.session;
    let rate = format!("{:.0}/s over {:.1} s", session.pages_per_second, session.seconds);
    table.row("answered", thousands(report.pages), if session.pages > 0 { rate } else { String::new() });
    for (status, count) in &report.answered {
        table.row(&format!("  status {status}"), thousands(*count), "");
    }
    table.row("parsed", thousands(report.parsed), "");
    table.row("bodies", bytes(report.body_bytes), "as received");
    for (kind, count) in &report.failed {
        table.row(&format!("failed: {}", kind.as_str()), thousands(*count), "");
    }
    for (reason, count) in &report.refused_late {
        table.row(&format!("not fetched: {reason}"), thousands(*count), "");
    }
    for (reason, parked) in &report.parked {
        let advice = match reason {
            Reason::HostPageLimit => "a higher frontier.per_host_max_pages lets them go on".to_owned(),
            Reason::PrivateAddress => "--allow-private lets them be fetched".to_owned(),
            _ => format!("{go_on} to try them again"),
        };
        let remark = format!("still queued (hosts: {}); {advice}", thousands(parked.hosts));
        table.row(&format!("left: {reason}"), thousands(parked.urls), remark);
    }
    if session.retries > 0 {
        table.row("attempts repeated", thousands(session.retries), "after failures that may pass");
    }
    if report.given_up > 0 {
        table.row("given up", thousands(report.given_up), "still queued when the next visit began");
    }
    table.row("still queued", thousands(report.queued + report.leased), "");

    table.section("Links");
    table.row("offered", thousands(report.offered), "distinct per page");
    table.row("new", thousands(report.admitted), share(report.admitted, report.offered));
    table.row("seen before", thousands(report.seen), share(report.seen, report.offered));
    for (reason, count) in &report.refused {
        table.row(&format!("refused: {reason}"), thousands(*count), share(*count, report.offered));
    }
    for (complaint, count) in &report.complaints {
        table.row(&format!("odd pages: {}", complaint.as_str()), thousands(*count), "");
    }

    if let Some(test) = &report.seen_test {
        seen_test(&mut table, test);
    }
    if let Some(memory) = report.memory_bytes {
        table.section("Memory");
        table.row("of the process", bytes(memory), "");
    }
    for healed in &report.healed {
        let _ = writeln!(table.0, "\nHealed: {healed}.");
    }
    for warning in &report.warnings {
        let _ = writeln!(table.0, "\nNote: {warning}.");
    }
    table.0
}

fn seen_test(table: &mut Table, test: &SeenTest) {
    let counts = &test.counts;
    table.section("URL-seen test (this session)");
    table.row("links asked", thousands(counts.asked), "");
    table.row("seen, by the recent cache", thousands(counts.recent), share(counts.recent, counts.asked));
    table.row("new, by the filter alone", thousands(counts.filter_new), share(counts.filter_new, counts.asked));
    match test.verify {
        Verify::Exact => {
            table.row("seen, on its way to disk", thousands(counts.pending), share(counts.pending, counts.asked));
            let store = counts.store_seen + counts.store_new;
            table.row("answered by the store", thousands(store), share(store, counts.asked));
        }
        Verify::Trust => {
            table.row(
                "seen, by the filter alone",
                thousands(counts.filter_seen),
                share(counts.filter_seen, counts.asked),
            );
        }
    }
    let mut kind = test.filter.name().to_owned();
    if test.filters > 1 {
        let _ = write!(kind, ", {} side by side", test.filters);
    }
    if test.stages > 1 {
        let _ = write!(kind, ", grown to {} stages", test.stages);
    }
    if test.filter_capacity > 0 {
        let made_for = format!("of {} ({kind}): {} in use", thousands(test.filter_capacity), percent(test.filter_fill));
        table.row("URLs in the filter", thousands(test.filter_items), made_for);
    }
    if test.filter != FilterKind::None {
        table.row("false positives, predicted", percent(test.predicted_false_positive_rate), "at this fill");
    }
    if test.verify == Verify::Exact && test.filter != FilterKind::None {
        let observed = test.observed_false_positive_rate.map_or_else(|| "-".to_owned(), percent);
        table.row("false positives, observed", observed, "all caught by the store");
    }
    if counts.false_negatives > 0 {
        table.row("forgotten by the filter", thousands(counts.false_negatives), "all caught by the store");
    }
    table.row("memory", bytes(test.memory_bytes), "");
    if let Some(loss) = &test.loss {
        lost(table, loss);
    }
    for shadow in &test.shadows {
        shadow_of(table, shadow);
    }
}

fn lost(table: &mut Table, loss: &Loss) {
    table.section("Lost, because the filter is trusted (url_cache.verify = \"trust\")");
    table.row("pages lost, expected", format!("{:.1}", loss.expected), "from the filter's fill, this session");
    if let Some(sampled) = loss.sampled {
        let sample = format!("{} of {} sampled URLs were never admitted", loss.missing, thousands(loss.sample));
        table.row("pages lost, sampled", format!("{sampled:.1}"), sample);
    }
    for url in &loss.examples {
        let _ = writeln!(table.0, "  for example {url}");
    }
}

fn shadow_of(table: &mut Table, shadow: &ShadowReport) {
    table.section(&format!("Shadow: what {} would have done (this session)", shadow.filter.name()));
    let per_new = share(shadow.false_positives, shadow.new);
    table.row("links asked", thousands(shadow.asked), "those the recent cache did not answer");
    table.row("new, and taken for known", thousands(shadow.false_positives), format!("{per_new} of the new ones"));
    if shadow.false_negatives > 0 {
        table.row("known, and taken for new", thousands(shadow.false_negatives), "");
    }
    table.row("time per link", format!("{:.0} ns", shadow.nanoseconds_per_question), "asking and marking");
    table.row("memory", bytes(shadow.bytes), "");
}

/// What was written, and what each file is.
pub(crate) fn files(report: &Report) -> String {
    let mut text = String::from("\nWritten\n");
    for (name, what) in [
        ("warc/", "every exchange, WARC 1.1"),
        ("index.cdxj", "where each page stands in them"),
        ("crawl.log", "one line per attempt, Heritrix's columns"),
        ("report.json", "this report"),
        ("journal/", "the durable truth"),
        ("db/", "tables that follow from it"),
        ("filter/", "the URL-seen filter, saved"),
    ] {
        let path = report.job.join(name);
        if path.exists() {
            let _ = writeln!(text, "  {:<44}  {what}", path.display().to_string());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(thousands(number), expected);
        }
    }

    #[test]
    fn small_rates_do_not_look_like_none() {
        assert_eq!(percent(0.0), "0.00 %");
        assert_eq!(percent(0.000_003), "3.0e-4 %");
        assert_eq!(percent(0.0123), "1.23 %");
    }
}
