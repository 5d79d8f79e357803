//! What the last visit knew, sealed, and a filter for what is new (after Gøytil & Lundberg 2010).

use std::io::{self, Read, Write};

use model::UrlKey;

use super::memory::{Memory, save_words};
use super::perfect::{BATCH, NOWHERE, PerfectHash, load_lines};
use super::wide::{self, LANES, Line};
use super::{Fill, Filter, Members, Nature, Question, expect_u64, fold};
use crate::store::StoreError;

/// Bits of a fingerprint at most. A slot must fit into a word, and nobody needs a rate below 2⁻³² in front
/// of an exact store.
const MOST_BITS: u32 = 32;

/// Bits in a line of slots.
const LINE_BITS: u64 = 64 * LANES as u64;

/// An odd constant with as many ones as zeros, from which fingerprints are derived.
const FINGERPRINT: u64 = 0xd6e8_feb8_6659_fd93;

/// Bits of a slot: first whether its URL was seen in this visit,
const SEEN: u64 = 1;
/// then, where the filter beside removes, whether it was marked again when it was seen already.
const SHARED: u64 = 2;

/// The static strategy of Gøytil & Lundberg 2010 (§7.2.2, where it is further work): on a revisit, the
/// URLs known from the last visit stand in a structure that is made for them alone, and a dynamic filter
/// beside it takes the new ones.
///
/// The thesis would look for a hash function without collisions by genetic programming. Here it is a
/// minimal perfect hash (`perfect.rs`), which gives each known URL a slot of its own: a fingerprint of
/// `r = ⌈log₂(1/ε)⌉` bits and a flag that says whether it was seen in this visit. A URL whose fingerprint
/// is that of its slot is answered by the flag, and marking sets it. Any other goes to the filter beside.
///
/// So there is never a false negative: a URL's slot and its fingerprint do not change, and a stranger
/// that is mistaken for the slot's owner sets its flag. Then the owner is a false positive, as the
/// stranger is where the owner came first. Known URLs are never mistaken for each other.
///
/// **Useful for** a revisit of a site where most URLs are the old ones: these are answered without error
/// but for what strangers did, at `r + 4.3` bits each. **Not useful for** a first visit, where it is the filter
/// beside with a detour; nor for saving memory at rates above one in a thousand: a fresh Bloom filter has
/// `1.44·r` bits per URL, fewer as long as `r` is below 10.
///
/// The slot comes from the upper half of the key's 128-bit hash, the fingerprint from the lower, each
/// mixed with a seed of the generation; no bit of the hash serves twice. Two known URLs whose upper
/// halves are equal (one pair among 2⁶⁴) have one slot; it is given to one, and the other is answered
/// by the filter beside.
pub struct StaticFilter {
    sealed: Sealed,
    seen: u64,
    beside: Box<dyn Filter>,
}

/// The perfect hash and its slots.
struct Sealed {
    perfect: PerfectHash,
    slots: Memory<Line>,
    fingerprint_bits: u32,
    /// Whether slots have the bit [`SHARED`].
    shares: bool,
    seeds: [u64; 2],
}

impl StaticFilter {
    /// Seals the known URLs, given by their keys' 128-bit hashes in any order, of which strangers are
    /// mistaken for one at this rate. They count as not seen. While it is made, it takes another eight
    /// bytes for each of them.
    ///
    /// One made with no known URLs is the place into which a saved one is loaded: [`Filter::load`]
    /// brings its known URLs along.
    pub fn new(known: &[u128], rate: f64, seeds: [u64; 2], beside: Box<dyn Filter>) -> Self {
        let fingerprint_bits = (-rate.log2()).ceil().clamp(1.0, f64::from(MOST_BITS)) as u32;
        let perfect = PerfectHash::build(known.iter().map(|hash| upper(*hash)).collect(), seeds[0]);
        let mut sealed =
            Sealed { perfect, slots: Memory::zeroed(0), fingerprint_bits, shares: beside.nature().removes, seeds };
        sealed.slots = Memory::zeroed(sealed.lines_of_slots() as usize);
        for batch in known.chunks(BATCH) {
            let slots = sealed.locate(batch, |hash| *hash);
            for (hash, slot) in batch.iter().zip(slots).filter(|(_, slot)| *slot != NOWHERE) {
                let fingerprint = sealed.fingerprint(*hash) << sealed.flags();
                sealed.change(slot, u64::MAX, fingerprint);
            }
        }
        Self { sealed, seen: 0, beside }
    }

    /// Sets a slot's flag. Whether it was set.
    fn see(&mut self, slot: u64) -> bool {
        let was_seen = self.sealed.has(slot, SEEN);
        self.sealed.change(slot, 0, SEEN);
        self.seen += u64::from(!was_seen);
        was_seen
    }
}

