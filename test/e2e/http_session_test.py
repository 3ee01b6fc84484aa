"""HTTP sessions, seen from outside: timeouts, routes, fields, tunnels, and ends of connections, each with its
configuration key."""

import contextlib
import signal
import socket
import ssl
import threading
import time

import harness
import http_wire as wire
from harness import MIB, SLOWNESS
from http_wire import Http1Client, Http2Client, Http2Server
from origins import BlackHole, Origin, connect, outcome, receive_all, refused_address, reset
from tls_support import TlsTest


def http_configuration(endpoints, http=None, upstream=None, listener=None, **top):
    config = harness.configuration(endpoints, upstream=upstream, listener=listener, **top)
    for one in config["listeners"]:
        del one["tcp"]
        one["http"] = {**({} if "routes" in (http or {}) else {"forward": "main"}), **(http or {})}
    return config


def both(test):
    """Runs `test(self, client)` with a function that makes clients of each version."""
    def run(self):
        for name, client in (("HTTP/1.1", Http1Client), ("HTTP/2", Http2Client)):
            with self.subTest(name):
                test(self, client)
    return run


class HttpTest(harness.SluiceTest):

    def http(self, *endpoints, cut_allowed=False, **config):
        return self.start(http_configuration(endpoints, **config), cut_allowed=cut_allowed)

    def server(self, respond=None, **options):
        """A server that echoes the request, unless `respond` is given."""
        return self.keep(wire.Server(respond or self.echo, **options))

    @staticmethod
    def echo(request, connection):
        text = f"{request.method} {request.path}\n" + "".join(f"{name}: {value}\n" for name, value in request.fields)
        connection.reply(request, body=text.encode("latin-1"))

    def client(self, proxy, kind, **options):
        return self.keep(kind(proxy.address(), **options))

    def between(self, low, since, high=3):
        passed = time.monotonic() - since
        self.assertGreaterEqual(passed, low - 0.01)
        self.assertLess(passed, high * SLOWNESS)


