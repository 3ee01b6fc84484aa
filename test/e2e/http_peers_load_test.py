"""HTTP under load: h2load, wrk, ab and nghttp in front of the proxy, servers behind it that close connections, and
SIGTERM under load."""

import os
import re
import signal
import time

import harness
from harness import KIB, LONG, SLOWNESS, need, print_note
from http_peers_support import KINDS, HttpTest, words

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS


class Load(HttpTest):
    """Programs that send as fast as they can: each request gets its response."""

    def h2load(self, proxy, client, path, requests, *arguments):
        # Over TLS, h2load uses HTTP/2 by default.
        old = ("--h1",) if client[0] == "http1" else ()
        output = self.call(need("h2load"), "-n", str(requests), *old, *arguments, self.url(proxy, client, path).replace(
            "localhost", "127.0.0.1")).stdout.decode()
        self.assertIn(f"status codes: {requests} 2xx, 0 3xx, 0 4xx, 0 5xx", output)
        self.assertIn(f"requests: {requests} total, {requests} started, {requests} done, {requests} succeeded, "
                      "0 failed, 0 errored, 0 timeout", output)
        print_note(f"{words(client)} {path}: " + re.search(r"finished in .*", output)[0])

    def test_h2load(self):
        self.write("body", os.urandom(64 * KIB))
        for server in (HTTP1, HTTP2, HTTP2_TLS):
            proxy = self.through(self.web_server(server, files=self.files), top={"workers": 2})
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    streams = ("-m", "16") if client[0] == "http2" else ()
                    self.h2load(proxy, client, "/small", 50_000 if LONG else 3000, "-c", "20", *streams)
                    self.h2load(proxy, client, "/files/body", 10_000 if LONG else 500, "-c", "10", *streams)

    def test_h2load_uploads(self):
        path = self.write("upload", os.urandom(100_000))
        for server in (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server))
            for client in (HTTP1, HTTP2, HTTP2_TLS):
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    self.h2load(proxy, client, "/echo", 300, "-c", "5", "-d", path,
                                *(("-m", "10") if client[0] == "http2" else ()))

    def test_wrk(self):
        self.write("body", os.urandom(64 * KIB))
        for server in (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server, files=self.files), top={"workers": 2},
                                 http={"http1": {"max_requests": 100}})  # wrk reconnects.
            for client, path in ((HTTP1, "/small"), (HTTP1_TLS, "/files/body")):
                with self.subTest(f"{words(client)} -> {words(server)}: {path}"):
                    output = self.call(need("wrk"), "-t1", "-c32", "-d10s" if LONG else "-d1s",
                                       self.url(proxy, client, path)).stdout.decode()
                    self.assertNotIn("Socket errors", output)
                    self.assertNotIn("Non-2xx", output)
                    print_note(f"{words(client)} -> {words(server)}: " + re.search(r"Requests/sec:.*", output)[0])

    def test_ab(self):
        """HTTP/1.0, with and without keep-alive."""
        ab = need("ab")
        for server in (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server))
            for client in (HTTP1, HTTP1_TLS):
                for arguments in (("-k",), ()):
                    with self.subTest(f"{words(client)} -> {words(server)} {arguments}"):
                        output = self.call(ab, "-n", "1000" if arguments else "200", "-c", "10", *arguments, self.url(
                            proxy, client, "/small").replace("localhost", "127.0.0.1")).stdout.decode()
                        self.assertRegex(output, r"Failed requests: +0\n")
                        self.assertNotIn("Non-2xx", output)
                        if arguments:
                            self.assertRegex(output, r"Keep-Alive requests: +(1000|9\d\d)\n")


