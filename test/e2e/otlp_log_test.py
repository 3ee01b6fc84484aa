"""Access logs that go to a collector by OTLP over HTTP, which decodes them with OpenTelemetry's own protobuf classes."""

import json
import socket
import subprocess
import time

import harness
import tracing_test
from harness import SLOWNESS, require
from http_wire import Http2Client
from origins import Origin, connect, echo, free_port, ping
from reload_test import listener, respond, server, upstream
from tls_support import TlsTest
from tracing_test import PARENT, SERVER, TRACE, value_of

try:
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
    from opentelemetry.proto.logs.v1 import logs_pb2
except ImportError:
    logs_service_pb2 = None


class Collector(tracing_test.Collector):
    """Collects the log records of all requests, as (attributes of the resource, record)."""
    path = "/v1/logs"

    @staticmethod
    def request_of(body):
        return logs_service_pb2.ExportLogsServiceRequest.FromString(body)

    @staticmethod
    def records_of(request):
        for each in request.resource_logs:
            resource = {one.key: value_of(one.value) for one in each.resource.attributes}
            for scope in each.scope_logs:
                yield from ((resource, record) for record in scope.log_records)


class OtlpLog(TlsTest):

    def setUp(self):
        require(logs_service_pb2 is not None, "there is no opentelemetry-proto")
        super().setUp()
        self.collector = self.keep(Collector())
        self.web = self.keep(Origin(server("a")))

    def logging(self, collector=None, log=None, http=None, protocol="http", upstreams=()):
        """A proxy with a listener whose log goes to the collector."""
        access_log = {"file": "otlp:collector", **(log or {})}
        if protocol == "http":
            main = listener("main", http={"access_log": access_log, "routes": [{"name": "all", "forward": "web"}],
                                          **(http or {})})
        else:
            main = listener("main", tcp={"access_log": access_log, "forward": "web"})
        return self.start({
            "workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s", "listeners": [main],
            "upstreams": [upstream("web", self.web), upstream("collector", collector or self.collector), *upstreams]})

    def get(self, proxy, path="/", **fields):
        with Http2Client(proxy.address("main")) as client:
            fields = [(name.replace("_", "-"), value) for name, value in fields.items()]
            return client.response(client.send_request(path, fields=fields)).status

    def records(self, count, service="sluice"):
        """The records, each with its attributes as a dictionary."""
        found = self.collector.wait(count)
        self.assertEqual(len(found), count)
        for resource, _ in found:
            self.assertEqual(resource, {"service.name": service})
        return [(record, {one.key: value_of(one.value) for one in record.attributes}) for _, record in found]

    def test_request(self):
        proxy = self.logging(log={"format": "json"}, http={"request_id": "x-request-id"})
        before = time.time_ns()
        self.assertEqual(self.get(proxy, "/a?secret=1", user_agent="t"), 200)
        (record, found), = self.records(1)
        after = time.time_ns()
        self.assertTrue(before - 2_000_000 <= record.time_unix_nano <= record.observed_time_unix_nano <= after)
        self.assertEqual((record.severity_number, record.severity_text), (logs_pb2.SEVERITY_NUMBER_INFO, "INFO"))
        self.assertEqual((record.trace_id, record.span_id, record.flags), (b"", b"", 0))
        line = json.loads(record.body.string_value)
        self.assertEqual((line["path"], line["status"], line["listener"]), ("/a?secret=1", 200, "main"))
        for ours, theirs in (("client.port", "client_port"), ("sluice.duration_us", "duration_us"),
                             ("sluice.upstream_us", "upstream_us"), ("sluice.request_id", "request_id"),
                             ("sluice.bytes_pinned", "bytes_pinned")):
            self.assertEqual(found.pop(ours), line[theirs], ours)
        self.assertEqual(found, {
            "http.request.method": "GET", "http.response.status_code": 200, "url.scheme": "http", "url.path": "/a",
            "server.address": found["server.address"], "client.address": "127.0.0.1", "network.transport": "tcp",
            "network.protocol.name": "http", "network.protocol.version": "2", "user_agent.original": "t",
            "http.request.body.size": 0, "http.response.body.size": line["bytes_out"], "sluice.reason": "ok",
            "sluice.listener": "main", "sluice.route": "all", "sluice.upstream": "web",
            "sluice.endpoint": self.web.address, "sluice.attempts": 1})
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == 1)

    def test_traced_request(self):
        """The record has the trace, and the span that is exported."""
        spans = self.keep(tracing_test.Collector())
        proxy = self.logging(http={"trace_context": "pass", "tracing": {"to": "spans"}},
                             upstreams=[upstream("spans", spans)])
        self.assertEqual(self.get(proxy, traceparent=f"00-{TRACE}-{PARENT}-01"), 200)
        self.assertEqual(self.get(proxy, traceparent=f"00-{TRACE}-{PARENT}-00"), 200)
        (traced, _), (untraced, _) = self.records(2)
        (request,) = [span for _, span in spans.wait(2) if span.kind == SERVER]
        self.assertEqual((traced.trace_id.hex(), traced.span_id, traced.flags), (TRACE, request.span_id, 1))
        self.assertEqual((untraced.trace_id.hex(), untraced.span_id, untraced.flags), (TRACE, b"", 0))

    def test_failures(self):
        proxy = self.logging(http={"routes": [{"match": {"path": {"exact": "/404"}}, "respond": {"status": 404}},
                                              {"match": {"path": {"exact": "/500"}}, "respond": {"status": 500}},
                                              {"name": "none", "forward": "none"}]},
                             upstreams=[upstream("none", f"127.0.0.1:{free_port()}")])
        for path in ("/404", "/500", "/"):
            self.get(proxy, path)
        found = {attributes["url.path"]: (record.severity_text, attributes.get("error.type"))
                 for record, attributes in self.records(3)}
        self.assertEqual(found, {"/404": ("INFO", None), "/500": ("ERROR", "500"), "/": ("ERROR", "no_endpoint")})

    def exchange(self, proxy, request):
        with socket.create_connection(proxy.address("main"), 10 * SLOWNESS) as client:
            client.sendall(request)
            return client.recv(100)

    def test_text_that_is_not_utf8(self):
        """One client cannot make the collector refuse the records of all."""
        proxy = self.logging()
        response = self.exchange(proxy, b"GET /x HTTP/1.1\r\nhost: a\r\nuser-agent: a\xff\xc3b\r\n\r\n")
        self.assertTrue(response.startswith(b"HTTP/1.1 200"), response)
        (_, found), = self.records(1)
        self.assertEqual(found["user_agent.original"], "a\ufffd\ufffdb")

    def test_malformed_request(self):
        proxy = self.logging()
        response = self.exchange(proxy, b"GET /x?y HTTP/1.1\r\n\r\n")
        self.assertTrue(response.startswith(b"HTTP/1.1 400"), response)
        (_, found), = self.records(1)
        self.assertEqual((found["sluice.reason"], found["error.type"], found["url.path"]), ("malformed", "malformed", "/x"))
        self.assertIn("RFC 9112", found["sluice.detail"])

    def test_connection(self):
        self.web = self.keep(Origin(echo))
        proxy = self.logging(protocol="tcp")
        client = connect(proxy.address("main"))
        self.assertTrue(ping(client, b"x" * 500))
        port = client.getsockname()[1]
        client.close()
        (record, found), = self.records(1)
        self.assertEqual(record.severity_text, "INFO")
        self.assertTrue(record.body.string_value.startswith("["))
        for name in ("sluice.connect_us", "sluice.duration_us", "sluice.bytes_pinned"):
            self.assertGreater(found.pop(name), 0, name)
        self.assertEqual(found, {
            "client.address": "127.0.0.1", "client.port": port, "network.transport": "tcp", "sluice.bytes_in": 500,
            "sluice.bytes_out": 500, "sluice.reason": "finished", "sluice.listener": "main", "sluice.route": "0",
            "sluice.upstream": "web", "sluice.endpoint": self.web.address, "sluice.attempts": 1})

    def test_condition_and_keys(self):
        self.collector.path = "/otlp/v1/logs"
        proxy = self.logging(log={"when": "path == '/b'", "format": "%{path}",
                                  "otlp": {"path": "/otlp/v1/logs", "service_name": "shop"}})
        for path in ("/a", "/b", "/c"):
            self.get(proxy, path)
        self.stop(proxy)
        (record, _), = self.records(1, service="shop")
        self.assertEqual(record.body.string_value, "/b")

    def test_many(self):
        """They are sent together, and none is lost."""
        proxy = self.logging(http={"routes": [{"respond": {"status": 200}}]})
        count = 3000
        with Http2Client(proxy.address("main")) as client:
            for _ in range(count):
                self.assertEqual(client.response(client.send_request("/")).status, 200)
        self.records(count)
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == count)
        self.assertEqual(proxy.stats().total("access_log_dropped_total"), 0)
        self.assertLess(self.collector.requests, count / 10)

    def test_collector_comes_and_goes(self):
        """Requests go on without it. The log says once that it takes no records, and once that it takes them again."""
        port = free_port()
        proxy = self.logging(collector=f"127.0.0.1:{port}")
        for lost in range(3):
            self.assertEqual(self.get(proxy), 200)
            proxy.wait_for(lambda stats, lost=lost: stats.total("access_log_dropped_total") == lost + 1)
        self.assertEqual(proxy.stats().total("access_log_errors_total"), 3)
        said = 'listener "main": access_log: upstream "collector" takes '
        self.assertEqual(proxy.count_in_output(said + "no log records: no_endpoint"), 1)
        self.collector = self.keep(Collector(port))
        self.assertEqual(self.get(proxy), 200)
        self.records(1)
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == 1)
        self.assertEqual(proxy.count_in_output(said + "log records again"), 1)

    def test_collector_hangs(self):
        """It takes requests and never responds. What waits is bounded, and the process ends."""
        silent = self.keep(socket.create_server(("127.0.0.1", 0)))
        proxy = self.logging(collector="%s:%d" % silent.getsockname(), http={"routes": [{"respond": {"status": 200}}]})
        with Http2Client(proxy.address("main")) as client:
            for _ in range(1500):  # Their lines have 4 KiB.
                self.assertEqual(client.response(client.send_request("/" + "x" * 4000)).status, 200)
        stats = proxy.stats()
        self.assertGreater(stats.total("access_log_dropped_total"), 300)
        self.assertLess(stats.total("pool_bytes"), 10 << 20)
        began = time.monotonic()
        self.stop(proxy)
        self.assert_within(began, 4.5 * SLOWNESS)

    def test_last_records(self):
        """Records that wait when the process is stopped are sent, and so are those of a listener that a reload changes."""
        proxy = self.logging()
        self.get(proxy)
        proxy.reload({**proxy.config, "listeners": [listener("main", http=respond("new"))]})
        self.records(1)
        self.web = self.keep(Origin(echo))
        other = self.logging(protocol="tcp")
        with connect(other.address("main")) as client:
            self.assertTrue(ping(client))
        self.stop(other)
        self.records(2)

    def test_a_name_that_is_unknown(self):
        path = f"{self.temporary_directory()}/sluice.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"listeners": [listener("main", http={"access_log": "otlp:nobody", **respond("x")})]}, file)
        done = subprocess.run([harness.SLUICE, "check", "--config", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("access_log.file: ", done.stderr)
        self.assertIn("nobody", done.stderr)


if __name__ == "__main__":
    harness.main()
