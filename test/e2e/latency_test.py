"""Latency histograms at /metrics, their percentiles at /latency, and OpenMetrics. What is measured here is compared with what
the client has seen, so that a slow machine does not matter."""

import contextlib
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import harness
from admin_test import AdminTest
from harness import ROOT
from http_wire import Http2Client
from origins import Origin, connect, discard, echo, free_port, refused_address
from reload_test import UPGRADE, Http1, listener, read_head, respond, server, upstream, websocket
from tls_support import TlsTest

DELAY = 0.3
# The clock of a worker is read once in a turn of its loop, in milliseconds.
RESOLUTION = 0.002
OPENMETRICS = ("-H", "Accept: application/openmetrics-text;version=1.0.0")


def slow(before=0.0, within=0.0):
    """An HTTP/1.1 server that waits before the head of a response, and between head and body."""
    def serve(sock):
        while read_head(sock):
            time.sleep(before)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")
            time.sleep(within)
            sock.sendall(b"x")
    return serve


class Histogram:
    """One histogram of a scrape."""

    def __init__(self, text, name, **labels):
        wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
        found = re.findall(rf'^sluice_{name}_(bucket|sum|count){{{re.escape(wanted)}(?:,le="(.*)")?}} (\S+)$', text, re.M)
        self.buckets = [(float(le), int(value)) for kind, le, value in found if kind == "bucket"]
        self.sum = float(next((value for kind, _, value in found if kind == "sum"), 0))
        self.count = int(next((value for kind, _, value in found if kind == "count"), 0))

    def at_most(self, bound):
        """How many times are in the buckets up to this bound."""
        return max((value for le, value in self.buckets if le <= bound), default=0)

    def bound_of(self, seconds):
        """The bound of the bucket that has this time."""
        return next(le for le, _ in self.buckets if seconds <= le)


class LatencyTest(AdminTest):

    def histogram(self, proxy, name, **labels):
        return Histogram(self.get(proxy, "/metrics"), name, **labels)

    def wait_for_count(self, proxy, count, name, **labels):
        harness.wait_until(lambda: self.histogram(proxy, name, **labels).count == count, 10, f"{count} in {name} {labels}")
        return self.histogram(proxy, name, **labels)

    def assert_between(self, histogram, least, most, name=""):
        """The only time in the histogram is between these, in its sum and by its bucket."""
        self.assertEqual(histogram.count, 1, name)
        self.assertGreaterEqual(histogram.sum, least - RESOLUTION, name)
        self.assertLessEqual(histogram.sum, most + RESOLUTION, name)
        self.assertEqual(histogram.at_most(histogram.bound_of(histogram.sum)), 1, name)
        self.assertEqual(sum(value == 0 for _, value in histogram.buckets),
                         sum(le < histogram.sum for le, _ in histogram.buckets), name)