class Nghttp(HttpTest):

    def setUp(self):
        super().setUp()
        self.write("body", os.urandom(100_000))
        self.write("index.html", b"<!DOCTYPE html><link rel=stylesheet href=1.css><script src=2.js></script>"
                   b"<img src=3.png>")
        for name in ("1.css", "2.js", "3.png"):
            self.write(name, b"x" * 50_000)

    def nghttp(self, proxy, client, path, *arguments):
        result = self.call(need("nghttp"), "-v", "-y", *arguments, self.url(proxy, client, path))
        return result.stdout.decode(errors="replace")

    def each(self, check):
        for server in (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server, files=self.files))
            for client in (HTTP2, HTTP2_TLS):
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    check(proxy, client)

    def test_repeated_requests(self):
        def check(proxy, client):
            output = self.nghttp(proxy, client, "/files/body", "-n", "-m", "200")
            self.assertEqual(len(re.findall(r":status: 200", output)), 200)
            self.assertNotIn("RST_STREAM", output)
        self.each(check)

    def test_trailers(self):
        def check(proxy, client):
            output = self.nghttp(proxy, client, "/trailers", "-d", os.path.join(self.files, "body"),
                                 "--no-content-length", "--trailer", "x-last: 7")
            self.assertIn("100000 bytes", output)
            self.assertIn("back-x-last: 7", output)
            self.assertIn("x-announced: yes", output)
        self.each(check)

    def test_priorities(self):
        """RFC 7540's priorities, which are obsolete, do no harm."""
        def check(proxy, client):
            for arguments in (("-a",), ("-a", "--no-dep"), ("-p", "7"), ("--no-rfc7540-pri",)):
                output = self.nghttp(proxy, client, "/files/" if "-a" in arguments else "/small", "-n", *arguments)
                self.assertEqual(output.count(":status: 200"), 4 if "-a" in arguments else 1, arguments)
        self.each(check)

    def test_frames(self):
        """Padding, CONTINUATION, small windows, HPACK tables of other sizes."""
        def check(proxy, client):
            for arguments in (("-b", "200"), ("--continuation",), ("-w", "10", "-W", "12"), ("-w", "30", "-W", "30"),
                              ("-c", "0"), ("-c", "100", "-c", "65536"), ("--encoder-header-table-size", "0"),
                              ("-d", os.path.join(self.files, "body"), "-b", "256"),
                              ("-d", os.path.join(self.files, "body"), "--no-content-length"),
                              ("-d", os.path.join(self.files, "body"), "--expect-continue")):
                path = "/echo" if "-d" in arguments else "/files/body"
                output = self.nghttp(proxy, client, path, *(() if "-d" in arguments else ("-n",)), "-m", "3", *arguments)
                self.assertEqual(output.count(":status: 200"), 3, (arguments, output[-3000:]))
                self.assertNotIn("RST_STREAM", output, arguments)
                if "-d" in arguments:
                    self.assertEqual(output.count('"Bytes":100000'), 3)
        self.each(check)


class Upstreams(HttpTest):
    """The connections to upstreams."""

    def test_connections_are_reused(self):
        for server in KINDS:
            proxy = self.through(self.web_server(server))
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    url = self.url(proxy, client, "/echo?[1-30]")
                    if client != HTTP2:  # See check_reuse.
                        output = self.call(need("curl"), *self.curl_options(client), url).stdout.decode()
                        self.assertEqual(re.findall(r'"Connection":(\d+)', output), ["1"] * 30)
                    # Also for other clients.
                    for _ in range(3):
                        self.assertEqual(self.curl(proxy, client, "/echo").json()["Connection"], 1)

    def test_one_http2_connection_is_enough(self):
        for server in (HTTP2, HTTP2_TLS):
            proxy = self.through(self.web_server(server))
            with self.subTest(words(server)):
                self.call(need("h2load"), "-n", "2000", "-c", "10", "-m", "5",
                          self.url(proxy, HTTP2, "/small").replace("localhost", "127.0.0.1"))
                self.assertLessEqual(self.curl(proxy, HTTP2, "/echo").json()["Connection"], 2)

    def test_server_with_few_streams(self):
        """More simultaneous requests than one connection of the server allows: they wait, or use another connection,
        and none fails."""
        proxy = self.through(self.web_server(HTTP2, max_streams=3))
        for client in (HTTP1, HTTP2):
            with self.subTest(words(client)):
                self.go_client(proxy, client, "/drip?pieces=3&ms=5", requests=60)

    def check_closing_server(self, how):
        """Requests one after another, and many at once, while the server closes idle connections."""
        for server in KINDS:
            proxy = self.through(self.web_server(server, hang_up=how), max_fails=0)
            for client in (HTTP1, HTTP2_TLS):
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    output = self.call(need("curl"), *self.curl_options(client), "-o", "/dev/null", "-w", "%{http_code},",
                                       self.url(proxy, client, "/small?[1-500]")).stdout.decode()
                    self.assertEqual(output, "200," * 500)
                    streams = ("-m", "5") if client[0] == "http2" else ("--h1",)
                    output = self.call(need("h2load"), "-n", "500", "-c", "10", *streams, self.url(
                        proxy, client, "/small").replace("localhost", "127.0.0.1")).stdout.decode()
                    self.assertIn("status codes: 500 2xx", output)

    def test_server_that_always_closes(self):
        self.check_closing_server("always")

    def test_server_that_sometimes_closes(self):
        self.check_closing_server("sometimes")


