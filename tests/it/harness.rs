//! A web served by this process, and the real binary as a child.
//!
//! Every wait has a time limit, after which the child is killed and the test says what it last printed.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use storage::JobDir;
use tempfile::TempDir;
use testkit::{Judgement, Seen, Server, ServerOptions, Web, WebConfig};

/// Far beyond what any command here takes, also in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// How often a condition outside the child is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// How often a URL is tried again, by the pace below.
pub(crate) const RETRIES: u32 = 3;

/// No pause that a server on loopback does not need.
const PACE: &str = r#"
[politeness]
delay_factor = 0.0
min_delay = "0s"
retry_delay = "20ms"
max_retry_delay = "100ms"
max_retry_after = "100ms"
retries = 3
"#;

/// A web, served, and a folder for jobs.
pub(crate) struct Site {
    pub(crate) web: Web,
    pub(crate) server: Server,
    folder: TempDir,
}

impl Site {
    /// Serves a web from three addresses, so that hosts share them.
    pub(crate) fn new(config: WebConfig) -> Self {
        let web = Web::new(config);
        let options = ServerOptions { addresses: 3, ..ServerOptions::default() };
        let server = Server::start(web.clone(), options).expect("loopback can be served from");
        let folder = tempfile::tempdir().expect("there is room for a job");
        fs::write(folder.path().join("site.toml"), server.config_toml() + PACE).expect("it can be written");
        Self { web, server, folder }
    }

    /// The small web of that seed number.
    pub(crate) fn small(seed: u64) -> Self {
        Self::new(WebConfig::small(seed))
    }

    /// A web that a debug build crawls in half a second.
    pub(crate) fn tiny(seed: u64) -> Self {
        Self::new(WebConfig { hosts: 6, pages: 200, ..WebConfig::small(seed) })
    }

    /// A path in the test's own folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The job that [`Site::crawl`] starts.
    pub(crate) fn job(&self) -> JobDir {
        JobDir::new(self.path("job"))
    }

    /// The binary, run in the test's own folder.
    pub(crate) fn argiope(&self, args: &[&str]) -> Run {
        argiope(self.folder.path(), args)
    }

    /// `crawl` from the web's seeds, with `--set` for each assignment.
    pub(crate) fn crawl(&self, settings: &[&str]) -> Run {
        let seeds = self.web.seeds();
        self.argiope(&["crawl", "--job", "job", "--config", "site.toml"]).set(settings).args(&seeds)
    }

    /// `crawl` of the job there is, as a person resumes it.
    pub(crate) fn resume(&self) -> Run {
        self.argiope(&["crawl", "--job", "job"])
    }

    /// The log of the server against what it should be.
    pub(crate) fn judge(&self, log: &[Seen]) -> Judgement {
        let mut expectation = self.web.expected();
        expectation.retries = RETRIES;
        expectation.judge(log)
    }
}

/// The binary in some folder.
pub(crate) fn argiope(folder: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argiope"));
    command.current_dir(folder).args(args).env_remove("ARGIOPE_LOG").env_remove("NO_COLOR");
    Run { command }
}

/// A command to be run.
pub(crate) struct Run {
    command: Command,
}

impl Run {
    /// Adds arguments.
    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Adds `--set` for each assignment.
    pub(crate) fn set(self, assignments: &[&str]) -> Self {
        self.args(assignments.iter().flat_map(|assignment| ["--set", assignment]))
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Running {
        let what = format!("{:?}", self.command);
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary can be started");
        let (open, closed) = sync_channel(0);
        let stdout = gather(child.stdout.take().expect("it is piped"), open.clone());
        let stderr = gather(child.stderr.take().expect("it is piped"), open);
        Running { child, what, started: Instant::now(), closed, stdout, stderr }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().wait()
    }

    /// Runs it to its end, which must have this exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Ended {
        let ended = self.run();
        assert_eq!(ended.code, Some(code), "{ended}");
        ended
    }
}

type Printed = Arc<Mutex<Vec<u8>>>;

/// Reads a stream to its end on a thread of its own, which drops `open` then.
fn gather(mut stream: impl Read + Send + 'static, open: SyncSender<()>) -> Printed {
    let printed = Printed::default();
    let gathered = Arc::clone(&printed);
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            gathered.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..count]);
        }
        drop(open);
    });
    printed
}

/// A child under way. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    what: String,
    started: Instant,
    /// Disconnected once both of the child's streams are closed: nothing is ever sent.
    closed: Receiver<()>,
    stdout: Printed,
    stderr: Printed,
}

impl Running {
    /// Whether it ends by itself within this time.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        matches!(self.closed.recv_timeout(time), Err(RecvTimeoutError::Disconnected))
    }

    /// Waits until something is true, or the child ends; says which.
    pub(crate) fn until(&mut self, condition: impl Fn() -> bool) -> bool {
        while !condition() {
            if self.ends_within(GLANCE) {
                return false;
            }
            self.check_limit();
        }
        true
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        while !self.ends_within(LIMIT.saturating_sub(self.started.elapsed())) {
            self.check_limit();
        }
        self.end()
    }

    /// Ends it where it stands, as `kill -9` does.
    pub(crate) fn kill(mut self) -> Ended {
        let _ = self.child.kill();
        self.wait()
    }

    /// Sends it an interrupt, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "no signal could be sent to {}", self.what);
    }

    fn check_limit(&mut self) {
        if self.started.elapsed() >= LIMIT {
            let _ = self.child.kill();
            let ended = self.end();
            panic!("killed after {} s:\n{ended}", LIMIT.as_secs());
        }
    }

    fn end(&mut self) -> Ended {
        let status = self.child.wait().expect("a child can be waited for");
        Ended {
            what: self.what.clone(),
            code: status.code(),
            status,
            took: self.started.elapsed(),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(printed: &Printed) -> String {
    String::from_utf8_lossy(&printed.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    what: String,
    /// `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    status: ExitStatus,
    pub(crate) took: Duration,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The lines of the report that say what was healed.
    pub(crate) fn healed(&self) -> Vec<&str> {
        self.stdout.lines().filter_map(|line| line.strip_prefix("Healed: ")).collect()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}\n{} after {:.1?}", self.what, self.status, self.took)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            let lines: Vec<&str> = text.lines().collect();
            let shown = &lines[lines.len().saturating_sub(40)..];
            writeln!(f, "--- {name}, the last {} of {} lines\n{}", shown.len(), lines.len(), shown.join("\n"))?;
        }
        Ok(())
    }
}