class Requests(LatencyTest):

    def test_slow_endpoint(self):
        """The endpoint waits before its response: all but the connection is slow."""
        origin = self.keep(Origin(slow(before=DELAY)))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)])
        began = time.monotonic()
        self.assertEqual(self.keep(Http1(proxy)).get(), "x")
        took = time.monotonic() - began
        for name, labels in (("http_request_duration_seconds", {"listener": "main", "route": ""}),
                             ("http_time_to_first_byte_seconds", {"listener": "main", "route": ""}),
                             ("upstream_response_seconds", {"upstream": "x"})):
            found = self.wait_for_count(proxy, 1, name, **labels)
            self.assert_between(found, DELAY, took, name)
            self.assertEqual(found.at_most(0.25), 0)
        for name in ("upstream_connect_seconds", "upstream_queue_seconds"):
            self.assert_between(self.histogram(proxy, name, upstream="x"), 0, took - DELAY, name)
        shown = self.json(proxy, "/latency")
        response = shown["upstreams"][0]["response"]
        self.assertEqual((shown["upstreams"][0]["name"], response["count"]), ("x", 1))
        self.assertGreaterEqual(response["p50_ms"], 250)
        self.assertLessEqual(response["p50_ms"], response["p90_ms"])
        self.assertLessEqual(response["p90_ms"], response["p99_ms"])
        self.assertAlmostEqual(response["mean_ms"], found.sum * 1000, 2)
        self.assertEqual(shown["listeners"][0]["request_duration"]["count"], 1)

    def test_slow_body(self):
        """The first byte is not late if only the body is."""
        origin = self.keep(Origin(slow(within=DELAY)))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)])
        client = self.keep(connect(proxy.address()))
        began = time.monotonic()
        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        read_head(client)
        first_byte = time.monotonic() - began
        self.assertEqual(client.recv(1), b"x")
        took = time.monotonic() - began
        labels = {"listener": "main", "route": ""}
        self.assert_between(self.wait_for_count(proxy, 1, "http_request_duration_seconds", **labels), DELAY, took)
        self.assert_between(self.histogram(proxy, "http_time_to_first_byte_seconds", **labels), 0, first_byte)

    def test_each_end_counts_once(self):
        """Whatever the end: as many durations as requests, apart from tunnels."""
        origin = self.keep(Origin(server("a")))
        silent = self.keep(Origin(discard))
        proxy, _ = self.start_with(
            listener("main", http={"routes": [{"name": "good", "match": {"path": {"prefix": "/good"}}, "forward": "x"},
                                              {"name": "down", "match": {"path": {"prefix": "/down"}}, "forward": "down"},
                                              {"match": {"path": {"prefix": "/late"}}, "forward": "late"},
                                              {"match": {"path": {"exact": "/own"}}, "respond": {"status": 200, "body": "own"}}]}),
            upstreams=[upstream("x", origin), upstream("down", refused_address(), connect_attempts=2),
                       upstream("late", silent, response_timeout="300ms")])
        client = self.keep(Http1(proxy))
        for path in ("/good", "/down", "/late", "/own", "/good", "/nowhere"):
            client.get(path)
        leaving = connect(proxy.address())
        leaving.sendall(b"GET /late HTTP/1.1\r\nhost: a\r\n\r\n")
        proxy.wait_for(lambda s: s.total("http_requests_total") == 7)
        leaving.close()
        proxy.wait_for(lambda s: sum(v for (name, _), v in s.items() if name == "http_requests_ended_total") == 7)
        text = self.get(proxy, "/metrics")
        counts = {route: Histogram(text, "http_request_duration_seconds", listener="main", route=route).count
                  for route in ("good", "down", "")}
        self.assertEqual(counts, {"good": 2, "down": 1, "": 4})
        self.assertEqual(Histogram(text, "http_time_to_first_byte_seconds", listener="main", route="good").count, 2)
        # A failed connection is no latency, nor is a response that never came.
        self.assertNotIn('upstream_connect_seconds_count{upstream="down"}', text)
        self.assertNotIn('upstream_queue_seconds_count{upstream="down"}', text)
        self.assertNotIn('upstream_response_seconds_count{upstream="late"}', text)
        self.assertEqual(Histogram(text, "upstream_response_seconds", upstream="x").count, 2)
        shown = self.json(proxy, "/latency")["listeners"][0]
        self.assertEqual([each["name"] for each in shown["routes"]], ["good", "down"])
        self.assertEqual(shown["request_duration"]["count"], 7)
        self.assertIsNone(self.json(proxy, "/latency")["upstreams"][1]["response"]["p50_ms"])

    def test_attempts(self):
        """Each response of an endpoint counts, also one that is retried; the request is one."""
        failing = self.keep(Origin(self.failing_once()))
        proxy, _ = self.start_with(
            listener("main", http={"routes": [{"forward": "x", "retry": {"on": ["5xx"], "attempts": 2, "backoff": "1ms"}}]}),
            upstreams=[upstream("x", failing)])
        self.assertEqual(self.keep(Http1(proxy)).get(), "ok")
        self.wait_for_count(proxy, 1, "http_request_duration_seconds", listener="main", route="")
        self.assertEqual(self.histogram(proxy, "upstream_response_seconds", upstream="x").count, 2)
        self.assertEqual(self.histogram(proxy, "upstream_queue_seconds", upstream="x").count, 2)

    @staticmethod
    def failing_once():
        responses = [b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"]

        def serve(sock):
            while responses and read_head(sock):
                sock.sendall(responses.pop(0))
        return serve

    def test_http2(self):
        origin = self.keep(Origin(slow(before=DELAY)))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)])
        client = self.keep(Http2Client(proxy.address()))
        began = time.monotonic()
        self.assertEqual(client.get("/").status, 200)
        took = time.monotonic() - began
        labels = {"listener": "main", "route": ""}
        self.assert_between(self.wait_for_count(proxy, 1, "http_request_duration_seconds", **labels), DELAY, took)
        self.assert_between(self.histogram(proxy, "http_time_to_first_byte_seconds", **labels), DELAY, took)

    def test_tunnel(self):
        """A websocket is no slow request. Its handshake has a first byte."""
        origin = self.keep(Origin(websocket))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)])
        client = self.keep(connect(proxy.address()))
        client.sendall(UPGRADE)
        self.assertIn(b" 101 ", read_head(client))
        client.sendall(b"x")
        self.assertEqual(client.recv(1), b"x")
        client.close()
        proxy.wait_for(lambda s: s.total("http_requests_active") == 0 and s.total("http_tunnels_total") == 1)
        labels = {"listener": "main", "route": ""}
        self.assertEqual(self.histogram(proxy, "http_request_duration_seconds", **labels).count, 0)
        self.assertEqual(self.histogram(proxy, "http_time_to_first_byte_seconds", **labels).count, 1)
        self.assertEqual(self.histogram(proxy, "upstream_response_seconds", upstream="x").count, 1)
        # A refused one is a request like any other.
        plain = self.keep(Origin(server("no websocket")))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", plain)])
        client = self.keep(connect(proxy.address()))
        client.sendall(UPGRADE)
        self.assertIn(b" 200 ", read_head(client))
        self.wait_for_count(proxy, 1, "http_request_duration_seconds", **labels)


