//! From an exchange to the bytes of its records.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;

use model::{Exchange, Time};
use sha1::{Digest, Sha1};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::gzip::GzipMembers;
use crate::stamp;

/// Makes the records of exchanges. Each parse thread has its own, so that compression, the dearest
/// part of keeping a page, uses every core.
pub struct WarcRenderer {
    gzip: GzipMembers,
    ids: RecordIds,
    head: Vec<u8>,
}

/// The bytes of an exchange's records, ready to be appended to a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Two gzip members: the response record, then the request record.
    pub bytes: Vec<u8>,
    /// Length of the first member in bytes.
    pub response_len: u64,
    /// SHA-1 of the body.
    pub payload_digest: [u8; 20],
}

impl WarcRenderer {
    /// `level` is gzip's effort, 1 (fast) to 9 (small).
    pub fn new(level: u32) -> Self {
        Self { gzip: GzipMembers::new(level), ids: RecordIds::new(), head: Vec::new() }
    }

    /// The response record and the request record of an exchange.
    ///
    /// The client has undone the transfer coding, so the field that named it does not stand in the
    /// block under its own name, nor does a `Content-Length` other than that of the body kept: a
    /// reader would look for chunks, or for bytes, that are not there.
    pub fn render(&mut self, exchange: &Exchange) -> Rendered {
        let payload_digest = payload_digest(&exchange.body);
        let (response_id, request_id) = (self.ids.next(), self.ids.next());
        let mut bytes = Vec::new();

        self.head.clear();
        write_http_head(&mut self.head, exchange);
        let mut fields = Fields::new("response", &response_id, exchange.started);
        fields.exchange(exchange);
        fields.push("Content-Type", "application/http; msgtype=response");
        fields.push("WARC-Payload-Digest", &digest_text(&payload_digest));
        if let Some(truncation) = exchange.truncated {
            fields.push("WARC-Truncated", truncation.as_str());
        }
        self.record(&mut bytes, fields, &exchange.body);
        let response_len = bytes.len() as u64;

        self.head.clear();
        let mut fields = Fields::new("request", &request_id, exchange.started);
        fields.exchange(exchange);
        fields.push("Content-Type", "application/http; msgtype=request");
        fields.push("WARC-Concurrent-To", &response_id);
        self.record(&mut bytes, fields, &exchange.request);
        Rendered { bytes, response_len, payload_digest }
    }

    /// A warcinfo record: what wrote the file, as `name: value` lines (WARC 1.1 §6.2).
    pub(super) fn render_warcinfo(&mut self, at: Time, filename: &str, info: &[(&str, &str)]) -> Vec<u8> {
        let id = self.ids.next();
        self.head.clear();
        for (name, value) in info {
            write_field(&mut self.head, name.as_bytes(), value.as_bytes());
        }
        let mut fields = Fields::new("warcinfo", &id, at);
        fields.push("WARC-Filename", filename);
        fields.push("Content-Type", "application/warc-fields");
        let mut bytes = Vec::new();
        self.record(&mut bytes, fields, &[]);
        bytes
    }

    /// Appends a record whose block is `self.head`, then `body`.
    fn record(&mut self, out: &mut Vec<u8>, mut fields: Fields, body: &[u8]) {
        let block_digest = Sha1::new().chain_update(&self.head).chain_update(body).finalize();
        fields.push("WARC-Block-Digest", &digest_text(&block_digest.into()));
        fields.push("Content-Length", &(self.head.len() + body.len()).to_string());
        fields.0.extend_from_slice(b"\r\n");
        self.gzip.append(out, &[&fields.0, &self.head, body, b"\r\n\r\n"]);
    }
}

/// SHA-1 of a body as received: what WARC calls the payload digest.
pub fn payload_digest(body: &[u8]) -> [u8; 20] {
    Sha1::digest(body).into()
}

/// A digest as WARC and CDXJ write it: `sha1:` and 32 characters of base32 (RFC 4648).
pub fn digest_text(digest: &[u8; 20]) -> String {
    format!("sha1:{}", base32::encode(base32::Alphabet::Rfc4648 { padding: false }, digest))
}

/// The named fields of a WARC record.
struct Fields(Vec<u8>);

impl Fields {
    fn new(kind: &str, id: &str, at: Time) -> Self {
        let mut fields = Self(b"WARC/1.1\r\n".to_vec());
        fields.push("WARC-Type", kind);
        fields.push("WARC-Record-ID", id);
        fields.push("WARC-Date", &stamp::iso_micros(at));
        fields
    }

    fn exchange(&mut self, exchange: &Exchange) {
        self.push("WARC-Target-URI", exchange.url.as_str());
        if let Some(address) = exchange.address {
            self.push("WARC-IP-Address", &address.ip().to_string());
        }
    }

    fn push(&mut self, name: &str, value: &str) {
        write_field(&mut self.0, name.as_bytes(), value.as_bytes());
    }
}

/// The head of the answer. The reason phrase is left out, as RFC 9112 §4 allows: the client does not
/// hand it over, and HTTP/2 has none.
fn write_http_head(out: &mut Vec<u8>, exchange: &Exchange) {
    let body_length = exchange.body.len().to_string();
    let (version, status) = (exchange.version.as_str(), exchange.status);
    write!(out, "{version} {status:03} \r\n").expect("memory can be written");
    for (name, value) in exchange.headers.iter() {
        let is_wrong = match name {
            "transfer-encoding" => true,
            "content-length" => value.trim_ascii() != body_length.as_bytes(),
            _ => false,
        };
        if is_wrong {
            out.extend_from_slice(b"x-archive-orig-");
        }
        write_field(out, name.as_bytes(), value);
    }
    out.extend_from_slice(b"\r\n");
}

/// One line. A byte that could end it early, or that no name may hold, is replaced: what a stranger
/// sends stays in the field it was sent in.
fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend(name.iter().map(|&byte| if byte.is_ascii_graphic() && byte != b':' { byte } else { b'-' }));
    out.extend_from_slice(b": ");
    out.extend(value.iter().map(|&byte| if byte.is_ascii_control() && byte != b'\t' { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}

/// Gives record identifiers in the shape of random UUIDs (RFC 9562 §5.4).
struct RecordIds {
    /// 128 random bits of this renderer.
    seeds: [u64; 2],
    count: u64,
}

impl RecordIds {
    /// The standard library's hash states are keyed with random bits of the system, anew for each
    /// process and one after another within it.
    fn new() -> Self {
        let seed = || RandomState::new().hash_one(std::process::id());
        Self { seeds: [seed(), seed()], count: 0 }
    }

    fn next(&mut self) -> String {
        self.count += 1;
        let mut input = [0; 16];
        input[..8].copy_from_slice(&self.seeds[0].to_be_bytes());
        input[8..].copy_from_slice(&self.count.to_be_bytes());
        let bits = xxh3_128_with_seed(&input, self.seeds[1]);
        let bits = bits & !(0xf000 << 64) & !(0b11 << 62) | 0x4000 << 64 | 0b10 << 62;
        let digits = format!("{bits:032x}");
        let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        format!("<urn:uuid:{}>", groups.join("-"))
    }
}
