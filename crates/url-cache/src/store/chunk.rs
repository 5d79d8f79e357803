//! The value of one entry: some hundred fingerprints, packed.
//!
//! ```text
//! offset      bytes   content
//! 0           1       format, 1
//! 1           1       1 if references are counted, else 0
//! 2           2       G, the hosts in this chunk
//! 4           2       N, the fingerprints in this chunk
//! 6           10 G    each host's hash (8 bytes, big-endian) and the place after its last
//!                     fingerprint (2 bytes); hosts ascending
//! 6 + 10 G    16 N    the URLs' hashes, big-endian, ascending within a host
//! ...                 if references are counted: N counts, LEB128
//! ```
//! Numbers without a word on it are little-endian. A host is written once for all its URLs, and
//! hashes have a fixed width, so that a key is found by two binary searches in the bytes as they lie.

use std::ops::Range;

use model::UrlKey;

const FORMAT: u8 = 1;
const HEADER: usize = 6;
const GROUP: usize = 10;
const HASH: usize = 16;

/// A [`UrlKey`] as numbers, which compare faster than bytes, in the same order and the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint {
    host: u64,
    high: u64,
    low: u64,
}

impl Fingerprint {
    pub(super) fn of(key: &UrlKey) -> Self {
        let bytes = key.as_bytes();
        Self { host: word(bytes, 0), high: word(bytes, 8), low: word(bytes, 16) }
    }

    /// The 128-bit hash of the URL, in two halves.
    pub(super) fn url_hash(self) -> (u64, u64) {
        (self.high, self.low)
    }

    pub(super) fn to_key(self) -> UrlKey {
        let mut bytes = [0; UrlKey::LEN];
        bytes[..8].copy_from_slice(&self.host.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.high.to_be_bytes());
        bytes[16..].copy_from_slice(&self.low.to_be_bytes());
        UrlKey::from_bytes(bytes)
    }
}

/// Eight bytes as a big-endian number. The offset is within the bytes.
fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_be_bytes(word)
}

/// Two bytes as a little-endian number. The offset is within the bytes.
fn short(bytes: &[u8], offset: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[offset], bytes[offset + 1]]))
}

/// A chunk as it lies in the database.
pub(super) struct Chunk<'a> {
    groups: &'a [u8],
    hashes: &'a [u8],
    counts: Option<&'a [u8]>,
}

impl<'a> Chunk<'a> {
    /// Understands a value, or finds what is wrong with it. What it accepts can be read without
    /// leaving the bytes.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let (header, rest) = bytes.split_at_checked(HEADER).ok_or("a chunk is cut off")?;
        if header[0] != FORMAT {
            return Err("a chunk has another format");
        }
        let (groups, fingerprints) = (short(header, 2), short(header, 4));
        let (groups, rest) = rest.split_at_checked(groups * GROUP).ok_or("a chunk is cut off")?;
        let (hashes, rest) = rest.split_at_checked(fingerprints * HASH).ok_or("a chunk is cut off")?;
        let mut end = 0;
        for group in groups.chunks_exact(GROUP) {
            if short(group, 8) <= end {
                return Err("a chunk's hosts are in disorder");
            }
            end = short(group, 8);
        }
        if end != fingerprints {
            return Err("a chunk's hosts do not cover its fingerprints");
        }
        let counts = match (header[1], rest.is_empty()) {
            (0, true) => None,
            (1, _) => Some(rest),
            _ => return Err("a chunk is longer than its content"),
        };
        Ok(Self { groups, hashes, counts })
    }

    /// How many fingerprints there are.
    pub(super) fn len(&self) -> usize {
        self.hashes.len() / HASH
    }

    /// Bytes of the value.
    pub(super) fn bytes(&self) -> usize {
        HEADER + self.groups.len() + self.hashes.len() + self.counts.map_or(0, <[u8]>::len)
    }

    /// Where a fingerprint stands.
    pub(super) fn find(&self, wanted: Fingerprint) -> Option<usize> {
        let group = search(0..self.groups.len() / GROUP, |group| word(self.groups, group * GROUP).cmp(&wanted.host))?;
        search(self.places(group), |place| {
            let at = place * HASH;
            word(self.hashes, at).cmp(&wanted.high).then_with(|| word(self.hashes, at + 8).cmp(&wanted.low))
        })
    }

    /// Calls `each` with every fingerprint and its count, which is 0 where none are kept.
    pub(super) fn visit(&self, mut each: impl FnMut(Fingerprint, u64)) -> Result<(), &'static str> {
        let mut counts = self.counts;
        for group in 0..self.groups.len() / GROUP {
            let host = word(self.groups, group * GROUP);
            for place in self.places(group) {
                let count = match &mut counts {
                    Some(bytes) => read_count(bytes).ok_or("a chunk's counts are cut off")?,
                    None => 0,
                };
                let at = place * HASH;
                each(Fingerprint { host, high: word(self.hashes, at), low: word(self.hashes, at + 8) }, count);
            }
        }
        if counts.is_some_and(|left| !left.is_empty()) {
            return Err("a chunk is longer than its content");
        }
        Ok(())
    }

    /// The count of the fingerprint at a place; 0 where none are kept.
    pub(super) fn count(&self, place: usize) -> Result<u64, &'static str> {
        let Some(mut bytes) = self.counts else { return Ok(0) };
        let mut count = None;
        for _ in 0..=place {
            count = read_count(&mut bytes);
        }
        count.ok_or("a chunk's counts are cut off")
    }

    /// The places of a host's fingerprints.
    fn places(&self, group: usize) -> Range<usize> {
        let start = if group == 0 { 0 } else { short(self.groups, group * GROUP - 2) };
        start..short(self.groups, group * GROUP + 8)
    }
}

