//! Pages as bytes.

use crate::filler::Filler;
use crate::graph::{Destination, Graph, Kind, Place, Trap, What};
use crate::links::{Link, PageLinks, Target};
use crate::paths::push_words;
use crate::random::{Draws, Purpose};
use crate::spelling::Speller;

/// In what characters an HTML page is sent, and where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    Latin1InHeader,
    Latin1OnPage,
    Utf16,
}

impl Charset {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Utf8 => "text/html; charset=utf-8",
            Self::Latin1InHeader => "text/html; charset=ISO-8859-1",
            Self::Latin1OnPage => "text/html",
            Self::Utf16 => "text/html; charset=utf-16le",
        }
    }

    fn encode(self, page: String) -> Vec<u8> {
        match self {
            Self::Utf8 => page.into_bytes(),
            // Pages hold no character beyond U+00FF, whose numbers are those of ISO-8859-1.
            Self::Latin1InHeader | Self::Latin1OnPage => page.chars().map(|c| c as u8).collect(),
            Self::Utf16 => page.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        }
    }
}

/// Renders the pages of one web.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Renderer<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) filler: &'a Filler,
}

impl Renderer<'_> {
    pub(crate) fn charset(self, host: u32, page: u32) -> Charset {
        let mut draws = self.graph.draws(Purpose::Charset, host, page);
        if draws.chance(self.graph.config.other_charsets) {
            draws.choose(&[Charset::Latin1InHeader, Charset::Latin1OnPage, Charset::Utf16])
        } else {
            Charset::Utf8
        }
    }

    /// An HTML page, in its charset.
    pub(crate) fn html(self, host: u32, page: u32, revision: u32) -> Vec<u8> {
        let charset = self.charset(host, page);
        let size = self.graph.size(host, page) as usize;
        let size = if charset == Charset::Utf16 { size / 2 } else { size };
        let mut page = HtmlPage {
            renderer: self,
            place: (host, page),
            revision,
            draws: self.graph.draws(Purpose::Layout, host, page),
            out: String::with_capacity(size + 4096),
        };
        page.write(charset, size);
        charset.encode(page.out)
    }

    /// Something like a PDF: its text holds a URL, which is no link of a page.
    pub(crate) fn pdf(self, host: u32, page: u32, revision: u32) -> Vec<u8> {
        let mut out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj << /Type /Annot /URI (".to_vec();
        out.extend_from_slice(self.trap_url(host, page).as_bytes());
        out.extend_from_slice(b") >> endobj\nstream\n");
        out.extend_from_slice(self.text_of(host, page, revision).as_bytes());
        out.extend_from_slice(b"endstream\n%%EOF\n");
        out
    }

    /// Plain text that happens to contain what would be a link on an HTML page.
    pub(crate) fn text(self, host: u32, page: u32, revision: u32) -> Vec<u8> {
        let url = self.trap_url(host, page);
        let text = self.text_of(host, page, revision);
        format!("Notes, see {url} or <a href=\"{url}\">there</a>.\n\n{text}").into_bytes()
    }

    fn trap_url(self, host: u32, page: u32) -> String {
        self.graph.url(Place { host, what: What::Trap { trap: Trap::Media, page } })
    }

    fn text_of(&self, host: u32, page: u32, revision: u32) -> &str {
        let mut block = self.first_block(host, page, revision);
        self.filler.take(&mut block, self.graph.size(host, page) as usize)
    }

    /// Each revision of a page has other text.
    fn first_block(&self, host: u32, page: u32, revision: u32) -> usize {
        let mut draws = self.graph.draws(Purpose::Text, host, page);
        self.filler.start(&mut Draws::new(draws.bits(), Purpose::Text, revision, 0))
    }
}

/// One HTML page while it is written.
struct HtmlPage<'a> {
    renderer: Renderer<'a>,
    place: (u32, u32),
    revision: u32,
    draws: Draws,
    out: String,
}

/// A base URL's path for the few pages that have a `<base>`.
const BASE: &str = "/away/from/";

