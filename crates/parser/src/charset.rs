//! Which encoding a page is in, and the bytes the link pass can run on.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{CoderResult, Encoding, UTF_8};
use model::{CanonicalUrl, Headers};

use crate::prescan::{charset_parameter, prescan};

/// How much of a page that declares nothing is looked at to guess: by then the guess is settled,
/// and a page of megabytes costs no more than others.
const GUESS_BYTES: usize = 64 << 10;

/// A page's markup, ready to be tokenized.
pub(crate) struct Markup<'a> {
    /// The page without its byte order mark. Borrowed whenever its encoding agrees with ASCII
    /// about ASCII, which is nearly always.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The encoding of `bytes`; ASCII-compatible.
    pub(crate) encoding: &'static Encoding,
    /// The encoding of the page as it came.
    pub(crate) charset: &'static Encoding,
    /// Whether it had bytes that are no text in that encoding.
    pub(crate) bad_characters: bool,
}

impl<'a> Markup<'a> {
    /// Finds the encoding as WHATWG HTML §13.2.3 does: byte order mark, `Content-Type` header, the
    /// page's own declaration, and then a guess.
    pub(crate) fn new(url: &CanonicalUrl, headers: &Headers, body: &'a [u8]) -> Self {
        let (charset, body) = match Encoding::for_bom(body) {
            Some((charset, mark)) => (charset, body.get(mark..).unwrap_or_default()),
            None => (from_header(headers).or_else(|| prescan(body)).unwrap_or_else(|| guess(url, body)), body),
        };
        if charset.is_ascii_compatible() {
            let bad_characters = !is_text(charset, body);
            Self { bytes: Cow::Borrowed(body), encoding: charset, charset, bad_characters }
        } else {
            let (text, bad_characters) = charset.decode_without_bom_handling(body);
            let bytes = match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            };
            Self { bytes, encoding: UTF_8, charset, bad_characters }
        }
    }
}

fn from_header(headers: &Headers) -> Option<&'static Encoding> {
    Encoding::for_label(charset_parameter(headers.get("content-type")?)?)
}

/// A page that is UTF-8 throughout is UTF-8; chardetng decides about the others, with the top-level
/// domain as a hint.
fn guess(url: &CanonicalUrl, body: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(body) {
        Ok(_) => return UTF_8,
        // The body was cut within a character.
        Err(error) if error.error_len().is_none() => return UTF_8,
        Err(_) => {}
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(body.get(..GUESS_BYTES).unwrap_or(body), true);
    // chardetng panics on a domain not in canonical form, which ours is in; checked all the same.
    let domain = url.host().rsplit('.').next().map(str::as_bytes);
    let domain = domain.filter(|domain| domain.is_ascii() && !domain.iter().any(u8::is_ascii_uppercase));
    detector.guess(domain, Utf8Detection::Allow)
}

/// Whether the bytes are text in an ASCII-compatible encoding, without keeping the text.
fn is_text(encoding: &'static Encoding, bytes: &[u8]) -> bool {
    if encoding == UTF_8 {
        return std::str::from_utf8(bytes).is_ok();
    }
    let mut rest = bytes.get(Encoding::ascii_valid_up_to(bytes)..).unwrap_or_default();
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut buffer = [0; 4096];
    loop {
        let (result, read, _, had_errors) = decoder.decode_to_utf8(rest, &mut buffer, true);
        match result {
            _ if had_errors => return false,
            CoderResult::InputEmpty => return true,
            CoderResult::OutputFull => rest = rest.get(read..).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn markup<'a>(content_type: &str, body: &'a [u8]) -> Markup<'a> {
        let mut headers = Headers::default();
        headers.push("content-type", content_type);
        Markup::new(&CanonicalUrl::parse("http://a.example/").unwrap(), &headers, body)
    }

    #[track_caller]
    fn check(content_type: &str, body: &[u8], expected: &str) {
        let markup = markup(content_type, body);
        assert_eq!(markup.charset.name(), expected, "{content_type:?} {:?}", String::from_utf8_lossy(body));
        assert!(markup.encoding.is_ascii_compatible());
    }

    #[test]
    fn the_strongest_word_wins() {
        check("text/html; charset=windows-1251", b"\xef\xbb\xbf<meta charset=gbk>", "UTF-8");
        check("text/html", b"\xfe\xff\x00a", "UTF-16BE");
        check("text/html; charset=windows-1251", b"<meta charset=gbk>", "windows-1251");
        check("text/html; charset=\"latin1\"", b"", "windows-1252");
        check("text/html; charset=nonsense", b"<meta charset=gbk>", "GBK");
        check("text/html;charset = sjis ;x", b"", "Shift_JIS");
        check("text/html; charset=utf-16le", b"a\0", "UTF-16LE");
        check("text/html", b"plain", "UTF-8");
        check("text/html", "déjà".as_bytes(), "UTF-8");
        check("text/html", &"é".as_bytes()[..1], "UTF-8");
    }

    #[test]
    fn silent_pages_are_guessed() {
        let russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. ".repeat(4);
        check("text/html", &encoding_rs::WINDOWS_1251.encode(&russian).0, "windows-1251");
        for host in ["xn--e1afmkfd.xn--p1ai", "[2001:db8::1]", "10.0.0.1", "localhost", "a.example."] {
            let url = CanonicalUrl::parse(&format!("http://{host}/")).unwrap();
            let markup = Markup::new(&url, &Headers::default(), b"\xcf\xf0\xe8\xe2\xe5\xf2, \xec\xe8\xf0!");
            assert_eq!(markup.charset.name(), "windows-1251", "{host}");
        }
        let japanese = "いろはにほへと ちりぬるを わかよたれそ つねならむ".repeat(4);
        check("text/html", &encoding_rs::EUC_JP.encode(&japanese).0, "EUC-JP");
    }

    #[test]
    fn nothing_is_copied_without_need() {
        for (content_type, copied) in
            [("text/html", false), ("text/html; charset=shift_jis", false), ("text/html; charset=iso-2022-jp", true)]
        {
            let body = b"<p>\x1b$B";
            assert_eq!(matches!(markup(content_type, body).bytes, Cow::Owned(_)), copied, "{content_type}");
        }
    }

    #[test]
    fn bad_characters_are_noticed() {
        for (content_type, body, bad) in [
            ("text/html; charset=utf-8", &b"a\xff"[..], true),
            ("text/html; charset=shift_jis", b"a\x83\x5c", false),
            ("text/html; charset=shift_jis", b"a\x83", true),
            ("text/html; charset=utf-16le", b"a\0\0", true),
            ("text/html; charset=latin1", b"\x81\xff", false),
        ] {
            assert_eq!(markup(content_type, body).bad_characters, bad, "{content_type}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_encoding(body in proptest::collection::vec(any::<u8>(), 0..200), content_type in "\\PC{0,30}") {
            markup(&content_type, &body);
        }
    }
}
