"""Servers outside that speak Envoy's protocols over gRPC: a rate limit service (`global_rate_limits`) and an authorizer
(`ext_authz`). Their messages are read and written by protobuf's own library. With SLUICE_E2E_LONG=1, also with Envoy's
rate limit service and Redis, and with an authorizer by grpc-go and Envoy's Go API."""

import json
import os
import struct
import subprocess
import threading
import time
import unittest

import envoy_messages
import harness
from envoy_messages import make
from forward_auth_test import Echo
from harness import LONG, SLOWNESS, main, need, require
from http_peers_support import KINDS, HttpTest, Server, go_program, words
from http_wire import Server as WireServer
from http_wire import data_frame, headers_frame, rst_frame
from origins import free_port
from programs import Redis

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
PLAIN = (HTTP1, HTTP2)
OK, OVER_LIMIT = 1, 2
PATHS = {"RateLimitRequest": "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
         "CheckRequest": "/envoy.service.auth.v3.Authorization/Check"}
GRPC = [(":status", "200"), ("content-type", "application/grpc")]
MODULE = harness.ROOT / "test/e2e/envoy_services.d"


def framed(message):
    return struct.pack(">BI", 0, len(message)) + message


def grpc_response(stream, message, status="0"):
    return (headers_frame(stream, GRPC) + data_frame(stream, framed(message)) +
            headers_frame(stream, [("grpc-status", status)], end=True))


class Service:
    """A server of unary calls of one kind. `decide` gets each request, and returns the response: a message, or bytes to
    send as they are, or a function that gets the stream and returns such bytes, or None for no response."""

    def __init__(self, kind, decide):
        require(envoy_messages.CLASSES, "missing: Python's protobuf; run tools/deps")
        self._kind, self._decide = kind, decide
        self.requests, self.problems = [], []
        self._server = WireServer(self._respond)
        self.address = self._server.address

    def _respond(self, message, connection):
        try:
            assert message.method == "POST" and message.path == PATHS[self._kind], message
            assert message.value("content-type") == "application/grpc" and message.value("te") == "trailers", message
            assert message.value("grpc-timeout").endswith("m"), message
            flag, size = struct.unpack(">BI", message.body[:5])
            assert flag == 0 and size == len(message.body) - 5, message
            request = envoy_messages.CLASSES[self._kind].FromString(bytes(message.body[5:]))
            assert request.SerializeToString(deterministic=True), message
        except Exception as problem:  # Shown by the test.
            self.problems.append(problem)
            return connection.send(rst_frame(message.stream, 2))
        self.requests.append(request)
        decision = self._decide(request)
        if callable(decision):
            decision = decision(message.stream)
        elif decision is not None and not isinstance(decision, bytes):
            decision = grpc_response(message.stream, decision.SerializeToString())
        if decision is not None:
            connection.send(decision)

    def close(self):
        self._server.close()


class EnvoyTest(HttpTest):

    def setUp(self):
        super().setUp()
        self.echo = self.keep(Echo())

    def service(self, kind, decide):
        service = self.keep(Service(kind, decide))
        self.addCleanup(lambda: self.assertEqual(service.problems, []))
        return service

    def config(self, service, http=None, route=None, **top):
        http = {"routes": [{"forward": "main", **(route or {})}], **(http or {})}
        config = self.configuration(self.upstream(self.echo.address, kind=HTTP1), http, **top)
        config["upstreams"].append({"name": "service", "protocol": "http2",
                                    "endpoints": [getattr(service, "address", service)]})
        return config

    def expect(self, proxy, counter, **results):
        stats = proxy.wait_for(lambda stats: stats.total(counter) >= sum(results.values()))
        found = {result: stats.total(counter, result=result) for result in results}
        self.assertEqual((found, stats.total(counter)), (results, sum(results.values())))
        return stats


# How a service may break the protocol, as functions of the stream.
LIES = {
    "garbage": lambda stream: grpc_response(stream, b"\xff" * 9),
    "oversize": lambda stream: headers_frame(stream, GRPC) + b"".join(
        data_frame(stream, bytes(16000)) for _ in range(5)),
    "a wrong content type": lambda stream: headers_frame(stream, [(":status", "200"), ("content-type", "text/html")]) +
    data_frame(stream, b"<html>", end=True),
    "RST_STREAM": lambda stream: rst_frame(stream, 2),
    "RST_STREAM behind the head": lambda stream: headers_frame(stream, GRPC) + rst_frame(stream, 2),
    "trailers only": lambda stream: headers_frame(stream, [*GRPC, ("grpc-status", "13")], end=True),
    "no trailers": lambda stream: headers_frame(stream, GRPC) + data_frame(stream, framed(b""), end=True),
    "a length beyond the body": lambda stream: headers_frame(stream, GRPC) + data_frame(stream, b"\0\0\0\1\0x") +
    headers_frame(stream, [("grpc-status", "0")], end=True),
    "another status": lambda stream: headers_frame(stream, [(":status", "404")], end=True),
}


