//! The parse threads: from an exchange to everything that can be said of it without the crawl's state.
//!
//! Decoding, parsing, resolving, canonicalising, hashing, judging scope and compressing happen
//! here, off the loop. What comes out only needs to be asked about and written down.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use model::{
    CanonicalUrl, Disposition, Exchange, FailureKind, HopClass, Link, Page, QueuedUrl, Reason, UrlError, UrlKey,
};
use parser::{Input, Parser};
use scope::Scope;
use storage::{FetchFacts, PageFacts, Refused, Rendered, WarcRenderer};
use tokio::sync::mpsc::Sender;
use xxhash_rust::xxh3::xxh3_128;

use crate::config::Config;
use crate::error::EngineError;
use crate::event::{Alarm, Event};
use crate::settings::SettingsError;

/// Bytes kept of a refused reference. A page may refuse `parser.max_links` of them, and its record
/// must fit into the journal.
pub(crate) const MAX_REFERENCE: usize = 4096;

/// A fetched URL on its way to a parse thread.
pub(crate) struct PageJob {
    pub(crate) url: QueuedUrl,
    pub(crate) exchange: Box<Exchange>,
    pub(crate) attempts: u8,
    pub(crate) scope: Arc<Scope>,
}

/// A URL to be asked about: scope has admitted it.
pub(crate) struct Candidate {
    pub(crate) url: CanonicalUrl,
    pub(crate) key: UrlKey,
    pub(crate) depth: u16,
    pub(crate) redirects: u8,
    pub(crate) hop: HopClass,
}

/// A refused reference, and the hash by which it is recognised when other pages repeat it.
pub(crate) struct RefusedCandidate {
    pub(crate) hash: u128,
    pub(crate) refused: Refused,
}

/// A fetched URL with all that follows from it, but for what only the loop knows.
pub(crate) struct Finished {
    pub(crate) url: QueuedUrl,
    pub(crate) attempts: u8,
    pub(crate) disposition: Disposition,
    pub(crate) note: String,
    pub(crate) fetch: FetchFacts,
    pub(crate) page: Option<PageFacts>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) refused: Vec<RefusedCandidate>,
    pub(crate) rendered: Option<Rendered>,
}

/// The parse threads and the queue in front of them.
pub(crate) struct Pages {
    jobs: Option<SyncSender<PageJob>>,
    threads: Vec<JoinHandle<Result<(), EngineError>>>,
}

