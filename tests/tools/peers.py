#!/usr/bin/env python3
"""`aqinfo --peers` for jobs over udp, while they run and after they have ended.

usage: peers.py BUILD_DIR
"""

import os
import pathlib
import re
import tempfile
import time

from programs import AQINFO, AQPERF, AQRUN, BUILD, Case, job, main, run, start

STRESS = BUILD / "tests/core/core_stress"
SECRET = tempfile.NamedTemporaryFile(prefix="aq-peers-")
SECRET.write(os.urandom(32))
SECRET.flush()


class Peers(Case):
    @staticmethod
    def peer(name):
        return int(name) if name.isdigit() else name

    def table(self, text):
        """Returns rows by rank and peer, with column titles as keys; and the ranks' dropped
        packets."""
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^ *rank +peer +state +rtt us +least +timeout +window +flying")
        rows, dropped = {}, {}
        for line in lines[1:]:
            words = line.split()
            if words[0] == "rank":
                self.assertEqual(words[2], "dropped:")
                dropped[int(words[1])] = dict(zip(words[3::2], map(int, words[4::2])))
                continue
            self.assertEqual(len(words), 14, line)
            titles = ("state rtt least timeout window flying queued packet sent again received "
                      "repeated").split()
            self.assertNotIn("?", words)
            values = [words[2]] + [float(word) for word in words[3:]]
            rows[int(words[0]), self.peer(words[1])] = dict(zip(titles, values))
        return rows, dropped

    def test_of_a_job_that_is_over(self):
        with tempfile.TemporaryDirectory(prefix="aq-peers-") as name:
            folder = pathlib.Path(name)
            self.expect(job(3, STRESS, "100", AQ_TRANSPORTS="udp", AQ_UDP_LOSSY="loss=20,dup=20",
                            AQ_STATS_FILE=folder / "stats.%"), 0)
            shown = self.expect(run(AQINFO, "--peers", *sorted(folder.iterdir())), 0).stdout
            rows, dropped = self.table(shown)
            self.assertEqual(sorted(rows), [(a, b) for a in range(3) for b in range(3) if a != b])
            self.assertEqual(sorted(dropped), [0, 1, 2])
            counters = {}
            for line in (folder / "stats.0").read_text().splitlines():
                if " peer " not in line and " dropped " not in line:
                    counters[line.split()[2]] = int(line.split()[3])
            mine = [row for (rank, _), row in rows.items() if rank == 0]
            for row in mine:
                self.assertEqual((row["state"], row["queued"]), ("up", 0))
                self.assertLessEqual(row["least"], row["rtt"])
                self.assertLess(row["rtt"], row["timeout"])
                self.assertGreaterEqual(row["window"], row["packet"])
            for column, counter in (("sent", "packets"), ("again", "packets_again"),
                                    ("received", "packets_received")):
                self.assertEqual(sum(row[column] for row in mine), counters.get(counter, 0), shown)

    def shown(self, pid, count=1):
        """Returns the rows of a process or job, once there are this many."""
        until = time.monotonic() + 60
        while True:
            result = run(AQINFO, "--peers", str(pid))
            if result.stdout.count(" up ") >= count or time.monotonic() > until:
                return self.table(self.expect(result, 0).stdout)[0]
            time.sleep(0.02)

    def test_of_a_job_that_runs(self):
        """Peers are shown by the pid of the launcher, and by that of a rank."""
        command = 'echo $$ && exec "$0" --pattern am-short-rtt --min-time 60s'
        with start(AQRUN, "-n", "2", "sh", "-c", command, AQPERF, AQ_TRANSPORTS="udp") as launcher:
            ranks = [int(launcher.stdout.readline()) for _ in range(2)]
            self.assertEqual(set(self.shown(launcher.pid, 2)), {(0, 1), (1, 0)})
            alone = [self.shown(rank) for rank in ranks]
            self.assertEqual(sorted(map(list, alone)), [[(0, 1)], [(1, 0)]])
            before = self.shown(ranks[0])
            until = time.monotonic() + 60
            while self.shown(ranks[0]) == before:  # the output is updated
                self.assertLess(time.monotonic(), until)
            launcher.terminate()
        self.assertIn("has ended", self.expect(run(AQINFO, "--peers", str(ranks[0])), 1).stderr)

    def test_of_connections(self):
        """Programs connected by URI are shown with their addresses, as long as they are
        connected."""
        settings = {"AQ_CONNECT_SECRET": f"file:{SECRET.name}"}
        with start(AQPERF, "--listen", "udp://127.0.0.1:0", **settings) as server:
            uri = re.search(r"udp://127\.0\.0\.1:\d+", server.stdout.readline())[0]
            with start(AQPERF, "--connect", uri, "--pattern", "am-short-rtt", "--min-time", "60s",
                       **settings) as client:
                until = time.monotonic() + 60
                for program in (server, client):
                    row = ((), {"sent": 0})
                    while row[1]["sent"] == 0:  # the peer is up before it has sent anything
                        self.assertLess(time.monotonic(), until)
                        (row,) = self.shown(program.pid).items()
                    self.assertEqual(row[0][0], 0)
                    self.assertRegex(row[0][1], r"^127\.0\.0\.1:\d+$")
                client.kill()
            server.kill()

    def test_of_nothing(self):
        result = self.expect(run(AQINFO, "--peers", str(os.getpid())), 1)
        self.assertIn("does not use udp", result.stderr)
        self.assertIn("contains no peers", self.expect(run(AQINFO, "--peers", __file__),
                                                           1).stderr)
        self.assertIn("No such file", self.expect(run(AQINFO, "--peers", "/nosuch"), 1).stderr)
        self.assertIn("needs a process", self.expect(run(AQINFO, "--peers"), 2).stderr)


if __name__ == "__main__":
    main()
