//! The section `[scope]`.

use model::ConfigError;
use serde::{Deserialize, Serialize};

use crate::hosts::HostList;
use crate::patterns::Patterns;

/// Which URLs belong to the crawl.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScopeConfig {
    /// What is drawn around the seeds: "host" (same name and port, http and https alike), "domain" (same registrable domain), "prefix" (the seed's directory and all beneath it) or "any".
    pub kind: Kind,
    /// The most links between a seed and a URL; redirects do not count.
    pub max_depth: u16,
    /// The most bytes in a URL.
    pub max_url_length: usize,
    /// Regular expressions of which a URL must match at least one, anywhere in its text; none means no such demand.
    pub include: Vec<String>,
    /// Regular expressions of which a URL must match none, anywhere in its text; they win over `include` and `allow_hosts`.
    pub exclude: Vec<String>,
    /// Hosts that are in scope whatever `kind` says: "example.org", or ".example.org" for it and every host beneath it.
    pub allow_hosts: Vec<String>,
    /// Hosts that are out of scope whatever else is said, written as in `allow_hosts`.
    pub deny_hosts: Vec<String>,
}

impl Default for ScopeConfig {
    fn default() -> Self {
        Self {
            kind: Kind::Host,
            // Far beyond any site a person links through (Heritrix stops at 20 hops), yet an endless
            // calendar ends.
            max_depth: 100,
            // The longest URL Internet Explorer took, and hence the longest that sites still make.
            max_url_length: 2083,
            include: Vec::new(),
            exclude: Vec::new(),
            allow_hosts: Vec::new(),
            deny_hosts: Vec::new(),
        }
    }
}

impl ScopeConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them: patterns that are no regular expressions, entries that name no host, a length
    /// that no URL meets.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        problems.require(
            self.max_url_length >= SHORTEST_URL,
            "scope.max_url_length",
            format!("must be at least {SHORTEST_URL}, or no URL is in scope"),
        );
        for result in [
            Patterns::new("scope.include", &self.include).map(drop),
            Patterns::new("scope.exclude", &self.exclude).map(drop),
            HostList::new("scope.allow_hosts", &self.allow_hosts).map(drop),
            HostList::new("scope.deny_hosts", &self.deny_hosts).map(drop),
        ] {
            problems.0.extend(result.err().unwrap_or_default().0);
        }
        problems.into_result()
    }
}

/// What is drawn around the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The same host name and port as a seed, by http or https.
    Host,
    /// The same registrable domain as a seed by the public suffix list, on any port; addresses and
    /// names that have none (`localhost`, `github.io` itself) compare whole.
    Domain,
    /// A seed's host and port, and its path up to the last `/`.
    Prefix,
    /// Everything.
    Any,
}

/// The length of `http://a/`.
const SHORTEST_URL: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let config: ScopeConfig = toml::from_str(text).unwrap();
        let problems = config.check().err().unwrap_or_default().0;
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, expected, "{text}: {problems:?}");
    }

    #[test]
    fn every_bad_value_is_found() {
        check("", &[]);
        check("kind = 'prefix'\ninclude = ['^https?://a/']\nallow_hosts = ['.example.org', '[::1]']", &[]);
        check("max_url_length = 8", &["scope.max_url_length"]);
        check("exclude = ['fine', '(', '[']", &["scope.exclude[1]", "scope.exclude[2]"]);
        check("include = ['\\w{9999}']", &["scope.include[0]"]);
        check(
            "deny_hosts = ['a.example', 'http://a.example', '*.example', 'a:80', '', '.', 'a b']\nexclude = ['(']",
            &[
                "scope.exclude[0]",
                "scope.deny_hosts[1]",
                "scope.deny_hosts[2]",
                "scope.deny_hosts[3]",
                "scope.deny_hosts[4]",
                "scope.deny_hosts[5]",
                "scope.deny_hosts[6]",
            ],
        );
    }

    #[test]
    fn unknown_keys_and_kinds_are_refused() {
        for text in ["depth = 3", "kind = 'planet'", "max_depth = 70000"] {
            assert!(toml::from_str::<ScopeConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_default_is_written_and_read_back() {
        let default = ScopeConfig::default();
        assert_eq!(toml::from_str::<ScopeConfig>(&toml::to_string(&default).unwrap()).unwrap(), default);
    }
}
