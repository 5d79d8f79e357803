//! The one form in which a URL exists inside the system.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};

use crate::{HostKey, UrlKey};

/// Why a reference is not a URL we can ever fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The WHATWG parser refuses it.
    #[error("not a URL: {0}")]
    Malformed(#[from] url::ParseError),
    /// It is a URL, of a scheme other than `http` and `https`.
    #[error("its scheme is neither http nor https")]
    Scheme,
}

/// A URL in canonical form: parsed as WHATWG says, its fragment dropped, its percent-encoding
/// normalised by RFC 3986 §6.2.2 (hexadecimal digits in upper case, unreserved characters
/// decoded). Nothing that could name another resource is touched: the path keeps its case and its
/// slashes, the query keeps its order.
///
/// There is no other way to make one than parsing, and parsing its own text gives the same value.
///
/// ```
/// use model::CanonicalUrl;
/// let url = CanonicalUrl::parse("HTTP://Example.com:80/%7euser/../A%c3%a9#top")?;
/// assert_eq!(url.as_str(), "http://example.com/A%C3%A9");
/// # Ok::<(), model::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CanonicalUrl {
    text: Arc<str>,
    /// End of `scheme://userinfo@host:port` in `text`.
    authority_end: u32,
}

impl CanonicalUrl {
    /// Parses an absolute URL.
    ///
    /// # Errors
    /// When the text is no URL, or one of a scheme that is not fetched.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Self::from_url(Url::parse(text)?)
    }

    /// Resolves a reference found on a page against the page's base.
    ///
    /// # Errors
    /// When that gives no URL, or one of a scheme that is not fetched.
    pub fn join(base: &Url, reference: &str) -> Result<Self, UrlError> {
        Self::from_url(match base.join(reference) {
            // WHATWG's "special authority ignore slashes state" skips any number of slashes; the
            // url crate (2.5.8) refuses `///host/` against a base.
            Err(url::ParseError::EmptyHost) => {
                let authority = reference.trim_start_matches(|c: char| c <= ' ' || c == '/' || c == '\\');
                base.join(&format!("//{authority}"))?
            }
            joined => joined?,
        })
    }

    /// Brings a parsed URL into canonical form.
    ///
    /// # Errors
    /// When its scheme is not fetched.
    pub fn from_url(mut url: Url) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme);
        }
        if url.fragment().is_some() {
            url.set_fragment(None);
        }
        let authority_end = url[..url::Position::BeforePath].len();
        let text: String = url.into();
        let text: Arc<str> = match normalise_percent(&text[authority_end..]) {
            None => text.into(),
            Some(rest) => [&text[..authority_end], &rest].concat().into(),
        };
        // A URL of 4 GiB cannot be: every input is capped far below.
        Ok(Self { text, authority_end: u32::try_from(authority_end).unwrap_or(0) })
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text, shared and not copied.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The URL as the `url` crate's type, to resolve references against it.
    pub fn to_url(&self) -> Url {
        Url::parse(&self.text).expect("a canonical URL parses")
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.text.starts_with("https") { "https" } else { "http" }
    }

    /// Host name or address literal, without port; IPv6 stands in brackets.
    pub fn host(&self) -> &str {
        let host = self.host_and_port();
        match host.rfind(':') {
            Some(colon) if !host[colon..].contains(']') => &host[..colon],
            _ => host,
        }
    }

    /// The address, when the host is a literal one.
    pub fn host_address(&self) -> Option<std::net::IpAddr> {
        let first = *self.host().as_bytes().first()?;
        if first != b'[' && !first.is_ascii_digit() {
            return None;
        }
        match self.to_url().host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }

    /// Host with its port, where that is not the scheme's own: what the `Host` header says.
    pub fn host_and_port(&self) -> &str {
        let start = self.scheme().len() + 3;
        let authority = &self.text[start..self.authority_end as usize];
        authority.rfind('@').map_or(authority, |at| &authority[at + 1..])
    }

    /// The port connected to.
    pub fn port(&self) -> u16 {
        let host = self.host_and_port();
        host[self.host().len()..]
            .strip_prefix(':')
            .and_then(|port| port.parse().ok())
            .unwrap_or(if self.scheme() == "https" { 443 } else { 80 })
    }

    /// `scheme://host:port`, the unit of robots.txt, queues and leases. No user name, no path.
    pub fn origin(&self) -> String {
        [self.scheme(), "://", self.host_and_port()].concat()
    }

    /// Path and query, from the first `/` on: what robots.txt rules are matched against.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.authority_end as usize..]
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        let rest = self.path_and_query();
        rest.find('?').map_or(rest, |query| &rest[..query])
    }

    /// The query without its `?`.
    pub fn query(&self) -> Option<&str> {
        self.path_and_query().split_once('?').map(|(_, query)| query)
    }

    /// Key of the host alone.
    pub fn host_key(&self) -> HostKey {
        let start = self.scheme().len() + 3;
        if self.host_and_port().len() + start == self.authority_end as usize {
            HostKey::of_origin(&self.text[..self.authority_end as usize])
        } else {
            HostKey::of_origin(&self.origin())
        }
    }

    /// What is compared instead of the URL.
    pub fn key(&self) -> UrlKey {
        UrlKey::new(self.host_key(), &self.text)
    }
}