/// Binary search among places.
fn search(mut within: Range<usize>, compare: impl Fn(usize) -> std::cmp::Ordering) -> Option<usize> {
    while !within.is_empty() {
        let middle = within.start + within.len() / 2;
        match compare(middle) {
            std::cmp::Ordering::Less => within.start = middle + 1,
            std::cmp::Ordering::Greater => within.end = middle,
            std::cmp::Ordering::Equal => return Some(middle),
        }
    }
    None
}

/// Takes a LEB128 number off the front; `None` if it is cut off or exceeds 64 bits.
fn read_count(bytes: &mut &[u8]) -> Option<u64> {
    let mut count = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        count |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(count);
        }
    }
    None
}

fn write_count(mut count: u64, to: &mut Vec<u8>) {
    while count >= 0x80 {
        to.push(count as u8 | 0x80);
        count >>= 7;
    }
    to.push(count as u8);
}

/// A chunk that is complete.
pub(super) struct Packed {
    pub(super) first: Fingerprint,
    pub(super) last: Fingerprint,
    pub(super) fingerprints: usize,
    pub(super) bytes: Vec<u8>,
}

/// Packs ascending fingerprints into chunks.
pub(super) struct Packer {
    limit: usize,
    counting: bool,
    groups: Vec<u8>,
    hashes: Vec<u8>,
    counts: Vec<u8>,
    ends: Option<(Fingerprint, Fingerprint)>,
}

impl Packer {
    /// A packer of chunks no longer than `limit`, except that each holds one fingerprint at least.
    /// Without a limit, it is for no more fingerprints than one chunk held.
    pub(super) fn new(limit: usize, counting: bool) -> Self {
        Self { limit, counting, groups: Vec::new(), hashes: Vec::new(), counts: Vec::new(), ends: None }
    }

    /// Packs a fingerprint, greater than all before it. Returns the chunk before, if that is full.
    pub(super) fn push(&mut self, fingerprint: Fingerprint, count: u64) -> Option<Packed> {
        // At most ten bytes of a count are still to come, and a group.
        let length = HEADER + self.groups.len() + self.hashes.len() + self.counts.len();
        let room = self.limit.saturating_sub(length);
        let full = if room < HASH + GROUP + if self.counting { 10 } else { 0 } { self.finish() } else { None };
        let place = (self.hashes.len() / HASH + 1) as u16;
        match &mut self.ends {
            Some((_, last)) if last.host == fingerprint.host => {
                *last = fingerprint;
                let end = self.groups.len() - 2;
                self.groups[end..].copy_from_slice(&place.to_le_bytes());
            }
            ends => {
                *ends = Some((ends.map_or(fingerprint, |(first, _)| first), fingerprint));
                self.groups.extend_from_slice(&fingerprint.host.to_be_bytes());
                self.groups.extend_from_slice(&place.to_le_bytes());
            }
        }
        self.hashes.extend_from_slice(&fingerprint.high.to_be_bytes());
        self.hashes.extend_from_slice(&fingerprint.low.to_be_bytes());
        if self.counting {
            write_count(count, &mut self.counts);
        }
        full
    }

