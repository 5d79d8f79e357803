//! A minimal perfect hash function (Limasset, Rizk, Chikhi & Peterlongo 2017).

use std::io::{self, Read, Write};

use super::memory::{Memory, load_words, save_words};
use super::wide::{self, LANES, Line};
use super::{fold, misfit, read_u64, scale};

/// Keys whose lines are requested before the first is looked at.
pub(super) const BATCH: usize = 64;

/// What [`PerfectHash::find`] says of a key that has no slot.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Bits of a line that stand for keys: seven of its words. The first word counts the ones before it.
const LINE_BITS: u64 = 448;

/// Bits per key of a level (the paper's γ). More of them put more keys into the first levels: γ = 1 takes
/// 3.11 bits per key with the counts, 1.5 takes 3.34 and 2 takes 3.77, and a member is found after
/// e^(1/γ) lines, which are 2.7, 1.9 and 1.6.
const SPREAD: f64 = 1.5;

/// Levels there may be. Less than half of the keys go on from one level to the next, so 48 are enough
/// for 10¹⁴ keys.
const MAX_LEVELS: usize = 48;

/// Lines that are read before more memory is taken for the next ones.
const FIRST_LINES: u64 = 1024;

/// The constants of wyrand (Wang Yi's generator): an odd step and a mask.
const STEP: u64 = 0xa076_1d64_78bd_642f;
const MASK: u64 = 0xe703_7ed1_a0b4_28db;

/// Gives each key of a fixed set a number of its own below the set's size; any other key gets one of
/// these numbers, or none.
///
/// Levels of bits, after *Fast and scalable minimal perfect hashing for massive key sets* (BBHash, 2017,
/// §2) and Müller, Sanders, Schulze & Zhou, *Retrieval and perfect hashing using fingerprinting* (2014,
/// §4). Every key has one position in each level. Keys that are alone at theirs set its bit; the others
/// go on to the next level, which is smaller. A key's number is the number of ones before its bit. The
/// count of the ones before a line stands in the line, so that each level costs one access to memory.
///
/// Keys are 64-bit hashes already: a level's position is the output of wyrand at the level's number, with
/// the key as the state.
pub(super) struct PerfectHash {
    lines: Memory<Line>,
    levels: Vec<Level>,
    keys: u64,
    seed: u64,
}

/// A level: some lines, one after the other.
#[derive(Debug, Clone, Copy)]
struct Level {
    first: u64,
    lines: u64,
}

/// A bit of a line; the first 64, which are the count, are none.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    line: usize,
    bit: u32,
}

impl Level {
    /// A key's position here; `number` is the level's.
    fn place(self, key: u64, number: usize, seed: u64) -> Place {
        let state = (key ^ seed).wrapping_add(STEP.wrapping_mul(number as u64 + 1));
        let product = u128::from(fold(state, state ^ MASK)) * u128::from(self.lines);
        // What the choice of the line leaves over is as random as the word was, and chooses the bit.
        let bit = scale(product as u64, LINE_BITS);
        Place { line: (self.first + (product >> 64) as u64) as usize, bit: 64 + bit as u32 }
    }
}

impl Place {
    fn word(self) -> usize {
        (self.bit / 64) as usize
    }

    fn is_set(self, lines: &[Line]) -> bool {
        lines[self.line][self.word()] >> (self.bit % 64) & 1 == 1
    }

    /// Ones before this bit in all the lines.
    fn rank(self, lines: &[Line]) -> u64 {
        let line = &lines[self.line];
        let before = (1 << (self.bit % 64)) - 1;
        // Every word is counted or masked out, without a branch: that takes a quarter less time.
        (1..LANES).fold(line[0], |count, word| {
            let whole = u64::from(word < self.word()).wrapping_neg();
            let part = u64::from(word == self.word()).wrapping_neg() & before;
            count + u64::from((line[word] & (whole | part)).count_ones())
        })
    }
}

fn ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

