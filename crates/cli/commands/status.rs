//! `argiope status`.

use anyhow::Context;

use super::Ended;
use crate::args::Status;
use crate::printed;

pub(crate) fn run(args: &Status) -> anyhow::Result<Ended> {
    let report = engine::status(&args.job)?;
    if args.json {
        let json = serde_json::to_string_pretty(&report).context("cannot write the status as JSON")?;
        printed::out(&format!("{json}\n"));
    } else {
        printed::out(&printed::report(&report));
    }
    Ok(Ended::Finished)
}
