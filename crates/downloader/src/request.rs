//! The head of a request, made so that what is recorded is what is sent.

use std::io::Write as _;

use model::CanonicalUrl;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, REFERER, USER_AGENT,
};
use reqwest::{Client, Request};

use crate::DownloaderError;

/// HTML before anything else, and anything else rather than an error.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
/// What [`crate::decode_body`] undoes.
const ACCEPTED_CODINGS: HeaderValue = HeaderValue::from_static("gzip, br, zstd, deflate");

/// What every request says, in the order it says it.
#[derive(Debug)]
pub(crate) struct RequestHead {
    headers: HeaderMap,
}

impl RequestHead {
    pub(crate) fn new(user_agent: &str, accept_language: &str) -> Result<Self, DownloaderError> {
        let user_agent =
            HeaderValue::from_str(user_agent).map_err(|_| DownloaderError::UserAgent(user_agent.to_owned()))?;
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(USER_AGENT, user_agent);
        headers.insert(ACCEPT, ACCEPTED);
        if let Ok(language) = HeaderValue::from_str(accept_language)
            && !language.is_empty()
        {
            headers.insert(ACCEPT_LANGUAGE, language);
        }
        headers.insert(ACCEPT_ENCODING, ACCEPTED_CODINGS);
        Ok(Self { headers })
    }

    /// A GET of `url`, which comes from `referrer`.
    ///
    /// A user name and password in the URL become an `Authorization` header, as everywhere.
    pub(crate) fn request(
        &self,
        client: &Client,
        url: reqwest::Url,
        referrer: Option<&str>,
    ) -> Result<Request, reqwest::Error> {
        let referrer = referrer.and_then(|referrer| referer(&url, referrer));
        let mut request = client.get(url).build()?;
        let authorization = request.headers_mut().remove(AUTHORIZATION);
        let mut headers = self.headers.clone();
        let rest = [(AUTHORIZATION, authorization), (REFERER, referrer)];
        headers.extend(rest.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))));
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// The head of a request as it goes over the wire: request line, header fields, empty line.
///
/// `Host` is hyper's to write, and stands last: set by us it would be sent in HTTP/2 too, beside
/// `:authority`, and servers (nginx and Google's among them) refuse such requests. What is sent as
/// HTTP/2, which has no text, is written as its HTTP/1.1 equivalent; what goes through a proxy, as
/// the server gets it.
pub(crate) fn head_as_sent(request: &Request, url: &CanonicalUrl) -> Vec<u8> {
    // Most heads are below this; a long path or referrer makes it grow once.
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(b"GET ");
    head.extend_from_slice(url.path_and_query().as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        write_name(&mut head, name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    write!(head, "Host: {}\r\n\r\n", url.host_and_port()).expect("writing to memory cannot fail");
    head
}

/// In title case, as hyper writes it on our request and as servers that compare by case expect it.
fn write_name(head: &mut Vec<u8>, name: &HeaderName) {
    let start = head.len();
    head.extend_from_slice(name.as_str().as_bytes());
    let mut at_start = true;
    for byte in head.iter_mut().skip(start) {
        if at_start {
            byte.make_ascii_uppercase();
        }
        at_start = *byte == b'-';
    }
}

/// The `Referer` header: only between pages of one scheme, so that nothing said in private is told
/// in public (RFC 9110 §10.1.3), and never with a user name in it.
fn referer(url: &reqwest::Url, referrer: &str) -> Option<HeaderValue> {
    let (scheme, rest) = referrer.split_once("://")?;
    let authority = rest.split('/').next()?;
    let tell = scheme == url.scheme() && !authority.contains('@');
    tell.then(|| HeaderValue::from_str(referrer).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(url: &str, referrer: Option<&str>) -> String {
        let client = Client::builder().tls_backend_preconfigured(crate::tls::client_config(false, None).unwrap());
        let url = CanonicalUrl::parse(url).unwrap();
        let request = RequestHead::new("argiope/1 (+http://example.com/bot)", "de")
            .unwrap()
            .request(&client.build().unwrap(), url.to_url(), referrer)
            .unwrap();
        String::from_utf8(head_as_sent(&request, &url)).unwrap()
    }

    #[test]
    fn the_head_stands_in_a_fixed_order() {
        assert_eq!(
            head("https://user:pass@example.com:8443/a?b=c", Some("https://example.com/")),
            "GET /a?b=c HTTP/1.1\r\n\
             User-Agent: argiope/1 (+http://example.com/bot)\r\n\
             Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
             Accept-Language: de\r\n\
             Accept-Encoding: gzip, br, zstd, deflate\r\n\
             Authorization: Basic dXNlcjpwYXNz\r\n\
             Referer: https://example.com/\r\n\
             Host: example.com:8443\r\n\
             \r\n"
        );
    }

    #[test]
    fn the_referrer_is_told_where_it_may_be() {
        for (url, referrer, told) in [
            ("http://a.example/", "http://b.example/x", true),
            ("https://a.example/", "http://b.example/x", false),
            ("http://a.example/", "https://b.example/x", false),
            ("http://a.example/", "http://me@b.example/x", false),
            ("http://a.example/", "http://b.example/@x", true),
            ("http://a.example/", "http://b.example/\n", false),
            ("http://a.example/", "", false),
        ] {
            assert_eq!(head(url, Some(referrer)).contains("Referer: "), told, "{referrer} to {url}");
        }
    }

    #[test]
    fn what_a_header_cannot_hold_is_refused() {
        assert!(matches!(RequestHead::new("argi\nope", "*"), Err(DownloaderError::UserAgent(_))));
        let silent = RequestHead::new("argiope", "").unwrap();
        assert!(!silent.headers.contains_key(ACCEPT_LANGUAGE));
    }
}
