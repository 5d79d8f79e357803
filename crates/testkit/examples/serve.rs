//! Serves a web until standard input ends: `cargo run --release -p testkit --example serve [PAGES]`.
//!
//! Prints the configuration that leads a crawler there. To measure the server alone:
//! `wrk -c 16 -d 10 -H 'Host: www.site-000.test' http://127.0.0.1:PORT/`.

use std::io::{self, Read, Write};
use std::time::Instant;

use testkit::{Server, ServerOptions, Web, WebConfig};

fn main() -> io::Result<()> {
    let pages = std::env::args().nth(1).and_then(|pages| pages.parse().ok());
    let web = Web::new(pages.map_or_else(WebConfig::demo, WebConfig::large));
    let server = Server::start(web.clone(), ServerOptions { log_limit: 0, ..ServerOptions::default() })?;
    writeln!(io::stdout(), "{}\n# seeds: {}", server.config_toml(), web.seeds().join(" "))?;
    let started = Instant::now();
    io::stdin().read_to_end(&mut Vec::new())?;
    writeln!(io::stderr(), "{} requests in {:.1?}", server.requests(), started.elapsed())
}