impl Pages {
    /// Starts the threads. `capacity` jobs can wait: as many as can be leased, so that the loop
    /// never blocks here.
    pub(crate) fn start(config: &Arc<Config>, capacity: usize, events: &Sender<Event>) -> Result<Self, EngineError> {
        let (sender, receiver) = sync_channel(capacity);
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = (0..config.crawl.parse_threads())
            .map(|number| {
                let (config, receiver, events) = (Arc::clone(config), Arc::clone(&receiver), events.clone());
                std::thread::Builder::new()
                    .name(format!("parse-{number}"))
                    .spawn(move || run(&config, &receiver, &events))
                    .map_err(|source| EngineError::System { what: "a parse thread", source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { jobs: Some(sender), threads })
    }

    /// Hands a page over.
    pub(crate) fn send(&self, job: PageJob) -> Result<(), EngineError> {
        self.jobs.as_ref().and_then(|jobs| jobs.try_send(job).ok()).ok_or(EngineError::ThreadDied { thread: "parse" })
    }

    /// Lets the threads finish what they have, and waits for them.
    pub(crate) fn stop(&mut self) -> Result<(), EngineError> {
        self.jobs = None;
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        ended.into_iter().try_for_each(|ended| ended.unwrap_or(Err(EngineError::ThreadDied { thread: "parse" })))
    }
}

fn run(config: &Config, jobs: &Mutex<Receiver<PageJob>>, events: &Sender<Event>) -> Result<(), EngineError> {
    let alarm = Alarm::new("parse", events.clone());
    let mut worker = Worker::new(config)?;
    loop {
        // The guard goes at the end of the statement: one thread waits, the others work.
        let job = jobs.lock().map(|jobs| jobs.recv());
        let Ok(Ok(job)) = job else { break };
        let finished = worker.process(job);
        if events.blocking_send(Event::Finished(Box::new(finished))).is_err() {
            break;
        }
    }
    alarm.disarm();
    Ok(())
}

struct Worker<'a> {
    config: &'a Config,
    parser: Parser,
    renderer: WarcRenderer,
}

impl<'a> Worker<'a> {
    fn new(config: &'a Config) -> Result<Self, EngineError> {
        let parser = Parser::new(&config.parser).map_err(SettingsError::from)?;
        Ok(Self { config, parser, renderer: WarcRenderer::new(config.storage.compression) })
    }

    fn process(&mut self, job: PageJob) -> Finished {
        let PageJob { url, exchange, attempts, scope } = job;
        let media_type = exchange.headers.media_type();
        let rendered = self.config.storage.keeps(media_type.as_deref()).then(|| self.renderer.render(&exchange));
        let fetch = FetchFacts {
            started: exchange.started,
            duration_us: u64::try_from(exchange.duration.as_micros()).unwrap_or(u64::MAX),
            address: exchange.address,
            body_bytes: exchange.body.len() as u64,
            truncated: exchange.truncated,
            payload_digest: rendered
                .as_ref()
                .map_or_else(|| storage::payload_digest(&exchange.body), |rendered| rendered.payload_digest),
            media_type,
            capture: None,
        };
        let mut finished = Finished {
            disposition: Disposition::Answered(exchange.status),
            note: String::new(),
            fetch,
            page: None,
            candidates: Vec::new(),
            refused: Vec::new(),
            rendered,
            url,
            attempts,
        };
        if exchange.location().is_some() {
            self.redirect(&exchange, &scope, &mut finished);
        } else if (200..300).contains(&exchange.status) {
            // A panic costs this page its links, is counted, and leaves its bytes for us to look at.
            if catch_unwind(AssertUnwindSafe(|| self.parse(&exchange, &scope, &mut finished))).is_err() {
                finished.candidates.clear();
                finished.refused.clear();
                finished.disposition = Disposition::Failed(FailureKind::Internal);
                "parsing panicked, which is a fault of argiope; the page was kept".clone_into(&mut finished.note);
                if let Ok(parser) = Parser::new(&self.config.parser) {
                    self.parser = parser;
                }
            }
        }
        finished
    }

    fn parse(&mut self, exchange: &Exchange, scope: &Scope, finished: &mut Finished) {
        let decoded = downloader::decode_body(exchange, self.config.downloader.max_decoded_body.0);
        if !parser::is_html(&exchange.headers, &decoded.body) {
            return;
        }
        let input = Input { url: &exchange.url, headers: &exchange.headers, body: &decoded.body };
        let page = self.parser.parse(input);
        let Page { links, refused, links_found, title, canonical, charset, robots, fields, mut complaints } = page;
        complaints.extend(decoded.complaint);
        complaints.sort_unstable();
        complaints.dedup();
        let depth = finished.url.depth.saturating_add(1);
        for link in links {
            self.sort_link(link, depth, scope, finished);
        }
        for refused in refused {
            finished.refuse(refused.reason, &refused.reference, "the reference as it stands on the page", depth);
        }
        finished.page = Some(PageFacts {
            title,
            charset: charset.map(str::to_owned),
            canonical,
            robots,
            links_found,
            fields,
            complaints,
        });
    }

    fn sort_link(&self, link: Link, depth: u16, scope: &Scope, finished: &mut Finished) {
        let Link { url, key, hop, nofollow } = link;
        // A meta refresh is a redirect in all but name.
        let (depth, redirects) = match hop {
            HopClass::Redirect => (finished.url.depth, finished.url.redirects.saturating_add(1)),
            HopClass::Navigation | HopClass::Seed => (depth, 0),
        };
        let refused = if nofollow {
            Some((Reason::Nofollow, "rel=nofollow, or the page's robots directives".into()))
        } else if redirects > self.config.downloader.max_redirects {
            Some((Reason::TooManyRedirects, self.max_redirects_rule()))
        } else {
            scope.judge(&url, depth).err().map(|refusal| (refusal.reason, refusal.rule))
        };
        match refused {
            Some((reason, rule)) => finished.refuse(reason, url.as_str(), &rule, depth),
            None => finished.candidates.push(Candidate { url, key, depth, redirects, hop }),
        }
    }

    fn max_redirects_rule(&self) -> Arc<str> {
        format!("downloader.max_redirects = {}", self.config.downloader.max_redirects).into()
    }

    /// A redirect is an outcome: its target goes the way of every link, at the depth of its source.
    /// The target of a redirected seed becomes a seed, else `http://example.org` would end at its
    /// own redirect to `https://www.example.org`.
    fn redirect(&self, exchange: &Exchange, scope: &Scope, finished: &mut Finished) {
        let location = exchange.location().unwrap_or_default();
        let depth = finished.url.depth;
        let redirects = finished.url.redirects.saturating_add(1);
        let url = match CanonicalUrl::join(&exchange.url.to_url(), location) {
            Ok(url) => url,
            Err(error) => {
                let reason = match error {
                    UrlError::Malformed(_) => Reason::Malformed,
                    UrlError::Scheme => Reason::UnsupportedScheme,
                };
                finished.refuse(reason, location, "the Location header", depth);
                return;
            }
        };
        if redirects > self.config.downloader.max_redirects {
            finished.refuse(Reason::TooManyRedirects, url.as_str(), &self.max_redirects_rule(), depth);
            return;
        }
        let (verdict, hop) = match finished.url.hop {
            HopClass::Seed => (scope.judge_seed(&url, depth), HopClass::Seed),
            HopClass::Navigation | HopClass::Redirect => (scope.judge(&url, depth), HopClass::Redirect),
        };
        match verdict {
            Ok(()) => {
                finished.candidates.push(Candidate { key: url.key(), url, depth, redirects, hop });
            }
            Err(refusal) => finished.refuse(refusal.reason, url.as_str(), &refusal.rule, depth),
        }
    }
}

impl Finished {
    fn refuse(&mut self, reason: Reason, reference: &str, rule: &str, depth: u16) {
        let hash = xxh3_128(reference.as_bytes());
        let reference = reference[..reference.floor_char_boundary(MAX_REFERENCE)].to_owned();
        self.refused
            .push(RefusedCandidate { hash, refused: Refused { reference, reason, rule: rule.to_owned(), depth } });
    }
}
