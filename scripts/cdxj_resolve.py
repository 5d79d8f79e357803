#!/usr/bin/env python3
"""Follows every line of a job's index.cdxj to its record, as a replay tool would.

  cdxj_resolve.py JOB

For each line: `length` bytes from `offset` of the named file are one gzip member and nothing else;
in it stands one response record of that URL, with that status, at that time; its payload has that
digest, by its header and recomputed. The lines are sorted, none stands twice. And each response
record that warcio finds in the WARC files has its line. Exit code 1 on any difference.

Run by warc-check.sh, in whose virtual environment warcio is.
"""

import base64
import collections
import hashlib
import json
import os
import sys
import zlib

from warcio.archiveiterator import ArchiveIterator

SHOWN = 10


def sha1(data):
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode("ascii")


def fields_of(block):
    """The first line and the fields of a head, names in lower case."""
    first, *lines = block.split(b"\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields[name.strip().lower().decode("latin-1")] = value.strip().decode("utf-8", "replace")
    return first.decode("latin-1"), fields


def unchunked(body):
    """The body without its chunks."""
    out, at = bytearray(), 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end].partition(b";")[0], 16)
        if size == 0:
            return bytes(out)
        out += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


def problem_of(entry, stamp, data):
    """What is wrong with a line and the bytes it leads to; None where nothing is."""
    if len(data) != int(entry["length"]):
        return f"the file has only {len(data)} of {entry['length']} bytes there"
    member = zlib.decompressobj(wbits=31)
    try:
        record = member.decompress(data) + member.flush()
    except zlib.error as error:
        return f"no gzip member begins there: {error}"
    if not member.eof:
        return "the gzip member is longer than the line says"
    if member.unused_data:
        return f"the gzip member is {len(member.unused_data)} bytes shorter than the line says"

    head, _, rest = record.partition(b"\r\n\r\n")
    version, warc = fields_of(head)
    if not version.startswith("WARC/1."):
        return f"no WARC record: {version[:40]!r}"
    if warc.get("warc-type") != "response":
        return f"a record of type {warc.get('warc-type')!r}"
    if warc.get("warc-target-uri") != entry["url"]:
        return f"a record of {warc.get('warc-target-uri')!r}"
    date = "".join(character for character in warc.get("warc-date", "") if character.isdigit())[:14]
    if date != stamp:
        return f"a record of {date}, not {stamp}"
    length = int(warc.get("content-length", "-1"))
    if rest[length:] != b"\r\n\r\n":
        return "the record's Content-Length does not lead to its end"
    block = rest[:length]
    if sha1(block) != warc.get("warc-block-digest", sha1(block)):
        return "the block has another digest than its header says"
    if warc.get("warc-payload-digest") != entry["digest"]:
        return f"the record's digest is {warc.get('warc-payload-digest')}, the line's {entry['digest']}"

    http_head, _, body = block.partition(b"\r\n\r\n")
    status_line, http = fields_of(http_head)
    if "chunked" in http.get("transfer-encoding", "").lower():
        body = unchunked(body)
    if sha1(body) != entry["digest"]:
        return f"the payload's digest is {sha1(body)}, the line's {entry['digest']}"
    status = status_line.split(" ")[1:2]
    if status != [entry["status"]]:
        return f"the record's status is {status}, the line's {entry['status']}"
    media = http.get("content-type", "").partition(";")[0].strip().lower()
    if entry.get("mime", media) != media:
        return f"the record's media type is {media!r}, the line's {entry['mime']!r}"
    return None


def show(title, items):
    print(f"{title:<52}{len(items):>8}")
    for item in items[:SHOWN]:
        print("    " + item)
    if len(items) > SHOWN:
        print(f"    … and {len(items) - SHOWN} more")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: cdxj_resolve.py JOB")
    job = sys.argv[1]
    warc = os.path.join(job, "warc")
    wrong, unsorted, places = [], [], collections.Counter()
    lines, previous, files = 0, "", {}
    with open(os.path.join(job, "index.cdxj"), encoding="utf-8") as index:
        for number, line in enumerate(index, 1):
            line = line.rstrip("\n")
            lines += 1
            if line.encode() <= previous.encode():
                unsorted.append(f"line {number}")
            previous = line
            _, stamp, text = line.split(" ", 2)
            entry = json.loads(text)
            name, offset = entry["filename"], int(entry["offset"])
            places[(name, offset)] += 1
            try:
                if name not in files:
                    files[name] = open(os.path.join(warc, os.path.basename(name)), "rb")
                files[name].seek(offset)
                problem = problem_of(entry, stamp, files[name].read(int(entry["length"])))
            except (OSError, ValueError) as error:
                problem = str(error)
            if problem:
                wrong.append(f"line {number}, {entry['url']}: {problem}")

    kinds, unindexed, unread = collections.Counter(), [], []
    for name in sorted(os.listdir(warc)):
        if not name.endswith((".warc.gz", ".warc")):
            continue
        try:
            with open(os.path.join(warc, name), "rb") as file:
                records = ArchiveIterator(file)
                for record in records:
                    kinds[record.rec_type] += 1
                    offset = records.get_record_offset()
                    if record.rec_type == "response" and places.pop((name, offset), 0) != 1:
                        unindexed.append(f"{name} at {offset}: {record.rec_headers.get_header('WARC-Target-URI')}")
        except Exception as error:  # warcio raises whatever it meets; each is a file it cannot read
            unread.append(f"{name}: {error}")
    nowhere = [f"{name} at {offset}" for name, offset in sorted(places)]

    print(f"{'lines of index.cdxj':<52}{lines:>8}")
    print(f"{'records in WARC files':<52}{sum(kinds.values()):>8}  ({', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))})")
    show("lines that do not lead to their record", wrong)
    show("lines out of order, or there twice", unsorted)
    show("response records without one line", unindexed)
    show("lines without a response record", nowhere)
    show("files warcio cannot read", unread)
    if wrong or unsorted or unindexed or nowhere or unread or lines == 0:
        print("verdict: WRONG")
        sys.exit(1)
    print("verdict: right")


if __name__ == "__main__":
    main()
