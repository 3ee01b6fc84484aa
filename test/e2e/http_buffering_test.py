"""Buffered bodies for slow peers: `buffer` of a route, and the `body_file`. nginx is the upstream; the clients are curl
and slow ones of this file.

With SLUICE_E2E_LONG=1 there are 500 slow clients with 8 MiB each, which take 4 GiB of disk.
"""

import hashlib
import os
import re
import socket
import subprocess
import threading
import time

import harness
from harness import KIB, LONG, MIB, print_note, wait_until
from origins import connect, free_port, receive_until
from programs import Nginx, certificate

CLIENTS, BODY = (500, 8 * MIB) if LONG else (40, 8 * MIB)


def digest(data):
    return hashlib.sha256(data).hexdigest()


class SlowClient:
    """Sends a request, and reads only the head of the response until `rest` is called."""

    def __init__(self, address, path="/file"):
        self._sock = connect(address, receive_buffer=16 * KIB, timeout=60)
        self._sock.sendall(f"GET {path} HTTP/1.1\r\nhost: a.test\r\n\r\n".encode())
        self._rest = b""

    def head(self):
        while b"\r\n\r\n" not in self._rest:
            self._rest += self._sock.recv(4096)
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        return head.decode()

    def rest(self, count):
        """The digest of `count` bytes of the body."""
        hashed, left = hashlib.sha256(self._rest), count - len(self._rest)
        while left > 0:
            piece = self._sock.recv(min(left, 256 * KIB))
            if not piece:
                raise AssertionError(f"{left} of {count} bytes are missing")
            hashed.update(piece)
            left -= len(piece)
        return hashed.hexdigest()

    def close(self):
        self._sock.close()


class Origin:
    """Records each request and counts connections. Responds with 200, except that with `cut_first` it closes the first
    connection after its request."""

    def __init__(self, cut_first=False):
        self.requests, self.connections = [], 0
        self._cut = 1 if cut_first else 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with sock, sock.makefile("rb") as stream:
            while line := stream.readline():
                fields = {}
                while (field := stream.readline().strip()):
                    name, _, value = field.decode().partition(":")
                    fields[name.lower()] = value.strip()
                body = b""
                if fields.get("transfer-encoding") == "chunked":
                    while (size := int(stream.readline(), 16)) > 0:
                        body += stream.read(size)
                        stream.readline()
                    stream.readline()
                else:
                    body = stream.read(int(fields.get("content-length", 0)))
                self.requests.append((line.decode().split()[0], fields, body))
                if self._cut > 0:
                    self._cut -= 1
                    return
                sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def close(self):
        self._listener.close()


