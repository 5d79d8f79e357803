#!/usr/bin/env python3
"""The independent judge: walks sites over HTTP and says which URLs a right crawl fetches.

It shares nothing with the crawler: Python's http.client and html.parser, a URL resolver, a
robots.txt matcher and a breadth-first walk of its own, all as plain as they can be. What it follows
is what the crawler promises to follow (crates/parser, "What is a link"):

  a href, area href, iframe src, frame src; link href with a relation that leads to a page;
  meta http-equiv=refresh; the Location of a redirect;

inside noscript too, not inside comments, script, style, template, textarea, title, iframe; not with
rel=nofollow, nor on pages whose robots meta element says so; only on the sites themselves, and only
from answers of 2xx that are HTML.

  linkwalk.py --sites FILE --out FILE [--processes N]

--sites names a table, one site a line, columns parted by tabs: name, package, address, port,
root folder, path of the start page. The walk is kept in --out, and not repeated while the
fingerprint beside the table and this file stay the same.
"""

import argparse
import hashlib
import html
import html.parser
import http.client
import json
import multiprocessing
import os
import re
import sys
import time
from html.entities import html5

USER_AGENT = "linkwalk/1 (the judge of the crawl)"

# The name by which the judged crawler looks itself up in robots.txt.
PRODUCT_TOKEN = "argiope"

# crates/parser/src/relations.rs, copied on purpose: a slip there shows as a difference here.
PAGE_RELATIONS = frozenset(
    "alternate amphtml appendix author bookmark canonical chapter contents copyright first glossary help index last "
    "license next prev previous section shortlink start subsection top up".split()
)

HTML_SPACE = "\t\n\f\r "


# --- URLs: as much of the WHATWG URL Standard as documentation sites need, then RFC 3986 §6.2.2 ---

UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
PATH_ENCODED = frozenset(b' "#<>?`{}^')
QUERY_ENCODED = frozenset(b" \"#<>'")
TRIPLET = re.compile(r"%([0-9A-Fa-f]{2})")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.S)


def percent_encode(text, encoded, encoding="utf-8"):
    """Encodes what may not stand in a URL, and leaves what is encoded already."""
    if encoding == "utf-8":
        data = text.encode("utf-8", "replace")
    else:
        data = b"".join(
            character.encode(encoding, "strict") if encodable(character, encoding) else b"%%26%%23%d%%3B" % ord(character)
            for character in text
        )
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte not in encoded else "%%%02X" % byte for byte in data)


def encodable(character, encoding):
    try:
        character.encode(encoding)
        return True
    except UnicodeEncodeError:
        return False


def normalise_percent(text):
    """Hexadecimal digits in upper case, unreserved characters decoded."""

    def one(match):
        byte = int(match.group(1), 16)
        return chr(byte) if byte in UNRESERVED else match.group(0).upper()

    return TRIPLET.sub(one, text) if "%" in text else text


def remove_dot_segments(path):
    """The path state of the WHATWG parser; `path` begins with a slash."""
    out = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        dots = segment.lower().replace("%2e", ".")
        if dots == "..":
            if out:
                out.pop()
            if last:
                out.append("")
        elif dots == ".":
            if last:
                out.append("")
        else:
            out.append(segment)
    return "/" + "/".join(out)


def split_url(url):
    """An absolute URL of ours as authority, path and query (None where there is none)."""
    authority, _, rest = url[len("http://"):].partition("/")
    path, mark, query = rest.partition("?")
    return authority, "/" + path, query if mark else None


def resolve(base, reference, query_encoding="utf-8"):
    """The canonical URL a reference leads to; None where it is no http URL."""
    reference = reference.strip("".join(map(chr, range(0x21))))
    reference = re.sub("[\t\n\r]", "", reference).partition("#")[0]
    authority, path, query = split_url(base)
    scheme = SCHEME.match(reference)
    if scheme:
        if scheme.group(1).lower() != "http":
            return None
        # `http:page` is relative to an http base.
        reference = scheme.group(2)
        if not reference.replace("\\", "/").startswith("//"):
            scheme = None
    hierarchy, mark, new_query = reference.partition("?")
    hierarchy = hierarchy.replace("\\", "/")
    new_query = percent_encode(new_query, QUERY_ENCODED, query_encoding) if mark else None
    if hierarchy.startswith("//"):
        authority, slash, rest = hierarchy.lstrip("/").partition("/")
        authority = authority.rpartition("@")[2].lower()
        if authority.endswith(":80"):
            authority = authority[:-3]
        new_path = "/" + rest if slash else "/"
    elif hierarchy.startswith("/"):
        new_path = hierarchy
    elif hierarchy:
        new_path = path.rpartition("/")[0] + "/" + hierarchy
    else:
        new_path = path
        if not mark:
            new_query = query
    new_path = remove_dot_segments(percent_encode(new_path, PATH_ENCODED))
    url = "http://" + authority + normalise_percent(new_path)
    return url if new_query is None else url + "?" + normalise_percent(new_query)