class Connections(LatencyTest, TlsTest):

    def test_tcp(self):
        """Attempts that fail are left out, the one that succeeds counts."""
        origin = self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", refused_address(), origin)])
        for _ in range(4):
            with connect(proxy.address()) as client:
                client.sendall(b"x")
                self.assertEqual(client.recv(1), b"x")
        self.assertEqual(self.histogram(proxy, "upstream_connect_seconds", upstream="x").count, 4)
        self.assertGreater(proxy.stats().connect_errors("refused"), 0)
        self.assertNotIn("upstream_response_seconds", self.get(proxy, "/metrics"))

    def test_client_handshakes(self):
        """A client that is slow in its handshake shows up. One that fails in it does not."""
        tls = {"certificates": [self.server]}
        proxy, _ = self.start_with(listener("main", tls=tls, http=respond("in")))
        labels = {"listener": "main"}
        self.assertEqual(self.histogram(proxy, "tls_handshake_seconds", **labels).count, 0)
        with connect(proxy.address()) as garbage, contextlib.suppress(OSError):
            garbage.sendall(b"\x16\x03\x01\x00\x05hello")
            garbage.recv(100)
        began = time.monotonic()
        plain = connect(proxy.address())
        plain.sendall(b"\x16")  # The first byte of the ClientHello: the rest comes later.

        class Rest:
            """The socket without this byte."""
            first = True

            def sendall(self, data):
                plain.sendall(data[1:] if Rest.first else data)
                Rest.first = False

            @staticmethod
            def recv(size):
                return plain.recv(size)
        time.sleep(DELAY)
        self.in_memory(Rest())
        found = self.wait_for_count(proxy, 1, "tls_handshake_seconds", **labels)
        self.assert_between(found, DELAY, time.monotonic() - began)
        plain.close()
        self.assertEqual(self.json(proxy, "/latency")["listeners"][0]["tls_handshake"]["count"], 1)

    def test_endpoint_with_tls(self):
        """The connection includes the handshake of the endpoint, which begins late."""
        context = self.server_context()

        def serve(sock):
            time.sleep(DELAY)
            with context.wrap_socket(sock, server_side=True) as secure:
                slow()(secure)
        origin = self.keep(Origin(serve))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}),
                                   upstreams=[upstream("x", origin, tls={"ca": self.ca, "server_name": "localhost"})])
        began = time.monotonic()
        client = self.keep(Http1(proxy))
        self.assertEqual(client.get(), "x")
        took = time.monotonic() - began
        for name in ("upstream_connect_seconds", "upstream_queue_seconds"):
            self.assert_between(self.histogram(proxy, name, upstream="x"), DELAY, took, name)
        self.assert_between(self.histogram(proxy, "upstream_response_seconds", upstream="x"), 0, took - DELAY)
        # On a connection that exists, a request does not wait.
        self.assertEqual(client.get(), "x")
        queue = self.histogram(proxy, "upstream_queue_seconds", upstream="x")
        self.assertEqual((queue.count, queue.at_most(0.001)), (2, 1))
        self.assertEqual(self.histogram(proxy, "upstream_connect_seconds", upstream="x").count, 1)

    def server_context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        return context


