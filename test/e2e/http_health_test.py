"""Health of endpoints: active checks against nginx, Go's net/http, grpc-go's health service and misbehaving sockets,
and ejection because of responses. Meanwhile clients send requests, none of which may fail."""

import os
import re
import signal
import threading
import time

import harness
from harness import SLOWNESS, wait_until
from http_peers_support import HttpTest, KINDS, Server, go_options, go_program, words
from http_wire import Http1Client
import http_wire as wire
from origins import Origin, discard, free_port, reset
from programs import Nginx

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
CHECK = {"interval": "100ms", "timeout": "1s", "healthy_after": 3, "unhealthy_after": 2}


class Clients:
    """Sends requests all the time, each client on its own connections, and records which server responded."""

    def __init__(self, address, count=4):
        self.responses, self.failures = [], []
        self._ending = False
        self._threads = [threading.Thread(target=self._run, args=(address,), daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, address):
        with Http1Client(address) as client:
            while not self._ending:
                response = client.get("/")
                if response is None or not response.complete or response.status != 200:
                    return self.failures.append(response)
                self.responses.append(bytes(response.body).strip())
                time.sleep(0.002)

    def next(self, count=40):
        """The servers that respond to the requests sent from now on."""
        before = len(self.responses) + len(self._threads)  # That many may be in flight.
        wait_until(lambda: self.failures or len(self.responses) >= before + count, 10, "responses")
        return set(self.responses[before:])

    def close(self):
        self._ending = True
        for thread in self._threads:
            thread.join(10)


class Scripted:
    """A server whose responses the test sets, separately for checks (`/check`) and for all other requests."""

    def __init__(self, name):
        self.name = name
        self.check = self.status = 200
        self.checks = []  # Statuses that were sent.
        self.requests = 0
        self._server = wire.Server(self._respond)
        self.address = self._server.address
        self.close = self._server.close

    def _respond(self, request, connection):
        if request.path == "/check":
            status = self.check(len(self.checks)) if callable(self.check) else self.check
            self.checks.append(status)
        else:
            self.requests += 1
            status = self.status
        connection.reply(request, status, body=self.name.encode())


class HealthTest(HttpTest):

    def clients(self, proxy, **options):
        return self.keep(Clients(proxy.address("plain"), **options))

    def scripted(self, *names):
        return [self.keep(Scripted(name)) for name in names]

    def proxy_to(self, *servers, kind=HTTP1, workers=1, **upstream):
        return self.through(*servers, kind=kind, top={"workers": workers}, connect_timeout="1s", **upstream)

    def wait_for_output(self, proxy, server, what):
        address = getattr(server, "address", server)
        proxy.wait_for_output(f"endpoint {address} {what}")

    def no_failures(self, clients):
        clients.close()
        self.assertEqual(clients.failures, [])


class Checks(HealthTest):

    def test_nginx_begins_to_fail(self):
        """Two workers, of which one checks. A file decides whether nginx passes its check."""
        ports = [free_port(), free_port()]
        files = [self.temporary_directory() for _ in ports]
        for folder, port in zip(files, ports):
            os.chmod(folder, 0o755)
            self.keep(Nginx([("127.0.0.1", port)], f"""
                server {{ listen 127.0.0.1:{port}; root {folder};
                    location = /healthz {{ try_files /well =503; }}
                    location / {{ return 200 "{port}"; }} }}"""))
        names = {str(port).encode() for port in ports}

        def well(which, yes):
            path = os.path.join(files[which], "well")
            open(path, "w", encoding="ascii").close() if yes else os.unlink(path)

        well(0, True)
        well(1, True)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        proxy = self.proxy_to(*addresses, workers=2, health_check={**CHECK, "http": {"path": "/healthz"}})
        clients = self.clients(proxy)
        self.assertEqual(clients.next(), names)
        for which in (0, 1):
            well(which, False)
            self.wait_for_output(proxy, addresses[which], "is unhealthy: it responded with 503")
            self.assertEqual(clients.next(), names - {str(ports[which]).encode()})
            well(which, True)
            wait_until(lambda: proxy.stderr().count("is healthy again") == which + 1)
            self.assertEqual(clients.next(), names)
        self.no_failures(clients)
        stats = proxy.stats()
        for address in addresses:
            self.assertEqual(stats.total("endpoint_healthy", endpoint=address), 1)
            self.assertGreaterEqual(stats.total("endpoint_health_checks_failed_total", endpoint=address), 2)
            self.assertGreater(stats.total("endpoint_health_checks_total", endpoint=address),
                               stats.total("endpoint_health_checks_failed_total", endpoint=address))

    def test_flapping_endpoint_stays_out(self):
        steady, flapping = self.scripted("steady", "flapping")
        # The third failure in a row does not come for a long time.
        flapping.check = lambda n: 200 if n % 3 else 500
        proxy = self.proxy_to(steady, flapping, health_check={**CHECK, "http": {"path": "/check"}})
        self.wait_for_output(proxy, flapping, "is unhealthy: it responded with 500")
        clients = self.clients(proxy)
        while len(flapping.checks) < 13:
            self.assertEqual(clients.next(), {b"steady"})
        self.assertEqual(flapping.requests, 0)
        flapping.check = 200
        self.wait_for_output(proxy, flapping, "is healthy again")
        self.assertEqual(clients.next(), {b"steady", b"flapping"})
        self.assertEqual(flapping.checks[-3:], [200, 200, 200])
        self.no_failures(clients)

    def test_hanging_endpoint(self):
        """It accepts connections and never responds. No request goes there, which would hang too."""
        [good] = self.scripted("good")
        hanging = self.keep(Origin(discard))
        check = {**CHECK, "timeout": f"{200 * SLOWNESS}ms", "http": {"path": "/check"}}
        proxy = self.proxy_to(good, hanging, health_check=check)
        self.wait_for_output(proxy, hanging, f"is unhealthy: it did not respond within {200 * SLOWNESS}ms")
        clients = self.clients(proxy)
        self.assertEqual(clients.next(), {b"good"})
        self.no_failures(clients)

    def test_refused_and_reset(self):
        refusing, resetting = f"127.0.0.1:{free_port()}", self.keep(Origin(reset))
        [good] = self.scripted("good")
        proxy = self.proxy_to(good, refusing, resetting, health_check={**CHECK, "http": {"path": "/check"}})
        self.wait_for_output(proxy, refusing, "is unhealthy: cannot connect: Connection refused")
        self.wait_for_output(proxy, resetting, "is unhealthy: the connection broke: ")
        clients = self.clients(proxy)
        self.assertEqual(clients.next(), {b"good"})
        self.no_failures(clients)

    def test_go_server_with_each_protocol(self):
        """The check uses the protocol of the upstream; then the server goes away."""
        for kind in KINDS:
            with self.subTest(words(kind)):
                server = self.web_server(kind)
                proxy = self.through(server, health_check={**CHECK, "http": {"path": "/echo", "host": "localhost"}},
                                     max_fails=0)
                proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_total") >= 3, what="checks")
                self.assertEqual(proxy.stats().total("endpoint_health_checks_failed_total"), 0, proxy.stderr())
                server.close()
                self.wait_for_output(proxy, server, "is unhealthy: cannot connect: Connection refused")
                self.stop(proxy)

    def test_wrong_certificate(self):
        server = self.web_server(HTTP2_TLS)
        upstream = self.upstream(server, health_check={**CHECK, "http": {"path": "/echo"}})
        upstream["tls"]["server_name"] = "b.example.com"
        proxy = self.start(self.configuration(upstream))
        self.wait_for_output(proxy, server, "is unhealthy: TLS failed: ")

    def test_grpc(self):
        for kind in (HTTP2, HTTP2_TLS):
            with self.subTest(words(kind)):
                tls = {"certificate": self.server["chain"], "key": self.server["key"]} if kind[1] else {}
                server = self.keep(Server([go_program("./grpc"), "server", *go_options(health="a.B", **tls)], kind))
                proxy = self.through(server, health_check={**CHECK, "grpc": {"service": "a.B"}})
                proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_total") >= 3, what="checks")
                self.assertEqual(proxy.stats().total("endpoint_health_checks_failed_total"), 0, proxy.stderr())
                server.signal(signal.SIGUSR1)
                self.wait_for_output(proxy, server, "is unhealthy: its health service reports NOT_SERVING")
                server.signal(signal.SIGUSR1)
                self.wait_for_output(proxy, server, "is healthy again")
                self.stop(proxy)
                for service, why in (("", ""), ("a.C", "grpc-status 5")):
                    proxy = self.through(server, health_check={**CHECK, "grpc": {"service": service}})
                    proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_total") >= 2, what="checks")
                    if why:
                        self.wait_for_output(proxy, server, f"is unhealthy: {why}")
                    self.assertEqual("unhealthy" in proxy.stderr(), bool(why), proxy.stderr())
                    self.stop(proxy)

    def test_tcp_upstream(self):
        """L4: connections to servers that expect a PROXY header, checked by HTTP after the header, and by a connection
        alone."""
        good, bad, down = free_port(), free_port(), f"127.0.0.1:{free_port()}"
        self.keep(Nginx([("127.0.0.1", good), ("127.0.0.1", bad)], "".join(f"""
            server {{ listen 127.0.0.1:{port} proxy_protocol; location = /check {{ return {status}; }}
                      location / {{ return 200 "{port}"; }} }}""" for port, status in ((good, 204), (bad, 500)))))
        addresses = [f"127.0.0.1:{port}" for port in (good, bad)]
        for version in ("v1", "v2"):
            with self.subTest(version):
                proxy = self.proxy(*addresses, upstream={"send_proxy_protocol": version,
                                                         "health_check": {**CHECK, "http": {"path": "/check"}}})
                self.wait_for_output(proxy, addresses[1], "is unhealthy: it responded with 500")
                for _ in range(6):
                    with Http1Client(proxy.address()) as client:
                        self.assertEqual(bytes(client.get("/").body), str(good).encode())
                self.stop(proxy)
        proxy = self.proxy(addresses[0], down, upstream={"health_check": CHECK})
        self.wait_for_output(proxy, down, "is unhealthy: cannot connect: Connection refused")
        proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_total", endpoint=addresses[0]) >= 2)
        self.assertEqual(proxy.stats().total("endpoint_healthy", endpoint=addresses[0]), 1)

    def test_endpoint_that_negotiates_another_protocol(self):
        """Clients' bytes are forwarded as they are, with TLS for more than one protocol; checks use HTTP/1.1."""
        upstream = self.upstream(self.web_server(HTTP2_TLS), health_check={**CHECK, "http": {"path": "/echo"}})
        upstream["tls"]["alpn"] = ["h2", "http/1.1"]
        del upstream["protocol"]
        proxy = self.start({"workers": 1, "upstreams": [upstream],
                            "listeners": [{"name": "main", "address": "127.0.0.1:0", "tcp": {"forward": "main"}}]})
        self.wait_for_output(proxy, upstream["endpoints"][0],
                             "is unhealthy: it negotiated h2, but the check speaks HTTP/1.1")

    def test_another_port(self):
        [server, sentinel] = self.scripted("server", "sentinel")
        port = int(sentinel.address.rsplit(":", 1)[1])
        proxy = self.proxy_to(server, health_check={**CHECK, "port": port, "http": {"path": "/check"}})
        sentinel.check = 500
        self.wait_for_output(proxy, server, "is unhealthy: it responded with 500")
        self.assertEqual(server.checks, [])

    def test_all_down(self):
        """Then all endpoints are tried: checks may be wrong, and a try costs nothing."""
        servers = self.scripted("a", "b")
        for server in servers:
            server.check = 500
        proxy = self.proxy_to(*servers, health_check={**CHECK, "http": {"path": "/check"}})
        for server in servers:
            self.wait_for_output(proxy, server, "is unhealthy")
        clients = self.clients(proxy)
        self.assertEqual(clients.next(), {b"a", b"b"})
        servers[0].check = 200
        self.wait_for_output(proxy, servers[0], "is healthy again")
        self.assertEqual(clients.next(), {b"a"})
        self.no_failures(clients)


class Ejection(HealthTest):

    def send_request(self, proxy, times):
        """The statuses of requests sent one after the other."""
        with Http1Client(proxy.address("plain")) as client:
            return [client.get("/").status for _ in range(times)]

    def test_responses_with_500(self):
        good, bad = self.scripted("good", "bad")
        bad.status = 500
        proxy = self.proxy_to(good, bad, ejection={"consecutive_errors": 3, "time": "700ms"})
        responses = self.send_request(proxy, 20)
        self.assertEqual((responses.count(500), bad.requests), (3, 3))
        self.wait_for_output(proxy, bad, "is ejected for 700ms, after 3 errors in a row")
        self.assertEqual(proxy.stats().total("endpoint_ejected", endpoint=bad.address), 1)
        bad.status = 200
        clients = self.clients(proxy)
        self.wait_for_output(proxy, bad, "is no longer ejected")
        self.assertEqual(clients.next(), {b"good", b"bad"})
        self.no_failures(clients)
        stats = proxy.stats()
        self.assertEqual(stats.total("endpoint_ejected"), 0)
        self.assertEqual(stats.total("endpoint_ejections_total", endpoint=bad.address), 1)

    def test_ejection_time_grows(self):
        good, bad = self.scripted("good", "bad")
        bad.status = 503
        proxy = self.proxy_to(good, bad, ejection={
            "consecutive_errors": 0, "gateway_errors": 1, "time": "100ms", "max_time": "300ms"})
        wait_until(lambda: self.send_request(proxy, 4) and len(re.findall(r"is ejected for", proxy.stderr())) >= 4)
        times = re.findall(r"is ejected for (\w+), after 1 gateway error", proxy.stderr())
        self.assertEqual(times[:4], ["100ms", "200ms", "300ms", "300ms"])

    def test_ejected_share_is_bounded(self):
        servers = self.scripted("a", "b", "c", "d")
        for server in servers:
            server.status = 500
        proxy = self.proxy_to(*servers, workers=2, ejection={"consecutive_errors": 2, "max_share": 50})
        for _ in range(10):
            self.assertEqual(self.send_request(proxy, 8), [500] * 8)
        stats = proxy.stats()
        self.assertEqual(stats.total("endpoint_ejected"), 2)
        self.assertEqual(stats.total("endpoint_ejections_total"), 2)
        self.assertGreater(stats.total("upstream_ejections_refused_total"), 0)
        # The two endpoints that are not ejected keep getting requests, and the ejected ones get none.
        counts = sorted(server.requests for server in servers)
        self.assertEqual(self.send_request(proxy, 8), [500] * 8)
        self.assertEqual(sorted(server.requests for server in servers)[:2], counts[:2])

    def test_last_endpoint_is_never_ejected(self):
        [only] = self.scripted("only")
        only.status = 500
        proxy = self.proxy_to(only, ejection={"consecutive_errors": 1, "max_share": 100})
        self.assertEqual(self.send_request(proxy, 10), [500] * 10)
        self.assertEqual(only.requests, 10)
        self.assertEqual(proxy.stats().total("endpoint_ejections_total"), 0)

    def test_requests_that_time_out(self):
        [good] = self.scripted("good")
        hanging = self.keep(Origin(discard))
        proxy = self.proxy_to(good, hanging, response_timeout=f"{200 * SLOWNESS}ms",
                              ejection={"consecutive_errors": 2})
        responses = self.send_request(proxy, 12)
        self.assertEqual((responses.count(504), responses.count(200)), (2, 10))
        self.wait_for_output(proxy, hanging, "is ejected for 30s, after 2 errors in a row")

    def test_tcp_connections(self):
        """L4: failed connects count, besides max_fails."""
        [good] = self.scripted("good")
        down = f"127.0.0.1:{free_port()}"
        proxy = self.proxy(good.address, down, upstream={"max_fails": 0, "ejection": {"consecutive_errors": 3}})
        for _ in range(12):
            with Http1Client(proxy.address()) as client:
                self.assertEqual(client.get("/").status, 200)
        self.wait_for_output(proxy, down, "is ejected for 30s, after 3 errors in a row")
        self.assertEqual(proxy.stats().connect_errors("refused"), 3)


if __name__ == "__main__":
    harness.main()
