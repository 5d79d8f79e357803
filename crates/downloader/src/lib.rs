//! Bytes from the network: one request in, one outcome out.
//!
//! **For:** everything between a URL whose turn has come and the bytes that answer it: looking the
//! name up, refusing addresses a public crawl has no business with, connecting, TLS, HTTP/1.1 and
//! HTTP/2, and limits on time and size that no server can talk its way around.
//! **Principal type:** [`Downloader`], cheap to clone and shared by every fetch.
//! **Called by:** the engine: [`Downloader::resolve`] before a host gets its place in the queue,
//! [`Downloader::fetch`] once a lease is given, [`decode_body`] on the parse threads.
//! **Never:** tries again, follows a redirect, keeps a cookie, waits for politeness, or looks into a
//! body. The web being wrong is not an error here but a [`model::FetchOutcome`].
//!
//! # What a fetch promises
//!
//! - It ends by itself. Before the answer's head: within `connect_timeout` plus
//!   `first_byte_timeout`. After it: within `idle_timeout` of the last piece of the body, and in any
//!   case within `total_timeout` of its start.
//! - It keeps at most `max_body` bytes. A body cut short, by size, time or the other side, is kept
//!   with the reason beside it; only a fetch without a whole head is a failure.
//! - No connection is opened to an address that is not public, unless the configuration allows it.
//!   Literal addresses are checked before the request, names after they are looked up and for the
//!   very connection that is about to be made, so a name that changes its mind is caught.
//! - What [`model::Exchange::request`] says was sent is what was sent.
//!
//! # The way of a request, and of this crate
//!
//! ```text
//!  FetchRequest ─► request ─► address ─► resolve (name_cache) ─► connecting ─► the server
//!                                                                                  │
//!    decode_body ◄── Exchange ◄── fetch (deadline, failure) ◄──────────────────────┘
//! ```

mod address;
mod config;
mod connecting;
mod deadline;
mod decode;
mod downloader;
mod error;
mod failure;
mod fetch;
mod name_cache;
mod request;
mod resolve;
mod tls;

pub use crate::config::DownloaderConfig;
pub use crate::decode::{Decoded, decode_body};
pub use crate::downloader::Downloader;
pub use crate::error::DownloaderError;
pub use crate::fetch::FetchRequest;
