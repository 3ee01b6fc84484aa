"""Websockets with third-party programs on both sides: Node with the package `ws`, over HTTP/1.1 and over HTTP/2 (RFC
8441), and Go's coder/websocket. What they do not report, the fields of the handshakes and how a connection ended, is
tested with raw sockets."""

import base64
import hashlib
import json
import os
import signal

import harness
import http_wire as wire
from harness import KIB, LONG, MIB, SLOWNESS
from http_peers_support import KINDS, HttpTest, node_script, words
from http_wire import Http1Client, Http1Reader, Http2Client, Http2Server, Peer
from origins import Origin
from tls_support import Process

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS

# What each side must be able to do, by the names of client.mjs.
PEER_CASES = ("sizes", "fragments", "fragments_back", "pings", "client_closes", "server_closes", "server_breaks_off",
              "protocols", "compressed", "forbidden", "flood")
# The cases among them for which an echo server is enough.
ECHO_CASES = ("sizes", "fragments", "client_closes", "compressed")


class WebsocketTest(HttpTest):

    def run_of(self, where, kind, *cases):
        """client.mjs with these cases, as arguments."""
        url = self.url(where, kind, "").replace("localhost", "127.0.0.1")
        return [*node_script("client.mjs"), kind[0], url, self.ca if kind[1] else "-", *cases]

    def pass_cases(self, where, kind, *cases, **options):
        """Runs the cases, each of which must pass."""
        output = self.call(*self.run_of(where, kind, *cases), env={**os.environ, "OPTIONS": json.dumps(options)}).stdout
        self.assertEqual(output.decode().split(), list(cases))

    def begin(self, where, kind, case, **options):
        """The same with one case that waits during the test until it is continued with continue_clients()."""
        return self.keep(Process(["env", f"OPTIONS={json.dumps(options)}", *self.run_of(where, kind, case)]))

    def begin_all(self, proxies, case, **options):
        """One of each kind of client with each proxy."""
        return [self.begin(proxy, kind, case, **options) for proxy in proxies for kind in (HTTP1, HTTP2)]

    @staticmethod
    def wait_all(clients, text):
        for client in clients:
            client.wait_for(text.encode() + b"\n", 30)

    @staticmethod
    def continue_clients(clients):
        for client in clients:
            client.write(b"go on\n")

    def servers(self):
        """One server with HTTP/1.1 and one with HTTP/2."""
        return [self.web_server(kind, node=True) for kind in (HTTP1, HTTP2)]

    def proxies(self, http=None, **options):
        """One proxy in front of each kind of server."""
        return [self.through(server, http=http, **options) for server in self.servers()]

    def check_cases(self, where, client, server, cases=PEER_CASES):
        offered = "permessage-deflate" if client[0] == server[0] == "http1" else ""
        self.pass_cases(where, client, *cases, count=5000 if LONG else 1000, extensions=offered)


class Interoperability(WebsocketTest):

    def test_peers_alone(self):
        """The programs without the proxy, so that a failure of theirs is not blamed on it."""
        for kind in (HTTP1, HTTP2):
            with self.subTest(words(kind)):
                self.check_cases(self.web_server(kind, node=True), kind, kind)

    def test_node(self):
        """Sizes, fragments, pings and closes from either end, negotiated options, and refusals."""
        for server in KINDS if LONG else (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server, node=True))
            for client in KINDS if LONG else (HTTP1, HTTP2, HTTP1_TLS if server == HTTP2 else HTTP2_TLS):
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    self.check_cases(proxy, client, server)
            stats = self.stop(proxy)
            self.assertGreater(stats.total("http_tunnels_total"), 0)
            self.assertEqual(stats.total("http_requests_ended_total"), stats.total("http_requests_total"))

    def test_go(self):
        for server in (HTTP1, HTTP1_TLS) if LONG else (HTTP1,):
            proxy = self.through(self.web_server(server))
            for client in (HTTP1, HTTP2):
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    self.check_cases(proxy, client, server, ECHO_CASES)

    def test_switched_off(self):
        for proxy in self.proxies(http={"websocket": False}):
            for client in (HTTP1, HTTP2):
                with self.subTest(words(client)):
                    self.pass_cases(proxy, client, "refused", status=501)
            stats = self.stop(proxy)
            self.assertEqual(stats.total("http_requests_ended_total", reason="not_allowed"), 2)
            self.assertEqual((stats.total("upstream_requests_total"), stats.total("http_tunnels_total")), (0, 0))


