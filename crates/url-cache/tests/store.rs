//! The packed store against a map in memory, in two databases and in one that fails.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use model::{Census, HostKey, UrlKey};
use proptest::prelude::*;
use url_cache::{
    Entry, EntryKey, OrderedMap, PackedStore, RedbMap, SeenStore, Shape, SledMap, SledStore, StoreError, Visitor,
};

/// A map that outlives the store, as a disk does, and from some write on takes no more.
#[derive(Clone)]
struct Fragile {
    disk: Arc<Mutex<BTreeMap<EntryKey, Vec<u8>>>>,
    writes_left: Arc<AtomicUsize>,
}

impl Fragile {
    fn new() -> Self {
        Self { disk: Arc::default(), writes_left: Arc::new(AtomicUsize::new(usize::MAX)) }
    }

    fn write(&self, change: impl FnOnce(&mut BTreeMap<EntryKey, Vec<u8>>)) -> Result<(), StoreError> {
        let left = self.writes_left.load(Ordering::Relaxed);
        self.writes_left
            .store(left.checked_sub(1).ok_or(StoreError::Damaged { what: "it is full" })?, Ordering::Relaxed);
        change(&mut self.disk.lock().unwrap());
        Ok(())
    }
}

impl OrderedMap for Fragile {
    const CHUNK_BYTES: usize = 120;
    type View = ();

