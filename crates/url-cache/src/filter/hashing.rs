//! The papers' hash functions, over the text of a URL.
//!
//! None of these is needed for a fast filter: the key's own hash serves ([`Hashing::default`]). They are
//! here so that the thesis (Gøytil & Lundberg 2010, §3.3.5 and §4.1) can be repeated as it was done.

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A hash function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashKind {
    /// XXH3 (Collet 2019), 64 or 128 bits. The keys are made of it.
    #[default]
    Xxh3,
    /// LOOKUP2 (Jenkins 1997, *Algorithm alley: hash functions*, Dr. Dobb's Journal), 32 bits, taken
    /// twice with different initial values.
    Jenkins,
    /// MurmurHash64A, the 64-bit variant of MurmurHash2 (Appleby 2008).
    Murmur2,
    /// MD5 (RFC 1321), of which the first bytes are used.
    Md5,
    /// SHA-1 (RFC 3174), of which the first bytes are used.
    Sha1,
}

/// How a filter gets `k` positions from one URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Positions {
    /// Position *i* is `a + i·b`, `a` and `b` from one 128-bit hash (Kirsch & Mitzenmacher 2006, *Less
    /// hashing, same performance*).
    #[default]
    Double,
    /// Position *i* is the hash of the text with the salt *i* (Gøytil & Lundberg 2010, §4.1).
    Salts,
}

/// A hash function, and what is made of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hashing {
    /// The function.
    pub kind: HashKind,
    /// How positions come from it.
    pub positions: Positions,
}

impl Hashing {
    /// Whether it reads the URL's text. Only double hashing with XXH3 does not: the key's hash is one.
    pub fn reads_text(self) -> bool {
        self != Self::default()
    }
}

/// A number that is a filter's own for each `number`, such as a salt.
pub(crate) fn derive(seeds: [u64; 2], number: u64) -> u64 {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&seeds[1].to_le_bytes());
    name[8..].copy_from_slice(&number.to_le_bytes());
    xxh3_64_with_seed(&name, seeds[0])
}

/// 64 bits of a salted text. Functions that take a seed take the salt for it; before MD5 and SHA-1 the
/// salt's eight bytes are joined to the front of the text, as the thesis does (§1.5 and §4.1).
pub(crate) fn hash64(kind: HashKind, salt: u64, text: &str) -> u64 {
    let text = text.as_bytes();
    match kind {
        HashKind::Xxh3 => xxh3_64_with_seed(text, salt),
        HashKind::Jenkins => {
            let first = salt as u32;
            // The odd difference keeps the two initial values apart, whatever the salt.
            let second = first ^ ((salt >> 32) as u32 | 1);
            u64::from(lookup2(text, first)) << 32 | u64::from(lookup2(text, second))
        }
        HashKind::Murmur2 => murmur64a(text, salt),
        HashKind::Md5 => digest::<Md5>(&[salt], text) as u64,
        HashKind::Sha1 => digest::<Sha1>(&[salt], text) as u64,
    }
}

/// 128 bits of a text, for double hashing: of one digest with MD5 and SHA-1, of two salts with the others.
pub(crate) fn hash128(kind: HashKind, seeds: [u64; 2], text: &str) -> u128 {
    match kind {
        HashKind::Md5 => digest::<Md5>(&seeds, text.as_bytes()),
        HashKind::Sha1 => digest::<Sha1>(&seeds, text.as_bytes()),
        HashKind::Xxh3 | HashKind::Jenkins | HashKind::Murmur2 => {
            u128::from(hash64(kind, seeds[0], text)) << 64 | u128::from(hash64(kind, seeds[1], text))
        }
    }
}

/// The first 16 bytes of the digest of salts and text, as a little-endian number.
fn digest<D: Digest>(salts: &[u64], text: &[u8]) -> u128 {
    let mut digest = D::new();
    for salt in salts {
        digest.update(salt.to_le_bytes());
    }
    digest.update(text);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.finalize()[..16]);
    u128::from_le_bytes(bytes)
}

/// LOOKUP2 (Jenkins 1997): the text is taken in blocks of three words, which are mixed into a state of
/// three words; `initval` is one of them at the start.
fn lookup2(text: &[u8], initval: u32) -> u32 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let mut state = [GOLDEN_RATIO, GOLDEN_RATIO, initval];
    let (blocks, rest) = text.as_chunks::<12>();
    for block in blocks {
        add(&mut state, block);
        mix(&mut state);
    }
    // The last block, padded, leaves the lowest byte of the third word to the length.
    let (front, back) = rest.split_at(rest.len().min(8));
    let mut block = [0; 12];
    block[..front.len()].copy_from_slice(front);
    block[9..9 + back.len()].copy_from_slice(back);
    add(&mut state, &block);
    state[2] = state[2].wrapping_add(text.len() as u32);
    mix(&mut state);
    state[2]
}

/// Adds a block of three little-endian words to LOOKUP2's state.
fn add(state: &mut [u32; 3], block: &[u8; 12]) {
    for (word, bytes) in state.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = word.wrapping_add(u32::from_le_bytes(*bytes));
    }
}

/// LOOKUP2's reversible mix of its three words.
fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for [first, second, third] in [[13, 8, 13], [12, 16, 5], [3, 10, 15]] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> first);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << second);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> third);
    }
    *state = [a, b, c];
}

