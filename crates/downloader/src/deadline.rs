//! Limits on time, with one timer per fetch.

use std::pin::{Pin, pin};

use tokio::time::{Instant, Sleep};

/// Runs `work` to its end, or to `limit`: then `None`.
///
/// The limit may move while the work goes on, so it is asked for again when the timer fires; the
/// timer itself is only touched when it would fire too late. A body that comes in a thousand pieces
/// thus costs a thousand comparisons, not a thousand changes to the runtime's timers.
pub(crate) async fn within<T>(
    mut timer: Pin<&mut Sleep>,
    limit: impl Fn() -> Instant,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    let first = limit();
    if first < timer.deadline() {
        timer.as_mut().reset(first);
    }
    loop {
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = timer.as_mut() => {
                let limit = limit();
                if limit <= Instant::now() {
                    return None;
                }
                timer.as_mut().reset(limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::{sleep, sleep_until};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_nearer_end_wins() {
        let start = Instant::now();
        let mut timer = pin!(sleep_until(start + 60 * SECOND));
        let done = within(timer.as_mut(), || start + 3 * SECOND, sleep(SECOND)).await;
        assert_eq!((done, start.elapsed()), (Some(()), SECOND));
        // Armed for second 60, and still in time for an earlier limit.
        let done = within(timer.as_mut(), || start + 3 * SECOND, pending::<()>()).await;
        assert_eq!((done, start.elapsed()), (None, 3 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_may_move_away() {
        let start = Instant::now();
        let limit = Cell::new(start + SECOND);
        let work = async {
            sleep(SECOND / 2).await;
            limit.set(start + 5 * SECOND);
            pending::<()>().await;
        };
        let timer = pin!(sleep_until(start + SECOND));
        assert_eq!(within(timer, || limit.get(), work).await, None);
        assert_eq!(start.elapsed(), 5 * SECOND);
    }
}
