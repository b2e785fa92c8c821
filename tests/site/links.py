#!/usr/bin/env python3
"""The pages of the site: they are well-formed, each link leads somewhere, all pages can be reached,
and all files named in pictures exist. Only the form of external links is checked.

usage: links.py ROOT MAN_DIR
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse
import xml.etree.ElementTree

import made

VOID = {"meta", "link", "img", "br", "input", "hr", "col"}
EXTERNAL = re.compile(r"https?://[a-z0-9.-]+\.[a-z]{2,}(:\d+)?(/\S*)?")
PAGE = re.compile(r"\b(aq_\w+|aq(?:run|info|perf|top)|aqueduct[\w-]*)\(([137])\)")
DOCUMENT = re.compile(r"\b(?:docs|examples)/[\w-]+\.md\b")


class Reader(html.parser.HTMLParser):
    """Collects the links of a page, and the anchors in it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.findings, self.open, self.text = [], [], [], [], []
        self.feed(text)
        self.findings += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [attributes[name] for name in ("href", "src", "action") if name in attributes]
        if tag == "img" and not attributes.get("alt"):
            self.findings.append(f"{attributes.get('src')}: a picture without a description")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.findings.append(f"</{tag}> at line {self.getpos()[0]} closes {self.open[-1:]}")
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if "pre" not in self.open:
            self.text.append(data)


def check_page(root, site, path, readers):
    """Returns findings in a page, and the pages that it links to."""
    reader, linked = readers[path], set()
    findings = list(reader.findings)
    findings += [f"id {name} occurs twice" for name in set(reader.ids)
                 if reader.ids.count(name) > 1]
    for link in reader.links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme:
            if not EXTERNAL.fullmatch(link):
                findings.append(f"{link}: not an address")
            continue
        target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file() or site not in target.parents:
            findings.append(f"{link}: leads nowhere")
        elif target in readers:
            linked.add(target)
            if parts.fragment and parts.fragment not in readers[target].ids:
                findings.append(f"{link}: no such heading")
    text = "".join(reader.text)
    findings += [f"{name}({section}): no such manual page"
                 for name, section in set(PAGE.findall(text))
                 if not (site / f"man/{name}.{section}.html").exists()]
    findings += [f"{name}: no such document" for name in set(DOCUMENT.findall(text))
                 if not (root / name).exists()]
    return findings, linked


def check_picture(root, path):
    """Check that a picture is self-contained, supports dark mode, and names only files that are in
    the tree."""
    text = path.read_text(encoding="utf-8")
    words = " ".join(" ".join(element.itertext())
                     for element in xml.etree.ElementTree.fromstring(text).iter()
                     if element.tag.endswith("}text"))
    if "prefers-color-scheme:dark" not in text:
        yield "has no colors for dark mode"
    if re.search(r"<script|href=|url\(|@import", text):
        yield "needs more than itself"
    for name in re.findall(r"\bsrc(?:/\w+)+", words):
        if not (root / name).is_dir():
            yield f"{name} is not in the tree"
    for name in re.findall(r"[\w/]+\.[ch]\b", words):
        if not any(root.glob(f"src/**/{name}")):
            yield f"{name} is not in src"


def check(root, site):
    """Returns all findings, and numbers of the links, pages and pictures checked."""
    readers = {path: Reader(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    findings, reached, ahead = [], set(), [site / "index.html"]
    while ahead:
        path = ahead.pop()
        if path in reached:
            continue
        reached.add(path)
        found, linked = check_page(root, site, path, readers)
        findings += [f"{path.relative_to(site)}: {finding}" for finding in found]
        ahead += linked
    findings += [f"{path.relative_to(site)}: no page links to it"
                 for path in set(readers) - reached]
    pictures = sorted(site.rglob("*.svg"))
    findings += [f"{path.relative_to(site)}: {finding}" for path in pictures
                 for finding in check_picture(root, path)]
    links = sum(len(reader.links) for reader in readers.values())
    return sorted(findings), (links, len(readers), len(pictures))


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    with made.site(root, sys.argv[2]) as folder:
        findings, (links, pages, pictures) = check(root, pathlib.Path(folder).resolve() / "site")
    for finding in findings:
        print(finding)
    if findings or pages < 100 or pictures < 5:
        sys.exit(f"links: {len(findings)} findings in {pages} pages")
    print(f"links: {links} of {pages} pages, and {pictures} pictures, are good")


if __name__ == "__main__":
    main()
