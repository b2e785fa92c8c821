#!/usr/bin/env python3
"""Makes the site: static pages of README.md, docs, CHANGELOG.md and the manual pages.

A page has the path of its source (docs/mpi.md: docs/mpi.html), so relative links are valid in
both. The landing page consists of README.md's introduction and pictures from the docs. Only
contents.html has a script, the search; without it, the page lists all headings.

usage: site.py ROOT MAN_DIR OUT
"""

import html
import json
import pathlib
import re
import shutil
import string
import sys

import pages

HERE = pathlib.Path(__file__).resolve().parent
# The navigation, where titles may be shortened. Documents that are not listed follow at the end.
NAVIGATION = (
    ("Start", {"README.md": "Overview", "docs/first-steps-runtime.md": "For runtimes",
               "docs/first-steps-mpi.md": "For MPI programs",
               "docs/first-steps-gasnet.md": "For GASNet programs", "examples/README.md": None}),
    ("Use", {"docs/cluster.md": "Clusters", "docs/mpi.md": "MPI and libfabric",
             "docs/gasnet.md": "GASNet", "docs/cci.md": None, "docs/performance.md": None,
             "docs/tracing.md": "Tracing and aqtop", "docs/security.md": None,
             "docs/platforms.md": None, "docs/embedding.md": "CMake, pkg-config, Meson",
             "docs/packaging.md": None}),
    ("Reference", {"docs/semantics.md": None, "docs/settings.md": None, "docs/abi.md": None,
                   "docs/wire.md": None, "CHANGELOG.md": None}),
    ("Inside", {"docs/architecture.md": None, "docs/collectives.md": "Collectives",
                "docs/gasnet-internals.md": "GASNet, inside", "docs/adding-a-transport.md": None,
                "docs/measurements.md": None, "docs/requirements.md": "Requirements",
                "CONTRIBUTING.md": None, "CODE_OF_CONDUCT.md": None, "ROADMAP.md": None,
                "SECURITY.md": "Reporting a vulnerability"}),
)
ILLUSTRATED = ("docs/architecture.md", "docs/tracing.md", "docs/performance.md")
IMAGE = re.compile(r'<p><img src="([^"]*)" alt="([^"]*)"[^>]*/></p>')


def documents(root):
    """The documents in the order of the navigation, to which those not listed are added."""
    listed = [path for _, group in NAVIGATION for path in group]
    present = {str(path.relative_to(root)) for path in (root / "docs").glob("*.md")}
    others = sorted(present - set(listed))
    NAVIGATION[-1][1].update(dict.fromkeys(others))
    for path in listed:
        if not (root / path).exists():
            sys.exit(f"site: {path}, listed in NAVIGATION of {__file__}, does not exist")
    return listed + others


def navigation(found, current):
    """The list of all documents, with links relative to the page `current`."""
    up = "../" * current.count("/")
    lines = []
    for group, members in NAVIGATION:
        lines.append(f"<h2>{group}</h2>\n<ul>")
        for path, short in members.items():
            page = found[path]
            here = ' aria-current="page"' if page.path == current else ""
            title = html.escape(short or page.title)
            lines.append(f'<li><a href="{up}{page.path}"{here}>{title}</a></li>')
        lines.append("</ul>")
    lines.append(f'<h2>Manual</h2>\n<ul>\n<li><a href="{up}man/aqueduct.7.html">aqueduct(7)</a>'
                 f'</li>\n<li><a href="{up}contents.html#manual">All manual pages</a></li>\n</ul>')
    return "\n".join(lines)


def on_this_page(page):
    """The headings of a long page."""
    items = [f'<li><a href="#{name}">{html.escape(text)}</a></li>'
             for level, name, text in page.headings if level == 2]
    if len(items) < 3:
        return ""
    return ("<details class=\"toc\"><summary>On this page</summary>\n<ul>\n" + "\n".join(items) +
            "\n</ul>\n</details>\n")