# --- robots.txt: RFC 9309 ---


class Robots:
    """The rules for one product token."""

    def __init__(self, text, token=PRODUCT_TOKEN):
        groups, agents, in_rules = {}, [], False
        for line in text.splitlines():
            key, colon, value = line.partition("#")[0].partition(":")
            key, value = key.strip().lower(), value.strip()
            if not colon:
                continue
            if key == "user-agent":
                if in_rules:
                    agents, in_rules = [], False
                agents.append(value.lower())
                groups.setdefault(value.lower(), [])
            elif key in ("allow", "disallow"):
                in_rules = True
                for agent in agents:
                    if value:
                        groups[agent].append((key == "allow", value))
        rules = groups.get(token, groups.get("*", []))
        self.rules = [(allow, rule, self.compiled(rule)) for allow, rule in rules]

    @staticmethod
    def compiled(rule):
        pattern = normalise_percent(percent_encode(rule, frozenset()))
        end = pattern.endswith("$")
        parts = [re.escape(part) for part in (pattern[:-1] if end else pattern).split("*")]
        return re.compile(".*".join(parts) + (r"\Z" if end else ""), re.S)

    def refusal(self, path_and_query):
        """The rule that refuses it: the longest one that matches decides, Allow wins ties."""
        matching = [(len(rule), allow, rule) for allow, rule, regex in self.rules if regex.match(path_and_query)]
        if not matching:
            return None
        _, allow, rule = max(matching)
        return None if allow else "Disallow: " + rule

    def refuses(self, url):
        return self.refusal(url[len("http://"):].partition("/")[1] + url[len("http://"):].partition("/")[2])


# --- HTML ---

ATTRIBUTE_REFERENCE = re.compile(r"&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[A-Za-z][A-Za-z0-9]*[;=]?)")
standard_unescape = html.unescape


def unescape_attribute(text):
    """Character references as WHATWG decodes them in attributes: `&copy=` stays what it is.

    Pythons before 3.13 decode attributes as if they were text.
    """

    def one(match):
        reference = match.group(0)
        if reference.startswith("&#"):
            return standard_unescape(reference)
        if not reference.endswith("=") and reference[1:] in html5:
            return html5[reference[1:]]
        return reference

    return ATTRIBUTE_REFERENCE.sub(one, text) if "&" in text else text


html.parser.unescape = unescape_attribute


def is_relation(rel, relation):
    return relation in rel.lower().split()


def refresh_target(content):
    """The URL of a refresh (WHATWG HTML, "shared declarative refresh steps")."""
    match = re.match(r"[\t\n\f\r ]*[0-9.]+([\t\n\f\r ;,].*)", content, re.S)
    if not match:
        return None
    rest = match.group(1).lstrip(HTML_SPACE + ";,")
    named = re.match(r"(?i)url[\t\n\f\r ]*=[\t\n\f\r ]*(.*)", rest, re.S)
    rest = named.group(1) if named else rest
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return rest or None


