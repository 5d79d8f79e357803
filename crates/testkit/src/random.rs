//! Numbers that look random and are the same everywhere: hashes of the seed and of what they are for.

/// What a stream of draws decides. Each purpose has its own stream, so that a change in one leaves
/// the others as they were.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    HostName,
    RobotsProfile,
    Kind,
    Path,
    Size,
    Links,
    Footer,
    Redirect,
    RedirectStatus,
    Revision,
    Validators,
    Text,
    Charset,
    Layout,
    Trap,
    Coding,
    Latency,
    Filler,
}

/// A stream of draws: `SplitMix64` (Steele, Lea & Flood, "Fast splittable pseudorandom number
/// generators", 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draws(u64);

impl Draws {
    /// The stream of a web's seed, for a purpose, at a place.
    pub(crate) fn new(seed: u64, purpose: Purpose, host: u32, page: u32) -> Self {
        let purpose = finalise(seed.wrapping_add(purpose as u64 + 1));
        Self(finalise(purpose ^ (u64::from(host) << 32 | u64::from(page))))
    }

    /// 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        finalise(self.0)
    }

    /// Uniform in `0..bound`; 0 where the bound is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `0.0..1.0`, in steps of 2⁻⁵³.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True in this share of cases.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// One of them.
    pub(crate) fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// A rank in `0..bound`, the lower the likelier: P(rank) is about 1/(rank + 1), Zipf's law with
    /// exponent 1, by drawing an octave and then a number within it.
    pub(crate) fn rank(&mut self, bound: u32) -> u32 {
        let octave = 1 << self.below(bound.max(1).ilog2() + 1);
        (octave - 1 + self.below(octave)) % bound.max(1)
    }

    /// Log-normal with that median and a standard deviation of 1 in the natural logarithm.
    pub(crate) fn log_normal(&mut self, median: f64) -> f64 {
        median * exp2(self.normal() * std::f64::consts::LOG2_E)
    }

    /// Standard normal, as the sum of eight 16-bit uniform draws (Irwin-Hall); within ±4.9.
    fn normal(&mut self) -> f64 {
        let sum: u64 = [self.bits(), self.bits()]
            .into_iter()
            .flat_map(|bits| [bits & 0xffff, bits >> 16 & 0xffff, bits >> 32 & 0xffff, bits >> 48])
            .sum();
        // Mean 8 × 32767.5; standard deviation 65536 × √(8/12).
        (sum as f64 - 262_140.0) / 53_509.92
    }
}

/// `SplitMix64`'s finaliser: every input bit reaches every output bit.
fn finalise(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// 2 to the power of `x`, to three digits. The standard library's may differ between platforms.
fn exp2(x: f64) -> f64 {
    let whole = x.floor();
    let part = x - whole;
    let power = f64::from_bits(((1023 + whole as i64) as u64) << 52);
    power * (1.0 + part * (0.6951 + part * (0.2262 + part * 0.0787)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(host: u32) -> Draws {
        Draws::new(1, Purpose::Links, host, 0)
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_place() {
        let first = |seed, purpose, host, page| Draws::new(seed, purpose, host, page).bits();
        let mut all = vec![
            first(1, Purpose::Links, 0, 0),
            first(2, Purpose::Links, 0, 0),
            first(1, Purpose::Kind, 0, 0),
            first(1, Purpose::Links, 1, 0),
            first(1, Purpose::Links, 0, 1),
        ];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn ranks_follow_zipf() {
        let mut draws = draws(0);
        let mut counts = [0_u32; 1000];
        for _ in 0..100_000 {
            counts[draws.rank(1000) as usize] += 1;
        }
        assert!(counts[0] > 9_000, "{}", counts[0]);
        assert!((20..60).contains(&counts[500]), "{}", counts[500]);
        assert_eq!(draws.rank(1), 0);
        assert_eq!(draws.rank(0), 0);
    }

    #[test]
    fn log_normal_has_its_quantiles() {
        let mut draws = draws(1);
        let mut values: Vec<f64> = (0..20_000).map(|_| draws.log_normal(100.0)).collect();
        values.sort_by(f64::total_cmp);
        // e^±1.2816 at 10 and 90 %, e^2.3263 at 99 %.
        for (share, expected) in [(0.1, 27.8), (0.5, 100.0), (0.9, 360.2), (0.99, 1024.0)] {
            let got = values[(share * 20_000.0) as usize];
            assert!((got / expected - 1.0).abs() < 0.08, "{share}: {got} for {expected}");
        }
    }

    #[test]
    fn exp2_is_near_enough() {
        for step in -40..40 {
            let x = f64::from(step) / 7.0;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-3, "{x}");
        }
    }
}
