"""The windows of HTTP/2 grow where a body waits for them: a peer that is far away sends more than 64 KiB per round trip.

Defect: downloads from an endpoint of HTTP/2 20 ms away came at 12 Mbit/s, whatever the link, and uploads at 18.
"""

import http.client
import socket
import threading
import time

import harness
import http_wire as wire
from harness import KIB, MIB, SLOWNESS
from origins import Origin, connect

ROUND_TRIP_S = 0.1 * SLOWNESS
BODY = 8 * MIB
SETTINGS, INITIAL_WINDOW = 4, 4


class FarSide:
    """Our side of a connection of HTTP/2 whose SETTINGS are acknowledged after a round trip."""

    def __init__(self, sock, is_server):
        self.socket = sock
        self.reader = wire.Http2Reader(requests=is_server, polite=False)
        sock.settimeout(30 * SLOWNESS)
        sock.sendall((b"" if is_server else wire.PREFACE) + wire.settings_frame())
        self.read_until(lambda: self.reader.settings)
        time.sleep(ROUND_TRIP_S)
        sock.sendall(wire.frame(SETTINGS, wire.ACK))

    def read_until(self, done):
        while not done():
            data = self.socket.recv(256 * KIB)
            if not data:
                raise ConnectionError("the connection has ended")
            self.reader.feed(data)

    def send_body(self, stream, size):
        """Returns the largest window of the stream that the peer left open."""
        sent = largest = 0
        first = self.reader.settings.get(INITIAL_WINDOW, wire.FIRST_WINDOW)
        while sent < size:
            self.read_until(lambda: min(self.reader.windows[stream] + first,
                                        self.reader.windows[0] + wire.FIRST_WINDOW) > sent)
            left = self.reader.windows[stream] + first - sent
            largest = max(largest, left)
            piece = min(left, self.reader.windows[0] + wire.FIRST_WINDOW - sent, 16 * KIB, size - sent)
            self.socket.sendall(wire.data_frame(stream, bytes(piece)))
            sent += piece
        self.socket.sendall(wire.data_frame(stream, b"", end=True))
        return largest


class Windows(harness.SluiceTest):

    def test_download(self):
        largest = []

        def serve(sock):
            side = FarSide(sock, is_server=True)
            side.read_until(lambda: side.reader.messages)
            stream = next(iter(side.reader.streams))
            sock.sendall(wire.headers_frame(stream, [(":status", "200")]))
            largest.append(side.send_body(stream, BODY))
            while side.socket.recv(64 * KIB):  # A close with unread WINDOW_UPDATEs would reset what is still to be sent.
                pass
        origin = self.keep(Origin(serve))
        config = harness.configuration([origin.address], upstream={"protocol": "http2"})
        config["listeners"][0] = {"name": "main", "address": "127.0.0.1:0", "http": {"forward": "main"}}
        proxy = self.start(config)
        host, port = proxy.address()
        client = http.client.HTTPConnection(host, port, timeout=60 * SLOWNESS)
        client.request("GET", "/")
        response = client.getresponse()
        self.assertEqual(response.status, 200)
        self.assertEqual(len(response.read()), BODY)
        client.close()
        self.assertGreater(largest[0], 256 * KIB)
        self.assertLessEqual(largest[0], 64 * KIB + 512 * KIB)

    def test_upload(self):
        config = harness.configuration(["127.0.0.1:%d" % self.sink()])
        config["listeners"][0] = {"name": "main", "address": "127.0.0.1:0", "http": {"forward": "main"}}
        proxy = self.start(config)
        side = FarSide(self.keep(connect(proxy.address())), is_server=False)
        side.socket.sendall(wire.headers_frame(1, wire.request_fields(method="POST")))
        largest = side.send_body(1, BODY)
        side.read_until(lambda: side.reader.done)
        self.assertEqual(side.reader.done[0].status, 200)
        self.assertGreater(largest, 256 * KIB)
        self.assertLessEqual(largest, 64 * KIB + 512 * KIB)  # Half of connection_window.

    def sink(self):
        """The port of an HTTP/1.1 server that reads a request's body."""
        server = self.keep(socket.create_server(("127.0.0.1", 0)))

        def serve():
            sock = server.accept()[0]
            with sock:
                data = b""
                while not data.endswith(b"0\r\n\r\n"):
                    data = data[-8:] + sock.recv(256 * KIB)
                sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        return server.getsockname()[1]


if __name__ == "__main__":
    harness.main()
