//! Messages go to standard error, and results to standard output.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::{Global, LogFormat, When};

/// Starts logging as the global options say. `ARGIOPE_LOG` overrides the level, by module.
pub(crate) fn start(global: &Global) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, _) => "debug",
    };
    let filter = EnvFilter::try_from_env("ARGIOPE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colours(global, std::io::stderr().is_terminal()));
    // Only one subscriber can be set, and this is the only place that does.
    match global.log_format {
        LogFormat::Text => logs.without_time().init(),
        LogFormat::Json => logs.json().init(),
    }
}

/// Whether to use colours on a stream.
pub(crate) fn colours(global: &Global, is_terminal: bool) -> bool {
    match global.color {
        When::Always => true,
        When::Never => false,
        When::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}
