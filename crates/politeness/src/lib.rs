//! May we fetch this, and how soon again.
//!
//! **For:** obeying robots.txt (RFC 9309), keeping a distance between two fetches of one host, and
//! backing off from a host in trouble until it recovers or is given up.
//! **Principal type:** [`Politeness`], built from a [`PolitenessConfig`].
//! **Called by:** the engine's loop, for the host whose lease it holds: [`Politeness::permit`]
//! before a fetch, [`Politeness::fetched`] after every one, [`Politeness::robots_arrived`] after one
//! of robots.txt, [`Politeness::forget`] when a host has nothing left.
//! **Never:** fetches, sleeps or reads a clock: time is an argument, and "not now" is an answer
//! with an instant in it. There is no switch to ignore robots.txt.
//!
//! # What holds
//!
//! * A URL is let through only after robots.txt of its host was asked for, and only where that
//!   allows it. Where it could not be had, nothing of the host is fetched (RFC 9309 §2.3.1.4).
//! * Two permissions for one host are never nearer than the pause that the fetch before them asked
//!   for. The pause begins when the fetch ends, so a slow server is never asked twice at a time.
//! * Every wait ends: what a server asks for is clamped, and what it fails at is counted. A host
//!   that never recovers is dead after a number of failures that the configuration bounds.
//! * Whatever a robots.txt holds, one question costs a bounded number of steps, and hosts that have
//!   nothing queued are remembered within `politeness.memory`.
//!
//! ```
//! use std::time::Duration;
//! use model::{CanonicalUrl, Time};
//! use politeness::{FetchSummary, Permit, Politeness, PolitenessConfig, RobotsAnswer};
//!
//! let mut politeness = Politeness::new(&PolitenessConfig::default(), "Argiope");
//! let url = CanonicalUrl::parse("http://example.com/private/a")?;
//! let (host, mut now) = (url.host_key(), Time::from_micros(1));
//!
//! assert_eq!(politeness.permit(&url, now), Permit::RobotsFirst);
//! let body = b"User-agent: *\nDisallow: /private/";
//! politeness.robots_arrived(host, RobotsAnswer::Answered { status: 200, body }, now);
//! let answered = FetchSummary::Answered { status: 200, retry_after: None };
//! let after = politeness.fetched(host, Duration::from_millis(10), answered, 1, now);
//!
//! let Permit::Refused(refusal) = politeness.permit(&url, now) else { panic!() };
//! assert_eq!(&*refusal.rule, "robots.txt line 2: Disallow: /private/");
//! let other = CanonicalUrl::parse("http://example.com/")?;
//! assert_eq!(politeness.permit(&other, now), Permit::NotBefore(after.host_until));
//! now = after.host_until;
//! assert_eq!(politeness.permit(&other, now), Permit::Go);
//! # Ok::<(), model::UrlError>(())
//! ```

mod answer;
mod backoff;
mod config;
mod hosts;
mod pace;
mod politeness;
mod robots;

pub use crate::answer::{Aftermath, FetchSummary, Next, Permit, RobotsAnswer, RobotsState};
pub use crate::config::PolitenessConfig;
pub use crate::politeness::Politeness;