/// The questions of a batch that are for the filter beside.
#[derive(Default)]
struct Others<'q> {
    places: Vec<usize>,
    questions: Vec<Question<'q>>,
    answers: Vec<bool>,
}

impl<'q> Others<'q> {
    /// Takes those of a batch that no slot is for.
    fn take(&mut self, batch: &[Question<'q>], slots: &[u64; BATCH]) {
        self.places.clear();
        self.questions.clear();
        for (place, question) in batch.iter().enumerate().filter(|(place, _)| slots[*place] == NOWHERE) {
            self.places.push(place);
            self.questions.push(*question);
        }
    }

    /// Has them answered, and puts the answers where the questions stood.
    fn answer(&mut self, maybe: &mut [bool], ask: impl FnOnce(&[Question<'q>], &mut [bool])) {
        if self.questions.is_empty() {
            return;
        }
        self.answers.clear();
        self.answers.resize(self.questions.len(), false);
        ask(&self.questions, &mut self.answers);
        for (place, answer) in self.places.iter().zip(&self.answers) {
            maybe[*place] = *answer;
        }
    }
}

impl Filter for StaticFilter {
    fn nature(&self) -> Nature {
        self.beside.nature()
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut others = Others::default();
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            let slots = self.sealed.find(batch);
            for (maybe, slot) in maybe.iter_mut().zip(slots).filter(|(_, slot)| *slot != NOWHERE) {
                *maybe = self.sealed.has(slot, SEEN);
            }
            others.take(batch, &slots);
            others.answer(maybe, |questions, answers| self.beside.ask(questions, answers));
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut others = Others::default();
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            let slots = self.sealed.find(batch);
            for (maybe, slot) in maybe.iter_mut().zip(slots).filter(|(_, slot)| *slot != NOWHERE) {
                *maybe = self.see(slot);
            }
            others.take(batch, &slots);
            others.answer(maybe, |questions, answers| self.beside.ask_and_mark(questions, answers));
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        let mut others = Others::default();
        for batch in questions.chunks(BATCH) {
            let slots = self.sealed.find(batch);
            for slot in slots.into_iter().filter(|slot| *slot != NOWHERE) {
                // A flag that stands for two members must not go with the first of them.
                if self.see(slot) && self.sealed.shares {
                    self.sealed.change(slot, 0, SHARED);
                }
            }
            others.take(batch, &slots);
            self.beside.mark(&others.questions);
        }
    }

    fn remove(&mut self, gone: &[Question<'_>], members: &dyn Members) -> Result<(), StoreError> {
        if !self.sealed.shares {
            return Ok(());
        }
        let mut others = Others::default();
        let mut gone_beside = Vec::new();
        for batch in gone.chunks(BATCH) {
            let slots = self.sealed.find(batch);
            for slot in slots.into_iter().filter(|slot| *slot != NOWHERE) {
                // A shared flag stays: it is a false positive from now on, which the store refutes.
                if self.sealed.has(slot, SEEN) && !self.sealed.has(slot, SHARED) {
                    self.sealed.change(slot, SEEN, 0);
                    self.seen -= 1;
                }
            }
            others.take(batch, &slots);
            gone_beside.append(&mut others.questions);
        }
        if gone_beside.is_empty() {
            return Ok(());
        }
        self.beside.remove(&gone_beside, &MembersBeside { members, sealed: &self.sealed })
    }

    fn room(&self) -> u64 {
        self.beside.room()
    }

    fn fill(&self) -> Fill {
        let beside = self.beside.fill();
        let known = self.sealed.perfect.keys();
        let share = self.seen as f64 / known.max(1) as f64;
        let bytes = self.sealed.bytes();
        let mistaken = self.sealed.perfect.share_of_strangers() / f64::from(self.sealed.fingerprint_bits).exp2();
        Fill {
            items: self.seen.saturating_add(beside.items),
            capacity: known.saturating_add(beside.capacity),
            ratio: (share * bytes as f64 + beside.ratio * beside.bytes as f64) / (bytes + beside.bytes).max(1) as f64,
            predicted_false_positive_rate: mistaken * share + (1.0 - mistaken) * beside.predicted_false_positive_rate,
            bytes: bytes + beside.bytes,
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self { sealed: self.sealed.duplicate(), seen: self.seen, beside: self.beside.copy() })
    }

    /// Bits of a fingerprint and bits that go with it; the perfect hash; the slots; the filter beside.
    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&u64::from(self.sealed.fingerprint_bits).to_le_bytes())?;
        to.write_all(&u64::from(self.sealed.flags()).to_le_bytes())?;
        self.sealed.perfect.save(to)?;
        save_words(self.sealed.words(), to)?;
        self.beside.save(to)
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "bits in a fingerprint", u64::from(self.sealed.fingerprint_bits))?;
        expect_u64(from, "flags in a slot", u64::from(self.sealed.flags()))?;
        let perfect = PerfectHash::load(from, self.sealed.seeds[0])?;
        let mut sealed = Sealed { perfect, slots: Memory::zeroed(0), ..self.sealed };
        sealed.slots = load_lines(sealed.lines_of_slots(), from)?;
        // Counted, not read: so `seen` is what the flags say, whatever was saved.
        self.seen = (0..sealed.perfect.keys()).filter(|slot| sealed.has(*slot, SEEN)).count() as u64;
        self.sealed = sealed;
        self.beside.load(from)
    }
}

/// The members that are in the filter beside: those that no slot is for.
struct MembersBeside<'m> {
    members: &'m dyn Members,
    sealed: &'m Sealed,
}

