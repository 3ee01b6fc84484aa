"""BoringSSL's own tests of TLS against ours, in their short form; test/runner/run has all of them.

The environment: SLUICE_SHIM and SLUICE_BORINGSSL as for test/runner/run; CI=true: what is missing is a failure.
"""

import os
import pathlib
import subprocess
import unittest

RUN = pathlib.Path(__file__).resolve().parent / "run"
SKIPPED = 77


class Runner(unittest.TestCase):

    def test_short_form(self):
        ran = subprocess.run([RUN, "--short"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ran.returncode == SKIPPED and os.environ.get("CI") != "true":
            self.skipTest(ran.stdout.strip())
        self.assertEqual(ran.returncode, 0, ran.stdout[-20000:])


if __name__ == "__main__":
    unittest.main()
