"""From which event timeouts count, for those where only a real handshake can show it: the beginning of a connection.
The others are in unit tests; docs/operating/timeouts.md names the test of each."""

import socket
import ssl
import time

import harness
import http_wire as wire
from harness import SLOWNESS
from http_wire import Http2Client, Http2Reader, Peer
from origins import PATIENCE_SECONDS, Origin, ping, connect, echo, last_outcome
from tls_support import TlsTest

# The timeout that a test is about. What is in time takes 3/4 of it, and so does what precedes it: together more than
# the timeout.
TIME = 1.0 * SLOWNESS
TEXT = f"{int(TIME * 1000)}ms"
PART = 0.75 * TIME
HEADER = b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\n"


class Timeouts(TlsTest):

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin(echo))
        self.certificates = {"certificates": [self.server]}

    def through(self, listener, **config):
        return self.proxy(self.origin.address, listener=listener, **config)

    def http(self, **http):
        values = harness.configuration([self.origin.address], listener={"tls": self.certificates, "http": {
            "routes": [{"respond": {"status": 204}}], **http}})
        del values["listeners"][0]["tcp"]
        return self.start(values)

    def client_hello(self):
        outgoing = ssl.MemoryBIO()
        tls = self.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def drip(self, client, data):
        """Sends a byte in each tenth of the timeout, until the connection ends. Returns the time as a multiple of the
        timeout, and how the connection ended."""
        start = time.monotonic()
        client.settimeout(TIME / 10)
        for byte in data:
            try:
                client.send(bytes([byte]))
                if not client.recv(1):
                    break
            except socket.timeout:
                continue
            except OSError:
                break
        else:
            self.fail("it was not ended")
        return (time.monotonic() - start) / TIME

    def check_drip(self, proxy, data, reason):
        client = self.keep(connect(proxy.address()))
        self.assertLess(self.drip(client, data), 2.5)
        proxy.wait_for(lambda s: s.ended(reason) == 1)

    # ---- The PROXY header, and what follows it

    def test_slow_proxy_header(self):
        proxy = self.through({"proxy_protocol": {"accept": "required", "timeout": TEXT}})
        self.check_drip(proxy, HEADER, "proxy_timeout")

    def test_handshake_after_proxy_header(self):
        """Each has its own full timeout."""
        proxy = self.through({"proxy_protocol": {"accept": "required", "timeout": TEXT},
                              "tls": {**self.certificates, "handshake_timeout": TEXT}})
        client = self.keep(connect(proxy.address()))
        time.sleep(PART)
        client.sendall(HEADER)
        time.sleep(PART)
        secure = self.keep(self.context().wrap_socket(client, server_hostname="localhost"))
        self.assertTrue(ping(secure))

    def test_hello_after_proxy_header(self):
        routes = [{"match": {"sni": ["localhost"]}, "forward": "main"}]
        values = harness.configuration([self.origin.address], listener={
            "proxy_protocol": {"accept": "required", "timeout": TEXT}, "tcp": {"routes": routes, "inspect_timeout": TEXT}})
        proxy = self.start(values)
        client = self.keep(connect(proxy.address()))
        time.sleep(PART)
        client.sendall(HEADER)
        time.sleep(PART)
        self.assertTrue(ping(client, self.client_hello()))

    def test_slow_handshake(self):
        proxy = self.through({"tls": {**self.certificates, "handshake_timeout": TEXT}})
        self.check_drip(proxy, self.client_hello(), "tls_timeout")

    def test_how_a_late_handshake_ends(self):
        """A reset, so that no data seems complete; an end where HTTP would follow."""
        tcp = self.through({"tls": {**self.certificates, "handshake_timeout": TEXT}})
        values = harness.configuration([self.origin.address], listener={
            "tls": {**self.certificates, "handshake_timeout": TEXT}, "http": {"routes": [{"respond": {"status": 204}}]}})
        del values["listeners"][0]["tcp"]
        http = self.start(values)
        clients = [self.keep(connect(proxy.address())) for proxy in (tcp, http)]
        self.assertEqual([last_outcome(client) for client in clients], ["reset", "end"])
        for proxy in (tcp, http):
            proxy.wait_for(lambda s: s.ended("tls_timeout") == 1)

    def test_max_duration_begins_with_connection(self):
        proxy = self.through({"proxy_protocol": {"accept": "required", "timeout": "1m"}}, tcp={"max_duration": TEXT})
        client = self.keep(connect(proxy.address()))
        start = time.monotonic()
        time.sleep(PART)
        client.sendall(HEADER)
        self.assertTrue(ping(client))
        self.assertEqual(last_outcome(client), "reset")
        self.assert_within(start, TIME + PART)
        proxy.wait_for(lambda s: s.ended("max_duration") == 1)

    # ---- HTTP after a handshake: these timeouts are checked once a second

    def late_handshake(self, proxy):
        """A client of HTTP/2 that has sent nothing yet, whose handshake began when 2 s were over."""
        client = self.keep(connect(proxy.address()))
        time.sleep(2 * TIME)
        secure = self.keep(self.context(alpn=("h2",)).wrap_socket(client, server_hostname="localhost"))
        peer = Http2Client.__new__(Http2Client)
        Peer.__init__(peer, secure, Http2Reader(requests=False))
        return peer

    def test_preface_after_handshake(self):
        proxy = self.http(http2={"preface_timeout": TEXT}, idle_timeout="1m")
        peer = self.late_handshake(proxy)
        time.sleep(PART)
        peer.send(wire.PREFACE + wire.settings_frame())
        self.assertEqual(peer.get("/").status, 204)
        late = self.late_handshake(proxy)
        start = time.monotonic()
        with socket.socket(fileno=late.sock.detach()) as plain:
            plain.settimeout(PATIENCE_SECONDS)
            self.assertEqual(last_outcome(plain), "reset")
        self.assert_within(start, TIME + 2 * SLOWNESS)
        proxy.wait_for(lambda s: s.total("http_header_timeouts_total") == 1)

    def test_idle_after_handshake(self):
        proxy = self.http(idle_timeout=TEXT, http2={"preface_timeout": "1m"})
        peer = self.late_handshake(proxy)
        time.sleep(PART)
        peer.send(wire.PREFACE + wire.settings_frame())
        self.assertEqual(peer.get("/").status, 204)
        start = time.monotonic()
        self.assertEqual(peer.ending(), "end")
        self.assertGreater(time.monotonic() - start, 0.9 * TIME)
        proxy.wait_for(lambda s: s.ended("idle_timeout") == 1)

    # ---- Endpoints

    def test_connect_timeout_includes_handshake(self):
        """An endpoint that sends a byte of a record now and then, and never a whole record."""
        def drip(sock):
            for byte in b"\x16\x03\x03\x10\x00" + bytes(200):
                sock.sendall(bytes([byte]))
                time.sleep(TIME / 10)

        endpoint = self.keep(Origin(drip))
        values = harness.configuration([endpoint.address], upstream={
            "connect_timeout": TEXT, "tls": {"server_name": "localhost", "ca": self.ca}})
        values["listeners"].append({"name": "http", "address": "127.0.0.1:0", "http": {"routes": [{"forward": "main"}]}})
        proxy = self.start(values)
        start = time.monotonic()
        with connect(proxy.address()) as client:
            self.assertEqual(last_outcome(client), "reset")
        self.assert_within(start, 2.5 * TIME)
        start = time.monotonic()
        with wire.Http1Client(proxy.address("http")) as client:
            self.assertEqual(client.get("/").status, 503)
        self.assert_within(start, 2.5 * TIME)
        self.assertEqual(proxy.stats().connect_errors("timeout"), 2)


if __name__ == "__main__":
    harness.main()
