"""The Go half of bench/compare-iobuf builds with the modules that its go.mod names.

With CI=true a missing Go is a failure, otherwise it skips the test; modules that cannot be downloaded always skip it:
gVisor's is large, and nothing else needs it.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "bench/compare-iobuf.d"


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
class GoHalf(unittest.TestCase):

    def test_builds(self):
        go = shutil.which("go", path=os.environ.get("PATH", os.defpath) + ":/usr/local/go/bin")
        if not go and os.environ.get("CI") == "true":
            self.fail("go is missing")
        if not go:
            self.skipTest("go is missing")
        folder = tempfile.mkdtemp(prefix="sluice-embed-")
        self.addCleanup(shutil.rmtree, folder)
        options = {"cwd": SOURCES, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
                   "check": False, "timeout": 250,
                   "env": {"HOME": folder, **os.environ, "GOFLAGS": "-mod=readonly -modcacherw",
                           "GOTOOLCHAIN": "local", "GOWORK": "off"}}
        brought = subprocess.run([go, "mod", "download"], **options)
        if brought.returncode != 0:
            self.skipTest(f"the modules do not come: {brought.stdout}")
        for command in (["vet", "."], ["build", "-buildvcs=false", "-o", folder + "/compare-iobuf", "."]):
            done = subprocess.run([go, *command], **options)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