class RateLimits(EnvoyTest):
    COUNTER = "http_global_rate_limit_total"

    def limited(self, service, timeout="10s", http=None, route=None, **limits):
        limits = {"to": "service", "domain": "edge", "timeout": timeout,
                  "descriptors": [{"entries": [{"source": True}]}], **limits}
        return self.config(service, {"global_rate_limits": limits, **(http or {})}, route)

    def test_decisions(self):
        def decide(request):
            over = any(entry.value == "hot" for each in request.descriptors for entry in each.entries)
            if not over:
                return make("RateLimitResponse", overall_code=OK, request_headers_to_add=envoy_messages.headers(
                    ("X-Counted", "yes")), response_headers_to_add=envoy_messages.headers(("X-Left", "3")))
            status = make("DescriptorStatus", code=OVER_LIMIT, duration_until_reset=make("Duration", seconds=9),
                          current_limit=make("Limit", requests_per_unit=5, unit=2, name="keys"))
            return make("RateLimitResponse", overall_code=OVER_LIMIT,
                        statuses=[make("DescriptorStatus", code=OK), status],
                        response_headers_to_add=envoy_messages.headers(("X-Why", "hot")))

        service = self.service("RateLimitRequest", decide)
        log = os.path.join(self.temporary_directory(), "access.log")
        proxy = self.start(self.limited(service, http={"access_log": {"file": log, "format": "json"}}, route={
            "rate_limit_descriptors": [{"entries": [{"header": "X-Key", "key": "api_key"}, {"value": "v"}]}]}))
        for client in KINDS:
            with self.subTest(words(client)):
                served = self.curl(proxy, client, "/")
                self.assertEqual((served.status, served.fields["x-left"]), (200, "3"))
                self.assertEqual(served.json()["fields"]["x-counted"], ["yes"])
                self.assertEqual(str(service.requests[-1]), str(make("RateLimitRequest", domain="edge", descriptors=[
                    make("Descriptor", entries=[make("Entry", key="remote_address", value="127.0.0.1")])],
                    hits_addend=1)))
                refused = self.curl(proxy, client, "/", "-H", "X-Key: hot")
                self.assertEqual([(entry.key, entry.value) for entry in service.requests[-1].descriptors[1].entries],
                                 [("api_key", "hot"), ("generic_key", "v")])
                self.assertEqual((refused.status, refused.fields["retry-after"]), (429, "9"))
                self.assertEqual(refused.fields["ratelimit-policy"], '"keys";q=5;w=60')
                self.assertEqual(refused.fields["ratelimit"], '"keys";r=0;t=9')
                self.assertEqual(refused.fields["x-why"], "hot")
        stats = self.expect(proxy, self.COUNTER, ok=len(KINDS), over_limit=len(KINDS))
        self.assertEqual(stats.total("http_requests_ended_total", reason="rate_limited"), len(KINDS))
        self.stop(proxy)
        with open(log, encoding="utf-8") as lines:
            reasons = [json.loads(line)["reason"] for line in lines]
        self.assertEqual(sorted(reasons), ["ok"] * len(KINDS) + ["rate_limited"] * len(KINDS))

    def test_h2load(self):
        """Many at once: each is counted, and nothing is left behind."""
        lock, left = threading.Lock(), [100]

        def decide(_):
            with lock:
                left[0] -= 1
                return make("RateLimitResponse", overall_code=OK if left[0] >= 0 else OVER_LIMIT)

        service = self.service("RateLimitRequest", decide)
        proxy = self.start(self.limited(service, http={"routes": [{"respond": {"status": 200}}]}))
        done = subprocess.run([need("h2load"), "-n", "1000", "-c", "4", "-m", "20", self.url(proxy, HTTP2)],
                              capture_output=True, text=True, timeout=100 * SLOWNESS, check=True)
        self.assertIn("status codes: 100 2xx, 0 3xx, 900 4xx, 0 5xx", done.stdout)
        self.assertEqual(len(service.requests), 1000)
        self.expect(proxy, self.COUNTER, ok=100, over_limit=900)
        proxy.wait_for(lambda stats: stats.total("http_requests_active") == 0)

    def test_lies(self):
        """By default the requests go on."""
        lies = list(LIES.items())
        service = self.service("RateLimitRequest", lambda request: lies[len(service.requests) - 1][1])
        proxy = self.start(self.limited(service))
        for name, _ in lies:
            with self.subTest(name):
                self.assertEqual(self.curl(proxy, HTTP2, "/").status, 200)
        self.expect(proxy, self.COUNTER, error=len(lies))
        proxy.wait_for_output('global_rate_limits: upstream "service" did not decide: ')

    def test_slow(self):
        service = self.service("RateLimitRequest", lambda request: None)
        proxy = self.start(self.limited(service, timeout="20ms"))
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/").status, 200)
        self.expect(proxy, self.COUNTER, timeout=2)

    def test_dead(self):
        proxy = self.start(self.limited(f"127.0.0.1:{free_port()}", on_failure="refuse"))
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/").status, 503)
        stats = self.expect(proxy, self.COUNTER, error=2)
        self.assertEqual(stats.total("http_requests_ended_total", reason="rate_limit_failed"), 2)
        self.assertEqual(self.echo.seen, [])

    @unittest.skipUnless(LONG, "only in the long form")
    def test_envoys_service(self):
        """Envoy's own service, with Redis."""
        redis = self.keep(Redis())
        folder = self.temporary_directory()
        os.makedirs(f"{folder}/rl/config")
        with open(f"{folder}/rl/config/edge.yaml", "w", encoding="utf-8") as file:
            file.write("domain: edge\ndescriptors:\n  - key: remote_address\n    descriptors:\n      - key: api_key\n"
                       "        rate_limit: { name: keys, unit: hour, requests_per_unit: 3 }\n")
        ports = [free_port() for _ in range(3)]
        environment = {"RUNTIME_ROOT": folder, "RUNTIME_SUBDIRECTORY": "rl", "RUNTIME_WATCH_ROOT": "false",
                       "USE_STATSD": "false", "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis.address,
                       "BACKEND_TYPE": "redis", "LIMIT_RESPONSE_HEADERS_ENABLED": "true", "LOG_LEVEL": "warn",
                       "GRPC_PORT": str(ports[0]), "PORT": str(ports[1]), "DEBUG_PORT": str(ports[2]),
                       "GRPC_HOST": "127.0.0.1", "HOST": "127.0.0.1", "DEBUG_HOST": "127.0.0.1"}
        child = harness.spawn([go_program("github.com/envoyproxy/ratelimit/src/service_cmd", MODULE)],
                              env={**os.environ, **environment}, stdin=subprocess.DEVNULL)
        self.addCleanup(harness.end, child)
        proxy = self.start(self.limited(f"127.0.0.1:{ports[0]}", on_failure="refuse", descriptors=[
            {"entries": [{"source": True}, {"header": "x-key", "key": "api_key"}]}]))
        harness.wait_until(lambda: self.curl(proxy, HTTP2, "/", "-H", "x-key: other").status == 200, 20, "the service")
        found = [self.curl(proxy, HTTP2, "/", "-H", "x-key: k") for _ in range(5)]
        self.assertEqual([each.status for each in found], [200, 200, 200, 429, 429])
        self.assertEqual(found[0].fields["ratelimit-remaining"], "2")
        self.assertTrue(found[3].fields["ratelimit-policy"].startswith('"keys";q=3;w=3600'))
        self.assertIn(int(found[3].fields["retry-after"]), range(1, 3601))
        self.assertEqual(self.curl(proxy, HTTP2, "/", "-H", "x-key: b").status, 200)


