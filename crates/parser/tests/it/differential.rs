//! The links of the streaming pass are those of a browser's DOM.
//!
//! Two parsers, one answer, on pages no author would write. Differences that are accepted, and
//! therefore not generated:
//! - `noscript` content is found by its end tag alone, so a comment inside that holds `</noscript`
//!   ends it here and not in a DOM built without scripts;
//! - a `template` whose parent is closed before it is takes no more links with it;
//! - `select`, `frameset` and SVG with misplaced HTML drop or move elements by rules that need a
//!   tree; the stream keeps every link it sees;
//! - links come in the order of the source; a DOM moves those misplaced in tables.

use std::collections::BTreeSet;

use html5ever::ParseOpts;
use html5ever::tendril::TendrilSink;
use html5ever::tree_builder::TreeBuilderOpts;
use model::CanonicalUrl;
use proptest::prelude::*;
use scraper::{ElementRef, Html, HtmlTreeSink, Selector};

use crate::{PAGE_URL, parse};

fn dom(page: &str) -> Html {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    html5ever::parse_document(HtmlTreeSink::new(Html::new_document()), options).one(page)
}

/// The links a DOM has, sorted.
fn oracle(page: &str) -> BTreeSet<String> {
    let dom = dom(page);
    let select = |css: &str| Selector::parse(css).unwrap();
    let is_inert = |element: &ElementRef<'_>| {
        element.ancestors().filter_map(ElementRef::wrap).any(|ancestor| ancestor.value().name() == "template")
    };
    let url = CanonicalUrl::parse(PAGE_URL).unwrap().to_url();
    let base = dom
        .select(&select("base[href]"))
        .find(|element| !is_inert(element))
        .and_then(|element| url.join(element.attr("href").unwrap()).ok())
        .unwrap_or_else(|| url.clone());
    dom.select(&select("a[href], area[href], link[rel=next][href], iframe[src]"))
        .filter(|element| !is_inert(element))
        .filter_map(|element| {
            let reference = element.attr("href").or(element.attr("src")).unwrap();
            let is_self = base == url && reference.trim().split('#').next() == Some("");
            (!is_self).then(|| CanonicalUrl::join(&base, reference).ok()).flatten()
        })
        .map(|url| url.as_str().to_owned())
        .collect()
}

fn found(page: &str) -> BTreeSet<String> {
    parse(page).links.iter().map(|link| link.url.as_str().to_owned()).collect()
}

#[test]
fn odd_pages() {
    for page in [
        "<table><a href=1><tr><td><a href=2></table><a href=3>",
        "<table><table><tr><td><a href=1><table><a href=2></table></table>",
        "<p><a href=1><div><a href=2></a></p></div><a href=3>",
        "<a href='1><b>'2>x</a><a href=3>",
        "<a href=1<b><a href=\"2\"\"><a href=3/><a / href=4>",
        "<a\nhref\n=\n1\n><a href=>2<a href><a =href=3>",
        "<!--><a href=1>--><!---><a href=2><!-- --!><a href=3><!-- -- ><a href=4> -->",
        "<![CDATA[<a href=1>]]><?php <a href=2> ?><!x <a href=3>",
        "<script><!--<script></script><a href=1></script><a href=2>--></script><a href=3>",
        "<script></scripty><a href=1></script ><a href=2>",
        "<title><a href=1></title/><a href=2><textarea></textarea x><a href=3>",
        "<style></ style><a href=1></STYLE><a href=2>",
        "<xmp><a href=1></xmp><noembed><a href=2></noembed><noframes><a href=3></noframes><a href=4>",
        "<noscript><p><a href=1></p></noscript><a href=2>",
        "<head><noscript><link rel=next href=1></noscript><body><a href=2>",
        "<template><a href=1></template><a href=2>",
        "<template><template><a href=1></template><a href=2></template><a href=3>",
        "<a href=&#49;><a href='&#x32;&amp3'><a href='&notit;&notin;'>",
        "<a href=1 href=2><A HREF=3 hReF=4>",
        "</a href=1><br/><a/href=2><a href='3",
        "<a href=1\0><a\0href=2><a href=3 \0>",
        "<plaintext><a href=1></plaintext><a href=2>",
        "<svg><style><a href=1></a></style></svg><a href=2>",
        "<math><mi><a href=1></mi></math><a href=2>",
        "<base href=/b/><a href=1><base href=/c/><a href=2>",
    ] {
        assert_eq!(found(page), oracle(page), "{page}");
    }
}

fn piece() -> impl Strategy<Value = String> {
    let reference = "[a-d]{1,2}|/[a-d]|\\?a=1&amp;b|#x|&#x6[1-4];|a&copy=b|&lt|é|http://b/[ab]";
    let link = (0..6, reference).prop_map(|(form, reference)| match form {
        0 => format!("<a href=\"{reference}\">"),
        1 => format!("<a class='>' href='{reference}' rel=nofollow>x</a>"),
        2 => format!("<A x=\"<a href=y>\" HREF={reference} >"),
        3 => format!("<area href = '{reference}'/>"),
        4 => format!("<iframe src=\"{reference}\"><a href=inert></iframe>"),
        _ => format!("<link rel=next href='{reference}'>"),
    });
    let tags = prop::sample::select(vec![
        "<p>",
        "</p>",
        "<div>",
        "</div>",
        "<b>",
        "</b>",
        "</a>",
        "<table>",
        "</table>",
        "<tr>",
        "<td>",
        "</td>",
        "<ul>",
        "<li>",
        "</ul>",
        "<h1>",
        "</h1>",
        "<br>",
        "<form>",
        "</form>",
        "<button>",
        "</button>",
        "<body>",
        "<head>",
        "<html lang=x>",
        "<em class=\"a'b\">",
        "<p title='x\"y'>",
        "<img src='a>b'>",
        "<input value=\"<p>\">",
    ]);
    let text = prop::sample::select(vec![
        "text",
        " ",
        "&amp;",
        "<",
        "< a href=x>",
        "</>",
        "é",
        "\0",
        "<>",
        "<3",
        "&lt;a href=x&gt;",
        "\"",
        "'",
    ]);
    let raw = prop::sample::select(vec![
        "<!-- <a href=inert> -->",
        "<!---->",
        "<!-->",
        "<!-- --!>",
        "<!doctype html>",
        "<?x <a href=y>?>",
        "<script>'<a href=inert>'</script>",
        "<script><!-- <a href=inert> --></script>",
        "<script>a<b</script>",
        "<style><a href=inert></style>",
        "<textarea><a href=inert></textarea>",
        "<title><a href=inert></title>",
        "<xmp><a href=inert></xmp>",
        "<template><a href=inert></a><p></p></template>",
    ]);
    prop_oneof![
        3 => link,
        4 => tags.prop_map(str::to_owned),
        1 => text.prop_map(str::to_owned),
        1 => raw.prop_map(str::to_owned),
        1 => "[a-d]{1,2}".prop_map(|reference| format!("<noscript><p><a href={reference}>x</a></p></noscript>")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_stream_finds_the_links_of_the_dom(pieces in prop::collection::vec(piece(), 0..25)) {
        let page = pieces.concat();
        prop_assert_eq!(found(&page), oracle(&page), "{}", page);
    }
}
