//! What the machine can do and what this process has used of it.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::lowlevel::request;

/// A cache line.
type Line = [u64; 8];

/// The limit: random reads of one line each from a table as large as the blocked filter's, in huge
/// pages as the filter's own memory is. No filter that is out of cache can be faster.
pub(crate) struct LineFetch {
    map: MmapMut,
}

impl LineFetch {
    /// A table of at least this many bytes, every page of it written: pages never written would all
    /// be read from one page of zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut map = zeroed(bytes.next_multiple_of(size_of::<Line>()));
        map.fill(1);
        Self { map }
    }

    fn lines(&self) -> &[Line] {
        bytemuck::cast_slice(&self.map)
    }

    #[inline]
    fn place(&self, hash: u128) -> usize {
        let lines = self.map.len() / size_of::<Line>();
        (((hash >> 64) * lines as u128) >> 64) as usize
    }

    /// Reads a line for each hash in batches of `N`, requested before they are looked at, in one loop: the
    /// processor sees through it and requests the lines of the next batch while it waits for this one's.
    pub(crate) fn batched<const N: usize>(&self, hashes: &[u128]) -> Duration {
        let (start, mut sum) = (Instant::now(), 0_u64);
        for batch in hashes.as_chunks::<N>().0 {
            sum = sum.wrapping_add(self.fetch(batch));
        }
        black_box(sum);
        start.elapsed()
    }

    /// The same with a call for each batch, whose answers are looked at before the next, as a filter is
    /// asked.
    pub(crate) fn called<const N: usize>(&self, hashes: &[u128]) -> Duration {
        let (start, mut sum) = (Instant::now(), 0_u64);
        for batch in hashes.as_chunks::<N>().0 {
            let mut odd = [false; N];
            self.fetch_each(batch, &mut odd);
            sum += odd.iter().map(|odd| u64::from(*odd)).sum::<u64>();
        }
        black_box(sum);
        start.elapsed()
    }

    #[inline]
    fn fetch<const N: usize>(&self, batch: &[u128; N]) -> u64 {
        let lines = self.lines();
        let places = self.request_each(batch);
        places.iter().fold(0, |sum: u64, place| sum.wrapping_add(lines[*place][0]))
    }

    #[inline(never)]
    fn fetch_each<const N: usize>(&self, batch: &[u128; N], odd: &mut [bool; N]) {
        let lines = self.lines();
        let places = self.request_each(batch);
        for (odd, place) in odd.iter_mut().zip(places) {
            *odd = lines[place][0] & 1 == 1;
        }
    }

    #[inline]
    fn request_each<const N: usize>(&self, batch: &[u128; N]) -> [usize; N] {
        let lines = self.lines();
        std::array::from_fn(|number| {
            let place = self.place(batch[number]);
            request(&lines[place]);
            place
        })
    }

    /// Reads lines one by one, each at a place that is known only when the one before has arrived.
    pub(crate) fn dependent(&self, hashes: &[u128]) -> Duration {
        let (lines, start, mut word) = (self.lines(), Instant::now(), 0_u64);
        for hash in hashes {
            word = lines[self.place(hash ^ u128::from(word) << 64)][0];
        }
        black_box(word);
        start.elapsed()
    }
}

/// Zeroed memory from the kernel, in huge pages where it has them.
pub(crate) fn zeroed(bytes: usize) -> MmapMut {
    let map = MmapMut::map_anon(bytes.max(1)).expect("the machine has memory for the bench");
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    map
}

/// Processor time that all threads of this process have used, those that ended included; to 10 ms.
pub(crate) fn cpu_seconds() -> f64 {
    /// Linux counts in hundredths of a second whatever its own clock does (`USER_HZ`).
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name may hold spaces, but ends with the last parenthesis; user and system time
    // are the 14th and 15th fields of the line, so the 12th and 13th after it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// Bytes of memory this process holds now (`VmRSS`) or held at most (`VmHWM`).
pub(crate) fn memory_bytes(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Bytes on disk of everything below a folder: what is allocated, not what files claim to be long.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// The processor, its count, and the kernel, for the head of a report.
pub(crate) fn description() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{}; {cores} cores; Linux {}", model.unwrap_or("unknown processor"), kernel.trim())
}
