//! The questions and the answers.

use std::time::Duration;

use model::{CanonicalUrl, FailureKind, HostKey, Reason, Refusal, Time};

use crate::backoff::{self, Row};
use crate::hosts::{Dead, Hosts};
use crate::robots::{Consulted, Rules};
use crate::{Aftermath, FetchSummary, Next, Permit, PolitenessConfig, RobotsAnswer, RobotsState};

/// How long a dead host is left alone; as long as one whose robots.txt could not be had.
const DEAD_FOR: Duration = Duration::from_hours(24);

/// What is owed to every host. One owner holds it and asks for one leased host at a time.
#[derive(Debug)]
pub struct Politeness {
    config: PolitenessConfig,
    user_agent_product: Box<str>,
    /// Grows with the hosts that have something queued, and by the others within `politeness.memory`:
    /// [`Politeness::forget`] is what lets a host go.
    hosts: Hosts,
}

impl Politeness {
    /// No host is known yet. Groups of robots.txt that name the product token at the beginning of
    /// `user_agent_product` (`Argiope` of `Argiope/0.1 (+https://…)`) are the ones that count.
    pub fn new(config: &PolitenessConfig, user_agent_product: &str) -> Self {
        let memory = usize::try_from(config.memory.0).unwrap_or(usize::MAX);
        Self { config: config.clone(), user_agent_product: user_agent_product.into(), hosts: Hosts::new(memory) }
    }

    /// Whether a URL, whose host the caller has leased, may be fetched now.
    ///
    /// A refusal needs no pause and spends none. [`Permit::Go`] and [`Permit::RobotsFirst`] are to
    /// be followed by a fetch and by [`Politeness::fetched`]: asked again without, the host's last
    /// pause begins anew.
    pub fn permit(&mut self, url: &CanonicalUrl, now: Time) -> Permit {
        let host = self.hosts.wake(url.host_key());
        if let Some(dead) = &host.dead {
            if now < dead.until {
                return Permit::Refused(dead.refusal.clone());
            }
            host.dead = None;
            host.failures = 0;
        }
        let permit = match host.robots.consult(now) {
            Consulted::AskFirst => Permit::RobotsFirst,
            Consulted::Wait(until) => return Permit::NotBefore(until),
            Consulted::Unreachable(rule) => {
                return Permit::Refused(Refusal { reason: Reason::RobotsUnreachable, rule: rule.clone() });
            }
            Consulted::Rules(rules) => match rules.refusal(url.path_and_query()) {
                Some(rule) => {
                    return Permit::Refused(Refusal { reason: Reason::RobotsDisallowed, rule: rule.into() });
                }
                None => Permit::Go,
            },
        };
        host.pace.ask(now).map_or_else(Permit::NotBefore, |()| permit)
    }

    /// Takes in how a fetch of robots.txt ended (RFC 9309 §2.3.1): an answer of 2xx has rules, one
    /// of 3xx or 4xx says that there are none, and 429, 5xx or no answer mean that nothing of the
    /// host may be fetched for now. Its Crawl-delay holds from now on.
    pub fn robots_arrived(&mut self, host: HostKey, answer: RobotsAnswer<'_>, now: Time) -> RobotsState {
        let (rules, state) = match answer {
            RobotsAnswer::Answered { status: 200..300, body } => {
                let rules = Rules::parse(body, &self.user_agent_product);
                let state = RobotsState::Rules { rules: rules.len(), crawl_delay: rules.crawl_delay() };
                (rules, state)
            }
            RobotsAnswer::Answered { status: 300..=428 | 430..500, .. } => (Rules::default(), RobotsState::AllowedAll),
            RobotsAnswer::Answered { status, .. } => return self.robots_failed(host, &status_text(status), now),
            RobotsAnswer::Failed(kind) => return self.robots_failed(host, kind.as_str(), now),
        };
        let known = self.hosts.wake(host);
        if let Some(crawl_delay) = rules.crawl_delay() {
            // The fetch of robots.txt itself may have been reported before its answer was read.
            let crawl_delay = crawl_delay.min(self.config.max_crawl_delay.0);
            known.pace.pause_at_least(crawl_delay, now);
        }
        known.robots.arrived(rules, now);
        self.hosts.weigh(host);
        state
    }

