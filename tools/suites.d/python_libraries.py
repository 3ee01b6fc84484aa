"""The folder in which tools/deps installs the Python packages of tools/deps.d/python."""

import os
import pathlib

from harness import ROOT, require


def libraries():
    """The folder; skips the test if it is missing."""
    folder = pathlib.Path(os.environ.get("SLUICE_DEPS_DIR") or ROOT / ".deps") / "python"
    require((folder / "tlslite").is_dir(), f"no tlslite-ng in {folder}; run tools/deps")
    return folder
