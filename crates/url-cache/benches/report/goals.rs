//! The goals, as ratios: they hold or fail on any machine alike.

use std::collections::BTreeMap;

use serde_json::json;

use crate::filters::{Action, Limit, Measured};
use crate::output::Output;

/// One goal: what is compared, the ratio, its bound, and whether the bound is the least or the most.
struct Goal {
    name: &'static str,
    ratio: Option<f64>,
    bound: f64,
    at_least: bool,
}

impl Goal {
    fn at_least(name: &'static str, ratio: Option<f64>, bound: f64) -> Self {
        Self { name, ratio, bound, at_least: true }
    }

    fn at_most(name: &'static str, ratio: Option<f64>, bound: f64) -> Self {
        Self { name, ratio, bound, at_least: false }
    }

    fn verdict(&self) -> &'static str {
        match self.ratio {
            None => "not measured",
            Some(ratio) if self.at_least && ratio >= self.bound || !self.at_least && ratio <= self.bound => "yes",
            Some(_) => "no",
        }
    }
}

/// Prints the ratios of a table.
pub(crate) fn report(output: &mut Output, keys: u64, rate: f64, rows: &BTreeMap<&str, &Measured>, limit: Limit) {
    let get = |row: &str, action, batch| rows.get(row).and_then(|row| row.get(action, batch));
    let over = |above: Option<f64>, below: Option<f64>| Some(above? / below?);
    let fastbloom = |action| get("fastbloom 0.17", action, 1);
    let batched = |action| get("blocked", action, 32);
    let single = |action| get("blocked", action, 1);
    let bits = |row: &str| rows.get(row).map(|row| row.bits_per_key);
    let information = -rate.log2();
    let plain = information / std::f64::consts::LN_2;
    let cuckoo = (information + 3.0) / 0.95;
    let (positive, negative) = (Action::Positive, Action::Negative);
    let goals = [
        Goal::at_most(
            "blocked ×32, negative / line fetch ×32, called",
            over(batched(negative), Some(limit.called_by_32)),
            1.1,
        ),
        Goal::at_most(
            "blocked ×32, positive / line fetch ×32, called",
            over(batched(positive), Some(limit.called_by_32)),
            1.1,
        ),
        Goal::at_most(
            "blocked ×32, negative / line fetch ×32, one loop",
            over(batched(negative), Some(limit.by_32)),
            1.1,
        ),
        Goal::at_least("fastbloom's miss / blocked ×32", over(fastbloom(negative), batched(negative)), 6.0),
        Goal::at_least("fastbloom's hit / blocked ×32", over(fastbloom(positive), batched(positive)), 10.0),
        Goal::at_least(
            "fastbloom's insert / blocked ×32",
            over(fastbloom(Action::Insert), batched(Action::Insert)),
            10.0,
        ),
        Goal::at_least("fastbloom's miss / blocked, single", over(fastbloom(negative), single(negative)), 2.0),
        Goal::at_least("fastbloom's hit / blocked, single", over(fastbloom(positive), single(positive)), 2.0),
        Goal::at_most("blocked's bits / log₂(1/ε)/ln 2", over(bits("blocked"), Some(plain)), 1.10),
        Goal::at_most("cuckoo's bits / (log₂(1/ε) + 3)/0.95", over(bits("cuckoo"), Some(cuckoo)), 1.05),
    ];
    output.title(&format!("Goals: {} million keys, ε = {} %", keys as f64 / 1e6, rate * 100.0));
    output.head(&["ratio", "measured", "goal", "reached"].map(str::to_owned));
    for goal in &goals {
        let sign = if goal.at_least { '≥' } else { '≤' };
        let measured = goal.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        output.line(&[goal.name.to_owned(), measured, format!("{sign} {:.2}", goal.bound), goal.verdict().to_owned()]);
        output.raw(&json!({
            "mode": "goal", "name": goal.name, "keys": keys, "rate": rate, "ratio": goal.ratio,
            "bound": goal.bound, "at_least": goal.at_least,
        }));
    }
}
