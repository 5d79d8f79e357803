//! The seen test on streams with the shape of a crawl's: what a question costs at each tier.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use model::{HostKey, UrlKey};
use url_cache::{FilterKind, Judge, Question, SeenStore, SledStore, UrlCache, UrlCacheConfig, Visit};

/// Links of one page.
const PAGE: usize = 97;

fn key(number: u64) -> UrlKey {
    UrlKey::new(HostKey::of_origin("http://bench.test"), &number.to_string())
}

/// A gate whose store and filter know `known` URLs.
fn gate(filter: FilterKind, recent: usize, known: u64) -> UrlCache {
    let db = sled::Config::new().temporary(true).open().expect("a temporary database opens");
    let store = SledStore::open(&db, false).expect("the tree opens");
    let config = UrlCacheConfig { filter, recent, ..UrlCacheConfig::default() };
    let mut filter = config.build_filter(&Visit::FIRST);
    let mut keys: Vec<UrlKey> = (0..known).map(key).collect();
    for key in &keys {
        filter.mark(&[Question { key: *key, url: "" }]);
    }
    keys.sort_unstable();
    store.insert(&keys).expect("the store is written");
    UrlCache::new(filter, recent, Judge::Store(Arc::new(store)), Vec::new())
}

fn pages(from: u64) -> impl Iterator<Item = Vec<UrlKey>> {
    (0..).map(move |page| (0..PAGE as u64).map(|link| key(from + page * PAGE as u64 + link)).collect())
}

fn bench(criterion: &mut Criterion) {
    let known = 100_000;
    let mut group = criterion.benchmark_group("seen test, one page of 97 links");
    group.throughput(Throughput::Elements(PAGE as u64));
    for (name, filter, recent, from) in [
        ("seen lately (recent cache)", FilterKind::Bloom, 1 << 18, None),
        ("never seen (filter alone)", FilterKind::Bloom, 1 << 18, Some(1 << 40)),
        ("seen long ago (store)", FilterKind::Bloom, 0, Some(0)),
        ("never seen, without a filter (store)", FilterKind::None, 0, Some(1 << 40)),
    ] {
        let mut gate = gate(filter, recent, known);
        let mut fresh = pages(from.unwrap_or(0));
        let same: Vec<UrlKey> = (0..PAGE as u64).map(key).collect();
        let mut verdicts = Vec::new();
        let mut turn = 0;
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    turn += 1;
                    match from {
                        None => same.clone(),
                        // Known URLs are asked in turn, each page once per round.
                        Some(0) => {
                            let start = turn * PAGE as u64 % (known - PAGE as u64);
                            (start..start + PAGE as u64).map(key).collect()
                        }
                        Some(_) => fresh.next().unwrap_or_default(),
                    }
                },
                |keys| {
                    let questions: Vec<_> = keys.iter().map(|key| Question { key: *key, url: "" }).collect();
                    gate.ask_and_mark(&questions, &mut verdicts).expect("the store is read");
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