impl Members for MembersBeside<'_> {
    fn visit(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        self.members.visit(&mut |key| {
            if self.sealed.find(&[Question { key, url: "" }])[0] == NOWHERE {
                each(key);
            }
        })
    }
}

/// The upper half of a hash, which chooses the slot.
fn upper(hash: u128) -> u64 {
    (hash >> 64) as u64
}

impl Sealed {
    fn fingerprint(&self, hash: u128) -> u64 {
        fold(hash as u64 ^ self.seeds[1], FINGERPRINT) >> (64 - self.fingerprint_bits)
    }

    fn flags(&self) -> u32 {
        if self.shares { 2 } else { 1 }
    }

    fn width(&self) -> u64 {
        u64::from(self.fingerprint_bits + self.flags())
    }

    /// Lines that the slots take, with a word to spare: a slot is read as part of two words.
    fn lines_of_slots(&self) -> u64 {
        match self.perfect.keys() {
            0 => 0,
            keys => (keys * self.width() + 64).div_ceil(LINE_BITS),
        }
    }

    fn words(&self) -> &[u64] {
        bytemuck::cast_slice(self.slots.values())
    }

    fn bytes(&self) -> usize {
        self.perfect.bytes() + self.slots.bytes()
    }

    /// The slots of at most [`BATCH`] URLs, whoever owns them. Their lines are requested.
    fn locate<Q>(&self, batch: &[Q], hash: impl Fn(&Q) -> u128) -> [u64; BATCH] {
        let (mut keys, mut slots) = ([0; BATCH], [NOWHERE; BATCH]);
        for (key, question) in keys.iter_mut().zip(batch) {
            *key = upper(hash(question));
        }
        self.perfect.find(&keys[..batch.len()], &mut slots[..batch.len()]);
        for slot in slots.iter().filter(|slot| **slot != NOWHERE) {
            wide::request(self.slots.values(), (slot * self.width() / LINE_BITS) as usize);
        }
        slots
    }

    /// The slots of at most [`BATCH`] questions, where the fingerprint is the question's.
    fn find(&self, batch: &[Question<'_>]) -> [u64; BATCH] {
        let mut slots = self.locate(batch, |question| question.key.url_hash());
        for (slot, question) in slots.iter_mut().zip(batch).filter(|(slot, _)| **slot != NOWHERE) {
            if self.slot(*slot) >> self.flags() != self.fingerprint(question.key.url_hash()) {
                *slot = NOWHERE;
            }
        }
        slots
    }

    /// The two words in which a slot is, and the place of its first bit.
    fn two_words(&self, slot: u64) -> (usize, u64, u128) {
        let bit = slot * self.width();
        let (words, word) = (self.words(), (bit / 64) as usize);
        (word, bit % 64, u128::from(words[word]) | u128::from(words[word + 1]) << 64)
    }

    fn mask(&self) -> u64 {
        (1 << self.width()) - 1
    }

    /// A slot's bits: its flags, then the fingerprint.
    fn slot(&self, slot: u64) -> u64 {
        let (_, shift, two) = self.two_words(slot);
        (two >> shift) as u64 & self.mask()
    }

    fn has(&self, slot: u64, flag: u64) -> bool {
        self.slot(slot) & flag != 0
    }

    /// Clears bits of a slot, then sets some.
    fn change(&mut self, slot: u64, clear: u64, set: u64) {
        let (word, shift, two) = self.two_words(slot);
        let two = two & !(u128::from(clear & self.mask()) << shift) | u128::from(set) << shift;
        let words: &mut [u64] = bytemuck::cast_slice_mut(self.slots.values_mut());
        words[word] = two as u64;
        words[word + 1] = (two >> 64) as u64;
    }

    fn duplicate(&self) -> Self {
        Self { perfect: self.perfect.duplicate(), slots: self.slots.duplicate(), ..*self }
    }
}
