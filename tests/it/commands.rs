//! What each command prints where, and its exit code.

use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::crawl::check_balance;
use crate::harness::{Ended, Site, argiope};
use crate::job_files::{names, report};

/// A wrong command: exit code 2, nothing on standard output, and nothing is touched.
#[track_caller]
fn check_refused(folder: &Path, args: &[&str], words: &[&str]) {
    let before = names(folder);
    let ended = argiope(folder, args).exits(2);
    for word in words {
        assert!(ended.stderr.contains(word), "{word:?} is not in\n{ended}");
    }
    assert_eq!(ended.stdout, "", "{ended}");
    assert_eq!(names(folder), before, "{ended}");
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("my.toml"), "[crawl]\n\nmax_page = 3\n").unwrap();
    std::fs::write(folder.join("bad.toml"), "[politeness]\nmin_delay = \"1m\"\n[url_cache]\ncapacity = 0\n").unwrap();
    let seed = "http://a.example/";
    let unknown_key = "my.toml:3: unknown key `max_page`: did you mean `max_pages`?";
    check_refused(folder, &["crawl", seed, "--config", "my.toml"], &[unknown_key]);
    check_refused(folder, &["config", "check", "my.toml"], &[unknown_key]);
    check_refused(folder, &["config", "check", "bad.toml"], &["politeness.min_delay", "url_cache.capacity"]);
    check_refused(folder, &["crawl", seed, "--config", "bad.toml"], &["politeness.min_delay", "url_cache.capacity"]);
    check_refused(folder, &["crawl", seed, "--config", "none.toml"], &["none.toml"]);
    check_refused(folder, &["crawl", seed, "--set", "crawl.max_pagez=1"], &["did you mean `max_pages`?"]);
    check_refused(folder, &["crawl", seed, "--set", "crawl.max_pages"], &["section.key=value"]);
    check_refused(folder, &["config", "show", "--set", "politeness.retries=many"], &["politeness.retries=many"]);
    check_refused(folder, &["crwal"], &["crwal", "crawl"]);
    check_refused(folder, &["crawl", "--bogus"], &["--bogus"]);
    check_refused(folder, &["crawl"], &["nothing to crawl"]);
    check_refused(folder, &["crawl", "--job", "none"], &["none", "no seeds"]);
    for args in [
        &["status", "--job", "none"][..],
        &["why", seed, "--job", "none"],
        &["export", "--job", "none", "--format", "jsonl"],
    ] {
        check_refused(folder, args, &["there is no job in none"]);
    }
}

#[test]
fn seeds_that_are_no_urls_are_wrong_arguments() {
    let folder = tempfile::tempdir().unwrap();
    for seed in ["http://", "not a url", "http://[::1", "ftp://a.example/", "mailto:a@a.example"] {
        check_refused(folder.path(), &["crawl", seed], &[]);
        check_refused(folder.path(), &["crawl", seed, "--job", "job"], &[seed]);
    }
}

#[test]
fn help_and_version_are_results() {
    let folder = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["--help"][..], &["Exit codes: 0 finished", "crawl", "why", "export"][..]),
        (&["crawl", "--help"], &["--seeds", "--job", "--allow-private"]),
        (&["--version"], &["argiope "]),
    ] {
        let ended = argiope(folder.path(), args).exits(0);
        assert!(words.iter().all(|word| ended.stdout.contains(word)) && ended.stderr.is_empty(), "{ended}");
    }
}

#[test]
fn the_printed_defaults_are_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let defaults = argiope(folder.path(), &["config", "default"]).exits(0);
    std::fs::write(folder.path().join("all.toml"), &defaults.stdout).unwrap();
    let checked = argiope(folder.path(), &["config", "check", "all.toml"]).exits(0);
    assert_eq!((checked.stdout.as_str(), checked.stderr.as_str()), ("all.toml is fine\n", ""));
    let shown = argiope(folder.path(), &["config", "show", "--config", "all.toml"]).exits(0);
    let without_origin = shown.stdout.lines().filter(|line| line.contains("# default")).count();
    assert_eq!(without_origin, 0, "a key of the defaults is not in the printed defaults\n{shown}");
}

#[test]
fn the_effective_configuration_names_its_origins() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.toml"), "[crawl]\nmax_pages = 1\ncontact = \"me@a.example\"\n").unwrap();
    std::fs::write(folder.path().join("two.toml"), "[crawl]\nmax_pages = 2\n").unwrap();
    let args = ["config", "show", "--config", "one.toml", "--config", "two.toml", "--set", "politeness.retries=5"];
    let shown = argiope(folder.path(), &args).exits(0);
    let line = |key: &str| shown.stdout.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    for (key, value, origin) in [
        ("max_pages", "2", "# two.toml"),
        ("contact", "\"me@a.example\"", "# one.toml"),
        ("retries", "5", "# --set"),
        ("max_bytes", "\"0B\"", "# default"),
    ] {
        let line = line(&format!("{key} = "));
        assert!(line.starts_with(&format!("{key} = {value} ")) && line.ends_with(origin), "{line:?}\n{shown}");
    }
}