class Links(html.parser.HTMLParser):
    """The references of a page, as they stand there: (text, nofollow)."""

    # Whose content is text and not markup.
    CDATA_CONTENT_ELEMENTS = ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.references = []
        self.base = None
        self.nofollow = False
        self.templates = 0
        self.foreign = 0

    def handle_starttag(self, tag, attributes):
        self.open(tag, attributes)
        if tag in ("svg", "math"):
            self.foreign += 1
        elif tag == "template":
            self.templates += 1

    def handle_startendtag(self, tag, attributes):
        # Only foreign elements can be closed at once: in HTML the slash says nothing.
        if self.foreign or tag in ("svg", "math"):
            self.open(tag, attributes)
        else:
            self.handle_starttag(tag, attributes)
            if tag in self.CDATA_CONTENT_ELEMENTS:
                self.set_cdata_mode(tag)

    def handle_endtag(self, tag):
        if tag in ("svg", "math"):
            self.foreign = max(0, self.foreign - 1)
        elif tag == "template":
            self.templates = max(0, self.templates - 1)

    def open(self, tag, attributes):
        if self.templates:
            return
        # Of repeated attributes the first counts.
        values = {name: value or "" for name, value in reversed(attributes)}
        rel = values.get("rel", "")
        if tag in ("a", "area") and "href" in values:
            self.references.append((values["href"], is_relation(rel, "nofollow")))
        elif tag == "link" and "href" in values:
            relations = set(rel.lower().split())
            if relations & PAGE_RELATIONS and "stylesheet" not in relations:
                self.references.append((values["href"], "nofollow" in relations))
        elif tag in ("iframe", "frame") and "src" in values:
            self.references.append((values["src"], False))
        elif tag == "base" and "href" in values:
            self.base = values["href"] if self.base is None else self.base
        elif tag == "meta" and "content" in values:
            content = values["content"]
            if values.get("http-equiv", "").lower() == "refresh" and refresh_target(content):
                self.references.append((refresh_target(content), False))
            if values.get("name", "").lower() in ("robots", PRODUCT_TOKEN):
                directives = [directive.strip().lower() for directive in content.split(",")]
                self.nofollow |= "nofollow" in directives or "none" in directives

    def parse_comment(self, i, report=1):
        """Pythons before 3.13 let `-- >` end a comment, and `<!-->` not."""
        text = self.rawdata
        if text.startswith(("<!-->", "<!--->"), i):
            return text.index(">", i) + 1
        end = re.compile("--!?>").search(text, i + 4)
        return end.end() if end else len(text)

    def parse_html_declaration(self, i):
        text = self.rawdata
        if text.startswith("<!--", i):
            return self.parse_comment(i)
        ends = "]]>" if self.foreign and text.startswith("<![CDATA[", i) else ">"
        end = text.find(ends, i)
        return end + len(ends) if end >= 0 else len(text)


