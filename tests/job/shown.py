#!/usr/bin/env python3
"""What jobs over several hosts show where they were started: of their peers.

usage: shown.py BUILD_DIR [CLASS[.TEST]]…

The hosts are those of far.py.
"""

import re
import signal
import subprocess

import far


class WideShown(far.Bridged):
    """From hosts that see nothing of each other but packets."""

    def test_peers(self):
        """aqinfo shows those of ranks of other hosts by the number of aqrun, which has none."""
        with self.job(far.BUILD / "tests/core/core_stress", "1000000000", ranks=4,
                      AQ_SSH_FANOUT="1") as job:
            def rows():
                shown = subprocess.run([far.BUILD / "tools/aqinfo/aqinfo", "--peers",
                                        str(job.run.pid)], env=self.environment,
                                       capture_output=True, text=True, check=False)
                found = re.findall(r"(?m)^ +(\d) +(\d) up ", shown.stdout)
                return shown if len(found) == 12 and shown.returncode == 0 else None
            self.assertIsNotNone(far.until(rows), job.said(1))
            job.kill(job.run.pid, number=signal.SIGTERM)
            self.assertEqual(job.wait(), 143, job.said(1))


if __name__ == "__main__":
    far.main()