#[test]
fn a_job_keeps_the_configuration_it_was_started_with() {
    let site = Site::tiny(31);
    site.crawl(&["crawl.max_pages=5", "crawl.contact=me@a.example"]).exits(3);
    let shown = site.argiope(&["config", "show", "--job", "job"]).exits(0);
    for line in ["max_pages = 5 ", "contact = \"me@a.example\" ", "min_delay = \"0s\" "] {
        assert!(shown.stdout.lines().any(|found| found.starts_with(line)), "{line}\n{shown}");
    }
    let agents: std::collections::HashSet<_> = site.server.log().into_iter().map(|seen| seen.user_agent).collect();
    assert_eq!(agents.len(), 1);
    assert!(agents.iter().all(|agent| agent.starts_with("argiope/") && agent.ends_with("(+me@a.example)")));
}

/// Results go to standard output, all else to standard error.
#[test]
fn results_and_remarks_are_kept_apart() {
    let site = Site::tiny(32);
    let ended = site.crawl(&[]).exits(0);
    for word in ["job is finished", "answered", "offered", "URL-seen test", "job/report.json"] {
        assert!(ended.stdout.contains(word), "{word:?} is not in\n{ended}");
    }
    assert!(ended.stderr.contains("Job folder: job") && ended.stderr.contains("No contact is set"), "{ended}");
    assert!(!ended.stdout.contains("Job folder:") && !ended.stdout.contains("No contact"), "{ended}");
    let quiet = site.resume().args(["--quiet"]).exits(0);
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.contains("job is finished"), "{quiet}");
    let logged = site.resume().args(["--verbose", "--verbose", "--log-format", "json"]).exits(0);
    assert!(!logged.stdout.contains('{'), "{logged}");
}

/// Exit code 4, and the reason in the report and in `why`.
fn nothing_fetched(args: &[&str], reported: &str, told: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago, where the system has it at an address that no other test uses.
    let free = TcpListener::bind("127.0.0.77:0").or_else(|_| TcpListener::bind("127.0.0.1:0"));
    let address = free.and_then(|listener| listener.local_addr()).unwrap();
    let seed = format!("http://{address}/");
    let pace = ["--set", "politeness.retry_delay=5ms", "--set", "politeness.min_delay=0s"];
    let ended = argiope(folder.path(), &["crawl", &seed, "--job", "job"]).args(pace).args(args).exits(4);
    assert!(ended.stdout.contains(reported), "{reported:?} is not in\n{ended}");
    let why = argiope(folder.path(), &["why", &seed, "--job", "job"]).exits(0);
    for word in told {
        assert!(why.stdout.contains(word), "{word:?} is not in\n{why}\n{ended}");
    }
}

#[test]
fn a_private_address_must_be_allowed() {
    nothing_fetched(&[], "--allow-private", &["private-address", "--allow-private"]);
}

#[test]
fn a_closed_port_is_said_to_be_one() {
    nothing_fetched(&["--allow-private"], "connect-refused", &["connect-refused"]);
}

#[test]
fn a_job_is_worked_on_by_one_process() {
    let site = Site::tiny(33);
    // It fetches one page, and then waits for an hour.
    let mut running = site.crawl(&["politeness.min_delay=1h", "politeness.max_delay=2h"]).start();
    assert!(running.until(|| site.server.requests() > 0), "it must not end");
    let second = site.resume().exits(1);
    assert!(second.stderr.contains("job") && second.stderr.contains("already running"), "{second}");
    assert_eq!(second.stdout, "");
    // Reading is for everyone.
    assert!(running.until(|| site.job().status().is_file()), "it publishes its figures twice a second");
    let status = site.argiope(&["status", "--job", "job", "--json"]).exits(0);
    assert_eq!(serde_json::from_str::<Value>(&status.stdout).unwrap()["state"], "running", "{status}");
    site.argiope(&["why", &site.web.seeds()[0], "--job", "job"]).exits(0);
    running.interrupt();
    assert_eq!(running.wait().code, Some(130));
}

#[test]
fn the_demo_shows_the_whole_circle() {
    let folder = tempfile::tempdir().unwrap();
    let demo: Ended = argiope(folder.path(), &["demo", "--pages", "300"]).exits(0);
    for word in ["jobs/demo-1 is finished", "a right crawl", "jobs/demo-1/warc", "Next: argiope why http://"] {
        assert!(demo.stdout.contains(word), "{word:?} is not in\n{demo}");
    }
    check_balance(&report(&storage::JobDir::new(folder.path().join("jobs/demo-1"))));
}
