"""`sluice run --xds` with a control plane of Envoy's go-control-plane, the program of xds_peers.d, by state of the world and
incremental. xds_test.py has the rest, with a control plane of its own.

The control plane takes a minute to build, so this runs only with SLUICE_E2E_LONG=1; if the environment variable ENVOY names that
program, also with Envoy in the place of Sluice."""

import json
import os
import subprocess
import threading
import time
import unittest

import harness
import xds_control_plane as xds
import xds_test
from harness import LONG, SLOWNESS, wait_until
from http_peers_support import go_program
from origins import free_port
from xds_support import DataPlane, Envoy, XdsTest, cluster, get

FOLDER = harness.ROOT / "test/e2e/xds_peers.d"
# Scenarios of xds_test that only set resources, and wait for ACKs and NACKs. (This control plane says nothing of a type of which it has
# no resource; test_direct_response has no cluster.)
SHARED = ("test_endpoints_move", "test_routes_change_under_load", "test_removed",
          "test_removed_cluster", "test_invalid_cluster", "test_invalid_listener", "test_invalid_at_start",
          "test_certificate_rotates", "test_control_plane_comes_later", "test_changes_without_pause", "test_cache")


class GoControlPlane:
    """The program, with what ControlPlane has of methods."""

    def __init__(self, folder):
        self.address = f"127.0.0.1:{free_port()}"
        self.answers, self.loads = [], []
        self._path = os.path.join(folder, "resources.json")
        self._news = threading.Condition()
        self._process = None
        self.start()

    def start(self):
        process = self._process = harness.spawn(
            [go_program(".", FOLDER), "-resources", self._path, "-address", self.address], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True)
        if process.stdout.readline().strip() != self.address:
            raise AssertionError("the control plane did not start")
        self._reader = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._reader.start()

    def _read(self, process):
        for line in process.stdout:
            made = json.loads(line)
            with self._news:
                self.loads.append(made) if "cluster" in made else self.answers.append(xds.Answer(nonce=None, **made))
                self._news.notify_all()

    def stop(self):
        if self._process:
            self._process.kill()
            self._reader.join(10)
            harness.end(self._process)
            self._process = None

    close = stop

    def set(self, resources, version="1"):
        with open(self._path + ".new", "w", encoding="utf-8") as file:
            json.dump({"version": version, "resources": resources}, file)
        os.replace(self._path + ".new", self._path)

    def _wait(self, kind, version, good, seconds):
        def found():
            return next((each for each in self.answers if (each.type, each.version, each.error is None) == (kind, version, good)),
                        None)
        with self._news:
            if not self._news.wait_for(found, seconds * SLOWNESS):
                raise AssertionError(f"waited {seconds * SLOWNESS} s for an {'ACK' if good else 'NACK'} of {kind} {version}; "
                                     f"answers: {self.answers}")
            return found()

    def wait_for_ack(self, kind, version, seconds=10):
        return self._wait(kind, version, True, seconds)

    def wait_for_nack(self, kind, version, seconds=10):
        return self._wait(kind, version, False, seconds)

    def nacks(self):
        return [answer for answer in self.answers if answer.error is not None]


class Peers:
    """The scenarios of xds_test that suit this control plane."""

    DELTA = False

    def start_plane(self, *resources):
        plane = self.keep(GoControlPlane(self.temporary_directory()))
        if resources:
            plane.set(resources)
        return plane

    def start(self, plane, **options):
        return self.data_plane(plane, delta=self.DELTA, **options)

    static, dynamic, check_nack = (getattr(xds_test.Scenarios, name) for name in ("static", "dynamic", "check_nack"))
    served_certificate, der = xds_test.Scenarios.served_certificate, xds_test.Scenarios.der


for _name in SHARED:
    setattr(Peers, _name, getattr(xds_test.Scenarios, _name))


@unittest.skipUnless(LONG, "only in the long form")
class Sluice(Peers, XdsTest):
    DATA_PLANE = DataPlane

    def test_load_reports(self):
        plane = self.start_plane(*self.static()[:1], cluster("one", self.a.address, lrs_server={"self": {}}))
        self.start(plane)
        self.expect("a")
        wait_until(lambda: plane.loads, 10, "a load report")
        time.sleep(0.5)  # Reports that have the first requests.

        def total(kind):
            return sum(each[kind] for each in plane.loads)
        before = total("succeeded"), total("issued")
        self.assertEqual([get(self.port) for _ in range(10)], [(200, "a")] * 10)
        wait_until(lambda: (total("succeeded"), total("issued")) == (before[0] + 10, before[1] + 10), 10, "ten requests")
        self.assertEqual(({each["cluster"] for each in plane.loads}, total("failed")), ({"one"}, 0))


@unittest.skipUnless(LONG, "only in the long form")
class SluiceIncremental(Peers, XdsTest):
    DATA_PLANE, DELTA = DataPlane, True


if LONG and os.environ.get("ENVOY"):
    class WithEnvoy(Peers, XdsTest):
        DATA_PLANE = Envoy

    class WithEnvoyIncremental(Peers, XdsTest):
        DATA_PLANE, DELTA = Envoy, True


if __name__ == "__main__":
    harness.main()