class Timeouts(HttpTest):

    @both
    def test_response_timeout(self, kind):
        server = self.server(lambda request, connection: None)
        proxy = self.http(server.address, upstream={"response_timeout": "300ms"})
        start = time.monotonic()
        response = self.client(proxy, kind).get("/")
        self.assertEqual((response.status, bytes(response.body)), (504, b"the upstream did not respond in time\n"))
        self.between(0.3, start)

    def test_body_timeout(self):
        server = self.server(early=lambda request: False)
        proxy = self.http(server.address, http={"body_timeout": "300ms"})
        client = self.client(proxy, Http1Client)
        start = time.monotonic()
        client.send_request(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        self.assertEqual(client.response().status, 408)
        self.between(0.3, start)
        self.assertEqual(client.ending(), "end")
        client = self.client(proxy, Http2Client)
        client.send(wire.request_frame(1, "POST", "/", end=False) + wire.data_frame(1, b"half"))
        self.assertEqual(client.response(1).status, 408)

    def test_header_timeout(self):
        proxy = self.http(self.server().address, http={"header_timeout": "1s"})
        start = time.monotonic()
        client = self.client(proxy, Http1Client)
        client.send("GET / HTTP/1.1\r\nhost")
        self.assertEqual(client.response(6 * SLOWNESS).status, 408)
        self.between(1, start, 4)
        self.assertEqual(client.ending(), "end")

    def test_preface_timeout(self):
        proxy = self.http(self.server().address, http={"http2": {"preface_timeout": "1s"}})
        client = self.client(proxy, Http2Client, greet=False)
        client.send(wire.PREFACE)
        self.assertIn(client.ending(6 * SLOWNESS), ("end", "reset"))

    def test_idle_timeout(self):
        proxy = self.http(self.server().address, http={"idle_timeout": "1s"})
        one, two, silent = self.client(proxy, Http1Client), self.client(proxy, Http2Client), self.client(proxy, Http1Client)
        self.assertEqual((one.get("/").status, two.get("/").status), (200, 200))
        start = time.monotonic()
        self.assertEqual(one.ending(), "end")
        self.assertEqual(two.ending(), "end")
        self.assertEqual(two.reader.goaway[1], "NO_ERROR")
        self.assertIn(silent.ending(), ("end", "reset"))
        self.between(0.5, start, 4)

    @both
    def test_request_timeout(self, kind):
        server = self.server(lambda request, connection: connection.after(5, lambda: self.echo(request, connection)))
        proxy = self.http(server.address, http={"request_timeout": "400ms"})
        start = time.monotonic()
        self.assertEqual(self.client(proxy, kind).get("/").status, 504)
        self.between(0.4, start)

    def test_grpc_timeout(self):
        server = self.server(lambda request, connection: None)
        proxy = self.http(server.address, upstream={"protocol": "http2"})
        response = self.client(proxy, Http2Client).get(
            "/a.b/C", method="POST", fields=[("content-type", "application/grpc"), ("grpc-timeout", "200m")], body=b"")
        self.assertEqual((response.status, response.value("grpc-status"), bytes(response.body)), (200, "4", b""))


class Upstreams(HttpTest):

    @both
    def test_dead_endpoint(self, kind):
        proxy = self.http(refused_address(), refused_address())
        client = self.client(proxy, kind)
        for _ in range(3):
            response = client.get("/")
            self.assertEqual((response.status, bytes(response.body)), (503, b"no endpoint can be reached\n"))
        response = self.client(proxy, kind).get("/", method="HEAD")
        self.assertEqual((response.status, bytes(response.body)), (503, b""))

    def test_one_dead_endpoint(self):
        server = self.server()
        proxy = self.http(refused_address(), server.address)
        client = self.client(proxy, Http1Client)
        for at in range(10):
            self.assertEqual(client.get(f"/{at}").status, 200)

    def test_black_hole(self):
        hole = self.keep(BlackHole())
        proxy = self.http(hole.address, upstream={"connect_timeout": "300ms"})
        start = time.monotonic()
        self.assertEqual(self.client(proxy, Http1Client).get("/").status, 503)
        self.between(0.3, start)

    def test_endpoint_recovers(self):
        server = wire.Server(self.echo)
        address = server.address
        proxy = self.http(address, upstream={"fail_timeout": "200ms"})
        client = self.client(proxy, Http1Client)
        self.assertEqual(client.get("/").status, 200)
        server.close()
        harness.wait_until(lambda: client.get("/").status == 503, 5, "503")
        port = int(address.rsplit(":", 1)[1])
        again = self.keep(Origin(self.respond_ok, address=("127.0.0.1", port)))
        harness.wait_until(lambda: client.get("/").status == 200, 5, "200")
        self.assertGreater(again.count, 0)

    @staticmethod
    def respond_ok(sock):
        while sock.recv(65536):
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    @both
    def test_endpoint_closes_during_response(self, kind):
        def respond(request, connection):
            if request.path == "/before":
                return connection.reset()
            if request.path == "/garbage":
                return connection.send(b"\0\1\2\3 nonsense\r\n\r\n")
            connection.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
            return connection.after(0.05, connection.reset)
        proxy = self.http(self.server(respond).address)
        client = self.client(proxy, kind)
        self.assertEqual(client.get("/before", method="POST").status, 502)
        self.assertEqual(client.get("/garbage").status, 502)
        response = client.get("/within")
        self.assertEqual((response.status, response.complete), (200, False))

    def test_workers_share_nothing(self):
        server = self.server()
        proxy = self.http(server.address, workers=2)
        def use(results):
            with Http1Client(proxy.address()) as client:
                results += [client.get(f"/{at}").status for at in range(50)]
        results = []
        threads = [threading.Thread(target=use, args=(results,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [200] * 400)


class Routes(HttpTest):

    def test_hosts_and_paths(self):
        named = {name: self.server(lambda request, connection, name=name: connection.reply(request, body=name.encode()))
                 for name in ("api", "web", "rest")}
        config = http_configuration([named["rest"].address], http={"routes": [
            {"match": {"host": ["api.test"], "path": {"prefix": "/v1"}}, "forward": "api"},
            {"match": {"host": ["*.web.test", "web.test"]}, "forward": "web"},
            {"match": {"path": {"exact": "/health"}}, "respond": {"status": 200, "body": "fine\n"}},
            {"match": {"path": {"exact": "/gone"}},
             "respond": {"status": 410, "body": "{}", "content_type": "application/json"}},
            {"match": {"path": {"prefix": "/rest/"}}, "forward": "main"}]})
        config["upstreams"] += [{"name": name, "endpoints": [named[name].address]} for name in ("api", "web")]
        proxy = self.start(config)
        cases = [("api.test", "/v1", 200, b"api"), ("API.test:8080", "/v1/x?y", 200, b"api"), ("api.test", "/v10", 404, None),
                 ("api.test", "/x/../v1/", 200, b"api"), ("web.test", "/", 200, b"web"), ("a.web.test", "/v1", 200, b"web"),
                 ("xweb.test", "/", 404, None), ("b.test", "/health", 200, b"fine\n"), ("b.test", "/health/", 404, None),
                 ("b.test", "/gone", 410, b"{}"), ("b.test", "/rest/1", 200, b"rest"), ("b.test", "/rest", 404, None),
                 ("b.test", "/a%2fb", 400, None), ("b.test", "/../rest/", 400, None)]
        one, two = self.client(proxy, Http1Client), self.client(proxy, Http2Client)
        for host, path, status, body in cases:
            with self.subTest(f"{host} {path}"):
                one.send_request(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
                for response in (one.response(), two.get(path, authority=host)):
                    self.assertEqual(response.status, status)
                    if body is not None:
                        self.assertEqual(bytes(response.body), body)
        self.assertEqual(two.get("/gone", authority="b.test").value("content-type"), "application/json")

    @both
    def test_respond(self, kind):
        body = "x" * 200_000
        proxy = self.start(http_configuration([refused_address()], http={"routes": [
            {"match": {"path": {"exact": "/204"}}, "respond": {"status": 204}},
            {"respond": {"status": 503, "body": body}}]}))
        client = self.client(proxy, kind)
        response = client.get("/", method="POST", body=b"y" * 100_000)
        self.assertEqual((response.status, response.body), (503, body.encode()))
        if kind is Http2Client:
            response = client.get("/204")
            self.assertEqual((response.status, bytes(response.body)), (204, b""))


class Fields(HttpTest):

    def seen(self, client, **options):
        """The fields that the upstream saw."""
        response = client.get("/", **options)
        self.assertEqual(response.status, 200)
        lines = bytes(response.body).decode("latin-1").splitlines()[1:]
        return [tuple(line.split(": ", 1)) for line in lines], response

    def test_forwarded(self):
        server = self.server()
        cases = [({}, "1.2.3.4, 127.0.0.1", "http"), ({"forwarded_for": "replace"}, "127.0.0.1", "http"),
                 ({"forwarded_for": "off"}, "1.2.3.4", "gopher")]
        for http, expected, proto in cases:
            proxy = self.http(server.address, http=http)
            fields, _ = self.seen(self.client(proxy, Http1Client),
                                  fields="X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: gopher\r\n")
            two, _ = self.seen(self.client(proxy, Http2Client),
                               fields=[("x-forwarded-for", "1.2.3.4"), ("x-forwarded-proto", "gopher")])
            for found in (dict(fields), dict(two)):
                self.assertEqual((found["x-forwarded-for"], found["x-forwarded-proto"]), (expected, proto))

    def test_via(self):
        server = self.server()
        proxy = self.http(server.address, http={"via": "edge-7"})
        fields, response = self.seen(self.client(proxy, Http1Client), fields="Via: 1.0 fred\r\n")
        self.assertEqual([value for name, value in fields if name == "via"], ["1.0 fred", "1.1 edge-7"])
        self.assertEqual(response.values("via"), ["1.1 edge-7"])
        fields, response = self.seen(self.client(proxy, Http2Client))
        self.assertEqual([value for name, value in fields if name == "via"], ["2 edge-7"])
        proxy = self.http(server.address, http={"via": ""}, upstream={"protocol": "http2"})
        fields, response = self.seen(self.client(proxy, Http1Client))
        self.assertEqual([value for name, value in fields if name == "via"] + response.values("via"), [])

    def test_client_behind_another_proxy(self):
        server = self.server()
        proxy = self.http(server.address, listener={"proxy_protocol": {"accept": "required"}})
        client = self.client(proxy, Http1Client)
        client.send("PROXY TCP4 203.0.113.7 192.0.2.1 5555 80\r\n")
        fields, _ = self.seen(client)
        self.assertEqual(dict(fields)["x-forwarded-for"], "203.0.113.7")


class Tunnels(HttpTest):

    def test_connect_is_off_by_default(self):
        proxy = self.http(self.server().address)
        client = self.client(proxy, Http1Client)
        client.send_request("CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n", ["CONNECT"])
        self.assertEqual(client.response().status, 501)
        client = self.client(proxy, Http2Client)
        client.send(wire.headers_frame(1, [(":method", "CONNECT"), (":authority", "a.test:443")]))
        self.assertEqual(client.response(1).status, 501)

    def test_connect(self):
        def tunnel(sock):
            head = b""
            while b"\r\n\r\n" not in head:
                head += sock.recv(1000)
            if not head.startswith(b"CONNECT a.test:443 HTTP/1.1\r\n"):
                raise AssertionError(head)
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                data = sock.recv(1 << 16)
                if not data:
                    return sock.shutdown(socket.SHUT_WR)
                sock.sendall(data.upper())
        origin = self.keep(Origin(tunnel))
        proxy = self.http(origin.address, http={"allow_connect": True})
        client = self.client(proxy, Http1Client)
        client.send_request("CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n", ["CONNECT"])
        self.assertEqual(client.response().status, 200)
        client.send("hello")
        client.wait(lambda: client.reader.tunnel == b"HELLO")
        self.assertEqual(client.reader.tunnel, b"HELLO")
        client.sock.shutdown(socket.SHUT_WR)
        self.assertEqual(client.ending(), "end")
        client = self.client(proxy, Http2Client)
        client.send(wire.headers_frame(1, [(":method", "CONNECT"), (":authority", "a.test:443")]))
        client.wait(lambda: 1 in client.reader.streams)
        client.send(wire.data_frame(1, b"hello") + wire.data_frame(1, b" you", True))
        response = client.response(1)
        self.assertEqual((response.status, bytes(response.body), response.complete), (200, b"HELLO YOU", True))


class Ends(HttpTest):

    def draining(self, proxy):
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("draining")

    def test_drain_lets_requests_complete(self):
        held = []
        server = self.server(lambda request, connection: held.append((request, connection)))
        proxy = self.http(server.address, shutdown_timeout="20s")
        idle, one, two = (self.client(proxy, kind) for kind in (Http1Client, Http1Client, Http2Client))
        idle_two = self.client(proxy, Http2Client)
        one.send_request(b"GET /one HTTP/1.1\r\nhost: a\r\n\r\n")
        stream = two.send_request("/two")
        harness.wait_until(lambda: len(held) == 2, what="both requests")
        self.draining(proxy)
        self.assertEqual(idle.ending(), "end")
        self.assertEqual(idle_two.ending(), "end")
        self.assertEqual(idle_two.reader.goaway[:2], (0, "NO_ERROR"))
        two.wait(lambda: two.reader.goaway, 5)
        with self.assertRaises((ConnectionRefusedError, ConnectionResetError)):
            with connect(proxy.address(), timeout=2) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                if not sock.recv(1):
                    raise ConnectionResetError
        body = b"z" * MIB
        server.call(lambda: [connection.reply(request, body=body) for request, connection in held])
        response = one.response()
        self.assertTrue(response.complete and not response.persistent)
        self.assertEqual(response.body, body)
        self.assertEqual(one.ending(), "end")
        response = two.response(stream)
        self.assertEqual((response.complete, response.body), (True, body))
        self.assertEqual(two.ending(), "end")
        self.assertEqual(two.reader.goaway[1], "NO_ERROR")
        one.close()
        two.close()
        start = time.monotonic()
        self.stop(proxy)
        self.assert_within(start, 4 * SLOWNESS)

    def test_shutdown_timeout(self):
        server = self.server(lambda request, connection: None)
        proxy = self.http(server.address, cut_allowed=True, shutdown_timeout="500ms")
        one, two = self.client(proxy, Http1Client), self.client(proxy, Http2Client)
        one.send_request(b"GET /one HTTP/1.1\r\nhost: a\r\n\r\n")
        two.send_request("/two")
        harness.wait_until(lambda: sum(len(connection.messages()) for connection in server.connections) == 2)
        self.draining(proxy)
        # A response to data that was sent meanwhile may meet the reset.
        self.assertIn(one.ending(), ("end", "reset"))
        self.assertIn(two.ending(), ("end", "reset"))
        self.assertIsNone(one.response())
        self.assertEqual(self.stop(proxy, cut_allowed=True).ended("shutdown"), 2)

    def last_responses(self, then):
        """Clients read the last response of their connections up to different positions, then `then(sock)` is called,
        then the rest is read. At one of the positions the proxy has just queued its last bytes."""
        body = bytes(range(256)) * (5 * MIB // 256)
        server = self.server(lambda request, connection: connection.reply(request, body=body))
        proxy = self.http(server.address)
        found = {}

        def read(quickly):
            received = bytearray()
            with connect(proxy.address(), receive_buffer=4096) as sock, contextlib.suppress(ConnectionResetError):
                sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                while len(received) < quickly:
                    received += sock.recv(16384)
                received += then(sock)
                while data := sock.recv(65536):
                    received += data
            found[quickly] = bytes(received).partition(b"\r\n\r\n")[2]
        readers = [threading.Thread(target=read, args=(at * MIB // 8,)) for at in range(4, 36, 2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual({at: len(part) for at, part in found.items() if part != body}, {}, f"of {len(body)} bytes")
        self.assertEqual(len(found), len(readers))

    def test_slow_client_gets_all_of_the_last_response(self):
        """Data that is queued when the connection is over is still sent, as slowly as the client reads it."""
        def slowly(sock):
            received = b""
            for _ in range(50):
                received += sock.recv(2048)
                time.sleep(0.1)
            return received
        self.last_responses(slowly)

    def test_client_that_ends_its_side_gets_all(self):
        def end(sock):
            time.sleep(0.2)
            sock.shutdown(socket.SHUT_WR)
            time.sleep(0.2)
            return b""
        self.last_responses(end)


class Tls(TlsTest):

    def http(self, endpoint, upstream=None, http=None, alpn=("h2", "http/1.1")):
        return self.start(http_configuration(
            [endpoint], http=http, upstream=upstream,
            listener={"tls": {"certificates": [self.server], "alpn": list(alpn)}}))

    def peer(self, proxy, kind, alpn):
        sock = self.secure(proxy.address(), self.context(alpn=alpn))
        peer = kind.__new__(kind)
        wire.Peer.__init__(peer, sock, wire.Http1Reader(False) if kind is Http1Client else wire.Http2Reader(False))
        peer._taken, peer._next = 0, 1
        if kind is Http2Client:
            peer.send(wire.PREFACE + wire.settings_frame())
        return self.keep(peer)

    def test_versions_by_alpn(self):
        server = self.keep(wire.Server(HttpTest.echo))
        proxy = self.http(server.address)
        for kind, alpn, agreed in ((Http1Client, ["http/1.1"], "http/1.1"), (Http2Client, ["h2", "http/1.1"], "h2"),
                                   (Http1Client, [], None), (Http2Client, [], None)):
            peer = self.peer(proxy, kind, alpn)
            self.assertEqual(peer.sock.selected_alpn_protocol(), agreed)
            response = peer.get("/x")
            self.assertEqual(response.status, 200)
            self.assertIn(b"x-forwarded-proto: https\n", bytes(response.body))

    def test_upstreams(self):
        """Both versions over TLS, chosen by the upstream's protocol."""
        for protocol, alpn in (("http1", "http/1.1"), ("http2", "h2")):
            seen = []
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.server["chain"], self.server["key"])
            context.set_alpn_protocols(["h2", "http/1.1"])

            def serve(sock):
                with context.wrap_socket(sock, server_side=True) as secure:
                    seen.append(secure.selected_alpn_protocol())
                    if protocol == "http2":
                        peer = Http2Server(secure)
                        while request := peer.head():
                            peer.respond(request.stream, body=b"secret")
                    else:
                        while secure.recv(65536):
                            secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")
            origin = self.keep(Origin(serve))
            proxy = self.start(http_configuration([origin.address], upstream={
                "protocol": protocol, "tls": {"ca": self.ca, "server_name": "localhost"}}))
            with Http1Client(proxy.address()) as client:
                for _ in range(3):
                    self.assertEqual(bytes(client.get("/").body), b"secret")
            self.assertEqual(origin.count, 1)
            self.assertIn(seen, ([alpn], [None] if protocol == "http1" else [alpn]))

    def until_close(self, honest):
        """An upstream whose response ends with its connection, with or without close_notify."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])

        def handler(sock):
            plain = socket.socket(fileno=sock.detach())
            secure = context.wrap_socket(plain, server_side=True)
            secure.recv(65536)
            secure.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000)
            if honest:
                with contextlib.suppress(OSError, ValueError):
                    secure.unwrap()
            else:
                raw = socket.socket(fileno=secure.detach())
                raw.shutdown(socket.SHUT_WR)
                time.sleep(0.2)
                raw.close()
        return self.keep(Origin(handler))

    def test_cut_response_does_not_look_complete(self):
        """RFC 9112 section 9.8: an end without close_notify may be forged."""
        for honest in (True, False):
            origin = self.until_close(honest)
            proxy = self.start(http_configuration([origin.address], upstream={
                "protocol": "http1", "tls": {"ca": self.ca, "server_name": "localhost"}}))
            with self.subTest(f"honest: {honest}"):
                with Http1Client(proxy.address()) as client:
                    response = client.get("/")
                    self.assertEqual(bool(response and response.complete), honest)
                    # Without its last chunk, a response is visibly incomplete.
                    self.assertEqual(client.ending(1), "silence" if honest else "end")
                with Http2Client(proxy.address()) as client:
                    response = client.get("/")
                    self.assertEqual((response.status, response.complete), (200, honest))
                with connect(proxy.address()) as sock:
                    sock.sendall(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
                    how = b""
                    while isinstance(how, bytes):
                        how = outcome(sock)
                    self.assertEqual(how, "end" if honest else "reset")

    def test_client_that_cuts_its_upload(self):
        """An incomplete body of known length never looks complete to the upstream."""
        server = self.keep(wire.Server(HttpTest.echo))
        proxy = self.http(server.address)
        peer = self.peer(proxy, Http1Client, ["http/1.1"])
        peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        harness.wait_until(lambda: server.count == 1)
        reset(peer.sock)
        harness.wait_until(lambda: all(connection.closed for connection in server.connections), 5)
        for connection in server.connections:
            for message in connection.messages():
                self.assertFalse(message.complete)


if __name__ == "__main__":
    harness.main()
