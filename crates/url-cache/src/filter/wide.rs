//! Lines of eight words, asked and marked with the widest arithmetic the processor has.
//!
//! There is one body of code, in safe Rust. It is compiled three times: for any processor, with
//! AVX2 and with AVX-512, and the compiler turns its loops over eight lanes into as many vector
//! operations as each needs. So the bits are the same everywhere, by construction.
//!
//! # Why this module may be unsafe
//!
//! A function compiled for processor features may only be called on a processor that has them, and a
//! request for a cache line is an intrinsic that takes a pointer. Both are `unsafe` in Rust, and both
//! are measured in `docs/url-cache.md`: without the requests a batch costs as much as its questions one
//! by one, and without the features a question costs a tenth more and a mark a fifth. [`Level::Portable`]
//! is the fallback without the features, and processors of other kinds have neither; the tests below run
//! every level the machine has against a model that sets bit by bit.
#![allow(unsafe_code, reason = "processor features and prefetching; see the module's documentation")]
#![allow(clippy::inline_always, reason = "a body is compiled for a processor's features only where it is inlined")]

use super::{fold, scale};

/// One cache line: eight lanes of 64 bits.
pub(super) type Line = [u64; LANES];

/// Lower bits of a word that are not used.
const UNUSED: usize = 64 - 6 * LANES;

/// Lanes of a line.
pub(super) const LANES: usize = 8;

/// Questions whose lines are requested before the first is looked at: some more than a core has requests
/// under way.
const BATCH: usize = 32;

/// Finds where a hash's bits are: a line from its upper half; from its lower half, for each round, a
/// word whose upper eight groups of six bits choose one bit in each lane. A second round draws other bits
/// from the same half.
///
/// The halves are uniform already, so one multiplication by an odd number of the generation's own is
/// enough to deal them out anew (Dietzfelbinger et al. 1997, multiply-shift hashing): only the upper
/// bits of the products are used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finder {
    multipliers: [u64; 3],
    /// Lines in the table.
    lines: u64,
}

impl Finder {
    pub(super) fn new(seeds: [u64; 2], lines: usize) -> Self {
        // Odd constants with as many ones as zeros, so that no seed makes a weak multiplier.
        let multiplier = |seed, constant| fold(seed ^ constant, constant) | 1;
        Self {
            multipliers: [
                multiplier(seeds[0], 0x9e37_79b9_7f4a_7c15),
                multiplier(seeds[1], 0xd6e8_feb8_6659_fd93),
                multiplier(seeds[1], 0xa076_1d64_78bd_642f),
            ],
            lines: lines as u64,
        }
    }

    #[inline(always)]
    fn line(self, hash: u128) -> usize {
        scale(((hash >> 64) as u64).wrapping_mul(self.multipliers[0]), self.lines) as usize
    }

    #[inline(always)]
    fn words<const R: usize>(self, hash: u128) -> [u64; R] {
        std::array::from_fn(|round| (hash as u64).wrapping_mul(self.multipliers[1 + round]))
    }
}

/// One bit for each word in each lane.
#[inline(always)]
fn mask<const R: usize>(words: [u64; R]) -> Line {
    let mut mask = [0; LANES];
    for word in words {
        for (lane, mask) in mask.iter_mut().enumerate() {
            *mask |= 1_u64.rotate_left((word >> (UNUSED + 6 * lane)) as u32);
        }
    }
    mask
}

/// How wide the processor computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Calls a body as it was compiled for a level.
macro_rules! at_level {
    ($level:expr, $body:ident::<$($generic:ident),*>($($argument:expr),*)) => {
        match $level {
            Level::Portable => $body::<$($generic),*>($($argument),*),
            // SAFETY: these levels are made by `Level::all` alone, which asked the processor.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { avx2::$body::<$($generic),*>($($argument),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { avx512::$body::<$($generic),*>($($argument),*) },
        }
    };
}

