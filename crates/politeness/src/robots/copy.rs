//! What is known of one host's robots.txt as time passes.

use std::sync::Arc;
use std::time::Duration;

use model::Time;

use crate::robots::Rules;

/// How long a copy serves before it is asked for again (RFC 9309 §2.4), and how long a host whose
/// file could not be had is left alone.
const MAX_AGE: Duration = Duration::from_hours(24);
/// How long a copy serves while the file cannot be had.
const MAX_STALE: Duration = Duration::from_hours(30 * 24);

/// The last copy of a host's file, and when to ask for the next.
#[derive(Debug, Default)]
pub(crate) struct Robots {
    copy: Option<LastCopy>,
    /// The beginning of time for a file that was never asked for.
    ask_again: Time,
    /// Answers in a row that were none.
    failures: u32,
    /// Why the host's URLs are refused, once the file could not be had as often as is allowed.
    unreachable: Option<Arc<str>>,
}

#[derive(Debug)]
struct LastCopy {
    rules: Rules,
    taken: Time,
}

/// What a host's file has to say now.
#[derive(Debug, PartialEq)]
pub(crate) enum Consulted<'a> {
    /// These rules hold.
    Rules(&'a Rules),
    /// It is to be asked for first.
    AskFirst,
    /// It could not be had, and is to be asked for then.
    Wait(Time),
    /// It could not be had as often as is allowed: this refuses all URLs.
    Unreachable(&'a Arc<str>),
}

impl Robots {
    /// What the file says now.
    pub(crate) fn consult(&self, now: Time) -> Consulted<'_> {
        match (&self.copy, &self.unreachable) {
            _ if now >= self.ask_again => Consulted::AskFirst,
            (Some(copy), _) => Consulted::Rules(&copy.rules),
            (None, Some(rule)) => Consulted::Unreachable(rule),
            (None, None) => Consulted::Wait(self.ask_again),
        }
    }

    /// The rules last read, be they too old to decide.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.copy.as_ref().map(|copy| &copy.rules)
    }

    /// When the file is asked for next.
    pub(crate) fn ask_again(&self) -> Time {
        self.ask_again
    }

    /// The file was had, or there is none and everything is allowed.
    pub(crate) fn arrived(&mut self, rules: Rules, now: Time) {
        *self = Self {
            copy: Some(LastCopy { rules, taken: now }),
            ask_again: now + MAX_AGE,
            failures: 0,
            unreachable: None,
        };
    }

    /// The file could not be had. After `retries` tries more than the first it counts as not to be
    /// had at all; until then `wait` gives the pause after so many failures in a row.
    pub(crate) fn failed(&mut self, trouble: &str, retries: u8, wait: impl Fn(u32) -> Duration, now: Time) {
        self.failures = self.failures.saturating_add(1);
        self.copy.take_if(|copy| now.since(copy.taken) > MAX_STALE);
        let given_up = self.failures > u32::from(retries);
        self.ask_again = now + if given_up { MAX_AGE } else { wait(self.failures) };
        self.unreachable = given_up
            .then(|| format!("robots.txt could not be had, {} times in a row: {trouble}", self.failures).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn fail(robots: &mut Robots, now: Time) {
        robots.failed("status 503", 1, |failures| Duration::from_secs(u64::from(failures) * 60), now);
    }

    #[test]
    fn a_copy_serves_for_a_day() {
        let mut robots = Robots::default();
        assert_eq!(robots.consult(Time::ZERO), Consulted::AskFirst);
        robots.arrived(Rules::default(), Time::ZERO);
        assert_eq!(robots.consult(Time::ZERO + HOUR * 23), Consulted::Rules(&Rules::default()));
        assert_eq!(robots.consult(Time::ZERO + HOUR * 24), Consulted::AskFirst);
    }

    #[test]
    fn without_a_copy_urls_wait_and_then_are_refused_for_a_day() {
        let mut robots = Robots::default();
        fail(&mut robots, Time::ZERO);
        let minute = Time::ZERO + Duration::from_mins(1);
        assert_eq!(robots.consult(Time::ZERO), Consulted::Wait(minute));
        assert_eq!(robots.consult(minute), Consulted::AskFirst);
        fail(&mut robots, minute);
        let Consulted::Unreachable(rule) = robots.consult(minute) else { panic!("{robots:?}") };
        assert_eq!(&**rule, "robots.txt could not be had, 2 times in a row: status 503");
        assert_eq!(robots.consult(minute + HOUR * 24), Consulted::AskFirst);
        robots.arrived(Rules::default(), minute + HOUR * 24);
        assert_eq!(robots.consult(minute + HOUR * 25), Consulted::Rules(&Rules::default()));
    }

    #[test]
    fn an_old_copy_serves_for_a_month() {
        let mut robots = Robots::default();
        robots.arrived(Rules::default(), Time::ZERO);
        for day in 1..=30 {
            fail(&mut robots, Time::ZERO + HOUR * 24 * day);
            assert_eq!(robots.consult(Time::ZERO + HOUR * 24 * day), Consulted::Rules(&Rules::default()), "day {day}");
        }
        let late = Time::ZERO + HOUR * 24 * 31;
        fail(&mut robots, late);
        assert!(matches!(robots.consult(late), Consulted::Unreachable(_)));
    }
}
