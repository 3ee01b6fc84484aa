"""Load reports (LRS) to a server by grpcio: to the service that the bootstrap file names, or to the control plane for clusters that
say so. With SLUICE_E2E_LONG=1, and Envoy if the environment variable ENVOY names it, also with that program in the place of
Sluice."""

import queue
import re
import threading
import time
import unittest
import urllib.request

import harness
import xds_control_plane as xds
from harness import LONG, SLOWNESS, wait_until
from origins import Origin, free_port
from xds_support import ADS, DataPlane, Envoy, StreamService, XdsTest, bootstrap, cluster, endpoints, get, listener, route_config

if xds.grpc:
    import grpc
    from envoy.service.load_stats.v3 import lrs_pb2
    from google.protobuf import duration_pb2

SERVICE = "envoy.service.load_stats.v3.LoadReportingService"


class LoadService(StreamService):
    """The server. `wish` is what it responds with, of each stream's first request on and after each change."""

    def __init__(self, **wish):
        super().__init__()
        self.streams, self.requests, self.reads = 0, [], threading.Event()
        self.reads.set()
        self.wish(**wish)
        self.start()

    def handler(self):
        return grpc.method_handlers_generic_handler(
            SERVICE, {"StreamLoadStats": grpc.stream_stream_rpc_method_handler(self._serve)})

    def close(self):
        self.reads.set()
        self.stop()

    def wish(self, clusters=(), all_clusters=False, by_endpoint=False, seconds=0.3):
        interval_ns = int(seconds * SLOWNESS * 1e9)
        response = lrs_pb2.LoadStatsResponse(
            clusters=clusters, send_all_clusters=all_clusters, report_endpoint_granularity=by_endpoint,
            load_reporting_interval=duration_pb2.Duration(seconds=interval_ns // 10**9, nanos=interval_ns % 10**9))
        self._response = response.SerializeToString()
        with self._news:
            for events in self._queues:
                events.put("wish")

    def _serve(self, requests, context):
        events = queue.Queue()

        def read():
            try:
                for data in requests:
                    self.reads.wait()
                    request = lrs_pb2.LoadStatsRequest.FromString(data)
                    with self._news:
                        self.requests.append(request)
                        self._news.notify_all()
                    if request.HasField("node"):
                        events.put("wish")
            except grpc.RpcError:
                pass
            events.put(None)
        with self._news:
            self.streams += 1
            self._queues.add(events)
        threading.Thread(target=read, daemon=True).start()
        while events.get() is not None and context.is_active():
            yield self._response
        with self._news:
            self._queues.discard(events)

    def reports(self):
        """All that was reported, by cluster."""
        found = {}
        with self._news:
            for request in self.requests:
                for stats in request.cluster_stats:
                    found.setdefault(stats.cluster_name, []).append(stats)
        return found

    def total(self, name):
        """Of a cluster: how many requests succeeded, failed and were issued."""
        localities = [each for stats in self.reports().get(name, ()) for each in stats.upstream_locality_stats]
        return tuple(sum(getattr(each, f"total_{kind}_requests") for each in localities)
                     for kind in ("successful", "error", "issued"))

    def expect_total(self, name, *total):
        try:
            wait_until(lambda: self.total(name) == total, 10, f"{total} requests")
        except AssertionError as problem:
            raise AssertionError(f"{problem}; the last: {self.total(name)} of {self.requests[-3:]}") from None


class Both(xds.ControlPlane):
    """A control plane that takes load reports, too."""

    def __init__(self, loads):
        self._loads = loads
        super().__init__()

    def handlers(self):
        return (*super().handlers(), self._loads.handler())


def failing(connection):
    """Responds to each request with 500."""
    data = b""
    while piece := connection.recv(4096):
        data += piece
        while b"\r\n\r\n" in data:
            data = data.split(b"\r\n\r\n", 1)[1]
            connection.sendall(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")


class WithLoads:
    """Adds the service to the bootstrap file."""

    loads = None

    def bootstrap(self, *arguments):
        made = bootstrap(*arguments)
        if self.loads:
            service = bootstrap(self.loads, 1)["static_resources"]["clusters"][0]
            service["name"] = service["load_assignment"]["cluster_name"] = "loads"
            made["static_resources"]["clusters"].append(service)
            made["cluster_manager"] = {"load_stats_config": {
                "api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "loads"}}]}}
        return made


class Reporting(WithLoads, DataPlane):
    pass


class ReportingEnvoy(WithLoads, Envoy):
    pass


class Scenarios:
    def resources(self, one, *more):
        routes = [{"match": {"prefix": "/bad"}, "route": {"cluster": "two"}}, {"match": {"prefix": "/"}, "route": {"cluster": "one"}}]
        return [listener("web", self.port, rds="all"), route_config("all", routes=routes), one,
                cluster("two", self.bad.address), *more]

    def in_zones(self):
        """Two endpoints in different zones."""
        made = endpoints("spread", self.a.address)
        made["endpoints"][0].update({"locality": {"region": "r", "zone": "a"}, "load_balancing_weight": 1})
        made["endpoints"].append({**endpoints("x", self.b.address)["endpoints"][0], "locality": {"region": "r", "zone": "b"},
                                  "load_balancing_weight": 1})
        return [{**cluster("one"), "eds_cluster_config": {"eds_config": ADS, "service_name": "spread"}}, made]

    def start(self, plane, loads=None):
        self.DATA_PLANE.loads = loads.address if loads else None
        self.addCleanup(setattr, self.DATA_PLANE, "loads", None)
        return self.data_plane(plane)

    def setUp(self):
        super().setUp()
        self.bad = self.keep(Origin(failing))

    def requests(self, count, path="/"):
        return [get(self.port, path)[0] for _ in range(count)]

    def test_counts(self):
        loads = self.keep(LoadService(all_clusters=True))
        plane = self.control_plane(*self.resources(cluster("one", self.a.address)))
        self.start(plane, loads)
        self.expect("a")
        wait_until(lambda: {"one", "two"} <= loads.reports().keys(), 10, "reports")
        time.sleep(0.7 * SLOWNESS)  # Reports that have the first requests.
        before = loads.total("one")
        self.assertEqual(self.requests(20), [200] * 20)
        self.assertEqual(self.requests(7, "/bad"), [500] * 7)
        loads.expect_total("one", before[0] + 20, 0, before[2] + 20)
        loads.expect_total("two", 0, 7, 7)
        node = loads.requests[0].node
        self.assertEqual((node.id, node.cluster, list(node.client_features)),
                         ("node-1", "edge", ["envoy.lrs.supports_send_all_clusters"]))
        stats = loads.reports()["one"][-1]
        interval = stats.load_report_interval.seconds + stats.load_report_interval.nanos / 1e9
        self.assertGreater(interval, 0.2 * SLOWNESS)
        self.assertEqual(stats.total_dropped_requests, 0)
        # Of what is idle, only the fact that it is.
        time.sleep(1 * SLOWNESS)
        self.assertEqual(list(loads.reports()["one"][-1].upstream_locality_stats), [])

    def test_localities(self):
        loads = self.keep(LoadService(clusters=["one"]))
        plane = self.control_plane(*self.resources(*self.in_zones()))
        self.start(plane, loads)
        wait_until(lambda: (get(self.port) or [0])[0] == 200, 10, "a response")
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        self.requests(20)
        time.sleep(1 * SLOWNESS)
        stats = loads.reports()
        self.assertEqual({each.cluster_service_name for each in stats["one"]}, {"spread"})
        self.assertEqual(set(stats), {"one"})
        zones = {each.locality.zone for one in stats["one"] for each in one.upstream_locality_stats}
        self.assertEqual(zones, {"a", "b"})

    def test_requests_in_progress(self):
        held = threading.Event()
        self.addCleanup(held.set)

        def hold(connection):
            connection.recv(4096)
            held.wait(60)
        waits = self.keep(Origin(hold))
        loads = self.keep(LoadService(clusters=["one"]))
        plane = self.control_plane(*self.resources(cluster("one", waits.address)))
        self.start(plane, loads)
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        threads = [threading.Thread(target=get, args=(self.port,), daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: any(each.total_requests_in_progress == 3 for stats in loads.reports()["one"]
                               for each in stats.upstream_locality_stats), 10, "three requests in progress")

    def test_other_wish(self):
        loads = self.keep(LoadService(clusters=["one"]))
        plane = self.control_plane(*self.resources(cluster("one", self.a.address)))
        self.start(plane, loads)
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        loads.wish(clusters=["two"])
        wait_until(lambda: "two" in loads.reports(), 10, "reports")
        before = len(loads.reports()["one"])
        time.sleep(1 * SLOWNESS)
        self.assertEqual(len(loads.reports()["one"]), before)

    def test_away_and_back(self):
        loads = self.keep(LoadService(all_clusters=True))
        plane = self.control_plane(*self.resources(cluster("one", self.a.address)))
        self.start(plane, loads)
        self.expect("a")
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        traffic = self.load()
        loads.stop()
        time.sleep(1)
        before = len(loads.requests)
        loads.start()
        wait_until(lambda: loads.streams >= 2, 20, "another stream")
        wait_until(lambda: len(loads.requests) > before + 2, 10, "further reports")
        self.assertTrue(loads.requests[before].HasField("node"))
        self.check_load(traffic)


class Sluice(Scenarios, XdsTest):
    DATA_PLANE = Reporting

    def counter(self, program, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{program.admin_port}/metrics", timeout=5 * SLOWNESS) as response:
            return int(re.search(rf"^sluice_xds_load_{name} (\d+)", response.read().decode(), re.M)[1])

    def test_by_endpoint(self):
        loads = self.keep(LoadService(clusters=["one"], by_endpoint=True))
        plane = self.control_plane(*self.resources(cluster("one", self.a.address, self.b.address)))
        program = self.start(plane, loads)
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        self.requests(20)

        def found():
            counts = {}
            for stats in loads.reports()["one"]:
                for locality in stats.upstream_locality_stats:
                    for each in locality.upstream_endpoint_stats:
                        address = each.address.socket_address
                        key = f"{address.address}:{address.port_value}"
                        counts[key] = counts.get(key, 0) + each.total_successful_requests
            return counts
        wait_until(lambda: sum(found().values()) >= 20, 10, "20 requests")
        self.assertEqual(set(found()), {self.a.address, self.b.address})
        self.assertEqual((self.counter(program, "connected"), self.counter(program, "connects_total")), (1, 1))
        self.assertGreater(self.counter(program, "reports_total"), 0)
        self.assertEqual(sum(request.HasField("node") for request in loads.requests), 1)

    def test_control_plane_wants_them(self):
        """A cluster with `lrs_server`, and another without."""
        loads = self.keep(LoadService(all_clusters=True))
        plane = self.keep(Both(loads))
        plane.set(self.resources(cluster("one", self.a.address)))
        self.start(plane)
        self.expect("a")
        time.sleep(0.5)
        self.assertEqual(loads.streams, 0)
        plane.set(self.resources(cluster("one", self.a.address, lrs_server={"self": {}})), "2")
        wait_until(lambda: "one" in loads.reports(), 10, "reports")
        time.sleep(0.7 * SLOWNESS)  # Reports that have the first requests.
        before = loads.total("one")
        self.requests(5)
        loads.expect_total("one", before[0] + 5, 0, before[2] + 5)
        self.assertEqual(set(loads.reports()), {"one"})

    def test_garbage(self):
        """A message that is none ends the stream; it is opened again."""
        loads = self.keep(LoadService(all_clusters=True))
        loads._response = b"\xff\xff"
        plane = self.control_plane(*self.resources(cluster("one", self.a.address)))
        program = self.start(plane, loads)
        self.expect("a")
        wait_until(lambda: loads.streams >= 2, 20, "another stream")
        self.assertIn("it sent a message that is no LoadStatsResponse", program.output())
        loads.wish(all_clusters=True)
        wait_until(lambda: "one" in loads.reports(), 40, "reports")
        self.assertGreater(self.counter(program, "failures_total"), 0)

    def test_errors_in_the_file(self):
        loads = self.keep(LoadService())
        for change, words in ((("api_type", "REST"), "load_stats_config.api_type: expected GRPC"),
                              (("grpc_services", []), "load_stats_config.grpc_services"),
                              (("grpc_services", [{"envoy_grpc": {"cluster_name": "x"}}]), 'has no "x"')):
            with self.subTest(words):
                class Wrong(Reporting):
                    def bootstrap(self, *arguments, _change=change):
                        made = super().bootstrap(*arguments)
                        made["cluster_manager"]["load_stats_config"][_change[0]] = _change[1]
                        return made
                Wrong.loads = loads.address
                program = Wrong("127.0.0.1:1")
                self.addCleanup(harness.end, program.process)
                self.assertEqual(program.process.wait(10 * SLOWNESS), 1)
                self.assertIn(words, program.output())


@unittest.skipUnless(LONG, "only in the long form")
class WithEnvoy(Scenarios, XdsTest):
    DATA_PLANE = ReportingEnvoy


if __name__ == "__main__":
    harness.main()
