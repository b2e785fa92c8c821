#!/usr/bin/env python3
"""The lint scripts find the faults that they look for: each checks small trees with one fault each.
Also tests the summary of skipped tests."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

GOOD_HEADER = """/* Things. */
#ifndef AQUEDUCT_THING_H
#define AQUEDUCT_THING_H
#include <aqueduct/status.h>
/**
 * Do a thing.
 *
 * Blocking    Never.
 * Threads     Any.
 *
 * @return AQ_OK  Done.
 */
AQ_API aq_status aq_thing_do(int how);
#endif
"""

# A format, and the page that describes it.
FORMAT = """/* Talk. */
#include <stdint.h>
enum talk_kind { TALK_HELLO = 1, TALK_BYE, TALK_KINDS };
struct talk {
    uint8_t kind, room;
    uint16_t len;
    uint64_t at;
};
"""
PAGE = """# Formats

| format | version | between |
|---|---|---|
| `talk` | 3 | all |

## `talk`

A message, `struct talk`
(src/talk/talk.h):

| offset | size | name | meaning |
|---|---|---|---|
| 0 | 1 | `kind` | |
| 1 | 1 | `room` | |
| 2 | 2 | `len` | |
| 8 | 8 | `at` | |

`enum talk_kind` (src/talk/talk.h):

