#!/usr/bin/env python3
"""The helpers of these tests. The defect: free_port returned a port twice now and then, and a test that used it for two
listeners failed."""

import unittest
from multiprocessing import get_context

from origins import free_port


def some_ports(count):
    return [free_port() for _ in range(count)]


class FreePort(unittest.TestCase):

    def test_each_port_once(self):
        # By chance, this many numbers would be different in one run of a hundred.
        with get_context("spawn").Pool(1) as other:
            theirs = other.apply_async(some_ports, [200])
            ports = some_ports(200) + theirs.get(30)
        self.assertEqual(len(set(ports)), 400)


if __name__ == "__main__":
    unittest.main(verbosity=2)
