#!/usr/bin/env python3
"""GASNet programs for the network udp over several hosts, started by their own launcher.

usage: gasnet_hosts.py BUILD_DIR [CLASS[.TEST]]…

The hosts are the network namespaces of far.py, given in each way that GASNet supports.
"""

import re

import far


class WideGasnet(far.Bridged):
    """gasnetrun_udp, which executes aqrun."""

    @classmethod
    def prepare(cls):
        super().prepare()
        del cls.environment["AQ_SSH_OPTIONS"]
        cls.environment.update(GASNET_AQRUN=str(far.AQRUN),
                               GASNET_SSH_OPTIONS=f"-F {cls.place}/user.conf")

    def launcher(self, hosts):
        return ("sh", far.BUILD / "src/front/gasnet/install/gasnetrun_udp")

    def test_ways_to_say_hosts(self):
        """Hosts are named in the environment or in a file; -N says how many are used, with two
        ranks on each."""
        hosts = self.hosts(4)
        file = self.write("nodes", "".join(f"{host}\n" for host in hosts))
        for name, value in (("GASNET_SSH_SERVERS", " ".join(hosts)),
                            ("GASNET_SSH_SERVERS", ",".join(hosts)),
                            ("GASNET_SSH_NODEFILE", file), ("GASNET_NODEFILE", file)):
            with self.subTest(name=name, value=value):
                out, _ = self.ends("-N", "2", "sh", "-c", "ip -4 -o address show dev wire", ranks=4,
                                   GASNET_SPAWNFN="S", **{name: str(value)})
                self.assertEqual(sorted(re.findall(r"inet ([\d.]+)/", out)),
                                 [hosts[0]] * 2 + [hosts[1]] * 2, out)

    def test_programs(self):
        rows = [(4, "am")]
        if far.SOAK:
            rows = [(count, name) for count in (2, 3, 4) for name in (
                "am", "am_prepare", "barriers", "coll", "coll_legacy", "everything", "legacy",
                "ratomic", "rma", "start", "teams", "threads", "vis")]
        for count, name in rows:
            with self.subTest(hosts=count, program=name):
                servers = ",".join(self.hosts(count))
                _, said = self.ends("-v", far.BUILD / f"tests/gasnet/gasnet_{name}_udp",
                                    ranks=2 * count, GASNET_SSH_SERVERS=servers)
                self.assertEqual(said.count(" has joined"), count, said)

    def test_exit_code(self):
        """A rank on another host calls gasnet_exit."""
        out, _ = self.ends(far.BUILD / "tests/gasnet/gasnet_exits_udp", "21", ranks=4, code=42,
                           GASNET_SSH_SERVERS=",".join(self.hosts(4)))
        self.assertIn("exits", out)


if __name__ == "__main__":
    far.main()
