"""Inspection before bytes are forwarded: PROXY headers and ClientHellos that are late, broken or in pieces."""

import socket
import ssl
import struct
import time

import harness
from harness import SLOWNESS
from origins import Origin, ping, connect, echo, last_outcome, outcome_of_connecting, receive_exactly, send_name

GONE = ("end", "reset")
V2_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def proxy_v2(payload=struct.pack("!4s4sHH", bytes([192, 0, 2, 7]), bytes([192, 0, 2, 8]), 4711, 443), command=0x21,
             family=0x11, tlvs=b""):
    return V2_SIGNATURE + struct.pack("!BBH", command, family, len(payload) + len(tlvs)) + payload + tlvs


def client_hello(name, alpn=()):
    """The first bytes of a real TLS client."""
    context = ssl.create_default_context()
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def enlarged(hello, size):
    """The hello with one more extension, `size` bytes long in total, like one with post-quantum key shares."""
    body = bytearray(hello[9:])
    at = 34 + 1 + body[34]                                    # version, random, session id
    at += 2 + int.from_bytes(body[at:at + 2], "big")          # cipher suites
    at += 1 + body[at]                                        # compression methods
    extensions = bytes(body[at + 2:])
    filler = size - len(hello) - 4
    extensions = struct.pack("!HH", 0xfafa, filler) + bytes(filler) + extensions
    body = bytes(body[:at]) + struct.pack("!H", len(extensions)) + extensions
    return hello[:3] + struct.pack("!H", len(body) + 4) + b"\x01" + len(body).to_bytes(3, "big") + body


class Inspected(harness.SluiceTest):

    def drip(self, sock, data, pause=0.001):
        for i in range(len(data)):
            sock.sendall(data[i:i + 1])
            time.sleep(pause)

    def assert_closed(self, proxy, client, reason, count=1):
        self.assertIn(last_outcome(client), GONE)
        proxy.wait_for(lambda s: s.ended(reason) == count and s.total("sessions_active") == 0, what=reason)


