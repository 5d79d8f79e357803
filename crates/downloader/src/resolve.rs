//! From names to addresses that may be connected to.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverOpts};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::Name;
use model::FailureKind;
use reqwest::dns::{Addrs, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::DownloaderConfig;
use crate::address::AddressPolicy;
use crate::config::parse_target;
use crate::failure::Failure;
use crate::name_cache::NameCache;

/// Names kept at once: what a crawl of many hosts has in hand, in some 15 MB.
const CACHED_NAMES: usize = 65_536;
/// Answers hold at least so long, whatever they say: a page's neighbours follow within minutes, and
/// services that move every few seconds answer at their old address too.
const SHORTEST_ANSWER: Duration = Duration::from_mins(1);
/// And no longer than this: a crawl of weeks should notice that a host has moved.
const LONGEST_ANSWER: Duration = Duration::from_hours(1);
/// How long a name without addresses stays so, where the zone does not say (RFC 2308 §5).
const UNSAID_ABSENCE: Duration = Duration::from_mins(5);
/// How long a failed look-up is not repeated (RFC 2308 §7 allows up to five minutes).
const FAILED_LOOKUP: Duration = Duration::from_secs(30);
/// Questions per look-up, the first included: datagrams get lost.
const ATTEMPTS: u32 = 3;

/// Looks names up: overrides first, then `/etc/hosts`, then the system's name servers.
#[derive(Clone)]
pub(crate) struct NameResolver(Arc<Inner>);

struct Inner {
    overrides: HashMap<String, SocketAddr>,
    policy: Arc<AddressPolicy>,
    system: SystemResolver,
    cache: NameCache<Answer>,
    permits: Semaphore,
    timeout: Duration,
}

type Answer = Result<Arc<[IpAddr]>, Arc<Failure>>;

/// The system's resolver, or why there is none.
type SystemResolver = Result<TokioResolver, String>;

impl NameResolver {
    /// A resolver with the system's configuration. Without one it still knows the overrides.
    pub(crate) fn new(config: &DownloaderConfig, policy: Arc<AddressPolicy>) -> Self {
        let system = TokioResolver::builder_tokio()
            .and_then(|mut builder| {
                set_options(builder.options_mut(), config);
                builder.build()
            })
            .map_err(|error| format!("the system's DNS configuration cannot be used: {error}"));
        if let Err(error) = &system {
            tracing::warn!(error, "names cannot be looked up");
        }
        Self::with_system(config, policy, system)
    }

    fn with_system(config: &DownloaderConfig, policy: Arc<AddressPolicy>, system: SystemResolver) -> Self {
        let target = |(name, target): (&String, &String)| Some((key(name).into_owned(), parse_target(target)?));
        Self(Arc::new(Inner {
            overrides: config.resolve.iter().filter_map(target).collect(),
            policy,
            system,
            cache: NameCache::new(CACHED_NAMES),
            permits: Semaphore::new(config.max_concurrent.min(Semaphore::MAX_PERMITS)),
            timeout: config.dns_timeout(),
        }))
    }

    /// The addresses of `name` that may be connected to, IPv4 before IPv6; at least one. The port
    /// is 0 unless an override names one.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<SocketAddr>, Failure> {
        let name = key(name);
        let inner = &self.0;
        let found = match inner.overrides.get(&*name) {
            Some(target) => vec![*target],
            None => match inner.cache.get(&name, || inner.look_up(&name)).await {
                Ok(addresses) => addresses.iter().map(|&address| SocketAddr::new(address, 0)).collect(),
                Err(failure) => return Err(Failure::clone(&failure)),
            },
        };
        permitted(&inner.policy, &name, found)
    }
}

impl Resolve for NameResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let addresses = resolver.addresses(name.as_str()).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

impl Inner {
    /// One look-up, with how long its answer holds.
    async fn look_up(&self, name: &str) -> (Answer, Duration) {
        let looking = async {
            let _permit = self.permits.acquire().await;
            self.ask_system(name).await
        };
        let (answer, span) = tokio::time::timeout(self.timeout, looking).await.unwrap_or_else(|_| {
            let detail = format!("no answer about {name} from the name servers within {:?}", self.timeout);
            (Err(Failure::new(FailureKind::DnsFailed, detail)), FAILED_LOOKUP)
        });
        (answer.map_err(Arc::new), span)
    }

    async fn ask_system(&self, name: &str) -> (Result<Arc<[IpAddr]>, Failure>, Duration) {
        let system = match &self.system {
            Ok(system) => system,
            Err(reason) => return (Err(Failure::new(FailureKind::DnsFailed, reason)), FAILED_LOOKUP),
        };
        let Ok(mut query) = Name::from_ascii(name) else {
            let detail = format!("{name} cannot be a name in the DNS");
            return (Err(Failure::new(FailureKind::DnsNotFound, detail)), LONGEST_ANSWER);
        };
        // The names in URLs are whole. Only one without a dot is a local one, for which the
        // system's search list is meant; trying the list for others costs queries, and a wildcard
        // in it would answer for names that do not exist.
        query.set_fqdn(name.contains('.'));
        match system.lookup_ip(query).await {
            Ok(found) => {
                let addresses: Arc<[IpAddr]> = found.iter().collect();
                if addresses.is_empty() {
                    return (Err(not_found(name)), UNSAID_ABSENCE);
                }
                let holds = found.valid_until().saturating_duration_since(Instant::now());
                (Ok(addresses), holds.clamp(SHORTEST_ANSWER, LONGEST_ANSWER))
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
                let said = none.negative_ttl.map_or(UNSAID_ABSENCE, |seconds| Duration::from_secs(seconds.into()));
                (Err(not_found(name)), said.clamp(SHORTEST_ANSWER, LONGEST_ANSWER))
            }
            Err(error) => {
                let detail = format!("looking up {name}: {error}");
                (Err(Failure::new(FailureKind::DnsFailed, detail)), FAILED_LOOKUP)
            }
        }
    }
}

/// The addresses that the policy lets through; a failure if that is none of them.
pub(crate) fn permitted(
    policy: &AddressPolicy,
    host: &str,
    mut addresses: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, Failure> {
    let refused = addresses.iter().find_map(|address| Some((address.ip(), policy.refuses(address.ip())?)));
    addresses.retain(|address| policy.refuses(address.ip()).is_none());
    match refused {
        Some((address, kind)) if addresses.is_empty() => {
            let of_host = if host.is_empty() { String::new() } else { format!(" of {host}") };
            let detail = format!(
                "{address}{of_host} is {kind}: --allow-private or downloader.allow_private_addresses allows such, \
                 downloader.allow_networks a single network"
            );
            Err(Failure::new(FailureKind::PrivateAddress, detail))
        }
        _ => Ok(addresses),
    }
}

/// A name as it is compared: lower-case, and without the dot that only says it is whole.
fn key(name: &str) -> std::borrow::Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

fn not_found(name: &str) -> Failure {
    Failure::new(FailureKind::DnsNotFound, format!("{name} does not exist, or has no address"))
}

fn set_options(options: &mut ResolverOpts, config: &DownloaderConfig) {
    options.timeout = config.dns_timeout() / ATTEMPTS;
    options.attempts = (ATTEMPTS - 1) as usize;
    // A machine without IPv6 finds that out at once and for nothing; one without IPv4 after the
    // connector's 300 ms for the other family.
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Answers are kept here, where those who ask at the same time share one question.
    options.cache_size = 0;
    // Two queries per look-up; a name server reached by TCP gets them all over one connection.
    options.max_active_requests = config.max_concurrent.saturating_mul(2).max(32);
}

#[cfg(test)]
mod tests;
