"""Documents and manual pages as HTML: each is a Page, with the links and headings of the site."""

import dataclasses
import html
import pathlib
import re
import subprocess
import sys

HEADING = re.compile(r'<h([1-6])(?: class="\w+")?(?: id="([^"]*)")?>(.*?)</h\1>', re.S)
TAG = re.compile(r"<[^>]*>")
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
DOCUMENT = re.compile(r"\b(?:docs/[\w-]+|examples/README|README|CHANGELOG|CONTRIBUTING|SECURITY)"
                      r"\.md\b")
REFERENCE = re.compile(r"<b>([\w-]+)</b>(?:\((\d)\))?")
WORD = re.compile(r"[a-z0-9_]{2,}")
TOOLS = {"cmark-gfm": "cmark-gfm", "mandoc": "mandoc"}  # and their packages


@dataclasses.dataclass
class Page:
    """A page of the site: its path below the root, and its contents."""
    path: str
    title: str
    body: str
    brief: str = ""
    headings: list = dataclasses.field(default_factory=list)  # (level, id, text)
    words: list = dataclasses.field(default_factory=list)  # a set for each heading


def convert(*words):
    """The output of a converter."""
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True,
                              encoding="utf-8").stdout
    except FileNotFoundError:
        sys.exit(f"site: {words[0]} is not installed: run .ci/install-deps.sh site")
    except subprocess.CalledProcessError as error:
        sys.exit(f"site: {' '.join(map(str, words))}: {error.stderr.strip()}")


def text_of(markup):
    return html.unescape(TAG.sub("", markup)).strip()


def slug(text):
    """The id of a heading on GitHub."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def outside_tags(body, change, not_in):
    """Apply `change` to the text outside of these elements."""
    depth, parts = 0, re.split(r"(<[^>]*>)", body)
    for at, part in enumerate(parts):
        if part.startswith("<"):
            name = re.match(r"</?(\w*)", part).group(1)
            if name in not_in:
                depth += -1 if part.startswith("</") else 1
        elif depth == 0:
            parts[at] = change(part)
    return "".join(parts)


def index(page):
    """Fill in the headings of the page, and the words below each for the search."""
    found = list(HEADING.finditer(page.body))
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(page.body)
        page.headings.append((int(match.group(1)), match.group(2), text_of(match.group(3))))
        page.words.append(set(WORD.findall(text_of(page.body[match.start():end]).lower())))
    return page


def with_ids(body):
    """Add an id to each heading."""
    seen = {}

    def heading(match):
        name = slug(text_of(match.group(3)))
        seen[name] = seen.get(name, -1) + 1
        name += f"-{seen[name]}" if seen[name] else ""
        return f'<h{match.group(1)} id="{name}">{match.group(3)}</h{match.group(1)}>'

    return HEADING.sub(heading, body)


def document(root, path, manual):
    """The page of a Markdown file; `manual` are the names of manual pages, such as aq_put.3."""
    body = convert("cmark-gfm", "-e", "table", "-e", "strikethrough", root / path)
    body = with_ids(COMMENT.sub("", body))
    up = "../" * path.count("/")
    # Other documents are linked by relative paths, or just named.
    body = re.sub(r'(<a href="(?![a-z]+:)[^"#]*)\.md(["#])', r"\1.html\2", body)
    body = outside_tags(body, lambda text: DOCUMENT.sub(
        lambda match: f'<a href="{up}{match.group(0)[:-3]}.html">{match.group(0)}</a>'
        if (root / match.group(0)).exists() else match.group(0), text), ("a", "pre"))
    body = re.sub(r"<code>(aq_\w+)(\(\))?</code>", lambda match:
                  f'<a href="{up}man/{match.group(1)}.3.html">{match.group(0)}</a>'
                  if f"{match.group(1)}.3" in manual else match.group(0), body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>",
                                                                        "</table></div>")
    title = text_of(HEADING.search(body).group(3))
    return index(Page(path[:-3] + ".html", title, body))


def manual_page(path, manual):
    """The page of a manual page."""
    body = convert("mandoc", "-T", "html", "-O", "fragment", path)
    body = re.sub(r'<table class="(head|foot)">.*?</table>\n?', "", body, flags=re.S)
    body = re.sub(r'<a class="permalink" href="#[^"]*">(.*?)</a>', r"\1", body, flags=re.S)
    body = body.replace("\n<br/>", "").replace("<h2", "<h3").replace("</h2>", "</h3>")
    body = body.replace("<h1", "<h2").replace("</h1>", "</h2>")

    def reference(match):
        target = f"{match.group(1)}.{match.group(2) or 3}"
        return f'<a href="{target}.html">{match.group(0)}</a>' \
            if target in manual and target != path.name else match.group(0)

    body = REFERENCE.sub(reference, body)
    name, section = path.name.rsplit(".", 1)
    title = f"{name}({section})"
    brief = re.search(r"<p[^>]*>\s*\S+ [-–—] (.*?)</p>", body, re.S)
    brief = " ".join(text_of(brief.group(1)).split()) if brief else ""
    page = index(Page(f"man/{path.name}.html", title, f"<h1>{title}</h1>\n{body}", brief))
    # All call pages have the same headings: the page counts as one section.
    page.words = [set().union(*page.words)]
    page.headings = [(1, "", title)]
    return page


def manual_pages(folder):
    paths = sorted(pathlib.Path(folder).glob("man?/*.?"))
    if not paths:
        sys.exit(f"site: no manual pages in {folder}: build the target manual first")
    names = {path.name for path in paths}
    return names, [manual_page(path, names) for path in paths]
