//! What a page says of its own encoding.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// How far into a page its own declaration may stand (WHATWG HTML §4.2.5.4).
const PRESCAN_BYTES: usize = 1024;

/// The page's own declaration, if it stands in the first [`PRESCAN_BYTES`] (WHATWG HTML
/// §13.2.3.2, "prescan a byte stream to determine its encoding").
pub(crate) fn prescan(body: &[u8]) -> Option<&'static Encoding> {
    let mut rest = body.get(..PRESCAN_BYTES).unwrap_or(body);
    loop {
        rest = rest.get(memchr::memchr(b'<', rest)? + 1..)?;
        if rest.starts_with(b"!--") {
            // `<!-->` is a whole comment: its dashes open and close it.
            let dashes = rest.get(1..)?;
            rest = dashes.get(memchr::memmem::find(dashes, b"-->")? + 3..)?;
        } else if rest.get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"meta"))
            && rest.get(4).is_some_and(|next| next.is_ascii_whitespace() || *next == b'/')
        {
            let mut attributes = Attributes { rest: rest.get(4..)? };
            if let Some(encoding) = declared_by_meta(&mut attributes) {
                return Some(encoding);
            }
            rest = attributes.rest;
        } else if rest.strip_prefix(b"/").unwrap_or(rest).first()?.is_ascii_alphabetic() {
            let name = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'>')?;
            let mut attributes = Attributes { rest: rest.get(name..)? };
            attributes.by_ref().for_each(drop);
            rest = attributes.rest;
        } else if matches!(rest.first()?, b'!' | b'/' | b'?') {
            rest = rest.get(memchr::memchr(b'>', rest)? + 1..)?;
        }
    }
}

/// The label in `…charset=label…` (WHATWG HTML §2.6.4, "extracting a character encoding from a
/// meta element", which is the laxer of the two rules and so serves for the header too).
pub(crate) fn charset_parameter(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"charset";
    let mut at = 0;
    loop {
        let start = value.get(at..)?.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
        at += start + NAME.len();
        let Some(label) = value.get(at..)?.trim_ascii_start().strip_prefix(b"=") else { continue };
        let label = label.trim_ascii_start();
        return match label.first()? {
            quote @ (b'"' | b'\'') => {
                let label = label.get(1..)?;
                label.get(..memchr::memchr(*quote, label)?)
            }
            _ => label.split(|byte| byte.is_ascii_whitespace() || *byte == b';').next(),
        };
    }
}

fn declared_by_meta(attributes: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let (mut charset, mut content, mut is_content_type) = (None, None, false);
    for (name, value) in attributes {
        if name.eq_ignore_ascii_case(b"charset") {
            charset = charset.or(Some(value));
        } else if name.eq_ignore_ascii_case(b"content") {
            content = content.or_else(|| charset_parameter(value));
        } else if name.eq_ignore_ascii_case(b"http-equiv") {
            is_content_type |= value.eq_ignore_ascii_case(b"content-type");
        }
    }
    let encoding = Encoding::for_label(charset.or(content.filter(|_| is_content_type))?)?;
    // The declaration was read as ASCII, so neither can be true.
    Some(match encoding {
        _ if encoding == UTF_16BE || encoding == UTF_16LE => UTF_8,
        _ if encoding == X_USER_DEFINED => WINDOWS_1252,
        _ => encoding,
    })
}

/// The attributes of a tag, from behind its name to behind its `>`; `rest` is what follows.
struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let is_space = |byte: &u8| byte.is_ascii_whitespace();
        let until = |bytes: &'a [u8], end: &dyn Fn(&u8) -> bool| {
            bytes.split_at(bytes.iter().position(end).unwrap_or(bytes.len()))
        };
        let (_, tag) = until(self.rest, &|byte| !is_space(byte) && *byte != b'/');
        self.rest = tag;
        if let b'>' = tag.first()? {
            self.rest = tag.get(1..)?;
            return None;
        }
        // A name may begin with `=`.
        let (first, _) = tag.split_at(1);
        let (more, tail) = until(tag.get(1..)?, &|byte| is_space(byte) || matches!(byte, b'/' | b'>' | b'='));
        let name = tag.get(..first.len() + more.len())?;
        let Some(value) = tail.trim_ascii_start().strip_prefix(b"=") else {
            self.rest = tail;
            return Some((name, b""));
        };
        let value = value.trim_ascii_start();
        let (value, rest) = match value.first() {
            Some(quote @ (b'"' | b'\'')) => {
                let (value, rest) = until(value.get(1..)?, &|byte| byte == quote);
                (value, rest.get(1..).unwrap_or_default())
            }
            _ => until(value, &|byte| is_space(byte) || *byte == b'>'),
        };
        self.rest = rest;
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(page: &str, expected: &str) {
        assert_eq!(prescan(page.as_bytes()).map_or("none", Encoding::name), expected, "{page}");
    }

    #[test]
    fn pages_declare_their_encoding() {
        for (page, expected) in [
            ("<meta charset=koi8-r>", "KOI8-R"),
            ("<!doctype html><html><head><META  CHARSET = 'KOI8-R' />", "KOI8-R"),
            ("<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "KOI8-R"),
            ("<meta content='text/html; charset=koi8-r' http-equiv=content-type>", "KOI8-R"),
            ("<meta content='text/html; charset=koi8-r'>", "none"),
            ("<!-- <meta charset=koi8-r> -->", "none"),
            ("<!--><meta charset=koi8-r>", "KOI8-R"),
            ("<p title='<meta charset=koi8-r>'>", "none"),
            ("<metadata charset=koi8-r>", "none"),
            ("<meta name=x><meta charset=koi8-r>", "KOI8-R"),
            ("<meta charset=utf-16>", "UTF-8"),
            ("<meta charset=x-user-defined>", "windows-1252"),
            ("<meta charset=\"koi8-r", "KOI8-R"),
        ] {
            check(page, expected);
        }
        let late = [" ".repeat(PRESCAN_BYTES).as_str(), "<meta charset=koi8-r>"].concat();
        check(&late, "none");
    }

    proptest! {
        #[test]
        fn any_markup_is_scanned(body in "(<|>|meta|charset|=|'|\"|!--|-->|/| |utf-8|é){0,30}") {
            prescan(body.as_bytes());
        }
    }
}
