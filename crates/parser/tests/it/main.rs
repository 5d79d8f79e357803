//! The parser seen from outside: what pages give.
//!
//! A new test goes into
//! - `links`: which elements are links, how they are resolved, counted and marked;
//! - `facts`: title, robots, canonical, charset, fields;
//! - `differential`: the same links as a browser's DOM has;
//! - `hostile`: what strangers send to break us.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod differential;
mod facts;
mod hostile;
mod links;

use model::{CanonicalUrl, Headers, Page};
use parser::{Input, Parser, ParserConfig};

const PAGE_URL: &str = "http://a.example/d/page?q=1";

/// Header fields from pairs.
fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::default();
    for (name, value) in fields {
        headers.push(name, *value);
    }
    headers
}

/// A page at [`PAGE_URL`].
fn parse_with(config: &ParserConfig, headers: &Headers, body: &[u8]) -> Page {
    let url = CanonicalUrl::parse(PAGE_URL).unwrap();
    Parser::new(config).unwrap().parse(Input { url: &url, headers, body })
}

/// The same with the default configuration, as UTF-8.
fn parse(body: &str) -> Page {
    parse_with(&ParserConfig::default(), &headers(&[("content-type", "text/html; charset=utf-8")]), body.as_bytes())
}

/// Where the links lead, with `http://a.example` left out.
fn targets(page: &Page) -> Vec<&str> {
    page.links
        .iter()
        .map(|link| link.url.as_str())
        .map(|url| url.strip_prefix("http://a.example").unwrap_or(url))
        .collect()
}
