//! End-to-end tests: the real binary, run as a child, crawls a web that this process serves.
//!
//! Where a new test goes:
//!
//! | module | what is asked of the program |
//! |---|---|
//! | `crawl` | does a whole crawl fetch what it should, once, and as politely as it was told |
//! | `outputs` | do the files of a job say what the servers said: WARC, index, log, export, report |
//! | `why` | is there a reason for every URL, and does it name the rule |
//! | `commands` | what each command prints where, and its exit code |
//! | `stops` | limits and Ctrl-C: stopped, saved, resumed |
//! | `crash` | `kill -9` at random times: nothing lost, nothing stored twice |
//! | `strategies` | every strategy of the URL-seen test: exact, trusted, over two visits, killed and changed |
//! | `healing` | a job whose files were damaged at rest |
//!
//! `harness` serves the web and runs the child; `job_files` reads a job's folder with eyes of its own.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod commands;
mod crash;
mod crawl;
mod harness;
mod healing;
mod job_files;
mod outputs;
mod stops;
mod strategies;
mod why;
