//! The exact set as a few sorted runs of packed fingerprints, in any ordered map.
//!
//! A database that keeps one entry per URL spends more on the entry than on the URL: sled takes 200
//! bytes and 3 to 5 µs. So some hundred fingerprints are packed into one entry, a *chunk*. What is
//! inserted at once becomes one sorted *run* of chunks, and whenever there are several runs of about
//! the same size they are merged into one, so that a fingerprint is written a few times in all
//! (O'Neil et al. 1996, the log-structured merge-tree; in the tiered form of DRUM, Lee et al. 2008,
//! §IV, which also defers and sorts what is asked and written).
//!
//! ```text
//! entry    run's number (4 bytes, big-endian) ‖ the chunk's fence (24 bytes)  ──►  the chunk
//! memory   for each run: its number, its chunks' fences (24 bytes for some hundred URLs), and a
//!          sieve (6 bits per URL) that tells most keys which are not in it
//! ```
//!
//! There is no list of runs on the disk: the entries' keys are the list, and it is read at opening.
//! That is safe because a fingerprint may stand in two runs without harm, the rest follows:
//!
//! * A chunk is deleted only after all it holds has been put elsewhere, so that a crash in the
//!   middle of a merge loses nothing and leaves nothing to repair.
//! * A number is given to one run only, so that chunks of two runs are never taken for one.
//! * The runs in memory change in one moment (under the write lock), between the put and the
//!   delete. Who asks holds the read lock, and so never looks for a chunk that is gone, nor misses
//!   one that has moved.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use model::UrlKey;

use super::chunk::{Chunk, Fingerprint, Packed, Packer};
use super::map::{ENTRY_KEY_LEN, Entry, EntryKey, OrderedMap, entry_key, split_entry_key};
use super::merge::{Merge, Run, read_chunk};
use super::sieve::Sieve;
use super::{SeenStore, StoreError};

/// When runs are merged, and in what steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// So many runs of one size class are merged into one of the next; each class is so many times
    /// larger than the one before.
    pub fan_in: u64,
    /// Keys from which on a run is larger than the smallest class.
    pub smallest: u64,
    /// Chunks that are put between two changes of what is in memory.
    pub step: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self { fan_in: 16, smallest: 1 << 16, step: 64 }
    }
}

impl Shape {
    fn class(self, keys: u64) -> u32 {
        (keys / self.smallest.max(1)).checked_ilog(self.fan_in.max(2)).map_or(0, |class| class + 1)
    }

    /// The numbers of the runs to be merged now, if any. When one merge would bring about the next,
    /// both are done at once.
    fn choose(self, runs: &[Run]) -> Option<Vec<u32>> {
        let mut chosen = None;
        let mut below = 0;
        for class in 0..=runs.iter().map(|run| self.class(run.keys)).max()? {
            let here = || runs.iter().filter(|run| self.class(run.keys) == class);
            let carried = chosen.is_some() && self.class(below) >= class;
            if here().count() as u64 + u64::from(carried) >= self.fan_in.max(2) {
                chosen = Some(class);
            }
            below += here().map(|run| run.keys).sum::<u64>();
        }
        // Smaller runs go with them: they cost little now, and no questions later.
        let chosen = chosen?;
        Some(runs.iter().filter(|run| self.class(run.keys) <= chosen).map(|run| run.number).collect())
    }
}

/// An exact set of keys, packed into an ordered map. A handle: clones share the set.
///
/// Useful for a set that grows by many keys at a time and is asked in sorted batches. Not useful for
/// single inserts: each becomes a run of its own, until some are merged.
pub struct PackedStore<M> {
    shared: Arc<Shared<M>>,
}

struct Shared<M> {
    map: M,
    shape: Shape,
    counting: bool,
    /// The largest first.
    runs: RwLock<Vec<Run>>,
    /// Held by whoever writes; the number of the next run.
    next_run: Mutex<u32>,
}

impl<M> Clone for PackedStore<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for PackedStore<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedStore").field("shape", &self.shared.shape).finish_non_exhaustive()
    }
}

