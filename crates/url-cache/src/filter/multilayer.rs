//! A filter for each segment of a URL, and one for the whole (Cen, Xu & Sun 2010).

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::bloom::{is_set, request, set_all, share_of_ones};
use super::hashing::derive;
use super::memory::Memory;
use super::{BloomShape, Fill, Filter, Nature, Question, expect_u64, read_u64, scale};

/// Questions whose bits are looked at together.
const BATCH: usize = 64;

/// The size of each layer of a [`MultilayerFilter`]: all have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape(BloomShape);

impl LayerShape {
    /// Layers that together have this false-positive rate when they hold `capacity` URLs.
    ///
    /// A new URL usually shares all but its last segment with known ones, so two layers stand between it
    /// and a wrong answer, that of its last segment and that of the whole: each has the rate `√rate`.
    pub fn with_rate(capacity: u64, rate: f64) -> Self {
        Self(BloomShape::with_rate(capacity, rate.sqrt()))
    }

    /// `m = n·k·M` bits in each layer, as [`BloomShape::explicit`].
    pub fn explicit(capacity: u64, hashes: u32, bits_per_hash: f64) -> Self {
        Self(BloomShape::explicit(capacity, hashes, bits_per_hash))
    }

    /// So many bits in each layer. The paper has 16,829,152 with 3 hashes, for 3,500,000 URLs (§V).
    pub fn bits(capacity: u64, bits: u64, hashes: u32) -> Self {
        Self(BloomShape { capacity: capacity.max(1), bits: bits.max(1), hashes: hashes.max(1) })
    }
}

/// The multi-layer Bloom filter of Cen, Xu & Sun 2010 (*A multi-layer Bloom filter for duplicated URL
/// detection*, §IV, algorithms 1 and 2): L layers, one for each segment of a URL, and one layer more
/// whose positions are the XOR of a URL's positions in the others. Without that one any mix of known
/// segments would be taken for known.
///
/// **Useful for** repeating that paper. **Not useful for** anything else: the paper expects the rate
/// `f^L`, but a new page of a known site has one new segment, and the rate is `f(last layer) × f(XOR
/// layer)`, which a classic filter has with two layers' bits instead of L + 1.
///
/// What the paper leaves open:
/// * **Segments.** The scheme, host and port are the first; `/` ends a segment until the query, and the
///   query is part of the last. The paper drops the scheme; here `http` and `https` are different URLs.
///   An empty segment is a segment, so `/a` and `/a/` differ.
/// * **More than L segments:** the last layer takes the rest of the text, joined.
/// * **Fewer than L segments:** only their layers are asked and marked, and the XOR is of these.
/// * **Equal segments** would cancel in the XOR if all layers hashed alike: each has a seed of its own.
/// * **m is no power of two,** so an XOR of positions may be m or more. It is reduced modulo m. The lower
///   positions are thus taken more often than the upper, which raises that layer's rate by up to a fifth
///   where m is midway between two powers of two, and hardly at the paper's m.
///
/// A segment's positions are `a + i·b` from the 128-bit XXH3 of its text with the layer's seed.
pub struct MultilayerFilter {
    /// The layers one after the other, each of `shape.words()`; the last one is the XOR layer.
    table: Memory<u64>,
    shape: BloomShape,
    /// The seed of each layer but the XOR layer, which hashes nothing.
    layer_seeds: Vec<u64>,
    /// URLs marked, by the number of their segments less one.
    marked: Vec<u64>,
}

impl MultilayerFilter {
    /// An empty filter of so many layers, 1 at least, besides the XOR layer.
    pub fn new(layers: u32, shape: LayerShape, seeds: [u64; 2]) -> Self {
        let LayerShape(shape) = shape;
        let layer_seeds: Vec<u64> = (0..u64::from(layers.max(1))).map(|layer| derive(seeds, layer)).collect();
        let layers = layer_seeds.len();
        let table = Memory::zeroed(shape.words().saturating_mul(layers + 1));
        Self { table, shape, layer_seeds, marked: vec![0; layers] }
    }

