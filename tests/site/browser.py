#!/usr/bin/env python3
"""The site in a browser: it fits wide and narrow screens, honors the reader's preferred color
scheme, and its search works; with scripts disabled, all headings are listed.

usage: browser.py ROOT MAN_DIR [CLASS.TEST]…
"""

import pathlib
import sys
import unittest

import chrome
import made

NARROW, PHONE, DESK = 320, 375, 1280
# One of each kind, and those with the widest tables and code.
PAGES = ("index.html", "README.html", "contents.html", "docs/first-steps-runtime.html",
         "docs/settings.html", "docs/performance.html", "docs/measurements.html",
         "docs/architecture.html", "docs/requirements.html", "man/aq_put.3.html",
         "man/aqrun.1.html", "man/aqueduct.7.html")
BRIGHTNESS = """(element, name) => {
    const [red, green, blue] = getComputedStyle(element)[name].match(/[0-9.]+/g).map(Number);
    return 0.3 * red + 0.6 * green + 0.1 * blue;
}"""


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(made.site(*sys.argv[1:3]))
        cls.site = (pathlib.Path(folder) / "site").as_uri()
        cls.chrome = cls.enterClassContext(chrome.Chrome())

    def open(self, page, width=DESK, dark=False):
        self.chrome.look(width, dark)
        self.chrome.open(f"{self.site}/{page}")

    def results(self):
        return self.chrome.ask("Array.from(document.querySelectorAll('#results li a'), "
                               "(link) => link.getAttribute('href'))")

    def test_no_page_scrolls_sideways(self):
        for page in PAGES:
            for width in (NARROW, PHONE, DESK):
                with self.subTest(page=page, width=width):
                    self.open(page, width)
                    wide = self.chrome.ask("document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, width)

    def test_navigation(self):
        """It is beside the text on a wide screen, and below it on a phone, where a link leads to
        it."""
        self.open("docs/mpi.html", DESK)
        where = ("(name) => { const box = document.querySelector(name).getBoundingClientRect(); "
                 "return [box.left, box.top, box.right, box.bottom]; }")
        nav, main = (self.chrome.ask(f"({where})('{name}')") for name in ("nav", "main"))
        self.assertLessEqual(nav[2], main[0])
        self.assertEqual(nav[1], main[1])
        current = self.chrome.ask("document.querySelectorAll('nav [aria-current]').length")
        self.assertEqual(current, 1)
        self.open("docs/mpi.html", PHONE)
        nav, main = (self.chrome.ask(f"({where})('{name}')") for name in ("nav", "main"))
        self.assertGreaterEqual(nav[1], main[3])
        self.chrome.ask("document.querySelector('.menu').click()")
        self.assertLess(self.chrome.ask(f"({where})('nav')")[1], 400)

    def test_colors(self):
        """Text is light on dark, or dark on light."""
        for page in ("index.html", "man/aq_put.3.html"):
            for dark in (False, True):
                with self.subTest(page=page, dark=dark):
                    self.open(page, DESK, dark)
                    for name in ("body", "pre", "a"):
                        place = f"document.querySelector('{'body' if name == 'a' else name}')"
                        back = self.chrome.ask(f"({BRIGHTNESS})({place}, 'backgroundColor')")
                        text = self.chrome.ask(
                            f"({BRIGHTNESS})(document.querySelector('main {name}') || "
                            "document.body, 'color')")
                        self.assertGreater((text - back) * (1 if dark else -1), 90, name)

    def test_pictures(self):
        """All are loaded, and match the color scheme of the page."""
        for dark in (False, True):
            self.open("index.html", DESK, dark)
            sizes = self.chrome.ask("Array.from(document.images, (image) => image.naturalWidth)")
            self.assertGreaterEqual(len(sizes), 7)
            self.assertNotIn(0, sizes)
            # The corner of each picture is its background.
            corners = self.chrome.ask("""(() => Array.from(document.images, (image) => {
                const canvas = document.createElement('canvas');
                canvas.width = canvas.height = 40;
                const context = canvas.getContext('2d');
                context.drawImage(image, 0, 0, image.naturalWidth, image.naturalHeight);
                return context.getImageData(8, 8, 1, 1).data[0];
            }))()""")
            for corner in corners:
                self.assertEqual(corner < 60, dark, corners)

    def test_pictures_on_a_phone(self):
        """They are not scaled down, so that their text stays readable."""
        for page in ("index.html", "docs/architecture.html", "docs/performance.html"):
            self.open(page, PHONE)
            widths = self.chrome.ask("Array.from(document.images, "
                                     "(image) => [image.width, image.naturalWidth])")
            self.assertTrue(widths)
            for width, drawn in widths:
                self.assertEqual(width, drawn, page)

    def test_search(self):
        for words, first in (("aq_put_nb", "man/aq_put_nb.3.html"),
                             ("first active message hosts", None), ("AQ_UDP_MTU", None),
                             ("walkthroughs", "docs/architecture.html#six-walkthroughs")):
            with self.subTest(words=words):
                self.open(f"contents.html?q={words.replace(' ', '+')}")
                found = self.results()
                self.assertTrue(found)
                if first is not None:
                    self.assertEqual(found[0], first)
                self.assertTrue(self.chrome.ask("document.getElementById('all').hidden"))
        for words in ("zyxwvut", "walkthroughs+zyxwvut"):
            self.open(f"contents.html?q={words}")
            self.assertEqual(self.results(), [])
            self.assertIn("Nothing found", self.chrome.ask("document.body.innerText"))

    def test_search_from_any_page(self):
        """The form on each page leads to the results, and a result leads to its page."""
        self.open("docs/mpi.html", PHONE)
        self.chrome.ask("document.querySelector('header input').value = 'credits'")
        self.chrome.follow("document.querySelector('header button').click()")
        found = self.results()
        self.assertTrue(found)
        self.chrome.follow("document.querySelector('#results li a').click()")
        self.assertTrue(self.chrome.ask("location.href").endswith(found[0]))
        self.assertIn("credits", self.chrome.ask("document.body.innerText").lower())

    def test_without_scripts(self):
        """All headings are listed, and nothing else is missing."""
        self.chrome.scripts(False)
        self.addCleanup(self.chrome.scripts, True)
        self.open("contents.html?q=credits")
        self.assertFalse(self.chrome.ask("document.getElementById('all').hidden"))
        self.assertIn("need", self.chrome.ask("document.querySelector('noscript').innerText"))
        self.assertGreater(self.chrome.ask("document.querySelectorAll('#all li').length"), 300)


if __name__ == "__main__":
    if chrome.installed() is None:
        made.skip("Chromium is not installed [.ci/install-deps.sh ci]")
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
