//! Answers kept by name: for a while, in bounded memory, and asked for once.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

/// A cache of `name → value` for values that take a while to get.
///
/// - A value is given out until its time is over, never after.
/// - However many ask for the same name at once, one of them fetches; the others wait for it. If
///   that one is cancelled, the next takes over.
/// - It never holds more than its capacity. Names are kept in two generations: a name that is asked
///   for moves to the young one; when that is full it becomes the old one, and what was old is
///   forgotten. That is near to forgetting the least recently asked for, at the cost of one look-up.
pub(crate) struct NameCache<V> {
    generation_size: usize,
    generations: Mutex<Generations<V>>,
}

struct Generations<V> {
    young: HashMap<Box<str>, Entry<V>>,
    old: HashMap<Box<str>, Entry<V>>,
}

/// Empty while the value is being fetched; then the value and when its time is over.
type Entry<V> = Arc<OnceCell<(V, Instant)>>;

impl<V: Clone> NameCache<V> {
    /// A cache of at most `capacity` names, and at least two.
    pub(crate) fn new(capacity: usize) -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Self { generation_size: (capacity / 2).max(1), generations: Mutex::new(generations) }
    }

    /// The value of `name`: the one kept, or else what `fetch` gives, with how long it holds.
    pub(crate) async fn get<F>(&self, name: &str, fetch: impl FnOnce() -> F) -> V
    where
        F: Future<Output = (V, Duration)>,
    {
        let entry = self.entry(name);
        let fetched = async {
            let (value, span) = fetch().await;
            (value, Instant::now() + span)
        };
        entry.get_or_init(|| fetched).await.0.clone()
    }

    /// The entry of `name`, fresh if there is none or its time is over.
    fn entry(&self, name: &str) -> Entry<V> {
        // Nothing that panics runs under the lock.
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let Generations { young, old } = &mut *generations;
        let now = Instant::now();
        let holds = |entry: &Entry<V>| entry.get().is_none_or(|(_, until)| now < *until);
        if let Some(entry) = young.get_mut(name) {
            if !holds(entry) {
                *entry = Entry::default();
            }
            return Arc::clone(entry);
        }
        let entry = old.remove(name).filter(holds).unwrap_or_default();
        if young.len() >= self.generation_size {
            *old = mem::take(young);
        }
        young.insert(name.into(), Arc::clone(&entry));
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn len<V>(cache: &NameCache<V>) -> usize {
        let generations = cache.generations.lock().unwrap();
        generations.young.len() + generations.old.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_holds_for_its_time() {
        let cache = NameCache::new(8);
        let fetches = AtomicUsize::new(0);
        let get = || cache.get("a", || async { (fetches.fetch_add(1, Ordering::Relaxed), MINUTE) });
        assert_eq!(get().await, 0);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(get().await, 0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(get().await, 1);
    }

    #[tokio::test]
    async fn who_asks_at_the_same_time_waits_for_one_fetch() {
        let (cache, fetches) = (Arc::new(NameCache::new(8)), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Semaphore::new(0));
        let mut asking = JoinSet::new();
        for _ in 0..50 {
            let (cache, fetches, gate) = (Arc::clone(&cache), Arc::clone(&fetches), Arc::clone(&gate));
            asking.spawn(async move {
                let fetch = || async {
                    let _open = gate.acquire().await;
                    (fetches.fetch_add(1, Ordering::Relaxed), MINUTE)
                };
                cache.get("a", fetch).await
            });
        }
        tokio::task::yield_now().await;
        gate.add_permits(1);
        assert_eq!(asking.join_all().await, [0; 50]);
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_cancelled_fetch_is_taken_over() {
        let cache = NameCache::new(8);
        {
            let forever = std::pin::pin!(cache.get("a", std::future::pending));
            assert!(futures_poll_once(forever).await.is_none());
        }
        assert_eq!(cache.get("a", || async { (7, MINUTE) }).await, 7);
    }

    async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        std::future::poll_fn(|context| match std::pin::Pin::new(&mut future).poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn names_in_use_outlive_names_that_are_not() {
        let cache = NameCache::new(8);
        let fetches = AtomicUsize::new(0);
        let get = |name: String| {
            let fetches = &fetches;
            let cache = &cache;
            async move { cache.get(&name, || async { (fetches.fetch_add(1, Ordering::Relaxed), MINUTE) }).await }
        };
        assert_eq!(get("kept".to_owned()).await, 0);
        for number in 0..100 {
            get(format!("other {number}")).await;
            assert_eq!(get("kept".to_owned()).await, 0);
            assert!(len(&cache) <= 8);
        }
        assert_ne!(get("other 0".to_owned()).await, 1, "a name long unused should have been forgotten");
    }

    proptest! {
        /// Against a map that forgets nothing: a value is either the last one fetched for its name,
        /// within its time, or freshly fetched; and memory is bounded.
        #[test]
        fn never_stale_never_another_names(
            steps in prop::collection::vec((0..6_u8, 0..90_u64), 1..200),
            capacity in 0..8_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let cache = NameCache::new(capacity);
                let mut oracle: HashMap<u8, (usize, Instant)> = HashMap::new();
                for (step, (name, pause)) in steps.into_iter().enumerate() {
                    tokio::time::advance(Duration::from_secs(pause)).await;
                    let got = cache.get(&name.to_string(), || async { (step, MINUTE) }).await;
                    if got == step {
                        oracle.insert(name, (step, Instant::now() + MINUTE));
                    } else {
                        let (value, until) = oracle[&name];
                        assert_eq!(got, value);
                        assert!(Instant::now() < until);
                    }
                    assert!(len(&cache) <= capacity.max(2));
                }
            });
        }
    }
}