    /// Takes in that a fetch ended now after `fetch_time`, of a page or of robots.txt, for the
    /// `attempts`-th time of that URL.
    pub fn fetched(
        &mut self,
        host: HostKey,
        fetch_time: Duration,
        summary: FetchSummary<'_>,
        attempts: u8,
        now: Time,
    ) -> Aftermath {
        let config = &self.config;
        let attempts = u32::from(attempts);
        let delay = ordinary_delay(config, fetch_time);
        let address_until = now + if config.per_ip { delay } else { Duration::ZERO };
        let host = self.hosts.wake(host);
        let row = Row::of(summary);
        match row {
            None => host.failures = 0,
            Some(row) if row.tells_against_host() => host.failures = host.failures.saturating_add(1),
            Some(_) => {}
        }
        let crawl_delay = host.robots.rules().and_then(Rules::crawl_delay).unwrap_or_default();
        let mut pause = delay.max(crawl_delay.min(config.max_crawl_delay.0));
        if row.is_some_and(|row| row.host_waits) {
            let asked = match summary {
                FetchSummary::Answered { retry_after: Some(text), .. } => backoff::retry_after(config, text, now),
                _ => None,
            };
            pause = pause.max(asked.unwrap_or_else(|| backoff::wait(config, host.failures)));
        }
        let host_until = host.pace.pause(pause, now);
        let next = match row {
            None => Next::Done,
            Some(row) if row.kills(config, host.failures) => {
                host.dead = Some(Dead { until: now + DEAD_FOR, refusal: death(summary, host.failures) });
                // Its URLs are refused without a request: there is nothing to wait for.
                return Aftermath { host_until: now, address_until, next: Next::HostDead };
            }
            Some(row) if row.gives_up(config, attempts) => Next::GiveUp,
            Some(row) if row.host_waits => Next::Retry { not_before: host_until },
            Some(_) => Next::Retry { not_before: now + backoff::wait(config, attempts) },
        };
        Aftermath { host_until, address_until, next }
    }

    /// The sitemaps that the host's robots.txt names, as they stand there.
    pub fn sitemaps(&self, host: HostKey) -> impl Iterator<Item = &str> {
        self.hosts.get(host).and_then(|host| host.robots.rules()).into_iter().flat_map(Rules::sitemaps)
    }

    /// The host has nothing queued any more. It is remembered while there is room, so that one that
    /// is found again keeps its pace and need not be asked for its robots.txt.
    pub fn forget(&mut self, host: HostKey) {
        self.hosts.retire(host);
    }

    fn robots_failed(&mut self, host: HostKey, trouble: &str, now: Time) -> RobotsState {
        let config = &self.config;
        let robots = &mut self.hosts.wake(host).robots;
        robots.failed(trouble, config.retries, |failures| backoff::wait(config, failures), now);
        let until = robots.ask_again();
        let state = match robots.consult(now) {
            Consulted::Rules(_) => RobotsState::Stale { until },
            Consulted::Unreachable(_) => RobotsState::Unreachable { until },
            Consulted::Wait(_) | Consulted::AskFirst => RobotsState::Waiting { until },
        };
        self.hosts.weigh(host);
        state
    }
}

/// The pause after a fetch that took so long, whatever its outcome.
fn ordinary_delay(config: &PolitenessConfig, fetch_time: Duration) -> Duration {
    let scaled = Duration::try_from_secs_f64(fetch_time.as_secs_f64() * config.delay_factor).unwrap_or(Duration::MAX);
    // Not `clamp`: that panics where the bounds cross, which `PolitenessConfig::check` is there to find.
    scaled.max(config.min_delay.0).min(config.max_delay.0)
}

/// What killed a host, and what to do about it where a person can do something.
fn death(summary: FetchSummary<'_>, failures: u32) -> Refusal {
    let trouble = match summary {
        FetchSummary::Failed(FailureKind::PrivateAddress) => {
            let rule = "downloader.allow_private_addresses = false; --allow-private would allow it".into();
            return Refusal { reason: Reason::PrivateAddress, rule };
        }
        FetchSummary::Answered { status, .. } => status_text(status),
        FetchSummary::Failed(kind) => kind.as_str().to_owned(),
    };
    let rule = match failures {
        1 => format!("{trouble} at this host"),
        failures => format!("{trouble}, {failures} times in a row at this host"),
    };
    Refusal { reason: Reason::HostDead, rule: rule.into() }
}

fn status_text(status: u16) -> String {
    format!("status {status}")
}

#[cfg(test)]
mod tests;
