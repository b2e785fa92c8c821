"""Generates the site in a temporary folder."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOLS = ("cmark-gfm", "mandoc")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def site(root, man):
    """A context manager: the folder of the pages. Exits as skipped if a converter is not
    installed."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        skip(f"not installed: {' '.join(missing)} [.ci/install-deps.sh test]")
    folder = tempfile.TemporaryDirectory(prefix="aqueduct-site-")
    subprocess.run([sys.executable, pathlib.Path(root) / "tools/dev/site/site.py", root, man,
                    f"{folder.name}/site"], check=True)
    return folder
