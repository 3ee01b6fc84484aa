"""Spans of requests, exported by OTLP over HTTP to a collector that decodes them with OpenTelemetry's own protobuf
classes."""

import http.client
import http.server
import socket
import sys
import threading
import time

import harness
from harness import SLOWNESS, require
from http_wire import Http2Client
from origins import Origin, free_port
from reload_test import listener, respond, server, upstream
from tls_support import TlsTest

try:
    sys.path.insert(0, str(harness.ROOT / ".deps/python"))
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2
except ImportError:
    trace_service_pb2 = None

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER, CLIENT = 2, 3


def value_of(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


class Collector:
    """Collects the spans of all requests, as (attributes of the resource, span)."""
    path = "/v1/traces"

    @staticmethod
    def request_of(body):
        return trace_service_pb2.ExportTraceServiceRequest.FromString(body)

    @staticmethod
    def records_of(request):
        for each in request.resource_spans:
            resource = {one.key: value_of(one.value) for one in each.resource.attributes}
            yield from ((resource, span) for scope in each.scope_spans for span in scope.spans)

    def __init__(self, port=0, status=200, delay=0):
        self.spans, self.requests, self.news = [], 0, threading.Condition()
        self.status = status
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                time.sleep(delay)
                problem = None
                try:
                    assert self.path == collector.path, self.path
                    assert self.headers["content-type"] == "application/x-protobuf"
                    request = collector.request_of(body)
                    assert request.SerializeToString() == body, "not in the canonical form"
                except Exception as error:
                    problem = error
                with collector.news:
                    collector.requests += 1
                    if problem:
                        collector.spans.append(problem)
                    elif collector.status == 200:
                        collector.spans += collector.records_of(request)
                    collector.news.notify_all()
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def wait(self, count, seconds=10 * SLOWNESS):
        with self.news:
            if not self.news.wait_for(lambda: len(self.spans) >= count, seconds):
                raise AssertionError(f"{len(self.spans)} records came, not {count}")
            return list(self.spans)


class Recorder:
    """A server of HTTP/1.1 that keeps the traceparent of each request."""

    def __init__(self, test, fail=0):
        self.seen, self.lock = [], threading.Lock()
        self.fail = fail
        self.origin = test.keep(Origin(self.serve))
        self.address = self.origin.address

    def serve(self, sock):
        received = b""
        while piece := sock.recv(65536):
            received += piece
            while b"\r\n\r\n" in received:
                head, received = received.split(b"\r\n\r\n", 1)
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
                with self.lock:
                    self.seen.append(fields.get("traceparent"))
                    fails = self.fail > 0
                    self.fail -= 1
                if fails:
                    sock.sendall(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
                else:
                    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


class Tracing(TlsTest):

    def setUp(self):
        require(trace_service_pb2 is not None, "there is no opentelemetry-proto")
        super().setUp()
        self.collector = self.keep(Collector())
        self.a = self.keep(Origin(server("a")))

    def proxy(self, *origins, collector=None, route=None, **tracing):
        http = {"trace_context": "make", "tracing": {"to": "collector", **tracing},
                "routes": [{"name": "all", "forward": "web", **(route or {})}]}
        return self.start({
            "workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s", "listeners": [listener("main", http=http)],
            "upstreams": [upstream("web", *origins), upstream("collector", collector or self.collector)]})

    def get(self, proxy, path="/", **fields):
        host, port = proxy.address("main")
        connection = http.client.HTTPConnection(host, port, timeout=10 * SLOWNESS)
        connection.request("GET", path, headers=fields)
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status

    def spans(self, count):
        """The spans as (server spans, client spans), each with its attributes as a dictionary."""
        found = {SERVER: [], CLIENT: []}
        for resource, span in self.collector.wait(count):
            self.assertEqual(resource, {"service.name": "sluice"})
            found[span.kind].append((span, {one.key: value_of(one.value) for one in span.attributes}))
        self.assertEqual(len(found[SERVER]) + len(found[CLIENT]), count)
        return found[SERVER], found[CLIENT]

    def test_request(self):
        web = Recorder(self)
        proxy = self.proxy(web)
        before = time.time_ns()
        self.assertEqual(self.get(proxy, "/a?secret=1", **{"traceparent": f"00-{TRACE}-{PARENT}-01", "user-agent": "t"}),
                         200)
        (request,), (attempt,) = self.spans(2)
        after = time.time_ns()
        for span, _ in (request, attempt):
            self.assertEqual(span.trace_id.hex(), TRACE)
            self.assertTrue(before <= span.start_time_unix_nano <= span.end_time_unix_nano <= after)
            self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
        self.assertEqual(request[0].parent_span_id.hex(), PARENT)
        self.assertEqual(attempt[0].parent_span_id, request[0].span_id)
        self.assertEqual(web.seen, [f"00-{TRACE}-{attempt[0].span_id.hex()}-01"])
        self.assertEqual((request[0].name, attempt[0].name), ("GET all", "GET"))
        self.assertEqual(request[1], {
            "http.request.method": "GET", "url.scheme": "http", "url.path": "/a",
            "server.address": "127.0.0.1", "client.address": "127.0.0.1", "network.protocol.version": "1.1",
            "user_agent.original": "t", "http.response.status_code": 200, "sluice.listener": "main",
            "sluice.route": "all", "sluice.upstream": "web"})
        address, port = web.address.split(":")
        self.assertEqual(attempt[1], {"http.request.method": "GET", "server.address": address, "server.port": int(port),
                                      "http.request.resend_count": 0, "http.response.status_code": 200})

    def test_who_decides(self):
        """A client's flag decides for its trace; for the others, the share. The upstream gets the same flag."""
        web = Recorder(self)
        proxy = self.proxy(web, sample="0.5")
        count = 200
        with Http2Client(proxy.address("main")) as client:
            for number in range(count):
                self.assertEqual(client.response(client.send_request("/")).status, 200)
        own = len([seen for seen in web.seen if seen.endswith("-01")])
        self.assertTrue(count * 0.3 < own < count * 0.7, own)  # Beyond 5 standard deviations.
        for flag in ("00", "01", "00", "01"):
            self.get(proxy, traceparent=f"00-{TRACE}-{PARENT}-{flag}")
        requests, attempts = self.spans(2 * (own + 2))
        self.assertEqual({span.span_id.hex() for span, _ in attempts},
                         {seen.split("-")[2] for seen in web.seen if seen.endswith("-01")})
        self.assertEqual(len([span for span, _ in requests if span.trace_id.hex() == TRACE]), 2)
        self.assertEqual(len([span for span, _ in requests if span.parent_span_id]), 2)

    def test_attempts(self):
        """An endpoint that refuses, one that responds with 503, and one that serves."""
        web = Recorder(self, fail=1)
        proxy = self.proxy(f"127.0.0.1:{free_port()}", web, route={"retry": {"on": ["connect_failure", "5xx"],
                                                                             "attempts": 4}})
        self.assertEqual(self.get(proxy), 200)
        host, port = web.address.split(":")
        # The first choice may be either endpoint.
        self.collector.wait(3)
        self.stop(proxy)
        (request,), attempts = self.spans(len(self.collector.spans))
        attempts.sort(key=lambda each: each[1]["http.request.resend_count"])
        self.assertEqual([each[1]["http.request.resend_count"] for each in attempts], list(range(len(attempts))))
        to_web = [each for each in attempts if each[1].get("server.port") == int(port)]
        self.assertEqual([each[1].get("http.response.status_code") for each in to_web], [503, 200])
        self.assertEqual([each[1].get("error.type") for each in to_web], ["503", None])
        refused = [each for each in attempts if each not in to_web]
        self.assertEqual({each[1]["error.type"] for each in refused} - {"connect_failed"}, set())
        self.assertEqual([span.split("-")[2] for span in web.seen], [each[0].span_id.hex() for each in to_web])
        self.assertEqual((request[1]["http.response.status_code"], request[1].get("error.type")), (200, None))

    def test_failed_request(self):
        proxy = self.proxy(f"127.0.0.1:{free_port()}")
        self.assertEqual(self.get(proxy), 503)
        (request,), attempts = self.spans(2)
        self.assertEqual((request[1]["error.type"], request[1]["http.response.status_code"]), ("no_endpoint", 503))
        self.assertEqual([each[1]["error.type"] for each in attempts], ["connect_failed"])
        for span, _ in (request, *attempts):
            self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_ERROR)

    def test_hedge(self):
        """The endpoint that is asked first does not respond: its attempt ends when the hedge has responded."""
        silent = self.keep(socket.create_server(("127.0.0.1", 0)))
        web = Recorder(self)
        proxy = self.proxy("%s:%d" % silent.getsockname(), web, route={"retry": {"attempts": 2, "hedge_after": "50ms"}})
        for _ in range(2):  # One of them goes to the silent endpoint first.
            self.assertEqual(self.get(proxy), 200)
        _, attempts = self.spans(5)
        (lost,) = [each for each in attempts if each[1].get("error.type")]
        self.assertEqual((lost[1]["error.type"], lost[1]["server.port"]), ("cancelled", silent.getsockname()[1]))
        self.assertEqual({seen.split("-")[2] for seen in web.seen},
                         {each[0].span_id.hex() for each in attempts if each is not lost})

    def test_collector_comes_and_goes(self):
        """Requests go on without it. The log says once that it takes no spans, and once that it takes them again."""
        port = free_port()
        proxy = self.proxy(self.a, collector=f"127.0.0.1:{port}")
        for lost in (2, 4, 6):
            self.assertEqual(self.get(proxy), 200)
            proxy.wait_for(lambda s, lost=lost: s.total("http_trace_spans_lost_total") == lost)
        self.assertEqual(proxy.count_in_output('tracing: upstream "collector" takes no spans: no_endpoint'), 1)
        self.collector = self.keep(Collector(port))
        self.assertEqual(self.get(proxy), 200)
        self.spans(2)
        proxy.wait_for(lambda s: s.total("http_trace_spans_exported_total") == 2)
        self.assertEqual(proxy.count_in_output('tracing: upstream "collector" takes spans again'), 1)

    def test_collector_refuses(self):
        self.collector.status = 404
        proxy = self.proxy(self.a)
        self.get(proxy)
        proxy.wait_for(lambda s: s.total("http_trace_spans_lost_total") == 2)
        proxy.wait_for_output('takes no spans: status 404')

    def test_collector_hangs(self):
        """It takes requests and never responds. What waits is bounded, requests are as fast as before, and the process
        ends."""
        silent = self.keep(socket.create_server(("127.0.0.1", 0)))
        proxy = self.proxy(self.a, collector="%s:%d" % silent.getsockname())
        with Http2Client(proxy.address("main")) as client:
            for _ in range(1000):
                self.assertEqual(client.response(client.send_request("/")).status, 200)
        stats = proxy.stats()
        self.assertGreater(stats.total("http_trace_spans_dropped_total"), 900)
        self.assertLess(stats.total("pool_bytes"), 4 << 20)
        began = time.monotonic()
        self.stop(proxy)
        self.assert_within(began, 4.5 * SLOWNESS)

    def test_last_spans(self):
        """Spans that wait when the process is stopped are sent, and so are those of a listener that a reload changes."""
        proxy = self.proxy(self.a)
        self.get(proxy)
        began = time.monotonic()
        proxy.reload({**proxy.config, "listeners": [listener("main", http=respond("new"))]})
        self.spans(2)
        self.assert_within(began, 5 * SLOWNESS)
        other = self.proxy(self.a)
        self.get(other)
        self.stop(other)
        self.spans(4)

    def test_field_is_removed(self):
        """What the configuration does to the field holds: it is not added for an attempt."""
        web = Recorder(self)
        proxy = self.proxy(web, route={"request_headers": [{"name": "traceparent", "remove": True}]})
        self.assertEqual(self.get(proxy), 200)
        self.spans(2)
        self.assertEqual(web.seen, [None])


if __name__ == "__main__":
    harness.main()
