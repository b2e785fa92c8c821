#!/usr/bin/env python3
"""The examples: each works with the given number of ranks, and prints the expected output.

usage: examples.py BUILD_DIR RANKS
"""

import pathlib
import re
import struct
import tempfile
import zlib

from programs import AQRUN, ARGUMENTS, EXAMPLES, Case, job, main, run, start

RANKS = int(ARGUMENTS[0])


def png_pixels(data):
    """Returns width, height and rows of a PNG with 8 bits per pixel; checks all checksums."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height = 8, b"", 0, 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == \
            zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        if kind == b"IDAT":
            packed += body
        at += 12 + length
    raw = zlib.decompress(packed)
    rows = [raw[y * (width + 1):(y + 1) * (width + 1)] for y in range(height)]
    assert len(raw) == height * (width + 1) and all(row[0] == 0 for row in rows)
    return width, height, [row[1:] for row in rows]


class Examples(Case):
    def said(self, name, *arguments):
        return self.expect(job(RANKS, EXAMPLES / name, *arguments), 0).stdout

    def test_hello(self):
        ranks = re.findall(r"^hello from rank (\d+) of (\d+)", self.said("hello"), re.MULTILINE)
        self.assertEqual(sorted(map(int, (rank for rank, size in ranks))), list(range(RANKS)))
        self.assertEqual({size for rank, size in ranks}, {str(RANKS)})

    def test_pingpong(self):
        self.assertRegex(self.said("pingpong"), r"rank 0 and rank \d: \d+ ns")

    def test_gasnet(self):
        greeted = re.findall(r"^rank (\d+) of \d+ was greeted by rank (\d+): hello$",
                             self.said("gasnet/hello"), re.MULTILINE)
        self.assertEqual(sorted((int(a), int(b)) for a, b in greeted),
                         [(rank, (rank - 1) % RANKS) for rank in range(RANKS)])
        self.assertRegex(self.said("gasnet/pingpong"), r"rank 0 and rank \d: \d+ ns")
        for version in ("1", "ex"):
            text = self.said(f"gasnet/hashtable_{version}")
            self.assertEqual(len(re.findall(r"10000 looked up, 0 wrong", text)), RANKS)

    def test_ring(self):
        text = self.said("ring", "50")
        self.assertIn(f"made {50 * RANKS} hops", text)
        self.assertNotIn("WRONG", text)

    def test_hashtable(self):
        text = self.said("hashtable", "3000")
        self.assertIn(f"{RANKS} ranks, {RANKS * 5000} lookups, 0 wrong: all as expected", text)

    def heat(self, size, steps):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "heat.png"
            text = self.said("heat", "--size", size, "--steps", steps, "--output", picture)
            self.assertIn("right", text)
            self.assertNotIn("WRONG", text)
            return png_pixels(picture.read_bytes())

    def test_heat(self):
        for size, steps in (("160x90", "50"), ("33x7", "20"), ("1x1", "3"), ("64x2", "10")):
            with self.subTest(size=size):
                width, height, _ = self.heat(size, steps)
                self.assertEqual(f"{width}x{height}", size)

    def test_heat_spreads(self):
        _, _, start = self.heat("160x90", "0")
        _, _, later = self.heat("160x90", "100")
        self.assertEqual({value for row in start for value in row}, {0, 255})
        self.assertGreater(len({value for row in later for value in row}), 20)

    def test_teams(self):
        rows = max(i for i in range(1, RANKS + 1) if RANKS % i == 0 and i * i <= RANKS)
        columns = RANKS // rows
        want = [f"row {row}: sum {sum(range(row * columns + 1, (row + 1) * columns + 1))}"
                for row in range(rows)]
        self.assertEqual(self.said("teams").splitlines(), want)

    def test_allreduce(self):
        found = re.fullmatch(r"pi is about ([\d.]+), from (\d+) points of (\d+) processes\n",
                             self.said("allreduce", "300000"))
        self.assertTrue(found)
        self.assertAlmostEqual(float(found[1]), 3.1416, delta=0.02)
        self.assertEqual((int(found[2]), int(found[3])), (300000 * RANKS, RANKS))

    def test_eventloop(self):
        self.assertEqual(self.said("eventloop", "5"),
                         "every process was asked and answered 5 times\n")

    def client(self, code, *arguments, **settings):
        return self.expect(run(EXAMPLES / "client", *arguments, **settings), code).stdout

    def test_server(self):
        """The server runs alone, or as a rank of a job that is independent of its clients."""
        launcher = () if RANKS == 1 else (AQRUN, "-n", "1")
        with start(*launcher, EXAMPLES / "server") as server:
            uri = re.search(r"listening at (shm://\S+)", server.stdout.readline()).group(1)
            self.client(3, uri, "get", "color")
            self.assertEqual(self.client(0, uri, "set", "color", "blue"), "blue\n")
            self.assertEqual(self.client(0, uri, "set", "size", "7"), "7\n")
            self.assertEqual(self.client(0, uri, "get", "color"), "blue\n")
            self.assertRegex(self.client(0, uri, "time", "1000"), r"^\d+ ns for a request")
            self.assertEqual(self.client(0, uri, "stop"), "stopping\n")
            text = server.stdout.read()
        self.assertEqual(server.returncode, 0, text)
        self.assertGreaterEqual(len(re.findall("is connected", text)), 4)
        self.client(1, uri, "get", "color", AQ_CONN_TIMEOUT="10ms")
        for bad in ("foo://x", "udp://127.0.0.1:9"):  # the reason of the failure is printed once
            said = self.expect(run(EXAMPLES / "client", bad, "stop"), 1).stderr
            self.assertEqual(len(said.splitlines()), 1, said)

    def test_wrong_usage(self):
        for command in (("ring", "x"), ("ring", "1", "2"), ("allreduce", "0"),
                        ("allreduce", "1", "2"), ("hashtable", "0"), ("heat", "--foo"),
                        ("client", "x"), ("client", "x", "time", "0"), ("server", "a", "b"),
                        ("heat", "--size", "0x4"),
                        ("heat", "--size", "4"), ("heat", "--steps")):
            with self.subTest(command=command):
                result = self.expect(run(EXAMPLES / command[0], *command[1:]), 2)
                self.assertTrue(result.stderr)


main()