impl HtmlPage<'_> {
    fn write(&mut self, charset: Charset, size: usize) {
        let graph = self.renderer.graph;
        let (host, page) = self.place;
        let trap = graph.trap(host, page);
        let mut own_path = String::with_capacity(64);
        graph.write_path(Place { host, what: What::Page(page) }, &mut own_path);
        let base = if self.draws.below(32) == 0 { BASE } else { own_path.as_str() };

        self.write_head(charset, &own_path, base == BASE);
        let links = graph.links(host, page);
        let mut speller = Speller::new(graph, host, base);
        self.out.push_str("<body>\n<nav><ul>\n");
        for link in &links.navigation {
            self.write_link(&mut speller, link, "<li>", "</li>\n");
        }
        self.out.push_str("</ul></nav>\n<main>\n");
        self.write_main(&mut speller, &links, size);
        if let Some((trap, place)) = trap {
            self.write_trap(trap, place);
        }
        self.out.push_str("</main>\n<footer>\n");
        for link in &links.footer {
            self.write_link(&mut speller, link, "", " |\n");
        }
        self.out.push_str("</footer>\n</body>\n</html>\n");
    }

    fn write_head(&mut self, charset: Charset, own_path: &str, has_base: bool) {
        let graph = self.renderer.graph;
        let (host, page) = self.place;
        let name = &*graph.host(host).name;
        let out = &mut self.out;
        out.push_str(if charset == Charset::Utf16 { "\u{feff}" } else { "" });
        out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n");
        out.push_str(match charset {
            Charset::Utf8 => "<meta charset=\"utf-8\">\n",
            Charset::Latin1OnPage => "<meta http-equiv=\"Content-Type\" content=\"text/html; charset=iso-8859-1\">\n",
            Charset::Latin1InHeader | Charset::Utf16 => "",
        });
        out.push_str("<title>Café ");
        push_words(&mut self.draws, out);
        out.extend([" &mdash; ", name, "</title>\n"]);
        if graph.kind(host, page) == Kind::Unfollowed {
            out.push_str("<meta name=\"robots\" content=\"index, nofollow\">\n");
        }
        if has_base {
            out.extend(["<base href=\"http://", name, BASE, "\">\n"]);
        }
        out.extend(["<link rel=\"canonical\" href=\"http://", name]);
        push_escaping_ampersands(own_path, out);
        out.push_str("\">\n<style>body { margin: 2em } nav li { display: inline }</style>\n");
        out.push_str("<script>if (1 < 2 && document.title) { document.title += '' }</script>\n</head>\n");
    }

    /// Headings, text, and the links of the text spread over it.
    fn write_main(&mut self, speller: &mut Speller<'_>, links: &PageLinks, size: usize) {
        let (host, page) = self.place;
        let mut block = self.renderer.first_block(host, page, self.revision);
        self.out.push_str("<h1>");
        push_words(&mut self.draws, &mut self.out);
        self.out.extend(["</h1>\n<p>Revision ", &self.revision.to_string(), "</p>\n"]);
        let start = self.out.len();
        // The footer is about as long as what came so far.
        let end = size.saturating_sub(links.footer.len() * 64);
        let share = end.saturating_sub(start) / links.body.len().max(1);
        for (link, number) in links.body.iter().zip(1..) {
            self.write_link(speller, link, "<p>See ", " there.</p>\n");
            let missing = (start + number * share).saturating_sub(self.out.len());
            self.out.push_str(self.renderer.filler.take(&mut block, missing));
        }
    }

    fn write_trap(&mut self, trap: Trap, place: Place) {
        let mut path = String::with_capacity(32);
        self.renderer.graph.write_path(place, &mut path);
        let (before, after) = match trap {
            Trap::Comment => ("<!-- <a href=\"", "\">once</a> -->\n"),
            Trap::Script => ("<script>var more = '<a href=\"", "\">more</a>';</script>\n"),
            Trap::Style => ("<style>/* <a href=\"", "\">more</a> */</style>\n"),
            Trap::Textarea => ("<textarea rows=2><a href=\"", "\">more</a></textarea>\n"),
            Trap::Template => ("<template><a href=\"", "\">more</a></template>\n"),
            Trap::Attribute => ("<div data-href=\"x\" title='<a href=\"", "\">'>more</div>\n"),
            // These are among the links of the text, or on other media.
            Trap::Nofollow | Trap::Unfollowed | Trap::Media => return,
        };
        self.out.extend([before, &path, after]);
    }

    fn write_link(&mut self, speller: &mut Speller<'_>, link: &Link, before: &str, after: &str) {
        let respelled = self.renderer.graph.config.respelled_links;
        let reference = match link.target {
            Target::Url(destination) => speller.html(&mut self.draws, destination),
            Target::Scheme(reference) => reference,
        };
        let out = &mut self.out;
        out.push_str(before);
        if matches!(link.target, Target::Url(Destination::Inside(_))) && self.draws.chance(respelled) {
            push_unusual_tag(&mut self.draws, reference, link.nofollow, out);
        } else {
            out.push_str(if link.nofollow { "<a rel=\"nofollow\" href=\"" } else { "<a href=\"" });
            push_escaping_ampersands(reference, out);
            out.push_str("\">");
        }
        push_words(&mut self.draws, out);
        out.push_str("</a>");
        out.push_str(after);
    }
}