impl Level {
    /// Every level this processor has, the widest last.
    pub(super) fn all() -> Vec<Self> {
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") {
                levels.push(Self::Avx2);
            }
            if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512vl") {
                levels.push(Self::Avx512);
            }
        }
        levels
    }

    /// The widest level of this processor.
    pub(super) fn detect() -> Self {
        Self::all().last().copied().unwrap_or(Self::Portable)
    }

    /// Are all bits of a hash set?
    #[inline]
    pub(super) fn ask_one<const R: usize>(self, lines: &[Line], finder: Finder, hash: u128) -> bool {
        at_level!(self, ask_one::<R>(lines, finder, hash))
    }

    /// The same, and then they are.
    #[inline]
    pub(super) fn ask_and_mark_one<const R: usize>(self, lines: &mut [Line], finder: Finder, hash: u128) -> bool {
        at_level!(self, ask_and_mark_one::<R>(lines, finder, hash))
    }

    /// For each question, by its hash: are all its bits set?
    #[inline]
    pub(super) fn ask<Q, const R: usize>(
        self,
        lines: &[Line],
        finder: Finder,
        questions: &[Q],
        hash: impl Fn(&Q) -> u128,
        maybe: &mut [bool],
    ) {
        at_level!(self, ask::<Q, R>(lines, finder, questions, hash, maybe));
    }

    /// For each question in turn, by its hash: are all its bits set? Then sets them. How many were not.
    #[inline]
    pub(super) fn ask_and_mark<Q, const R: usize>(
        self,
        lines: &mut [Line],
        finder: Finder,
        questions: &[Q],
        hash: impl Fn(&Q) -> u128,
        maybe: &mut [bool],
    ) -> u64 {
        at_level!(self, ask_and_mark::<Q, R>(lines, finder, questions, hash, maybe))
    }
}

/// Asks for the cache line in which a value begins and which will be looked at soon, and does not wait
/// for it. A processor without such a request just waits later.
#[inline(always)]
pub(crate) fn request<T>(values: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(value) = values.get(index) {
        // SAFETY: the pointer is of a live value; a prefetch reads nothing and changes nothing.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>((&raw const *value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}

/// Whether all bits of a mask are set in a line.
#[inline(always)]
fn look(line: &Line, mask: &Line) -> bool {
    let mut missing = 0;
    for lane in 0..LANES {
        missing |= mask[lane] & !line[lane];
    }
    missing == 0
}

/// The same, and then they are.
#[inline(always)]
fn look_and_set(line: &mut Line, mask: &Line) -> bool {
    // Written so that the compiler sees whole vectors: with `|=` lane by lane it computes lane by lane.
    let before = *line;
    *line = std::array::from_fn(|lane| before[lane] | mask[lane]);
    look(&before, mask)
}

#[inline(always)]
fn ask_one<const R: usize>(lines: &[Line], finder: Finder, hash: u128) -> bool {
    look(&lines[finder.line(hash)], &mask::<R>(finder.words(hash)))
}

#[inline(always)]
fn ask_and_mark_one<const R: usize>(lines: &mut [Line], finder: Finder, hash: u128) -> bool {
    look_and_set(&mut lines[finder.line(hash)], &mask::<R>(finder.words(hash)))
}

/// Where a question's bits are: the line, and the words of its mask.
type Place<const R: usize> = (usize, [u64; R]);

/// Finds the places of some questions, and requests their lines.
///
/// It writes where it is told, and nothing is returned or copied: a copy would wait for what was just
/// written, and so for the requests among it, and a batch would take twice as long.
#[inline(always)]
fn find<Q, const R: usize>(
    lines: &[Line],
    finder: Finder,
    questions: &[Q],
    hash: &impl Fn(&Q) -> u128,
    places: &mut [Place<R>],
) {
    for (place, question) in places.iter_mut().zip(questions) {
        let hash = hash(question);
        let line = finder.line(hash);
        request(lines, line);
        *place = (line, finder.words(hash));
    }
}

#[inline(always)]
fn ask<Q, const R: usize>(
    lines: &[Line],
    finder: Finder,
    questions: &[Q],
    hash: impl Fn(&Q) -> u128,
    maybe: &mut [bool],
) {
    let mut places = [(0, [0; R]); BATCH];
    for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
        find(lines, finder, batch, &hash, &mut places);
        for (answer, place) in maybe.iter_mut().zip(&places) {
            *answer = look(&lines[place.0], &mask::<R>(place.1));
        }
    }
}

#[inline(always)]
fn ask_and_mark<Q, const R: usize>(
    lines: &mut [Line],
    finder: Finder,
    questions: &[Q],
    hash: impl Fn(&Q) -> u128,
    maybe: &mut [bool],
) -> u64 {
    let mut fresh = 0;
    let mut places = [(0, [0; R]); BATCH];
    for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
        find(lines, finder, batch, &hash, &mut places);
        for (answer, place) in maybe.iter_mut().zip(&places) {
            *answer = look_and_set(&mut lines[place.0], &mask::<R>(place.1));
            fresh += u64::from(!*answer);
        }
    }
    fresh
}