| number | name | meaning |
|---|---|---|
| 1 | `TALK_HELLO` | |
| 2 | `TALK_BYE` | |
"""


class LintTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="aq-lint-")
        self.root = pathlib.Path(self.folder.name)
        self.write("include/aqueduct/status.h",
                   (ROOT / "include/aqueduct/status.h").read_text(encoding="utf-8"))
        self.write("include/aqueduct/thing.h", GOOD_HEADER)
        self.write("src/base/base.h", "/* Base. */\n#include <aqueduct/status.h>\n")
        self.write("src/core/core.c", '/* Core. */\n#include "base/base.h"\n')
        tools = self.root / "tools/dev"
        tools.mkdir(parents=True)
        for name in ("aqheaders.py", "mkman.py", "mkman1.py"):
            (tools / name).write_text((ROOT / "tools/dev" / name).read_text(encoding="utf-8"),
                                      encoding="utf-8")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def lint(self, script, *arguments):
        result = subprocess.run([sys.executable, HERE / f"{script}.py", self.root, *arguments],
                                capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr

    def assert_clean(self, script, *arguments):
        code, output = self.lint(script, *arguments)
        self.assertEqual(code, 0, output)

    def assert_finds(self, text, script, *arguments):
        code, output = self.lint(script, *arguments)
        self.assertNotEqual(code, 0, output)
        self.assertIn(text, output)

    def test_good_tree(self):
        self.assert_clean("includes")
        self.assert_clean("style")
        self.assert_clean("prose")
        self.assert_clean("headers", "cc", "c++", ".")

    def test_includes(self):
        self.write("src/base/up.c", '/* Up. */\n#include "core/core.h"\n')
        self.assert_finds("src/base must not include core/core.h", "includes")

    def test_includes_of_a_single_transport(self):
        self.write("src/core/core.c", '/* Core. */\n#include "transport/shm/shm.h"\n')
        self.assert_finds("src/core must not include transport/shm/shm.h", "includes")

    def test_includes_between_transports(self):
        self.write("src/transport/loop/loop.c", '/* Loop. */\n#include "transport/shm/shm.h"\n')
        self.assert_finds("must not include transport/shm/shm.h", "includes")
        self.write("src/transport/loop/loop.c", '/* Loop. */\n#include "transport/loop/loop.h"\n')
        self.assert_clean("includes")

    def test_includes_of_the_engine(self):
        self.write("src/dgram/ack.c", '/* Ack. */\n#include "dgram/dgram_impl.h"\n')
        self.assert_finds("must not include dgram/dgram_impl.h", "includes")
        self.write("src/dgram/ack.c", '/* Ack. */\n#include "dgram/conn.h"\n')
        self.assert_clean("includes")

    def test_includes_of_an_unknown_folder(self):
        self.write("src/new/new.c", "/* New. */\n")
        self.assert_finds("is not in the table", "includes")

    def wire(self, text, *faults):
        """Replace parts of the page and the code, and expect the finding `text`, if any."""
        page, header = PAGE, FORMAT
        for old, new in faults:
            self.assertTrue(old in page or old in header)
            page, header = page.replace(old, new), header.replace(old, new)
        self.write("docs/wire.md", page)
        self.write("src/talk/talk.h", header)
        self.write("src/base/wire.c", '/* V. */\nint v[] = {{"talk", 3}};\n')
        if text is None:
            self.assert_clean("wire", "cc")
        else:
            self.assert_finds(text, "wire", "cc")

    def test_wire(self):
        self.wire(None)
        self.wire("versions differ", ("| 3 |", "| 4 |"))
        self.wire("talk.len is at another offset", ("| 2 | 2 |", "| 4 | 2 |"))
        self.wire("talk.len has another size", ("| 2 | 2 |", "| 2 | 4 |"))
        self.wire("before len is something else", ("| 1 | 1 | `room` | |\n", ""))
        self.wire("before at is something else", ("uint64_t", "uint32_t way;\n uint64_t"))
        self.wire("after talk.at is something else", ("at;", "at, more;"))
        self.wire("no member named", ("`room`", "`space`"))
        self.wire("TALK_BYE is another number", ("| 2 | `TALK_BYE`", "| 3 | `TALK_BYE`"))
        self.wire("enum talk_kind has", ("TALK_BYE,", "TALK_BYE, TALK_ASK,"))
        self.wire("no `struct NAME`", ("`struct talk`", "talk"))

    def test_wire_of_a_release(self):
        """A format that changes after a release needs a new version."""
        git = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b"]
        self.wire(None)
        for words in ["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1.0.0"]:
            subprocess.run([*git, *words], check=True)
        self.wire(None, ("| `at` | |", "| `at` | the place |"))
        other = ("room", "space")
        self.wire("differ from those of v1.0.0, but its version is still 3", other)
        self.write("src/base/wire.c", '/* V. */\nint v[] = {{"talk", 4}};\n')
        page = (self.root / "docs/wire.md").read_text(encoding="utf-8")
        self.write("docs/wire.md", page.replace("| 3 |", "| 4 |"))
        self.assert_clean("wire", "cc")
        self.wire(None)

    def test_style_limits(self):
        self.write("src/base/long.c", "/* Long. */\n" + "int aqi_x;\n" * 800)
        self.assert_finds("801 lines", "style")
        self.write("src/base/long.c", "/* Wide. */\n// " + "x" * 100 + "\n")
        self.assert_finds("103 columns", "style")
        self.write("src/base/long.c", "int aqi_x;\n")
        self.assert_finds("what the file is for", "style")

    def test_style_of_statics(self):
        self.write("src/core/am/send.c", "/* S. */\nstatic int *start(void)\n{\n}\n")
        self.assert_finds("static start: begin its name with send_ or am_", "style")
        self.write("src/core/am/send.c", "/* S. */\nstatic int *am_start(void)\n{\n}\n")
        self.assert_clean("style")

    def test_style_of_structs(self):
        self.write("src/base/a.h", "/* A. */\nstruct aqi_thing {\n    int x;\n};\n")
        self.write("src/core/b.h", "/* B. */\nstruct aqi_thing *b;\n")
        self.assert_clean("style")
        self.write("src/core/b.h", "/* B. */\nstruct aqi_thing {\n    int y;\n};\n")
        self.assert_finds("struct aqi_thing is also defined in src/base/a.h", "style")

    def test_style_of_public_calls(self):
        self.write("include/aqueduct/thing.h", GOOD_HEADER.replace("/**\n", "/*\n"))
        self.assert_finds("aq_thing_do has no doc comment", "style")
        self.write("include/aqueduct/thing.h", GOOD_HEADER.replace("@return", "Returns"))
        self.assert_finds("aq_thing_do does not say what it returns", "style")

    def test_prose_of_comments_and_strings(self):
        for text in ("/* The one\n * who waits. */\n", "/* X. */\nchar *x = \"it is over\";\n",
                     "// If nobody comes.\n", "/** A peer is\n * told. */\n"):
            self.write("include/aqueduct/thing.h", text)
            self.assert_finds("include/aqueduct/thing.h:", "prose")
        self.write("include/aqueduct/thing.h", "/* X. */\n\n/* Y, the name\n * of which is Z. */\n")
        self.assert_finds('thing.h:4: "of which": whose', "prose")
        self.write("include/aqueduct/thing.h", "/* X. */\nint who, told;\nchar c = '\"';\n")
        self.assert_clean("prose")

    def test_prose_is_spelled_in_one_way(self):
        for word in ("neighbours", "Colour", "cancelled", "unsignalled", "synchronises",
                     "reinitialised", "Time-outs", "for ever"):
            self.write("include/aqueduct/thing.h", f"/* X {word} Y. */\n")
            self.assert_finds("thing.h:1: ", "prose")
        self.write("include/aqueduct/thing.h", "/* A neighbor promises likewise. */\n")
        self.assert_clean("prose")

    def test_prose_of_word_order(self):
        for text in ("It is closed already.", "It does not arrive\n * any more.",
                     "Takes another path than A.", "Wait some seconds.", "From some time on, X."):
            self.write("include/aqueduct/thing.h", f"/* {text} */\n")
            self.assert_finds("include/aqueduct/thing.h:", "prose")
        self.write("include/aqueduct/thing.h",
                   "/* It has already left; any more messages use no other path than this. */\n")
        self.assert_clean("prose")

    def test_prose_of_openings(self):
        self.write("include/aqueduct/thing.h", "/* Is it so? */\n")
        self.assert_finds("return whether", "prose")
        self.write("include/aqueduct/thing.h", "/* What the thing is for. */\n")
        self.assert_finds("name the thing", "prose")
        self.write("include/aqueduct/thing.h", "/* X. */\n\nint n; /* most small packets */\n")
        self.assert_finds("thing.h:3: \"most small packets\": the maximum", "prose")
        self.write("include/aqueduct/thing.h",
                   "/* X.\n *\n * What it reads is copied. */\n/* Most messages are short. */\n")
        self.assert_clean("prose")

    def test_prose_of_documents_and_scripts(self):
        self.write("README.md", "# X\n\n```sh\nwho\n```\n")
        self.assert_clean("prose")
        self.write("README.md", "# X\n\nIt makes\nno sense.\n")
        self.assert_finds('README.md:3: "makes no sense"', "prose")
        self.write("README.md", "# What it is\n")
        self.assert_finds("name the thing in a heading", "prose")
        self.write("README.md", "# X\n\n| tool | |\n|---|---|\n| a | b |\n")
        self.assert_finds('README.md:3: "| | |---": a header', "prose")
        self.write("README.md", "# X\n\n| | speed |\n|---|---|\n| a | |\n| b | |\n")
        self.assert_clean("prose")
        self.write("README.md", "# X\n")
        self.write("examples/a.sh", "who | sort\n# If need be.\n")
        self.assert_finds('examples/a.sh:2: "If need be"', "prose")

    def test_headers(self):
        self.write("src/base/needy.h", "/* Needs what it does not include. */\nsize_t aqi_x;\n")
        self.assert_finds("base/needy.h does not compile alone", "headers", "cc", "c++", ".")

    def test_headers_in_cxx(self):
        self.write("include/aqueduct/new.h", "/* C only. */\nextern int new;\n")
        self.assert_finds("aqueduct/new.h does not compile alone with c++", "headers", "cc", "c++",
                          ".")

    def compile(self, name, source, *flags):
        target = self.root / name
        subprocess.run(["cc", "-x", "c", "-", f"-I{self.root}/include", *flags, "-o", target],
                       input=source, text=True, check=True)
        return target

    def test_exports(self):
        defined = "int aq_thing_do(int how) { return how; }\n"
        status = "".join(f"int {name}(void) {{ return 0; }}\n" for name in
                         ("aq_status_name", "aq_status_text", "aq_error_message",
                          "aq_error_log"))
        flags = ["-shared", "-fPIC", "-Wl,-z,nodelete"]
        shared = self.compile("good.so", defined + status, *flags)
        archive = self.compile("good.o", defined + status, "-c")
        self.assert_clean("exports", shared, archive)

        other = self.compile("other.so", defined + status, "-shared", "-fPIC")
        self.assert_finds("other.so: not linked with -z no", "exports", shared, archive, other)
        other = self.compile("other.so", status, *flags)
        self.assert_finds("aq_thing_do is declared AQ_API but not exported", "exports", other,
                          archive)
        other = self.compile("other.so", defined + status + "int aq_secret;\n", *flags)
        self.assert_finds("exports aq_secret", "exports", other, archive)
        other = self.compile("other.o", defined + status + "int shm_post;\n", "-c")
        self.assert_finds("exports shm_post", "exports", shared, other)

    def test_manual(self):
        man = self.root / "man"
        subprocess.run([sys.executable, self.root / "tools/dev/mkman.py", "--include",
                        self.overview(), "--out", man, "--version", "1.2.3",
                        "--date", "2026-01-01"], check=True)
        for tool in ("aqrun", "aqinfo", "aqperf", "aqtop", "amudprun",
                     "gasnetrun_smp", "gasnetrun_udp", "gasnetrun_ibv", "gasnetrun_vapi",
                     "gasnetrun_ofi"):
            self.tool_page(man, tool)
        self.assert_clean("manual", man)
        page = (man / "man3/aq_thing_do.3").read_text(encoding="utf-8")
        self.assertIn("aq_thing_do \\-\ndo a thing\n", page)
        (man / "man3/aq_thing_do.3").write_text(page.replace("Threads", "Strings"),
                                                encoding="utf-8")
        self.assert_finds("aq_thing_do.3 does not say: Threads", "manual", man)
        (man / "man3/aq_thing_do.3").unlink()
        self.assert_finds("aq_thing_do.3 is missing", "manual", man)

    def test_manual_of_forms(self):
        do = "AQ_API aq_status aq_{}(int how);\n"
        self.write("include/aqueduct/thing.h", GOOD_HEADER.replace("#endif\n", f"""