class Ends(WebsocketTest):

    def test_client_closes(self):
        """The server sees the end."""
        for server in self.servers():
            proxy = self.through(server)
            for client in (HTTP1, HTTP2):
                with self.subTest(f"{words(client)} -> {words(server.kind)}"):
                    self.pass_cases(proxy, client, "client_breaks_off")
                    for _ in range(3):
                        self.assertEqual(server.report(), {"Path": "/websocket", "Code": 1006, "Reason": ""})

    def outcomes_when_dies(self, server):
        """How a client of HTTP/1.1 and one of HTTP/2 see the end of a server that dies during a tunnel."""
        proxy = self.through(server)
        with Http1Client(proxy.address("plain")) as one, Http2Client(proxy.address("plain")) as two:
            one.send_request(upgrade_of("/destroy"))
            two.send(wire.headers_frame(1, connect_fields("/destroy")))
            self.assertEqual(one.response().status, 101)
            self.assertTrue(two.wait(lambda: 1 in two.reader.streams))
            if server.kind == HTTP1:
                message = b"\x81\x83\0\0\0\0now"
                one.send(message)
                two.send(wire.data_frame(1, message))
            else:
                server.close()
            how = one.ending(), two.response(1).failure
            two.send(wire.request_frame(3, "GET", "/small"))  # Its connection continues.
            self.assertEqual(two.response(3).status, 200 if server.kind == HTTP1 else 503)
        return how

    def test_http2_server_dies(self):
        """For a client of HTTP/2 it is a reset of the stream."""
        self.assertIn(self.outcomes_when_dies(self.web_server(HTTP2, node=True))[1], wire.ERRORS)

    def test_http2_server_dies_with_http1_client(self):
        """Defect: the client's half of a tunnel that was reset got an orderly end before the reset."""
        self.assertEqual(self.outcomes_when_dies(self.web_server(HTTP2, node=True))[0], "reset")

    def test_http1_server_dies(self):
        """Defect: a reset of the server's connection counted as the orderly end of its half of a tunnel."""
        one, two = self.outcomes_when_dies(self.web_server(HTTP1, node=True))
        self.assertEqual((one, two in wire.ERRORS), ("reset", True))

    def test_idle_tunnels(self):
        """tunnel_timeout ends an idle tunnel; pings count as activity."""
        proxies = self.proxies(http={"tunnel_timeout": f"{SLOWNESS}s"})
        self.wait_all(self.begin_all(proxies, "kept_by_pings", quiet=100), "kept_by_pings")
        for proxy in proxies:
            stats = self.stop(proxy)
            self.assertEqual((stats.total("http_requests_ended_total", reason="idle_timeout"),
                              stats.total("http_requests_ended_total", reason="ok")), (2, 2))

    def test_drain(self):
        """While the proxy drains, tunnels continue. The proxy ends with the last of them, long before
        shutdown_timeout."""
        proxies = self.proxies(top={"shutdown_timeout": "120s"})
        clients = self.begin_all(proxies, "held")
        self.wait_all(clients, "open")
        for proxy in proxies:
            proxy.signal(signal.SIGTERM)
            proxy.wait_for_output("draining")
        self.continue_clients(clients)
        self.wait_all(clients, "works")
        for proxy in proxies:
            self.assertIsNone(proxy.process.poll())
        self.continue_clients(clients)
        self.wait_all(clients, "ended with 1000")
        for proxy in proxies:
            proxy.process.wait(30 * SLOWNESS)
            self.assertEqual(self.stop(proxy).total("http_requests_ended_total", reason="ok"), 2)

    def test_upgrade(self):
        """Websockets to servers of HTTP/1.1 continue in the process that replaces their own."""
        for kind in (HTTP1, HTTP1_TLS):
            with self.subTest(server=kind):
                proxy = self.through(self.web_server(kind, node=True))
                clients = [self.begin(proxy, kind, "held") for kind in KINDS]
                self.wait_all(clients, "open")
                self.assertIn("4 connections moved, 0 still", proxy.upgrade())
                self.continue_clients(clients)
                self.wait_all(clients, "works")
                self.assertIn("4 connections moved, 0 still", proxy.upgrade())
                self.continue_clients(clients)
                self.wait_all(clients, "ended with 1000")
                proxy.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_upgrades_under_load(self):
        """No message is lost, repeated or changed while the connections move."""
        proxy = self.through(self.web_server(HTTP1, node=True))
        clients = [self.begin(proxy, kind, "flood", count=100_000 if LONG else 20_000) for kind in KINDS]
        upgrades = 0
        while any(client.child.poll() is None for client in clients):
            proxy.upgrade()
            upgrades += 1
        self.assertEqual([client.output for client in clients], [b"flood\n"] * 4)
        harness.print_note(f"{upgrades} upgrades")
        self.assertGreater(upgrades, 2)

    def test_upgrade_with_slow_peers(self):
        """Data that waits for a reader moves, too, in either direction."""
        for case, text in (("slow_client", "paused"), ("slow_server", "sent")):
            with self.subTest(case):
                proxy = self.through(self.web_server(HTTP1, node=True))
                clients = [self.begin(proxy, kind, case, count=5000 if case == "slow_client" else 8) for kind in KINDS]
                self.wait_all(clients, text)
                for _ in range(2):
                    proxy.upgrade()
                self.continue_clients(clients)
                self.wait_all(clients, case)

    def test_shutdown_timeout(self):
        proxies = self.proxies(top={"shutdown_timeout": "300ms"}, cut_allowed=True)
        clients = self.begin_all(proxies, "held")
        self.wait_all(clients, "open")
        self.continue_clients(clients)
        self.wait_all(clients, "works")
        for proxy in proxies:
            proxy.signal(signal.SIGTERM)
        self.wait_all(clients, "ended with 1006")
        for proxy in proxies:
            stats = self.stop(proxy, cut_allowed=True)
            self.assertEqual(stats.total("http_requests_ended_total", reason="shutdown"), 2)


