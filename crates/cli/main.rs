//! `argiope`: parse, build, run, and map the end to an exit code.

mod args;
mod commands;
mod logging;
mod printed;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};
use crate::commands::Ended;

fn main() -> ExitCode {
    let Args { command, global } = Args::parse();
    logging::start(&global);
    let ended = match command {
        Command::Demo(demo) => commands::demo::run(&demo, &global),
        Command::Crawl(crawl) => commands::crawl::run(&crawl, &global),
        Command::Recrawl(recrawl) => commands::recrawl::run(&recrawl, &global),
        Command::Status(status) => commands::status::run(&status),
        Command::Why(why) => commands::why::run(&why),
        Command::Export(export) => commands::export::run(&export),
        Command::Config(config) => commands::config::run(&config),
    };
    match ended {
        Ok(ended) => ended.into(),
        Err(error) => {
            printed::error(&error);
            Ended::of_error(&error).into()
        }
    }
}
