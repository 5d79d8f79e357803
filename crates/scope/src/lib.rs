//! Admit or refuse a URL before anything is spent on it.
//!
//! **For:** deciding from the text of a URL alone, and from the number of links between it and a
//! seed, whether it belongs to this crawl. A refusal names the line of the configuration that made it.
//! **Principal type:** [`Scope`], built once from a [`ScopeConfig`] and the seeds.
//! **Called by:** the engine's intake and its parse threads, which share one `Scope` by `Arc`:
//! [`Scope::judge`] takes `&self`, holds no lock and allocates only to word a refusal.
//! **Never:** looks anything up, remembers what it was asked, or knows what has been fetched.
//!
//! # The order of the rules
//!
//! The first of these that objects gives the [`Reason`](model::Reason); the cheap ones stand before
//! the dear ones, and what forbids stands before what permits:
//!
//! 1. `scope.max_url_length`
//! 2. `scope.max_depth`
//! 3. `scope.deny_hosts`
//! 4. `scope.exclude`
//! 5. `scope.kind`, unless `scope.allow_hosts` names the host
//! 6. `scope.include`
//!
//! A seed passes rules 5 and 6, for whoever gave it wants it. Rules 1, 3 and 4 hold for seeds too.
//!
//! ```
//! use model::{CanonicalUrl, Reason};
//! use scope::{Scope, ScopeConfig};
//!
//! let config = ScopeConfig { exclude: vec![r"\.pdf$".into()], ..ScopeConfig::default() };
//! let scope = Scope::new(&config, &[CanonicalUrl::parse("http://example.com/")?])?;
//!
//! assert!(scope.judge(&CanonicalUrl::parse("https://example.com/a.html")?, 1).is_ok());
//! let refusal = scope.judge(&CanonicalUrl::parse("http://example.com/a.pdf")?, 1).unwrap_err();
//! assert_eq!(refusal.reason, Reason::Excluded);
//! assert_eq!(&*refusal.rule, r#"scope.exclude[0] = "\.pdf$""#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod area;
mod config;
mod hosts;
mod judge;
mod patterns;

pub use crate::config::{Kind, ScopeConfig};
pub use crate::judge::Scope;
