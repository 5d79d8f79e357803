//! Keys by number: the same for every row, made on the way instead of read from memory.

use model::UrlKey;

/// Odd constants with as many ones as zeros.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const HIGH: u64 = 0xd6e8_feb8_6659_fd93;
const LOW: [u64; 2] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];

/// Strangers count from here; members from 0.
pub(crate) const STRANGERS: u64 = 1 << 40;

/// What stands in a key for the host's hash where the bench has no hosts.
const NO_HOST: u64 = 0;

/// Two words folded into one: the halves of their 128-bit product, xored.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product ^ (product >> 64)) as u64
}

/// The 128-bit hash of a number: three multiplications, under a nanosecond in a loop, and good
/// enough for a filter's false positives to come out as predicted (the report shows them).
#[inline]
pub(crate) fn hash(number: u64) -> u128 {
    let word = number.wrapping_mul(STEP) ^ LOW[1];
    u128::from(fold(word, word ^ HIGH)) << 64 | u128::from(fold(word ^ LOW[0], word ^ LOW[1].rotate_left(17)))
}

/// A key with this URL hash.
#[inline]
pub(crate) fn key_of_hash(hash: u128) -> UrlKey {
    key_on_host(NO_HOST, hash)
}

/// A key with this host's hash and this URL hash.
#[inline]
pub(crate) fn key_on_host(host: u64, hash: u128) -> UrlKey {
    let mut bytes = [0; UrlKey::LEN];
    bytes[..8].copy_from_slice(&host.to_be_bytes());
    bytes[8..].copy_from_slice(&hash.to_be_bytes());
    UrlKey::from_bytes(bytes)
}

/// Every number below `n` once and then again, in an order with no neighbours: steps of about `n`
/// over the golden ratio, coprime to `n`.
pub(crate) struct Shuffled {
    n: u64,
    step: u64,
    next: u64,
}

impl Shuffled {
    pub(crate) fn new(n: u64, start: u64) -> Self {
        let mut step = (n as f64 * 0.618_033_988_75) as u64 | 1;
        while greatest_common_divisor(step, n) != 1 {
            step += 2;
        }
        Self { n, step: step % n, next: start % n }
    }

    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += self.step;
        if self.next >= self.n {
            self.next -= self.n;
        }
        number
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
