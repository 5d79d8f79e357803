//! The one streaming pass over a page.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use encoding_rs::Encoding;
use lol_html::html_content::{Attribute, Element, EndTag};
use lol_html::{AsciiCompatibleEncoding, ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings};
use model::{HopClass, PageRobots};

use crate::references::{Against, References};
use crate::refresh::refresh_target;
use crate::relations::{has_relation, leads_to_page};
use crate::robots;
use crate::text::{self, attribute_text};

/// The tokenizer's own memory: its stack of open elements, some 100 bytes each, and what a cut page
/// leaves unfinished.
const TOKENIZER_BYTES: usize = 16 << 20;

/// A longer tag is passed over: what makes a link's tag so long is data, not an address, and its
/// attributes alone could cost more memory than the page.
const MAX_TAG_BYTES: usize = 256 << 10;

/// Each `noscript` costs a tokenizer of its own, some microseconds; a page has a few.
const MAX_NOSCRIPTS: u32 = 1000;

/// Bytes of a title looked at, and kept.
const MAX_TITLE_MARKUP: usize = 16 << 10;
const MAX_TITLE_BYTES: usize = 1 << 10;

/// What the pass found, unresolved. Filled page after page, so that its memory is reused.
#[derive(Debug)]
pub(crate) struct Found {
    /// Every reference that may be a link.
    pub(crate) references: References,
    /// The first `base href`; it holds for the whole page (WHATWG HTML §2.4.3).
    pub(crate) base: Option<String>,
    /// The first `link rel=canonical`.
    pub(crate) canonical: Option<String>,
    /// The first title, folded and clipped; that of a drawing where the page has none before it.
    pub(crate) title: Option<String>,
    /// The robots meta elements.
    pub(crate) robots: PageRobots,
    /// Templates open at this point of the page. Shared with the handlers of their end tags, which
    /// lol_html wants to own.
    open_templates: Rc<Cell<u32>>,
    noscripts: u32,
    /// The tokenizer gave up; what it had found stays found.
    pub(crate) stopped: bool,
}

impl Found {
    /// Nothing yet, with room for `max_links` references.
    pub(crate) fn new(max_links: u32) -> Self {
        Self {
            references: References::new(max_links),
            base: None,
            canonical: None,
            title: None,
            robots: PageRobots::default(),
            open_templates: Rc::default(),
            noscripts: 0,
            stopped: false,
        }
    }

    /// Makes room for the next page.
    pub(crate) fn clear(&mut self) {
        self.references.clear();
        (self.base, self.canonical, self.title) = (None, None, None);
        self.robots = PageRobots::default();
        self.open_templates.set(0);
        self.noscripts = 0;
        self.stopped = false;
    }
}

/// The pass, its element selectors compiled once per thread. They name no attributes: deciding
/// about those costs lol_html an allocation per tag.
#[derive(Debug)]
pub(crate) struct Pass {
    selectors: Vec<(Selector, Visit)>,
}

type Visit = fn(Run<'_>, &mut Element<'_, '_>);

impl Pass {
    pub(crate) fn new() -> Self {
        let selectors: [(&str, Visit); 8] = [
            ("a, area", |run, element| run.anchor(element)),
            ("link", |run, element| run.link(element)),
            ("base", |run, element| run.base(element)),
            ("iframe, frame", |run, element| run.frame(element)),
            ("meta", |run, element| run.meta(element)),
            ("title", |run, element| run.title(element)),
            ("template", |run, element| run.template(element)),
            ("noscript", |run, element| run.noscript(element)),
        ];
        let compile = |css: &str| css.parse().expect("the selectors above are well-formed");
        Self { selectors: selectors.map(|(css, visit)| (compile(css), visit)).into() }
    }

    /// Runs over a page and adds what it finds. The encoding is ASCII-compatible.
    pub(crate) fn run(&self, markup: &[u8], encoding: &'static Encoding, found: &RefCell<Found>) {
        Run { pass: self, markup, encoding, found, in_noscript: false }.go();
    }
}

/// One run of the tokenizer, and what it does with each element.
#[derive(Clone, Copy)]
struct Run<'a> {
    pass: &'a Pass,
    markup: &'a [u8],
    encoding: &'static Encoding,
    found: &'a RefCell<Found>,
    in_noscript: bool,
}

impl<'a> Run<'a> {
    fn go(self) {
        let encoding = AsciiCompatibleEncoding::new(self.encoding).expect("other pages are transcoded first");
        let memory = MemorySettings::new()
            .with_preallocated_parsing_buffer_size(0)
            .with_max_allowed_memory_usage(TOKENIZER_BYTES);
        // Strict mode gives up on markup whose text type it cannot be sure of; guessing finds more.
        let mut settings = Settings::new().with_encoding(encoding).with_memory_settings(memory).with_strict(false);
        for (selector, visit) in &self.pass.selectors {
            let handler = move |element: &mut Element<'_, '_>| {
                visit(self, element);
                Ok(())
            };
            let handlers = ElementContentHandlers::default().element(handler);
            settings = settings.append_element_content_handler((Cow::Borrowed(selector), handlers));
        }
        // The page is written in one piece, so that locations are positions in `markup` and
        // nothing is buffered.
        let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
        if rewriter.write(self.markup).and_then(|()| rewriter.end()).is_err() {
            self.found.borrow_mut().stopped = true;
        }
    }