/// The same start tag as others write it; all of them are HTML.
fn push_unusual_tag(draws: &mut Draws, reference: &str, nofollow: bool, out: &mut String) {
    let rel = if nofollow { "rel='external NoFollow' " } else { "" };
    match draws.below(6) {
        0 => {
            out.extend(["<a ", rel, "href='"]);
            push_escaping_ampersands(reference, out);
            out.push_str("'>");
        }
        1 => {
            out.extend(["<A CLASS=more ", rel, "HREF=\""]);
            push_escaping_ampersands(reference, out);
            out.push_str("\" >");
        }
        2 => {
            out.extend(["<a\n  ", rel, "title=\"a > b\"\n  href = \"\n  "]);
            push_escaping_ampersands(reference, out);
            out.push_str(" \">");
        }
        3 if !reference.contains(['=', '&']) => out.extend(["<a ", rel, "href=", reference, ">"]),
        4 => {
            out.extend(["<a ", rel, "href=\""]);
            out.push_str(&reference.replace('&', "&#38;").replacen('/', "&#x2F;", 1));
            out.push_str("\">");
        }
        // An ampersand needs no escape where no character reference follows.
        _ => out.extend(["<a ", rel, "href=\"", reference, "\">"]),
    }
}

fn push_escaping_ampersands(text: &str, out: &mut String) {
    for (piece, number) in text.split('&').zip(0..) {
        if number > 0 {
            out.push_str("&amp;");
        }
        out.push_str(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebConfig;
    use crate::graph::MAX_SIZE;

    #[test]
    fn sizes_are_those_of_the_real_web() {
        let graph = Graph::new(WebConfig { hosts: 1, pages: 3000, ..WebConfig::small(8) });
        let filler = Filler::new(8);
        let renderer = Renderer { graph: &graph, filler: &filler };
        let mut sizes: Vec<usize> = (0..3000).map(|page| renderer.html(0, page, 0).len()).collect();
        sizes.sort_unstable();
        let quantile = |share: f64| sizes[(share * 2999.0) as usize];
        assert!((22_000..28_000).contains(&quantile(0.5)), "median {}", quantile(0.5));
        assert!((6_000..9_000).contains(&quantile(0.1)), "first decile {}", quantile(0.1));
        assert!((75_000..105_000).contains(&quantile(0.9)), "last decile {}", quantile(0.9));
        assert!(quantile(1.0) > 250_000 && quantile(1.0) <= MAX_SIZE as usize + 4096, "{}", quantile(1.0));
    }

    #[test]
    fn charsets_say_what_they_are() {
        let graph = Graph::new(WebConfig { hosts: 1, pages: 300, other_charsets: 0.5, ..WebConfig::small(8) });
        let filler = Filler::new(8);
        let renderer = Renderer { graph: &graph, filler: &filler };
        let mut seen = Vec::new();
        for page in 0..300 {
            let bytes = renderer.html(0, page, 0);
            let charset = renderer.charset(0, page);
            let title = match charset {
                Charset::Utf8 => b"<title>Caf\xc3\xa9 ".to_vec(),
                Charset::Latin1InHeader | Charset::Latin1OnPage => b"<title>Caf\xe9 ".to_vec(),
                Charset::Utf16 => {
                    assert!(bytes.starts_with(b"\xff\xfe<\0"));
                    "<title>Café ".encode_utf16().flat_map(u16::to_le_bytes).collect()
                }
            };
            assert!(bytes.windows(title.len()).any(|window| window == title), "page {page}, {charset:?}");
            if !seen.contains(&charset) {
                seen.push(charset);
            }
        }
        assert_eq!(seen.len(), 4);
    }
}
