//! What is remembered of each host, and when it is forgotten.

use std::collections::{HashMap, VecDeque};

use model::{HostKey, Refusal, Time};

use crate::pace::Pace;
use crate::robots::{Robots, Rules};

/// One host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) robots: Robots,
    pub(crate) pace: Pace,
    /// Fetches in a row that failed in a way that tells against the host.
    pub(crate) failures: u32,
    pub(crate) dead: Option<Dead>,
    /// Bytes it was last counted with.
    weight: usize,
    /// It has nothing queued, and may be forgotten.
    idle: bool,
    /// It stands in the line.
    in_line: bool,
}

/// A host that was given up.
#[derive(Debug)]
pub(crate) struct Dead {
    /// When it is tried again.
    pub(crate) until: Time,
    /// The answer to all its URLs: what killed it.
    pub(crate) refusal: Refusal,
}

/// All hosts known. One leaves when it is idle and memory is full, the one that was idle first
/// before the others: a host that is soon found again should still have its robots.txt and its pace.
#[derive(Debug)]
pub(crate) struct Hosts {
    known: HashMap<HostKey, Host>,
    /// Hosts that are idle, or were and have woken since, each once.
    line: VecDeque<HostKey>,
    /// Bytes of all hosts together.
    weight: usize,
    max_weight: usize,
}

impl Hosts {
    /// No hosts yet; those that are idle may take `max_weight` bytes together with those that are not.
    pub(crate) fn new(max_weight: usize) -> Self {
        Self { known: HashMap::new(), line: VecDeque::new(), weight: 0, max_weight }
    }

    /// The host, as one that has something queued; unknown before, it is new.
    pub(crate) fn wake(&mut self, key: HostKey) -> &mut Host {
        let host = self.known.entry(key).or_insert_with(|| {
            let host = Host { weight: BASE_WEIGHT, ..Host::default() };
            self.weight += host.weight;
            host
        });
        host.idle = false;
        host
    }

    /// The host, if it is remembered.
    pub(crate) fn get(&self, key: HostKey) -> Option<&Host> {
        self.known.get(&key)
    }

    /// Counts a host anew whose rules changed.
    pub(crate) fn weigh(&mut self, key: HostKey) {
        if let Some(host) = self.known.get_mut(&key) {
            let weight = BASE_WEIGHT + host.robots.rules().map_or(0, Rules::heap_bytes);
            self.weight = self.weight - host.weight + weight;
            host.weight = weight;
        }
    }

    /// The host has nothing queued. While memory is full, idle hosts leave.
    pub(crate) fn retire(&mut self, key: HostKey) {
        if let Some(host) = self.known.get_mut(&key) {
            host.idle = true;
            if !host.in_line {
                host.in_line = true;
                self.line.push_back(key);
            }
        }
        while self.weight > self.max_weight {
            let Some(first) = self.line.pop_front() else { break };
            let Some(host) = self.known.get_mut(&first) else { continue };
            host.in_line = false;
            if host.idle {
                self.weight -= host.weight;
                self.known.remove(&first);
            }
        }
    }
}

/// What a host takes in the map and in the line, without its rules; the map is half empty at worst.
const BASE_WEIGHT: usize = 2 * size_of::<(HostKey, Host)>() + size_of::<HostKey>();

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: usize) -> HostKey {
        HostKey::of_origin(&name.to_string())
    }

    fn remembered(hosts: &Hosts) -> Vec<usize> {
        (0..10).filter(|&name| hosts.get(key(name)).is_some()).collect()
    }

    #[test]
    fn idle_hosts_leave_when_memory_is_full() {
        let mut hosts = Hosts::new(3 * BASE_WEIGHT);
        for name in 0..6 {
            hosts.wake(key(name));
        }
        assert_eq!(remembered(&hosts), [0, 1, 2, 3, 4, 5], "hosts with something queued stay");
        hosts.retire(key(4));
        hosts.retire(key(1));
        assert_eq!(remembered(&hosts), [0, 2, 3, 5]);
        hosts.retire(key(0));
        assert_eq!(remembered(&hosts), [2, 3, 5]);
        hosts.retire(key(2));
        assert_eq!(remembered(&hosts), [2, 3, 5], "there is room for it");
        hosts.wake(key(2));
        hosts.wake(key(6));
        hosts.retire(key(3));
        assert_eq!(remembered(&hosts), [2, 5, 6], "one that has woken stays");
        assert!(hosts.line.is_empty());
    }

    #[test]
    fn a_host_stands_in_line_once() {
        let mut hosts = Hosts::new(usize::MAX);
        for _ in 0..100 {
            hosts.wake(key(0));
            hosts.retire(key(0));
        }
        hosts.retire(key(1));
        assert_eq!(hosts.line.len(), 1);
        assert_eq!(hosts.weight, BASE_WEIGHT);
    }

    #[test]
    fn rules_count() {
        let mut hosts = Hosts::new(2 * BASE_WEIGHT);
        let rules = crate::robots::Rules::parse(b"User-agent: *\nDisallow: /a", "Argiope");
        let bytes = rules.heap_bytes();
        hosts.wake(key(0)).robots.arrived(rules, Time::ZERO);
        hosts.weigh(key(0));
        assert_eq!(hosts.weight, BASE_WEIGHT + bytes);
        hosts.wake(key(1));
        hosts.retire(key(0));
        assert_eq!(remembered(&hosts), [1]);
        assert_eq!(hosts.weight, BASE_WEIGHT);
    }
}
