//! Keys: what is compared instead of a URL.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// Seed of every key hash. It reaches the disk, so it never changes.
const KEY_SEED: u64 = 0x4152_4749_4f50_4501; // "ARGIOPE", version 1

/// 64-bit hash of a host: scheme, host name and port, the unit of robots.txt and of politeness
/// (RFC 9309 §2.3). `http://a.example/` and `https://a.example/` are two hosts at one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostKey(u64);

impl HostKey {
    /// The key of an origin such as `http://example.com:8080`.
    pub fn of_origin(origin: &str) -> Self {
        Self(xxh3_64_with_seed(origin.as_bytes(), KEY_SEED))
    }

    /// The eight bytes that open a [`UrlKey`].
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The inverse of [`HostKey::to_bytes`].
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }

    /// The hash as a number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the system compares instead of a URL: 8 bytes of the host's hash, then the 128-bit xxh3 of
/// the whole URL, big-endian, so that keys in byte order stand host by host (Heydon & Najork 1999,
/// §3.2: host-local checksums).
///
/// Two different URLs share a key with probability 2⁻¹²⁸ per pair within a host: 10⁻¹⁹ for a crawl
/// of ten billion URLs. Heritrix's 40 bits lose 12 of 5 million on one host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UrlKey([u8; 24]);

impl UrlKey {
    /// Bytes in a key.
    pub const LEN: usize = 24;

    /// The key of a canonical URL's text on the given host.
    pub fn new(host: HostKey, url: &str) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&host.to_bytes());
        bytes[8..].copy_from_slice(&xxh3_128_with_seed(url.as_bytes(), KEY_SEED).to_be_bytes());
        Self(bytes)
    }

    /// The inverse of [`UrlKey::as_bytes`].
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes, in the order that is stored and sorted.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The host's part.
    pub fn host(&self) -> HostKey {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        HostKey::from_bytes(bytes)
    }

    /// The 128-bit hash of the URL, from which every filter derives its positions.
    pub fn url_hash(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[8..]);
        u128::from_be_bytes(bytes)
    }
}

impl fmt::Debug for UrlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.host(), self.url_hash())
    }
}

impl fmt::Display for UrlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use crate::CanonicalUrl;

    /// Keys reach the disk. If this test fails, old jobs can no longer be read.
    #[test]
    fn keys_never_change() {
        let url = CanonicalUrl::parse("http://example.com/a?b=c").unwrap();
        assert_eq!(url.key().to_string(), "6b38ee0423800af9-390c1a0b859d61707f14e425122d3b86");
    }

    #[test]
    fn a_hosts_keys_stand_together() {
        let key = |text: &str| CanonicalUrl::parse(text).unwrap().key();
        let mut keys = [
            ("a", key("http://a.example/1")),
            ("b", key("http://b.example/1")),
            ("a", key("http://a.example/2")),
            ("b", key("http://b.example/2")),
        ];
        keys.sort_by_key(|(_, key)| *key);
        assert_eq!(keys[0].0, keys[1].0);
        assert_eq!(keys[2].0, keys[3].0);
    }

    #[test]
    fn scheme_and_port_are_part_of_the_host() {
        let host = |text: &str| CanonicalUrl::parse(text).unwrap().host_key();
        assert_ne!(host("http://a.example/"), host("https://a.example/"));
        assert_ne!(host("http://a.example/"), host("http://a.example:8080/"));
        assert_eq!(host("http://a.example:80/x"), host("http://u:p@A.example/y"));
    }
}
