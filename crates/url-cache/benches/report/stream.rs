//! Streams of links, page by page: recorded ones, and made ones of the same shape.
//!
//! A recorded stream is a file of pages: the number of links as a little-endian `u32`, then so many
//! keys of 24 bytes; pages follow each other until the file ends.
//!
//! A made one is for runs whose number of known URLs can be chosen. Hosts have sizes by Zipf's law, and
//! are visited as often as they are large. A page of a host holds, in this order:
//!
//! * its **navigation** links: the host's first URLs, the same on every page of it;
//! * **new** links, which nobody offered before;
//! * **far** repeats: any URL of the host with equal probability, however long ago it was offered;
//! * **popular** pages of the host: its URL of rank *r* with probability proportional to 1/*r*;
//! * and for the rest **recent** finds: the URL found *r* finds ago, again proportional to 1/*r*.
//!
//! The generator has one seed and no other source of chance, so a stream is the same everywhere.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use model::UrlKey;

use crate::keys::{Shuffled, fold, hash, key_on_host};

/// The numbers of a host's URLs begin at multiples of this.
const HOST_NUMBERS: u64 = 1 << 40;

/// Links of pages, one page after the other.
pub(crate) struct Stream {
    links: Vec<UrlKey>,
    /// Where each page ends in `links`.
    ends: Vec<usize>,
}

impl Stream {
    fn empty() -> Self {
        Self { links: Vec::new(), ends: Vec::new() }
    }

    /// Every link.
    pub(crate) fn links(&self) -> &[UrlKey] {
        &self.links
    }

    /// The links of each page.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[UrlKey]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.links[start..*end])
    }

    /// Reads a recorded stream, up to so many links.
    pub(crate) fn read(path: &Path, most: usize) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let mut stream = Self::empty();
        let mut count = [0; 4];
        while stream.links.len() < most {
            match file.read_exact(&mut count) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                other => other?,
            }
            for _ in 0..u32::from_le_bytes(count) {
                let mut key = [0; UrlKey::LEN];
                file.read_exact(&mut key)?;
                stream.links.push(UrlKey::from_bytes(key));
            }
            stream.ends.push(stream.links.len());
        }
        Ok(stream)
    }

    /// The stream as often as it takes to have so many links, each time on other hosts, page by page in turn:
    /// the same sites, as many times over, crawled at once. So duplicates and locality are the recorded ones,
    /// with distances in proportion to the number of hosts.
    pub(crate) fn interleaved(&self, links: usize) -> Self {
        let copies = links.div_ceil(self.links.len().max(1)) as u64;
        let mut stream = Self::empty();
        for page in self.pages() {
            for copy in 0..copies {
                stream.links.extend(page.iter().map(|key| elsewhere(*key, copy)));
                stream.ends.push(stream.links.len());
            }
        }
        stream
    }

    /// Writes the stream as a recorded one.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for page in self.pages() {
            file.write_all(&(page.len() as u32).to_le_bytes())?;
            page.iter().try_for_each(|key| file.write_all(key.as_bytes()))?;
        }
        file.flush()
    }
}

/// The same URL on another host: copy 0 is itself.
fn elsewhere(key: UrlKey, copy: u64) -> UrlKey {
    let other = |salt: u64| if copy == 0 { 0 } else { fold(copy ^ salt, 0x9e37_79b9_7f4a_7c15) };
    let hash = u128::from(other(1)) << 64 | u128::from(other(2));
    key_on_host(key.host().get() ^ other(3), key.url_hash() ^ hash)
}

/// The shape of a made stream. The defaults are those of `url-cache.md`: pages of 97 links, 80 to 85 % of
/// them offered before, and repeats of every distance.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Known URLs per host on average; it sets how many hosts there are.
    pub(crate) mean_host: u64,
    /// Sizes of hosts are proportional to rank to the power of minus this.
    pub(crate) zipf: f64,
    /// Links of a page.
    pub(crate) page: usize,
    /// How many of them are navigation.
    pub(crate) navigation: usize,
    /// Share of all links that nobody offered before.
    pub(crate) new: f64,
    /// Share of all links that repeat any URL of the host.
    pub(crate) far: f64,
    /// Share of all links that repeat popular pages of the host.
    pub(crate) popular: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { mean_host: 1000, zipf: 1.0, page: 97, navigation: 60, new: 0.18, far: 0.04, popular: 0.06 }
    }
}

