"""The public headers of the buffer library include nothing that costs their users much compile time.

Skipped if there is no compiler, unless CI is "true".
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CXX = os.environ.get("CXX") or "g++"
HEAVY = {"algorithm", "chrono", "deque", "functional", "iostream", "list", "map", "memory", "mutex", "regex", "set",
         "sstream", "thread", "unordered_map", "unordered_set", "vector", "sys/mman.h"}
# What they declare is made of these.
ALLOWED = {"chunk_pointer.h": {"memory"}, "shared_buffer.h": {"memory"}}
# Only programs that have protobuf include it.
NOT_ALONE = {"protobuf_streams.h"}


def heavy_in(source):
    """Which heavy headers a source text includes, at whatever depth."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
        file.write(source)
        file.flush()
        found = subprocess.run([CXX, "-std=c++20", "-M", f"-I{ROOT}/include", file.name], stdout=subprocess.PIPE,
                               text=True, check=True, timeout=60).stdout
    # /usr/include/c++/12/mutex, but not .../bits/std_mutex.h
    names = {re.sub(r".*/c\+\+/(?:v?\d+/)?", "", path) for path in found.split()}
    systems = {heavy for heavy in HEAVY if heavy.endswith(".h") and re.search(rf"/{heavy}\s", found)}
    return HEAVY & names | systems


@unittest.skipIf(shutil.which(CXX) is None and os.environ.get("CI") != "true", f"{CXX} is missing")
class LightHeaders(unittest.TestCase):

    def test_public_headers(self):
        headers = {path.name for path in (ROOT / "include/sluice").glob("*.h")} - NOT_ALONE
        self.assertIn("buffer.h", headers)
        for name in sorted(headers):
            with self.subTest(name):
                self.assertEqual(heavy_in(f"#include <sluice/{name}>\n"), ALLOWED.get(name, set()))

    def test_heavy_ones_are_found(self):
        for heavy in HEAVY:
            with self.subTest(heavy):
                self.assertIn(heavy, heavy_in(f"#include <{heavy}>\n"))


if __name__ == "__main__":
    unittest.main()
