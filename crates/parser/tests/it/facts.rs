use model::{Complaint, Headers, PageRobots};
use parser::ParserConfig;

use crate::{headers, parse, parse_with};

#[test]
fn titles() {
    for (body, expected) in [
        ("<title> One \n two </title>", Some("One two")),
        ("<title>a &amp; b &lt;c> <b></title>", Some("a & b <c> <b>")),
        ("<title></title><title>second</title>", Some("second")),
        ("<title>first</title><title>second</title>", Some("first")),
        ("<title>page</title><svg><title>drawing</title></svg>", Some("page")),
        ("<title>cut", Some("cut")),
        ("<template><title>x</title></template>", None),
        ("<!-- <title>x</title> -->", None),
        ("", None),
    ] {
        assert_eq!(parse(body).title.as_deref(), expected, "{body}");
    }
    let long = parse(&format!("<title>{}</title>", "é".repeat(5000))).title.unwrap();
    assert_eq!(long.len(), 1024);
}

#[test]
fn robots() {
    for (field, body, noindex, nofollow) in [
        ("all", "", false, false),
        ("all", "<meta name=ROBOTS content='noindex, follow'>", true, false),
        ("noindex", "<meta name=argiope content=nofollow>", true, true),
        ("all", "<meta name=robots content=None>", true, true),
        ("all", "<meta name=googlebot content=none>", false, false),
        ("all", "<meta property=robots content=none>", false, false),
    ] {
        let page = parse_with(&ParserConfig::default(), &headers(&[("x-robots-tag", field)]), body.as_bytes());
        assert_eq!(page.robots, PageRobots { noindex, nofollow }, "{field} {body}");
    }
}

#[test]
fn canonical() {
    let check = |link: &str, body: &str, expected: Option<&str>| {
        let page = parse_with(&ParserConfig::default(), &headers(&[("Link", link)]), body.as_bytes());
        assert_eq!(page.canonical.as_ref().map(model::CanonicalUrl::as_str), expected, "{link} {body}");
    };
    check("", "<link rel=canonical href=x><link rel=canonical href=y>", Some("http://a.example/d/x"));
    check("<z>; rel=canonical", "<link rel=canonical href=x>", Some("http://a.example/d/x"));
    check("<z>; rel=canonical", "<base href=/b/>", Some("http://a.example/d/z"));
    check("", "<base href=/b/><link rel=CANONICAL href=x>", Some("http://a.example/b/x"));
    check("", "<link rel=canonical href=mailto:x>", None);
    check("", "<a rel=canonical href=x>", None);
}

#[test]
fn charset() {
    let page =
        parse_with(&ParserConfig::default(), &Headers::default(), b"<meta charset=latin1><title>caf\xe9</title>");
    assert_eq!((page.charset, page.title.as_deref()), (Some("windows-1252"), Some("café")));
    let utf16: Vec<u8> = "\u{feff}<title>é</title>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let page = parse_with(&ParserConfig::default(), &Headers::default(), &utf16);
    assert_eq!((page.charset, page.title.as_deref()), (Some("UTF-16BE"), Some("é")));
    assert_eq!(page.complaints, []);
    let page = parse_with(&ParserConfig::default(), &headers(&[("content-type", "text/html; charset=utf-8")]), b"\xff");
    assert_eq!(page.complaints, [Complaint::BadCharacters]);
}

#[test]
fn fields() {
    let config = ParserConfig {
        fields: [("heading", "h1"), ("author", "meta[name=author]@content")]
            .map(|(name, rule)| (name.to_owned(), rule.to_owned()))
            .into(),
        max_nesting: 50,
        ..ParserConfig::default()
    };
    let page = parse_with(&config, &Headers::default(), b"<meta name=author content=A><h1>One</h1><h1>Two</h1>");
    let field = |name: &str, values: &[&str]| (name.to_owned(), values.iter().map(|&value| value.to_owned()).collect());
    assert_eq!(page.fields, [field("author", &["A"]), field("heading", &["One", "Two"])]);

    let deep = ["<div>".repeat(60).as_str(), "<h1>x</h1><a href=x>"].concat();
    let page = parse_with(&config, &Headers::default(), deep.as_bytes());
    assert_eq!((page.fields.len(), page.links.len()), (0, 1));
    assert_eq!(page.complaints, [Complaint::NestedTooDeep]);
}

/// Elements within elements repeat their text: a small page can match much.
#[test]
fn fields_are_bounded_together() {
    let config = ParserConfig {
        fields: ["a", "b", "c"].map(|name| (name.to_owned(), "div".to_owned())).into(),
        ..ParserConfig::default()
    };
    let text = "x".repeat(15_000);
    let page = ["<div>".repeat(200), text, "</div>".repeat(200)].concat();
    let page = parse_with(&config, &Headers::default(), page.as_bytes());
    let bytes: usize = page.fields.iter().flat_map(|(_, matches)| matches).map(String::len).sum();
    assert!((1_900_000..=2 << 20).contains(&bytes), "{bytes} bytes were kept");
    assert_eq!(page.complaints, [Complaint::FieldsTooLarge]);
}