class SlowPeers(WebsocketTest):

    def test_idle(self):
        """Idle websockets stay open longer than idle_timeout and stream_idle_timeout, and hold no bytes."""
        count, quiet = (1000, 15_000) if LONG else (200, 2500)
        # For HTTP/2 the proxy allows 100 streams on a connection.
        proxies = self.proxies(http={"idle_timeout": "1s", "stream_idle_timeout": "1s"}, pool={"idle_timeout": "1s"})
        clients = self.begin_all(proxies, "idle", count=count, quiet=quiet)
        self.wait_all(clients, "open")
        for proxy in proxies:
            # No bytes; streams of HTTP/2 have their state in chunks.
            stats = proxy.wait_for(lambda stats: stats.total("pool_pinned_bytes") < 2 * count * KIB, what="bytes to go")
            self.assertEqual((stats.total("http_requests_active"), stats.total("http_tunnels_total")),
                             (2 * count, 2 * count))
        self.wait_all(clients, "idle")
        for proxy in proxies:
            self.assertEqual(self.stop(proxy).total("http_requests_ended_total", reason="ok"), 2 * count)

    def check_slow(self, case, text, counter, count):
        """A client of each kind sends or receives 32 MiB that the receiver does not read."""
        proxies = self.proxies()
        clients = self.begin_all(proxies, case, count=count)
        self.wait_all(clients, text)
        for proxy in proxies:
            seen = []

            def stands_still(stats, seen=seen):
                seen.append(stats.total(counter))
                return seen[-1] > 0 and len(seen) > 3 and len(set(seen[-4:])) == 1
            stats = proxy.wait_for(stands_still, 30, "the sender to be stopped")
            self.assertLess(stats.total(counter), 2 * 16 * MIB)
            self.assertLess(stats.total("pool_pinned_bytes"), 2 * 2 * MIB)
        self.continue_clients(clients)
        self.wait_all(clients, case)
        for proxy in proxies:
            self.assertGreater(self.stop(proxy).total(counter), 2 * 30 * MIB)

    def test_slow_client(self):
        self.check_slow("slow_client", "paused", "endpoint_received_bytes_total", count=14_000)  # 2.5 kB each.

    def test_slow_server(self):
        self.check_slow("slow_server", "sent", "received_bytes_total", count=32)


# ---- Raw sockets

KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 section 1.3.
ENABLE_CONNECT = 8  # In SETTINGS: RFC 8441 section 3.

OFFER = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "first, second"),
         ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits, x-other"),
         ("origin", "http://b.test"), ("cookie", "a=1"), ("x-own", "client")]
CHOICE = [("sec-websocket-protocol", "second"), ("sec-websocket-extensions", "x-other"), ("set-cookie", "b=2"),
          ("x-own", "server")]


def accept_of(key):
    return base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()


def lines_of(fields):
    return "".join(f"{name}: {value}\r\n" for name, value in fields)


def upgrade_of(path, fields=(("sec-websocket-version", "13"),)):
    return (f"GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-key: {KEY}\r\n{lines_of(fields)}\r\n")


def connect_fields(path, fields=(("sec-websocket-version", "13"),)):
    return [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a.test"),
            (":path", path), *fields]


