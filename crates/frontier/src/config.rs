//! Section `[frontier]`.

use model::ConfigError;
use serde::{Deserialize, Serialize};

/// Section `[frontier]`: the order of fetching.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrontierConfig {
    /// The order within a host: "breadth-first" takes the URLs fewest links away from a seed first.
    pub order: Order,
    /// Pages fetched per host at most; 0 for no limit.
    pub per_host_max_pages: u64,
    /// Queued URLs kept in memory per host; the rest waits in the queue table. With very many hosts it is fewer.
    pub head: usize,
}

/// The orders there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By depth, then by admission.
    BreadthFirst,
}

impl Default for FrontierConfig {
    fn default() -> Self {
        Self { order: Order::BreadthFirst, per_host_max_pages: 0, head: 256 }
    }
}

impl FrontierConfig {
    /// Finds every value that cannot be.
    ///
    /// # Errors
    /// All of them at once.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut problems = ConfigError::default();
        problems.require(
            (4..=1_000_000).contains(&self.head),
            "frontier.head",
            format!("{} URLs is not between 4 and 1 000 000", self.head),
        );
        problems.into_result()
    }
}
