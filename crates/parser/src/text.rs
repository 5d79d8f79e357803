//! Text as it is kept: references decoded, white space folded, length bounded.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// Decodes the character references of an attribute's value (WHATWG HTML §13.2.5.72–80, "as part
/// of an attribute") and replaces NUL, which the tokenizer must not let through.
pub(crate) fn attribute_text<'a>(value: &'a [u8], encoding: &'static Encoding) -> Cow<'a, str> {
    let text = decode(value, encoding);
    if memchr::memchr2(b'&', 0, text.as_bytes()).is_none() {
        return text;
    }
    let text = if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text };
    if text.contains('&') { Cow::Owned(htmlize::unescape_attribute(text).into_owned()) } else { text }
}

/// The bytes as text; what is no text in the encoding becomes U+FFFD.
pub(crate) fn decode<'a>(bytes: &'a [u8], encoding: &'static Encoding) -> Cow<'a, str> {
    encoding.decode_without_bom_handling(bytes).0
}

/// Joins pieces of text, folds every run of white space to one space, none at the ends, and clips to
/// `limit` bytes.
pub(crate) fn fold<'a>(pieces: impl IntoIterator<Item = &'a str>, limit: usize) -> String {
    let mut folded = String::new();
    let mut space = "";
    for character in pieces.into_iter().flat_map(str::chars) {
        if character.is_whitespace() {
            space = if folded.is_empty() { "" } else { " " };
        } else if folded.len() + space.len() + character.len_utf8() > limit {
            break;
        } else {
            folded.push_str(std::mem::take(&mut space));
            folded.push(character);
        }
    }
    folded
}

/// The longest start of `text` that has at most `limit` bytes and ends between characters.
pub(crate) fn clip(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Where the raw text that starts at `from` ends: at the end tag `name`, else at the end of `markup`
/// (WHATWG HTML §13.2.5.9–11: `</name` and then white space, `/` or `>`).
pub(crate) fn raw_text_end(markup: &[u8], from: usize, name: &[u8]) -> usize {
    let raw = markup.get(from..).unwrap_or_default();
    let is_end_tag = |at: &usize| {
        let Some(tag) = raw.get(at + 1..).and_then(|rest| rest.strip_prefix(b"/")) else { return false };
        let Some((start, rest)) = tag.split_at_checked(name.len()) else { return false };
        let ended =
            rest.first().is_none_or(|next| matches!(next, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ' | b'/' | b'>'));
        start.eq_ignore_ascii_case(name) && ended
    };
    memchr::memchr_iter(b'<', raw).find(is_end_tag).map_or(markup.len(), |at| from + at)
}

#[cfg(test)]
mod tests {
    use encoding_rs::{UTF_8, WINDOWS_1252};
    use proptest::prelude::*;
    use scraper::{Html, Selector};

    use super::*;

    #[test]
    fn folding_is_bounded() {
        for (pieces, limit, expected) in [
            (&["  a \n\t b\u{a0}c "][..], 10, "a b c"),
            (&["a", "b ", " c"], 10, "ab c"),
            (&["abcdef"], 3, "abc"),
            (&["ab cd"], 3, "ab"),
            (&["éé"], 3, "é"),
            (&["", " \n"], 3, ""),
        ] {
            assert_eq!(fold(pieces.iter().copied(), limit), expected, "{pieces:?}");
        }
    }

    #[test]
    fn attributes_are_decoded() {
        for (value, expected) in [
            ("plain", "plain"),
            ("a?b=1&amp;c=2", "a?b=1&c=2"),
            ("a?b=1&amp=2", "a?b=1&amp=2"),
            ("a?copy=1&copy=2", "a?copy=1&copy=2"),
            ("&#x41;&#66;&#128;", "AB€"),
            ("a\0b", "a\u{fffd}b"),
            ("&", "&"),
        ] {
            assert_eq!(attribute_text(value.as_bytes(), UTF_8), expected, "{value:?}");
        }
        assert_eq!(attribute_text(b"caf\xe9&eacute;", WINDOWS_1252), "caféé");
    }

    #[test]
    fn raw_text_ends_at_its_own_end_tag() {
        for (markup, expected) in [
            ("a</title>", 1),
            ("a</TITLE x", 1),
            ("a</titles></title>", 10),
            ("a<b></b>", 8),
            ("a</title", 1),
            ("a<", 2),
        ] {
            assert_eq!(raw_text_end(markup.as_bytes(), 0, b"title"), expected, "{markup}");
        }
        assert_eq!(raw_text_end(b"abc", 7, b"title"), 3);
    }

    /// What html5ever makes of the same attribute.
    fn oracle(value: &str) -> String {
        let page = Html::parse_document(&format!("<p title=\"{value}\">"));
        let selector = Selector::parse("p").unwrap();
        page.select(&selector).next().unwrap().attr("title").unwrap().to_owned()
    }

    proptest! {
        #[test]
        fn character_references_are_html5evers(
            value in "(&(amp|lt|copy|copyright|eacute|notin|not|ngE|quot|zz)?(;|=|[a-z0-9 ])?|&#x?[0-9a-fA-F]{0,7};?|[a-z=&;é\0]){0,8}"
        ) {
            prop_assert_eq!(attribute_text(value.as_bytes(), UTF_8), oracle(&value));
        }
    }
}
