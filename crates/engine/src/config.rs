//! The configuration as it means something: every stage's section, gathered.

use downloader::DownloaderConfig;
use frontier::FrontierConfig;
use model::{ByteSize, ConfigError, Span};
use parser::ParserConfig;
use politeness::PolitenessConfig;
use scope::ScopeConfig;
use serde::{Deserialize, Serialize};
use storage::StorageConfig;
use url_cache::UrlCacheConfig;

use crate::pages::MAX_REFERENCE;
use crate::settings::SettingsError;

/// Bytes that a page's links may take in its journal record, which holds 64 MiB at most.
const MAX_RECORD: u64 = 60 << 20;

/// The name robots.txt groups are looked up by (RFC 9309 §2.2.1).
pub const PRODUCT_TOKEN: &str = "argiope";

/// The whole configuration. Each section belongs to the stage of its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Who we are, and when to stop.
    pub crawl: CrawlConfig,
    /// What belongs to the crawl.
    pub scope: ScopeConfig,
    /// How the crawl knows which links are new.
    pub url_cache: UrlCacheConfig,
    /// The order of fetching.
    pub frontier: FrontierConfig,
    /// How often a host may be asked.
    pub politeness: PolitenessConfig,
    /// How bytes are fetched.
    pub downloader: DownloaderConfig,
    /// What is read from a page.
    pub parser: ParserConfig,
    /// What is kept.
    pub storage: StorageConfig,
}

/// Section `[crawl]`: who we are, and when to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrawlConfig {
    /// What servers are told we are; must contain "argiope", the name robots.txt rules are looked up by.
    pub user_agent: String,
    /// A URL or e-mail address at which an operator reaches you; it is added to the user agent.
    pub contact: String,
    /// Stop a run after so many pages; the next run goes on for as many; 0 for no limit.
    pub max_pages: u64,
    /// Stop a run after so much time; the next run goes on for as long; "0s" for no limit.
    pub max_duration: Span,
    /// Stop a run after so many bytes of bodies; the next run goes on for as many; "0B" for no limit.
    pub max_bytes: ByteSize,
    /// Stop when the job's folder has grown to this size, until it is raised or files are moved away; "0B" for no limit.
    pub max_disk: ByteSize,
    /// Threads that parse pages; 0 for one per core.
    pub parse_threads: usize,
}

impl Default for CrawlConfig {
    fn default() -> Self {
        Self {
            user_agent: concat!("argiope/", env!("CARGO_PKG_VERSION")).to_owned(),
            contact: String::new(),
            max_pages: 0,
            max_duration: Span::default(),
            max_bytes: ByteSize(0),
            max_disk: ByteSize(0),
            parse_threads: 0,
        }
    }
}

impl CrawlConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        let sendable = |text: &str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
        problems.require(
            sendable(&self.user_agent),
            "crawl.user_agent",
            format!("{:?} has characters that cannot be sent in a header", self.user_agent),
        );
        problems.require(
            self.user_agent.to_ascii_lowercase().contains(PRODUCT_TOKEN),
            "crawl.user_agent",
            format!(
                "{:?} does not contain {PRODUCT_TOKEN:?}, the name operators address in robots.txt",
                self.user_agent
            ),
        );
        problems.require(
            sendable(&self.contact),
            "crawl.contact",
            format!("{:?} has characters that cannot be sent in a header", self.contact),
        );
        problems.require(
            self.parse_threads <= 1024,
            "crawl.parse_threads",
            format!("{} threads are too many; 0 means one per core", self.parse_threads),
        );
        problems.into_result()
    }

    /// The `User-Agent` header.
    pub fn user_agent_header(&self) -> String {
        match self.contact.as_str() {
            "" => self.user_agent.clone(),
            contact => format!("{} (+{contact})", self.user_agent),
        }
    }

    /// Parse threads, as many as were asked for.
    pub(crate) fn parse_threads(&self) -> usize {
        match self.parse_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl Config {
    /// As a file that gives this configuration again.
    pub(crate) fn to_toml(&self) -> Result<String, SettingsError> {
        toml::to_string_pretty(self).map_err(|error| SettingsError::Invalid {
            origin: "the effective configuration".to_owned(),
            message: error.to_string(),
        })
    }

    /// Finds every value that cannot be, in all sections.
    ///
    /// # Errors
    /// All of them at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let sections = [
            self.crawl.check(),
            self.scope.check(),
            self.url_cache.check(),
            self.frontier.check(),
            self.politeness.check(),
            self.downloader.check(),
            self.parser.check(),
            self.storage.check(),
        ];
        let mut whole = ConfigError::default();
        let reference = self.scope.max_url_length.max(MAX_REFERENCE) as u64;
        let (links, fits) = (u64::from(self.parser.max_links), MAX_RECORD / reference);
        whole.require(
            links <= fits,
            "parser.max_links",
            format!("{links} links of up to {reference} bytes do not fit into a journal record: write at most {fits}"),
        );
        let sections = sections.into_iter().chain([whole.into_result()]);
        let problems = sections.filter_map(Result::err).flat_map(|error| error.0).collect();
        ConfigError(problems).into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_possible() {
        assert_eq!(Config::default().check(), Ok(()));
    }

    #[test]
    fn problems_of_all_sections_are_told_at_once() {
        let mut config = Config::default();
        config.crawl.user_agent = "Mozilla/5.0".to_owned();
        config.url_cache.capacity = url_cache::Capacity::Urls(0);
        let keys: Vec<_> = config.check().unwrap_err().0.into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, ["crawl.user_agent", "url_cache.capacity"]);
    }
}