impl<M: OrderedMap> PackedStore<M> {
    /// The set that is in a map. Where references were not counted before, the keys that are there
    /// have none; where they are no longer counted, they are forgotten little by little.
    ///
    /// # Errors
    /// When the map cannot be read, or holds something else.
    pub fn new(map: M, shape: Shape, counting: bool) -> Result<Self, StoreError> {
        // Places in a chunk have 16 bits.
        const { assert!(M::CHUNK_BYTES <= 16 << 16) };
        let mut runs: Vec<Run> = Vec::new();
        map.visit(&mut |key, value| {
            let damaged = |what| StoreError::Damaged { what };
            let (number, fence) = split_entry_key(key).ok_or(damaged("an entry's key has another length"))?;
            let chunk = Chunk::parse(value).map_err(damaged)?;
            if runs.last().is_none_or(|run| run.number != number) {
                runs.push(Run::new(number));
            }
            let run = runs.last_mut().expect("one was just pushed");
            run.keys += chunk.len() as u64;
            run.bytes += (key.len() + value.len()) as u64;
            Arc::make_mut(&mut run.fences).push(fence);
            Ok(())
        })?;
        let view = map.view()?;
        for run in &mut runs {
            Arc::make_mut(&mut run.fences).shrink_to_fit();
            let mut sieve = Sieve::new(run.keys);
            for &fence in run.fences.iter() {
                read_chunk(&map, &view, run.number, fence, |chunk| chunk.visit(|key, _| sieve.mark(key)))?;
            }
            run.sieve = Some(Arc::new(sieve));
        }
        let next_run = runs.last().map_or(0, |run| run.number.saturating_add(1));
        sort(&mut runs);
        let shared = Shared { map, shape, counting, runs: RwLock::new(runs), next_run: Mutex::new(next_run) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Bytes of keys and values in the map; what the database adds is its own.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.runs().iter().map(|run| run.bytes).sum()
    }

    /// Bytes of memory, not counting the database's.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |run: &Run| {
            run.fences.capacity() * size_of::<Fingerprint>() + run.sieve.as_ref().map_or(0, |sieve| sieve.bytes())
        };
        self.shared.runs().iter().map(bytes).sum()
    }

    /// How many sorted runs there are: a stranger is looked for in each.
    pub fn runs(&self) -> usize {
        self.shared.runs().len()
    }
}

