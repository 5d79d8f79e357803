//! Sort-friendly URI reordering: the keys of CDX files.

use std::net::IpAddr;

use model::CanonicalUrl;

/// The key under which a replay tool looks a URL up: host name reversed by labels, user name and
/// `www.` with its numbered kin dropped, escapes undone where they may be, everything in lower
/// case, slashes not repeated nor at the path's end, the query's parts in order:
/// `com,example)/path?a=1&b=2`.
///
/// These are the rules of the Internet Archive's `surt` package (0.3.1), which pywb uses. One is left
/// out: session identifiers stay, as the crawl took them for different URLs. And a path that leads
/// out of the root by escaped slashes (`/..%2Fa`) stays inside.
pub(crate) fn surt(url: &CanonicalUrl) -> String {
    let host = url.host().to_ascii_lowercase();
    let mut key = String::with_capacity(url.as_str().len());
    match url.host_address() {
        Some(IpAddr::V6(address)) => key.push_str(&address.to_string()),
        Some(IpAddr::V4(_)) => reverse_labels(&mut key, &host),
        None => reverse_labels(&mut key, without_www(&host)),
    }
    let default_port = if url.scheme() == "https" { 443 } else { 80 };
    if url.port() != default_port {
        key.push(':');
        key.push_str(&url.port().to_string());
    }
    key.push_str(")/");
    let path = with_few_escapes(url.path());
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "." => {}
            // Only an escaped slash brings these here: the others were resolved with the URL.
            ".." => _ = names.pop(),
            _ => names.push(name),
        }
    }
    names.retain(|name| !name.is_empty());
    key.push_str(&names.join("/"));
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        let query = with_few_escapes(query);
        let mut parts: Vec<_> = query.split('&').collect();
        // By name first: `a=2` stands before `a1=1`, though '=' is greater than '1'.
        parts.sort_by(|one, other| name_and_value(one).cmp(&name_and_value(other)));
        key.push('?');
        key.push_str(&parts.join("&"));
    }
    key
}

fn name_and_value(part: &str) -> (&str, Option<&str>) {
    part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)))
}

/// Undoes percent-escapes until none is left, escapes once what must be, and lowers the case
/// (Google's Safe Browsing rules, which `surt` begins with).
fn with_few_escapes(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    // Each round makes the text shorter, and `%2525…` by a third, so this is at most quadratic in
    // the length of a URL's path, and in earnest one round.
    while let Some(fewer) = unescaped(&bytes) {
        bytes = fewer;
    }
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte <= b' ' || byte >= 0x7f || matches!(byte, b'%' | b'#') {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
        } else {
            out.push(byte.to_ascii_lowercase().into());
        }
    }
    out
}

/// One round of undoing escapes; `None` where there is none.
fn unescaped(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, behind)) = rest.split_first() {
        let digit = |at: usize| behind.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (byte, digit(0), digit(1)) {
            out.push((high << 4 | low) as u8);
            rest = &behind[2..];
        } else {
            out.push(byte);
            rest = behind;
        }
    }
    (out.len() < bytes.len()).then_some(out)
}

/// The host without a first label such as `www` or `www2`.
fn without_www(host: &str) -> &str {
    let rest = host.strip_prefix("www").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix('.')).filter(|rest| !rest.is_empty()).unwrap_or(host)
}

fn reverse_labels(key: &mut String, host: &str) {
    for (index, label) in host.trim_end_matches('.').rsplit('.').enumerate() {
        if index > 0 {
            key.push(',');
        }
        key.push_str(label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(surt(&CanonicalUrl::parse(url).unwrap()), expected, "{url}");
    }

    /// The answers of the Python package surt 0.3.1.
    #[test]
    fn keys_are_those_of_the_surt_package() {
        check("http://example.com/", "com,example)/");
        check("https://www.Example.com/A/B/?b=2&A=1", "com,example)/a/b?a=1&b=2");
        check("http://www2.example.com:8080/x", "com,example:8080)/x");
        check("https://example.com:443/x", "com,example)/x");
        check("http://www.com/", "com)/");
        check("http://wwwx.example/", "example,wwwx)/");
        check("http://user:pass@a.b.example.co.uk/?", "uk,co,example,b,a)/");
        check("http://192.0.2.10/info/", "10,2,0,192)/info");
        check("http://example.com/?a1=1&a=2&a=1", "com,example)/?a=1&a=2&a1=1");
        check("http://example.com/?b&a", "com,example)/?a&b");
        check("http://[2001:db8::1]:8080/x", "2001:db8::1:8080)/x");
        check("http://example.com//a//?", "com,example)/a");
        check("http://example.com/?a&a=1&a=", "com,example)/?a&a=&a=1");
        check("http://example.com/a%C3%A9%2525?x=%2F&b", "com,example)/a%c3%a9%25?b&x=/");
        check("http://example.com/a/b%2F..%2F.%2Fc", "com,example)/a/c");
        check("http://www1a.example.com/a?b=1/", "com,example,www1a)/a?b=1/");
    }

    /// `%25` behind `%25`: the text grows shorter by two bytes in each round.
    #[test]
    fn many_escapes_of_escapes_end() {
        check(&format!("http://a.example/%{}41", "25".repeat(1000)), "example,a)/a");
    }
}
