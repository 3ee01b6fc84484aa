"""The short form of tools/soak."""

import unittest

import harness
from harness import LONG
from soaking import Soak


class SoakTest(unittest.TestCase):

    def test_soak(self):
        harness.need("openssl")
        soak = Soak()
        try:
            soak.run(600 if LONG else 15)
        finally:
            soak.close()


if __name__ == "__main__":
    harness.main()