impl<M: OrderedMap> SeenStore for PackedStore<M> {
    fn contains(&self, keys: &[UrlKey], found: &mut Vec<bool>) -> Result<(), StoreError> {
        found.clear();
        found.resize(keys.len(), false);
        let mut wanted = sorted(keys.iter().enumerate().map(|(place, key)| (Fingerprint::of(key), place)));
        let runs = self.shared.runs();
        if wanted.is_empty() || runs.is_empty() {
            return Ok(());
        }
        let view = self.shared.map.view()?;
        for run in runs.iter() {
            self.shared.look_up(&view, run, &wanted, |place, _, _| {
                found[place] = true;
                Ok(())
            })?;
            wanted.retain(|&(_, place)| !found[place]);
            if wanted.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn insert(&self, keys: &[UrlKey]) -> Result<(), StoreError> {
        let fingerprints = sorted(keys.iter().map(|key| (Fingerprint::of(key), 1)));
        self.shared.add(&mut self.shared.writer(), &fingerprints)
    }

    fn remove(&self, keys: &[UrlKey]) -> Result<(), StoreError> {
        let _writer = self.shared.writer();
        let wanted = sorted(keys.iter().map(|key| (Fingerprint::of(key), ())));
        let runs = self.shared.runs().clone();
        runs.iter().try_for_each(|run| self.shared.remove_from(run, &wanted))
    }

    fn clear(&self) -> Result<(), StoreError> {
        let _writer = self.shared.writer();
        // Nobody looks for a chunk that is about to go.
        self.shared.runs_mut().clear();
        self.shared.map.clear()
    }

    fn scan(&self, each: &mut dyn FnMut(UrlKey)) -> Result<(), StoreError> {
        // The writer waits, and nothing moves; who asks does not wait.
        let _writer = self.shared.writer();
        let runs = self.shared.runs().clone();
        let mut merge = Merge::new(&self.shared.map, runs)?;
        while let Some((fingerprint, _)) = merge.next()? {
            each(fingerprint.to_key());
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.shared.map.flush()
    }

    fn is_counting(&self) -> bool {
        self.shared.counting
    }

    fn add_references(&self, counts: &[(UrlKey, u32)]) -> Result<(), StoreError> {
        if !self.shared.counting {
            return Ok(());
        }
        let mut writer = self.shared.writer();
        let mut known = Vec::new();
        self.contains(&counts.iter().map(|&(key, _)| key).collect::<Vec<_>>(), &mut known)?;
        let counted = counts.iter().zip(known).filter(|&(&(_, count), known)| known && count > 0);
        let fingerprints = sorted(counted.map(|((key, count), _)| (Fingerprint::of(key), u64::from(*count))));
        self.shared.add(&mut writer, &fingerprints)
    }

    fn references(&self, keys: &[UrlKey]) -> Result<Vec<u64>, StoreError> {
        let mut counts = vec![0_u64; keys.len()];
        if self.shared.counting {
            let wanted = sorted(keys.iter().enumerate().map(|(place, key)| (Fingerprint::of(key), place)));
            let runs = self.shared.runs();
            let view = self.shared.map.view()?;
            for run in runs.iter() {
                self.shared.look_up(&view, run, &wanted, |asker, chunk, place| {
                    counts[asker] = counts[asker].saturating_add(chunk.count(place)?);
                    Ok(())
                })?;
            }
        }
        Ok(counts)
    }

    fn reference_total(&self) -> Result<u64, StoreError> {
        let mut total = 0_u64;
        if self.shared.counting {
            let _writer = self.shared.writer();
            let runs = self.shared.runs().clone();
            let mut merge = Merge::new(&self.shared.map, runs)?;
            while let Some((_, count)) = merge.next()? {
                total = total.saturating_add(count);
            }
        }
        Ok(total)
    }
}

impl<M: OrderedMap> Shared<M> {
    // A thread that dies while it holds one of the locks leaves a state that holds: the runs change
    // in ways that are whole at each moment.

    fn runs(&self) -> RwLockReadGuard<'_, Vec<Run>> {
        self.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs_mut(&self) -> RwLockWriteGuard<'_, Vec<Run>> {
        self.runs.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, u32> {
        self.next_run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for ascending fingerprints in one run, reading each chunk once, and shows what is
    /// found to `hit`: what stood beside the fingerprint, its chunk and its place there.
    fn look_up<T: Copy>(
        &self,
        view: &M::View,
        run: &Run,
        wanted: &[(Fingerprint, T)],
        mut hit: impl FnMut(T, &Chunk<'_>, usize) -> Result<(), &'static str>,
    ) -> Result<(), StoreError> {
        let wanted: Vec<_> = wanted.iter().filter(|&&(fingerprint, _)| run.may_hold(fingerprint)).copied().collect();
        for (chunk, wanted) in by_chunk(run, &wanted) {
            read_chunk(&self.map, view, run.number, run.fences[chunk], |chunk| {
                for &(fingerprint, asker) in wanted {
                    if let Some(place) = chunk.find(fingerprint) {
                        hit(asker, chunk, place)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes ascending fingerprints as a new run, then merges what there is to merge.
    fn add(&self, next_run: &mut u32, fingerprints: &[(Fingerprint, u64)]) -> Result<(), StoreError> {
        let mut writer = RunWriter::new(self, next_run, fingerprints.len() as u64)?;
        let mut left = fingerprints.iter().copied().peekable();
        while let Some((fingerprint, mut count)) = left.next() {
            while let Some((_, more)) = left.next_if(|&(same, _)| same == fingerprint) {
                count = count.saturating_add(more);
            }
            if writer.push(fingerprint, count) {
                writer.put()?;
            }
        }
        writer.finish();
        writer.put()?;
        let mut run = writer.done;
        if run.keys > 0 {
            run.sieve = Some(Arc::new(writer.sieve));
            let mut runs = self.runs_mut();
            runs.push(run);
            sort(&mut runs);
        }
        // A statement of its own: the lock must be free again.
        loop {
            let chosen = self.shape.choose(&self.runs());
            let Some(chosen) = chosen else { return Ok(()) };
            self.merge(next_run, &chosen)?;
        }
    }

    /// Merges runs into one, step by step: the first part of the new run is put, then it takes the
    /// place of what it is made of, then that is deleted. So the merge needs little more space than
    /// the runs, and stopping anywhere (by an error, or a crash) is as good as going on.
    fn merge(&self, next_run: &mut u32, chosen: &[u32]) -> Result<(), StoreError> {
        let runs: Vec<Run> = self.runs().iter().filter(|run| chosen.contains(&run.number)).cloned().collect();
        let mut writer = RunWriter::new(self, next_run, runs.iter().map(|run| run.keys).sum())?;
        let mut merge = Merge::new(&self.map, runs)?;
        while let Some((fingerprint, count)) = merge.next()? {
            if writer.push(fingerprint, count) {
                writer.put()?;
                self.publish(&mut writer, chosen)?;
                merge.look_again()?;
            }
        }
        writer.finish();
        writer.put()?;
        self.publish(&mut writer, chosen)?;
        let sieve = Arc::new(writer.sieve);
        let mut runs = self.runs_mut();
        runs.retain(|run| !chosen.contains(&run.number));
        for run in runs.iter_mut().filter(|run| run.number == writer.number) {
            Arc::make_mut(&mut run.fences).shrink_to_fit();
            run.sieve = Some(Arc::clone(&sieve));
        }
        sort(&mut runs);
        Ok(())
    }

    /// Lets what was put of a new run take the place of what it was merged from.
    fn publish(&self, writer: &mut RunWriter<'_, M>, merged: &[u32]) -> Result<(), StoreError> {
        let Some(last) = writer.last else { return Ok(()) };
        let part = mem::replace(&mut writer.done, Run::new(writer.number));
        let mut gone = Vec::new();
        let mut runs = self.runs_mut();
        match runs.iter_mut().find(|run| run.number == part.number) {
            Some(run) => {
                Arc::make_mut(&mut run.fences).extend_from_slice(&part.fences);
                run.keys += part.keys;
                run.bytes += part.bytes;
            }
            None => runs.push(part),
        }
        for run in runs.iter_mut().filter(|run| merged.contains(&run.number)) {
            // A chunk is done with when the next one's fence is; the last one when all is.
            let before = run.moved.0;
            let passed = run.fences.partition_point(|&fence| fence <= last);
            let after = if writer.finished { run.fences.len() } else { passed.saturating_sub(1) };
            gone.extend(run.fences[before..after.max(before)].iter().map(|&fence| entry_key(run.number, fence)));
            run.moved = (after.max(before), Some(last));
        }
        drop(runs);
        self.map.delete(&gone)
    }

    /// Takes ascending fingerprints out of one run.
    fn remove_from<T: Copy>(&self, run: &Run, wanted: &[(Fingerprint, T)]) -> Result<(), StoreError> {
        let mut changed: Vec<Entry> = Vec::new();
        let mut emptied: Vec<usize> = Vec::new();
        let (mut keys, mut bytes) = (run.keys, run.bytes);
        // Also what has moved: a chunk that was not deleted may come to light again.
        let view = self.map.view()?;
        let whole = Run { moved: (run.moved.0, None), ..run.clone() };
        for (place, wanted) in by_chunk(&whole, wanted) {
            let fence = run.fences[place];
            let rest = read_chunk(&self.map, &view, run.number, fence, |chunk| {
                let mut packer = Packer::new(usize::MAX, self.counting);
                chunk.visit(|fingerprint, count| {
                    if wanted.binary_search_by_key(&fingerprint, |&(wanted, _)| wanted).is_err() {
                        packer.push(fingerprint, count);
                    }
                })?;
                Ok((chunk.len(), chunk.bytes(), packer.finish()))
            })?;
            let (keys_before, bytes_before, rest) = rest;
            let keys_after = rest.as_ref().map_or(0, |rest| rest.fingerprints);
            if keys_after == keys_before {
                continue;
            }
            keys -= (keys_before - keys_after) as u64;
            if let Some(rest) = rest {
                bytes = bytes + rest.bytes.len() as u64 - bytes_before as u64;
                changed.push((entry_key(run.number, fence), rest.bytes));
            } else {
                bytes -= (ENTRY_KEY_LEN + bytes_before) as u64;
                emptied.push(place);
            }
        }
        if changed.is_empty() && emptied.is_empty() {
            return Ok(());
        }
        self.map.put(&changed)?;
        let gone: Vec<EntryKey> = emptied.iter().map(|&place| entry_key(run.number, run.fences[place])).collect();
        let mut runs = self.runs_mut();
        if let Some(run) = runs.iter_mut().find(|other| other.number == run.number) {
            (run.keys, run.bytes) = (keys, bytes);
            let mut place = 0;
            Arc::make_mut(&mut run.fences).retain(|_| {
                place += 1;
                emptied.binary_search(&(place - 1)).is_err()
            });
        }
        runs.retain(|run| !run.fences.is_empty());
        sort(&mut runs);
        drop(runs);
        self.map.delete(&gone)
    }
}

/// Writes the chunks of a new run.
struct RunWriter<'a, M> {
    map: &'a M,
    step: usize,
    number: u32,
    packer: Packer,
    sieve: Sieve,
    /// Chunks that were not put yet.
    waiting: Vec<Entry>,
    /// What was packed since it was last published; published once it is put.
    done: Run,
    /// The last fingerprint of the last full chunk.
    last: Option<Fingerprint>,
    finished: bool,
}

impl<'a, M: OrderedMap> RunWriter<'a, M> {
    /// A writer of at most so many keys.
    fn new(shared: &'a Shared<M>, next_run: &mut u32, keys: u64) -> Result<Self, StoreError> {
        let number = *next_run;
        *next_run = number.checked_add(1).ok_or(StoreError::Damaged { what: "its runs have no more numbers" })?;
        Ok(Self {
            map: &shared.map,
            step: shared.shape.step,
            number,
            packer: Packer::new(M::CHUNK_BYTES, shared.counting),
            sieve: Sieve::new(keys),
            waiting: Vec::new(),
            done: Run::new(number),
            last: None,
            finished: false,
        })
    }

    /// Packs the next fingerprint, greater than all before it. Whether it is time to put.
    fn push(&mut self, fingerprint: Fingerprint, count: u64) -> bool {
        self.sieve.mark(fingerprint);
        let full = self.packer.push(fingerprint, count);
        self.keep(full);
        self.waiting.len() >= self.step
    }

    /// There are no more.
    fn finish(&mut self) {
        let rest = self.packer.finish();
        self.keep(rest);
        self.finished = true;
    }

    fn keep(&mut self, packed: Option<Packed>) {
        if let Some(packed) = packed {
            self.done.keys += packed.fingerprints as u64;
            self.done.bytes += (ENTRY_KEY_LEN + packed.bytes.len()) as u64;
            Arc::make_mut(&mut self.done.fences).push(packed.first);
            self.last = Some(packed.last);
            self.waiting.push((entry_key(self.number, packed.first), packed.bytes));
        }
    }

    fn put(&mut self) -> Result<(), StoreError> {
        self.map.put(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// The chunks in which ascending fingerprints may be, each with those of them that it may hold.
fn by_chunk<'a, T>(
    run: &'a Run,
    mut wanted: &'a [(Fingerprint, T)],
) -> impl Iterator<Item = (usize, &'a [(Fingerprint, T)])> {
    let mut passed = run.moved.0;
    let smallest = run.fences.get(passed).copied();
    let start = wanted.partition_point(|&(key, _)| run.has_moved(key) || smallest.is_none_or(|fence| key < fence));
    wanted = &wanted[start..];
    std::iter::from_fn(move || {
        let &(first, _) = wanted.first()?;
        passed += gallop(&run.fences[passed..], |&fence| fence <= first);
        let here = run.fences.get(passed).map_or(wanted.len(), |&next| gallop(wanted, |&(key, _)| key < next));
        let (here, left) = wanted.split_at(here);
        wanted = left;
        Some((passed - 1, here))
    })
}

/// As `partition_point`, in a time that depends on how far it is (Bentley & Yao 1976).
fn gallop<T>(slice: &[T], before: impl Fn(&T) -> bool) -> usize {
    let mut bound = 1;
    while slice.get(bound - 1).is_some_and(&before) {
        bound *= 2;
    }
    let start = bound / 2;
    start + slice[start..slice.len().min(bound)].partition_point(before)
}

/// In ascending order; what is in order already is left alone.
fn sorted<T>(fingerprints: impl Iterator<Item = (Fingerprint, T)>) -> Vec<(Fingerprint, T)> {
    let mut fingerprints: Vec<_> = fingerprints.collect();
    if !fingerprints.is_sorted_by_key(|&(fingerprint, _)| fingerprint) {
        fingerprints.sort_by_key(|&(fingerprint, _)| fingerprint);
    }
    fingerprints
}

/// The largest first: most questions end there.
fn sort(runs: &mut [Run]) {
    runs.sort_by_key(|run| std::cmp::Reverse(run.keys));
}
