"""The time from a new TLS connection to the first response, for clients with and without TCP_NODELAY."""

import socket
import ssl
import statistics
import time

import harness
from tls_support import TlsTest

# SETTINGS, and HEADERS of stream 1: GET / with the authority `localhost`.
HTTP2_REQUEST = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" +
                 b"\0\0\x0e\1\5\0\0\0\1" + b"\x82\x87\x84\x41\x09localhost")
ROUNDS = 20
# The kernel delays acknowledgements by at least 40 ms.
MARGIN_SECONDS = 0.025


class FirstResponse(TlsTest):

    # Defect: the client's last handshake bytes were acknowledged by the kernel's delayed acknowledgement only. A client
    # with Nagle's algorithm (Python's sockets and many others) holds its request back until then: 40 ms.
    def test_no_delay_with_nagle(self):
        proxy = self.start({"workers": 1, "listeners": [{
            "name": "main", "address": "127.0.0.1:0", "tls": {"certificates": [self.server]},
            "http": {"routes": [{"respond": {"status": 200, "body": "hello"}}]}}]})
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for protocol in ("http/1.1", "h2"):
                for resumed in (False, True):
                    with self.subTest(version=version.name, protocol=protocol, resumed=resumed):
                        nagle, nodelay = (self.median(proxy, version, protocol, resumed, on) for on in (0, 1))
                        self.assertLess(nagle, max(0.030, nodelay + MARGIN_SECONDS))

    def median(self, proxy, version, protocol, resumed, nodelay):
        context = self.context(version, alpn=[protocol])
        session = self.first_response(proxy, context, protocol, nodelay)[1] if resumed else None
        times = []
        for _ in range(ROUNDS):
            seconds, next_session = self.first_response(proxy, context, protocol, nodelay, session)
            session = next_session if resumed else None
            times.append(seconds)
        return statistics.median(times)

    def first_response(self, proxy, context, protocol, nodelay, session=None):
        with socket.create_connection(proxy.address(), 10) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
            begin = time.monotonic()
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as sock:
                self.assertEqual(sock.selected_alpn_protocol(), protocol)
                self.assertEqual(sock.session_reused, session is not None)
                sock.sendall(HTTP2_REQUEST if protocol == "h2" else b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                received = b""
                while b"hello" not in received:
                    piece = sock.recv(65536)
                    self.assertTrue(piece, received)
                    received += piece
                return time.monotonic() - begin, sock.session


if __name__ == "__main__":
    harness.main()
