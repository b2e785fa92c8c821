#!/usr/bin/env python3
"""aqperf: two ranks without shared memory are measured beside the network without the library:
plain sockets, or the minimum of calls of libfabric or verbs.

usage: aqperf_plain.py BUILD_DIR udp|ofi|ibv
"""

import json

from programs import AQPERF, ARGUMENTS, Case, job, main

NET = ARGUMENTS[0]
QUICK = ("--min-time", "50us", "--repeats", "5", "--interval", "100us")
VARIABLES = {"udp": {"AQ_NEIGHBORHOOD": "1"},
             # Messages of 4 KB with their headers exceed the default limit of fabrics.
             "ofi": {"AQ_TRANSPORTS": "ofi", "AQ_OFI_PROVIDER": "tcp", "AQ_OFI_MEDIUM": "8K"},
             # In the machine of tests/rdma, where each rank has one end of the wire.
             "ibv": {"AQ_TRANSPORTS": "ibv", "AQ_IBV_PORTS": "rxe0+rxe1", "AQ_IBV_SPREAD": "yes",
                     "AQ_IBV_RAILS": "1", "AQ_IBV_MEDIUM": "8K"}}[NET]
# Pattern -> the limits of its sizes.
LIMITS = {"am-short-rtt": [f"{NET}-rtt"], "am-medium-rtt": [f"{NET}-echo"] * 2,
          "am-medium-rate": [f"{NET}-stream"] * 2, "put-lat": [f"{NET}-put"] * 2,
          "get-lat": [f"{NET}-get"] * 2, "put-bw": [f"{NET}-stream"] * 2,
          "get-bw": [f"{NET}-stream"] * 2, "put-self": ["store", "memcpy"], "poll-empty": ["call"],
          "barrier": [f"{NET}-rounds"], "gups": [f"{NET}-stream"] * 2,
          "attentive-am-short": [f"{NET}-rtt"], "attentive-am-medium": [f"{NET}-stream"] * 2,
          "attentive-put": [f"{NET}-stream"] * 2, "attentive-get": [f"{NET}-stream"] * 2,
          "first-after-put": [f"{NET}-put"] * 2, "halo": [f"{NET}-halo"] * 2,
          "steal": [f"{NET}-answer"] * 2}


class AqperfPlain(Case):
    def check_through(self, api):
        result = job(2, AQPERF, *QUICK, "--sizes", "8,4K", "--api", api,
                     "--pattern", ",".join(LIMITS), "--json", "-", **VARIABLES)
        found = {}
        for row in json.loads(self.expect(result, 0).stdout):
            found.setdefault(row["pattern"], []).append(row["limit_name"])
            self.assertGreater(row["limit"], 0, row)
            self.assertGreater(row["ratio"], 0, row)
            self.assertIsNone(row["cma"], row)
            if "AQ_TRANSPORTS" in VARIABLES:
                self.assertEqual(row["transport"], NET)
            if row["unit"] == "ns" and row["limit_name"].startswith(NET):
                self.assertGreater(row["limit"], 500, row)  # at least two system calls
        self.assertEqual(found, LIMITS)

    def test_limits_beside_the_native_calls(self):
        self.check_through("aq")

    def test_limits_beside_the_gasnet_interface(self):
        self.check_through("gasnet")


    def test_answers_that_only_leave_with_further_calls(self):
        result = job(2, AQPERF, *QUICK, "--sizes", "64K", "--pattern", "am-long-rtt,get-lat",
                     "--json", "-", **VARIABLES)
        rows = json.loads(self.expect(result, 0).stdout)
        self.assertEqual([row["limit_name"] for row in rows], [f"{NET}-echo", f"{NET}-get"])


main()