class Handshakes(WebsocketTest):
    """Options that one side offers and the other accepts are forwarded; each connection has its own key."""

    def origin(self, protocol, accept=accept_of, settings=((ENABLE_CONNECT, 1),)):
        """Accepts each websocket with CHOICE, and returns the first bytes that it receives."""
        seen = []

        def http1(sock):
            peer = Peer(sock, Http1Reader(requests=True))
            if not peer.wait(lambda: peer.reader.messages):
                return
            request = peer.reader.messages[0]
            seen.append(request)
            sock.sendall(wire.bytes_of(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                f"sec-websocket-accept: {accept(request.value('sec-websocket-key'))}\r\n{lines_of(CHOICE)}\r\n"))
            tunnel = peer.reader.tunnel
            if tunnel or peer.wait(lambda: tunnel):
                sock.sendall(bytes(tunnel))

        def http2(sock):
            peer = Http2Server(sock, settings)
            while request := peer.head():
                seen.append(request)
                peer.respond(request.stream, 200, CHOICE, end=False)
                peer.wait(lambda: request.body or request.failure)
                peer.send(wire.data_frame(request.stream, bytes(request.body), end=True))
        origin = self.keep(Origin({"http1": http1, "http2": http2}[protocol]))
        return self.through(origin.address, kind=(protocol, False)), seen

    def send_request(self, proxy, protocol):
        """The fields of the response to OFFER, after bytes went in both directions."""
        if protocol == "http1":
            client = self.keep(Http1Client(proxy.address("plain")))
            client.send_request(upgrade_of("/chat?x", OFFER))
            response = client.response()
            self.assertEqual((response.status, response.value("upgrade")), (101, "websocket"))
            self.assertEqual(response.value("connection").lower(), "upgrade")
            self.assertEqual(response.values("sec-websocket-accept"), [ACCEPT])
            client.send(b"there and back")
            client.wait(lambda: len(client.reader.tunnel) >= 14)
            self.assertEqual(client.reader.tunnel, b"there and back")
        else:
            client = self.keep(Http2Client(proxy.address("plain")))
            client.wait(lambda: client.reader.settings)
            self.assertEqual(client.reader.settings.get(ENABLE_CONNECT), 1)
            client.send(wire.headers_frame(1, connect_fields("/chat?x", OFFER)))
            client.wait(lambda: 1 in client.reader.streams)
            response = client.reader.streams[1]
            self.assertEqual(response.status, 200)
            self.assertEqual(response.values("sec-websocket-accept") + response.values("upgrade"), [])
            client.send(wire.data_frame(1, b"there and back"))
            client.wait(lambda: len(response.body) >= 14)
            self.assertEqual(response.body, b"there and back")
        return response.fields

    def test_fields(self):
        for server in ("http1", "http2"):
            proxy, seen = self.origin(server)
            for client in ("http1", "http2"):
                with self.subTest(f"{client} -> {server}"):
                    response = self.send_request(proxy, client)
                    self.assertLessEqual(set(CHOICE), set(response))
                    request = seen[-1]
                    self.assertLessEqual(set(OFFER), set(request.fields))
                    self.assertEqual((request.path, request.authority, request.protocol),
                                     ("/chat?x", "a.test", "websocket"))
                    keys = request.values("sec-websocket-key")
                    if server == "http2":
                        self.assertEqual((request.method, keys), ("CONNECT", []))
                        continue
                    self.assertEqual((request.method, request.value("connection").lower(), len(keys)),
                                     ("GET", "upgrade", 1))
                    self.assertRegex(keys[0], r"^[A-Za-z0-9+/]{22}==$")
            if server == "http1":
                keys = [request.value("sec-websocket-key") for request in seen]
                self.assertEqual(len({KEY, *keys}), 3, keys)

    def refused(self, proxy):
        """The responses that each kind of client gets instead of a websocket."""
        one, two = (self.keep(kind(proxy.address("plain"))) for kind in (Http1Client, Http2Client))
        one.send_request(upgrade_of("/"))
        two.send(wire.headers_frame(1, connect_fields("/")))
        return [(response.status, bytes(response.body)) for response in (one.response(), two.response(1))]

    def test_server_with_wrong_accept_key(self):
        """RFC 6455 section 4.1: the accept key is wrong."""
        proxy, seen = self.origin("http1", accept=lambda key: ACCEPT)
        self.assertEqual(self.refused(proxy), [(502, b"the upstream's response is malformed\n")] * 2)
        self.assertEqual(len(seen), 2)

    def test_http2_server_without_websockets(self):
        proxy, seen = self.origin("http2", settings=())
        self.assertEqual(self.refused(proxy), [(502, b"the upstream does not support this request\n")] * 2)
        self.assertEqual(seen, [])


if __name__ == "__main__":
    harness.main()
