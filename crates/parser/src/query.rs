//! The query of a link is written in the encoding of the page it stands on.

use std::borrow::Cow;
use std::fmt::Write;

use encoding_rs::{EncoderResult, Encoding, UTF_8};

/// Writes the non-ASCII part of a reference's query in the page's encoding, percent-encoded, as
/// WHATWG's query state does (URL Standard §4.4 with §1.3 "percent-encode after encoding"). What
/// the encoding has no character for becomes `%26%23` its number `%3B`. The path is left alone: it
/// is UTF-8 in every page.
///
/// `encoding` is an output encoding, and `reference` has no fragment.
pub(crate) fn encode_query<'a>(reference: &'a str, encoding: &'static Encoding) -> Cow<'a, str> {
    if encoding == UTF_8 || reference.is_ascii() {
        return Cow::Borrowed(reference);
    }
    let Some((before, mut query)) = reference.split_once('?') else { return Cow::Borrowed(reference) };
    if query.is_ascii() {
        return Cow::Borrowed(reference);
    }
    let mut encoded = String::with_capacity(reference.len() * 2);
    encoded.push_str(before);
    encoded.push('?');
    let mut encoder = encoding.new_encoder();
    let mut buffer = [0; 256];
    loop {
        let (result, read, written) = encoder.encode_from_utf8_without_replacement(query, &mut buffer, true);
        for &byte in buffer.iter().take(written) {
            push_query_byte(&mut encoded, byte);
        }
        query = query.get(read..).unwrap_or_default();
        match result {
            EncoderResult::InputEmpty => return Cow::Owned(encoded),
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(character) => push(&mut encoded, format_args!("%26%23{}%3B", character as u32)),
        }
    }
}

/// The special-query percent-encode set (URL Standard §1.3). Tab and newline, which the URL parser
/// removes, stay as they are for it to see.
fn push_query_byte(encoded: &mut String, byte: u8) {
    match byte {
        b'\t' | b'\n' | b'\r' => encoded.push(char::from(byte)),
        0..=b' ' | 0x7f.. | b'"' | b'#' | b'<' | b'>' | b'\'' => push(encoded, format_args!("%{byte:02X}")),
        _ => encoded.push(char::from(byte)),
    }
}

fn push(encoded: &mut String, arguments: std::fmt::Arguments<'_>) {
    encoded.write_fmt(arguments).expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use encoding_rs::{GBK, ISO_2022_JP, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    #[test]
    fn queries_are_written_in_the_pages_encoding() {
        for (encoding, reference, expected) in [
            (WINDOWS_1252, "/é?q=é", "/é?q=%E9"),
            (WINDOWS_1252, "/?q=☕é", "/?q=%26%239749%3B%E9"),
            (WINDOWS_1251, "?q=привет", "?q=%EF%F0%E8%E2%E5%F2"),
            (SHIFT_JIS, "?ソ", "?%83\\"),
            (ISO_2022_JP, "?日", "?%1B$BF|%1B(B"),
            (UTF_8, "?é", "?é"),
            (WINDOWS_1252, "é", "é"),
            (WINDOWS_1252, "é?a=b", "é?a=b"),
        ] {
            assert_eq!(encode_query(reference, encoding), expected);
        }
    }

    proptest! {
        /// The url crate's own override, for text the encoding has all characters of: for the rest
        /// it writes `&%23…;` where the standard says `%26%23…%3B`.
        #[test]
        fn the_url_crate_agrees(query in "[!-\"$-~日本語ソ]([ -\"$-~日本語ソ\t]{0,40}[!-\"$-~日本語ソ])?") {
            let base = Url::parse("http://a.example/b").unwrap();
            for encoding in [SHIFT_JIS, GBK, ISO_2022_JP] {
                let (_, _, unmappable) = encoding.encode(&query);
                prop_assume!(!unmappable);
                let reference = format!("/?{query}");
                let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|text| encoding.encode(text).0.into_owned().into();
                let expected = Url::options().base_url(Some(&base)).encoding_override(Some(encode)).parse(&reference);
                prop_assert_eq!(base.join(&encode_query(&reference, encoding)), expected);
            }
        }
    }
}