/// MurmurHash64A (Appleby 2008), with the words little-endian on every machine.
fn murmur64a(text: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (text.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        hash = (hash ^ (word ^ (word >> SHIFT)).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(FACTOR);
    hash ^ (hash >> SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [HashKind; 5] = [HashKind::Xxh3, HashKind::Jenkins, HashKind::Murmur2, HashKind::Md5, HashKind::Sha1];

    /// Values that other implementations of LOOKUP2 print in their documentation and tests.
    #[test]
    fn lookup2_gives_the_published_values() {
        assert_eq!(lookup2(b"", 0), 0xbd49_d10d);
        assert_eq!(lookup2(b"foobar", 0), 0x9d3f_fa02);
        assert_eq!(lookup2(b"hello world", 0), 447_289_830);
        assert_eq!(lookup2(b"Lorem ipsum dol", 0), 0x0c39_787e);
    }

    /// The published procedure, byte by byte, as the paper's C writes it.
    fn lookup2_slowly(text: &[u8], initval: u32) -> u32 {
        let byte = |at: usize| u32::from(text.get(at).copied().unwrap_or(0));
        let word = |at: usize| byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
        let (mut a, mut b, mut c, mut at) = (0x9e37_79b9_u32, 0x9e37_79b9_u32, initval, 0);
        loop {
            let last = text.len() - at < 12;
            a = a.wrapping_add(word(at));
            b = b.wrapping_add(word(at + 4));
            let third = if last {
                (byte(at + 8) << 8 | byte(at + 9) << 16 | byte(at + 10) << 24).wrapping_add(text.len() as u32)
            } else {
                word(at + 8)
            };
            c = c.wrapping_add(third);
            a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
            b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
            c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
            a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
            b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
            c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
            a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
            b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
            c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15);
            if last {
                return c;
            }
            at += 12;
        }
    }

    #[test]
    fn lookup2_follows_the_published_procedure_at_every_length() {
        let text: Vec<u8> = (0..=255).rev().collect();
        for length in 0..64 {
            for initval in [0, 1, 0x8000_0000, u32::MAX] {
                assert_eq!(lookup2(&text[..length], initval), lookup2_slowly(&text[..length], initval), "{length}");
            }
        }
    }

    /// The verification value of Appleby's SMHasher: hashes of every length with a seed each, hashed.
    #[test]
    fn murmur_gives_its_authors_verification_value() {
        let text: Vec<u8> = (0..=255).collect();
        let hashes: Vec<u8> =
            (0..256_usize).flat_map(|length| murmur64a(&text[..length], 256 - length as u64).to_le_bytes()).collect();
        assert_eq!(murmur64a(&hashes, 0) as u32, 0x1f0d_3804);
    }

    fn hex<const N: usize>(digits: &str) -> [u8; N] {
        std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
    }

    /// As `printf 'saltsaltabc' | md5sum` and `sha1sum` print them.
    #[test]
    fn digests_have_the_salt_in_front() {
        let salt = u64::from_le_bytes(*b"saltsalt");
        assert_eq!(hash64(HashKind::Md5, salt, "abc").to_le_bytes(), hex("cb3a759c23130fd0"));
        assert_eq!(hash64(HashKind::Sha1, salt, "abc").to_le_bytes(), hex("43f1898870b1fa1a"));
        let split = [u64::from_le_bytes(*b"saltsalt"), u64::from_le_bytes(*b"peppered")];
        assert_eq!(hash128(HashKind::Md5, split, "abc").to_le_bytes(), hex("0f02f66c7b55482ed3dbc8b29f6ad5b2"));
        assert_eq!(hash128(HashKind::Sha1, split, "abc").to_le_bytes(), hex("8b6cf1602955495ec1f66ee37aba7e22"));
    }

    /// Each bit of each function is one for half of the texts, and a salt more changes half of the bits.
    #[test]
    fn bits_are_even_and_salts_are_independent() {
        const TEXTS: u64 = 4000;
        for kind in KINDS {
            let (mut ones, mut changed) = ([0_u64; 64], [0_u64; 64]);
            for number in 0..TEXTS {
                let text = format!("http://host-{}.example/path/{number}", number % 10);
                let (one, other) = (hash64(kind, 1, &text), hash64(kind, 2, &text));
                for bit in 0..64 {
                    ones[bit] += one >> bit & 1;
                    changed[bit] += (one ^ other) >> bit & 1;
                }
            }
            // Five standard deviations of a binomial of 4000 are 158.
            let even = |count: &u64| count.abs_diff(TEXTS / 2) < 158;
            assert!(ones.iter().all(even), "{kind:?}: {ones:?}");
            assert!(changed.iter().all(even), "{kind:?}: {changed:?}");
        }
    }

    #[test]
    fn both_halves_of_128_bits_depend_on_text_and_seeds() {
        for kind in KINDS {
            let hashes = [
                hash128(kind, [1, 2], "http://a.example/"),
                hash128(kind, [1, 2], "http://b.example/"),
                hash128(kind, [3, 4], "http://a.example/"),
            ];
            for (one, other) in [(0, 1), (0, 2), (1, 2)] {
                assert_ne!(hashes[one] >> 64, hashes[other] >> 64, "{kind:?}");
                assert_ne!(hashes[one] as u64, hashes[other] as u64, "{kind:?}");
            }
        }
    }
}