impl PerfectHash {
    /// The function for these keys, in any order; a key may come twice.
    pub(super) fn build(mut keys: Vec<u64>, seed: u64) -> Self {
        keys.sort_unstable();
        keys.dedup();
        let mut lines: Vec<Line> = Vec::new();
        let mut levels = Vec::new();
        while !keys.is_empty() && levels.len() < MAX_LEVELS {
            let number = levels.len();
            let size = (keys.len() as f64 * SPREAD / LINE_BITS as f64).ceil() as u64;
            let level = Level { first: 0, lines: size };
            let (mut once, mut twice) = (vec![Line::default(); size as usize], vec![Line::default(); size as usize]);
            for key in &keys {
                let place = level.place(*key, number, seed);
                let bit = 1 << (place.bit % 64);
                let word = &mut once[place.line][place.word()];
                twice[place.line][place.word()] |= *word & bit;
                *word |= bit;
            }
            keys.retain(|key| level.place(*key, number, seed).is_set(&twice));
            levels.push(Level { first: lines.len() as u64, lines: size });
            lines.extend(once.iter().zip(&twice).map(|(once, twice)| std::array::from_fn(|i| once[i] & !twice[i])));
        }
        let mut memory = Memory::zeroed(lines.len());
        let mut count = 0;
        for (to, line) in memory.values_mut().iter_mut().zip(lines) {
            *to = line;
            to[0] = count;
            count += ones(&line[1..]);
        }
        Self { lines: memory, levels, keys: count, seed }
    }

    /// Keys that have a number: all of them, but for what no level could tell apart.
    pub(super) fn keys(&self) -> u64 {
        self.keys
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.lines.bytes()
    }

    /// The numbers of up to [`BATCH`] keys, or [`NOWHERE`].
    pub(super) fn find(&self, keys: &[u64], numbers: &mut [u64]) {
        let lines = self.lines.values();
        let mut open: [u8; BATCH] = std::array::from_fn(|index| index as u8);
        let mut open = &mut open[..keys.len()];
        let mut places = [Place::default(); BATCH];
        let mut hits = [(0_u8, 0_u8); BATCH];
        numbers.fill(NOWHERE);
        for (number, level) in self.levels.iter().enumerate() {
            for (place, index) in places.iter_mut().zip(&*open) {
                *place = level.place(keys[usize::from(*index)], number, self.seed);
                wide::request(lines, place.line);
            }
            // Whether a bit is set is the toss of a coin, which no processor guesses: so the keys are
            // parted without a branch.
            let (mut left, asked) = (0, open.len());
            for looked in 0..asked {
                let index = open[looked];
                open[left] = index;
                hits[looked - left] = (index, looked as u8);
                left += usize::from(!places[looked].is_set(lines));
            }
            for (index, looked) in &hits[..asked - left] {
                numbers[usize::from(*index)] = places[usize::from(*looked)].rank(lines);
            }
            open = &mut open[..left];
            if open.is_empty() {
                break;
            }
        }
    }

    /// The probability that a key that is not of the set gets a number.
    pub(super) fn share_of_strangers(&self) -> f64 {
        let ones_before = |line: u64| self.lines.values().get(line as usize).map_or(self.keys, |line| line[0]);
        let missed = self.levels.iter().map(|level| {
            let ones = ones_before(level.first + level.lines) - ones_before(level.first);
            1.0 - ones as f64 / (level.lines * LINE_BITS) as f64
        });
        1.0 - missed.product::<f64>()
    }

    pub(super) fn duplicate(&self) -> Self {
        Self { lines: self.lines.duplicate(), levels: self.levels.clone(), ..*self }
    }

    /// Writes the number of levels, the lines of each, and the lines.
    pub(super) fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&(self.levels.len() as u64).to_le_bytes())?;
        for level in &self.levels {
            to.write_all(&level.lines.to_le_bytes())?;
        }
        save_words(bytemuck::cast_slice(self.lines.values()), to)
    }

    /// Reads what [`PerfectHash::save`] wrote. Every count in it is checked, so that no number it gives
    /// is ever beyond [`PerfectHash::keys`].
    pub(super) fn load(from: &mut dyn Read, seed: u64) -> io::Result<Self> {
        let count = read_u64(from)?;
        if count > MAX_LEVELS as u64 {
            return Err(misfit("levels of perfect hashing", count, MAX_LEVELS as u64));
        }
        let (mut levels, mut first) = (Vec::new(), 0_u64);
        for _ in 0..count {
            let lines = read_u64(from)?;
            if lines == 0 {
                return Err(misfit("lines in a level", 0, 1));
            }
            levels.push(Level { first, lines });
            first = first.checked_add(lines).ok_or_else(|| misfit("lines in a level", lines, u64::MAX - first))?;
        }
        let lines = load_lines(first, from)?;
        let mut keys = 0;
        for line in lines.values() {
            if line[0] != keys {
                return Err(misfit("keys before a line of perfect hashing", line[0], keys));
            }
            keys += ones(&line[1..]);
        }
        Ok(Self { lines, levels, keys, seed })
    }
}