    /// Finds the positions of a batch and requests the words that are probably in no cache.
    fn find(&self, batch: &[Question<'_>], places: &mut Places) {
        let words = self.table.values();
        places.positions.clear();
        places.ends.clear();
        for question in batch {
            let start = places.positions.len();
            self.push_positions(question.url, &mut places.positions);
            places.ends.push(places.positions.len());
            let telling = places.positions[start..].iter().take(2 * self.shape.hashes as usize);
            telling.for_each(|position| request(words, *position));
        }
    }

    /// Appends a URL's positions in the table, `k` for each of its layers. Those that tell most come
    /// first: of the last segment, then of the whole, then of the other segments, which many URLs share.
    fn push_positions(&self, url: &str, positions: &mut Vec<u64>) {
        let hashes = self.shape.hashes as usize;
        let start = positions.len();
        for (segment, seed) in segments(url, self.layer_seeds.len()).zip(&self.layer_seeds) {
            let hash = xxh3_128_with_seed(segment.as_bytes(), *seed);
            let (mut word, step) = ((hash >> 64) as u64, hash as u64 | 1);
            for _ in 0..hashes {
                positions.push(scale(word, self.shape.bits));
                word = word.wrapping_add(step);
            }
        }
        let its_segments = (positions.len() - start) / hashes;
        for number in 0..hashes {
            let of_each = positions[start..].iter().skip(number).step_by(hashes).take(its_segments);
            let xored = of_each.fold(0, |xored, position| xored ^ position);
            positions.push(xored % self.shape.bits);
        }
        // So far these are positions within their layers.
        let layer_bits = self.shape.words() as u64 * 64;
        for (layer, positions) in positions[start..].chunks_mut(hashes).enumerate() {
            let layer = if layer == its_segments { self.layer_seeds.len() } else { layer };
            for position in positions {
                *position += layer as u64 * layer_bits;
            }
        }
        positions[start..].rotate_left((its_segments - 1) * hashes);
    }

    /// Counts a URL that has these positions.
    fn count(&mut self, positions: usize) {
        // `k` for each segment and `k` for the whole.
        let its_segments = positions / self.shape.hashes as usize - 1;
        let marked = &mut self.marked[its_segments - 1];
        *marked = marked.saturating_add(1);
    }

    fn items(&self) -> u64 {
        self.marked.iter().fold(0, |items, marked| items.saturating_add(*marked))
    }
}

/// The positions of a batch, one question's after the other's.
#[derive(Default)]
struct Places {
    positions: Vec<u64>,
    /// Where each question's positions end.
    ends: Vec<usize>,
}

impl Places {
    /// The positions of each question.
    fn each(&self) -> impl Iterator<Item = &[u64]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.positions[*start..*end])
    }
}

/// A URL's segments, one at least and `most` at most: the last takes the rest.
fn segments(url: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(url);
    // The slashes of `http://` separate nothing.
    let mut from = url.find("://").map_or(0, |at| at + 3);
    (1..=most).map_while(move |number| {
        let text = rest.take()?;
        let separator = text.as_bytes()[from..].iter().position(|byte| matches!(byte, b'/' | b'?'));
        let slash = separator.map(|at| from + at).filter(|at| number < most && text.as_bytes()[*at] == b'/');
        from = 0;
        Some(slash.map_or(text, |at| {
            rest = Some(&text[at + 1..]);
            &text[..at]
        }))
    })
}

impl Filter for MultilayerFilter {
    fn nature(&self) -> Nature {
        Nature { no_is_proof: true, removes: false, reads_text: true }
    }

