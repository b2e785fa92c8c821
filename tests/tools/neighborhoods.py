#!/usr/bin/env python3
"""Collectives of a job with several neighborhoods: only one rank of each gets messages.

usage: neighborhoods.py BUILD_DIR
"""

import re

from programs import EXAMPLES, Case, job, main


class Neighborhoods(Case):
    def receivers(self, sizes):
        # Ranks that never sleep need no messages to wake them.
        result = job(8, EXAMPLES / "allreduce", "1000", AQ_NEIGHBORHOOD=sizes, AQ_STATS="yes",
                     AQ_WAIT="yield")
        text = self.expect(result, 0).stderr
        return {int(rank) for rank in re.findall(r"^rank (\d+): am_received ", text, re.MULTILINE)}

    def test_one_of_each_sends(self):
        for sizes, expected in (("0", set()), ("4", {0, 4}), ("1,5,2", {0, 1, 6}),
                                ("1", set(range(8)))):
            with self.subTest(sizes=sizes):
                self.assertEqual(self.receivers(sizes), expected)


main()