/// Reads so many lines, where their number is not to be trusted: memory is taken as they come, never
/// more than twice what has been read.
pub(super) fn load_lines(count: u64, from: &mut dyn Read) -> io::Result<Memory<Line>> {
    let mut lines = Memory::zeroed(count.min(FIRST_LINES) as usize);
    let mut read = 0;
    loop {
        load_words(bytemuck::cast_slice_mut(&mut lines.values_mut()[read..]), from)?;
        read = lines.values().len();
        if read as u64 == count {
            return Ok(lines);
        }
        let mut larger = Memory::zeroed(count.min(read as u64 * 2) as usize);
        larger.values_mut()[..read].copy_from_slice(lines.values());
        lines = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(number: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), 7)
    }

    fn keys(n: u64) -> Vec<u64> {
        (0..n).map(random).collect()
    }

    fn numbers(perfect: &PerfectHash, keys: &[u64]) -> Vec<u64> {
        let mut numbers = vec![0; keys.len()];
        for (keys, numbers) in keys.chunks(BATCH).zip(numbers.chunks_mut(BATCH)) {
            perfect.find(keys, numbers);
        }
        numbers
    }

    #[test]
    fn every_key_has_a_number_of_its_own() {
        for n in [0, 1, 2, 63, 447, 448, 449, 1000, 100_000] {
            let perfect = PerfectHash::build(keys(n), 5);
            let mut found = numbers(&perfect, &keys(n));
            found.sort_unstable();
            assert!(found.into_iter().eq(0..n), "{n} keys");
            assert_eq!(perfect.keys(), n);
        }
    }

    #[test]
    fn keys_that_come_twice_and_keys_alike_have_their_numbers() {
        let alike: Vec<u64> = (0..1000).chain(0..1000).chain(500..1500).collect();
        let perfect = PerfectHash::build(alike, 0);
        assert_eq!(perfect.keys(), 1500);
        let mut found = numbers(&perfect, &(0..1500).collect::<Vec<_>>());
        found.sort_unstable();
        assert!(found.into_iter().eq(0..1500));
    }

    #[test]
    fn strangers_get_a_number_of_the_set_or_none() {
        let perfect = PerfectHash::build(keys(10_000), 5);
        let strangers: Vec<u64> = (10_000..60_000).map(random).collect();
        let found = numbers(&perfect, &strangers);
        assert!(found.iter().all(|number| *number == NOWHERE || *number < 10_000));
        let share = found.iter().filter(|number| **number != NOWHERE).count() as f64 / 50_000.0;
        assert!((share - perfect.share_of_strangers()).abs() < 0.002, "{share}");
        let none = PerfectHash::build(Vec::new(), 5);
        assert_eq!(numbers(&none, &strangers[..3]), [NOWHERE; 3]);
        assert!(none.share_of_strangers().abs() < 1e-12);
    }

    /// Limasset et al. 2017, §2.2: γ·e^(1/γ) bits per key; here 8/7 of it, for the counts.
    #[test]
    fn the_size_is_the_papers() {
        let perfect = PerfectHash::build(keys(300_000), 5);
        let bits = perfect.bytes() as f64 * 8.0 / 300_000.0;
        let expected = SPREAD * (1.0 / SPREAD).exp() * 8.0 / 7.0;
        assert!((bits - expected).abs() < 0.03, "{bits} bits per key, {expected} expected");
    }

    #[test]
    fn what_was_saved_is_loaded_and_nothing_else() {
        for n in [0, 1, 40_000] {
            let perfect = PerfectHash::build(keys(n), 5);
            let mut saved = Vec::new();
            perfect.save(&mut saved).unwrap();
            let mut rest = saved.as_slice();
            let loaded = PerfectHash::load(&mut rest, 5).unwrap();
            assert!(rest.is_empty());
            assert_eq!(numbers(&loaded, &keys(n)), numbers(&perfect, &keys(n)));
            assert_eq!(numbers(&perfect.duplicate(), &keys(n)), numbers(&perfect, &keys(n)));
            for end in (0..saved.len()).step_by(61) {
                assert!(PerfectHash::load(&mut &saved[..end], 5).is_err(), "torn at {end}");
            }
        }
    }

    #[test]
    fn numbers_from_strangers_take_no_memory() {
        let load = |words: &[u64]| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.resize(bytes.len() + 100_000, 0);
            PerfectHash::load(&mut bytes.as_slice(), 5)
        };
        for words in [&[u64::MAX][..], &[1, u64::MAX], &[2, u64::MAX, 1], &[1, 1 << 58], &[1, 1 << 33], &[2, 1, 0]] {
            assert!(load(words).is_err(), "{words:?}");
        }
        let without_keys = load(&[2, 1, 1]).unwrap();
        assert_eq!(numbers(&without_keys, &keys(9)), [NOWHERE; 9]);
    }
}
