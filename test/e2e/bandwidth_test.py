"""Limits of bandwidth, seen from outside: curl measures how fast bodies come, and clients and endpoints leave."""

import http.server
import re
import signal
import subprocess
import threading
import time

import harness
from harness import KIB, MIB, SLOWNESS, need
from origins import Origin, connect, reset
from tls_support import TlsTest

RATE, BURST, BODY = 512 * KIB, 128 * KIB, 2 * MIB
SECONDS = (BODY - BURST) / RATE


class Handler(http.server.BaseHTTPRequestHandler):
    """Responds with as many bytes as the path says, after it has read the request's body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        left = int(self.headers.get("content-length") or 0)
        while left > 0:
            left -= len(self.rfile.read(min(left, 64 * KIB)))
        count = int(re.sub(r"\D", "", self.path) or 0)
        self.send_response(200)
        self.send_header("content-length", str(count))
        self.end_headers()
        if self.command != "HEAD":
            try:
                for at in range(0, count, 64 * KIB):
                    self.wfile.write(bytes(min(64 * KIB, count - at)))
            except OSError:
                self.close_connection = True

    do_POST = do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()

    def handle_error(self, *_):
        pass


def bandwidth(rate="512KiB/s", burst="128KiB", **keys):
    return {"name": "bytes", "rate": rate, "burst": burst, "key": {"header": "x-key"}, **keys}


class Bandwidth(TlsTest):

    def paced(self, limit, endpoint=None, cut_allowed=False, http=None, **top):
        """A proxy with the listeners `main` and, with TLS, `secure`."""
        endpoint = endpoint or "127.0.0.1:%d" % self.keep(Server()).server_port
        config = harness.configuration([endpoint], rate_limits=[limit], **top)
        main = config["listeners"][0]
        del main["tcp"]
        main["http"] = {"response_bandwidth": "bytes", "request_bandwidth": "bytes", "forward": "main", **(http or {})}
        config["listeners"].append({**main, "name": "secure", "tls": {"certificates": [self.server]}})
        return self.start(config, cut_allowed=cut_allowed)

    def curl(self, proxy, key, path, *options, listener="main"):
        scheme = "https" if listener == "secure" else "http"
        return subprocess.Popen(
            [need("curl"), "-sS", "--max-time", str(60 * SLOWNESS), "--cacert", self.ca, "-o", "/dev/null", "-H",
             f"x-key: {key}", "-w", "%{http_code} %{size_download} %{time_total}", *options,
             f"{scheme}://localhost:{proxy.port(listener)}/{path}"], stdout=subprocess.PIPE, text=True)

    def measured(self, curl, size):
        """The seconds that it took."""
        out = curl.communicate(timeout=90 * SLOWNESS)[0].split()
        self.assertEqual((curl.returncode, out[:2]), (0, ["200", str(size)]))
        return float(out[2])

    def get(self, proxy, path="/", **options):
        client = self.keep(connect(proxy.address(), **options))
        client.sendall(f"GET /{path} HTTP/1.1\r\nhost: localhost\r\nx-key: a\r\n\r\n".encode())
        return client

    def test_rates(self):
        """Each key has its rate, in both versions of HTTP, with TLS, in both directions, on any worker."""
        proxy = self.paced(bandwidth(), workers=2)
        file = self.temporary_directory() + "/body"
        with open(file, "wb") as body:
            body.write(bytes(BODY))
        upload = ("-H", "expect:", "--data-binary", f"@{file}")
        ways = {
            "http1": (BODY, ("--http1.1",), "main"),
            "http2": (BODY, ("--http2-prior-knowledge",), "main"),
            "tls http1": (BODY, ("--http1.1",), "secure"),
            "tls http2": (BODY, ("--http2",), "secure"),
            "upload http1": (0, ("--http1.1", *upload), "main"),
            "upload http2": (0, ("--http2", *upload), "secure"),
        }
        curls = {name: (self.curl(proxy, name, str(size), *options, listener=listener), size)
                 for name, (size, options, listener) in ways.items()}
        for half in ("first half", "second half"):
            curls[half] = self.curl(proxy, "shared", str(BODY // 2), listener="secure"), BODY // 2
        # Meanwhile, what is within a burst does not wait.
        for name, options in (("head", ("--head",)), ("small", ())):
            small = self.curl(proxy, name, str(BODY if options else BURST // 2), *options)
            out = small.communicate(timeout=60 * SLOWNESS)[0].split()
            self.assertEqual(out[0], "200")
            self.assertLess(float(out[2]), SECONDS / 2 * SLOWNESS)
        for name, (curl, size) in curls.items():
            with self.subTest(name):
                seconds = self.measured(curl, size)
                harness.print_note(f"{name}: {seconds:.2f} s for {SECONDS:.2f} s")
                if name.endswith("half"):  # One of them may be done a little before the other.
                    self.assertGreater(seconds, SECONDS * 0.7)
                else:
                    self.assertGreater(seconds, SECONDS * 0.95)
                self.assertLess(seconds, (SECONDS * 1.1 + 2) * SLOWNESS)  # The machine may be busy.
        stats = self.stop(proxy)
        self.assertEqual(stats.total("rate_limit_bytes_total", limit="bytes"), 7 * BODY + BURST // 2)
        self.assertGreater(stats.total("rate_limit_delayed_bytes_total", limit="bytes"), 5 * BODY)
        self.assertEqual(stats.total("rate_limited_total", limit="bytes"), 0)

    def test_slow_rate(self):
        """A slow rate flows: the client gets some bytes in each second, and not a block now and then."""
        proxy = self.paced(bandwidth("2KiB/s", "1KiB"))
        client = self.get(proxy, "6000")
        client.settimeout(20 * SLOWNESS)
        begin, longest, count = time.monotonic(), 0, 0
        while count < 6000:
            before = time.monotonic()
            count += len(client.recv(65536))
            longest = max(longest, time.monotonic() - before)
        self.assertGreater(time.monotonic() - begin, 2.2)
        self.assertLess(longest, 1.5 * SLOWNESS)

    def test_clients_that_leave(self):
        """Their endpoints' connections are freed at once, and nothing of their bodies is kept."""
        proxy = self.paced(bandwidth("64KiB/s", "16KiB"), workers=2)
        clients = [self.get(proxy, str(50 * MIB)) for _ in range(40)]
        proxy.wait_for(lambda s: s.total("rate_limit_pauses_total") >= 40)
        for number, client in enumerate(clients):
            client.close() if number % 2 else reset(client)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("endpoint_connections_active") == 0 and
                       s.total("pool_pinned_bytes") <= 4096)
        stats = self.stop(proxy)
        self.assertEqual(stats.total("http_requests_ended_total", reason="client_reset"), 40)

    def test_endpoint_that_dies(self):
        """The client gets what had arrived, at its pace, and then sees that the rest is missing."""
        def die(sock):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + bytes(8000))
            sock.close()
        origin = self.keep(Origin(die))
        proxy = self.paced(bandwidth("4KiB/s", "1KiB"), endpoint=origin.address)
        begin = time.monotonic()
        client = self.get(proxy)
        client.settimeout(30 * SLOWNESS)
        data = b""
        while piece := client.recv(65536):
            data += piece
        self.assertEqual(len(data.partition(b"\r\n\r\n")[2]), 8000)
        self.assertGreater(time.monotonic() - begin, 1.5)
        proxy.wait_for(lambda s: s.total("endpoint_connections_active") == 0 and
                       s.total("http_requests_ended_total", reason="ok") == 0 and
                       s.total("sessions_active") == 0)

    def test_client_that_does_not_read(self):
        """It is not waited for longer than without a limit, and its bytes are not counted on."""
        proxy = self.paced(bandwidth("64MiB/s", "8MiB"), http={"send_timeout": "1s"})
        self.get(proxy, str(200 * MIB), receive_buffer=4096)
        stats = proxy.wait_for(lambda s: s.total("http_requests_ended_total", reason="send_timeout") == 1 or
                               s.ended("stuck") == 1, seconds=20)
        self.assertLess(stats.total("rate_limit_bytes_total"), 50 * MIB)
        proxy.wait_for(lambda s: s.total("endpoint_connections_active") == 0)

    def test_tcp(self):
        """Both directions of a TCP listener, in front of an HTTP server, by curl; both connections share the rate."""
        config = harness.configuration(["127.0.0.1:%d" % self.keep(Server()).server_port],
                                       rate_limits=[bandwidth(key={"source": True})], workers=2)
        config["listeners"][0]["tcp"] |= {"upload_bandwidth": "bytes"}
        config["listeners"].append({**config["listeners"][0], "name": "secure", "tls": {"certificates": [self.server]},
                                    "tcp": {"forward": "main", "download_bandwidth": "bytes"}})
        proxy = self.start(config)
        file = self.temporary_directory() + "/body"
        with open(file, "wb") as body:
            body.write(bytes(BODY))
        for listener, path, size, options in (("secure", str(BODY), BODY, ()), ("main", str(BODY), BODY, None),
                                              ("main", "0", 0, ("-H", "expect:", "--data-binary", f"@{file}"))):
            seconds = self.measured(self.curl(proxy, "x", path, *(options or ()), listener=listener), size)
            harness.print_note(f"tcp {listener} {size}: {seconds:.2f} s for {SECONDS if options is not None else 0:.2f} s")
            if options is None:  # Downloads of this listener have no limit.
                self.assertLess(seconds, SECONDS / 2 * SLOWNESS)
                continue
            self.assertGreater(seconds, SECONDS * 0.9)
            self.assertLess(seconds, (SECONDS * 1.1 + 2) * SLOWNESS)
            time.sleep(BURST / RATE)  # The key has its burst again.
        whole = [self.curl(proxy, "x", str(BODY // 2), listener="secure") for _ in range(2)]
        for curl in whole:
            self.assertGreater(self.measured(curl, BODY // 2), SECONDS * 0.7)
        stats = self.stop(proxy)
        self.assertGreater(stats.total("rate_limit_bytes_total", limit="bytes"), 3 * BODY)
        self.assertGreater(stats.total("rate_limit_pauses_total", limit="bytes"), 0)

    def test_drain(self):
        """A body that waits is in progress: it completes within the time to drain, and is cut at its end."""
        proxy = self.paced(bandwidth("64KiB/s", "16KiB"), cut_allowed=True, shutdown_timeout="4s")
        whole = self.curl(proxy, "whole", str(128 * KIB))
        cut = self.curl(proxy, "cut", str(10 * MIB))
        proxy.wait_for(lambda s: s.total("rate_limit_pauses_total") >= 4)
        proxy.signal(signal.SIGTERM)
        self.measured(whole, 128 * KIB)
        cut.communicate(timeout=60 * SLOWNESS)
        self.assertNotEqual(cut.returncode, 0)
        stats = self.stop(proxy, cut_allowed=True)
        self.assertEqual(stats.total("http_requests_ended_total", reason="shutdown"), 1)


if __name__ == "__main__":
    harness.main()
