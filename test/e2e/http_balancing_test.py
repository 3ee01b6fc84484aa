"""Load balancing: which endpoint requests and connections go to, with curl in front of nginx, Python's http.server and
Go's net/http. Keys and cookies keep their endpoints when another one dies, and priorities hold."""

import collections
import http.server
import json
import os
import re
import threading

import harness
from harness import wait_until
from http_peers_support import HttpTest
from origins import connect, free_port, receive_all
from programs import Nginx

HTTP1 = ("http1", False)
HTTP2 = ("http2", False)


class NamedNginx:
    """nginx that responds with its name. It can be stopped, and started again on its port."""

    def __init__(self, name):
        self.name = name
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.kind = HTTP1
        self._nginx = None
        self.start()

    def start(self):
        self._nginx = Nginx([("127.0.0.1", self.port)],
                            f'server {{ listen 127.0.0.1:{self.port}; location / {{ return 200 "{self.name}"; }} }}')

    def stop(self):
        if self._nginx:
            self._nginx.close()
        self._nginx = None

    close = stop


class NamedPython:
    """The same with Python's http.server."""

    def __init__(self, name):
        self.name = name
        self.kind = HTTP1

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(name)))
                self.end_headers()
                self.wfile.write(name.encode())

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Balancing(HttpTest):

    def servers(self):
        """Three servers of nginx and one of Python, by name."""
        all_of_them = [self.keep(NamedNginx(name)) for name in ("nginx1", "nginx2", "nginx3")]
        all_of_them.append(self.keep(NamedPython("python")))
        return {server.name: server for server in all_of_them}

    def names_of_servers(self, proxy, requests, listener="plain"):
        """The name of the server that responds to each request, from one run of curl. A request is a path and
        arguments."""
        arguments = []
        for path, *more in requests:
            arguments += ["--next"] if arguments else []
            arguments += ["-sS", "-w", "\n", *more, f"http://127.0.0.1:{proxy.port(listener)}{path}"]
        return self.call(harness.need("curl"), *arguments).stdout.decode().split()

    def users(self, proxy, count=40):
        names = [f"user{i}" for i in range(count)]
        return dict(zip(names, self.names_of_servers(proxy, [("/", "-H", f"X-User: {name}") for name in names])))

    def test_keys_keep_their_endpoints_when_one_dies(self):
        for balance in ("maglev", "ring_hash"):
            with self.subTest(balance):
                servers = self.servers()
                proxy = self.through(*servers.values(), balance=balance, hash={"header": "X-User"}, fail_timeout="300ms",
                                     top={"workers": 2})
                before = self.users(proxy)
                self.assertEqual(set(before.values()), set(servers))
                self.assertEqual(self.users(proxy), before)
                servers["nginx2"].stop()
                after = self.users(proxy)
                for user, name in before.items():
                    if name == "nginx2":
                        self.assertNotEqual(after[user], name)
                    else:
                        self.assertEqual(after[user], name, user)
                # Its users return to it.
                servers["nginx2"].start()
                wait_until(lambda: self.users(proxy) == before, 10, "the users to be where they were")

    def test_other_keys(self):
        servers = self.servers()
        keys = {"cookie": ({"cookie": "sid"}, lambda i: ("/", "-b", f"a=b; sid=s{i}")),
                "query": ({"query": "id"}, lambda i: (f"/x?a=b&id={i}",)),
                "path": ({"path": True}, lambda i: (f"/item/{i}?{os.urandom(4).hex()}",))}
        for name, (key, request) in keys.items():
            with self.subTest(name):
                proxy = self.through(*servers.values(), balance="maglev", hash=key)
                requests = [request(i) for i in range(30)]
                found = self.names_of_servers(proxy, requests)
                self.assertEqual(self.names_of_servers(proxy, [request(i) for i in range(30)]), found)
                self.assertGreater(len(set(found)), 2)
                # Without the field, by the client's address.
                self.assertEqual(len(set(self.names_of_servers(proxy, [("/", "-H", f"X-A: {i}") for i in range(8)])) if
                                     name != "path" else {1}), 1)

    def test_two_instances_choose_the_same_endpoints(self):
        """Each instance has the same endpoints in another order."""
        servers = self.servers()
        options = {"balance": "maglev", "hash": {"header": "x-user"}}
        one = self.through(*servers.values(), **options)
        other = self.through(*reversed(servers.values()), **options)
        self.assertEqual(self.users(one), self.users(other))

    def test_connections_by_source(self):
        """A `tcp` listener chooses by the client's address, and the HTTP that it carries goes to the same endpoint as
        with `http`."""
        servers = self.servers()
        upstream = self.upstream(*servers.values(), balance="maglev")
        config = self.configuration(upstream)
        config["listeners"].append({"name": "tcp", "address": "127.0.0.1:0", "tcp": {"forward": "main"}})
        proxy = self.start(config)

        def name_by_tcp(source):
            with connect(("127.0.0.1", proxy.port("tcp")), source=source) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return receive_all(sock).rsplit(b"\r\n", 1)[1].decode()

        sources = [f"127.0.0.{i}" for i in range(2, 22)]
        by_tcp = [name_by_tcp(source) for source in sources]
        self.assertGreater(len(set(by_tcp)), 2)
        self.assertEqual([name_by_tcp(source) for source in sources], by_tcp)
        self.assertEqual(self.names_of_servers(proxy, [("/", "--interface", source) for source in sources]), by_tcp)

    def test_http2_endpoints(self):
        """Go's net/http over HTTP/2: all requests of a key use the connections of one endpoint."""
        servers = [self.web_server(HTTP2) for _ in range(3)]
        proxy = self.through(*servers, balance="ring_hash", hash={"header": "x-user"})
        for _ in range(5):
            self.assertEqual(self.curl(proxy, HTTP2, "/echo", "-H", "X-User: alice").status, 200)
        stats = proxy.wait_for(lambda s: s.total("upstream_requests_total") == 5, what="5 requests")
        used = [server.address for server in servers
                if stats.total("endpoint_connections_total", endpoint=server.address)]
        self.assertEqual(len(used), 1)

    # ---- Cookies

    def test_sticky(self):
        servers = self.servers()
        proxy = self.through(*servers.values(), balance="round_robin", fail_timeout="300ms",
                             sticky={"cookie": "SRV", "ttl": "1h", "path": "/"})
        jar = self.temporary_directory() + "/jar"
        once = ("/", "-b", jar, "-c", jar)
        self.assertGreater(len(set(self.names_of_servers(proxy, [("/",)] * 8))), 3)  # Without the cookie, in turn.
        first, = self.names_of_servers(proxy, [once])
        with open(jar, encoding="ascii") as file:
            cookie = re.search(r"127\.0\.0\.1\s+FALSE\s+/\s+FALSE\s+\d+\s+SRV\s+([0-9a-f]{16})\n", file.read())[1]
        for _ in range(3):
            self.assertEqual(self.names_of_servers(proxy, [once, once]), [first, first])
        # No new cookie as long as it is valid; a new one when it is not.
        response = self.curl(proxy, HTTP1, "/", "-b", f"SRV={cookie}")
        self.assertNotIn("set-cookie", response.fields)
        response = self.curl(proxy, HTTP1, "/", "-b", "SRV=0123456789abcdef")
        self.assertRegex(response.fields["set-cookie"], r"^SRV=[0-9a-f]{16}; Path=/; Max-Age=3600; HttpOnly$")
        if first == "python":  # The Python server cannot be stopped.
            first = "nginx1"
            while self.names_of_servers(proxy, [("/", "-c", jar)]) != [first]:
                pass
        servers[first].stop()
        second, = self.names_of_servers(proxy, [once])
        self.assertNotEqual(second, first)
        servers[first].start()
        for _ in range(2):
            self.assertEqual(self.names_of_servers(proxy, [once] * 3), [second] * 3)
        stats = self.stop(proxy)
        self.assertGreaterEqual(stats.total("upstream_sticky_kept_total"), 10)
        self.assertGreaterEqual(stats.total("upstream_sticky_lost_total"), 1)

    def test_sticky_over_tls_and_http2(self):
        proxy = self.through(*self.servers().values(), sticky={})
        response = self.curl(proxy, ("http2", True), "/")
        self.assertRegex(response.fields["set-cookie"], r"^sluice=[0-9a-f]{16}; Path=/; HttpOnly; Secure$")
        cookie = response.fields["set-cookie"].split(";")[0]
        for _ in range(3):
            again = self.curl(proxy, ("http2", True), "/", "-b", f"a=1; {cookie}; b=2")
            self.assertEqual(again.body, response.body)
            self.assertNotIn("set-cookie", again.fields)

    # ---- Priorities

    def test_failover_and_recovery(self):
        servers = self.servers()
        priorities = {"nginx1": 0, "nginx2": 0, "nginx3": 1, "python": 2}
        endpoints = [{"address": server.address, "priority": priorities[name]} for name, server in servers.items()]
        # A request may come when the pauses of all three end, and be the probe of each.
        upstream = {**self.upstream(*servers.values()), "endpoints": endpoints, "fail_timeout": "300ms",
                    "connect_attempts": 4}
        proxy = self.start(self.configuration(upstream))

        def names(count=30):
            return collections.Counter(self.names_of_servers(proxy, [("/",)] * count))

        self.assertEqual(set(names()), {"nginx1", "nginx2"})
        # One of two is 50 %: 50/71 of all requests stay.
        servers["nginx1"].stop()
        found = names(200)
        self.assertEqual(set(found), {"nginx2", "nginx3"})
        self.assertGreater(found["nginx3"], 20)
        self.assertGreater(found["nginx2"], found["nginx3"])
        servers["nginx2"].stop()
        self.assertEqual(set(names()), {"nginx3"})
        servers["nginx3"].stop()
        self.assertEqual(set(names()), {"python"})
        for name in ("nginx1", "nginx2", "nginx3"):
            servers[name].start()
        wait_until(lambda: set(names()) == {"nginx1", "nginx2"}, 10, "all to go to the first priority again")
        stats = self.stop(proxy)
        self.assertGreater(stats.total("upstream_failovers_total"), 60)
        self.assertEqual(stats.total("upstream_panics_total"), 0)

    def test_slow_start(self):
        """An endpoint that recovers gets fewer requests than the others at first."""
        servers = self.servers()
        proxy = self.through(*servers.values(), fail_timeout="100ms", slow_start="1m")
        self.assertEqual(collections.Counter(self.names_of_servers(proxy, [("/",)] * 40))["nginx1"], 10)
        servers["nginx1"].stop()
        self.assertNotIn("nginx1", self.names_of_servers(proxy, [("/",)] * 8))
        servers["nginx1"].start()
        wait_until(lambda: "nginx1" in self.names_of_servers(proxy, [("/",)] * 40), 10, "nginx1 to come back")
        share = collections.Counter(self.names_of_servers(proxy, [("/",)] * 120))["nginx1"] / 120
        self.assertGreater(share, 0)
        self.assertLess(share, 0.15)  # A tenth of a weight beside three whole ones, and a little more by now.

    # ---- Explanations

    def test_explain_matches_behavior(self):
        servers = self.servers()
        by_address = {server.address: name for name, server in servers.items()}
        config = self.configuration(self.upstream(*servers.values(), balance="maglev", hash={"header": "x-user"},
                                                  sticky={}))
        path = self.write("balancing.json", json.dumps(config).encode())
        proxy = self.start(config)

        def explained_endpoint(*fields):
            arguments = [word for field in fields for word in ("-H", field)]
            text = self.call(harness.SLUICE, "explain", "--config", path, "--listener", "plain", *arguments,
                             "http://a.test/").stdout.decode()
            return by_address[re.search(r"^endpoint +([0-9.:]+), ", text, re.MULTILINE)[1]]

        for i in range(6):
            response = self.curl(proxy, HTTP1, "/", "-H", f"X-User: u{i}")
            self.assertEqual(explained_endpoint(f"X-User: u{i}"), response.body.decode())
            cookie = response.fields["set-cookie"].split(";")[0]
            self.assertEqual(explained_endpoint("X-User: other", f"Cookie: {cookie}"), response.body.decode())


if __name__ == "__main__":
    harness.main()