class Authorization(EnvoyTest):
    COUNTER = "http_forward_auth_total"

    def guarded(self, service, timeout="10s", **rule):
        return self.config(service, route={"ext_authz": {"to": "service", "timeout": timeout, **rule}})

    @staticmethod
    def decide(request):
        http = request.attributes.request.http
        fields = {entry.key: entry.value for entry in http.headers}
        if "session=good" in fields.get("cookie", ""):
            return make("CheckResponse", status=make("Status", code=0), ok_response=make(
                "Ok", headers=envoy_messages.options(("X-User", "ann")), headers_to_remove=["Cookie"],
                response_headers_to_add=envoy_messages.options(("X-Seen", "yes"))))
        # Until the body has arrived: behind a response that came before it the stream is reset (RFC 9113, section 8.1), which
        # curl 7.88 takes for an error.
        time.sleep(0.1 * SLOWNESS)
        return make("CheckResponse", status=make("Status", code=7), denied_response=make(
            "Denied", status=make("HttpStatus", code=302), body="log in",
            headers=envoy_messages.options(("Location", "https://login.test/"), ("Set-Cookie", "a=1"),
                                           ("Set-Cookie", "b=2"))))

    def test_decisions(self):
        service = self.service("CheckRequest", self.decide)
        proxy = self.start(self.guarded(service))
        for client in KINDS:
            with self.subTest(words(client)):
                refused = self.curl(proxy, client, "/a/../b?c=d", "-X", "POST", "-d", "body")
                self.assertEqual((refused.status, refused.body), (302, b"log in"))
                self.assertEqual(refused.fields["location"], "https://login.test/")
                self.assertEqual(refused.fields["set-cookie"], "a=1, b=2")
                told = service.requests[-1].attributes
                http = told.request.http
                port = proxy.port("secure" if client[1] else "plain")
                self.assertEqual(
                    (http.method, http.path, http.host, http.scheme, http.protocol, http.size),
                    ("POST", "/b?c=d", f"localhost:{port}", "https" if client[1] else "http",
                     "HTTP/2" if client[0] == "http2" else "HTTP/1.1", 4))
                self.assertLess(abs(told.request.time.seconds - time.time()), 600)
                self.assertEqual(told.source.address.socket_address.address, "127.0.0.1")
                self.assertGreater(told.source.address.socket_address.port_value, 0)
                self.assertEqual((told.destination.address.socket_address.address,
                                  told.destination.address.socket_address.port_value), ("127.0.0.1", port))
                self.assertEqual(told.tls_session.sni, "localhost" if client[1] else "")
                served = self.curl(proxy, client, "/", "-H", "X-User: root", "-b", "session=good", "-d", "body")
                self.assertEqual((served.status, served.fields["x-seen"]), (200, "yes"))
                self.assertEqual((served.json()["fields"]["x-user"], served.json()["bytes"]), (["ann"], 4))
                self.assertNotIn("cookie", served.json()["fields"])
        stats = self.expect(proxy, self.COUNTER, allowed=len(KINDS), refused=len(KINDS))
        self.assertEqual(stats.total("http_requests_ended_total", reason="auth_refused"), len(KINDS))

    def test_bytes_that_are_no_text(self):
        """What a client sends must not make the message one that protobuf refuses."""
        service = self.service("CheckRequest", self.decide)
        proxy = self.start(self.guarded(service))
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/", "-H", b"X-Bad: a\xff\xc3(b", "-b", "session=good").status, 200)
            fields = {entry.key: entry.value for entry in service.requests[-1].attributes.request.http.headers}
            self.assertEqual(fields["x-bad"], "a!!(b")

    def test_lies(self):
        """Nobody gets in."""
        lies = list(LIES.items())
        service = self.service("CheckRequest", lambda request: lies[len(service.requests) - 1][1])
        proxy = self.start(self.guarded(service))
        for name, _ in lies:
            with self.subTest(name):
                self.assertEqual(self.curl(proxy, HTTP2, "/").status, 503)
        stats = self.expect(proxy, self.COUNTER, failed=len(lies))
        self.assertEqual(stats.total("http_requests_ended_total", reason="auth_failed"), len(lies))
        self.assertEqual(self.echo.seen, [])

    def test_slow_and_dead(self):
        service = self.service("CheckRequest", lambda request: None)
        proxy = self.start(self.guarded(service, timeout="100ms"))
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/").status, 503)
        self.expect(proxy, self.COUNTER, timeout=2)
        proxy = self.start(self.guarded(f"127.0.0.1:{free_port()}", on_failure="allow"))
        self.assertEqual(self.curl(proxy, HTTP1, "/").status, 200)
        stats = self.expect(proxy, self.COUNTER, failed=1)
        self.assertEqual(stats.total("http_forward_auth_unchecked_total"), 1)

    def test_reload(self):
        """A request whose decision comes after a reload to a configuration without an authorizer."""
        asked, decided = threading.Event(), threading.Event()

        def decide(request):
            asked.set()
            decided.wait(30 * SLOWNESS)
            return self.decide(request)

        proxy = self.start(self.guarded(self.service("CheckRequest", decide), timeout="60s"))
        found = []
        client = threading.Thread(target=lambda: found.append(self.curl(proxy, HTTP2, "/", "-b", "session=good")))
        client.start()
        self.assertTrue(asked.wait(20 * SLOWNESS))
        proxy.reload({**proxy.config, "upstreams": proxy.config["upstreams"][:1],
                      "listeners": [{**each, "http": {"forward": "main"}} for each in proxy.config["listeners"]]})
        decided.set()
        client.join()
        self.assertEqual((found[0].status, found[0].json()["fields"]["x-user"]), (200, ["ann"]))
        self.assertEqual(self.curl(proxy, HTTP2, "/").status, 200)

    @unittest.skipUnless(LONG, "only in the long form")
    def test_grpc_go(self):
        """An authorizer of grpc-go and Envoy's Go API. It says what it was told."""
        server = self.keep(Server([go_program(".", MODULE)], HTTP2))
        proxy = self.start(self.guarded(server))
        for client in KINDS:
            with self.subTest(words(client)):
                refused = self.curl(proxy, client, "/a?b", "-H", b"X-Bad: \xff")
                self.assertEqual((refused.status, refused.fields["x-told"]), (401, "GET /a?b"))
                served = self.curl(proxy, client, "/", "-H", "authorization: Bearer good")
                self.assertEqual((served.status, served.json()["fields"]["x-user"]), (200, ["ann"]))


if __name__ == "__main__":
    main()
