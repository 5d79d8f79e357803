//! What to fetch next, and not before when.
//!
//! **For:** keeping every queued URL, host by host, and leasing the next one when its host's and
//! its address's time has come.
//! **Principal type:** [`Frontier`], a state machine; time comes in as an argument.
//! **Called by:** the engine's loop, and by nothing else.
//! **Never:** sleeps, reads a clock, does I/O. What does not fit in memory stays in the queue table,
//! and the frontier asks for it back ([`Frontier::next_refill`]).
//!
//! # How it is built (after BUbiNG's workbench)
//!
//! ```text
//!  admit ─► host queue ──────────► slot of its address ─────────► workbench ─► lease
//!           head in memory          hosts at one IP address,       slots by the time
//!           tail in the table       by the time each may be asked   the next lease may be given
//! ```
//!
//! The invariants:
//! 1. A host is in its slot if and only if it has something to lease and is not leased.
//! 2. A slot is on the workbench if and only if it has a host and is not leased.
//! 3. Leasing takes the slot off the workbench; only [`Frontier::release`] puts it back.
//!
//! From these follows the guarantee: at most one lease per host and one per address, none before
//! the host's and the address's time.

mod config;
mod frontier;
mod host_queue;
mod workbench;

pub use crate::config::{FrontierConfig, Order};
pub use crate::frontier::{Counts, Fate, Frontier, FrontierError, Lease, Refill, Restored, Unresolved};
