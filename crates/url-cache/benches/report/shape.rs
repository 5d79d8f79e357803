//! Mode `stream`: the shape of a stream of links, for a recorded one and a made one side by side.

use serde_json::json;

use crate::output::Output;
use crate::stream::Stream;

/// What of a stream decides the work of each tier.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measures {
    pages: usize,
    links: usize,
    /// Different URLs, which is the number of first offers.
    pub(crate) distinct: usize,
    /// First offers of URLs that were known before the stream began.
    known: usize,
    /// For each `k`, repeats before which fewer than 2^k other URLs were offered since the last offer of
    /// the same, and not fewer than 2^(k − 1).
    distances: Vec<usize>,
}

impl Measures {
    /// Measures a stream. `new` is how many of its URLs were not known before, where one knows.
    pub(crate) fn of(stream: &Stream, new: Option<usize>) -> Self {
        let links = stream.links();
        let mut distances = vec![0; 33];
        let (mut distinct, mut latest) = (0, Marks::new(links.len()));
        for (place, before) in previous(stream).into_iter().enumerate() {
            if let Some(before) = before {
                // Each URL in between is marked once, where it was offered last.
                let between = latest.below(place) - latest.below(before + 1);
                distances[(usize::BITS - between.leading_zeros()) as usize] += 1;
                latest.change(before, -1);
            } else {
                distinct += 1;
            }
            latest.change(place, 1);
        }
        let known = distinct - new.unwrap_or(distinct);
        Self { pages: stream.pages().count(), links: links.len(), distinct, known, distances }
    }

    fn share(&self, links: usize) -> f64 {
        links as f64 * 100.0 / self.links.max(1) as f64
    }
}

/// For each link, where the same one stood before.
fn previous(stream: &Stream) -> Vec<Option<usize>> {
    let links = stream.links();
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_unstable_by_key(|place| (links[*place], *place));
    let mut previous = vec![None; links.len()];
    for pair in order.windows(2) {
        if links[pair[0]] == links[pair[1]] {
            previous[pair[1]] = Some(pair[0]);
        }
    }
    previous
}

/// Counts of places with sums over a prefix in logarithmic time (Fenwick 1994).
struct Marks(Vec<isize>);

impl Marks {
    fn new(places: usize) -> Self {
        Self(vec![0; places + 1])
    }

    fn change(&mut self, place: usize, by: isize) {
        let mut node = place + 1;
        while node < self.0.len() {
            self.0[node] += by;
            node += node & node.wrapping_neg();
        }
    }

    /// The sum over all places below this one.
    fn below(&self, place: usize) -> usize {
        let (mut node, mut sum) = (place, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum.cast_unsigned()
    }
}

/// Prints the measures of streams side by side.
pub(crate) fn report(output: &mut Output, streams: &[(&str, Measures)]) {
    output.title("The shape of the streams");
    let mut head = vec!["share of links, %".to_owned()];
    head.extend(streams.iter().map(|(name, _)| (*name).to_owned()));
    output.head(&head);
    let mut line = |name: String, value: &dyn Fn(&Measures) -> String| {
        let mut line = vec![name];
        line.extend(streams.iter().map(|(_, measures)| value(measures)));
        output.line(&line);
    };
    let percent = |value: f64| format!("{value:.2}");
    line("links".to_owned(), &|measures| measures.links.to_string());
    line("links per page".to_owned(), &|measures| percent(measures.links as f64 / measures.pages.max(1) as f64));
    line("offered before in the stream".to_owned(), &|m| percent(m.share(m.links - m.distinct)));
    line("known before the stream, first offer".to_owned(), &|m| percent(m.share(m.known)));
    line("new".to_owned(), &|m| percent(m.share(m.distinct - m.known)));
    let buckets = streams.iter().map(|(_, measures)| measures.distances.iter().rposition(|n| *n > 0)).max();
    for bucket in 0..=buckets.flatten().unwrap_or_default() {
        line(format!("fewer than 2^{bucket} other URLs since"), &|measures| {
            let upto: usize = measures.distances[..=bucket].iter().sum();
            format!(
                "{} (all below: {})",
                percent(measures.share(measures.distances[bucket])),
                percent(measures.share(upto))
            )
        });
    }
    for (name, measures) in streams {
        output.raw(&json!({
            "mode": "stream", "stream": name, "pages": measures.pages, "links": measures.links,
            "distinct": measures.distinct, "known": measures.known, "distances": measures.distances,
        }));
    }
}
