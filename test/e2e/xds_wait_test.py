"""Make before break with a control plane: routes whose next version names clusters that are not there stay as they are until
those are, or for 15 s."""

import re
import time
import urllib.request

import harness
import xds_control_plane as xds
from harness import LONG, SLOWNESS, wait_until
from origins import free_port
from xds_support import DataPlane, XdsTest, cluster, endpoints, get, listener, route_config

CLUSTER, ENDPOINTS, LISTENER, ROUTES = xds.CLUSTER, xds.ENDPOINTS, xds.LISTENER, xds.ROUTES
BOUND_S = 15


def by_path(**clusters):
    """Routes that send /NAME to a cluster, and all else to `rest`."""
    rest = clusters.pop("rest")
    return [*({"match": {"prefix": f"/{name}"}, "route": {"cluster": to}} for name, to in clusters.items()),
            {"match": {"prefix": "/"}, "route": {"cluster": rest}}]


class Scenarios:
    """What both protocols have in common."""

    def start(self, plane):
        self.program = self.data_plane(plane, delta=self.DELTA)
        self.expect("a")
        plane.wait_for_ack(ROUTES, "1")

    def admin(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.program.admin_port}{path}", timeout=5 * SLOWNESS) as response:
            return response.read().decode()

    def figures(self):
        """Of the waiting: how many there are, and how many have been in vain."""
        text = self.admin("/metrics")
        return tuple(int(re.search(rf"^sluice_xds_{name} (\d+)", text, re.M)[1])
                     for name in ("waiting_updates", "wait_timeouts_total"))

    def expect_figures(self, *figures):
        wait_until(lambda: self.figures() == figures, 10, f"{figures}")

    def expect_line(self, text):
        """The log is written by a thread of its own."""
        wait_until(lambda: text in self.program.output(), 10, f"a line of the log: {text}")

    def web(self, chosen, *clusters, routes=None):
        return [listener("web", self.port, rds="all"), route_config("all", chosen, routes=routes), *clusters]

    def started(self, *more):
        """Traffic goes to server a, of the cluster `one`, under load."""
        plane = self.control_plane(*self.web("one", cluster("one", self.a.address)), *more)
        self.start(plane)
        load = self.load()
        wait_until(lambda: load.count > 20)
        return plane, load

    def test_routes_before_clusters(self):
        plane, load = self.started()
        plane.withheld = {CLUSTER, ENDPOINTS}
        plane.set(self.web("two", cluster("one", self.a.address), cluster("two"), endpoints("two", self.b.address)), "2")
        plane.wait_for_ack(ROUTES, "2")
        time.sleep(1)
        self.assertEqual((get(self.port), self.figures()), ((200, "a"), (1, 0)))
        self.admin("/readyz")  # Raises an exception unless it is 200.
        plane.release(CLUSTER)
        plane.wait_for_request(ENDPOINTS, "two")
        time.sleep(0.5)
        self.assertEqual((get(self.port), self.figures()), ((200, "a"), (1, 0)))
        plane.release()
        self.expect("b")
        self.check_load(load)
        self.expect_figures(0, 0)
        self.assertEqual(plane.nacks(), [])
        self.expect_line("xds: routes all: an update waits for the cluster two, for 15 s at most; what is in use stays")
        self.expect_line("xds: routes all: no longer waiting")

    def test_one_cluster_in_place_of_another(self):
        """The cluster in use is removed by the response that brings the next one, which has no endpoints yet."""
        plane, load = self.started()
        plane.withheld = {CLUSTER, ENDPOINTS}
        plane.set(self.web("two", cluster("two"), endpoints("two", self.b.address)), "2")
        plane.wait_for_ack(ROUTES, "2")
        plane.release(CLUSTER)
        plane.wait_for_ack(CLUSTER, "2")
        time.sleep(0.5)
        self.assertEqual(get(self.port), (200, "a"))
        plane.release()
        self.expect("b")
        self.check_load(load)

    def test_listener_before_clusters(self):
        """The routes are a part of the listener, or other ones than before."""
        for name, changed in (("own", listener("web", self.port, routes=route_config("own", "two"))),
                              ("other", listener("web", self.port, rds="other"))):
            with self.subTest(name):
                self.port = changed["address"]["socket_address"]["port_value"] = free_port()
                plane, load = self.started()
                plane.withheld = {CLUSTER}
                plane.set([changed, route_config("all", "one"), route_config("other", "two"),
                           cluster("one", self.a.address), cluster("two", self.b.address)], "2")
                plane.wait_for_ack(LISTENER, "2")
                if name == "other":
                    plane.wait_for_request(ROUTES, "other")
                self.expect_figures(1, 0)
                self.assertEqual(get(self.port), (200, "a"))
                plane.release()
                self.expect("b")
                self.check_load(load)

    def test_bound(self):
        if self.DELTA and not LONG:
            self.skipTest("the long form has it")
        plane, load = self.started()
        plane.set(self.web("never", cluster("one", self.a.address)), "2")
        plane.wait_for_ack(ROUTES, "2")
        since = time.monotonic()
        # Newer versions do not start the time anew.
        time.sleep(BOUND_S / 2)
        plane.set(self.web(None, cluster("one", self.a.address), routes=by_path(here="one", rest="never")), "3")
        plane.wait_for_ack(ROUTES, "3")
        wait_until(lambda: load.failures or time.monotonic() - since > 2 * BOUND_S * SLOWNESS, 3 * BOUND_S)
        waited = time.monotonic() - since
        self.assertGreater(waited, BOUND_S - 1)
        self.assertLess(waited, (BOUND_S + 2) * SLOWNESS)
        load.end()
        self.assertEqual({failure[0] for failure in load.failures}, {503})
        self.expect("a", path="/here/")
        self.expect_figures(0, 1)
        self.admin("/readyz")  # Raises an exception unless it is 200.
        self.expect_line("xds: routes all: waited 15 s for the cluster never; the update is in use without")
        # It is not waited for a second time.
        plane.set(self.web("never", cluster("one", self.a.address)), "4")
        wait_until(lambda: (get(self.port, "/here/") or [0])[0] == 503, 10, "the next version")
        plane.set(self.web("never", cluster("one", self.a.address), cluster("never", self.b.address)), "5")
        self.expect("b")
        self.assertEqual(plane.nacks(), [])

    def test_superseded(self):
        """Of several versions, the newest counts."""
        plane, load = self.started()
        one, two = cluster("one", self.a.address), cluster("two", self.b.address)
        plane.set(self.web("never", one), "2")
        plane.wait_for_ack(ROUTES, "2")
        plane.set(self.web("two", one), "3")
        plane.wait_for_ack(ROUTES, "3")
        self.assertEqual(self.figures(), (1, 0))
        plane.set(self.web("two", one, cluster("never", self.b.address)), "4")
        plane.wait_for_ack(CLUSTER, "4")
        time.sleep(0.3)
        self.assertEqual((get(self.port), self.figures()), ((200, "a"), (1, 0)))
        plane.set(self.web("two", one, two), "5")
        self.expect("b")
        plane.set(self.web("another", one, two), "6")
        plane.wait_for_ack(ROUTES, "6")
        self.assertEqual(self.figures(), (1, 0))
        plane.set(self.web("one", one, two), "7")
        self.expect("a")
        self.check_load(load)
        self.expect_figures(0, 0)

    def test_other_routes_do_not_wait(self):
        other = free_port()
        more = [listener("other", other, rds="more"), cluster("two", self.b.address)]
        plane, load = self.started(*more, route_config("more", "one"))
        self.expect("a", other)
        plane.set([*self.web("never", cluster("one", self.a.address)), *more, route_config("more", "two")], "2")
        self.expect("b", other)
        self.expect_figures(1, 0)  # They follow a little later.
        self.assertEqual(get(self.port), (200, "a"))
        self.check_load(load)

    def test_removed_cluster_of_both_versions(self):
        """A cluster that is gone is not waited for, and not kept for routes that wait for another."""
        one = cluster("one", self.a.address)
        plane = self.control_plane(*self.web(None, one, cluster("two", self.b.address), routes=by_path(two="two", rest="one")))
        self.start(plane)
        self.expect("b", path="/two")
        load = self.load()
        plane.set(self.web(None, one, routes=by_path(two="two", new="never", rest="one")), "2")
        wait_until(lambda: (get(self.port, "/two") or [0])[0] == 503, 5, "a 503 for a cluster that is gone")
        plane.wait_for_ack(ROUTES, "2")
        self.assertEqual((get(self.port, "/new"), self.figures()), ((200, "a"), (1, 0)))
        self.check_load(load, 1)

    def test_invalid_update_is_rejected_at_once(self):
        plane, load = self.started()
        broken = self.web("never", cluster("one", self.a.address))
        broken[1]["virtual_hosts"][0]["routes"][0]["route"]["cluster_specifier_plugin"] = "x"
        del broken[1]["virtual_hosts"][0]["routes"][0]["route"]["cluster"]
        broken[1]["virtual_hosts"][0]["routes"].insert(0, {"match": {"prefix": "/new"}, "route": {"cluster": "never"}})
        plane.set(broken, "2")
        plane.wait_for_nack(ROUTES, "2")
        self.assertEqual((get(self.port, "/new"), self.figures()), ((200, "a"), (0, 0)))
        self.check_load(load, 1)

    def test_start_waits_for_nothing(self):
        plane = self.control_plane(*self.web(None, cluster("one", self.a.address), routes=by_path(new="never", rest="one")))
        since = time.monotonic()
        self.start(plane)
        self.assert_within(since, 5 * SLOWNESS)
        self.assertEqual((get(self.port, "/new")[0], self.figures()), (503, (0, 0)))


class StateOfTheWorld(Scenarios, XdsTest):
    DATA_PLANE, DELTA = DataPlane, False


class Incremental(Scenarios, XdsTest):
    DATA_PLANE, DELTA = DataPlane, True


if __name__ == "__main__":
    harness.main()
