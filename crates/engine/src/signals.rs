//! Ctrl-C: once saves, twice leaves at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::error::EngineError;

/// The exit code of an interrupted process (128 + SIGINT).
const INTERRUPTED: i32 = 130;

/// Counts interrupts. The second one ends the process where it stands, which loses nothing that was
/// durable: it is a `kill -9` by hand.
pub(crate) struct Signals {
    notify: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Signals {
    /// Listens for SIGINT and, where there is one, SIGTERM.
    pub(crate) fn listen() -> Result<Self, EngineError> {
        let notify = Arc::new(Notify::new());
        let count = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        #[cfg(unix)]
        for kind in [tokio::signal::unix::SignalKind::interrupt(), tokio::signal::unix::SignalKind::terminate()] {
            let mut signal = tokio::signal::unix::signal(kind)
                .map_err(|source| EngineError::System { what: "a signal handler", source })?;
            let (notify, count) = (Arc::clone(&notify), Arc::clone(&count));
            tasks.spawn(async move {
                while signal.recv().await.is_some() {
                    interrupted(&notify, &count);
                }
            });
        }
        #[cfg(not(unix))]
        {
            let (notify, count) = (Arc::clone(&notify), Arc::clone(&count));
            tasks.spawn(async move {
                while tokio::signal::ctrl_c().await.is_ok() {
                    interrupted(&notify, &count);
                }
            });
        }
        Ok(Self { notify, _tasks: tasks })
    }

    /// Waits for the first interrupt.
    pub(crate) async fn next(&self) {
        self.notify.notified().await;
    }
}

#[expect(clippy::exit, reason = "a second Ctrl-C asks for exactly this")]
fn interrupted(notify: &Notify, count: &AtomicU32) {
    if count.fetch_add(1, Ordering::Relaxed) > 0 {
        std::process::exit(INTERRUPTED);
    }
    notify.notify_one();
}
