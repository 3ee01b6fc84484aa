"""Failing endpoints, and the other ways of a request: `retry`, `retry_budget`, `split`, `mirror`, and the timeouts of
routes. curl sends the requests; the upstreams are servers of this file, and nginx.
"""

import http.server
import re
import socket
import subprocess
import threading

import harness
from origins import free_port
from programs import Nginx


class Origin:
    """Responds to its n-th request with what `response(n, handler)` returns: (status, body)."""

    def __init__(self, response):
        seen, lock = [], threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with lock:
                    seen.append((self.command, self.path, body))
                    number = len(seen)
                status, text = response(number, self)
                if status == 0:  # No response.
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = serve

            def log_message(self, *_):
                pass

        self.seen = seen
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # Errors of clients that did not wait for the response.
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Retries(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.need("curl", "wrk", "nginx")

    def origin(self, response):
        return self.keep(Origin(response))

    def through(self, route, upstreams, **http):
        """A proxy with this route; upstreams are addresses by name, or maps with options."""
        return self.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {"routes": [route], **http}}],
            "upstreams": [{"name": name, **(each if isinstance(each, dict) else {"endpoints": [each]})}
                          for name, each in upstreams.items()],
        })

    def curl(self, proxy, *arguments, path="/"):
        """Returns (status, body)."""
        run = subprocess.run(["curl", "-s", "-m", "20", "-w", "\n%{http_code}", *arguments,
                              f"http://127.0.0.1:{proxy.port()}{path}"], capture_output=True, text=True, check=True)
        body, _, status = run.stdout.rpartition("\n")
        return int(status), body

    def test_retried_requests(self):
        """A 503, a connection that ends without a response, and a response that takes too long are retried; POST is
        not."""
        retry = {"on": ["5xx", "reset", "timeout"], "try_timeout": "300ms", "backoff": 0, "max_backoff": 0}
        enough = threading.Event()
        self.addCleanup(enough.set)

        def response(number, handler):
            if handler.path == "/slow" and number == 1:
                enough.wait(2)
            if handler.path == "/cut" and number == 1:
                return 0, b""
            return (503, b"no") if number == 1 else (200, b"again")

        for path in ("/", "/cut", "/slow"):
            for method, data in (("GET", None), ("PUT", "x" * 3000)):
                with self.subTest(path=path, method=method):
                    origin = self.origin(response)
                    proxy = self.through({"forward": "main", "retry": retry}, {"main": origin.address})
                    arguments = ["-X", method] + (["--data-binary", data] if data else [])
                    self.assertEqual(self.curl(proxy, *arguments, path=path), (200, "again"))
                    self.assertEqual([request[2] for request in origin.seen], [(data or "").encode()] * 2)
                    self.assertEqual(self.stop(proxy).total("upstream_retries_total"), 1)
        origin = self.origin(response)
        proxy = self.through({"forward": "main", "retry": retry}, {"main": origin.address})
        self.assertEqual(self.curl(proxy, "-d", "once"), (503, "no"))
        self.assertEqual(len(origin.seen), 1)

    def test_another_endpoint_is_tried(self):
        bad, good = self.origin(lambda *_: (500, b"bad")), self.origin(lambda *_: (200, b"good"))
        proxy = self.through({"forward": "main", "retry": {"on": ["5xx"]}},
                             {"main": {"endpoints": [bad.address, good.address]}})
        for _ in range(10):
            self.assertEqual(self.curl(proxy), (200, "good"))
        self.assertGreater(len(bad.seen), 0)

    def test_retries_are_bounded(self):
        """Everything fails under load (wrk): the upstream gets at most 1.2 times the requests of the clients."""
        port = free_port()
        nginx = self.keep(Nginx([("127.0.0.1", port)],
                                f"server {{ listen 127.0.0.1:{port}; location / {{ return 503; }} }}"))
        self.assertIsNotNone(nginx)
        proxy = self.through({"forward": "main", "retry": {"on": "5xx", "attempts": 10, "backoff": 0, "max_backoff": 0}},
                             {"main": {"endpoints": [f"127.0.0.1:{port}"], "retry_budget": {"percent": 20, "min": 3}}})
        subprocess.run(["wrk", "-t", "1", "-c", "16", "-d", "2s", f"http://127.0.0.1:{proxy.port()}/"],
                       stdout=subprocess.DEVNULL, check=True)
        stats = self.stop(proxy, cut_allowed=True)
        requested, sent = stats.total("http_requests_total"), stats.total("upstream_requests_total")
        self.assertGreater(requested, 100)
        self.assertLessEqual(sent, requested * 1.2 + 3)
        self.assertGreater(sent, requested * 1.1)
        self.assertGreater(stats.total("upstream_retries_over_budget_total"), 0)

    def test_split(self):
        first, second = self.origin(lambda *_: (200, b"first")), self.origin(lambda *_: (200, b"second"))
        proxy = self.through({"split": [{"forward": "first", "weight": 3}, {"forward": "second"}]},
                             {"first": first.address, "second": second.address})
        urls = [f"http://127.0.0.1:{proxy.port()}/{i}" for i in range(400)]
        run = subprocess.run(["curl", "-s", "-m", "20", *urls], capture_output=True, text=True, check=True)
        self.assertEqual(len(re.findall("first|second", run.stdout)), 400)
        self.assertEqual(len(first.seen) + len(second.seen), 400)
        self.assertTrue(240 < len(first.seen) < 360, len(first.seen))

    def test_mirror(self):
        """Copies arrive complete; neither a slow mirror nor a dead one delays requests."""
        enough = threading.Event()
        self.addCleanup(enough.set)

        def slow(*_):
            enough.wait(20)
            return 200, b"late"

        main, copies = self.origin(lambda *_: (200, b"main")), self.origin(slow)
        proxy = self.through({"forward": "main", "mirror": {"to": "copies"}},
                             {"main": main.address, "copies": copies.address})
        self.assertEqual(self.curl(proxy, "-d", "x" * 20_000, path="/a?b"), (200, "main"))
        harness.wait_until(lambda: copies.seen, what="the copy")
        self.assertEqual(copies.seen, [("POST", "/a?b", b"x" * 20_000)])
        enough.set()
        gone = self.through({"forward": "main", "mirror": {"to": "copies"}},
                            {"main": main.address, "copies": f"127.0.0.1:{free_port()}"})
        self.assertEqual(self.curl(gone), (200, "main"))
        gone.wait_for(lambda stats: stats.total("upstream_mirrors_given_up_total") == 1)

    def nginx(self, response):
        """nginx on a port of its own, which becomes free when it is closed."""
        port = free_port()
        return f"127.0.0.1:{port}", lambda: Nginx([("127.0.0.1", port)], f"""
            server {{ listen 127.0.0.1:{port}; location / {{ return {response}; }} }}""")

    def test_endpoints_that_fail_in_different_ways(self):
        """nginx that responds with 503, an endpoint that ends connections without a response, an address without a
        server, and an endpoint that works."""
        addresses = []
        for response in ('503 "busy"', "444", '200 "served"'):
            address, start = self.nginx(response)
            self.keep(start())
            addresses.append(address)
        retry = {"on": ["connect_failure", "refused", "reset", "5xx"], "attempts": 4, "backoff": 0, "max_backoff": 0}
        proxy = self.through({"forward": "main", "retry": retry},
                             {"main": {"endpoints": [*addresses, f"127.0.0.1:{free_port()}"], "max_fails": 0}})
        for _ in range(20):
            self.assertEqual(self.curl(proxy), (200, "served"))
        stats = proxy.stats()
        self.assertGreater(stats.total("upstream_retries_total"), 10)
        self.assertGreater(stats.connect_errors("refused"), 0)
        self.assertEqual(stats.total("http_requests_ended_total", reason="ok"), 20)

    def test_flapping_endpoint(self):
        """nginx dies and recovers, under load; with retries, ejection and a slow start no client sees it."""
        steady, start = self.nginx('200 "steady"')
        self.keep(start())
        flapping, start = self.nginx('200 "flapping"')
        retry = {"on": ["connect_failure", "refused", "reset"], "attempts": 3, "backoff": 0, "max_backoff": 0}
        proxy = self.through({"forward": "main", "retry": retry}, {"main": {
            "endpoints": [steady, flapping], "max_fails": 0, "slow_start": "200ms",
            "ejection": {"consecutive_errors": 2, "time": "200ms", "max_time": "200ms"}}})
        with subprocess.Popen(["wrk", "-t1", "-c8", "-d5s", f"http://127.0.0.1:{proxy.port()}/"],
                              stdout=subprocess.PIPE, text=True) as load:
            for _ in range(3):
                served = proxy.stats().total("endpoint_received_bytes_total", endpoint=flapping)
                server = start()
                try:
                    proxy.wait_for(lambda stats, served=served: stats.total(
                        "endpoint_received_bytes_total", endpoint=flapping) > served, what="its return")
                finally:
                    server.close()
            text, _ = load.communicate(timeout=30)
        self.assertNotIn("Socket errors", text)
        self.assertNotIn("Non-2xx", text)
        stats = proxy.stats()
        self.assertGreater(stats.total("endpoint_ejections_total", endpoint=flapping), 0)
        self.assertGreater(stats.connect_errors("refused", endpoint=flapping), 0)

    def test_route_timeouts(self):
        enough = threading.Event()
        self.addCleanup(enough.set)

        def slow(*_):
            enough.wait(2)
            return 200, b"late"

        for times in ({"response_timeout": "200ms"}, {"request_timeout": "200ms"}, {"stream_idle_timeout": "200ms"}):
            with self.subTest(times):
                proxy = self.through({"forward": "main", **times}, {"main": self.origin(slow).address})
                self.assertEqual(self.curl(proxy)[0], 504)


if __name__ == "__main__":
    harness.main()
