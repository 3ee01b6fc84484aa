"""Options of routes, endpoints and pools that no other test covers, one row for each: the request, and the result. In
front of nginx, whose response describes the request.
"""

import http.client
import pathlib
import socket
import tempfile
import threading

import harness
from origins import free_port
from programs import Nginx

FORWARD = {"forward": "main"}


def matching(**match):
    return {"match": match, "respond": {"body": "taken"}}


def field(**value):
    return matching(headers=[{"name": "x-kind", **value}])


def parameter(**value):
    return matching(query=[{"name": "kind", **value}])


# A route, a request, and whether the route matches it.
MATCHES = [
    (field(prefix="cat"), "/", {"x-kind": "catalogue"}, True),
    (field(prefix="cat"), "/", {"x-kind": "a cat"}, False),
    (field(suffix="cat"), "/", {"x-kind": "a cat"}, True),
    (field(suffix="cat"), "/", {"x-kind": "catalogue"}, False),
    (field(contains="cat"), "/", {"x-kind": "bobcats"}, True),
    (field(contains="cat"), "/", {"x-kind": "c-a-t"}, False),
    (field(contains="cat", **{"not": True}), "/", {"x-kind": "dog"}, True),
    (field(contains="cat"), "/", {}, False),
    (parameter(prefix="cat"), "/?a=b&kind=catalogue", {}, True),
    (parameter(prefix="cat"), "/?kind=bobcat", {}, False),
    (parameter(suffix="cat"), "/?kind=dog&kind=bobcat", {}, True),
    (parameter(suffix="cat"), "/?kind=cats", {}, False),
    (parameter(contains="cat"), "/?kind=bobcats", {}, True),
    (parameter(contains="cat"), "/?other=bobcats", {}, False),
]


