use encoding_rs::Encoding;
use model::{CanonicalUrl, Complaint, Headers, HopClass, Page, Reason};
use parser::{Input, PAGE_RELATIONS, Parser, ParserConfig};

use crate::{headers, parse, parse_with, targets};

#[track_caller]
fn check(body: &str, expected: &[&str]) {
    assert_eq!(targets(&parse(body)), expected, "{body}");
}

#[test]
fn elements_that_are_links() {
    check("<a href=x>", &["/d/x"]);
    check("<map><area href=/x></map>", &["/x"]);
    check("<iframe src=x></iframe><frameset><frame src=y>", &["/d/x", "/d/y"]);
    check("<A HREF='x'>x</A><a hReF=\"y\">", &["/d/x", "/d/y"]);
    check("<svg><a href=x /></svg>", &["/d/x"]);
    for relation in PAGE_RELATIONS {
        check(&format!("<link rel='x {relation}' href=x>"), &["/d/x"]);
    }
    for relation in ["stylesheet", "alternate stylesheet", "icon", "preload", "preconnect", "dns-prefetch", ""] {
        check(&format!("<link rel='{relation}' href=x>"), &[]);
    }
    check("<a>x</a><a name=x><link href=x><img src=x><script src=x></script><form action=x>", &[]);
}

#[test]
fn places_that_hold_no_links() {
    for inert in [
        "<!-- <a href=x> -->",
        "<script>'<a href=x>'</script>",
        "<style><a href=x></style>",
        "<template><p><a href=x></a></p></template>",
        "<template><template></template><a href=x></a></template>",
        "<textarea><a href=x></textarea>",
        "<title><a href=x></title>",
        "<iframe><a href=x></iframe>",
        "<p title='<a href=x>'>",
        "<plaintext><a href=x>",
    ] {
        check(inert, &[]);
        if !inert.starts_with("<plaintext") {
            check(&format!("{inert}<a href=y>"), &["/d/y"]);
        }
    }
}

#[test]
fn noscript_is_read_in_its_place() {
    check("<a href=x><noscript><p><a href=y></noscript><a href=z>", &["/d/x", "/d/y", "/d/z"]);
    check("<noscript><a href=y>", &["/d/y"]);
    check("<noscript><!-- <a href=y> --></noscript>", &[]);
    check("<template><noscript><a href=y></noscript></template>", &[]);
    check("<noscript><template><a href=y></template></noscript><a href=z>", &["/d/z"]);
}

#[test]
fn references_are_read_as_browsers_read_them() {
    check("<a href=' \n x\t'>", &["/d/x"]);
    check("<a href='x\ny'>", &["/d/xy"]);
    check("<a href='?a=1&amp;b=2&copy=3'>", &["/d/page?a=1&b=2&copy=3"]);
    check("<a href='&#x78;&#35;y'>", &["/d/x"]);
    check("<a href=x href=y>", &["/d/x"]);
    check("<a href='é?é'>", &["/d/%C3%A9?%C3%A9"]);
    check("<a href=HTTP://B.example:80/%7ex>", &["http://b.example/~x"]);
    check("<a href=//b.example/><a href=///c.example/>", &["http://b.example/", "http://c.example/"]);
    check("<a href='x\0y'>", &["/d/x%EF%BF%BDy"]);
}

#[test]
fn repetitions_are_counted_once_kept() {
    let page = parse("<a href=y><a href=./x><a href=x><a href=x#a><a href='x#b'><a href=#top><a href=''><a href=/d/x>");
    assert_eq!(targets(&page), ["/d/y", "/d/x"]);
    assert_eq!(page.links_found, 6);
}

#[test]
fn the_first_base_holds_for_the_whole_page() {
    check("<a href=x><base href=/b/><base href=/c/><a href=y>", &["/b/x", "/b/y"]);
    check("<base target=x><base href=//b.example/c/d><a href=x>", &["http://b.example/c/x"]);
    check("<base href=/b/><a href=#top>", &["/b/"]);
    check("<base href=javascript:x><a href=x>", &["/d/x"]);
    check(&format!("<base href=/{}/><a href=x>", "b".repeat(5000)), &["/d/x"]);
    check("<template><base href=/b/></template><a href=x>", &["/d/x"]);
}

#[test]
fn what_cannot_be_fetched_is_refused() {
    let page = parse("<a href=mailto:a@b><a href=mailto:a@b><a href='http://[x/'><a href=javascript:x><a href=x>");
    assert_eq!(targets(&page), ["/d/x"]);
    let refused: Vec<_> = page.refused.iter().map(|refused| (refused.reference.as_str(), refused.reason)).collect();
    let expected = [
        ("mailto:a@b", Reason::UnsupportedScheme),
        ("http://[x/", Reason::Malformed),
        ("javascript:x", Reason::UnsupportedScheme),
    ];
    assert_eq!(refused, expected);
    assert_eq!(page.links_found, 5);

    let many = (0..300).map(|n| format!("<a href='mailto:{n}{}'>", "é".repeat(300))).collect::<Vec<_>>().concat();
    let page = parse(&many);
    assert_eq!(page.refused.len(), 100);
    assert!(page.refused.iter().all(|refused| refused.reference.len() <= 256));
}

