//! Content codings undone.

use std::borrow::Cow;
use std::io::{self, Read};

use model::{Complaint, Exchange};

/// A body as the parser wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The bytes; borrowed where nothing had to be undone.
    pub body: Cow<'a, [u8]>,
    /// What was odd: [`Complaint::BadContentCoding`] or [`Complaint::DecodedTooLarge`].
    pub complaint: Option<Complaint>,
}

/// Undoes the content codings of an answer (RFC 9110 §8.4), giving at most `max_decoded` bytes.
///
/// Undone are `gzip` (of several members too), `deflate` (with zlib's wrapper, as specified, and
/// without, as some send it), `br` and `zstd`, up to three in a row. A stream that is broken or cut
/// gives what could be had before; one that gives nothing at all, or whose coding is not known, is
/// given as it came, because a server that names a coding and sends plain text is not rare.
///
/// Takes time and memory in proportion to the body and `max_decoded`, whatever the stream says of
/// itself. Called on the parse threads.
pub fn decode_body(exchange: &Exchange, max_decoded: u64) -> Decoded<'_> {
    let plain = Decoded { body: Cow::Borrowed(exchange.body.as_slice()), complaint: None };
    let Some(codings) = codings(exchange) else {
        return Decoded { complaint: Some(Complaint::BadContentCoding), ..plain };
    };
    // The last coding named was applied last. Each is undone into memory of its own: chained as
    // streams, an inner one could make its gigabytes unseen before an outer one gave a byte.
    codings.into_iter().rev().fold(plain, |decoded, coding| {
        let (body, complaint) = undo(coding, &decoded.body, max_decoded);
        Decoded { body: body.map_or(decoded.body, Cow::Owned), complaint: decoded.complaint.or(complaint) }
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// More than a server has a reason for; a cap on the work a header can ask for.
const MAX_CODINGS: usize = 3;

/// RFC 9659: a content-coded zstd stream needs a window of at most 8 MiB.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The codings in the order they were applied; `None` if one is unknown or there are too many.
fn codings(exchange: &Exchange) -> Option<Vec<Coding>> {
    let mut codings = Vec::new();
    for value in exchange.headers.all("content-encoding") {
        for token in value.split(|&byte| byte == b',') {
            codings.push(match token.trim_ascii().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Coding::Gzip,
                b"deflate" => Coding::Deflate,
                b"br" => Coding::Brotli,
                b"zstd" => Coding::Zstd,
                _ => return None,
            });
            if codings.len() > MAX_CODINGS {
                return None;
            }
        }
    }
    Some(codings)
}

/// The bytes before one coding, `None` if there were none to be had; and what was wrong.
fn undo(coding: Coding, body: &[u8], max: u64) -> (Option<Vec<u8>>, Option<Complaint>) {
    // Redirects and errors without a body often name a coding.
    if body.is_empty() {
        return (None, None);
    }
    match coding {
        Coding::Gzip => read(flate2::bufread::MultiGzDecoder::new(body), body, max),
        Coding::Brotli => read(brotli_decompressor::Decompressor::new(body, 16 << 10), body, max),
        Coding::Zstd => match zstd_decoder(body) {
            Ok(decoder) => read(decoder, body, max),
            Err(_) => (None, Some(Complaint::BadContentCoding)),
        },
        Coding::Deflate => match read(flate2::bufread::ZlibDecoder::new(body), body, max) {
            (None, Some(_)) => read(flate2::bufread::DeflateDecoder::new(body), body, max),
            wrapped => wrapped,
        },
    }
}

fn zstd_decoder(body: &[u8]) -> io::Result<zstd::stream::read::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn read(decoder: impl Read, coded: &[u8], max: u64) -> (Option<Vec<u8>>, Option<Complaint>) {
    let max_len = usize::try_from(max).unwrap_or(usize::MAX);
    // Text shrinks to a third or a quarter.
    let mut body = Vec::with_capacity(coded.len().saturating_mul(4).min(max_len));
    // What was read before an error stays in `body`.
    let result = decoder.take(max.saturating_add(1)).read_to_end(&mut body);
    if body.len() > max_len {
        body.truncate(max_len);
        return (Some(body), Some(Complaint::DecodedTooLarge));
    }
    match result {
        Ok(_) => (Some(body), None),
        Err(_) if body.is_empty() => (None, Some(Complaint::BadContentCoding)),
        Err(_) => (Some(body), Some(Complaint::BadContentCoding)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use model::{CanonicalUrl, Headers, HttpVersion, Time};
    use proptest::prelude::*;

    use super::*;

    /// `hello, brotli! ` twenty times, made with node's zlib.
    const BROTLI: &[u8] = include_bytes!("../tests/data/hello.br");

    fn exchange(encodings: &[&str], body: Vec<u8>) -> Exchange {
        let mut headers = Headers::default();
        for encoding in encodings {
            headers.push("Content-Encoding", *encoding);
        }
        Exchange {
            url: CanonicalUrl::parse("http://a.example/").unwrap(),
            address: None,
            started: Time::ZERO,
            first_byte: Duration::ZERO,
            duration: Duration::ZERO,
            request: Vec::new(),
            version: HttpVersion::Http11,
            status: 200,
            headers,
            body,
            truncated: None,
        }
    }

    fn check(encodings: &[&str], body: &[u8], expected: &[u8], complaint: Option<Complaint>) {
        let exchange = exchange(encodings, body.to_vec());
        let decoded = decode_body(&exchange, 1 << 20);
        assert_eq!(String::from_utf8_lossy(&decoded.body), String::from_utf8_lossy(expected), "{encodings:?}");
        assert_eq!(decoded.complaint, complaint, "{encodings:?}");
    }

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(body: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn raw_deflate(body: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard(body: &[u8]) -> Vec<u8> {
        zstd::encode_all(body, 1).unwrap()
    }

    #[test]
    fn codings_are_undone() {
        let text = b"hello, hello, hello";
        check(&["gzip"], &gzip(text), text, None);
        check(&["X-GZIP"], &gzip(text), text, None);
        check(&["deflate"], &zlib(text), text, None);
        check(&["deflate"], &raw_deflate(text), text, None);
        check(&["zstd"], &zstandard(text), text, None);
        check(&["br"], BROTLI, "hello, brotli! ".repeat(20).as_bytes(), None);
        check(&["gzip"], &[gzip(b"one, "), gzip(b"two")].concat(), b"one, two", None);
        check(&["zstd"], &[zstandard(b"one, "), zstandard(b"two")].concat(), b"one, two", None);
    }

    #[test]
    fn codings_in_a_row_are_undone_last_first() {
        let text = b"hello, hello, hello";
        check(&["deflate, gzip"], &gzip(&zlib(text)), text, None);
        check(&["deflate", " zstd ,identity, gzip"], &gzip(&zstandard(&zlib(text))), text, None);
        let four = gzip(&gzip(&gzip(&gzip(text))));
        check(&["gzip, gzip, gzip, gzip"], &four, &four, Some(Complaint::BadContentCoding));
    }

    #[test]
    fn what_is_plain_is_borrowed() {
        for encodings in [&[][..], &["identity"], &[""], &["gzip"]] {
            let body = if encodings == ["gzip"] { Vec::new() } else { b"hello".to_vec() };
            let exchange = exchange(encodings, body);
            let decoded = decode_body(&exchange, 3);
            assert!(matches!(decoded.body, Cow::Borrowed(_)), "{encodings:?}");
            assert_eq!((&*decoded.body, decoded.complaint), (&*exchange.body, None));
        }
    }

    #[test]
    fn what_cannot_be_undone_is_given_as_it_came() {
        let bad = Some(Complaint::BadContentCoding);
        check(&["gzip"], b"<html>not gzip", b"<html>not gzip", bad);
        check(&["zstd"], b"<html>not zstd", b"<html>not zstd", bad);
        check(&["deflate"], b"<html>not deflate", b"<html>not deflate", bad);
        check(&["utf-8"], b"<html>", b"<html>", bad);
        check(&["gzip, lzma"], b"<html>", b"<html>", bad);
    }

    #[test]
    fn what_is_cut_gives_what_came_before() {
        // Two members, so that the first is whole whatever the decoder keeps back of the second.
        let body = [gzip(b"one, "), gzip(b"two")].concat();
        check(&["gzip"], &body[..body.len() - 12], b"one, ", Some(Complaint::BadContentCoding));
        let exchange = exchange(&["br"], BROTLI[..BROTLI.len() - 1].to_vec());
        assert_eq!(decode_body(&exchange, 1 << 20).complaint, Some(Complaint::BadContentCoding));
        let noise: Vec<u8> = (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        for (encoding, body) in [("gzip", gzip(&noise)), ("deflate", zlib(&noise)), ("zstd", zstandard(&noise))] {
            let exchange = self::exchange(&[encoding], body[..body.len() / 2].to_vec());
            let decoded = decode_body(&exchange, 1 << 20);
            assert_eq!(decoded.complaint, Some(Complaint::BadContentCoding), "{encoding}");
            assert!(decoded.body.len() > noise.len() / 3 && noise.starts_with(&decoded.body), "{encoding}");
        }
    }

    #[test]
    fn bombs_are_capped() {
        let zeros = vec![0; 8 << 20];
        for (encoding, body) in [
            ("gzip", gzip(&zeros)),
            ("deflate", raw_deflate(&zeros)),
            ("zstd", zstandard(&zeros)),
            ("gzip, gzip", gzip(&gzip(&zeros))),
        ] {
            let exchange = exchange(&[encoding], body);
            let decoded = decode_body(&exchange, 100_000);
            assert_eq!(
                (decoded.body.len(), decoded.complaint),
                (100_000, Some(Complaint::DecodedTooLarge)),
                "{encoding}"
            );
        }
        // As large as allowed is not too large.
        let exchange = exchange(&["gzip"], gzip(&[7; 1000]));
        assert_eq!(decode_body(&exchange, 1000).complaint, None);
        assert_eq!(decode_body(&exchange, 999).complaint, Some(Complaint::DecodedTooLarge));
    }

    #[test]
    fn a_zstd_stream_cannot_ask_for_a_large_window() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[0; 1000]).unwrap();
        let exchange = exchange(&["zstd"], encoder.finish().unwrap());
        assert_eq!(decode_body(&exchange, 1 << 20).complaint, Some(Complaint::BadContentCoding));
    }

    proptest! {
        #[test]
        fn what_is_coded_comes_back(body in prop::collection::vec(any::<u8>(), 0..5000), layers in prop::collection::vec(0..4_u8, 0..=3)) {
            let (mut coded, mut names) = (body.clone(), Vec::new());
            for layer in layers {
                let (name, layered) = match layer {
                    0 => ("gzip", gzip(&coded)),
                    1 => ("deflate", zlib(&coded)),
                    2 => ("deflate", raw_deflate(&coded)),
                    _ => ("zstd", zstandard(&coded)),
                };
                coded = layered;
                names.push(name);
            }
            let exchange = exchange(&[&names.join(",")], coded);
            let decoded = decode_body(&exchange, 1 << 20);
            prop_assert_eq!(&*decoded.body, &*body);
            prop_assert_eq!(decoded.complaint, None);
        }

        #[test]
        fn anything_ends_within_the_cap(
            mut body in prop::collection::vec(any::<u8>(), 0..3000),
            start in 0..5_usize,
            coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "br, gzip", "zstd, deflate"]),
        ) {
            // Half of the cases begin like the real thing, to get past the first check.
            let real: [&[u8]; 5] = [b"", &gzip(b"hello hello"), &zlib(b"hello hello"), BROTLI, &zstandard(b"hello hello")];
            body.splice(0..0, real[start].iter().copied());
            let exchange = exchange(&[coding], body);
            let decoded = decode_body(&exchange, 2000);
            prop_assert!(decoded.body.len() <= 2000 || matches!(decoded.body, Cow::Borrowed(_)));
        }
    }
}
