//! The `[storage]` section.

use std::time::Duration;

use model::{ByteSize, ConfigError, Span};
use serde::{Deserialize, Serialize};

/// What is kept of a crawl, and how often it is made durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// Write what was fetched to WARC 1.1 files in the job's folder `warc`.
    pub warc: bool,
    /// A WARC file is completed, and the next one begun, before it would grow past this size.
    pub warc_max_bytes: ByteSize,
    /// Effort of gzip in WARC files, from 1 (fast) to 9 (small).
    pub compression: u32,
    /// Which answers go to WARC: "all" of them, only those whose media type is "html", or "none".
    pub keep: Keep,
    /// How long finished pages wait for others, to be made durable together.
    pub sync_interval: Span,
    /// How much memory the database aims to use as its cache.
    pub cache_capacity: ByteSize,
}

/// Which answers go to WARC. An answer is kept whole or not at all: a record without its body would
/// not be what its digest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every answer, redirects and errors too.
    All,
    /// Answers whose media type is HTML or XHTML.
    Html,
    /// None.
    None,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            warc: true,
            // The size the WARC guidelines recommend, and the one tools are used to.
            warc_max_bytes: ByteSize(1 << 30),
            // On 2 000 HTML pages of 10 to 200 kB, one core: 1 gave 400 MB/s and 34 % of the size, 2 gave
            // 277 and 27 %, 3 gave 229 and 26 %, 6 gave 155 and 25 %, 9 gave 80 and 25 %.
            compression: 3,
            keep: Keep::All,
            sync_interval: Span(Duration::from_millis(100)),
            cache_capacity: ByteSize(16 << 20),
        }
    }
}

impl StorageConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        problems.require(
            (1..=9).contains(&self.compression),
            "storage.compression",
            format!("{} is not an effort of gzip: write 1 to 9", self.compression),
        );
        problems.require(
            self.warc_max_bytes.0 >= 1 << 20,
            "storage.warc_max_bytes",
            format!("{} is too small for a WARC file: write at least 1MiB", self.warc_max_bytes),
        );
        problems.require(
            self.sync_interval.0.as_secs() <= 60,
            "storage.sync_interval",
            format!("{} is too long: pages wait in memory for it; write at most 1m", self.sync_interval),
        );
        problems.require(
            self.cache_capacity.0 >= 1 << 20,
            "storage.cache_capacity",
            format!("{} is too small for the database: write at least 1MiB", self.cache_capacity),
        );
        problems.into_result()
    }

    /// Whether an answer of that media type (lower case, without parameters) goes to WARC.
    pub fn keeps(&self, media_type: Option<&str>) -> bool {
        self.warc
            && match self.keep {
                Keep::All => true,
                Keep::Html => matches!(media_type, Some("text/html" | "application/xhtml+xml")),
                Keep::None => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_fine() {
        assert_eq!(StorageConfig::default().check(), Ok(()));
    }

    #[test]
    fn every_value_that_cannot_be_is_named() {
        let wrong = StorageConfig {
            compression: 10,
            warc_max_bytes: ByteSize(1000),
            sync_interval: Span(Duration::from_secs(61)),
            cache_capacity: ByteSize(0),
            ..StorageConfig::default()
        };
        let keys: Vec<_> = wrong.check().unwrap_err().0.into_iter().map(|problem| problem.key).collect();
        let expected =
            ["storage.compression", "storage.warc_max_bytes", "storage.sync_interval", "storage.cache_capacity"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn what_is_kept() {
        let with = |warc, keep| StorageConfig { warc, keep, ..StorageConfig::default() };
        for (config, html, picture, unknown) in [
            (with(true, Keep::All), true, true, true),
            (with(true, Keep::Html), true, false, false),
            (with(true, Keep::None), false, false, false),
            (with(false, Keep::All), false, false, false),
        ] {
            assert_eq!(config.keeps(Some("text/html")), html);
            assert_eq!(config.keeps(Some("image/png")), picture);
            assert_eq!(config.keeps(None), unknown);
        }
    }
}