fn nofollowed(config: &ParserConfig, fields: &[(&str, &str)], body: &str) -> Vec<bool> {
    parse_with(config, &headers(fields), body.as_bytes()).links.iter().map(|link| link.nofollow).collect()
}

#[test]
fn nofollow_is_marked() {
    let config = ParserConfig::default();
    assert_eq!(nofollowed(&config, &[], "<a href=x rel='ugc NoFollow'><a href=y rel=next>"), [true, false]);
    assert_eq!(nofollowed(&config, &[], "<a href=x rel=nofollow><a href=x>"), [false]);
    assert_eq!(nofollowed(&config, &[], "<a href=x rel=nofollow><a href=./x>"), [false]);
    assert_eq!(nofollowed(&config, &[], "<a href=x><meta name=robots content=nofollow>"), [true]);
    assert_eq!(nofollowed(&config, &[("X-Robots-Tag", "nofollow")], "<a href=x>"), [true]);
    let ignoring = ParserConfig { nofollow: false, ..config };
    assert_eq!(nofollowed(&ignoring, &[("X-Robots-Tag", "none")], "<a href=x rel=nofollow>"), [false]);
}

#[test]
fn a_refresh_is_a_redirect() {
    let page = parse("<meta http-equiv=Refresh content='0; url=x'><a href=y><meta http-equiv=refresh content=5>");
    let hops: Vec<_> = page.links.iter().map(|link| (link.url.path(), link.hop)).collect();
    assert_eq!(hops, [("/d/x", HopClass::Redirect), ("/d/y", HopClass::Navigation)]);
}

#[test]
fn headers_have_links_too() {
    let fields = [("Link", "<x>; rel=next, <y>; rel=preload"), ("Link", "<z>; rel=\"prev nofollow\"")];
    let page = parse_with(&ParserConfig::default(), &headers(&fields), b"<base href=/b/><a href=x>");
    let links: Vec<_> = page.links.iter().map(|link| (link.url.path(), link.nofollow)).collect();
    assert_eq!(links, [("/d/x", false), ("/d/z", true), ("/b/x", false)]);
}

#[test]
fn links_beyond_the_limit_are_counted() {
    let config = ParserConfig { max_links: 2, ..ParserConfig::default() };
    let page = parse_with(&config, &Headers::default(), b"<a href=x><a href=y><a href=z><a href=x><a href=z>");
    assert_eq!(targets(&page), ["/d/x", "/d/y"]);
    assert_eq!(page.links_found, 5);
    assert_eq!(page.complaints, [Complaint::TooManyLinks]);
}

#[test]
fn keys_are_those_of_the_urls() {
    let page = parse("<a href=x><a href=//b.example/>");
    assert!(page.links.iter().all(|link| link.key == link.url.key()));
}

#[test]
fn a_parser_forgets_the_page_before() {
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let url = CanonicalUrl::parse("http://a.example/").unwrap();
    let mut parse = |body: &str| parser.parse(Input { url: &url, headers: &Headers::default(), body: body.as_bytes() });
    parse(
        "<base href=/b/><title>x</title><meta name=robots content=none><link rel=canonical href=x><template><a href=y>",
    );
    let page = parse("<a href=z>");
    assert_eq!(targets(&page), ["/z"]);
    assert_eq!((page.title, page.canonical, page.robots.nofollow), (None, None, false));
}

/// A page in some encoding with one link; characters the encoding lacks are written as references.
fn page_in(label: &str, href: &str) -> Page {
    let encoding = Encoding::for_label(label.as_bytes()).unwrap();
    let markup = format!("<a href=\"{href}\">");
    let body = match label {
        "utf-16le" => markup.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => encoding.encode(&markup).0.into_owned(),
    };
    parse_with(&ParserConfig::default(), &headers(&[("content-type", &format!("text/html; charset={label}"))]), &body)
}

#[test]
fn queries_are_written_in_the_encoding_of_the_page() {
    let cases: serde_json::Value =
        serde_json::from_str(include_str!("../../../model/tests/data/url_cases.json")).unwrap();
    let mut checked = 0;
    for case in cases["cases"].as_array().unwrap() {
        let Some(label) = case["page_encoding"].as_str() else { continue };
        let page = page_in(label, case["href"].as_str().unwrap());
        let expected = case["expected"].as_str().unwrap().strip_prefix("http://example.com").unwrap();
        assert_eq!(targets(&page), [expected], "{label}");
        checked += 1;
    }
    assert!(checked >= 2, "only {checked} cases were read");
    assert_eq!(targets(&page_in("iso-2022-jp", "?日")), ["/d/page?%1B$BF|%1B(B"]);
    assert_eq!(targets(&page_in("shift_jis", "ソ?ソ")), ["/d/%E3%82%BD?%83\\"]);
}