META_CHARSET = re.compile(rb"""<meta[^>]*charset\s*=\s*["']?([A-Za-z0-9._:-]+)""", re.I)
HEADER_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]+)""", re.I)


def charset_of(content_type, body):
    if body.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    said = HEADER_CHARSET.search(content_type)
    in_page = META_CHARSET.search(body[:1024])
    name = said.group(1) if said else in_page.group(1).decode("ascii") if in_page else None
    if name is None:
        try:
            body.decode("utf-8")
            return "utf-8"
        except UnicodeDecodeError:
            return "cp1252"
    name = name.lower()
    if name in ("iso-8859-1", "latin1", "us-ascii", "ascii"):
        return "cp1252"
    try:
        "".encode(name)
        return name
    except LookupError:
        return "cp1252"


def links_of(url, content_type, body):
    """The canonical URLs a page leads to: {URL: whether every link to it says nofollow}."""
    charset = charset_of(content_type, body)
    page = Links()
    page.feed(body.decode(charset, "replace").removeprefix("\ufeff"))
    page.close()
    base = (page.base is not None and resolve(url, page.base, charset)) or url
    links = {}
    for reference, nofollow in page.references:
        text = reference.strip("".join(map(chr, range(0x21)))).partition("#")[0]
        if not text and base == url:
            continue
        target = resolve(base, text, charset)
        if target is not None:
            links[target] = links.get(target, True) and (nofollow or page.nofollow)
    return links


OPENINGS = re.compile(
    rb"(\xef\xbb\xbf)?[\t\n\f\r ]*<(!--|(!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[ >])",
    re.I,
)


def is_html(content_type, body):
    """HTML by its media type; where that says nothing, by its first tag (WHATWG MIME Sniffing §7.1)."""
    media = content_type.partition(";")[0].strip().lower()
    if media in ("text/html", "application/xhtml+xml"):
        return True
    return media in ("", "application/octet-stream") and OPENINGS.match(body) is not None


# --- The walk ---

connections = {}


def get(url):
    """One GET by a kept connection: status, Content-Type, Location, body."""
    authority, path, query = split_url(url)
    target = path if query is None else path + "?" + query
    for attempt in (1, 2, 3):
        connection = connections.get(authority) or http.client.HTTPConnection(authority, timeout=30)
        connections[authority] = connection
        try:
            connection.request("GET", target, headers={"User-Agent": USER_AGENT})
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, answer.getheader("Content-Type", ""), answer.getheader("Location"), body
        except (http.client.HTTPException, OSError):
            connection.close()
            del connections[authority]
            if attempt == 3:
                raise
    raise AssertionError("the loop above returns or raises")


def visit(work):
    """Fetches one URL: what came, and the links on the sites themselves."""
    url, authorities = work
    status, content_type, location, body = get(url)
    links = {}
    if location is not None and 300 <= status < 400:
        target = resolve(url, location)
        links = {target: False} if target else {}
    elif 200 <= status < 300 and is_html(content_type, body):
        links = links_of(url, content_type, body)
    else:
        content_type = content_type.partition(";")[0] + " (not parsed)"
    ours = {target: nofollow for target, nofollow in links.items() if split_url(target)[0] in authorities}
    return url, status, content_type, len(body), ours


def read_sites(path):
    """The table of sites."""
    sites = []
    with open(path, encoding="utf-8") as table:
        for line in table:
            name, package, address, port, root, start = line.rstrip("\n").split("\t")
            authority = address if port == "80" else address + ":" + port
            sites.append({"name": name, "package": package, "authority": authority, "root": root, "start": start})
    return sites


def fingerprint(sites_file):
    """What the walk depends on: the sites as they are set up, and this program."""
    digest = hashlib.sha256()
    with open(os.path.abspath(__file__), "rb") as program:
        digest.update(program.read())
    beside = os.path.join(os.path.dirname(os.path.abspath(sites_file)), "fingerprint")
    for path in (sites_file, beside):
        if os.path.exists(path):
            with open(path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def walk(sites, processes):
    """The breadth-first walk over all sites."""
    authorities = frozenset(site["authority"] for site in sites)
    robots, texts = {}, {}
    for authority in authorities:
        status, _, _, body = get("http://" + authority + "/robots.txt")
        texts[authority] = body.decode("utf-8", "replace") if status == 200 else None
        if status not in (200, 404):
            sys.exit(f"linkwalk: http://{authority}/robots.txt answered {status}; this walk knows 200 and 404")
        robots[authority] = Robots(texts[authority] or "")
    for connection in connections.values():
        connection.close()
    connections.clear()

    fetched, refused, nofollowed = {}, {}, {}
    parsed = seconds = total_bytes = 0
    began = time.monotonic()
    front = {}

    def offer(url, via):
        if url in fetched or url in front or url in refused:
            return
        rule = robots[split_url(url)[0]].refuses(url)
        if rule is None:
            front[url] = via
        else:
            refused[url] = [rule, via]

    for site in sites:
        offer(resolve("http://" + site["authority"] + "/", site["start"]), None)
    with multiprocessing.Pool(processes) as pool:
        depth = 0
        while front:
            level, front = front, {}
            # Known before their own level is through, or pages of one level would offer each other.
            for url, via in level.items():
                fetched[url] = [0, "", depth, via]
            found = []
            work = [(url, authorities) for url in level]
            for url, status, content_type, length, links in pool.imap_unordered(visit, work, 8):
                fetched[url][:2] = [status, content_type]
                total_bytes += length
                parsed += not content_type.endswith("(not parsed)") and 200 <= status < 300
                found.append((url, links))
            for url, links in sorted(found):
                for target, nofollow in links.items():
                    if nofollow:
                        nofollowed.setdefault(target, url)
                    else:
                        offer(target, url)
            print(f"linkwalk: {depth} links deep: {len(level)} URLs, {len(fetched)} in all", file=sys.stderr)
            depth += 1
    seconds = time.monotonic() - began
    return {
        "seconds": round(seconds, 1),
        "bytes": total_bytes,
        "parsed": parsed,
        "depth": depth - 1,
        "robots": texts,
        "fetch": fetched,
        "refused": refused,
        "nofollowed": {url: via for url, via in nofollowed.items() if url not in fetched and url not in refused},
    }


def main():
    arguments = argparse.ArgumentParser(description="Walks the sites and says which URLs a right crawl fetches.")
    arguments.add_argument("--sites", required=True, help="the table of sites")
    arguments.add_argument("--out", required=True, help="where the result is kept, as JSON")
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = arguments.parse_args()

    mark = fingerprint(options.sites)
    if os.path.exists(options.out):
        with open(options.out, encoding="utf-8") as file:
            known = json.load(file)
        if known.get("fingerprint") == mark:
            print(f"linkwalk: the walk in {options.out} still holds: {len(known['fetch'])} URLs", file=sys.stderr)
            return
    result = walk(read_sites(options.sites), options.processes)
    result["fingerprint"] = mark
    with open(options.out + ".tmp", "w", encoding="utf-8") as file:
        json.dump(result, file, ensure_ascii=False, indent=0)
    os.replace(options.out + ".tmp", options.out)
    print(
        f"linkwalk: {len(result['fetch'])} URLs to fetch, {result['parsed']} pages parsed, "
        f"{len(result['refused'])} refused by robots.txt, {len(result['nofollowed'])} only by nofollow links, "
        f"{result['depth']} links deep, {result['bytes'] / 1e6:.0f} MB in {result['seconds']} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