class Buffering(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.need("curl", "nginx")

    def through(self, endpoint, buffer, route=None, listener=None, limit="1GiB", directory=None, http=None, budget="256MiB",
                **options):
        return self.start({
            "workers": 1, "shutdown_timeout": "3s", "memory": {"worker_budget": budget},
            "body_file": {"directory": directory or self.temporary_directory(), "limit": limit},
            "listeners": [{"name": "main", "address": "127.0.0.1:0", **(listener or {}), "http": {
                "routes": [{"forward": "app", "buffer": buffer, **(route or {})}], "max_body": "1GiB", **(http or {})}}],
            "upstreams": [{"name": "app", "endpoints": [endpoint]}],
        }, **options)

    def file_server(self, size=BODY, directives=""):
        """The address of nginx with one file, and the file's digest."""
        folder = self.temporary_directory()
        os.chmod(folder, 0o755)
        data = os.urandom(size)
        with open(f"{folder}/file", "wb") as file:
            file.write(data)
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], f"server {{ listen 127.0.0.1:{port}; root {folder}; default_type text/plain;"
                                f" keepalive_requests 100000; {directives} }}"))
        return f"127.0.0.1:{port}", digest(data)

    def slow_clients(self, proxy, count):
        clients = [self.keep(SlowClient(proxy.address())) for _ in range(count)]
        for client in clients:
            self.assertIn("200 OK", client.head())
        return clients

    def curl(self, proxy, *arguments, path="/", scheme="http"):
        run = subprocess.run(["curl", "-s", "-k", "-m", "60", "-w", "\n%{http_code}", *arguments,
                              f"{scheme}://127.0.0.1:{proxy.port()}{path}"], capture_output=True, check=True)
        body, _, status = run.stdout.rpartition(b"\n")
        return int(status), body

    # Responses

    def test_slow_clients_do_not_occupy_the_upstream(self):
        """The connections of the upstream are free at once; memory stays small, and the file holds the rest until
        clients take it."""
        address, expected = self.file_server()
        proxy = self.through(address, {"responses": "16MiB"}, limit="6GiB", budget="32MiB", descriptors=4 * CLIENTS + 100)
        before = proxy.pss()
        clients = self.slow_clients(proxy, CLIENTS)
        peak = [0]

        def is_done(stats):
            peak[0] = max(peak[0], proxy.pss())
            return stats.total("endpoint_connections_active") == 0
        began = time.monotonic()
        stats = proxy.wait_for(is_done, 60, "the upstream to be done")
        waiting = stats.total("body_file_bytes")
        print_note(f"{CLIENTS} slow clients: the upstream was done after {time.monotonic() - began:.1f} s; "
                   f"{waiting / MIB:.0f} MiB in the file, {stats.total('pool_bytes') / MIB:.1f} MiB of chunks, memory grew by"
                   f" {(peak[0] - before) / MIB:.1f} MiB at most")
        self.assertEqual(stats.total("http_requests_active"), CLIENTS)
        self.assertGreater(waiting, CLIENTS * BODY / 4)
        self.assertLess(stats.total("pool_bytes"), 64 * MIB)
        if not harness.SANITIZER:
            self.assertLess(peak[0] - before, 64 * MIB)
        for client in clients:
            self.assertEqual(client.rest(BODY), expected)
        stats = proxy.wait_for(lambda s: s.total("body_file_bytes") == 0, 10, "the file to be free")
        self.assertEqual(stats.total("body_file_refused_total"), 0)
        self.assertEqual(stats.total("http_body_file_refused_total"), 0)

    def test_full_body_file(self):
        """When the file is full the upstream has to wait, as without `buffer`. Nothing is lost."""
        address, expected = self.file_server()
        proxy = self.through(address, {"responses": "16MiB"}, limit="1MiB")
        clients = self.slow_clients(proxy, 4)
        stats = proxy.wait_for(lambda s: s.total("http_body_file_refused_total") > 0, 10, "a refusal")
        self.assertGreater(stats.total("body_file_refused_total", reason="limit"), 0)
        proxy.wait_for_output("warning sluice: body_file: no room for ")
        self.assertLess(proxy.stderr().count("body_file: no room for "), 10, "one a second")
        self.assertGreater(stats.total("endpoint_connections_active"), 0)
        self.assertLess(stats.total("pool_bytes"), 8 * MIB)
        results = [None] * len(clients)

        def take(index):
            results[index] = clients[index].rest(BODY)
        takers = [threading.Thread(target=take, args=(i,)) for i in range(len(clients))]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        self.assertEqual(results, [expected] * len(clients))

    def test_full_disk(self):
        directory = self.temporary_directory()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tiny", directory], capture_output=True)
        harness.require(mounted.returncode == 0 or not harness.CI, "no right to mount a file system")
        if mounted.returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", directory])
        address, expected = self.file_server()
        proxy = self.through(address, {"responses": "16MiB"}, directory=directory)
        proxy.wait_for_output("is in memory (tmpfs)")
        client, = self.slow_clients(proxy, 1)
        proxy.wait_for(lambda s: s.total("body_file_refused_total", reason="disk") > 0, 10, "a refusal")
        self.assertEqual(client.rest(BODY), expected)

    def test_buffered_bytes_are_bounded(self):
        address, expected = self.file_server()
        proxy = self.through(address, {"responses": "1MiB"})
        client, = self.slow_clients(proxy, 1)
        proxy.wait_for(lambda s: s.total("body_file_bytes") > 900 * KIB, 10, "the file to be used")
        time.sleep(0.3)
        stats = proxy.stats()
        # One receive of up to 256 KiB may be in flight when the bound is reached.
        self.assertLessEqual(stats.total("body_file_bytes"), MIB + 256 * KIB)
        self.assertEqual(stats.total("endpoint_connections_active"), 1)
        self.assertEqual(client.rest(BODY), expected)

    def test_clients_that_disconnect(self):
        address, _ = self.file_server()
        proxy = self.through(address, {"responses": "16MiB"})
        clients = self.slow_clients(proxy, 3)
        proxy.wait_for(lambda s: s.total("body_file_bytes") > 3 * MIB, 10, "the file to be used")
        for client in clients:
            client.close()
        proxy.wait_for(lambda s: s.total("http_requests_active") == 0, 10, "the requests to end")
        # A helper thread may still write a piece; its space is returned when the write ends.
        proxy.wait_for(lambda s: s.total("body_file_bytes") == 0, 10, "the space in the file to be returned")

    def test_data_for_fast_client_is_not_delayed(self):
        """A piece reaches the client while the upstream holds the next one back."""
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        listener = self.keep(socket.create_server(("127.0.0.1", 0)))

        def serve():
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
                go_on.wait(20)
                sock.sendall(b"data: 2\n\n")
        threading.Thread(target=serve, daemon=True).start()
        proxy = self.through(f"127.0.0.1:{listener.getsockname()[1]}", {"responses": "1MiB"})
        with connect(proxy.address()) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n")
            got = b""
            while b"data: 1" not in got:
                got += client.recv(4096)
            go_on.set()
            while piece := client.recv(4096):
                got += piece
        self.assertIn(b"data: 2", got)

    def test_versions_tls_and_compression(self):
        """The same bytes over TLS, HTTP/2 and gzip, to slow clients."""
        chain, key = certificate(self.temporary_directory(), "a.test")
        address, expected = self.file_server(4 * MIB)
        proxy = self.through(address, {"responses": "8MiB"},
                             listener={"tls": {"certificates": [{"chain": chain, "key": key}]}},
                             http={"compression": {"codings": ["gzip"], "types": ["text/*"]}})
        for arguments in (["--http1.1"], ["--http2"], ["--http2", "--compressed"], ["--http1.1", "--compressed"]):
            status, body = self.curl(proxy, *arguments, "--limit-rate", "6M", path="/file", scheme="https")
            self.assertEqual((status, digest(body)), (200, expected), arguments)
        self.assertGreater(proxy.stats().total("http_body_file_written_bytes_total"), 0)

    # Requests

    def test_request_is_sent_when_complete(self):
        origin = self.keep(Origin())
        proxy = self.through(origin.address, {"requests": "16MiB"})
        body = os.urandom(3 * MIB)
        with connect(proxy.address()) as client:
            client.sendall(b"POST / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n")
            half = len(body) // 2
            client.sendall(b"%x\r\n%s\r\n" % (half, body[:half]))
            proxy.wait_for(lambda s: s.total("body_file_bytes") > MIB, 10, "the body to be there")
            self.assertEqual(origin.connections, 0)
            client.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body) - half, body[half:]))
            response = b""
            while b"ok" not in response:
                response += client.recv(4096)
        (method, fields, received), = origin.requests
        self.assertEqual((method, received), ("POST", body))
        self.assertEqual(fields.get("content-length"), str(len(body)))
        self.assertNotIn("transfer-encoding", fields)
        self.assertEqual(proxy.stats().total("body_file_bytes"), 0)

    def test_proxy_sends_100_continue(self):
        """A client that waits for 100 Continue would wait forever: the request is sent upstream only with its body."""
        origin = self.keep(Origin())
        proxy = self.through(origin.address, {"requests": "1MiB"})
        with connect(proxy.address()) as client:
            client.sendall(b"PUT / HTTP/1.1\r\nhost: a.test\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
            receive_until(client, b"100 Continue\r\n\r\n")
            client.sendall(b"hello")
            response = b""
            while b"ok" not in response:
                response += client.recv(4096)
        (_, fields, received), = origin.requests
        self.assertEqual(received, b"hello")
        self.assertNotIn("expect", fields)

    def test_request_larger_than_buffer(self):
        """`buffer.requests` bytes of the body are buffered before the request is sent; the rest is forwarded as it
        arrives."""
        origin = self.keep(Origin())
        proxy = self.through(origin.address, {"requests": "256KiB"})
        body = os.urandom(4 * MIB)
        path = f"{self.temporary_directory()}/body"
        with open(path, "wb") as file:
            file.write(body)
        for arguments in (["--http1.1"], ["--http2-prior-knowledge"], ["--http2-prior-knowledge", "--limit-rate", "8M"]):
            self.assertEqual(self.curl(proxy, *arguments, "--data-binary", f"@{path}"), (200, b"ok"), arguments)
            self.assertEqual(digest(origin.requests[-1][2]), digest(body))

    def test_body_is_resent(self):
        """The whole body is resent when its first endpoint resets the connection, however large it is."""
        origin = self.keep(Origin(cut_first=True))
        proxy = self.through(origin.address, {"requests": "16MiB"}, route={"retry": {"on": ["reset"], "attempts": 3}})
        path = f"{self.temporary_directory()}/body"
        body = os.urandom(2 * MIB)
        with open(path, "wb") as file:
            file.write(body)
        self.assertEqual(self.curl(proxy, "-T", path, path="/x"), (200, b"ok"))
        self.assertEqual([digest(request[2]) for request in origin.requests], [digest(body)] * 2)

    def test_client_that_never_ends_its_request(self):
        origin = self.keep(Origin())
        proxy = self.through(origin.address, {"requests": "1MiB"}, http={"body_timeout": "300ms"})
        with connect(proxy.address()) as client:
            client.sendall(b"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 10\r\n\r\nhello")
            receive_until(client, b" 408 ")
        self.assertEqual(origin.connections, 0)

    # The file

    def test_missing_directory(self):
        with self.assertRaisesRegex(harness.ProxyError, "body_file: cannot keep bytes in a file in /nowhere"):
            self.through("127.0.0.1:1", {"requests": "1MiB"}, directory="/nowhere")


if __name__ == "__main__":
    harness.main()
