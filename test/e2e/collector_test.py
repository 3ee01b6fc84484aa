"""Spans and access logs in a real OpenTelemetry Collector: the program of collector.d, made of the Collector's own modules, receives what Sluice
exports. tracing_test.py has the rest, with a collector of its own.

The Collector takes a minute to build, so this runs only with SLUICE_E2E_LONG=1.
"""

import json
import subprocess
import threading
import unittest

import harness
from harness import LONG, SLOWNESS
from http_peers_support import go_program
from http_wire import Http2Client
from origins import Origin, connect, echo, free_port, ping
from reload_test import listener, server
from tls_support import TlsTest

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, CLIENT = 2, 3
FOLDER = harness.ROOT / "test/e2e/collector.d"


class Collector:
    """A collector that has started, at an address."""

    def __init__(self, test, tls=None, address=None):
        self.address = address or f"127.0.0.1:{free_port()}"
        path = f"{test.temporary_directory()}/collector.yaml"
        http = {"endpoint": self.address, **({"tls": tls} if tls else {})}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"receivers": {"otlp": {"protocols": {"http": http}}}, "exporters": {"lines": None}, "service": {
                "pipelines": {kind: {"receivers": ["otlp"], "exporters": ["lines"]} for kind in ("traces", "logs")},
                "telemetry": {"metrics": {"level": "none"}}}}, file)
        self.lines, self.errors, self.news = [], [], threading.Condition()
        self.process = harness.spawn([go_program(".", FOLDER), f"--config=file:{path}"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.addCleanup(harness.end, self.process)
        for stream, lines in ((self.process.stdout, self.lines), (self.process.stderr, self.errors)):
            threading.Thread(target=self.read, args=(stream, lines), daemon=True).start()
        self.wait(lambda: any("Everything is ready" in line for line in self.errors), "the collector's start")

    def read(self, stream, lines):
        for line in stream:
            with self.news:
                lines.append(line)
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    def wait(self, condition, what):
        with self.news:
            if not self.news.wait_for(lambda: condition() or self.process.poll() is not None, 20 * SLOWNESS) or not condition():
                raise AssertionError(f"waited {20 * SLOWNESS} s for {what}\n{''.join(self.errors)}")

    def batches(self):
        return [resource for line in self.lines for resource in json.loads(line).get("resourceSpans", [])]

    def logs(self, count):
        """All log records, each with its resource, once there are so many."""
        def found():
            return [(resource["resource"], record) for line in self.lines
                    for resource in json.loads(line).get("resourceLogs", [])
                    for scope in resource["scopeLogs"] for record in scope["logRecords"]]
        self.wait(lambda: len(found()) >= count, f"{count} log records")
        return found()

    def spans(self, count):
        """All spans, once there are so many."""
        def found():
            return [span for batch in self.batches() for scope in batch["scopeSpans"] for span in scope["spans"]]
        self.wait(lambda: len(found()) >= count, f"{count} spans")
        return found()


def attributes(of):
    return {one["key"]: next(iter(one["value"].values())) for one in of["attributes"]}


@unittest.skipUnless(LONG, "only in the long form")
class Collectors(TlsTest):

    def proxy(self, origin, collector, **to):
        http = {"trace_context": "make", "tracing": {"to": "collector"}, "routes": [{"name": "all", "forward": "web"}]}
        return self.start({
            "workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s", "listeners": [listener("main", http=http)],
            "upstreams": [{"name": "web", "endpoints": [origin.address]},
                          {"name": "collector", "endpoints": [collector.address], **to}]})

    def check(self, collector, **to):
        web = self.keep(Origin(server("a")))
        proxy = self.proxy(web, collector, **to)
        count = 20
        with Http2Client(proxy.address("main")) as client:
            fields = [("traceparent", f"00-{TRACE}-{PARENT}-01")]
            for _ in range(count):
                self.assertEqual(client.response(client.send_request("/a?secret=1", fields=fields)).status, 200)
        spans = collector.spans(2 * count)
        proxy.wait_for(lambda stats: stats.total("http_trace_spans_exported_total") == 2 * count, what="confirmed spans")
        self.assertEqual(proxy.stats().total("http_trace_spans_lost_total"), 0)
        self.assertEqual(len(spans), 2 * count)
        for batch in collector.batches():
            self.assertEqual(attributes(batch["resource"]), {"service.name": "sluice"})
        requests = {span["spanId"]: span for span in spans if span["kind"] == SERVER}
        attempts = [span for span in spans if span["kind"] == CLIENT]
        self.assertEqual((len(requests), len(attempts)), (count, count))
        self.assertEqual({span["parentSpanId"] for span in attempts}, set(requests))
        for span in requests.values():
            self.assertEqual((span["traceId"], span["parentSpanId"], span["name"]), (TRACE, PARENT, "GET all"))
            found = attributes(span)
            # Numbers of 64 bits are texts in the JSON of OTLP.
            self.assertEqual((found["url.path"], found["http.response.status_code"], found["network.protocol.version"]),
                             ("/a", "200", "2"))
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        for span in attempts:
            self.assertEqual(span["traceId"], TRACE)
            self.assertEqual(attributes(span)["server.port"], web.address.split(":")[1])
        self.assertNotIn("secret", "".join(collector.lines))

    def test_logs(self):
        """The records of requests, with the ids of their spans, and one of a connection."""
        collector = Collector(self)
        web, there = self.keep(Origin(server("a"))), self.keep(Origin(echo))
        log = {"file": "otlp:collector", "format": "json"}
        http = {"access_log": log, "trace_context": "make", "tracing": {"to": "collector"}, "forward": "web"}
        proxy = self.start({
            "workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s",
            "listeners": [listener("main", http=http), listener("tcp", tcp={"access_log": log, "forward": "there"})],
            "upstreams": [{"name": "web", "endpoints": [web.address]}, {"name": "there", "endpoints": [there.address]},
                          {"name": "collector", "endpoints": [collector.address]}]})
        count = 20
        with Http2Client(proxy.address("main")) as client:
            for _ in range(count):
                self.assertEqual(client.response(client.send_request("/a?x=1")).status, 200)
        with connect(proxy.address("tcp")) as sock:
            self.assertTrue(ping(sock))
        records = collector.logs(count + 1)
        spans = {span["spanId"]: span["traceId"] for span in collector.spans(2 * count) if span["kind"] == SERVER}
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == count + 1, what="confirmed records")
        self.assertEqual(proxy.stats().total("access_log_dropped_total"), 0)
        for resource, record in records:
            self.assertEqual(attributes(resource), {"service.name": "sluice"})
            line, found = json.loads(record["body"]["stringValue"]), attributes(record)
            self.assertEqual((record["severityText"], found["client.port"]), ("INFO", str(line["client_port"])))
            if line["protocol"] == "TCP":
                self.assertEqual((found["sluice.reason"], found["sluice.bytes_in"]), ("finished", str(line["bytes_in"])))
                continue
            self.assertEqual((found["url.path"], found["http.response.status_code"], line["path"]), ("/a", "200", "/a?x=1"))
            self.assertEqual(spans.pop(record["spanId"]), record["traceId"])
        self.assertEqual(spans, {})

    def test_plain(self):
        self.check(Collector(self))

    def test_tls(self):
        tls = {"cert_file": self.server["chain"], "key_file": self.server["key"]}
        for protocol in ("http1", "http2"):
            with self.subTest(protocol):
                self.check(Collector(self, tls), protocol=protocol, tls={"ca": self.ca, "server_name": "localhost"})

    def test_restart(self):
        """A collector that ends and comes back at its address gets the spans of new requests."""
        first = Collector(self)
        web = self.keep(Origin(server("a")))
        proxy = self.proxy(web, first)

        def get():
            with Http2Client(proxy.address("main")) as client:
                self.assertEqual(client.response(client.send_request("/")).status, 200)

        get()
        first.spans(2)
        harness.end(first.process)
        get()
        proxy.wait_for(lambda stats: stats.total("http_trace_spans_lost_total") == 2, what="lost spans")
        second = Collector(self, address=first.address)
        get()
        self.assertEqual(len(second.spans(2)), 2)


if __name__ == "__main__":
    harness.main()