class Drain(HttpTest):
    """SIGTERM: requests in progress are finished."""

    def drained(self, proxy, seconds):
        """The proxy ends by itself (a second signal would cut the remaining requests), and nothing is left."""
        proxy.process.wait(seconds * SLOWNESS)
        return self.stop(proxy)

    def begin(self, proxy, client, path, *arguments):
        child = harness.spawn([need("curl"), *self.curl_options(client), *arguments, self.url(proxy, client, path)],
                              stdout=-1, stderr=-1, text=True)
        self.addCleanup(harness.end, child)
        return child

    def test_requests_are_finished(self):
        ways = [("/sleep?ms=1500", "slept"), ("/drip?pieces=30&ms=50", "".join(f"piece {i}\n" for i in range(30)))]
        for server in (HTTP1, HTTP2):
            proxy = self.through(self.web_server(server))
            running = [(f"{words(client)} -> {words(server)}: {path}", body,
                        self.begin(proxy, client, path, "-w", "%{http_code}"))
                       for client in KINDS for path, body in ways for _ in range(3)]
            # Another client of each kind has its response, and waits for a long time before its next request.
            for client in KINDS:
                self.begin(proxy, client, "/small?[1-2]", "--rate", "1/h")
            time.sleep(0.7)
            proxy.signal(signal.SIGTERM)
            for name, body, child in running:
                out, error = child.communicate(timeout=20 * SLOWNESS)
                with self.subTest(name):
                    self.assertEqual(out, body + "200", error)
            self.drained(proxy, 4)  # The waiting clients do not read, and do not delay the end.

    def test_connections_end_in_order(self):
        """HTTP/1.1 clients get `connection: close` with the last response, HTTP/2 clients get GOAWAY; new connections
        are refused."""
        for client in KINDS:
            with self.subTest(words(client)):
                proxy = self.through(self.web_server(HTTP1))
                if client[0] == "http2":
                    last = harness.spawn([need("nghttp"), "-v", "-y", self.url(proxy, client, "/sleep?ms=800")],
                                         stdout=-1)
                else:
                    last = harness.spawn([need("curl"), *self.curl_options(client), "-i", self.url(
                        proxy, client, "/sleep?ms=800")], stdout=-1)
                proxy.wait_for(lambda s: s.total("endpoint_connections_active") == 1, what="the request to be under way")
                proxy.signal(signal.SIGTERM)
                proxy.wait_for_output("draining")
                self.assertEqual(self.call(need("curl"), *self.curl_options(client), self.url(proxy, client, "/small"),
                                           check=False).returncode, 7)
                output = last.communicate(timeout=10 * SLOWNESS)[0].decode()
                self.assertIn("slept", output)
                if client[0] == "http2":
                    self.assertRegex(output, r"recv GOAWAY frame")
                    self.assertRegex(output, r"error_code=NO_ERROR")
                    self.assertNotIn("RST_STREAM", output)
                else:
                    self.assertRegex(output, r"(?i)\r\nconnection: close\r\n")
                self.drained(proxy, 5)

    def test_load(self):
        """No request is lost under load. (h2load counts requests as failed that it had not sent when GOAWAY arrived. So
        the proxy's counters have how many there were.)"""
        for client in (HTTP2, HTTP2_TLS):
            with self.subTest(words(client)):
                proxy = self.through(self.web_server(HTTP1))
                load = harness.spawn([need("h2load"), "-D", "5", "--warm-up-time=0", "-c", "8", "-m", "4", self.url(
                    proxy, client, "/sleep?ms=5").replace("localhost", "127.0.0.1")], stdout=-1)
                proxy.wait_for(lambda s: s.total("http_requests_total") > 200, what="load")
                proxy.signal(signal.SIGTERM)
                stats = self.drained(proxy, 6)
                output = load.communicate(timeout=30 * SLOWNESS)[0].decode()
                succeeded = int(re.search(r"(\d+) succeeded", output)[1])
                self.assertGreater(succeeded, 100)
                self.assertEqual(stats.total("http_requests_ended_total", reason="ok"), succeeded)
                self.assertEqual(stats.total("http_requests_ended_total"), succeeded)
                self.assertIn(f"status codes: {succeeded} 2xx, 0 3xx, 0 4xx, 0 5xx", output)


if __name__ == "__main__":
    harness.main()