/**
 * Start a thing.
 *
 * Blocking    Only for a moment.
 * Threads     Any.
 *
 * @return AQ_OK, AQ_EINVAL  Started, or not.
 */
{do.format("thing_do_nb")}
/**
 * Undo a thing, and wait. Otherwise as aq_thing_do.
 *
 * @return As aq_thing_do; AQ_ERANGE if it is small.
 */
{do.format("thing_undo")}{do.format("thing_undo_nb")}
{do.format("thing_bare")}#endif
"""))
        command = [sys.executable, self.root / "tools/dev/mkman.py", "--include", self.overview(),
                   "--out", self.root / "man", "--version", "1.2.3", "--date", "2026-01-01"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("aq_thing_bare has no doc comment", result.stderr)
        header = self.root / "include/aqueduct/thing.h"
        text = header.read_text(encoding="utf-8").replace(do.format("thing_bare"), "")
        header.write_text(text, encoding="utf-8")
        subprocess.run(command, check=True)
        page = (self.root / "man/man3/aq_thing_undo_nb.3").read_text(encoding="utf-8")
        for said in ("aq_thing_undo_nb \\-\nstart to undo a thing\n", "Only for a moment.",
                     "Started, or not.", "\\fBAQ_ERANGE\\fR\nIf it is small."):
            self.assertIn(said, page)
        self.assert_clean("style")
        header.write_text(text.replace("Otherwise as", "Unlike"), encoding="utf-8")
        header.write_text(header.read_text(encoding="utf-8").replace("As aq_thing_do;", "AQ_OK,"),
                          encoding="utf-8")
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertIn("aq_thing_undo refers to no call with a form _nb", result.stderr)

    def tool_page(self, man, name):
        tool = self.root / name
        tool.write_text("#!/bin/sh\necho usage: $0; echo; echo '  --all  everything'\n",
                        encoding="utf-8")
        tool.chmod(0o755)
        subprocess.run([sys.executable, self.root / "tools/dev/mkman1.py", "--tool", tool,
                        "--brief", "a tool", "--out", man / f"man1/{name}.1",
                        "--version", "1.2.3", "--date", "2026-01-01"], check=True)

    def overview(self):
        self.write("include/aqueduct/aqueduct.h", "/* Aqueduct: all of it. */\n")
        return self.root / "include/aqueduct"


class PackagingTest(unittest.TestCase):
    """The real files, with one fault at a time."""

    FAULTS = (
        ("CITATION.cff", "version: ", "version: 7", "CITATION.cff: has 7"),
        ("debian/changelog", "aqueduct (", "aqueduct (7", "debian/changelog: has 7"),
        ("packaging/rpm/aqueduct.spec", "libaqueduct.so.", "libaqueduct.so.7.", "has 7."),
        ("packaging/rpm/aqueduct.spec", "Version:", "Release:", "no version found"),
        ("packaging/spack/packages/aqueduct/package.py", '"AQ_IBV"', '"AQ_IVB"',
         "AQ_IVB is no option"),
        ("packaging/spack/packages/aqueduct/package.py", '"AQ_CCI", "cci"', '"AQ_CCI", "fi"',
         "variant cci does not set"),
        ("packaging/spack/packages/aqueduct/package.py", 'when="+ofi"', 'when="+opi"',
         "no such variant"),
        ("packaging/meson/aqueduct.wrap", "aqueduct.example", "elsewhere.example", "elsewhere"),
    )

    def lint(self, root):
        return subprocess.run([sys.executable, HERE / "packaging.py", root], capture_output=True,
                              text=True, check=False)

    def test_faults(self):
        self.assertEqual(self.lint(ROOT).returncode, 0)
        with tempfile.TemporaryDirectory(prefix="aq-lint-") as folder:
            root = pathlib.Path(folder)
            for name in ("packaging", "debian", "cmake", "include", "tools/aqtop"):
                shutil.copytree(ROOT / name, root / name)
            (root / "docs").mkdir()
            for name in ("CITATION.cff", "meson.build", "docs/embedding.md"):
                shutil.copy(ROOT / name, root / name)
            for name, right, wrong, message in self.FAULTS:
                text = (root / name).read_text(encoding="utf-8")
                (root / name).write_text(text.replace(right, wrong), encoding="utf-8")
                result = self.lint(root)
                self.assertNotEqual(result.returncode, 0, message)
                self.assertIn(message, result.stdout)
                (root / name).write_text(text, encoding="utf-8")


class SkippedTest(unittest.TestCase):
    RUN = """<testsuite tests="6" skipped="5">
    <testcase name="a.done" status="run"><system-out>skipped: no</system-out></testcase>
    <testcase name="b.one" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
        <system-out>at first
skipped: a &lt;tool&gt; is missing [fetch tool]</system-out></testcase>
    <testcase name="b.two" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
        <system-out>skipped: a &lt;tool&gt; is missing [fetch tool]\n</system-out></testcase>
    <testcase name="c" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
        <system-out>setUpClass (X) ... skipped 'no x [fetch tool &amp;&amp; make x]'
setUpClass (Y) ... skipped "no 'y'"

OK (skipped=2)</system-out></testcase>
    <testcase name="d" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
        <system-out>it is odd here\n\n</system-out></testcase>
    <testcase name="e" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
    </testsuite>"""

    def said(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            return subprocess.run([sys.executable, ROOT / "tests/skipped.py", file.name],
                                  capture_output=True, text=True, check=True).stdout.splitlines()

    def test_reasons_and_what_changes_them(self):
        self.assertEqual(self.said(self.RUN), [
            "5 tests were skipped:", "  a <tool> is missing: b.one, b.two",
            "  no x; no 'y': c", "  it is odd here: d", "  no reason given: e",
            "To run them, too: fetch tool && make x"])

    def test_none(self):
        self.assertEqual(self.said('<testsuite><testcase name="a" status="run"/></testsuite>'), [])


if __name__ == "__main__":
    unittest.main()
