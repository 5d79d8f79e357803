//! What the exact store costs: `cargo run --release -p url-cache --example store_speed -- [sled|redb] N [count]`.
//!
//! Inserts N keys on 1 000 hosts of Zipf's distribution in sorted runs of 64 to 128 thousand, then
//! asks. Times are of the processor, all threads and the system's part included.

#![expect(clippy::print_stdout, reason = "the figures are its only product")]

use std::fs;
use std::path::Path;
use std::time::Instant;

use model::{HostKey, UrlKey};
use url_cache::{OrderedMap, PackedStore, RedbStore, SeenStore, SledStore};

const CACHE_BYTES: usize = 64 << 20;

/// A key for each number, always the same.
struct Keys {
    hosts: Vec<HostKey>,
    /// The sums of the hosts' shares.
    shares: Vec<f64>,
}

impl Keys {
    fn new() -> Self {
        let mut sum = 0.0;
        let shares: Vec<f64> = (1..=1_000)
            .map(|rank| {
                sum += 1.0 / f64::from(rank);
                sum
            })
            .collect();
        let hosts = (0..1_000).map(|host| HostKey::of_origin(&format!("http://h{host}.test"))).collect();
        Self { hosts, shares: shares.into_iter().map(|share| share / sum).collect() }
    }

    fn key(&self, number: u64) -> UrlKey {
        let toss = (mix(number) >> 11) as f64 / (1_u64 << 53) as f64;
        let host = self.shares.partition_point(|&share| share < toss);
        UrlKey::new(self.hosts[host.min(999)], &number.to_string())
    }
}

/// Steele et al. 2014, SplitMix64's finalizer.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Processor seconds of this process, all threads, in steps of 10 ms.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// A line of /proc/self/status, in bytes.
fn status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(name)).expect("the line");
    line.split_whitespace().nth(1).expect("a number").parse::<f64>().expect("a number") * 1024.0
}

fn folder_bytes(path: &Path) -> f64 {
    let entries = fs::read_dir(path).expect("it is there");
    entries
        .map(|entry| entry.expect("it is there").path())
        .map(|path| if path.is_dir() { folder_bytes(&path) } else { path.metadata().map_or(0.0, |m| m.len() as f64) })
        .sum()
}

fn ask<M: OrderedMap>(store: &PackedStore<M>, what: &str, batches: &[Vec<UrlKey>], expected: bool) {
    let mut found = Vec::new();
    let mut wrong = 0;
    let (started, cpu_before) = (Instant::now(), cpu());
    for batch in batches {
        store.contains(batch, &mut found).expect("it reads");
        wrong += found.iter().filter(|&&found| found != expected).count();
    }
    let asked: usize = batches.iter().map(Vec::len).sum();
    let per_question = 1e9 / asked as f64;
    println!(
        "{what:<32} batches of {:>3}: {:>6.0} ns cpu {:>6.0} ns wall, {wrong} wrong",
        batches[0].len(),
        (cpu() - cpu_before) * per_question,
        started.elapsed().as_secs_f64() * per_question,
    );
}

