"""Resources with a time to live: one that the control plane does not renew in time is removed, as in Envoy. With SLUICE_E2E_LONG=1,
and Envoy if the environment variable ENVOY names it, also with that program in the place of Sluice."""

import re
import time
import unittest
import urllib.request

import harness
import xds_control_plane as xds
from harness import LONG, SLOWNESS, wait_until
from origins import free_port
from xds_support import DataPlane, Envoy, XdsTest, cluster, get, listener, listens, route_config

LISTENER, CLUSTER = xds.LISTENER, xds.CLUSTER
PACE = min(SLOWNESS, 2)
LIFETIME_S = 2 * PACE


class Scenarios:
    DELTA = False

    def setUp(self):
        super().setUp()
        self.other = free_port()

    def resources(self, *more):
        routes = [{"match": {"prefix": "/two"}, "route": {"cluster": "two"}}, {"match": {"prefix": "/"}, "route": {"cluster": "one"}}]
        return [listener("web", self.port, rds="all"), route_config("all", routes=routes), cluster("one", self.a.address),
                cluster("two", self.b.address), *more]

    def mortal(self):
        """A listener that is to have a lifetime."""
        return listener("mortal", self.other, routes=route_config("own", "one"))

    def starts_with(self, *resources, **options):
        plane = self.control_plane()
        plane.lifetimes = {"mortal": LIFETIME_S, "two": LIFETIME_S}
        plane.set(resources or self.resources(self.mortal()))
        program = self.data_plane(plane, delta=self.DELTA, **options)
        self.expect("a")
        return plane, program

    def keep_alive(self, plane, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            plane.keep_alive("mortal", "two")
            time.sleep(0.3 * PACE)

    def expect_both_gone(self):
        self.expect_gone(self.other)
        wait_until(lambda: (get(self.port, "/two") or [0])[0] == 503, 10, "a 503 for a cluster that is gone")

    def test_removed(self):
        since = time.monotonic()
        plane, _ = self.starts_with()
        load = self.load()
        self.expect("b", path="/two")
        self.expect("a", self.other)
        self.expect_both_gone()
        self.assertGreater(time.monotonic() - since, LIFETIME_S - 0.1)
        self.expect("a")
        # The next version brings them back, now for good.
        plane.lifetimes = {}
        plane.set([cluster("two", self.b.address, connect_timeout="3s") if each["name"] == "two" else each
                   for each in self.resources(listener("mortal", self.other, routes=route_config("own", "two")))], "2")
        self.expect("b", path="/two")
        self.expect("b", self.other)
        time.sleep(LIFETIME_S + PACE)
        self.expect("b", self.other)
        self.check_load(load)
        self.assertEqual(plane.nacks(), [])

    def test_no_control_plane(self):
        """A resource is not renewed while the control plane is away."""
        plane, _ = self.starts_with()
        plane.stop()
        self.expect_both_gone()
        self.expect("a")
        plane.start()
        if not self.DELTA:  # By state of the world, it thinks that the client has its version.
            plane.set(self.resources(self.mortal()), "2")
        self.expect("a", self.other, seconds=20)


class SignsOfLife:
    """Of state of the world, Envoy 1.40 takes a response with nothing but signs of life as one without listeners."""

    def test_renewed(self):
        plane, _ = self.starts_with()
        load = self.load(self.other)
        self.keep_alive(plane, 2.5 * LIFETIME_S)
        self.assertTrue(listens(self.other))
        self.expect("b", path="/two")
        self.check_load(load)
        self.expect_both_gone()
        self.assertEqual(plane.nacks(), [])


class StateOfTheWorld(Scenarios, SignsOfLife, XdsTest):
    DATA_PLANE = DataPlane

    def test_counter(self):
        _, program = self.starts_with()
        self.expect_both_gone()

        def count():
            with urllib.request.urlopen(f"http://127.0.0.1:{program.admin_port}/metrics", timeout=5 * SLOWNESS) as response:
                return int(re.search(r"^sluice_xds_expired_resources_total (\d+)", response.read().decode(), re.M)[1])
        wait_until(lambda: count() == 2, 10, "both to be counted")
        wait_until(lambda: "listeners mortal: removed: its time to live is over" in program.output(), 10, "a line of the log")

    def test_cache(self):
        """What the cache has lives as long again from a start on."""
        folder = self.temporary_directory()
        plane, program = self.starts_with(cache=folder)
        plane.wait_for_ack(LISTENER, "1")
        self.expect("a", self.other)
        time.sleep(0.5)
        plane.stop()
        program.close()
        self.data_plane(plane, cache=folder)
        self.expect("a", self.other)
        self.expect_both_gone()
        self.expect("a")


class Incremental(Scenarios, SignsOfLife, XdsTest):
    DATA_PLANE, DELTA = DataPlane, True


@unittest.skipUnless(LONG, "only in the long form")
class WithEnvoy(Scenarios, XdsTest):
    DATA_PLANE = Envoy


@unittest.skipUnless(LONG, "only in the long form")
class WithEnvoyIncremental(Scenarios, SignsOfLife, XdsTest):
    DATA_PLANE, DELTA = Envoy, True


if __name__ == "__main__":
    harness.main()
