//! The section `[downloader]`.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use model::{ByteSize, ConfigError, Span};
use reqwest::header::HeaderValue;
use serde::{Deserialize, Serialize};

use crate::address::parse_network;

/// How pages are fetched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DownloaderConfig {
    /// How many fetches may run at once, and how many names may be looked up at once.
    pub max_concurrent: usize,
    /// How long a connection may take to make; looking the name up may take half of it, TCP and TLS the rest.
    pub connect_timeout: Span,
    /// How long a connected server may take to send the whole head of its answer.
    pub first_byte_timeout: Span,
    /// How long a server may pause between two pieces of a body; what came before is kept.
    pub idle_timeout: Span,
    /// How long a fetch may take from its start to the last byte; what came before is kept.
    pub total_timeout: Span,
    /// Largest body kept, as it is sent; longer ones are cut there.
    pub max_body: ByteSize,
    /// Largest body given to the parser once its compression is undone; longer ones are cut there.
    pub max_decoded_body: ByteSize,
    /// How many redirects in a row are followed.
    pub max_redirects: u8,
    /// The `Accept-Language` header; empty sends none.
    pub accept_language: String,
    /// Offer HTTP/2 to servers that speak TLS.
    pub http2: bool,
    /// HTTP proxy that makes all connections, such as `http://proxy.example:3128`; it looks up names, so refusing private addresses behind names is its business.
    pub proxy: Option<String>,
    /// PEM file of certificate authorities trusted in addition to the system's.
    pub extra_ca: Option<PathBuf>,
    /// Allow connections to private, loopback, link-local and other special addresses.
    pub allow_private_addresses: bool,
    /// Networks whose addresses are allowed although they are special, such as `10.1.0.0/16`.
    pub allow_networks: Vec<String>,
    /// Addresses of names that are not to be looked up: `"name" = "address"` or `"address:port"`.
    pub resolve: BTreeMap<String, String>,
}

impl Default for DownloaderConfig {
    fn default() -> Self {
        Self {
            max_concurrent: 64,
            connect_timeout: Span(Duration::from_secs(10)),
            first_byte_timeout: Span(Duration::from_secs(20)),
            idle_timeout: Span(Duration::from_secs(20)),
            total_timeout: Span(Duration::from_mins(5)),
            max_body: ByteSize(32 << 20),
            max_decoded_body: ByteSize(64 << 20),
            max_redirects: 10,
            accept_language: "*".to_owned(),
            http2: true,
            proxy: None,
            extra_ca: None,
            allow_private_addresses: false,
            allow_networks: Vec::new(),
            resolve: BTreeMap::new(),
        }
    }
}

impl DownloaderConfig {
    /// How long looking up a name may take: with less than `connect_timeout`, a silent name server
    /// is not taken for a silent web server.
    pub(crate) fn dns_timeout(&self) -> Duration {
        self.connect_timeout.0 / 2
    }

    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them, by their full keys.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        problems.require(self.max_concurrent > 0, "downloader.max_concurrent", "must be at least 1");
        for (key, span) in [
            ("downloader.connect_timeout", self.connect_timeout),
            ("downloader.first_byte_timeout", self.first_byte_timeout),
            ("downloader.idle_timeout", self.idle_timeout),
            ("downloader.total_timeout", self.total_timeout),
        ] {
            problems.require(!span.0.is_zero(), key, "must be longer than nothing");
        }
        problems.require(self.max_body.0 > 0, "downloader.max_body", "must be at least 1B");
        problems.require(self.max_decoded_body.0 > 0, "downloader.max_decoded_body", "must be at least 1B");
        problems.require(
            HeaderValue::from_str(&self.accept_language).is_ok(),
            "downloader.accept_language",
            "holds a character that an HTTP header cannot",
        );
        if let Some(proxy) = &self.proxy {
            problems.require(
                is_proxy(proxy),
                "downloader.proxy",
                format!("{proxy:?} is not a proxy's address: write http://host:port"),
            );
        }
        for (at, network) in self.allow_networks.iter().enumerate() {
            problems.require(
                parse_network(network).is_some(),
                &format!("downloader.allow_networks[{at}]"),
                format!("{network:?} is not a network: write 10.1.0.0/16, fd00::/8 or a single address"),
            );
        }
        for (name, target) in &self.resolve {
            problems.require(
                parse_target(target).is_some(),
                &format!("downloader.resolve.{name:?}"),
                format!("{target:?} is not an address: write 192.0.2.1, 192.0.2.1:8080, ::1 or [::1]:8080"),
            );
        }
        problems.into_result()
    }
}

/// An address with a port, or with port 0 where the URL's own port holds.
pub(crate) fn parse_target(text: &str) -> Option<SocketAddr> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 0)))
}

fn is_proxy(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        && reqwest::Proxy::all(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(config: &DownloaderConfig) -> Vec<String> {
        config.check().err().map_or(Vec::new(), |error| error.0.into_iter().map(|problem| problem.key).collect())
    }

    #[test]
    fn the_default_is_possible_and_survives_toml() {
        let config = DownloaderConfig::default();
        assert_eq!(config.check(), Ok(()));
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<DownloaderConfig>(&text).unwrap(), config);
        assert!(toml::from_str::<DownloaderConfig>("max_boddy = \"1MiB\"").is_err());
    }

    #[test]
    fn every_impossible_value_is_found() {
        let config: DownloaderConfig = toml::from_str(
            r#"
            max_concurrent = 0
            idle_timeout = "0s"
            max_body = "0B"
            max_decoded_body = "0B"
            accept_language = "de\n"
            proxy = "socks5://127.0.0.1:1080"
            allow_networks = ["10.0.0.0/8", "10.0.0.0/40"]
            resolve = { "a.example" = "127.0.0.1:80", "b.example" = "c.example" }
            "#,
        )
        .unwrap();
        assert_eq!(
            keys(&config),
            [
                "downloader.max_concurrent",
                "downloader.idle_timeout",
                "downloader.max_body",
                "downloader.max_decoded_body",
                "downloader.accept_language",
                "downloader.proxy",
                "downloader.allow_networks[1]",
                "downloader.resolve.\"b.example\"",
            ]
        );
    }

    #[test]
    fn targets_are_read() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1:0")),
            ("192.0.2.1:8080", Some("192.0.2.1:8080")),
            ("::1", Some("[::1]:0")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("example.com", None),
            ("192.0.2.1:x", None),
        ] {
            assert_eq!(parse_target(text), expected.map(|text| text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn proxies_are_told_from_other_text() {
        for (text, expected) in [
            ("http://127.0.0.1:3128", true),
            ("https://user:secret@proxy.example", true),
            ("proxy.example:3128", false),
            ("socks5://127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_proxy(text), expected, "{text}");
        }
    }
}
