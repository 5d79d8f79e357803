# The entry points. `just` lists them.

_default:
    @just --list

# What every change must pass; the same as .ci/run.
check:
    .ci/run

# Licences, advisories and sources of the dependencies. Needs cargo-deny.
deny:
    cargo deny check

# The demo: a small web served from inside the program, and its crawl.
demo *args:
    cargo run --release -- demo {{args}}

# Crawl Debian's documentation packages served by nginx on loopback, and judge the crawl by nginx's log.
realweb *args:
    scripts/realweb.sh {{args}}

# Kill and resume a crawl a hundred times; prints what was lost, stored twice, fetched twice.
crash rounds="100":
    ARGIOPE_CRASH_ROUNDS={{rounds}} cargo test --release --test it -- crash --nocapture --test-threads=1

# One page's way through the parser, and the filters: criterion.
bench:
    cargo bench --workspace

# The report of the URL-seen test: filters, the whole gate, rebuilding; all of it takes an hour. `filters --keys 1` is a part.
bench-url-cache *args="all":
    cargo bench -p url-cache --bench report -- {{args}} --out "{{justfile_directory()}}/benches/runs/$(date +%F)-url-cache"

# A whole crawl without politeness delay on loopback, beside wrk on the same list of URLs.
bench-crawl *args:
    scripts/bench-crawl.sh {{args}}

# Validate a job's WARC files with warcio and resolve every line of its index. Needs Python.
warc-check job:
    scripts/warc-check.sh {{job}}