/// The bodies above once more, compiled for a processor with these features.
#[cfg(target_arch = "x86_64")]
macro_rules! compiled_for {
    ($name:ident, $features:literal) => {
        mod $name {
            use super::{Finder, Line};

            #[target_feature(enable = $features)]
            pub(super) fn ask_one<const R: usize>(lines: &[Line], finder: Finder, hash: u128) -> bool {
                super::ask_one::<R>(lines, finder, hash)
            }

            #[target_feature(enable = $features)]
            pub(super) fn ask_and_mark_one<const R: usize>(lines: &mut [Line], finder: Finder, hash: u128) -> bool {
                super::ask_and_mark_one::<R>(lines, finder, hash)
            }

            #[target_feature(enable = $features)]
            pub(super) fn ask<Q, const R: usize>(
                lines: &[Line],
                finder: Finder,
                questions: &[Q],
                hash: impl Fn(&Q) -> u128,
                maybe: &mut [bool],
            ) {
                super::ask::<Q, R>(lines, finder, questions, hash, maybe);
            }

            #[target_feature(enable = $features)]
            pub(super) fn ask_and_mark<Q, const R: usize>(
                lines: &mut [Line],
                finder: Finder,
                questions: &[Q],
                hash: impl Fn(&Q) -> u128,
                maybe: &mut [bool],
            ) -> u64 {
                super::ask_and_mark::<Q, R>(lines, finder, questions, hash, maybe)
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
compiled_for!(avx2, "avx2");
#[cfg(target_arch = "x86_64")]
compiled_for!(avx512, "avx512f,avx512vl");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The model: bit by bit, nothing clever.
    fn slowly<const R: usize>(lines: &mut [Line], finder: Finder, hash: u128) -> bool {
        let line = &mut lines[finder.line(hash)];
        let places = finder
            .words::<R>(hash)
            .into_iter()
            .flat_map(|word| (0..LANES).map(move |lane| (lane, word >> (UNUSED + 6 * lane) & 63)));
        let all = places.clone().all(|(lane, bit)| line[lane] >> bit & 1 == 1);
        for (lane, bit) in places {
            line[lane] |= 1 << bit;
        }
        all
    }

    fn agree<const R: usize>(hashes: &[u128], seeds: [u64; 2]) {
        let finder = Finder::new(seeds, 4);
        let mut expected = vec![[0; LANES]; 4];
        let answers: Vec<bool> = hashes.iter().map(|hash| slowly::<R>(&mut expected, finder, *hash)).collect();
        for level in Level::all() {
            let mut lines = vec![[0; LANES]; 4];
            let mut maybe = vec![false; hashes.len()];
            let fresh = level.ask_and_mark::<_, R>(&mut lines, finder, hashes, |hash| *hash, &mut maybe);
            assert_eq!((&lines, &maybe), (&expected, &answers), "{level:?}");
            assert_eq!(fresh, answers.iter().filter(|maybe| !**maybe).count() as u64);
            level.ask::<_, R>(&lines, finder, hashes, |hash| *hash, &mut maybe);
            assert!(maybe.iter().all(|maybe| *maybe), "{level:?}: what was marked is found");
            let mut empty = vec![true; hashes.len()];
            level.ask::<_, R>(&[[0; LANES]; 4], finder, hashes, |hash| *hash, &mut empty);
            assert!(empty.iter().all(|maybe| !maybe), "{level:?}: nothing is in an empty table");

            let mut one_by_one = vec![[0; LANES]; 4];
            for (hash, expected) in hashes.iter().zip(&answers) {
                assert_eq!(level.ask_one::<R>(&one_by_one, finder, *hash), *expected, "{level:?}");
                assert_eq!(level.ask_and_mark_one::<R>(&mut one_by_one, finder, *hash), *expected, "{level:?}");
            }
            assert_eq!(one_by_one, expected, "{level:?}");
        }
    }

    proptest! {
        /// Every level of arithmetic sets the bits of the model and gives its answers, in batches and
        /// one by one. Few hashes, so that they come again.
        #[test]
        fn every_level_does_what_the_model_does(
            few in proptest::collection::vec(any::<u128>(), 1..60),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 1..200),
            seeds in any::<[u64; 2]>(),
        ) {
            let hashes: Vec<u128> = order.iter().map(|index| *index.get(&few)).collect();
            agree::<1>(&hashes, seeds);
            agree::<2>(&hashes, seeds);
        }
    }
}