    fn ask(&self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let words = self.table.values();
        let mut places = Places::default();
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            self.find(batch, &mut places);
            for (positions, maybe) in places.each().zip(maybe) {
                *maybe = positions.iter().all(|position| is_set(words, *position));
            }
        }
    }

    fn ask_and_mark(&mut self, questions: &[Question<'_>], maybe: &mut [bool]) {
        let mut places = Places::default();
        for (batch, maybe) in questions.chunks(BATCH).zip(maybe.chunks_mut(BATCH)) {
            self.find(batch, &mut places);
            for (positions, maybe) in places.each().zip(maybe) {
                *maybe = !set_all(self.table.values_mut(), positions);
                if !*maybe {
                    self.count(positions.len());
                }
            }
        }
    }

    fn mark(&mut self, questions: &[Question<'_>]) {
        let mut places = Places::default();
        for batch in questions.chunks(BATCH) {
            self.find(batch, &mut places);
            set_all(self.table.values_mut(), &places.positions);
            places.each().for_each(|positions| self.count(positions.len()));
        }
    }

    fn room(&self) -> u64 {
        self.shape.capacity.saturating_sub(self.items())
    }

    /// The predicted rate is that of URLs of which only the last segment is new, and which have as many
    /// segments as those marked.
    fn fill(&self) -> Fill {
        let layers = self.table.values().chunks(self.shape.words());
        let shares: Vec<f64> = layers.map(|words| share_of_ones(words, self.shape.bits)).collect();
        let rate = |share: &f64| share.powi(self.shape.hashes.cast_signed());
        let items = self.items();
        let last_segments: f64 =
            shares.iter().zip(&self.marked).map(|(share, marked)| rate(share) * *marked as f64).sum::<f64>();
        Fill {
            items,
            capacity: self.shape.capacity,
            ratio: shares.iter().sum::<f64>() / shares.len() as f64,
            predicted_false_positive_rate: last_segments / items.max(1) as f64 * shares.last().map_or(0.0, rate),
            bytes: self.table.bytes(),
            stages: 1,
        }
    }

    fn copy(&self) -> Box<dyn Filter> {
        Box::new(Self {
            table: self.table.duplicate(),
            shape: self.shape,
            layer_seeds: self.layer_seeds.clone(),
            marked: self.marked.clone(),
        })
    }

    fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        let numbers = [self.layer_seeds.len() as u64, self.shape.bits, u64::from(self.shape.hashes)];
        for number in numbers.iter().chain(&self.marked) {
            to.write_all(&number.to_le_bytes())?;
        }
        self.table.save(to)
    }

    fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        expect_u64(from, "layers", self.layer_seeds.len() as u64)?;
        expect_u64(from, "bits in a layer", self.shape.bits)?;
        expect_u64(from, "positions in a layer", u64::from(self.shape.hashes))?;
        for marked in &mut self.marked {
            *marked = read_u64(from)?;
        }
        self.table.load(from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::CanonicalUrl;
    use proptest::prelude::*;

    use super::*;
    use crate::Generation;

    fn questions(urls: &[CanonicalUrl]) -> Vec<Question<'_>> {
        urls.iter().map(|url| Question { key: url.key(), url: url.as_str() }).collect()
    }

    fn ask(filter: &MultilayerFilter, urls: &[CanonicalUrl]) -> Vec<bool> {
        let mut maybe = vec![false; urls.len()];
        filter.ask(&questions(urls), &mut maybe);
        maybe
    }

    fn parse(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    /// Pages of few hosts and folders, as a crawl meets them, with a number after each.
    fn pages(numbers: std::ops::Range<u32>, suffix: &str) -> Vec<CanonicalUrl> {
        numbers.map(|n| parse(&format!("http://h{}.test/a{}/b{}/page{n}{suffix}", n % 50, n % 7, n % 11))).collect()
    }

    fn filled(shape: LayerShape, generation: u32, urls: &[CanonicalUrl]) -> MultilayerFilter {
        let mut filter = MultilayerFilter::new(4, shape, Generation::of_visit(generation).filter_seeds(0));
        filter.mark(&questions(urls));
        filter
    }

    #[test]
    fn urls_are_cut_where_the_documentation_says() {
        fn check(url: &str, most: usize, expected: &[&str]) {
            assert_eq!(segments(url, most).collect::<Vec<_>>(), expected, "{url} in {most}");
        }
        check("http://h/", 4, &["http://h", ""]);
        check("https://h:81/a/b", 4, &["https://h:81", "a", "b"]);
        check("http://h/a/b/", 4, &["http://h", "a", "b", ""]);
        check("http://h/a//b", 9, &["http://h", "a", "", "b"]);
        check("http://h/a/b/c/d/e?f/g", 4, &["http://h", "a", "b", "c/d/e?f/g"]);
        check("http://h/a?b=/c/d&e=http://i/", 4, &["http://h", "a?b=/c/d&e=http://i/"]);
        check("http://h/a/b", 1, &["http://h/a/b"]);
        check("no url", 4, &["no url"]);
        check("", 4, &[""]);
        check("/a", 4, &["", "a"]);
    }

    proptest! {
            /// No two URLs have the same segments, and none is lost.
            #[test]
            fn segments_joined_are_the_url(url in "(https?://)?[ab/?é:]{0,20}", most in 1_usize..6) {
                let cut: Vec<&str> = segments(&url, most).collect();
                prop_assert!((1..=most).contains(&cut.len()));
                prop_assert_eq!(cut.join("/"), url);
            }

            /// Batches answer and mark as algorithms 1 and 2, one URL after the other.
            #[test]
            fn batches_do_what_the_papers_algorithms_do(
                batches in proptest::collection::vec((0_u8..3, proptest::collection::vec(0_u32..300, 0..150)), 1..6),
                layers in 1_u32..6,
                bits in 1_u64..3000,
                hashes in 1_u32..5,
            ) {
                let mut filter = MultilayerFilter::new(layers, LayerShape::bits(100, bits, hashes), [5, 6]);
                let mut model = Model { layers: layers as usize, bits, hashes, set: HashSet::new() };
                for (call, numbers) in batches {
                    let urls: Vec<CanonicalUrl> =
                        numbers.iter().map(|n| parse(&format!("http://h{}/{}", n % 3, "x/".repeat(*n as usize % 5) + &n.to_string()))).collect();
                    let (mut maybe, mut expected) = (vec![false; urls.len()], vec![false; urls.len()]);
                    match call {
                        0 => {
                            filter.ask(&questions(&urls), &mut maybe);
                            expected = urls.iter().map(|url| model.query(url)).collect();
                        }
                        1 => {
                            filter.ask_and_mark(&questions(&urls), &mut maybe);
                            for (url, expected) in urls.iter().zip(&mut expected) {
                                *expected = model.query(url);
                                model.insert(url);
                            }
                        }
                        _ => {
                            filter.mark(&questions(&urls));
                            for url in &urls {
     model.insert(url);
    }
                        }
                    }
                    prop_assert_eq!(maybe, expected);
                }
            }
        }

    /// The paper's figures 3 and 4, bit by bit.
    struct Model {
        layers: usize,
        bits: u64,
        hashes: u32,
        set: HashSet<(usize, u64)>,
    }

    impl Model {
        fn positions(&self, url: &CanonicalUrl) -> Vec<(usize, u64)> {
            let mut whole = vec![0; self.hashes as usize];
            let mut positions = Vec::new();
            for (layer, segment) in url.as_str().replacen("://", ":", 1).splitn(self.layers, '/').enumerate() {
                let segment = if layer == 0 { segment.replacen(':', "://", 1) } else { segment.to_owned() };
                let hash = xxh3_128_with_seed(segment.as_bytes(), derive([5, 6], layer as u64));
                for (number, whole) in whole.iter_mut().enumerate() {
                    let word = ((hash >> 64) as u64).wrapping_add((hash as u64 | 1).wrapping_mul(number as u64));
                    let position = ((u128::from(word) * u128::from(self.bits)) >> 64) as u64;
                    positions.push((layer, position));
                    *whole ^= position;
                }
            }
            positions.extend(whole.into_iter().map(|position| (self.layers, position % self.bits)));
            positions
        }

        fn insert(&mut self, url: &CanonicalUrl) {
            let positions = self.positions(url);
            self.set.extend(positions);
        }

        fn query(&self, url: &CanonicalUrl) -> bool {
            self.positions(url).iter().all(|position| self.set.contains(position))
        }
    }

    /// The paper's experiment at a hundredth of its size: its parameters (§V), and as questions its URLs
    /// joined with an id each. Its formula 4 expects `f⁴`.
    #[test]
    fn wrong_answers_follow_the_last_layer_and_the_xor_layer() {
        let urls = pages(0..30_000, "");
        let filter = filled(LayerShape::bits(35_000, 168_292, 3), 0, &urls);
        assert!(ask(&filter, &urls).iter().all(|maybe| *maybe), "members are always found");

        let wrong = ask(&filter, &pages(0..30_000, "-id")).iter().filter(|maybe| **maybe).count() as f64 / 30_000.0;
        let f = (1.0 - (-3.0 * 30_000.0 / 168_292.0_f64).exp()).powi(3);
        assert!((wrong / (f * f) - 1.0).abs() < 0.3, "{wrong} measured, {} is f(last) × f(XOR)", f * f);
        assert!(wrong > 50.0 * f.powi(4), "{wrong} measured, {} is the paper's", f.powi(4));
        let predicted = filter.fill().predicted_false_positive_rate;
        assert!((predicted / wrong - 1.0).abs() < 0.25, "{predicted} predicted, {wrong} measured");
    }

    /// Without the XOR layer every mix would be found.
    #[test]
    fn mixes_of_known_segments_are_told_apart() {
        let filter = filled(LayerShape::with_rate(1000, 1e-6), 0, &pages(0..1000, ""));
        let mixes: Vec<CanonicalUrl> = (0..1000)
            .map(|n| parse(&format!("http://h{}.test/a{}/b{}/page{n}", (n + 1) % 50, n % 7, n % 11)))
            .collect();
        let wrong = ask(&filter, &mixes).iter().filter(|maybe| **maybe).count();
        // The XOR layer alone has a rate of one in a thousand.
        assert!(wrong <= 6, "{wrong} of 1000");
    }

    #[test]
    fn equal_segments_do_not_cancel() {
        let known: Vec<CanonicalUrl> = ["http://h/a/a/b", "http://h/c/c/b", "http://h/b/a"].map(parse).into();
        let strangers: Vec<CanonicalUrl> =
            ["http://h/c/a/b", "http://h/a/c/b", "http://h/b/c", "http://h/a/b", "https://h/a/a/b", "http://h/a/a/b/"]
                .map(parse)
                .into();
        let filter = filled(LayerShape::with_rate(100, 1e-9), 0, &known);
        assert!(ask(&filter, &known).iter().all(|maybe| *maybe));
        assert!(ask(&filter, &strangers).iter().all(|maybe| !maybe));
    }

    #[test]
    fn the_rate_is_the_one_asked_for() {
        for rate in [0.1, 0.01] {
            let filter = filled(LayerShape::with_rate(4000, rate), 1, &pages(0..4000, ""));
            let wrong =
                ask(&filter, &pages(10_000..40_000, "")).iter().filter(|maybe| **maybe).count() as f64 / 30_000.0;
            assert!((wrong / rate - 1.0).abs() < 0.3, "{wrong} measured, {rate} asked");
        }
    }

    #[test]
    fn generations_err_independently() {
        let (known, strangers) = (pages(0..4000, ""), pages(10_000..30_000, ""));
        let shape = LayerShape::with_rate(4000, 0.1);
        let [first, second] = [0, 1].map(|generation| ask(&filled(shape, generation, &known), &strangers));
        let both = first.iter().zip(&second).filter(|(first, second)| **first && **second).count();
        // ε² of 20 000 is 200; one shared seed would give 2 000.
        assert!((120..330).contains(&both), "{both} strangers were taken for members twice");
    }

    #[test]
    fn it_counts_what_was_marked() {
        let urls = pages(0..100, "");
        let mut filter = filled(LayerShape::explicit(150, 4, 3.0), 0, &urls);
        assert_eq!((filter.fill().items, filter.fill().capacity, filter.room()), (100, 150, 50));
        filter.ask_and_mark(&questions(&urls), &mut [false; 100]);
        assert_eq!(filter.room(), 50, "members are not counted twice");
        filter.mark(&questions(&urls[..60]));
        assert_eq!(filter.room(), 0, "whom the caller marks is a member more");
        assert_eq!(filter.fill().bytes, 5 * 8 * (150_usize * 4 * 3).div_ceil(64));
        let empty = filled(LayerShape::with_rate(10, 0.1), 0, &[]).fill();
        assert_eq!((empty.items, empty.ratio, empty.predicted_false_positive_rate), (0, 0.0, 0.0));
    }

    #[test]
    fn it_is_saved_loaded_and_copied() {
        let urls = pages(0..2000, "");
        let shape = LayerShape::with_rate(3000, 0.01);
        let filter = filled(shape, 2, &urls);
        let mut saved = Vec::new();
        filter.save(&mut saved).unwrap();
        let mut loaded = filled(shape, 2, &pages(0..9, "x"));
        loaded.load(&mut saved.as_slice()).unwrap();
        assert!(ask(&loaded, &urls).iter().all(|maybe| *maybe));
        assert_eq!(loaded.fill(), filter.fill());
        assert_eq!(filter.copy().fill(), filter.fill());
        let mut again = Vec::new();
        filter.copy().save(&mut again).unwrap();
        assert_eq!(again, saved);

        for length in [0, 7, 23, 40, saved.len() - 1] {
            assert!(loaded.load(&mut &saved[..length]).is_err(), "torn after {length} bytes");
        }
        let mut other = MultilayerFilter::new(5, shape, [1, 2]);
        assert!(other.load(&mut saved.as_slice()).is_err(), "of other layers");
        let mut other = MultilayerFilter::new(4, LayerShape::with_rate(3001, 0.01), [1, 2]);
        assert!(other.load(&mut saved.as_slice()).is_err(), "of another size");
        // A count that cannot be does no harm.
        saved[24..32].fill(0xff);
        loaded.load(&mut saved.as_slice()).unwrap();
        loaded.mark(&questions(&urls));
        assert_eq!(loaded.room(), 0);
    }

    /// Saved filters reach the disk. If this test fails, old ones can no longer be read.
    #[test]
    fn bits_never_change() {
        let mut saved = Vec::new();
        filled(LayerShape::bits(100, 5000, 3), 0, &pages(0..100, "?q")).save(&mut saved).unwrap();
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&saved) as u32, 0x7c1b_a2e7);
    }
}