fn run<M: OrderedMap>(open: impl Fn() -> (PackedStore<M>, Box<dyn FnOnce()>), path: &Path, number: u64) {
    let keys = Keys::new();
    let idle = status("VmRSS");
    let (store, close) = open();
    let (mut next, mut batch) = (0, Vec::new());
    let (mut cpu_spent, mut wall_spent, mut longest) = (0.0, 0.0_f64, 0.0_f64);
    while next < number {
        let length = (65_536 + mix(next) % 65_536).min(number - next);
        batch.clear();
        batch.extend((next..next + length).map(|number| keys.key(number)));
        next += length;
        let (started, cpu_before) = (Instant::now(), cpu());
        batch.sort_unstable();
        store.insert(&batch).expect("it writes");
        cpu_spent += cpu() - cpu_before;
        wall_spent += started.elapsed().as_secs_f64();
        longest = longest.max(started.elapsed().as_secs_f64());
    }
    let per_key = 1e9 / number as f64;
    let (started, cpu_before) = (Instant::now(), cpu());
    store.flush().expect("it writes");
    close();
    cpu_spent += cpu() - cpu_before;
    println!(
        "insert: {:.0} ns cpu, {:.0} ns wall per key; longest call {longest:.2} s; close {:.2} s; {} runs",
        cpu_spent * per_key,
        wall_spent * per_key,
        started.elapsed().as_secs_f64(),
        store.runs()
    );
    println!(
        "per key: {:.1} bytes on disk ({:.1} of entries), {:.1} of memory (peak {:.1}), {:.2} of fences",
        folder_bytes(path) / number as f64,
        store.disk_bytes() as f64 / number as f64,
        (status("VmRSS") - idle) / number as f64,
        (status("VmHWM") - idle) / number as f64,
        store.memory_bytes() as f64 / number as f64,
    );
    drop(batch);

    let mut sample: Vec<UrlKey> = (0..200_000).map(|n| keys.key(mix(n) % number)).collect();
    sample.sort_unstable();
    let strangers: Vec<UrlKey> = (0..100_000).map(|n| keys.key(number + n)).collect();
    let sorted = |mut batch: Vec<UrlKey>| {
        batch.sort_unstable();
        batch
    };
    for size in [8, 32, 256] {
        let batches = 100_000 / size as u64;
        let pick = |n: u64| sample[(mix(n) % sample.len() as u64) as usize];
        let anywhere: Vec<_> =
            (0..batches).map(|b| sorted((0..size as u64).map(|n| pick(b * 1_000 + n)).collect())).collect();
        ask(&store, "known, anywhere", &anywhere, true);
        let of_one_host: Vec<_> = (0..batches)
            .map(|b| {
                let host = pick(b * 1_000).host();
                let start = sample.partition_point(|key| key.host() < host);
                let length = sample[start..].partition_point(|key| key.host() == host);
                sorted((0..size).map(|n| sample[start + (mix(b * 1_000 + n as u64) as usize) % length]).collect())
            })
            .collect();
        ask(&store, "known, of one host", &of_one_host, true);
        let unknown: Vec<_> = strangers.chunks_exact(size).map(|batch| sorted(batch.to_vec())).collect();
        ask(&store, "unknown, anywhere", &unknown, false);
    }
    println!("after asking: {:.1} bytes of memory per key", (status("VmRSS") - idle) / number as f64);

    drop(store);
    let (started, cpu_before) = (Instant::now(), cpu());
    let (store, _) = open();
    println!("reopening: {:.2} s cpu, {:.2} s", cpu() - cpu_before, started.elapsed().as_secs_f64());
    let (started, cpu_before) = (Instant::now(), cpu());
    let census = store.census().expect("it reads");
    println!(
        "census of {}: {:.0} ns cpu, {:.0} ns wall per key; {} references",
        census.entries,
        (cpu() - cpu_before) * per_key,
        started.elapsed().as_secs_f64() * per_key,
        store.reference_total().expect("it reads")
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = arguments.first().map_or("sled", String::as_str);
    let number = arguments.get(1).map_or(1_000_000, |number| number.parse().expect("a number of keys"));
    let counting = arguments.get(2).is_some_and(|word| word == "count");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    println!("{kind}, {number} keys{}", if counting { ", references counted" } else { "" });
    if kind == "redb" {
        let file = path.join("seen.redb");
        run(|| (RedbStore::open(&file, CACHE_BYTES, counting).expect("it opens"), Box::new(|| ())), &path, number);
    } else {
        let open = || {
            let config = sled::Config::new().path(&path).cache_capacity(CACHE_BYTES as u64).flush_every_ms(Some(500));
            let db = config.open().expect("it opens");
            let store = SledStore::open(&db, counting).expect("it opens");
            let close: Box<dyn FnOnce()> = Box::new(move || {
                db.flush().expect("it writes");
            });
            (store, close)
        };
        run(open, &path, number);
    }
}
