#!/usr/bin/env python3
"""Networks between hosts that do not carry all the time, in the network namespaces of far.py.

usage: networks.py BUILD_DIR [CLASS[.TEST]]…
"""

import itertools
import signal
import time

import far


class WideNetworks(far.Bridged):
    """What the network does costs nobody, as long as it does it for a while."""

    def test_cut(self):
        """Shorter than one and a half times what a host may be silent for: the job goes on."""
        for silence, cuts in ((10, (5, 10, 15)),) if far.SOAK else ((2, (3,)),):
            for cut, fanout in itertools.product(cuts, ("1", "2")):
                with self.subTest(cut=cut, fanout=fanout), self.job(
                        "sh", "-c", far.Ends.STAY, ranks=4, AQ_HOST_TIMEOUT=f"{silence}s",
                        AQ_SSH_FANOUT=fanout) as job:
                    job.ready(4, 4)
                    with self.apart(2, 4):
                        time.sleep(cut)  # the fault itself takes that long
                    time.sleep(silence)
                    self.assertIsNone(job.run.poll(), job.said(1))
                    job.kill(job.run.pid, number=signal.SIGTERM)
                    self.assertEqual(job.wait(), 143, job.said(1))


if __name__ == "__main__":
    far.main()
