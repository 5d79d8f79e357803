//! Ctrl-C: once saves, twice leaves at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::EngineError;

/// The exit code of an interrupted process (128 + SIGINT).
const INTERRUPTED: i32 = 130;

/// Signals this soon after the first are the first.
const ECHO: Duration = Duration::from_millis(50);

/// Hears interrupts on a thread of its own, so that they are heard while a job is being opened or
/// closed too, when the loop does not turn. The second one ends the process where it stands, which
/// loses nothing that was durable: it is a `kill -9` by hand.
pub(crate) struct Signals {
    interrupted: Arc<Notify>,
    dropped: Arc<Notify>,
}

impl Signals {
    /// Listens for SIGINT and, where there is one, SIGTERM.
    pub(crate) fn listen() -> Result<Self, EngineError> {
        let refused = |source| EngineError::System { what: "a signal handler", source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let signals = Self { interrupted: Arc::new(Notify::new()), dropped: Arc::new(Notify::new()) };
        let (interrupted, dropped) = (Arc::clone(&signals.interrupted), Arc::clone(&signals.dropped));
        let mut source = runtime.block_on(async { Source::new() }).map_err(refused)?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = hear(&mut source, &interrupted) => {}
                        () = dropped.notified() => {}
                    }
                });
            })
            .map_err(refused)?;
        Ok(signals)
    }

    /// Waits for the first interrupt.
    pub(crate) async fn next(&self) {
        self.interrupted.notified().await;
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.dropped.notify_one();
    }
}

#[expect(clippy::exit, reason = "a second Ctrl-C asks for exactly this")]
async fn hear(source: &mut Source, interrupted: &Notify) {
    source.next().await;
    interrupted.notify_one();
    // A terminal and a wrapper may both hand on the same Ctrl-C.
    tokio::time::sleep(ECHO).await;
    while tokio::time::timeout(Duration::ZERO, source.next()).await.is_ok() {}
    source.next().await;
    std::process::exit(INTERRUPTED);
}

#[cfg(unix)]
struct Source {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Source {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    #[expect(clippy::unnecessary_wraps, reason = "on Unix there is something that can fail")]
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without a handler there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