class Changes(LatencyTest):

    def test_reload(self):
        """Routes keep their times by name, upstreams as long as they are unchanged."""
        origin = self.keep(Origin(server("a")))
        proxy, config = self.start_with(
            listener("main", http={"routes": [{"name": "a", "forward": "x"}]}), upstreams=[upstream("x", origin)])
        self.keep(Http1(proxy)).get()
        route = {"listener": "main", "route": "a"}
        self.wait_for_count(proxy, 1, "http_request_duration_seconds", **route)
        config["listeners"][0]["http"]["routes"] = [{"name": "new", "match": {"path": {"exact": "/new"}}, "forward": "x"},
                                                    {"name": "a", "forward": "x"}]
        proxy.reload(config)
        self.assertEqual(self.histogram(proxy, "http_request_duration_seconds", **route).count, 1)
        self.assertEqual(self.histogram(proxy, "upstream_response_seconds", upstream="x").count, 1)
        client = self.keep(Http1(proxy))
        client.get("/new")
        client.get()
        self.wait_for_count(proxy, 2, "http_request_duration_seconds", **route)
        self.wait_for_count(proxy, 1, "http_request_duration_seconds", listener="main", route="new")
        config["upstreams"][0]["connect_timeout"] = "7s"
        proxy.reload(config)
        self.assertEqual(self.histogram(proxy, "http_request_duration_seconds", **route).count, 2)
        self.assertEqual(self.histogram(proxy, "upstream_response_seconds", upstream="x").count, 0)

    def test_many_routes(self):
        """Only 100 routes of a listener have times of their own; the others share one histogram."""
        routes = [{"name": f"r{i}", "match": {"path": {"exact": f"/{i}"}}, "respond": {"status": 200}} for i in range(150)]
        proxy, _ = self.start_with(listener("main", http={"routes": routes}))
        client = self.keep(Http1(proxy))
        for i in range(150):
            client.get(f"/{i}")
        self.wait_for_count(proxy, 50, "http_request_duration_seconds", listener="main", route="")
        text = self.get(proxy, "/metrics")
        self.assertEqual(len(re.findall(r'^sluice_http_request_duration_seconds_count{listener="main",route="r', text, re.M)), 100)
        self.assertIn('sluice_http_request_duration_seconds_count{listener="main",route="r99"} 1\n', text)