impl fmt::Display for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CanonicalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl Serialize for CanonicalUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for CanonicalUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// RFC 3986 §6.2.2.1-2 on path and query; `None` where nothing changes, which is the usual case.
///
/// A decoded character must not complete a stray `%` before it into a new triplet
/// (`%%34%31` becomes `%%341`; `%41` would be read as `A` by the next pass): such a triplet stays encoded.
fn normalise_percent(text: &str) -> Option<String> {
    let first = text.find('%')?;
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    // Where in `out` a '%' stands that opens no triplet.
    let mut stray: Option<usize> = None;
    let mut at = first;
    while at < bytes.len() {
        let byte = bytes[at];
        let triplet = (byte == b'%').then(|| Some((hex(*bytes.get(at + 1)?)?, hex(*bytes.get(at + 2)?)?))).flatten();
        let Some((high, low)) = triplet else {
            if byte == b'%' {
                stray = Some(out.len());
            }
            out.push(byte);
            at += 1;
            continue;
        };
        let decoded = high << 4 | low;
        let would_complete = decoded.is_ascii_hexdigit() && stray.is_some_and(|stray| out.len() - stray <= 2);
        if is_unreserved(decoded) && !would_complete {
            out.push(decoded);
        } else {
            out.extend_from_slice(&[b'%', UPPER_HEX[high as usize], UPPER_HEX[low as usize]]);
        }
        at += 3;
    }
    (out != bytes).then(|| String::from_utf8(out).expect("only ASCII was exchanged for ASCII"))
}

const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(CanonicalUrl::parse(text).unwrap().as_str(), expected, "{text}");
    }

    #[test]
    fn percent_encoding_is_normalised() {
        check("http://a/%7euser/%c3%a9", "http://a/~user/%C3%A9");
        check("http://a/100%", "http://a/100%");
        check("http://a/a%2", "http://a/a%2");
        check("http://a/a%2Fb?c=%2f", "http://a/a%2Fb?c=%2F");
        check("http://a/%%34%31", "http://a/%%341");
        check("http://a/%4%31", "http://a/%4%31");
        check("http://a/?q=a%20b+c", "http://a/?q=a%20b+c");
    }

    #[test]
    fn parts_are_found() {
        let url = CanonicalUrl::parse("https://u:p%40@[2001:DB8::1]:8443/a/b?c=d#e").unwrap();
        assert_eq!(url.scheme(), "https");
        assert_eq!(url.host(), "[2001:db8::1]");
        assert_eq!(url.host_and_port(), "[2001:db8::1]:8443");
        assert_eq!(url.port(), 8443);
        assert_eq!(url.path(), "/a/b");
        assert_eq!(url.query(), Some("c=d"));
        assert_eq!(url.path_and_query(), "/a/b?c=d");
        assert_eq!(url.origin(), "https://[2001:db8::1]:8443");
        assert_eq!(url.host_address(), Some("2001:db8::1".parse().unwrap()));
        let plain = CanonicalUrl::parse("http://example.com").unwrap();
        assert_eq!((plain.host(), plain.port(), plain.path()), ("example.com", 80, "/"));
        assert_eq!(plain.host_address(), None);
    }

    #[test]
    fn other_schemes_are_refused() {
        assert_eq!(CanonicalUrl::parse("mailto:a@b.example"), Err(UrlError::Scheme));
        assert!(matches!(CanonicalUrl::parse("/a"), Err(UrlError::Malformed(_))));
    }

    /// 170 cases gathered from RFC 3986, WHATWG and nine other programs; disputed ones too, since
    /// every one of them has the WHATWG answer as the expected one.
    #[test]
    fn collected_cases() {
        let cases: serde_json::Value = serde_json::from_str(include_str!("../tests/data/url_cases.json")).unwrap();
        let mut wrong = Vec::new();
        let mut checked = 0;
        for case in cases["cases"].as_array().unwrap() {
            let text = |name: &str| case[name].as_str();
            if text("page_encoding").is_some_and(|label| !label.eq_ignore_ascii_case("utf-8")) {
                continue; // The parser's business: it knows the page's encoding.
            }
            let href = text("href").unwrap();
            let got = match text("base") {
                None | Some("") => CanonicalUrl::parse(href),
                Some(base) => CanonicalUrl::join(&Url::parse(base).unwrap(), href),
            };
            checked += 1;
            if got.as_ref().ok().map(CanonicalUrl::as_str) != text("expected") {
                wrong.push(format!("{}: {href:?} gave {got:?}, expected {:?}", text("id").unwrap(), text("expected")));
            }
        }
        assert!(wrong.is_empty(), "{} of {checked} wrong:\n{}", wrong.len(), wrong.join("\n"));
        assert!(checked > 150, "only {checked} cases were read");
    }

    proptest! {
        #[test]
        fn canonical_form_is_a_fixed_point(
            host in "[a-zA-Z0-9.-]{1,12}",
            rest in "[/?#%a-fA-F0-9.~&=+é \\\\;@:_-]{0,40}",
        ) {
            if let Ok(once) = CanonicalUrl::parse(&format!("http://{host}/{rest}")) {
                let twice = CanonicalUrl::parse(once.as_str()).unwrap();
                prop_assert_eq!(&once, &twice);
                prop_assert_eq!(once.key(), twice.key());
            }
        }

        #[test]
        fn percent_soup_is_a_fixed_point(rest in "(%|[0-9a-fA-F]|/|\\?|%[0-9a-fA-F]{2}){0,30}") {
            let once = CanonicalUrl::parse(&format!("http://h/{rest}")).unwrap();
            let twice = CanonicalUrl::parse(once.as_str()).unwrap();
            prop_assert_eq!(once.as_str(), twice.as_str());
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
            let _ = CanonicalUrl::parse(&text);
            let _ = CanonicalUrl::parse(&format!("http://{text}"));
        }
    }
}
