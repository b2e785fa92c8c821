"""Spack's recipe for Aqueduct; docs/packaging.md describes how it is used."""

from spack.package import *


class Aqueduct(CMakePackage):
    """Active messages and one-sided put/get between the processes of a parallel program, over
    shared memory, UDP, InfiniBand and RoCE, and libfabric; with the programming interfaces of
    GASNet and CCI, and a provider for libfabric.
    """

    homepage = "https://aqueduct.example"
    url = "https://aqueduct.example/releases/aqueduct-0.1.0.tar.gz"
    git = "https://aqueduct.example/aqueduct.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("ibv", default=True, description="The transport ibv (InfiniBand, RoCE)")
    variant("ofi", default=False, description="The transport ofi (libfabric)")
    variant("fi", default=False, description="The provider for libfabric, for programs of MPI")
    variant("gasnet", default=True, description="The GASNet interface")
    variant("cci", default=False, description="CCI's interface")
    variant("ncurses", default=True, description="aqtop with a screen")

    depends_on("c", type="build")
    depends_on("cmake@3.21:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build", when="+ncurses")
    depends_on("python@3:", type="build")
    # Only headers are needed to build. As link dependencies their folders are in the run path, by
    # which the libraries are found when a job needs them; so is that of libcrypto, for udp.
    depends_on("openssl@3:")
    depends_on("rdma-core", when="+ibv")
    depends_on("libfabric", when="+ofi")
    depends_on("libfabric@1.17:", when="+fi")
    depends_on("ncurses", when="+ncurses")

    requires("platform=linux", msg="Aqueduct runs on Linux")
    requires(
        "target=x86_64:",
        "target=aarch64:",
        policy="any_of",
        msg="Aqueduct is tested on x86_64 and aarch64",
    )

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("AQ_BUILD_TESTS", False),
            self.define("AQ_BUILD_EXAMPLES", False),
            self.define_from_variant("AQ_IBV", "ibv"),
            self.define_from_variant("AQ_OFI", "ofi"),
            self.define_from_variant("AQ_FI", "fi"),
            self.define_from_variant("AQ_GASNET", "gasnet"),
            self.define_from_variant("AQ_CCI", "cci"),
            self.define_from_variant("AQ_NCURSES", "ncurses"),
        ]

    def setup_run_environment(self, env):
        for front in ("gasnet", "cci"):
            if self.spec.satisfies(f"+{front}"):
                tree = join_path(self.prefix.lib, "aqueduct", front)
                env.prepend_path("PKG_CONFIG_PATH", join_path(tree, "lib", "pkgconfig"))
        if self.spec.satisfies("+gasnet"):
            env.prepend_path("PATH", join_path(self.prefix.lib, "aqueduct", "gasnet", "bin"))
        if self.spec.satisfies("+fi"):
            env.prepend_path("FI_PROVIDER_PATH", join_path(self.prefix.lib, "libfabric"))
