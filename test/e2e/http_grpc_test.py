"""gRPC by grpc-go on both sides: its interoperability test, many simultaneous calls, long calls, and failing calls."""

import json
import subprocess
import time

import harness
from harness import LONG, SLOWNESS
from http_peers_support import HttpTest, Server, go_options, go_program, words
from origins import Origin, reset

PLAIN, TLS = ("http2", False), ("http2", True)
PAIRS = ((PLAIN, PLAIN), (TLS, PLAIN), (PLAIN, TLS), (TLS, TLS))

# All cases of https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md that grpc-go's client runs
# without Google accounts.
PUBLISHED = ("empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
             "timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
             "status_code_and_message", "special_status_message", "custom_metadata", "unimplemented_method",
             "unimplemented_service", "orca_per_rpc", "rpc_soak")
DEADLINE_EXCEEDED, UNIMPLEMENTED, UNAVAILABLE = "4", "12", "14"


class GrpcTest(HttpTest):

    def grpc_server(self, kind, **options):
        tls = {"certificate": self.server["chain"], "key": self.server["key"]} if kind[1] else {}
        return self.keep(Server([go_program("./grpc"), "server", *go_options(**tls, **options)], kind))

    def begin(self, where, kind, *cases, **options):
        """A client that runs its cases."""
        address = where.address if isinstance(where, Server) else where.addresses["secure" if kind[1] else "plain"]
        tls = {"ca": self.ca} if kind[1] else {}
        options = {"target": address, "case": ",".join(cases), "seconds": 60 * SLOWNESS, **tls, **options}
        client = harness.spawn([go_program("./grpc"), "client", *go_options(**options)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(harness.end, client)
        return client

    def ended(self, client):
        """The lines that it printed. Fails if the client failed."""
        try:
            out, error = client.communicate(timeout=120 * SLOWNESS)
        except subprocess.TimeoutExpired:
            raise AssertionError("the grpc-go client does not end") from None
        if client.returncode:
            raise AssertionError(f"passed: {out.split()}\n{error[-3000:]}")
        return out.splitlines()

    def run_cases(self, where, kind, *cases, **options):
        lines = self.ended(self.begin(where, kind, *cases, **options))
        self.assertEqual([line for line in lines if line in cases], list(cases))
        return lines

    def status(self, where, kind, case="status"):
        return json.loads(self.run_cases(where, kind, case)[-2])


class Cases(GrpcTest):

    def test_peers_alone(self):
        for kind in (PLAIN, TLS):
            self.run_cases(self.grpc_server(kind), kind, *PUBLISHED, "huge", "streams", "crowd", "status", count=200)

    def test_huge_message(self):
        for client, server in PAIRS:
            proxy = self.through(self.grpc_server(server))
            with self.subTest(f"{words(client)} -> {words(server)}"):
                self.run_cases(proxy, client, "huge")

    def test_small_messages(self):
        """Defect: after some 110,000 messages of less than 64 bytes the connection ended with ENHANCE_YOUR_CALM, that of
        the client or that of the endpoint."""
        proxy = self.through(self.grpc_server(PLAIN))
        self.run_cases(proxy, PLAIN, "small", count=200_000)

    def test_streams(self):
        """1,000 streams that are open at once, on one connection on either side."""
        for client, server in PAIRS:
            proxy = self.through(self.grpc_server(server), http={"http2": {"max_streams": 1000}},
                                 pool={"max_streams": 1000})
            with self.subTest(f"{words(client)} -> {words(server)}"):
                self.run_cases(proxy, client, "streams", count=1000)

    def test_more_calls_than_streams(self):
        for client, server in PAIRS:
            proxy = self.through(self.grpc_server(server), http={"http2": {"max_streams": 100}},
                                 pool={"max_streams": 7})
            with self.subTest(f"{words(client)} -> {words(server)}"):
                self.run_cases(proxy, client, "crowd", count=20_000 if LONG else 1000)

    def test_published(self):
        """Meanwhile, streams are quiet for half a minute, with keepalive pings of clients. The proxy does not forward
        the pings: the server's limit on pings would end the connection."""
        quiet, idle = 130 if LONG else 30, []
        for client, server in PAIRS:
            proxy = self.through(self.grpc_server(server))
            idle.append(self.begin(proxy, client, "idle", quiet=f"{quiet}s", seconds=quiet + 60 * SLOWNESS))
        for client, server in PAIRS:
            proxy = self.through(self.grpc_server(server))
            for case in PUBLISHED:
                with self.subTest(f"{case}: {words(client)} -> {words(server)}"):
                    self.run_cases(proxy, client, case, count=1000 if LONG else 100)
        for client in idle:
            self.assertEqual(self.ended(client), ["idle"])


class OrderlyEnds(GrpcTest):
    """Connections that end in order during calls: no call fails, although grpc-go must not retry."""

    def check(self, age=None, **options):
        for client, server in PAIRS:
            with self.subTest(f"{words(client)} -> {words(server)}"):
                origin = self.grpc_server(server, **({"max_age": age} if age else {}))
                self.run_cases(self.through(origin, **options), client, "steady", length="60s" if LONG else "1s",
                               seconds=100 * SLOWNESS)

    def test_goaway_of_server(self):
        self.check(age="200ms")

    def test_goaway_to_server(self):
        self.check(pool={"max_requests": 50})

    def test_goaway_to_client(self):
        self.check(http={"http2": {"max_requests": 200}})


class Ends(GrpcTest):
    """How calls end that the proxy ends."""

    def raw(self, proxy, client, path, timeout=None, **options):
        """A request by Go's HTTP client, which does not enforce gRPC deadlines itself."""
        headers = ["Content-Type: application/grpc+proto", "Te: trailers"]
        if timeout:
            headers.append(f"Grpc-Timeout: {timeout}")
        return self.go_client(proxy, client, path, headers, method="POST", **options)

    def grpc_status(self, response):
        self.assertEqual((response["Status"], response["Header"].get("Content-Type", ["none"])[0][:16]),
                         (200, "application/grpc"))
        return {**response["Header"], **(response["Trailer"] or {})}.get("Grpc-Status", ["none"])[0]

    def test_no_route(self):
        routes = [{"match": {"path": {"prefix": "/grpc.testing.TestService/"}}, "forward": "main"}]
        proxy = self.through(self.grpc_server(PLAIN), http={"routes": routes})
        for client in (PLAIN, TLS):
            with self.subTest(words(client)):
                self.assertEqual(self.status(proxy, client)["Code"], "OK")
                self.run_cases(proxy, client, "unimplemented_service")
                self.assertEqual(self.grpc_status(self.raw(proxy, client, "/some.Service/Call")), UNIMPLEMENTED)

    def test_no_server(self):
        proxy = self.through("127.0.0.1:1", kind=PLAIN)
        for client in (PLAIN, TLS):
            with self.subTest(words(client)):
                self.assertEqual(self.status(proxy, client)["Code"], "Unavailable")
                self.assertEqual(self.grpc_status(self.raw(proxy, client, "/some.Service/Call")), UNAVAILABLE)

    def test_wrong_server(self):
        """A server that closes the connection, and one that does not speak HTTP/2."""
        for name, handler in (("reset", reset), ("end", lambda sock: None),
                              ("noise", lambda sock: sock.sendall(b"220 mail.example.com ESMTP\r\n"))):
            proxy = self.through(self.keep(Origin(handler)).address, kind=PLAIN)
            for client in (PLAIN, TLS):
                with self.subTest(f"{name}: {words(client)}"):
                    self.assertEqual(self.status(proxy, client)["Code"], "Unavailable")

    def test_deadline(self):
        """The call ends at the client's deadline, on both sides."""
        for server in (PLAIN, TLS):
            origin = self.web_server(server)
            proxy = self.through(origin)
            for client in (PLAIN, TLS):
                for timeout, millis in (("300m", 300), ("700000u", 700), ("1S", 1000)):
                    with self.subTest(f"{timeout}: {words(client)} -> {words(server)}"):
                        path = f"/sleep?ms=20000&{client[1]}-{timeout}"
                        response = self.raw(proxy, client, path, timeout)
                        self.assertEqual(self.grpc_status(response), DEADLINE_EXCEEDED)
                        self.assertGreaterEqual(response["Millis"], millis - 20)
                        self.assertLess(response["Millis"], millis + 1500 * SLOWNESS)
                        self.assertEqual(origin.report(), {"GaveUp": path})

    def test_distant_deadline(self):
        """A call that ends before its deadline is not affected."""
        proxy = self.through(self.web_server(PLAIN))
        for timeout in ("20S", "1H", "99999999H", "99999999n"):
            response = self.raw(proxy, PLAIN, "/sleep?ms=50", timeout) if timeout[-1] != "n" else self.raw(
                proxy, PLAIN, "/sleep?ms=20", timeout)
            self.assertEqual((response["Status"], response["Body"]), (200, "slept"), timeout)

    def test_server_dies(self):
        for client, server in PAIRS:
            with self.subTest(f"{words(client)} -> {words(server)}"):
                origin = self.grpc_server(server)
                proxy = self.through(origin)
                call = self.begin(proxy, client, "slow")
                self.assertEqual(call.stdout.readline(), "open\n")
                start = time.monotonic()
                origin.close()
                seen = json.loads(self.ended(call)[0])
                self.assertIn(seen["Code"], ("Unavailable", "Internal"), seen)
                self.assert_within(start, 5 * SLOWNESS)
                self.assertEqual(self.status(proxy, client)["Code"], "Unavailable")

    def test_unavailable_is_retried(self):
        """If the route says so. grpc-go sends such a status in a response that consists of trailers only."""
        for on, code in ((["grpc_unavailable"], "OK"), (["grpc_resource_exhausted", "5xx"], "Unavailable")):
            for client, server in PAIRS:
                with self.subTest(f"{on}: {words(client)} -> {words(server)}"):
                    routes = [{"forward": "main", "retry": {"on": on, "attempts": 3, "backoff": 0, "max_backoff": 0}}]
                    proxy = self.through(self.grpc_server(server, failing=2), http={"routes": routes})
                    self.assertEqual(self.status(proxy, client)["Code"], code)
                    retries = 2 if code == "OK" else 0
                    self.assertEqual(self.stop(proxy).total("upstream_retries_total"), retries)

    def test_server_recovers(self):
        first = self.grpc_server(PLAIN)
        proxy = self.through(first, fail_timeout="100ms")
        self.assertEqual(self.status(proxy, PLAIN)["Code"], "OK")
        first.close()
        self.assertEqual(self.status(proxy, PLAIN)["Code"], "Unavailable")
        self.grpc_server(PLAIN, listen=first.address)
        harness.wait_until(lambda: self.status(proxy, PLAIN)["Code"] == "OK", 5, "the server to be found again")


if __name__ == "__main__":
    harness.main()
