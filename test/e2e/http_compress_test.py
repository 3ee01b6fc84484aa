"""Compressed responses, seen by clients: curl and other decoders, in front of nginx and of a streaming server."""

import gzip
import random
import subprocess
import threading
import zlib

import harness
from harness import need
from http_peers_support import KINDS, HttpTest, words
from http_wire import Http1Client
from origins import Origin, free_port, receive_exactly
from programs import Nginx

HTTP1 = KINDS[0]
TEXT = "".join(f"{i}: {random.Random(i).choice(('a line', 'another line', 'the same again'))}\n" for i in range(20_000))


def decoded(coding, body):
    """Decoded by Python's zlib, or by the programs of the other libraries."""
    if coding == "gzip":
        return gzip.decompress(body)
    program = [need("brotli"), "-dc"] if coding == "br" else [need("zstd"), "-dcq"]
    return subprocess.run(program, input=body, capture_output=True, check=True, timeout=30).stdout


class Compression(HttpTest):

    def serve(self, locations="", **compression):
        """A proxy in front of nginx, which serves TEXT in files of its own."""
        self.write("text.txt", TEXT.encode())
        self.write("small.txt", b"too small")
        self.write("image.png", TEXT.encode())
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], f"""
            types {{ text/plain txt; image/png png; }}
            server {{ listen 127.0.0.1:{port}; root {self.files}; {locations} }}"""))
        return self.through(f"127.0.0.1:{port}", kind=("http1", False), http={"compression": compression})

    def test_each_coding_and_version(self):
        proxy = self.serve()
        for client in KINDS:
            for coding in ("gzip", "br", "zstd"):
                with self.subTest(f"{coding} to {words(client)}"):
                    response = self.curl(proxy, client, "/text.txt", "-H", f"Accept-Encoding: {coding}")
                    self.assertEqual(response.fields["content-encoding"], coding)
                    self.assertEqual(decoded(coding, response.body), TEXT.encode())
                    self.assertLess(len(response.body), len(TEXT) / 3)
                    self.assertNotIn("content-length", response.fields)
                    self.assertNotIn("accept-ranges", response.fields)
                    self.assertEqual(response.fields["vary"], "accept-encoding")
                    self.assertTrue(response.fields["etag"].startswith('W/"'), response.fields)
            plain = self.curl(proxy, client, "/text.txt")
            self.assertEqual(plain.body, TEXT.encode())
            self.assertNotIn("content-encoding", plain.fields)
            self.assertEqual(plain.fields["vary"], "accept-encoding")
            # Like a browser: curl decodes the coding that it requested.
            self.assertEqual(self.curl(proxy, client, "/text.txt", "--compressed").body, TEXT.encode())
        # A client without support for chunks gets the body until the end of the connection.
        old = self.curl(proxy, HTTP1, "/text.txt", "--http1.0", "-H", "Accept-Encoding: gzip")
        self.assertEqual(gzip.decompress(old.body), TEXT.encode())
        stats = proxy.stats()
        for coding in ("gzip", "br", "zstd"):
            self.assertGreaterEqual(stats.total("http_compressed_total", coding=coding), 4)
        self.assertGreater(stats.total("http_compression_in_bytes_total"),
                           3 * stats.total("http_compression_out_bytes_total"))

    def test_uncompressed_responses(self):
        proxy = self.serve("""
            location /raw/ { alias %s/; add_header Cache-Control no-transform; }
            location /own/ { alias %s/; gzip on; gzip_types text/plain; gzip_proxied any; gzip_vary on; }
            """ % (self.files, self.files))
        gzipped = ("-H", "Accept-Encoding: gzip")
        for path, *more in (["/small.txt"], ["/image.png"], ["/raw/text.txt"], ["/text.txt", "-r", "0-4999"],
                            ["/text.txt", "-H", "Cache-Control: no-transform"]):
            response = self.curl(proxy, HTTP1, path, *gzipped, *more)
            self.assertNotIn("content-encoding", response.fields, path)
            self.assertIn("content-length", response.fields, path)
        own = self.curl(proxy, HTTP1, "/own/text.txt", *gzipped)
        self.assertEqual(decoded("gzip", own.body), TEXT.encode())
        head = self.curl(proxy, HTTP1, "/text.txt", *gzipped, "-I")
        self.assertEqual(head.fields["content-length"], str(len(TEXT)))
        self.assertNotIn("content-encoding", head.fields)
        # A copy that was cached by its weak tag is still valid.
        tag = self.curl(proxy, HTTP1, "/text.txt", *gzipped).fields["etag"]
        self.assertEqual(self.curl(proxy, HTTP1, "/text.txt", *gzipped, "-H", f"If-None-Match: {tag}").status, 304)
        self.assertEqual(proxy.stats().total("http_compressed_total"), 1)

    def test_events_are_not_delayed(self):
        """The client reads each event before the server sends the next."""
        received = threading.Semaphore(0)
        events = 5

        def stream(sock):
            while not receive_exactly(sock, 1) == b"\r" or receive_exactly(sock, 3) != b"\n\r\n":
                pass
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            for i in range(events):
                sock.sendall(f"data: {i}\n\n".encode())
                if not received.acquire(timeout=20):
                    return
        proxy = self.through(self.keep(Origin(stream)).address, kind=("http1", False), http={"compression": {}})
        with Http1Client(proxy.address("plain")) as client:
            client.send_request(b"GET / HTTP/1.1\r\nhost: a.test\r\naccept-encoding: gzip\r\n\r\n")
            client.wait(lambda: client.reader.messages)
            message = client.reader.messages[0]
            self.assertEqual(message.value("content-encoding"), "gzip")
            for i in range(events):
                expected = "".join(f"data: {j}\n\n" for j in range(i + 1)).encode()
                self.assertTrue(client.wait(
                    lambda: zlib.decompressobj(31).decompress(bytes(message.body)) == expected), f"event {i}")
                received.release()
            client.wait(lambda: message.complete)
            self.assertEqual(gzip.decompress(bytes(message.body)), expected)

    def test_many_responses_and_slow_clients(self):
        """More responses than may be compressed at once: some pass uncompressed, and all arrive complete."""
        proxy = self.serve(max_streams=2)
        clients = [self.keep(Http1Client(proxy.address("plain"), receive_buffer=4096)) for _ in range(6)]
        for client in clients:
            client.send_request(b"GET /text.txt HTTP/1.1\r\nhost: a.test\r\naccept-encoding: zstd\r\n\r\n")
        for client in clients:
            response = client.response()
            body = bytes(response.body)
            coding = response.value("content-encoding")
            self.assertEqual(decoded(coding, body) if coding else body, TEXT.encode())
        stats = proxy.stats()
        self.assertEqual(stats.total("http_compressed_total") + stats.total("http_compression_refused_total"), 6)
        self.assertGreater(stats.total("http_compressed_total"), 0)


if __name__ == "__main__":
    harness.main()
