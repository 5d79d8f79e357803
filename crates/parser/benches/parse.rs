//! What reading a page costs, and what of it is ours.
//!
//! `ARGIOPE_PAGES=DIR cargo bench -p parser` takes the HTML files below a folder (or one file)
//! instead of the generated pages. Of each set of pages are measured:
//! - `parse`: the whole;
//! - `tokenize`: lol_html alone, asked for the elements with links and reading their `href`;
//! - `resolve`: resolving and hashing the distinct links, given as text.
//!
//! The aim: parse ≤ 1.3 × (tokenize + resolve).

use std::cell::Cell;
use std::env;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lol_html::{HtmlRewriter, Settings, element};
use model::{CanonicalUrl, Headers};
use parser::{Input, Parser, ParserConfig};

/// Files taken of a folder: enough for an average, few enough for the caches to be as warm as a
/// parse thread's, whose page was just received.
const MAX_PAGES: usize = 64;

/// Larger files are left out: an index of half a megabyte would hide the others.
const MAX_PAGE_BYTES: u64 = 200 << 10;

const PAGE_URL: &str = "http://docs.example/3/library/page.html";

fn benches(criterion: &mut Criterion) {
    let (name, pages) = match env::var_os("ARGIOPE_PAGES") {
        Some(path) => {
            let mut pages = Vec::new();
            collect(Path::new(&path), &mut pages);
            pages.sort();
            // Every part of the folder is heard.
            let step = pages.len().div_ceil(MAX_PAGES).max(1);
            ("files", pages.into_iter().step_by(step).map(|(_, page)| page).collect())
        }
        None => ("generated", (0..8).map(generate).collect::<Vec<Vec<u8>>>()),
    };
    assert!(!pages.is_empty(), "ARGIOPE_PAGES names no HTML files");
    let url = CanonicalUrl::parse(PAGE_URL).expect("a URL");
    let headers = Headers::default();
    let mut parser = Parser::new(&ParserConfig::default()).expect("the default configuration is good");

    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(pages.iter().map(|page| page.len() as u64).sum()));
    group.bench_function("parse", |bencher| {
        bencher.iter(|| {
            for body in &pages {
                black_box(parser.parse(Input { url: &url, headers: &headers, body }));
            }
        });
    });
    group.bench_function("tokenize", |bencher| {
        bencher.iter(|| {
            for body in &pages {
                black_box(tokenize(body));
            }
        });
    });
    let links: Vec<Vec<String>> = pages
        .iter()
        .map(|body| {
            let page = parser.parse(Input { url: &url, headers: &headers, body });
            page.links.iter().map(|link| relative(&url, &link.url)).collect()
        })
        .collect();
    group.bench_function("resolve", |bencher| {
        bencher.iter(|| {
            for references in &links {
                let base = url.to_url();
                for reference in references {
                    black_box(CanonicalUrl::join(&base, reference).map(|url| url.key())).expect("it was a link");
                }
            }
        });
    });
    group.finish();
}

/// lol_html with the handler of the smallest useful crawler.
fn tokenize(body: &[u8]) -> usize {
    let bytes = Cell::new(0);
    let settings =
        Settings::new().append_element_content_handler(element!("a[href], area[href], link[href]", |element| {
            bytes.set(bytes.get() + element.get_attribute("href").map_or(0, |href| href.len()));
            Ok(())
        }));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    rewriter.write(body).and_then(|()| rewriter.end()).expect("these pages fit");
    bytes.get()
}

/// The reference an author would write.
fn relative(page: &CanonicalUrl, target: &CanonicalUrl) -> String {
    page.to_url().make_relative(&target.to_url()).unwrap_or_else(|| target.as_str().to_owned())
}

fn collect(path: &Path, pages: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder").flatten() {
            collect(&entry.path(), pages);
        }
    } else if path.extension().is_some_and(|extension| extension == "html")
        && path.metadata().is_ok_and(|metadata| metadata.len() <= MAX_PAGE_BYTES)
    {
        pages.push((path.to_owned(), fs::read(path).expect("a file")));
    }
}

/// A page like those of documentation: 27 kB, 100 links, every third of them a repetition.
fn generate(number: usize) -> Vec<u8> {
    let mut page =
        format!("<!DOCTYPE html><html><head><meta charset=\"utf-8\" /><title>Page {number}</title></head><body>");
    for paragraph in 0..100 {
        let target = (number + paragraph * paragraph) % 67;
        write!(
            page,
            "<div class=\"section\" id=\"s{paragraph}\"><h2>Section {paragraph}</h2>\n<p>Some <em class=\"x\">words</em> about \
             the <a class=\"reference internal\" href=\"../part{}/page{target}.html#s{paragraph}\"><code class=\"xref\">\
             <span class=\"pre\">name</span></code></a> and what it is good for, &amp; how it is used.</p></div>\n",
            target % 5,
        )
        .expect("writing to a String does not fail");
    }
    page.push_str("</body></html>");
    page.into_bytes()
}

criterion_group!(parse, benches);
criterion_main!(parse);
