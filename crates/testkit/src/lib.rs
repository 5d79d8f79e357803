//! The web in a box: a deterministic site graph served on loopback, which knows what a right crawl
//! of it fetches.
//!
//! **For:** judging a whole crawl. The real web cannot say whether a crawler missed a page, asked
//! twice or went where it must not; this one can, and it is the same web in every run.
//! **Principal type:** [`Web`], grown from a [`WebConfig`]'s seed number; a [`Server`] serves it.
//! **Called by:** end-to-end tests, benches and `argiope demo`.
//! **Never:** leaves loopback, stores a page, or reads its own HTML to learn what links where.
//!
//! # How it is made
//!
//! Every property of every page is a hash of the seed number, the host's number and the page's
//! number, so a web of a million pages takes no more memory than the list of its hosts:
//!
//! ```text
//!   WebConfig ──► graph: hosts, kinds, paths, links ──┬──► render, answer ──► Server ──► a crawler
//!                                                     │                         │
//!                                                     └──► oracle: Expectation ─┴──► Judgement
//! ```
//!
//! The two arms meet only in the judgement: the oracle walks the descriptors breadth-first, the
//! crawler sees nothing but bytes. Only integer arithmetic and IEEE 754's four basic operations are
//! used, so the bytes are the same on every platform.
//!
//! # What a right crawl is
//!
//! 1. Each canonical URL ([`model::CanonicalUrl`]) that links or redirects lead to from the seeds is
//!    requested once, whatever its spellings; hosts outside the web are never asked.
//! 2. Each host's robots.txt comes before its pages and is obeyed (RFC 9309, product token
//!    `argiope`).
//! 3. `rel=nofollow` links and the links of `<meta name=robots content=nofollow>` pages are not
//!    followed; nor is what only looks like a link, in comments, scripts, text or other media.
//! 4. A redirect is a fetch of its own; [`MAX_REDIRECTS`] are followed in a row.
//! 5. A 5xx answer is asked for again, up to [`Expectation::retries`] times; a 404 is not.
//!
//! ```
//! use testkit::{Request, Server, ServerOptions, Web, WebConfig};
//!
//! let web = Web::new(WebConfig::small(7));
//! let home = web.answer(&Request::get("www.site-000.test", "/"));
//! assert_eq!(home.status, 200);
//!
//! let server = Server::start(web.clone(), ServerOptions::default())?;
//! // … run a crawler with `server.config_toml()` over `web.seeds()` …
//! let judgement = web.expected().judge(&server.log());
//! assert!(!judgement.is_right(), "nothing was crawled:\n{judgement}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod config;
mod filler;
mod graph;
mod judgement;
mod links;
mod oracle;
mod paths;
mod random;
mod render;
mod robots;
mod server;
mod spelling;
mod web;

pub use crate::answer::{Answer, Request};
pub use crate::config::WebConfig;
pub use crate::judgement::{Judgement, Repeated, WrongStatus};
pub use crate::oracle::{Expectation, MAX_REDIRECTS};
pub use crate::server::{Seen, Server, ServerOptions};
pub use crate::web::Web;
