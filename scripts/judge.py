#!/usr/bin/env python3
"""Judges a crawl by the log of the server it crawled, against the walk of linkwalk.py.

  judge.py --log FILE --walk FILE [--agent PREFIX] [--json FILE]

Exit code 0 when nothing was missed, nothing fetched twice, nothing fetched that robots.txt refuses
or that no link leads to; 1 otherwise.
"""

import argparse
import collections
import json
import re
import sys

sys.dont_write_bytecode = True
import linkwalk  # noqa: E402 (beside this file, which is to stay without a cache folder)

SHOWN = 10
ESCAPE = re.compile(r"\\x([0-9A-Fa-f]{2})")


def requests(path, agent):
    """The crawl's requests in nginx's log: (time, URL, status)."""
    with open(path, encoding="utf-8", errors="replace") as log:
        for number, line in enumerate(log, 1):
            columns = line.rstrip("\n").split("\t")
            if len(columns) != 6:
                sys.exit(f"judge: {path}:{number}: not a line of this log: {line!r}")
            moment, address, port, status, request, user_agent = columns
            # Of a request that nginx refuses to read it knows no agent: the log must hold one client's.
            unread = user_agent == "-" and status == "400"
            if not unread and not user_agent.lower().startswith(agent.lower()):
                continue
            request = ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), request)
            words = request.split(" ")
            target = words[1] if len(words) == 3 else "?" + request
            authority = address if port == "80" else address + ":" + port
            yield float(moment), "http://" + authority + target, int(status)


def show(title, items):
    print(f"{title:<52}{len(items):>8}")
    for item in items[:SHOWN]:
        print("    " + item)
    if len(items) > SHOWN:
        print(f"    … and {len(items) - SHOWN} more")


def main():
    arguments = argparse.ArgumentParser(description="Judges a crawl by the server's log.")
    arguments.add_argument("--log", required=True)
    arguments.add_argument("--walk", required=True)
    arguments.add_argument("--agent", default="argiope", help="how the crawler's User-Agent begins")
    arguments.add_argument("--json", help="where to write the figures")
    options = arguments.parse_args()

    with open(options.walk, encoding="utf-8") as file:
        walk = json.load(file)
    robots = {authority: linkwalk.Robots(text or "") for authority, text in walk["robots"].items()}
    robots_urls = {"http://" + authority + "/robots.txt" for authority in robots}

    times, statuses = [], collections.Counter()
    count = collections.Counter()
    for moment, url, status in requests(options.log, options.agent):
        times.append(moment)
        count[url] += 1
        if url not in robots_urls:
            statuses[status] += 1
    if not times:
        sys.exit(f"judge: no request of {options.agent!r} in {options.log}")

    reachable = walk["fetch"]
    fetched = set(count) - robots_urls

    def via(url):
        known = reachable.get(url) or walk["refused"].get(url) or [None]
        return f"{url}  (linked from {known[-1]})" if known[-1] else url

    missed = [f"{reachable[url][0]} {via(url)}" for url in reachable if url not in fetched]
    twice = [f"{number} × {url}" for url, number in sorted(count.items()) if number > 1]
    forbidden = []
    for url in sorted(fetched):
        authority = linkwalk.split_url(url)[0]
        rule = robots[authority].refuses(url) if authority in robots else None
        if rule:
            forbidden.append(f"{url}  ({rule})")
    strange = []
    for url in sorted(fetched - set(reachable)):
        if url in walk["nofollowed"]:
            strange.append(f"{url}  (only nofollow links lead there, as on {walk['nofollowed'][url]})")
        elif url not in walk["refused"]:
            strange.append(url)
    unasked = sorted(robots_urls - set(count))

    show("reachable pages missed", missed)
    show("URLs fetched twice", twice)
    show("URLs fetched that robots.txt refuses", forbidden)
    show("URLs fetched that the walk did not find", strange)
    show("hosts whose robots.txt was not asked for", unasked)
    pages = sum(statuses.values())
    seconds = max(times) - min(times)
    print()
    by_status = ", ".join(f"{number} × {status}" for status, number in sorted(statuses.items()))
    print(f"{pages} pages ({by_status}) and {sum(count[url] for url in robots_urls)} robots.txt")
    print(f"{seconds:.1f} s by the server's clock, {pages / max(seconds, 1e-3):.0f} pages/s")
    print(f"the walk: {len(reachable)} URLs, {walk['parsed']} pages parsed, {len(walk['refused'])} URLs refused by robots.txt")

    wrong = {
        "missed": len(missed),
        "twice": len(twice),
        "forbidden": len(forbidden),
        "not_in_walk": len(strange),
        "robots_not_asked": len(unasked),
    }
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(dict(wrong, pages=pages, seconds=round(seconds, 3), statuses=statuses), file, indent=1)
            file.write("\n")
    if any(wrong.values()):
        print("verdict: WRONG")
        sys.exit(1)
    print("verdict: right")


if __name__ == "__main__":
    main()
