//! The configured fields: what CSS selectors find in a page's DOM.

use encoding_rs::Encoding;
use html5ever::ParseOpts;
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use scraper::{ElementRef, Html, HtmlTreeSink, Selector};

use crate::text;

/// How much of a page a DOM is built of: its nodes take some ten times the memory of its text.
const MAX_DOM_BYTES: usize = 8 << 20;

/// Nodes a DOM may have. Real pages have one per 50 bytes; a page of unclosed formatting elements
/// makes hundreds of each tag (WHATWG HTML §13.2.4.3, "reconstruct the active formatting elements").
const MAX_NODES: usize = 256 << 10;

/// The DOM is looked at after so many bytes: enough to make the looking cheap, too few to nest
/// deeply in one go.
const STEP_BYTES: usize = 1024;

/// Matches kept of one field.
const MAX_MATCHES: usize = 1000;

/// Bytes kept of one match.
const MAX_MATCH_BYTES: usize = 16 << 10;

/// Bytes kept of all fields of a page together: elements within elements repeat their text.
const MAX_BYTES: usize = 2 << 20;

/// Every field's name with its matches.
pub(crate) type Fields = Vec<(String, Vec<String>)>;

/// One configured field.
#[derive(Debug)]
pub(crate) struct FieldSelector {
    name: String,
    selector: Selector,
    /// The attribute to read; the element's text if none.
    attribute: Option<String>,
}

/// The elements of the page nest deeper than allowed.
#[derive(Debug, PartialEq)]
pub(crate) struct NestedTooDeep;

impl FieldSelector {
    /// A field from its rule, `selector` or `selector@attribute`. An `@` within quotes or brackets
    /// is part of the selector.
    pub(crate) fn new(name: &str, rule: &str) -> Result<Self, String> {
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'))
        };
        let (css, attribute) = match rule.rsplit_once('@') {
            Some((css, attribute)) if is_name(attribute) => (css, Some(attribute.to_ascii_lowercase())),
            _ => (rule, None),
        };
        let selector = Selector::parse(css).map_err(|error| {
            format!("{css:?} is not a CSS selector ({error}); write one such as \"h1\" or \"a@title\"")
        })?;
        Ok(Self { name: name.to_owned(), selector, attribute })
    }

    fn read(&self, element: ElementRef<'_>) -> Option<String> {
        match &self.attribute {
            Some(attribute) => element.attr(attribute).map(|value| text::fold([value], MAX_MATCH_BYTES)),
            None => Some(text::fold(element.text(), MAX_MATCH_BYTES)),
        }
    }
}

/// Every field with all its matches, in the order of the selectors and of the page; and whether
/// that is more than is kept, so that the last ones are missing.
pub(crate) fn read(
    selectors: &[FieldSelector],
    markup: &[u8],
    encoding: &'static Encoding,
    max_nesting: usize,
) -> Result<(Fields, bool), NestedTooDeep> {
    let page = text::decode(markup.get(..MAX_DOM_BYTES).unwrap_or(markup), encoding);
    let dom = build(&page, max_nesting)?;
    let mut left = MAX_BYTES;
    let mut too_large = false;
    let mut fields = Fields::new();
    for field in selectors {
        let mut matches = Vec::new();
        for text in dom.select(&field.selector).filter_map(|element| field.read(element)) {
            if matches.len() == MAX_MATCHES || text.len() > left {
                too_large = true;
                break;
            }
            left -= text.len();
            matches.push(text);
        }
        fields.push((field.name.clone(), matches));
    }
    Ok((fields, too_large))
}

