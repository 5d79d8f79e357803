use std::time::{Duration, Instant};

use model::{Complaint, Headers, Page};
use parser::ParserConfig;
use proptest::prelude::*;

use crate::{headers, parse, parse_with, targets};

/// Far more than any of these pages takes, even unoptimised and on a busy machine; far less than
/// what anything quadratic in them would.
const PATIENCE: Duration = Duration::from_secs(20);

/// Parses with a field configured, so that the DOM's bounds are tried too.
fn parse_patiently(body: &[u8]) -> Page {
    let config = ParserConfig { fields: [("bold".to_owned(), "b".to_owned())].into(), ..ParserConfig::default() };
    let started = Instant::now();
    let page = parse_with(&config, &headers(&[("content-type", "text/html; charset=utf-8")]), body);
    assert!(started.elapsed() < PATIENCE, "{:?} for {} bytes", started.elapsed(), body.len());
    page
}

#[test]
fn a_million_links() {
    let body = (0..1_000_000).map(|n| format!("<a href={n}></a>")).collect::<Vec<_>>().concat();
    let page = parse_patiently(body.as_bytes());
    assert_eq!((page.links.len(), page.links_found), (10_000, 1_000_000));
    assert!(page.complaints.contains(&Complaint::TooManyLinks));
}

#[test]
fn a_million_times_the_same_link() {
    let page = parse_patiently("<a href=x></a>".repeat(1_000_000).as_bytes());
    assert_eq!((page.links.len(), page.links_found), (1, 1_000_000));
}

#[test]
fn deep_nesting() {
    for open in ["<div>", "<font size=1>", "<ul><li>", "<table><tr><td>", "<b><div>", "<svg>", "<template>", "<x y=z>"]
    {
        let body = ["<a href=x></a>", &open.repeat(100_000), "<a href=y>"].concat();
        let page = parse_patiently(body.as_bytes());
        assert_eq!(targets(&page)[0], "/d/x", "{open}");
        assert!(page.complaints.contains(&Complaint::NestedTooDeep), "{open}");
    }
    let body = ["<div>".repeat(100_000), "</p>".repeat(100_000), "<a href=y>".to_owned()].concat();
    assert_eq!(targets(&parse_patiently(body.as_bytes())), ["/d/y"]);
}

#[test]
fn the_tokenizers_memory_is_bounded() {
    for greedy in ["<div>".repeat(1_000_000), format!("<a {}>", "b ".repeat(1_000_000))] {
        let page = parse_patiently(format!("<a href=x></a>{greedy}<a href=y>").as_bytes());
        assert_eq!(targets(&page), ["/d/x"]);
        assert!(page.complaints.contains(&Complaint::LinkPassStopped));
    }
}

#[test]
fn long_attributes() {
    let long = "x".repeat(1 << 20);
    let page = parse_patiently(
        format!(
            "<a href={long}>1</a><a title='{long}' href=2>2</a><p title={long}><a {} href=y><a href=z>",
            "b ".repeat(150_000)
        )
        .as_bytes(),
    );
    assert_eq!(targets(&page), ["/d/z"]);
    // Long, but not too long: a link, for the scope to refuse.
    let page = parse(&format!("<a href={}>", "y".repeat(100_000)));
    assert_eq!(page.links.len(), 1);
    let page = parse(&format!("<a href=data:{}>", "y".repeat(100_000)));
    assert_eq!((page.links.len(), page.refused.len()), (0, 1));
    // Character references grow when they are decoded.
    parse_patiently(format!("<a href='{}'>", "&NotLessSlantEqual;&ngE;".repeat(10_000)).as_bytes());
}

#[test]
fn many_small_things() {
    for piece in [
        "<noscript><b></noscript>",
        "<noscript>",
        "<title>",
        "<title>x</title>",
        "<template></template>",
        "<meta name=robots content=none>",
        "<base href=x>",
        "<iframe src=x></iframe>",
        "<!--",
        "<![CDATA[",
        "<p x='",
        "</",
        "&",
        "\0",
        "<a href=mailto:x>",
        "<p><b id=1><i>",
    ] {
        parse_patiently(piece.repeat(50_000).as_bytes());
    }
    let refused = (0..100_000).map(|n| format!("<a href=mailto:{n}>")).collect::<Vec<_>>().concat();
    parse_patiently(refused.as_bytes());
}

#[test]
fn long_headers() {
    let link = "<x>; rel=next, ".repeat(100_000);
    let robots = "argiope: noindex, ".repeat(100_000);
    let fields = headers(&[("Link", &link), ("X-Robots-Tag", &robots), ("Content-Type", &"charset".repeat(100_000))]);
    let page = parse_with(&ParserConfig::default(), &fields, b"");
    assert_eq!((page.links.len(), page.links_found), (1, 100_000));
}

#[test]
fn a_page_may_end_anywhere() {
    let body = "<!doctype html><meta charset=utf-8><base href='/b/'><title>Té &amp; x</title><a href=\"é&amp;\" rel=nofollow>\
                <!-- x --><script>'</script><noscript><a href=y></noscript><template><a></template><svg><a/></svg>";
    for end in 0..body.len() {
        parse_with(&ParserConfig::default(), &Headers::default(), &body.as_bytes()[..end]);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_page(body in prop::collection::vec(any::<u8>(), 0..300), content_type in "(text/html; charset=(utf-8|utf-16le|shift_jis|iso-2022-jp|gb18030|iso-2022-kr))?") {
        parse_with(&ParserConfig::default(), &headers(&[("content-type", &content_type)]), &body);
    }

    #[test]
    fn any_markup_is_a_page(body in "(<|>|/|a |href=|base |src=|iframe |meta |content=|=|'|\"|<!--|-->|template|noscript|title|svg|\\PC){0,60}") {
        parse_patiently(body.as_bytes());
    }
}
