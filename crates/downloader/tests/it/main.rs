//! The downloader against servers on loopback that behave and misbehave.
//!
//! | module | what it holds |
//! |---|---|
//! | `server` | servers that answer every connection by a script |
//! | `answers` | what is kept of an answer, and what was sent for it |
//! | `failures` | fetches without an answer, each of its own kind |
//! | `limits` | bodies cut by size, by time, by the other side |
//! | `addresses` | which addresses are connected to |
//! | `tls` | certificates and HTTP/2 |
//! | `proxy` | everything through a proxy |

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod addresses;
mod answers;
mod failures;
mod limits;
mod proxy;
mod server;
mod tls;
