//! Is it HTML?

use model::Headers;

/// The tags that open an HTML document (WHATWG MIME Sniffing §7.1), each to be followed by a space
/// or `>`.
const OPENINGS: [&[u8]; 17] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
    b"<!--",
];

/// Media types that say nothing: those WHATWG calls unknown, and what servers send for files whose
/// name they do not know.
const GENERIC: [&str; 5] =
    ["unknown/unknown", "application/unknown", "*/*", "application/octet-stream", "binary/octet-stream"];

/// Whether an answer is a page to parse: its media type is one of HTML's two, or it has none, or a
/// generic one, and the body opens like HTML. `X-Content-Type-Options: nosniff` is obeyed.
pub fn is_html(headers: &Headers, body: &[u8]) -> bool {
    let sniff = || {
        let nosniff =
            headers.get_str("x-content-type-options").is_some_and(|value| value.eq_ignore_ascii_case("nosniff"));
        !nosniff && opens_like_html(body)
    };
    match headers.media_type().as_deref() {
        Some("text/html" | "application/xhtml+xml") => true,
        Some(media) => (GENERIC.contains(&media) || !media.contains('/')) && sniff(),
        None => sniff(),
    }
}

fn opens_like_html(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    OPENINGS.iter().any(|opening| {
        body.split_at_checked(opening.len()).is_some_and(|(start, rest)| {
            // A comment needs no end of its tag.
            let ended = *opening == b"<!--" || matches!(rest.first(), Some(b' ' | b'>'));
            start.eq_ignore_ascii_case(opening) && ended
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, body: &str, expected: bool) {
        let mut headers = Headers::default();
        if !content_type.is_empty() {
            headers.push("Content-Type", content_type);
        }
        assert_eq!(is_html(&headers, body.as_bytes()), expected, "{content_type:?} {body:?}");
    }

    #[test]
    fn the_media_type_decides() {
        check("text/html", "", true);
        check("Text/HTML; charset=utf-8", "anything", true);
        check("application/xhtml+xml", "<?xml version='1.0'?>", true);
        check("text/plain", "<html>", false);
        check("application/pdf", "<html>", false);
    }

    #[test]
    fn what_says_nothing_is_sniffed() {
        for media in ["", "html", "application/octet-stream", "*/*"] {
            check(media, "\u{feff}\n <!DOCTYPE HTML>", true);
            check(media, "<A href=x>", true);
            check(media, "<!--x", true);
            check(media, "<abbr>", false);
            check(media, "<html", false);
            check(media, "%PDF-1.4", false);
            check(media, "", false);
        }
    }

    #[test]
    fn nosniff_is_obeyed() {
        let mut headers = Headers::default();
        headers.push("X-Content-Type-Options", "NoSniff");
        assert!(!is_html(&headers, b"<html>"));
    }
}
