"""BoringSSL's own TLS tests against ours.

Environment variables: SLUICE_SHIM and SLUICE_BORINGSSL as for test/runner/run; SLUICE_SANITIZE: the shim's sanitizer,
under which it takes long to start, so that only records, cipher suites and state machine are tested; CI=true: anything
missing is a failure.
"""

import os
import pathlib
import subprocess
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run"
SKIPPED = 77


class Runner(unittest.TestCase):

    def test_all_supported(self):
        options = ["--short"] if os.environ.get("SLUICE_SANITIZE") else []
        ran = subprocess.run([RUN, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ran.returncode == SKIPPED and os.environ.get("CI") != "true":
            self.skipTest(ran.stdout.strip())
        self.assertEqual(ran.returncode, 0, ran.stdout[-20000:])


if __name__ == "__main__":
    unittest.main()
