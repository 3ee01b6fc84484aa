"""Malformed requests, from raw sockets: what the run-time log and the access log say about each."""

import json
import socket
import struct

import harness
from harness import SLOWNESS
from http_wire import Http2Client
from origins import Origin

RESPOND = {"routes": [{"name": "all", "respond": {"body": "fine"}}]}
PING = 6


def read_all(sock):
    while sock.recv(65536):
        pass


def frame(kind, payload, stream=0):
    return struct.pack(">I", len(payload) << 8 | kind) + b"\0" + struct.pack(">I", stream) + payload


class Malformed(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        self.log = f"{self.temporary_directory()}/access.log"

    def proxy(self, **http):
        return self.start({"workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s", "listeners": [
            {"name": "main", "address": "127.0.0.1:0",
             "http": {**RESPOND, "access_log": {"file": self.log, "format": "json"}, **http}}]})

    def status(self, proxy, *pieces):
        """The status line of the last response, at the end of the connection."""
        with socket.create_connection(proxy.address(), timeout=10 * SLOWNESS) as sock:
            received = b""
            for piece in pieces:
                sock.sendall(piece)
            while data := sock.recv(65536):
                received += data
        return received[received.rindex(b"HTTP/1.1 "):].split(b"\r\n")[0].decode()

    def reasons(self, proxy, count):
        """What the run-time log has about malformed requests."""
        begin = ' info sluice: listener "main", client 127.0.0.1: '

        def found():
            lines = [line.split(begin)[1] for line in proxy.stderr().splitlines() if begin in line]
            return lines if len(lines) >= count else None
        return harness.wait_until(found, what=f"{count} lines")

    def records(self, count):
        def found():
            with open(self.log, encoding="utf-8") as file:
                lines = file.read().splitlines()
            return lines if len(lines) >= count else None
        return [json.loads(line) for line in harness.wait_until(found, what=f"{count} lines")]

    def test_http1(self):
        proxy = self.proxy(max_fields=4)
        self.assertIn("400", self.status(proxy, b"GET /a?token=secret HTTP/1.1\r\n\r\n"))
        self.assertIn("431", self.status(proxy, b"GET /b HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\n\r\n"))
        self.assertIn("400", self.status(proxy, b"\x16\x03\x01\x00\x05hello"))
        # A good request, and then what may be a part of its body.
        self.assertIn("400", self.status(proxy, b"GET /c HTTP/1.1\r\nHost: a\r\n\r\npassword=secret\r\n\r\n"))
        self.assertEqual(self.reasons(proxy, 4), [f"HTTP/1.1 with it failed: {rule}, in {where}" for rule, where in (
            ("no Host (RFC 9112 section 3.2)", '"GET /a?(hidden) HTTP/1.1"'),
            ("too many fields (max_fields: 4)", '"GET /b HTTP/1.1"'),
            ("a message that does not begin like HTTP (RFC 9112 section 2.1)", '"\\x16\\x03\\x01\\x00\\x05hello"'),
            ("a request line without exactly three parts (RFC 9112 section 3)", "15 bytes that do not look like a request"))])
        self.assertNotIn("secret", proxy.stderr())
        records = [(each["status"], each["reason"], each["detail"], each["method"], each["path"])
                   for each in self.records(5)]
        self.assertEqual(records, [
            (400, "malformed", "no Host (RFC 9112 section 3.2)", "GET", "/a?token=secret"),
            (431, "malformed", "too many fields (max_fields: 4)", "GET", "/b"),
            (400, "malformed", "a message that does not begin like HTTP (RFC 9112 section 2.1)", None, None),
            (200, "ok", None, "GET", "/c"),
            (400, "malformed", "a request line without exactly three parts (RFC 9112 section 3)", None, None)])

    def test_http1_body(self):
        """One record: the codec responds, and the request has its reason."""
        origin = self.keep(Origin(read_all))
        proxy = self.start({"workers": 1, "shutdown_timeout": f"{5 * SLOWNESS}s", "listeners": [
            {"name": "main", "address": "127.0.0.1:0", "http": {
                "forward": "app", "access_log": {"file": self.log, "format": "json"}}}],
            "upstreams": [{"name": "app", "endpoints": [origin.address]}]})
        self.assertIn("400", self.status(
            proxy, b"POST /up?t=secret HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n", b"zz\r\n"))
        rule = "a malformed chunk size (RFC 9112 section 7.1)"
        self.assertEqual(self.reasons(proxy, 1), [f"HTTP/1.1 with it failed: {rule}, in POST http://a.test/up?(hidden)"])
        record, = self.records(1)
        self.assertEqual((record["status"], record["reason"], record["detail"], record["path"]),
                         (400, "bad_request", rule, "/up?t=secret"))
        self.assertEqual(proxy.stats().total("http_responses_total", **{"class": "4xx"}), 1)

    def test_http2(self):
        proxy = self.proxy()
        with Http2Client(proxy.address()) as client:
            stream = client.send_request(fields=[("host", "b.test")])
            self.assertEqual(client.response(stream).failure, "PROTOCOL_ERROR")
            stream = client.send_request(fields=[("a_b", "1")])
            self.assertEqual(client.response(stream).status, 400)
            client.send(frame(PING, b"short"))
            client.wait(lambda: client.reader.goaway)
        underscore = "a field name with an underscore (http1.allow_underscores: false)"
        differs = "a Host that differs from :authority (RFC 9113 section 8.3.1)"
        ping = "PING with a wrong length (RFC 9113 section 6.7)"
        reasons = self.reasons(proxy, 3)
        self.assertEqual(reasons, [f"a request of HTTP/2 is malformed: {differs}, in HEADERS of stream 1: GET http://a.test/",
                                   f"a request of HTTP/2 is malformed: {underscore}, in GET http://a.test/",
                                   f"HTTP/2 with it failed: {ping}, in PING"])
        self.assertEqual([(each["reason"], each["detail"], each["method"], each["path"]) for each in self.records(2)],
                         [("malformed", differs, "GET", "/"), ("bad_request", underscore, "GET", "/")])

    def test_flood(self):
        """Ten lines a second; the access log has all of them."""
        proxy = self.proxy()
        for _ in range(40):
            self.assertIn("400", self.status(proxy, b"GET / HTTP/1.1\r\n\r\n"))
        self.records(40)
        stats = proxy.stats()
        self.assertEqual(stats.total("http1_malformed_total"), 40)
        written = 40 - stats.total("log_suppressed_total")
        harness.wait_until(lambda: len([line for line in proxy.stderr().splitlines() if "no Host" in line]) == written,
                           what=f"{written} lines")
        if SLOWNESS == 1:
            self.assertGreater(stats.total("log_suppressed_total"), 0)


if __name__ == "__main__":
    harness.main()