class Options(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.need("nginx")
        folder = tempfile.TemporaryDirectory(prefix="sluice-options-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text.txt").write_text("some text " * 1000, encoding="ascii")

    def nginx(self, name="nginx", rate=""):
        """Responds with its name and the request. /text.txt is a file of 10 kB, sent at `rate` bytes per second."""
        port = free_port()
        server = self.keep(Nginx([("127.0.0.1", port)], f"""
            server {{
                listen 127.0.0.1:{port}; root {self.folder}; keepalive_timeout 60s; default_type text/plain;
                client_max_body_size 0; types {{ text/plain txt; }}
                location / {{ return 200 "{name} $request_uri $http_x_own $connection"; }}
                location /text.txt {{ {f"limit_rate {rate};" if rate else ""} }}
            }}"""))
        server.address = f"127.0.0.1:{port}"
        return server

    def through(self, routes, endpoints, http=None, **upstream):
        return self.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {"routes": routes, **(http or {})}}],
            "upstreams": [{"name": "main", "endpoints": list(endpoints), **upstream}],
        })

    def send_request(self, proxy, path="/", method="GET", fields=None, body=None, source=None):
        """Returns (status, fields, body)."""
        client = http.client.HTTPConnection(*proxy.address(), timeout=20, source_address=source and (source, 0))
        try:
            client.request(method, path, body, fields or {})
            response = client.getresponse()
            return response.status, response.headers, response.read().decode("latin-1")
        finally:
            client.close()

    def at_once(self, count, send_request):
        """The results of `count` threads."""
        results = []
        threads = [threading.Thread(target=lambda: results.append(send_request())) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(len(results), count)
        return results

    def test_conditions(self):
        """Conditions on a value: its prefix, its suffix, a part of it."""
        routes = [{**route, "match": {**route["match"], "path": {"prefix": f"/{number}"}}}
                  for number, (route, _, _, _) in enumerate(MATCHES)]
        proxy = self.through([*routes, FORWARD], [self.nginx().address])
        for number, (route, path, fields, taken) in enumerate(MATCHES):
            with self.subTest(match=route["match"], path=path, fields=fields):
                status, _, body = self.send_request(proxy, f"/{number}{path}", fields=fields)
                self.assertEqual(status, 200)
                self.assertEqual(body == "taken", taken, body)

    def test_routes(self):
        def at(prefix, **more):
            return {"match": {"path": {"prefix": prefix}}, **FORWARD, **more}
        proxy = self.through([
            at("/allowed", allow=["127.0.0.2"]),
            at("/added", request_headers=[{"name": "x-own", "add": "by %{method}"}],
               response_headers=[{"name": "x-more", "add": "one"}, {"name": "x-more", "add": "two"}]),
            at("/small", max_body="10"),
            at("/text.txt"),
            at("/plain", compression=False, rewrite={"prefix": "/text.txt"}),
            {"match": {"path": {"prefix": "/moved"}}, "redirect": {"path": "/here", "drop_query": True}},
            {"match": {"path": {"prefix": "/kept"}}, "redirect": {"path": "/here"}},
        ], [self.nginx().address], http={"compression": {}})
        self.assertEqual(self.send_request(proxy, "/allowed")[0], 403)
        self.assertEqual(self.send_request(proxy, "/allowed", source="127.0.0.2")[0], 200)
        _, fields, body = self.send_request(proxy, "/added")
        self.assertIn("/added by GET", body)
        self.assertEqual(fields.get_all("x-more"), ["one", "two"])
        self.assertEqual(self.send_request(proxy, "/small", "POST", body=b"b" * 10)[0], 200)
        self.assertEqual(self.send_request(proxy, "/small", "POST", body=b"b" * 11)[0], 413)
        self.assertEqual(self.send_request(proxy, "/other", "POST", body=b"b" * 11)[0], 404)
        gzip = {"accept-encoding": "gzip"}
        self.assertEqual(self.send_request(proxy, "/text.txt", fields=gzip)[1]["content-encoding"], "gzip")
        status, fields, body = self.send_request(proxy, "/plain", fields=gzip)
        self.assertEqual((status, fields["content-encoding"], len(body)), (200, None, 10_000))
        self.assertTrue(self.send_request(proxy, "/moved?a=b")[1]["location"].endswith("/here"))
        self.assertTrue(self.send_request(proxy, "/kept?a=b")[1]["location"].endswith("/here?a=b"))
        stats = proxy.wait_for(lambda s: s.total("http_requests_ended_total", reason="body_too_large") == 1)
        self.assertEqual(stats.total("http_requests_ended_total", reason="forbidden"), 1)

    def shares(self, proxy, count, path="/"):
        """How many requests each endpoint served, sent one after the other."""
        names = [self.send_request(proxy, path)[2].split(" ")[0] for _ in range(count)]
        return {name: names.count(name) for name in set(names)}

    def test_weight(self):
        one, other = self.nginx("one"), self.nginx("other")
        endpoints = [{"address": one.address, "weight": 3}, {"address": other.address, "weight": 1}]
        self.assertEqual(self.shares(self.through([FORWARD], endpoints), 80), {"one": 60, "other": 20})

    def test_random(self):
        """Neither round robin nor a single endpoint: 200 coin flips."""
        one, other = self.nginx("one"), self.nginx("other")
        proxy = self.through([FORWARD], [one.address, other.address], balance="random")
        shares = self.shares(proxy, 200)
        self.assertEqual(sum(shares.values()), 200)
        self.assertGreater(min(shares.values()), 55, shares)  # More than six standard deviations.

    def test_failover_below(self):
        """One of two endpoints of the first priority is left. With 50 that is enough, and with 100 half of the requests
        go to the next priority."""
        one, gone, spare = self.nginx("one"), f"127.0.0.1:{free_port()}", self.nginx("spare")
        endpoints = [{"address": one.address}, {"address": gone}, {"address": spare.address, "priority": 1}]
        for below, expected in ((50, False), (100, True)):
            with self.subTest(failover_below=below):
                proxy = self.through([FORWARD], endpoints, failover_below=below, fail_timeout="60s")
                self.shares(proxy, 4)  # Now the proxy knows that the endpoint is down.
                shares = self.shares(proxy, 40)
                self.assertEqual("spare" in shares, expected, shares)
                self.assertGreater(shares.get("one", 0), 10)

    def test_least_request(self):
        """The slow endpoint gets clearly fewer requests."""
        fast, slow = self.nginx("fast"), self.nginx("slow", rate="8k")
        proxy = self.through([FORWARD], [fast.address, slow.address], balance="least_request")

        def send_requests():
            return [self.send_request(proxy, "/text.txt")[0] for _ in range(12)]
        for statuses in self.at_once(8, send_requests):
            self.assertEqual(set(statuses), {200})
        stats = proxy.wait_for(lambda s: s.total("upstream_requests_total") == 96)
        received = {server: stats.total("endpoint_received_bytes_total", endpoint=server.address)
                    for server in (fast, slow)}
        self.assertGreater(received[fast], 3 * received[slow], received)
        self.assertGreater(received[slow], 0)

    def test_idle_connections(self):
        """The pool keeps as many idle connections as configured, for as long as configured."""
        server = self.nginx(rate="8k")
        proxy = self.through([FORWARD], [server.address], pool={"max_idle": 1, "idle_timeout": "3s"})
        self.at_once(4, lambda: self.send_request(proxy, "/text.txt"))
        self.assertEqual(proxy.stats().total("upstream_connections_opened_total"), 4)
        harness.wait_until(lambda: server_connections(server) <= 1, what="all but one to be closed")
        connections = [self.send_request(proxy)[2].split(" ")[-1] for _ in range(2)]
        self.assertEqual(connections[0], connections[1])
        harness.wait_until(lambda: server_connections(server) == 0, what="the idle one to be closed")
        self.assertNotEqual(self.send_request(proxy)[2].split(" ")[-1], connections[1])

    def test_full_endpoints(self):
        """Requests beyond `max_connections_per_endpoint` fail at once; they are not queued."""
        proxy = self.through([FORWARD], [self.nginx(rate="8k").address], max_connections_per_endpoint=2)
        statuses = sorted(status for status, _, _ in self.at_once(4, lambda: self.send_request(proxy, "/text.txt")))
        self.assertEqual(statuses, [200, 200, 503, 503])
        proxy.wait_for(lambda s: s.total("http_requests_ended_total", reason="no_endpoint") == 2)

    def test_pending_requests(self):
        """At most `pool.max_pending` requests wait for a connection; the others fail at once."""
        with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
            full = [socket.socket() for _ in range(4)]  # Its accept queue is full, and it does not respond.
            for each in full:
                self.addCleanup(each.close)
                each.setblocking(False)
                each.connect_ex(server.getsockname())
            proxy = self.through([FORWARD], [f"127.0.0.1:{server.getsockname()[1]}"], pool={"max_pending": 2},
                                 connect_timeout="1s")
            responses = self.at_once(5, lambda: self.send_request(proxy))
            self.assertEqual({status for status, _, _ in responses}, {503})
            stats = proxy.wait_for(lambda s: s.total("http_requests_active") == 0)
            self.assertEqual(stats.total("http_requests_ended_total", reason="too_many_pending"), 3)
            self.assertEqual(stats.total("http_requests_ended_total", reason="no_endpoint"), 2)
            self.assertEqual(stats.total("upstream_pending_refused_total"), 3)


def server_connections(server):
    """How many established connections to it the kernel knows."""
    port = f":{int(server.address.split(':')[1]):04X}"
    with open("/proc/net/tcp", encoding="ascii") as table:
        return sum(row.split()[2].endswith(port) and row.split()[3] == "01" for row in list(table)[1:])


if __name__ == "__main__":
    harness.main()
