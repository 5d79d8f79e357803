//! The distance between two fetches of one host, kept by governor.
//!
//! Governor is asked and never slept on. Its limiter holds one cell that refills in the length of a
//! pause: ending a fetch spends the cell, and the instant at which the next is to be had is what
//! its refusal says. Since each fetch asks for a pause of its own length, and a limiter's quota is
//! fixed, each pause is a limiter of its own; that costs less than the look-up of the host.

use std::cell::Cell;
use std::ops::Add;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use model::Time;

/// The pace of one host.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// `None` is no pause: nothing to keep, nothing to ask.
    limiter: Option<Limiter>,
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, LentClock, NoOpMiddleware<Instant>>;

impl Pace {
    /// Starts a pause now, in the place of whatever was before, and says when it is over.
    pub(crate) fn pause(&mut self, length: Duration, now: Time) -> Time {
        // A cell refills in whole microseconds, the resolution of `Time`, and never early.
        let micros = u64::try_from(length.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        let length = Duration::from_micros(micros.min(MAX_NANOS / 1000));
        self.limiter = Quota::with_period(length)
            .map(|quota| RateLimiter::direct_with_clock(quota, LentClock(Cell::new(Instant(now)))));
        // The first question takes the cell, the second is told when the next one comes.
        self.ask(now).and_then(|()| self.ask(now)).map_or_else(|until| until, |()| now)
    }

    /// Prolongs the pause that is under way to `length` from now; a longer one stays.
    pub(crate) fn pause_at_least(&mut self, length: Duration, now: Time) {
        if self.ask(now).err().is_none_or(|until| until < now + length) {
            self.pause(length, now);
        }
    }

    /// Takes the permission that is there now, or says when it will be.
    pub(crate) fn ask(&self, now: Time) -> Result<(), Time> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.clock().0.set(Instant(now));
        limiter.check().map_err(|not_until| not_until.earliest_possible().0)
    }
}

/// The time that was passed in, lent to governor for the length of a call.
#[derive(Debug, Clone)]
struct LentClock(Cell<Instant>);

impl Clock for LentClock {
    type Instant = Instant;

    fn now(&self) -> Instant {
        self.0.get()
    }
}

/// The longest span that is handed to governor: 146 years. It counts nanoseconds in 64 bits and adds
/// up to three such spans without looking.
const MAX_NANOS: u64 = u64::MAX / 4;

/// [`Time`] in the shape governor asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Instant(Time);

impl Add<Nanos> for Instant {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0 + Duration::from(nanos))
    }
}

impl Reference for Instant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        let micros = self.0.as_micros().saturating_sub(earlier.0.as_micros());
        Nanos::new(micros.saturating_mul(1000).min(MAX_NANOS))
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        let micros = self.0.as_micros().checked_sub(duration.as_u64() / 1000);
        micros.map_or(*self, |micros| Self(Time::from_micros(micros)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(1_795_000_000_000_000 + micros)
    }

    #[test]
    fn a_pause_ends_to_the_microsecond() {
        let mut pace = Pace::default();
        assert_eq!(pace.ask(at(0)), Ok(()), "before the first fetch there is none");
        assert_eq!(pace.pause(Duration::from_micros(500), at(10)), at(510));
        assert_eq!(pace.ask(at(10)), Err(at(510)));
        assert_eq!(pace.ask(at(509)), Err(at(510)));
        assert_eq!(pace.ask(at(510)), Ok(()));
        assert_eq!(pace.ask(at(510)), Err(at(1010)), "a permission is spent");
    }

    #[test]
    fn a_pause_takes_the_place_of_the_one_before() {
        let mut pace = Pace::default();
        pace.pause(Duration::from_hours(1), at(0));
        assert_eq!(pace.pause(Duration::from_nanos(1), at(5)), at(6));
        assert_eq!(pace.pause(Duration::ZERO, at(6)), at(6));
        assert!(pace.limiter.is_none(), "no pause needs no limiter");
        assert_eq!(pace.ask(at(6)), Ok(()));
        assert_eq!(pace.ask(at(6)), Ok(()));
    }

    #[test]
    fn a_pause_is_prolonged_and_never_cut() {
        let mut pace = Pace::default();
        pace.pause_at_least(Duration::from_micros(10), at(0));
        assert_eq!(pace.ask(at(0)), Err(at(10)));
        pace.pause_at_least(Duration::from_micros(3), at(5));
        assert_eq!(pace.ask(at(5)), Err(at(10)));
        pace.pause_at_least(Duration::from_micros(20), at(5));
        assert_eq!(pace.ask(at(5)), Err(at(25)));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let mut pace = Pace::default();
        for now in [Time::ZERO, Time::MAX] {
            for length in [Duration::ZERO, Duration::from_hours(24 * 365)] {
                let until = pace.pause(length, now);
                assert!(until >= now);
                let _ = (pace.ask(Time::ZERO), pace.ask(Time::MAX));
            }
        }
    }

    proptest! {
        /// The oracle is one number: not before the last permission and a pause.
        #[test]
        fn permissions_keep_their_distance(
            length in 0_u64..1000,
            steps in prop::collection::vec(0_u64..700, 1..50),
        ) {
            let mut pace = Pace::default();
            let mut free = pace.pause(Duration::from_micros(length), at(0));
            prop_assert_eq!(free, at(length));
            let mut now = 0;
            for step in steps {
                now += step;
                let expected = if at(now) < free { Err(free) } else { Ok(()) };
                prop_assert_eq!(pace.ask(at(now)), expected);
                if expected.is_ok() {
                    free = at(now + length);
                }
            }
        }
    }
}
