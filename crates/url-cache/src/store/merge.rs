//! Several sorted runs read as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::StoreError;
use super::chunk::{Chunk, Fingerprint};
use super::map::{OrderedMap, entry_key};
use super::sieve::Sieve;

/// A sorted run: chunks of fingerprints, ascending and disjoint, under one number.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) number: u32,
    /// Fingerprints in it.
    pub(super) keys: u64,
    /// Bytes of its keys and values in the map.
    pub(super) bytes: u64,
    /// No fingerprint of a chunk is smaller than its fence, which is in the key of its entry.
    pub(super) fences: Arc<Vec<Fingerprint>>,
    /// While the run is merged into another: so many of its chunks are gone, and what is not
    /// greater than this is in the other run.
    pub(super) moved: (usize, Option<Fingerprint>),
    /// Tells most keys that are not in it. None while it is being merged from others.
    pub(super) sieve: Option<Arc<Sieve>>,
}

impl Run {
    pub(super) fn new(number: u32) -> Self {
        Self { number, keys: 0, bytes: 0, fences: Arc::default(), moved: (0, None), sieve: None }
    }

    /// Whether a fingerprint may be in it; "no" is certain.
    pub(super) fn may_hold(&self, fingerprint: Fingerprint) -> bool {
        self.sieve.as_ref().is_none_or(|sieve| sieve.may_hold(fingerprint))
    }

    /// Whether a fingerprint would be looked for in the run that this one is merged into.
    pub(super) fn has_moved(&self, fingerprint: Fingerprint) -> bool {
        self.moved.1.is_some_and(|last| fingerprint <= last)
    }
}

/// Reads one run from its first fingerprint that has not moved.
struct Cursor {
    run: Run,
    /// The next chunk to be read.
    chunk: usize,
    /// The chunk that is being read, and how far.
    unpacked: Vec<(Fingerprint, u64)>,
    place: usize,
}

impl Cursor {
    fn next<M: OrderedMap>(&mut self, map: &M, view: &M::View) -> Result<Option<(Fingerprint, u64)>, StoreError> {
        loop {
            while let Some(&found) = self.unpacked.get(self.place) {
                self.place += 1;
                if !self.run.has_moved(found.0) {
                    return Ok(Some(found));
                }
            }
            let Some(&fence) = self.run.fences.get(self.chunk) else { return Ok(None) };
            self.chunk += 1;
            self.unpacked.clear();
            self.place = 0;
            read_chunk(map, view, self.run.number, fence, |chunk| {
                self.unpacked.reserve(chunk.len());
                chunk.visit(|fingerprint, count| self.unpacked.push((fingerprint, count)))
            })?;
            map.passed(&entry_key(self.run.number, fence))?;
        }
    }
}

/// Shows a chunk that must be there to `look`.
pub(super) fn read_chunk<M: OrderedMap, R>(
    map: &M,
    view: &M::View,
    run: u32,
    fence: Fingerprint,
    look: impl FnOnce(&Chunk<'_>) -> Result<R, &'static str>,
) -> Result<R, StoreError> {
    map.get(view, &entry_key(run, fence), |bytes| Chunk::parse(bytes).and_then(|chunk| look(&chunk)))?
        .unwrap_or(Err("a chunk is missing"))
        .map_err(|what| StoreError::Damaged { what })
}

/// The fingerprints of several runs, each once, ascending, with the sum of its counts.
pub(super) struct Merge<'a, M: OrderedMap> {
    map: &'a M,
    view: M::View,
    cursors: Vec<Cursor>,
    /// The next fingerprint of each cursor, with the cursor's place and the count.
    heads: BinaryHeap<Reverse<(Fingerprint, usize, u64)>>,
}

impl<'a, M: OrderedMap> Merge<'a, M> {
    pub(super) fn new(map: &'a M, runs: Vec<Run>) -> Result<Self, StoreError> {
        let view = map.view()?;
        let cursor = |run: Run| Cursor { chunk: run.moved.0, run, unpacked: Vec::new(), place: 0 };
        let mut cursors: Vec<Cursor> = runs.into_iter().map(cursor).collect();
        let mut heads = BinaryHeap::with_capacity(cursors.len());
        for (place, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(cursor.next(map, &view)?.map(|(fingerprint, count)| Reverse((fingerprint, place, count))));
        }
        Ok(Self { map, view, cursors, heads })
    }

    pub(super) fn next(&mut self) -> Result<Option<(Fingerprint, u64)>, StoreError> {
        let Some(&Reverse((fingerprint, _, mut count))) = self.heads.peek() else { return Ok(None) };
        self.advance()?;
        while let Some(&Reverse((same, _, more))) = self.heads.peek()
            && same == fingerprint
        {
            count = count.saturating_add(more);
            self.advance()?;
        }
        Ok(Some((fingerprint, count)))
    }

    /// Looks at the map as it is now. A database that keeps old states for those who look at them
    /// can then forget one.
    pub(super) fn look_again(&mut self) -> Result<(), StoreError> {
        self.view = self.map.view()?;
        Ok(())
    }

    /// Replaces the smallest head by its cursor's next.
    fn advance(&mut self) -> Result<(), StoreError> {
        if let Some(mut head) = self.heads.peek_mut() {
            let place = head.0.1;
            match self.cursors[place].next(self.map, &self.view)? {
                // In place: one sift through the heap instead of two.
                Some((fingerprint, count)) => *head = Reverse((fingerprint, place, count)),
                None => drop(std::collections::binary_heap::PeekMut::pop(head)),
            }
        }
        Ok(())
    }
}
