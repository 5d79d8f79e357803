//! Links and facts from bytes.
//!
//! **For:** turning the body of an answer into a [`model::Page`]: where its links lead, resolved,
//! canonical and hashed, and the few facts a crawl keeps of it.
//! **Principal type:** [`Parser`], one per parse thread.
//! **Called by:** the engine's parse threads, with bodies whose content coding is undone.
//! **Never:** fails, does I/O, decides whether a link may be followed, or remembers a page.
//!
//! # The way of a page
//!
//! ```text
//!  bytes ──► charset ──► pass ──────────► references ─────────► resolve ──► Page
//!            which       one streaming    distinct texts          distinct URLs,
//!            encoding?   run of lol_html                          hashed
//!               │
//!               └──────► fields: a DOM, only when fields are configured
//! ```
//!
//! # What is a link
//!
//! | on the page | reported as |
//! |---|---|
//! | `a href`, `area href` | navigation |
//! | `iframe src`, `frame src` | navigation |
//! | `link href` whose `rel` leads to a page ([`PAGE_RELATIONS`]) | navigation |
//! | the `Link` header (RFC 8288) with such a relation | navigation |
//! | `meta http-equiv=refresh` with a URL | redirect |
//!
//! Elements inside `noscript` count, since this crawler runs no scripts. Nothing inside comments,
//! `script`, `style`, `textarea`, `title`, `iframe` or `template` does. References that lead to
//! the page itself by their text (`#top`, the empty one) are no links.
//!
//! # Bounds
//!
//! The time for links is linear in the page, the memory a small multiple of it; lists that leave
//! the crate are bounded by the configuration or by a constant named beside the code. Only the DOM
//! that configured fields need is super-linear in nesting, and it is given up beyond
//! `parser.max_nesting`.

mod charset;
mod config;
mod fields;
mod headers;
mod media;
mod page;
mod pass;
mod prescan;
mod query;
mod references;
mod refresh;
mod relations;
mod resolve;
mod robots;
mod text;

pub use crate::config::ParserConfig;
pub use crate::media::is_html;
pub use crate::page::{Input, Parser};
pub use crate::relations::PAGE_RELATIONS;