    fn view(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn get<R>(&self, (): &(), key: &EntryKey, look: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        Ok(self.disk.lock().unwrap().get(key).map(|value| look(value)))
    }

    fn put(&self, entries: &[Entry]) -> Result<(), StoreError> {
        entries.iter().try_for_each(|(key, value)| self.write(|disk| drop(disk.insert(*key, value.clone()))))
    }

    fn delete(&self, keys: &[EntryKey]) -> Result<(), StoreError> {
        keys.iter().try_for_each(|key| self.write(|disk| drop(disk.remove(key).expect("it is there"))))
    }

    fn clear(&self) -> Result<(), StoreError> {
        self.write(BTreeMap::clear)
    }

    fn visit(&self, each: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.disk.lock().unwrap().iter().try_for_each(|(key, value)| each(key, value))
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

const HOSTS: u16 = 5;

fn key(number: u16) -> UrlKey {
    UrlKey::new(HostKey::of_origin(&format!("http://h{}.test", number % HOSTS)), &number.to_string())
}

fn keys(numbers: &[u16]) -> Vec<UrlKey> {
    let mut keys: Vec<_> = numbers.iter().map(|&number| key(number)).collect();
    keys.sort_unstable();
    keys
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<u16>),
    Remove(Vec<u16>),
    Refer(Vec<(u16, u32)>),
    Reopen,
}

fn steps(universe: u16) -> impl Strategy<Value = Vec<Step>> {
    let most = usize::from(universe / 4);
    let numbers = move |most| proptest::collection::vec(0..universe, 0..most);
    let step = prop_oneof![
        6 => numbers(most).prop_map(Step::Insert),
        2 => numbers(most / 2).prop_map(Step::Remove),
        2 => proptest::collection::vec((0..universe, 0_u32..300), 0..most / 2).prop_map(Step::Refer),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..20)
}

fn shapes() -> impl Strategy<Value = Shape> {
    (2_u64..5, 1_u64..200, 1_usize..6).prop_map(|(fan_in, smallest, step)| Shape { fan_in, smallest, step })
}

/// Everything the store can say, against the model: keys and their references.
fn compare<M: OrderedMap>(store: &PackedStore<M>, model: &BTreeMap<UrlKey, u64>, universe: u16, counting: bool) {
    let all = keys(&(0..universe).collect::<Vec<_>>());
    let mut found = Vec::new();
    store.contains(&all, &mut found).unwrap();
    for (key, found) in all.iter().zip(&found) {
        assert_eq!(*found, model.contains_key(key), "{key}");
    }
    // Questions need not be in order.
    let reversed: Vec<_> = all.iter().rev().copied().collect();
    let forwards = found.clone();
    store.contains(&reversed, &mut found).unwrap();
    assert!(found.iter().eq(forwards.iter().rev()));

    let mut scanned = Vec::new();
    store.scan(&mut |key| scanned.push(key)).unwrap();
    assert!(scanned.iter().eq(model.keys()));
    let mut census = Census::default();
    for key in model.keys() {
        census.add(key.as_bytes());
    }
    assert_eq!(store.census().unwrap(), census);

    let count = |key: &UrlKey| if counting { model.get(key).copied().unwrap_or(0) } else { 0 };
    assert_eq!(store.references(&all).unwrap(), all.iter().map(count).collect::<Vec<_>>());
    assert_eq!(store.reference_total().unwrap(), model.keys().map(count).sum::<u64>());
}

fn apply<M: OrderedMap>(store: &PackedStore<M>, model: &mut BTreeMap<UrlKey, u64>, step: &Step) {
    match step {
        Step::Insert(numbers) => {
            let keys = keys(numbers);
            store.insert(&keys).unwrap();
            for key in keys {
                *model.entry(key).or_default() += 1;
            }
        }
        Step::Remove(numbers) => {
            store.remove(&keys(numbers)).unwrap();
            for number in numbers {
                model.remove(&key(*number));
            }
        }
        Step::Refer(counts) => {
            let counts: Vec<_> = counts.iter().map(|&(number, count)| (key(number), count)).collect();
            store.add_references(&counts).unwrap();
            for (key, count) in counts {
                model.entry(key).and_modify(|sum| *sum += u64::from(count));
            }
        }
        Step::Reopen => {}
    }
}

/// Plays steps; `open` is called again at each [`Step::Reopen`].
fn check<M: OrderedMap>(open: impl Fn() -> PackedStore<M>, steps: &[Step], universe: u16, counting: bool) {
    let mut model = BTreeMap::new();
    let mut store = Some(open());
    for step in steps {
        let current = store.as_ref().expect("it is open");
        apply(current, &mut model, step);
        if matches!(step, Step::Reopen) {
            current.flush().unwrap();
            let before = (current.runs(), current.disk_bytes());
            // A database is locked while it is open.
            drop(store.take());
            let opened = open();
            assert_eq!((opened.runs(), opened.disk_bytes()), before);
            store = Some(opened);
        }
        let current = store.as_ref().expect("it is open");
        compare(current, &model, universe, counting);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_is_a_map_with_counts(steps in steps(300), shape in shapes(), counting: bool) {
        let map = Fragile::new();
        check(|| PackedStore::new(map.clone(), shape, counting).unwrap(), &steps, 300, counting);
    }

    /// Stopped at any write, and started again: what was acknowledged is there, what was removed is
    /// not, and of what was being written each key is there or not.
    #[test]
    fn a_crash_loses_nothing(before in steps(300), after in steps(300), shape in shapes(), writes in 0_usize..200) {
        let map = Fragile::new();
        let mut model = BTreeMap::new();
        let store = PackedStore::new(map.clone(), shape, true).unwrap();
        for step in &before {
            apply(&store, &mut model, step);
        }
        map.writes_left.store(writes, Ordering::Relaxed);
        let mut unsure: Vec<UrlKey> = Vec::new();
        for step in &after {
            let (Step::Insert(numbers) | Step::Remove(numbers)) = step else { continue };
            let keys = keys(numbers);
            let inserts = matches!(step, Step::Insert(_));
            let done = if inserts { store.insert(&keys) } else { store.remove(&keys) };
            for key in &keys {
                if inserts { model.insert(*key, 1) } else { model.remove(key) };
            }
            if done.is_err() {
                unsure = keys;
                break;
            }
        }
        map.writes_left.store(usize::MAX, Ordering::Relaxed);

        // The same process may ask on, even if it should not write; another one starts again.
        let agrees = |store: &PackedStore<Fragile>| {
            let all = keys(&(0..300).collect::<Vec<_>>());
            let mut found = Vec::new();
            store.contains(&all, &mut found).unwrap();
            let mut scanned = Vec::new();
            store.scan(&mut |key| scanned.push(key)).unwrap();
            assert!(scanned.is_sorted_by(|a, b| a < b), "each once, in order");
            for (key, found) in all.iter().zip(found) {
                assert_eq!(found, scanned.binary_search(key).is_ok());
                assert!(unsure.contains(key) || found == model.contains_key(key), "{key}: {found}");
            }
        };
        agrees(&store);
        let store = PackedStore::new(map.clone(), shape, true).unwrap();
        agrees(&store);
        // It goes on as if nothing had happened.
        store.insert(&unsure).unwrap();
        model.extend(unsure.iter().map(|&key| (key, 1)));
        for number in 300..310 {
            store.insert(&[key(number)]).unwrap();
            model.insert(key(number), 1);
        }
        let expected: Vec<_> = model.keys().copied().collect();
        let mut scanned = Vec::new();
        store.scan(&mut |key| scanned.push(key)).unwrap();
        prop_assert_eq!(scanned, expected);
    }

    #[test]
    fn damage_is_an_error(numbers in proptest::collection::vec(0_u16..300, 1..200), at: prop::sample::Index,
                          byte: prop::sample::Index, bits: u8, cut: bool) {
        let map = Fragile::new();
        PackedStore::new(map.clone(), Shape::default(), true).unwrap().insert(&keys(&numbers)).unwrap();
        {
            let mut disk = map.disk.lock().unwrap();
            let at = at.index(disk.len());
            let value = disk.values_mut().nth(at).unwrap();
            let byte = byte.index(value.len());
            if cut { value.truncate(byte) } else { value[byte] ^= bits }
        }
        // It may still be understood, as something else; it must not panic.
        match PackedStore::new(map, Shape::default(), true) {
            Err(error) => assert!(matches!(error, StoreError::Damaged { .. })),
            Ok(store) => {
                prop_assert!(!cut);
                let mut found = Vec::new();
                prop_assert!(store.contains(&keys(&numbers), &mut found).is_ok());
                prop_assert!(store.remove(&keys(&numbers)).is_ok());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn it_is_one_in_sled(steps in steps(4_000), shape in shapes(), counting: bool) {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let db = sled::Config::new().path(folder.path()).open().unwrap();
            PackedStore::new(SledMap::open(&db).unwrap(), shape, counting).unwrap()
        };
        check(open, &steps, 4_000, counting);
    }

    #[test]
    fn it_is_one_in_redb(steps in steps(4_000), shape in shapes(), counting: bool) {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let map = RedbMap::open(&folder.path().join("seen.redb"), 1 << 20).unwrap();
            PackedStore::new(map, shape, counting).unwrap()
        };
        check(open, &steps, 4_000, counting);
    }
}

#[test]
fn nothing_else_is_taken_for_a_store() {
    let db = sled::Config::new().temporary(true).open().unwrap();
    // What the tree held before keys were packed.
    db.open_tree("seen").unwrap().insert(key(1).as_bytes(), &[]).unwrap();
    assert!(matches!(SledStore::open(&db, false), Err(StoreError::Damaged { .. })));
}

/// One thread inserts and merges, another asks for what was acknowledged.
fn asked_while_written<M: OrderedMap>(map: M) {
    const BATCH: u16 = 500;
    const BATCHES: u16 = 60;
    let store = PackedStore::new(map, Shape { fan_in: 2, smallest: 300, step: 1 }, false).unwrap();
    let (acknowledged, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for batch in 0..BATCHES {
                store.insert(&keys(&(batch * BATCH..(batch + 1) * BATCH).collect::<Vec<_>>())).unwrap();
                acknowledged.store(usize::from((batch + 1) * BATCH), Ordering::Release);
            }
            over.store(true, Ordering::Release);
        });
        let (mut found, mut toss) = (Vec::new(), 1_u64);
        while !over.load(Ordering::Acquire) {
            let there = acknowledged.load(Ordering::Acquire);
            let mut asked = Vec::new();
            for _ in 0..64.min(there) {
                toss = toss.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                asked.push(((toss >> 33) as usize % there) as u16);
            }
            store.contains(&keys(&asked), &mut found).unwrap();
            assert!(found.iter().all(|&found| found), "an acknowledged key was missed");
        }
    });
    assert_eq!(store.census().unwrap().entries, u64::from(BATCH * BATCHES));
    assert!(store.runs() <= 8, "{} runs", store.runs());
}

#[test]
fn keys_are_found_while_they_are_merged_in_memory() {
    asked_while_written(Fragile::new());
}

#[test]
fn keys_are_found_while_they_are_merged_in_sled() {
    let db = sled::Config::new().temporary(true).open().unwrap();
    asked_while_written(SledMap::open(&db).unwrap());
}

#[test]
fn keys_are_found_while_they_are_merged_in_redb() {
    let folder = tempfile::tempdir().unwrap();
    asked_while_written(RedbMap::open(&folder.path().join("seen.redb"), 1 << 20).unwrap());
}
