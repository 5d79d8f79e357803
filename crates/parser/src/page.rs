//! From a body to a page.

use std::cell::RefCell;

use model::{CanonicalUrl, Complaint, ConfigError, Headers, HopClass, Page};

use crate::ParserConfig;
use crate::charset::Markup;
use crate::fields::{self, FieldSelector, NestedTooDeep};
use crate::headers;
use crate::pass::{Found, Pass};
use crate::references::Against;
use crate::relations::{has_relation, leads_to_page};
use crate::resolve::{Bases, Resolver};
use crate::robots;

/// What is parsed.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Where the body came from.
    pub url: &'a CanonicalUrl,
    /// The header fields it came with.
    pub headers: &'a Headers,
    /// The body, its content coding undone.
    pub body: &'a [u8],
}

/// Reads pages, one after the other. Each parse thread makes its own: it holds compiled selectors
/// and scratch memory, and does not move between threads.
///
/// ```
/// use model::{CanonicalUrl, Headers};
/// use parser::{Input, Parser, ParserConfig};
///
/// let mut parser = Parser::new(&ParserConfig::default())?;
/// let url = CanonicalUrl::parse("http://a.example/docs/")?;
/// let body = b"<title>Docs &amp; more</title><a href=../x?a=1&amp;b=2>x</a>";
/// let page = parser.parse(Input { url: &url, headers: &Headers::default(), body });
/// assert_eq!(page.title.as_deref(), Some("Docs & more"));
/// assert_eq!(page.links[0].url.as_str(), "http://a.example/x?a=1&b=2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Parser {
    pass: Pass,
    found: RefCell<Found>,
    resolver: Resolver,
    fields: Vec<FieldSelector>,
    max_nesting: usize,
    nofollow: bool,
}

impl Parser {
    /// A parser for one thread.
    ///
    /// # Errors
    /// With every value of the configuration that cannot be.
    pub fn new(config: &ParserConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            fields: config.field_selectors()?,
            pass: Pass::new(),
            found: RefCell::new(Found::new(config.max_links)),
            resolver: Resolver::default(),
            max_nesting: config.max_nesting as usize,
            nofollow: config.nofollow,
        })
    }

    /// Reads a page. Whatever the bytes are, there is a page; what was odd about them stands in its
    /// complaints.
    pub fn parse(&mut self, input: Input<'_>) -> Page {
        let markup = Markup::new(input.url, input.headers, input.body);
        let mut page = Page { charset: Some(markup.charset.name()), ..Page::default() };

        self.found.get_mut().clear();
        let header_canonical = self.add_header_links(input.headers);
        self.pass.run(&markup.bytes, markup.encoding, &self.found);

        let found = self.found.get_mut();
        page.title = found.title.take();
        page.robots = found.robots;
        robots::apply_headers(&mut page.robots, input.headers);
        let bases = Bases::new(input.url, markup.charset, found.base.as_deref());
        self.resolver.resolve(&found.references, &bases, self.nofollow, &mut page);
        let canonical = found.canonical.as_deref().and_then(|reference| bases.join(reference, Against::Base).ok());
        page.canonical =
            canonical.or_else(|| header_canonical.and_then(|reference| bases.join(reference, Against::Page).ok()));

        let mut complain = |fits: bool, complaint| page.complaints.extend(fits.then_some(complaint));
        complain(found.references.dropped() > 0, Complaint::TooManyLinks);
        complain(found.stopped, Complaint::LinkPassStopped);
        complain(markup.bad_characters, Complaint::BadCharacters);
        if !self.fields.is_empty() {
            match fields::read(&self.fields, &markup.bytes, markup.encoding, self.max_nesting) {
                Ok((fields, too_large)) => {
                    page.fields = fields;
                    if too_large {
                        page.complaints.push(Complaint::FieldsTooLarge);
                    }
                }
                Err(NestedTooDeep) => page.complaints.push(Complaint::NestedTooDeep),
            }
        }
        page
    }

    /// Adds the links of the `Link` header; gives back the one that is `rel=canonical`.
    fn add_header_links<'a>(&mut self, headers: &'a Headers) -> Option<&'a str> {
        let references = &mut self.found.get_mut().references;
        let mut canonical = None;
        for link in headers::links(headers).filter(|link| leads_to_page(link.rel)) {
            references.add(link.target, Against::Page, HopClass::Navigation, has_relation(link.rel, "nofollow"));
            if has_relation(link.rel, "canonical") {
                canonical = canonical.or(Some(link.target));
            }
        }
        canonical
    }
}
