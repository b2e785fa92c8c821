#!/usr/bin/env python3
"""The contract suite with its ranks on two hosts (spaces.py), over AF_XDP.

usage: contract.py BUILD_DIR LOSS [ARGUMENT...]

LOSS is the number of lost packets per 1000; unless it is 0, some packets are also duplicated,
reordered and altered.
"""

import os

from programs import ARGUMENTS, BUILD
from spaces import enter, within

enter()
loss, *more = ARGUMENTS
os.environ |= {"AQ_UDP_PORT": "xdp", "AQ_UDP_INTERFACE": "wire"}
if loss != "0":
    os.environ |= {"AQ_UDP_LOSSY": f"loss={loss},dup=10,reorder=20,corrupt=5,seed={loss}",
                   "AQ_UDP_AUTH": "mac"}
command = within(1, BUILD / "tests/contract/contract", "udp", "--ranks", "2",
                 "--hosts", "/run/netns/", "--shows", "AF_XDP", *more)
os.execvp(command[0], command)