class OpenMetrics(LatencyTest):

    def start_all(self, **options):
        """A proxy with metrics of all kinds."""
        good = self.keep(Origin(server("good")))
        proxy, config = self.start_with(
            listener("main", http={"routes": [{"name": "app", "forward": "app"}], "compression": {}}), listener("tcp", tcp={"forward": "named"}),
            upstreams=[upstream("app", good, refused_address(), health_check={"http": {"path": "/"}}, ejection={}),
                       upstream("named", "localhost:1")], **options)
        client = self.keep(Http1(proxy))
        for _ in range(3):
            client.get()
        self.wait_for_count(proxy, 3, "http_request_duration_seconds", listener="main", route="app")
        return proxy, config

    def test_negotiation(self):
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        for accept, expected in (("", "text/plain; version=0.0.4; charset=utf-8"), ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
                                 ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
                                 ("application/openmetrics-text;q=0.1,text/plain;q=0.2", "text/plain; version=0.0.4; charset=utf-8")):
            with self.subTest(accept):
                status, fields, body = self.curl(address, "/metrics", "-H", f"Accept: {accept}" if accept else "Accept;")
                self.assertEqual((status, fields["content-type"]), (200, expected))
                self.assertEqual(body.endswith("\n# EOF\n"), "openmetrics" in expected)

    def test_reference_parser(self):
        """The parser of prometheus_client accepts it, and finds the same values as in the Prometheus text."""
        folder = pathlib.Path(os.environ.get("SLUICE_DEPS_DIR") or ROOT / ".deps") / "python"
        harness.require((folder / "prometheus_client").is_dir(), f"no prometheus_client in {folder}; run tools/deps")
        sys.path.insert(0, str(folder))
        self.addCleanup(sys.path.remove, str(folder))
        # pylint: disable=import-outside-toplevel, import-error
        from prometheus_client import parser as prometheus
        from prometheus_client.openmetrics import parser as openmetrics
        proxy, _ = self.start_all()
        parsed = {family.name: family for family in
                  openmetrics.text_string_to_metric_families(self.get(proxy, "/metrics", *OPENMETRICS))}
        times = parsed["sluice_http_request_duration_seconds"]
        self.assertEqual((times.type, times.unit), ("histogram", "seconds"))
        self.assertEqual([each.value for each in times.samples
                          if each.name.endswith("_count") and each.labels == {"listener": "main", "route": "app"}], [3])
        self.assertEqual((parsed["sluice_received_bytes"].type, parsed["sluice_received_bytes"].unit), ("counter", "bytes"))
        self.assertEqual(parsed["sluice_build"].type, "info")
        self.assertEqual(parsed["process_cpu_seconds"].type, "counter")
        same = {each.name for family in parsed.values() for each in family.samples}
        text = {each.name for family in prometheus.text_string_to_metric_families(self.get(proxy, "/metrics"))
                for each in family.samples}
        self.assertEqual(same, text)

    def test_prometheus(self):
        """A real Prometheus asks for OpenMetrics, and its percentiles are those of /latency."""
        program = harness.need("prometheus")
        folder = self.temporary_directory()
        proxy, _ = self.start_all()
        port = free_port()
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "200ms"}, "scrape_configs": [
                {"job_name": "sluice", "static_configs": [{"targets": [self.address_of(proxy)]}]}]}, file)
        child = harness.spawn([program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                               f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(harness.end, child)

        def ask(path, **query):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(query)}",
                                            timeout=10) as response:
                    return json.load(response)["data"]
            except OSError:
                return None
        name = "sluice_http_request_duration_seconds"

        def percentile(part):
            data = ask("query", query=f'histogram_quantile({part}, sum by (le) ({name}_bucket{{listener="main"}}))')
            return data and data["result"] and float(data["result"][0]["value"][1])
        harness.wait_until(lambda: percentile(0.5), 30, "the histogram")
        shown = self.json(proxy, "/latency")["listeners"][0]["request_duration"]
        for part in (50, 90, 99):
            self.assertAlmostEqual(percentile(part / 100) * 1000, shown[f"p{part}_ms"], 2)
        # Only OpenMetrics has units.
        found = ask("metadata", metric=name)
        self.assertEqual((found[name][0]["type"], found[name][0]["unit"]), ("histogram", "seconds"))

    def test_command(self):
        proxy, _ = self.start_with(admin={"address": f"127.0.0.1:{free_port()}"})
        self.keep(Http1(proxy)).get()
        self.wait_for_count(proxy, 1, "http_request_duration_seconds", listener="main", route="")
        shown = json.loads(self.sluice("--config", proxy.path, "latency"))
        self.assertEqual(shown["listeners"][0]["time_to_first_byte"]["count"], 1)


if __name__ == "__main__":
    harness.main()
