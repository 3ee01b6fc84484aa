"""Timeouts that are armed after a pause in which nothing wakes a worker.

Defect: timeouts were armed with the time from before the worker slept. A timeout that was shorter than the pause
expired at once: of connections to endpoints, handshakes, PROXY headers and requests. Printing counters wakes workers,
so these proxies run without --stats. All of them pause at the same time.
"""

import socket
import time
import unittest

import harness
from harness import SLOWNESS
from origins import Origin, ping, connect, echo, receive_exactly
from tls_support import TlsTest, exchange

# Longer than the timeouts below and the default connect_timeout of 5 s, and shorter than the interval at which a worker
# wakes by itself.
PAUSE_SECONDS = 8
SHORT = f"{3 * SLOWNESS}s"


def serve_http(sock):
    """Responds to each request on a connection after half a second: timers must count from the request."""
    held = b""
    while True:
        while b"\r\n\r\n" not in held:
            data = sock.recv(65536)
            if not data:
                return
            held += data
        held = held.split(b"\r\n\r\n", 1)[1]
        time.sleep(0.5)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def get(sock):
    sock.sendall(b"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(1)
        if not data:
            break
        head += data
    if b" 200 " in head:
        receive_exactly(sock, 5)
    return head.split(b"\r\n")[0]


class AfterPause(TlsTest):

    @classmethod
    def start_proxy(cls, origin, listener=None, **config):
        values = harness.configuration([origin.address], listener=listener, **config)
        if listener and "http" in listener:
            del values["listeners"][0]["tcp"]
        proxy = harness.Proxy(values, stats=None)
        cls.addClassCleanup(proxy.kill)
        return proxy

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.echo, cls.http_origin = Origin(echo), Origin(serve_http)
        cls.addClassCleanup(cls.echo.close)
        cls.addClassCleanup(cls.http_origin.close)
        certificate = {"certificates": [cls.server]}
        header = {"accept": "required", "timeout": SHORT}
        cls.tcp = cls.start_proxy(cls.echo)
        cls.tls = cls.start_proxy(cls.echo, {"tls": {**certificate, "handshake_timeout": SHORT}})
        # Connects to the previous proxy over TLS.
        cls.tls_inner = cls.start_proxy(cls.echo, {"tls": {**certificate, "handshake_timeout": SHORT}})
        inner = type("inner", (), {"address": "127.0.0.1:%d" % cls.tls_inner.port()})
        cls.tls_upstream = cls.start_proxy(inner, upstream={
            "connect_timeout": SHORT, "tls": {"server_name": "localhost", "ca": cls.ca}})
        cls.header = cls.start_proxy(cls.echo, {"proxy_protocol": header})
        http = {"http": {"routes": [{"forward": "main"}]}}
        # The default configuration, except for the time after which the pool is empty.
        cls.emptied_pool = cls.start_proxy(cls.http_origin, http, upstream={"pool": {"idle_timeout": "1s"}})
        cls.limits = cls.start_proxy(
            cls.http_origin, {"http": {**http["http"], "request_timeout": SHORT, "stream_idle_timeout": SHORT}},
            upstream={"response_timeout": SHORT})
        cls.kept = {}
        for proxy in (cls.emptied_pool, cls.limits):
            cls.kept[proxy] = connect(proxy.address())
            cls.addClassCleanup(cls.kept[proxy].close)
            assert b" 200 " in get(cls.kept[proxy])
        time.sleep(PAUSE_SECONDS)

    def test_connection_to_endpoint(self):
        with connect(self.tcp.address()) as client:
            self.assertTrue(ping(client))

    def test_tls_handshake_with_client(self):
        self.assertEqual(exchange(self.secure(self.tls.address()), b"hello"), b"hello")

    def test_tls_handshake_with_endpoint(self):
        """In that case the client saw a clean end and no bytes."""
        with connect(self.tls_upstream.address()) as client:
            self.assertTrue(ping(client))

    def test_proxy_header(self):
        with connect(self.header.address()) as client:
            time.sleep(0.2)
            client.sendall(b"PROXY TCP4 192.0.2.77 198.51.100.2 56324 443\r\n")
            self.assertTrue(ping(client))

    def test_kept_connection_after_pool_was_emptied(self):
        self.assertEqual(get(self.kept[self.emptied_pool]), b"HTTP/1.1 200 OK")

    def test_request_timeouts(self):
        self.assertEqual(get(self.kept[self.limits]), b"HTTP/1.1 200 OK")


if __name__ == "__main__":
    harness.main()
