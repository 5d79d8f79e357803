//! Time as a value that is passed in.

use std::ops::Add;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(u64);

impl Time {
    /// The beginning of 1970: earlier than anything that happens.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// From microseconds since 1970.
    pub fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> u64 {
        self.0
    }

    /// How much later than `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Gives the time: the system's at the start, and from then on only forward, whatever happens to
/// the system's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Time,
    instant: Instant,
}

impl Clock {
    /// Reads the system's clock once.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Time::ZERO + since_epoch, instant: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.started + self.instant.elapsed()
    }
}