/// A host: its first numbers are the known URLs, and what is found later follows.
struct Host {
    known: u64,
    found: u64,
    /// Known URLs of this host and all before it.
    until: u64,
}

/// The web of a made stream: hosts, their known URLs, and pages without end.
pub(crate) struct Web {
    shape: Shape,
    hosts: Vec<Host>,
    chance: Chance,
}

impl Web {
    /// A web of which so many URLs are known.
    pub(crate) fn new(shape: Shape, known: u64) -> Self {
        let hosts = (known / shape.mean_host).max(1);
        let weight = |rank: u64| ((rank + 1) as f64).powf(-shape.zipf);
        let sum: f64 = (0..hosts).map(weight).sum();
        let mut until = 0;
        let hosts = (0..hosts)
            .rev()
            .map(|rank| {
                // From the smallest to the largest, which takes what rounding left.
                let size = if rank == 0 { known - until } else { (known as f64 * weight(rank) / sum) as u64 };
                let size = size.min(known - until);
                until += size;
                Host { known: size, found: size, until }
            })
            .collect();
        Self { shape, hosts, chance: Chance(0x5eed_0f7b_e2c1_9a01) }
    }

    fn key(host: usize, number: u64) -> UrlKey {
        let host = host as u64;
        key_on_host(fold(host + 1, 0x9e37_79b9_7f4a_7c15), hash(host * HOST_NUMBERS + number))
    }

    fn host_of(&self, known: u64) -> usize {
        self.hosts.partition_point(|host| host.until <= known)
    }

    /// Every known URL once, in an order in which no two neighbours share more than chance would have it.
    pub(crate) fn known(&self) -> impl Iterator<Item = UrlKey> {
        let count = self.hosts.last().map_or(0, |host| host.until);
        let mut numbers = Shuffled::new(count.max(1), 0);
        (0..count).map(move |_| {
            let number = numbers.number();
            let host = self.host_of(number);
            Self::key(host, self.hosts[host].until - 1 - number)
        })
    }

    /// So many links or a few more: whole pages. Calls that follow go on where this one ended.
    pub(crate) fn stream(&mut self, links: usize) -> Stream {
        let mut stream = Stream::empty();
        while stream.links.len() < links {
            self.page(&mut stream.links);
            stream.ends.push(stream.links.len());
        }
        stream
    }

    /// URLs that the streams made so far were the first to offer.
    pub(crate) fn found(&self) -> u64 {
        self.hosts.iter().map(|host| host.found - host.known).sum()
    }

    fn page(&mut self, links: &mut Vec<UrlKey>) {
        let known = self.hosts.last().map_or(0, |host| host.until);
        let draw = self.chance.below(known);
        let number = self.host_of(draw);
        let Self { shape, hosts, chance } = self;
        let host = &mut hosts[number];
        let navigation = (shape.navigation as u64).min(host.found);
        links.extend((0..navigation).map(|link| Self::key(number, link)));
        // The others divide what is left of the page; a small host's page is short.
        let others = (shape.page - shape.navigation) as f64;
        let share = |share: f64| share * shape.page as f64 / others;
        let (new, far, popular) = (share(shape.new), share(shape.far), share(shape.popular));
        for _ in shape.navigation..shape.page {
            let draw = chance.unit();
            let link = if draw < new {
                host.found += 1;
                host.found - 1
            } else if draw < new + far {
                chance.below(host.found)
            } else if draw < new + far + popular {
                chance.rank_below(host.found)
            } else {
                host.found - 1 - chance.rank_below(host.found)
            };
            links.push(Self::key(number, link));
        }
    }
}

/// Splitmix64 (Steele, Lea & Flood 2014).
struct Chance(u64);

impl Chance {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(n)) >> 64) as u64
    }

    /// A rank from 0, with probability proportional to 1/(rank + 1): the logarithm is spread evenly.
    fn rank_below(&mut self, n: u64) -> u64 {
        let rank = ((n + 1) as f64).powf(self.unit()) as u64;
        (rank - 1).min(n - 1)
    }
}
