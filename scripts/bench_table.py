#!/usr/bin/env python3
"""From the measurements of bench-crawl.sh to raw.json and the table in README.md.

  bench_table.py --runs FILE --sites FILE --out DIR NAME=VALUE…

The table has medians over the rounds; the ratio is to wrk, pinned as the crawl was.
"""

import argparse
import json
import os
import statistics


def main():
    arguments = argparse.ArgumentParser(description="Writes raw.json and README.md.")
    arguments.add_argument("--runs", required=True)
    arguments.add_argument("--sites", required=True)
    arguments.add_argument("--out", required=True)
    arguments.add_argument("facts", nargs="*", metavar="NAME=VALUE")
    options = arguments.parse_args()

    facts = dict(fact.split("=", 1) for fact in options.facts)
    with open(options.sites, encoding="utf-8") as file:
        facts["packages"] = [line.split("\t")[1] for line in file]
    with open(options.runs, encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    with open(os.path.join(options.out, "raw.json"), "w", encoding="utf-8") as file:
        json.dump({"facts": facts, "runs": runs}, file, indent=1)
        file.write("\n")

    groups = {}
    for run in runs:
        groups.setdefault((run["run"], run["pinned"]), []).append(run)

    def median(key, of):
        return statistics.median(of(run) for run in groups[key])

    rate = {key: median(key, lambda run: run["pages"] / run["seconds"]) for key in groups}
    lines = [
        "| run | pinned | pages | seconds | pages/s | least–most | pages per CPU second | nginx CPU s | peak memory | to wrk |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for key in sorted(groups, key=lambda key: (key[1], key[0] == "wrk", key[0] != "crawl, WARC")):
        rates = [run["pages"] / run["seconds"] for run in groups[key]]
        per_cpu = median(key, lambda run: run["pages"] / max(run["user_seconds"] + run["system_seconds"], 0.01))
        lines.append(
            f"| {key[0]} | {'yes' if key[1] else 'no'} "
            f"| {median(key, lambda run: run['pages']):.0f} "
            f"| {median(key, lambda run: run['seconds']):.2f} "
            f"| {rate[key]:.0f} "
            f"| {min(rates):.0f}–{max(rates):.0f} "
            f"| {per_cpu:.0f} "
            f"| {median(key, lambda run: run['nginx_cpu_seconds']):.2f} "
            f"| {median(key, lambda run: run['peak_kib']) / 1024:.0f} MiB "
            f"| {rate[key] / rate[('wrk', key[1])]:.3f} |"
        )
    rounds = max(run["round"] for run in runs)
    text = [
        f"# Whole crawls on real pages, {facts['date']}",
        "",
        "Command: `scripts/bench-crawl.sh`. "
        "Debian's documentation packages, served by nginx with one worker process, each site on a loopback address of its own; "
        "no pauses, so one connection for each site at a time.",
        "",
        f"- {facts['argiope']}, commit {facts['commit']}" + (f", {facts['settings']}" if facts["settings"] else ""),
        f"- {facts['system']}; {facts['cpu']}; {facts['cores']} cores",
        f"- {facts['nginx']}, wrk {facts['wrk']}",
        f"- {', '.join(facts['packages'])}",
        "",
        *lines,
        "",
        f"Medians of {rounds} round{'s' if rounds > 1 else ''}; `raw.json` has each. "
        "Pinned: the client on core 0, nginx on core 1; else all share the cores. "
        "Seconds: for a crawl from the start of the program to its end, with everything durable and the index written; "
        "for wrk from the first request to the last answer. "
        "wrk goes once through the URLs the crawl had answers to, with a thread and a connection for each site, and reads no link.",
        "",
    ]
    with open(os.path.join(options.out, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(text))


if __name__ == "__main__":
    main()
