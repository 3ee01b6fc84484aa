"""Truncated responses, seen by real clients: the data that the upstream sent arrives, even at a slow reader, and the
response does not look complete. Also clients that shut down their sending side before they have their response."""

import socket
import threading
import time

import harness
from http_session_test import HttpTest
from origins import Origin, connect, receive_all, reset

BODY = bytes(range(256)) * 3906 + b"the last 64 bytes of it" + b"." * 41  # 1,000,000 bytes.
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000100\r\n\r\n"


def read_head(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(4096)
        if not part:
            return data
        data += part
    return data


class Truncated(HttpTest):

    def truncated(self, how, slow):
        def serve(sock):
            read_head(sock)
            sock.sendall(HEAD + BODY)
            if how == "reset":
                # Not before the data has arrived: a reset overtakes data in flight.
                time.sleep(0.3 * harness.SLOWNESS)
                reset(sock)
        origin = self.keep(Origin(serve))
        proxy = self.http(origin.address)
        sock = connect(proxy.address(), receive_buffer=8192 if slow else None)
        with sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")
            if slow:
                time.sleep(0.5)
            received = b""
            try:
                while part := sock.recv(16384 if slow else 1 << 20):
                    received += part
                    if slow and len(received) < 400_000:
                        time.sleep(0.005)
            except ConnectionResetError:
                pass
        head, _, body = received.partition(b"\r\n\r\n")
        self.assertIn(b"content-length: 1000100", head.lower())
        self.assertEqual(len(body), len(BODY))
        self.assertEqual(body, BODY)
        proxy.wait_for(lambda stats: stats.total("http_requests_ended_total", reason="upstream_reset") == 1,
                       what="an end that is reported")

    # Defect: a median of 262,161 of these 1,000,000 bytes arrived, and 128,000 at a slow reader.
    def test_end(self):
        for slow in (False, True):
            with self.subTest(slow=slow):
                self.truncated("end", slow)

    def test_reset(self):
        self.truncated("reset", slow=False)

    # Defect: sometimes not even the status line arrived.
    def test_small(self):
        def serve(sock):
            read_head(sock)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\na part")
        origin = self.keep(Origin(serve))
        proxy = self.http(origin.address)
        for _ in range(30):
            with connect(proxy.address()) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")
                received = receive_all(sock)
            self.assertTrue(received.startswith(b"HTTP/1.1 200 "), received)
            self.assertTrue(received.endswith(b"\r\n\r\na part"), received)


class HalfClosed(HttpTest):

    def send_request(self, http):
        def serve(sock):
            read_head(sock)
            time.sleep(2.5)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate")
            read_head(sock)
        origin = self.keep(Origin(serve))
        proxy = self.http(origin.address, http=http)
        with connect(proxy.address()) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
            try:
                return receive_all(sock)
            except ConnectionResetError:
                return b""

    def test_half_close(self):
        responses = {}

        def run(word):
            responses[word] = self.send_request({"http1": {"half_close": word}})
        threads = [threading.Thread(target=run, args=(word,)) for word in ("close", "allow")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(responses["close"], b"")
        self.assertTrue(responses["allow"].endswith(b"\r\n\r\nlate"), responses["allow"])


if __name__ == "__main__":
    harness.main()