def pictures(found):
    """The pictures of these documents, each a figure that links to its page."""
    for page in map(found.get, ILLUSTRATED):
        folder = page.path.rpartition("/")[0]
        for source, words in IMAGE.findall(page.body):
            half = ' class="half"' if "/aqperf-" in source else ""
            yield (f'<figure{half}>\n<a href="{page.path}"><img src="{folder}/{source}" '
                   f'alt="{words}"></a>\n<figcaption>{words} (<a href="{page.path}">'
                   f'{html.escape(page.title)}</a>)</figcaption>\n</figure>')


def landing(found):
    """README's introduction, its first steps, and the pictures."""
    sections = re.split(r"(?=<h2 )", found["README.md"].body)
    steps = [part for part in sections if part.startswith('<h2 id="first-steps"')]
    if len(steps) != 1:
        sys.exit('site: README.md has no section "First steps"')
    body = "".join((
        sections[0],
        '<p><a class="button" href="README.html">Overview</a> '
        '<a class="button" href="contents.html">All pages</a></p>\n',
        steps[0], '<h2 id="pictures">In pictures</h2>\n', "\n".join(pictures(found))))
    return pages.Page("index.html", "Aqueduct", body)


def contents(found, manual):
    """All headings of all pages, and the form of the search."""
    lines = ["<h1>Contents and search</h1>",
             '<form class="search" role="search"><label for="words">Words</label> '
             '<input id="words" type="search" name="q"> <button>Search</button></form>',
             '<noscript><p>The search needs a script; all headings are below.</p></noscript>',
             '<div id="results" aria-live="polite"></div>', '<div id="all">']
    for page in found.values():
        lines.append(f'<h2><a href="{page.path}">{html.escape(page.title)}</a></h2>\n<ul>')
        lines += [f'<li class="level{level}"><a href="{page.path}#{name}">{html.escape(text)}</a>'
                  "</li>" for level, name, text in page.headings if 1 < level < 4]
        lines.append("</ul>")
    lines.append('<h2 id="manual">Manual pages</h2>\n<ul>')
    lines += [f'<li><a href="{page.path}">{page.title}</a> {html.escape(page.brief)}</li>'
              for page in sorted(manual, key=lambda page: (page.title[-2] == "3", page.title))]
    lines += ["</ul>", "</div>", '<script src="search-index.js"></script>',
              '<script src="search.js"></script>']
    return pages.Page("contents.html", "Contents and search", "\n".join(lines))


def search_index(everything):
    """For each section: address, page, heading or brief description, and the words in it."""
    rows = []
    for page in everything:
        for (level, name, text), words in zip(page.headings, page.words):
            address = page.path + (f"#{name}" if name and level > 1 else "")
            rows.append([address, page.title, page.brief if level == 1 else text,
                         " ".join(sorted(words))])
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def write(out, page, template, navigation_text, version):
    up = "../" * page.path.count("/")
    body = page.body
    if page.headings and "</h1>" in body:
        body = body.replace("</h1>", "</h1>\n" + on_this_page(page), 1)
    body = body.replace("<pre>", '<pre tabindex="0">')
    title = page.title if page.title == "Aqueduct" else f"{page.title} - Aqueduct"
    path = out / page.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template.substitute(
        up=up, title=html.escape(title), body=body, navigation=navigation_text, version=version),
        encoding="utf-8")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    root, man, out = map(pathlib.Path, sys.argv[1:])
    root = root.resolve()
    names, manual = pages.manual_pages(man)
    found = {path: pages.document(root, path, names) for path in documents(root)}
    header = (root / "include/aqueduct/version.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define AQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    template = string.Template((HERE / "page.html").read_text(encoding="utf-8"))
    shutil.rmtree(out, ignore_errors=True)
    everything = [landing(found), contents(found, manual), *found.values(), *manual]
    for page in everything:
        write(out, page, template, navigation(found, page.path), version)
    for name in ("style.css", "search.js"):
        shutil.copy(HERE / name, out)
    for picture in (root / "docs").rglob("*.svg"):
        place = out / picture.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, place)
    (out / "search-index.js").write_text(
        f"const sections = {search_index([*found.values(), *manual])};\n", encoding="utf-8")
    print(f"{len(everything)} pages in {out}: open {out / 'index.html'}")


if __name__ == "__main__":
    main()