    /// The last chunk, unless it is empty.
    pub(super) fn finish(&mut self) -> Option<Packed> {
        let (first, last) = self.ends.take()?;
        let fingerprints = self.hashes.len() / HASH;
        let length = HEADER + self.groups.len() + self.hashes.len() + self.counts.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&[FORMAT, u8::from(self.counting)]);
        bytes.extend_from_slice(&((self.groups.len() / GROUP) as u16).to_le_bytes());
        bytes.extend_from_slice(&(fingerprints as u16).to_le_bytes());
        for part in [&mut self.groups, &mut self.hashes, &mut self.counts] {
            bytes.append(part);
        }
        Some(Packed { first, last, fingerprints, bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fingerprints() -> impl Strategy<Value = Vec<(Fingerprint, u64)>> {
        proptest::collection::btree_map((0_u64..4, any::<(u64, u64)>()), any::<u64>(), 1..300).prop_map(|map| {
            map.into_iter()
                .map(|((host, (high, low)), count)| (Fingerprint { host, high, low }, count >> (low % 64)))
                .collect()
        })
    }

    /// Chunks reach the disk. If this test fails, raise the format and keep reading this one.
    #[test]
    fn the_format_never_changes() {
        let mut packer = Packer::new(1 << 10, true);
        for (host, low, count) in [(1, 2, 3), (1, 4, 300), (0x0102_0304_0506_0708, 9, 1)] {
            packer.push(Fingerprint { host, high: 0x1112_1314_1516_1718, low }, count);
        }
        let bytes = packer.finish().unwrap().bytes;
        let text = bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        assert_eq!(
            text,
            "010102000300000000000000000102000102030405060708030011121314151617180000000000000002\
             11121314151617180000000000000004111213141516171800000000000000090\
             3ac0201"
        );
    }

    proptest! {
        #[test]
        fn what_is_packed_is_found(content in fingerprints(), limit in 40_usize..4_096, counting: bool) {
            let mut packer = Packer::new(limit, counting);
            let mut chunks: Vec<_> = content.iter().filter_map(|&(key, count)| packer.push(key, count)).collect();
            chunks.extend(packer.finish());
            let mut unpacked = Vec::new();
            for packed in &chunks {
                prop_assert!(packed.bytes.len() <= limit || packed.fingerprints == 1);
                let chunk = Chunk::parse(&packed.bytes).unwrap();
                prop_assert_eq!(chunk.len(), packed.fingerprints);
                let before = unpacked.len();
                chunk.visit(|key, count| unpacked.push((key, count))).unwrap();
                prop_assert_eq!(unpacked[before].0, packed.first);
                prop_assert_eq!(unpacked.last().unwrap().0, packed.last);
                for (place, &(key, count)) in unpacked[before..].iter().enumerate() {
                    prop_assert_eq!(chunk.find(key), Some(place));
                    prop_assert_eq!(chunk.count(place), Ok(count));
                    let stranger = Fingerprint { low: key.low ^ 1, ..key };
                    prop_assert_eq!(chunk.find(stranger).is_some(), content.iter().any(|&(key, _)| key == stranger));
                }
            }
            let expected: Vec<_> = content.iter().map(|&(key, n)| (key, if counting { n } else { 0 })).collect();
            prop_assert_eq!(unpacked, expected);
        }

        #[test]
        fn damage_never_panics(
            content in fingerprints(), counting: bool, cut: prop::sample::Index, at: prop::sample::Index, bits: u8,
        ) {
            let mut packer = Packer::new(1 << 20, counting);
            for &(key, count) in &content {
                packer.push(key, count);
            }
            let mut bytes = packer.finish().unwrap().bytes;
            let (cut, at) = (cut.index(bytes.len()), at.index(bytes.len()));
            let shortened = Chunk::parse(&bytes[..cut]).and_then(|chunk| chunk.visit(|_, _| ()));
            prop_assert!(shortened.is_err());
            bytes[at] ^= bits;
            if let Ok(chunk) = Chunk::parse(&bytes) {
                let mut seen = 0;
                let visited = chunk.visit(|key, _| { seen += 1; let _ = chunk.find(key); });
                prop_assert!(visited.is_err() || seen == chunk.len());
            }
        }
    }
}