class ProxyHeader(Inspected):

    def start_proxy(self, accept="required", listener=None, **config):
        origin = self.keep(Origin(echo))
        header = {"accept": accept, "timeout": "500ms", **(listener or {})}
        return self.proxy(origin.address, listener={"proxy_protocol": header}, **config)

    def test_header_byte_by_byte(self):
        proxy = self.start_proxy(listener={"timeout": "20s"})
        for header in (b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\n", b"PROXY UNKNOWN\r\n", proxy_v2(),
                       proxy_v2(tlvs=b"\x04\x00\x40" + bytes(64)), proxy_v2(b"", command=0x20, family=0)):
            with self.subTest(header), connect(proxy.address()) as client:
                self.drip(client, header)
                self.assertTrue(ping(client))

    def test_payload_after_header(self):
        proxy = self.start_proxy()
        for header in (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", proxy_v2()):
            with connect(proxy.address()) as client:
                client.sendall(header + b"payload")
                self.assertEqual(receive_exactly(client, 7), b"payload")

    def test_timeout(self):
        proxy = self.start_proxy()
        for count, beginning in enumerate((b"", b"PROXY TCP4 192.0", V2_SIGNATURE + b"\x21"), 1):
            client = self.keep(connect(proxy.address()))
            client.sendall(beginning)
            start = time.monotonic()
            self.assert_closed(proxy, client, "proxy_timeout", count)
            self.assert_within(start, 2 * SLOWNESS)

    def test_malformed(self):
        proxy = self.start_proxy()
        for count, junk in enumerate((
                b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                b"PROXY TCP4 192.0.2.7 192.0.2.8 4711\r\n",
                b"PROXY TCP4 192.0.2.777 192.0.2.8 4711 443\r\n",
                b"PROXY TCP5 192.0.2.7 192.0.2.8 4711 443\r\n",
                b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 66666\r\n",
                b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
                proxy_v2(command=0x11),
                proxy_v2(command=0x2f),
                proxy_v2(b"short"),
        ), 1):
            with self.subTest(junk):
                client = self.keep(connect(proxy.address()))
                client.sendall(junk)
                self.assert_closed(proxy, client, "proxy_header", count)

    def test_client_leaves(self):
        proxy = self.start_proxy()
        client = self.keep(connect(proxy.address()))
        client.sendall(b"PROXY TC")
        client.shutdown(socket.SHUT_WR)
        self.assert_closed(proxy, client, "client_left")

    def test_untrusted_source(self):
        proxy = self.start_proxy(listener={"trusted": ["127.0.0.2", "10.0.0.0/8"]})
        with connect(proxy.address(), "127.0.0.2") as client:
            client.sendall(proxy_v2())
            self.assertTrue(ping(client))
        self.assertEqual(outcome_of_connecting(proxy.address(), "127.0.0.3"), "reset")
        proxy.wait_for(lambda s: s.ended("proxy_header") == 1)

    def test_optional(self):
        proxy = self.start_proxy("optional", listener={"trusted": ["127.0.0.2"]})
        with connect(proxy.address(), "127.0.0.2") as client:
            client.sendall(proxy_v2() + b"x")
            self.assertEqual(receive_exactly(client, 1), b"x")
        with connect(proxy.address(), "127.0.0.2") as client:
            self.assertTrue(ping(client, b"no header at all"))
        with connect(proxy.address(), "127.0.0.3") as client:
            self.assertTrue(ping(client, b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\n"))


class Hello(Inspected):

    def start_proxy(self, default=True, **tcp):
        names = (b"alpha", b"stars", b"h2---", b"other")
        alpha, stars, h2, other = (self.keep(Origin(send_name(name))).address for name in names)
        routes = [
            {"match": {"sni": ["alpha.test"], "alpn": ["h2"]}, "forward": "h2"},
            {"match": {"sni": ["alpha.test"]}, "forward": "alpha"},
            {"match": {"sni": ["*.alpha.test"]}, "forward": "stars"},
        ]
        if default:
            routes.append({"forward": "other"})
        config = harness.configuration([alpha])
        config["listeners"][0]["tcp"] = {"routes": routes, "inspect_timeout": "700ms", **tcp}
        config["upstreams"] = [{"name": name, "endpoints": [address]} for name, address in
                               (("alpha", alpha), ("stars", stars), ("h2", h2), ("other", other))]
        return self.start(config)

    def server_of(self, proxy, hello, drip=False):
        """The name of the server that gets a ClientHello, which must arrive unchanged; "reset" if none does."""
        with connect(proxy.address()) as client:
            self.drip(client, hello) if drip else client.sendall(hello)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 5)
            try:
                name = client.recv(5)
            except ConnectionResetError:
                return "reset"
            self.assertEqual(receive_exactly(client, len(hello) if name else 0), hello if name else b"")
            return name

    def test_routes(self):
        proxy = self.start_proxy()
        for name, alpn, server in (("alpha.test", (), b"alpha"), ("ALPHA.test", (), b"alpha"),
                                   ("alpha.test", ("h2", "http/1.1"), b"h2---"), ("a.alpha.test", (), b"stars"),
                                   ("a.b.alpha.test", (), b"other"), ("beta.test", ("h2",), b"other")):
            self.assertEqual(self.server_of(proxy, client_hello(name, alpn)), server, (name, alpn))

    def test_byte_by_byte(self):
        proxy = self.start_proxy(inspect_timeout="60s")
        self.assertEqual(self.server_of(proxy, client_hello("alpha.test"), drip=True), b"alpha")

    def test_large(self):
        """Up to the bound of 16 KiB, across chunks; the name comes last."""
        proxy = self.start_proxy(inspect_timeout="20s")
        for size in (1500, 1800, 4200, 9000, 16300):
            hello = enlarged(client_hello("alpha.test"), size)
            self.assertEqual(len(hello), size)
            self.assertEqual(self.server_of(proxy, hello), b"alpha", size)

    def test_too_large(self):
        proxy = self.start_proxy()
        client = self.keep(connect(proxy.address()))
        client.sendall(b"\x16\x03\x01\x40\x00\x01\x00\x50\x00\x03\x03" + bytes(16377))
        self.assert_closed(proxy, client, "hello")

    def test_malformed(self):
        proxy = self.start_proxy()
        hello = bytearray(client_hello("alpha.test"))
        hello[43] = 0xff  # The length of the session id.
        client = self.keep(connect(proxy.address()))
        client.sendall(hello)
        self.assert_closed(proxy, client, "hello")

    def test_timeout(self):
        proxy = self.start_proxy()
        for count, beginning in enumerate((b"", client_hello("alpha.test")[:100]), 1):
            client = self.keep(connect(proxy.address()))
            client.sendall(beginning)
            self.assert_closed(proxy, client, "hello_timeout", count)

    def test_timeout_while_bytes_arrive(self):
        """The timeout is for the whole hello, not for the pause between its bytes."""
        proxy = self.start_proxy()
        client = self.keep(connect(proxy.address()))
        with self.assertRaises(OSError):
            self.drip(client, client_hello("alpha.test"), pause=0.02 * SLOWNESS)
        proxy.wait_for(lambda s: s.ended("hello_timeout") == 1)

    def test_client_leaves(self):
        proxy = self.start_proxy()
        client = self.keep(connect(proxy.address()))
        client.sendall(client_hello("alpha.test")[:50])
        client.shutdown(socket.SHUT_WR)
        self.assert_closed(proxy, client, "client_left")

    def test_no_tls(self):
        """Uses the default route."""
        self.assertEqual(self.server_of(self.start_proxy(), b"GET / HTTP/1.0\r\n\r\n"), b"other")

    def test_no_route(self):
        proxy = self.start_proxy(default=False)
        self.assertEqual(self.server_of(proxy, client_hello("beta.test")), "reset")
        self.assertEqual(self.server_of(proxy, b"GET / HTTP/1.0\r\n\r\n"), "reset")
        proxy.wait_for(lambda s: s.ended("no_route") == 2)


if __name__ == "__main__":
    harness.main()