    fn anchor(self, element: &mut Element<'_, '_>) {
        let Some(attributes) = self.attributes(element) else { return };
        if let Some(href) = attributes.get("href") {
            let nofollow = attributes.get("rel").is_some_and(|rel| has_relation(&rel, "nofollow"));
            self.add(&href, HopClass::Navigation, nofollow);
        }
    }

    fn link(self, element: &mut Element<'_, '_>) {
        let Some(attributes) = self.attributes(element) else { return };
        let Some(rel) = attributes.get("rel").filter(|rel| leads_to_page(rel)) else { return };
        let Some(href) = attributes.get("href") else { return };
        self.add(&href, HopClass::Navigation, has_relation(&rel, "nofollow"));
        if has_relation(&rel, "canonical") {
            self.found.borrow_mut().canonical.get_or_insert_with(|| href.into_owned());
        }
    }

    fn base(self, element: &mut Element<'_, '_>) {
        let Some(href) = self.attributes(element).and_then(|attributes| attributes.get("href")) else { return };
        self.found.borrow_mut().base.get_or_insert_with(|| href.into_owned());
    }

    fn frame(self, element: &mut Element<'_, '_>) {
        let Some(src) = self.attributes(element).and_then(|attributes| attributes.get("src")) else { return };
        self.add(&src, HopClass::Navigation, false);
    }

    fn meta(self, element: &mut Element<'_, '_>) {
        let Some(attributes) = self.attributes(element) else { return };
        let Some(content) = attributes.get("content") else { return };
        let is_refresh = attributes.get("http-equiv").is_some_and(|name| name.eq_ignore_ascii_case("refresh"));
        if let Some(target) = refresh_target(&content).filter(|_| is_refresh) {
            self.add(target, HopClass::Redirect, false);
        }
        if attributes.get("name").is_some_and(|name| robots::addresses_us(&name)) {
            robots::apply(&mut self.found.borrow_mut().robots, &content);
        }
    }

    fn title(self, element: &mut Element<'_, '_>) {
        if self.found.borrow().title.is_none() && self.attributes(element).is_some() {
            let markup = self.raw_text(element, b"title");
            let markup = markup.get(..MAX_TITLE_MARKUP).unwrap_or(markup);
            let title = htmlize::unescape(text::decode(markup, self.encoding));
            self.found.borrow_mut().title =
                Some(text::fold([&*title], MAX_TITLE_BYTES)).filter(|title| !title.is_empty());
        }
    }

    fn template(self, element: &mut Element<'_, '_>) {
        let open = Rc::clone(&self.found.borrow().open_templates);
        let opened = open.get().saturating_add(1);
        let still_open = Rc::clone(&open);
        let close = Box::new(move |_: &mut EndTag<'_>| {
            still_open.set(still_open.get().saturating_sub(1));
            Ok(())
        });
        // One that can have no content, as a self-closing one in SVG, has no end either.
        if element.on_end_tag(close).is_ok() {
            open.set(opened);
        }
    }

    /// lol_html takes the content of `noscript` for text, as a client that runs scripts would: it
    /// is read by a run of its own.
    fn noscript(self, element: &mut Element<'_, '_>) {
        if self.in_noscript || !is_html(element) || self.attributes(element).is_none() {
            return;
        }
        let markup = self.raw_text(element, b"noscript");
        if memchr::memchr(b'<', markup).is_some() && self.found.borrow().noscripts < MAX_NOSCRIPTS {
            self.found.borrow_mut().noscripts += 1;
            Run { markup, in_noscript: true, ..self }.go();
        }
    }

    fn add(self, reference: &str, hop: HopClass, nofollow: bool) {
        self.found.borrow_mut().references.add(reference, Against::Base, hop, nofollow);
    }

    /// The element's attributes; `None` when it is to be passed over.
    fn attributes<'e>(self, element: &'e Element<'_, '_>) -> Option<Attributes<'a, 'e>> {
        let is_inert = self.found.borrow().open_templates.get() > 0;
        if is_inert || element.source_location().bytes().len() > MAX_TAG_BYTES {
            return None;
        }
        Some(Attributes { markup: self.markup, encoding: self.encoding, list: element.attributes() })
    }

    /// The text between the element's start tag and the end tag of that name.
    fn raw_text(self, element: &Element<'_, '_>, name: &[u8]) -> &'a [u8] {
        let start = element.source_location().bytes().end;
        self.markup.get(start..text::raw_text_end(self.markup, start, name)).unwrap_or_default()
    }
}

/// An element's attributes, read off the page's own bytes: lol_html would hand out copies.
struct Attributes<'a, 'e> {
    markup: &'a [u8],
    encoding: &'static Encoding,
    list: &'e [Attribute<'e>],
}

impl<'a> Attributes<'a, '_> {
    /// The value of the first attribute of that name; empty when it has none.
    fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let is_named = |attribute: &&Attribute<'_>| {
            let range = attribute.name_source_location().map(|location| location.bytes());
            range.and_then(|range| self.markup.get(range)).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
        };
        let attribute = self.list.iter().find(is_named)?;
        let range = attribute.value_source_location().map(|location| location.bytes());
        Some(attribute_text(range.and_then(|range| self.markup.get(range)).unwrap_or_default(), self.encoding))
    }
}

fn is_html(element: &Element<'_, '_>) -> bool {
    element.namespace_uri() == "http://www.w3.org/1999/xhtml"
}
