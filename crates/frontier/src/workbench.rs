//! Who may be asked next: slots by time, hosts within a slot by time.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use model::{HostKey, Time};

/// What shares one lease: all hosts at one address, or one host when addresses are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Slot {
    Address(IpAddr),
    Host(HostKey),
}

#[derive(Debug, Default)]
struct SlotState {
    /// Not before this time, for the address's sake.
    until: Time,
    /// Hosts with something to lease, each with its own time.
    hosts: BTreeSet<(Time, HostKey)>,
    leased: bool,
    /// Under which time the slot stands on the bench.
    benched: Option<Time>,
}

/// Slots ordered by the time at which their next lease may be given: the later of the address's own
/// time and of its first host's.
#[derive(Debug, Default)]
pub(crate) struct Workbench {
    bench: BTreeSet<(Time, Slot)>,
    /// A slot goes when its last host left and its time is over ([`Workbench::sweep`]).
    slots: HashMap<Slot, SlotState>,
}

impl Workbench {
    /// The host may be leased from `time` on.
    pub(crate) fn add(&mut self, slot: Slot, host: HostKey, time: Time) {
        self.slots.entry(slot).or_default().hosts.insert((time, host));
        self.rebench(slot);
    }

    /// The host that stands under this time has nothing to lease any more, or another time.
    pub(crate) fn remove(&mut self, slot: Slot, host: HostKey, time: Time) {
        if let Some(state) = self.slots.get_mut(&slot) {
            state.hosts.remove(&(time, host));
            self.rebench(slot);
        }
    }

    /// Takes the first slot whose time has come off the bench, and the first host out of it.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Slot, HostKey)> {
        let (_, slot) = *self.bench.first().filter(|(time, _)| *time <= now)?;
        let state = self.slots.get_mut(&slot).expect("what is on the bench has a state");
        let (_, host) = state.hosts.pop_first().expect("what is on the bench has a host");
        state.leased = true;
        self.rebench(slot);
        Some((slot, host))
    }

    /// The slot's lease is over; it may be given again from `until` on.
    pub(crate) fn give_back(&mut self, slot: Slot, until: Time) {
        let state = self.slots.entry(slot).or_default();
        state.leased = false;
        state.until = state.until.max(until);
        self.rebench(slot);
    }

    /// When the next lease can be given; `None` when no host has anything.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.bench.first().map(|(time, _)| *time)
    }

    /// Forgets slots without hosts whose time is over.
    pub(crate) fn sweep(&mut self, now: Time) {
        self.slots.retain(|_, state| state.leased || !state.hosts.is_empty() || state.until > now);
    }

    fn rebench(&mut self, slot: Slot) {
        let Some(state) = self.slots.get_mut(&slot) else { return };
        if let Some(time) = state.benched.take() {
            self.bench.remove(&(time, slot));
        }
        if let Some((time, _)) = state.hosts.first().filter(|_| !state.leased) {
            let time = state.until.max(*time);
            state.benched = Some(time);
            self.bench.insert((time, slot));
        }
    }
}
