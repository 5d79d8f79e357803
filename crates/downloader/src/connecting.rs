//! When a fetch got its connection.
//!
//! reqwest tells the time of the whole way to an answer, connecting included. A server's time to
//! answer starts when it is connected, so a layer around reqwest's connector notes that moment. The
//! connector is called while the request that needs it is being polled (hyper-util starts it from
//! the checkout of its pool), so a task-local value tells it whose moment it is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower_service::Service;

tokio::task_local! {
    static CURRENT: Arc<Connecting>;
}

/// How far the connection of one fetch is.
#[derive(Debug)]
pub(crate) struct Connecting {
    started: Instant,
    /// [`NOT_NEEDED`], [`UNDER_WAY`], or microseconds from the start to the connection.
    moment: AtomicU64,
}

const NOT_NEEDED: u64 = u64::MAX;
const UNDER_WAY: u64 = u64::MAX - 1;

impl Connecting {
    pub(crate) fn new(started: Instant) -> Arc<Self> {
        Arc::new(Self { started, moment: AtomicU64::new(NOT_NEEDED) })
    }

    /// Runs the request, so that a connection made for it is noted here.
    pub(crate) async fn watch<F: Future>(self: &Arc<Self>, request: F) -> F::Output {
        CURRENT.scope(Arc::clone(self), request).await
    }

    /// When the server's time to answer began: at the start for a connection that was there before,
    /// else when it was made; while it is being made, the latest moment that can be.
    pub(crate) fn answer_awaited_since(&self, connect_timeout: Duration) -> Instant {
        self.started
            + match self.moment.load(Ordering::Relaxed) {
                NOT_NEEDED => Duration::ZERO,
                UNDER_WAY => connect_timeout,
                micros => Duration::from_micros(micros),
            }
    }

    fn begin(&self) {
        self.moment.store(UNDER_WAY, Ordering::Relaxed);
    }

    fn end(&self) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.moment.store(micros.min(UNDER_WAY - 1), Ordering::Relaxed);
    }
}

/// Wraps a connector; to be given to `tower_layer::layer_fn`.
#[derive(Debug, Clone)]
pub(crate) struct WatchedConnector<S>(pub(crate) S);

impl<S, Target> Service<Target> for WatchedConnector<S>
where
    S: Service<Target>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let connecting = CURRENT.try_with(Arc::clone).ok();
        if let Some(connecting) = &connecting {
            connecting.begin();
        }
        let connection = self.0.call(target);
        Box::pin(async move {
            let connection = connection.await;
            if let Some(connecting) = connecting {
                connecting.end();
            }
            connection
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[derive(Clone)]
    struct SlowConnector;

    impl Service<()> for SlowConnector {
        type Response = ();
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<(), Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            Box::pin(async {
                tokio::time::sleep(3 * SECOND).await;
                Ok(())
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_moment_is_noted() {
        let start = Instant::now();
        let connecting = Connecting::new(start);
        let since = || connecting.answer_awaited_since(10 * SECOND) - start;
        assert_eq!(since(), Duration::ZERO);
        let request = async {
            let connection = WatchedConnector(SlowConnector).call(());
            assert_eq!(since(), 10 * SECOND);
            connection.await
        };
        assert_eq!(connecting.watch(request).await, Ok(()));
        assert_eq!(since(), 3 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_nobody_watches_is_made_all_the_same() {
        assert_eq!(WatchedConnector(SlowConnector).call(()).await, Ok(()));
    }
}
