#!/usr/bin/env python3
"""The checks of documents and of the site find mistakes: each kind is made here once."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "site"))
import blocks
import check
import links  # pylint: disable=wrong-import-position

PAGE = '<!DOCTYPE html>\n<html><body><h1 id="top">Page</h1>\n{}\n</body></html>\n'


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def ran(self, text):
        found = blocks.read(self.write("page.md", text), "page.md")
        said = subprocess.run(["bash", "-c", blocks.script(found)], cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False).stdout
        return "\n".join(blocks.judge(found, said))

    def test_commands(self):
        good = "```sh\necho one; x=two\n```\n\nText\n\n```sh\necho $x\n```\n\n"
        self.assertEqual(self.ran(good + "<!-- prints -->\n```text\ntw…\n```\n"), "")
        self.assertIn("not printed: one", self.ran(good + "<!-- prints -->\n```text\none\n```\n"))
        self.assertIn("page.md:7: failed", self.ran(good.replace("echo $x", "false\necho $x")))
        self.assertIn("page.md:1: failed", self.ran(good.replace("one", "one | false")))
        self.assertEqual(self.ran("<!-- not run: it fails -->\n```sh\nfalse\n```\n" + good), "")
        self.assertEqual(self.ran("<!-- file: x/y -->\n```c\nint $x;\n```\n"
                                  "```sh\ncat x/y\n```\n"
                                  "<!-- prints -->\n```text\nint $x;\n```\n"), "")
        self.assertEqual(self.ran("<!-- before: x=1 -->\n<!-- with: PID=$x -->\n"
                                  "```sh\ntest PID = 1\n```\n"), "")
        self.assertRaises(ValueError, self.ran, "<!-- with: PID=1 -->\n```sh\ntrue\n```\n")

    def test_marks(self):
        self.write("tests/one", "make  all \\\n  things\n")
        block = "```sh\nmake all things   # why\n```\n"
        for text, finding in ((block, None), ("```\nx\n```\n", "language"),
                              ("Text\n\n    make all\n", "indented"),
                              ("- item\n\n    more\n", None),
                              ("<!-- never run -->\n" + block, "unknown comment"),
                              ("<!-- not run: -->\n" + block, "unknown comment"),
                              ("<!-- run by tests/one -->\n" + block, None),
                              ("<!-- run by tests/two -->\n" + block, "does not exist"),
                              ("<!-- run by tests/one -->\n```sh\nmake it\n```\n", "not contain")):
            with self.subTest(text=text):
                found = " ".join(check.check(self.write("page.md", text), self.root))
                self.assertEqual(found, "") if finding is None else self.assertIn(finding, found)

    def test_links(self):
        site = self.root / "site"
        self.write("docs/page.md", "")
        self.write("site/other.html", PAGE.format('<p id="here">x</p>'))
        self.write("site/man/aq_put.3.html", PAGE.format(""))
        every = '<a href="other.html#here">x</a> <a href="man/aq_put.3.html">aq_put(3)</a> '
        for text, finding in ((every + '<a href="https://example.org/x">x</a> docs/page.md', None),
                              (every + '<a href="away.html">x</a>', "leads nowhere"),
                              (every + '<a href="../docs/page.md">x</a>', "leads nowhere"),
                              (every + '<a href="other.html#there">x</a>', "no such heading"),
                              (every + '<a href="http:/x">x</a>', "not an address"),
                              (every + '<p id="top">x</p>', "occurs twice"),
                              (every + "<p>x", "closes"),
                              (every + '<img src="other.html">', "without a description"),
                              (every + "aq_get(3)", "no such manual page"),
                              (every + "docs/none.md", "no such document"),
                              ('<a href="other.html">x</a>', "no page links to it")):
            with self.subTest(text=text):
                self.write("site/index.html", PAGE.format(text))
                found = " ".join(links.check(self.root, site)[0])
                self.assertEqual(found, "") if finding is None else self.assertIn(finding, found)

    def test_pictures(self):
        self.write("src/core/am/send.c", "")
        dark = "<style>@media (prefers-color-scheme:dark){text{fill:white}}</style>"
        for text, finding in (("<text>src/core</text><text>am/send.c</text>", None),
                              ("<text>src/none</text>", "not in the tree"),
                              ("<text>am/none.c</text>", "not in src"),
                              ('<image href="x.png"/>', "more than itself")):
            with self.subTest(text=text):
                path = self.write("x.svg", f'<svg xmlns="http://www.w3.org/2000/svg">{dark}{text}'
                                           "</svg>")
                found = " ".join(links.check_picture(self.root, path))
                self.assertEqual(found, "") if finding is None else self.assertIn(finding, found)
        path.write_text(path.read_text().replace("dark", "light"))
        self.assertIn("dark mode", " ".join(links.check_picture(self.root, path)))


if __name__ == "__main__":
    unittest.main()