/// Builds the DOM step by step, looking after each step how deep it has become. Tree building is
/// quadratic in that depth, and only the builder itself knows what it makes of implied end tags.
fn build(page: &str, max_nesting: usize) -> Result<Html, NestedTooDeep> {
    // As for links: a client without scripts sees what is inside `noscript`.
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() },
        ..ParseOpts::default()
    };
    let mut parser = html5ever::parse_document(HtmlTreeSink::new(Html::new_document()), options);
    let mut rest = page;
    let mut seen = 0;
    while !rest.is_empty() && seen < MAX_NODES {
        let step = match text::clip(rest, STEP_BYTES) {
            "" => rest,
            step => step,
        };
        rest = &rest[step.len()..];
        parser.process(StrTendril::from_slice(step));
        let dom = parser.tokenizer.sink.sink.0.borrow();
        let nodes = dom.tree.nodes();
        let new = nodes.len().saturating_sub(seen);
        seen = nodes.len();
        if nodes.rev().take(new).any(|node| node.ancestors().nth(max_nesting).is_some()) {
            return Err(NestedTooDeep);
        }
    }
    Ok(parser.finish())
}

#[cfg(test)]
mod tests {
    use encoding_rs::UTF_8;

    use super::*;

    #[track_caller]
    fn check(rule: &str, page: &str, expected: &[&str]) {
        let selector = FieldSelector::new("field", rule).unwrap();
        let (fields, _) = read(&[selector], page.as_bytes(), UTF_8, 512).unwrap();
        assert_eq!(fields, [("field".to_owned(), expected.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())]);
    }

    #[test]
    fn text_and_attributes_are_read() {
        check("h1", "<h1> One \n <b>more</b></h1><h1>Two &amp; three</h1>", &["One more", "Two & three"]);
        check("h1", "<h2>x</h2>", &[]);
        check("meta[name=author]@content", "<meta name=author content=' A  B '>", &["A B"]);
        check("a@HREF", "<a href=x>y</a><a>z</a>", &["x"]);
        check("a[href='mailto:a@b']", "<a href='mailto:a@b'>mail</a>", &["mail"]);
        check("noscript p", "<body><noscript><p>plain</p></noscript>", &["plain"]);
        check("p", "<p>déjà vu", &["déjà vu"]);
    }

    #[test]
    fn matches_are_bounded() {
        let page = ["<p>x".repeat(MAX_MATCHES + 1), "<i>".to_owned(), "é ".repeat(MAX_MATCH_BYTES)].concat();
        let selectors = ["p", "i"].map(|rule| FieldSelector::new(rule, rule).unwrap());
        let (fields, _) = read(&selectors, page.as_bytes(), UTF_8, 512).unwrap();
        assert_eq!(fields[0].1.len(), MAX_MATCHES);
        let text = &fields[1].1[0];
        assert!(text.len() <= MAX_MATCH_BYTES && text.len() > MAX_MATCH_BYTES / 2, "{}", text.len());
    }

    fn nests_too_deep(page: &str) -> bool {
        build(page, 100) == Err(NestedTooDeep)
    }

    #[test]
    fn only_depth_is_too_deep() {
        for shallow in ["<p>x", "<li>x", "<tr><td>x", "<br>", "<div></div>", "<!-- x -->", "<svg/>", "<b><p>"] {
            assert!(!nests_too_deep(&shallow.repeat(5000)), "{shallow}");
        }
        for deep in ["<div>", "<font>", "<ul><li>", "<table><tr><td>", "<b><div>", "<svg>", "<x>"] {
            assert!(nests_too_deep(&deep.repeat(5000)), "{deep}");
        }
        // The current node is shallow whenever the builder is looked at.
        let hidden = ["<div>".repeat(80), "</body><!--".to_owned(), "x".repeat(STEP_BYTES), "-->".to_owned()].concat();
        assert!(nests_too_deep(&hidden.repeat(3)));
    }

    #[test]
    fn reconstructed_formatting_is_bounded() {
        let formatting = (0..90).map(|id| format!("<b id={id}>")).collect::<Vec<_>>().concat();
        let page = ["<p>", &formatting, &"<p>x".repeat(20_000)].concat();
        let nodes = build(&page, 200).unwrap().tree.nodes().len();
        assert!((MAX_NODES..2 * MAX_NODES).contains(&nodes), "{nodes}");
    }
}
