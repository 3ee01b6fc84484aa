"""Hedging: a second endpoint gets the request while the first is slow (`hedge_after`). The endpoints are Go's; a slow
one has been stopped, and does not respond until it is continued.
"""

import json
import signal
import subprocess

import harness
from http_peers_support import HttpTest

KINDS = ("http1", False), ("http2", False)


class Hedges(HttpTest):

    def setUp(self):
        super().setUp()
        harness.need("curl", "wrk")

    def pair(self, kind, hedge_after="100ms", http=None, **options):
        """Two servers, and a proxy in front of them that has connections to both."""
        servers = [self.web_server(kind), self.web_server(kind)]
        for server in servers:  # A stopped child would not end either.
            self.addCleanup(server.signal, signal.SIGCONT)
        routes = [{"forward": "main", "retry": {"hedge_after": hedge_after}}]
        proxy = self.through(*servers, http={"routes": routes, **(http or {})}, **options)
        for _ in range(4):
            self.assertEqual(self.curl(proxy, kind, "/small").status, 200)
        self.assertEqual(proxy.stats().total("upstream_hedges_total"), 0)
        return servers, proxy

    def send_request(self, proxy, kind):
        """A request in progress."""
        child = harness.spawn(["curl", *self.curl_options(kind), "-o", "/dev/null", "-w", "%{http_code}",
                               self.url(proxy, kind, "/small")], stdout=subprocess.PIPE, text=True)
        self.addCleanup(harness.end, child)
        return child

    def lines(self, log):
        with open(log, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_other_endpoint_responds(self):
        for kind in KINDS:
            with self.subTest(kind[0]):
                log = self.write("access.log", b"")
                (slow, fast), proxy = self.pair(kind, http={"access_log": {"file": log, "format": "json"}})
                slow.signal(signal.SIGSTOP)
                for _ in range(6):
                    self.assertEqual(self.curl(proxy, kind, "/small").status, 200)
                slow.signal(signal.SIGCONT)
                stats = self.stop(proxy)
                hedges = stats.total("upstream_hedges_total")
                self.assertGreater(hedges, 0)
                self.assertEqual(stats.total("upstream_hedges_won_total"), hedges)
                self.assertEqual(stats.total("upstream_retries_total"), 0)
                self.assertEqual(stats.total("endpoint_connections_active"), 0)
                lines = self.lines(log)[-6:]
                self.assertEqual({line["endpoint"] for line in lines}, {fast.address})
                self.assertEqual([line["attempts"] for line in lines].count(2), hedges)

    def test_one_endpoint_dies(self):
        for kind in KINDS:
            for which in (0, 1):
                with self.subTest(f"{kind[0]}, {which}"):
                    log = self.write("access.log", b"")
                    servers, proxy = self.pair(kind, http={"access_log": {"file": log, "format": "json"}})
                    request = self.hedged(servers, proxy, kind)
                    servers[which].signal(signal.SIGKILL)
                    proxy.wait_for(lambda stats: stats.total("endpoint_connections_active") == 1)
                    self.assertIsNone(request.poll())
                    servers[1 - which].signal(signal.SIGCONT)
                    self.assertEqual(request.communicate(timeout=20)[0], "200")
                    self.stop(proxy)
                    line = self.lines(log)[-1]
                    self.assertEqual((line["endpoint"], line["attempts"]), (servers[1 - which].address, 2))

    def test_both_endpoints_die(self):
        for kind in KINDS:
            with self.subTest(kind[0]):
                servers, proxy = self.pair(kind)
                request = self.hedged(servers, proxy, kind)
                # Both at once for the proxy, which otherwise may find the second still running.
                proxy.signal(signal.SIGSTOP)
                for server in servers:
                    server.signal(signal.SIGKILL)
                    server.wait()
                proxy.signal(signal.SIGCONT)
                # Their connections had been used before, so the request is sent once more, on a new connection.
                self.assertEqual(request.communicate(timeout=20)[0], "503")
                proxy.wait_for(lambda stats: stats.total("endpoint_connections_active") == 0)

    def hedged(self, servers, proxy, kind):
        """A request that both servers have, and to which neither responds."""
        for server in servers:
            server.signal(signal.SIGSTOP)
        request = self.send_request(proxy, kind)
        proxy.wait_for(lambda stats: stats.total("upstream_hedges_total") == 1)
        return request

    def test_hedges_are_bounded(self):
        """All servers are slow, so that each request would be sent twice: the upstream gets at most 1.2 times the
        requests of the clients."""
        for kind in KINDS:
            with self.subTest(kind[0]):
                _, proxy = self.pair(kind, hedge_after="20ms", retry_budget={"percent": 20, "min": 3})
                subprocess.run(["wrk", "-t", "1", "-c", "32", "-d", "2s", self.url(proxy, ("http1", False),
                                                                                 "/sleep?ms=60")],
                               stdout=subprocess.DEVNULL, check=True)
                stats = self.stop(proxy, cut_allowed=True)
                requested, sent = stats.total("http_requests_total"), stats.total("upstream_requests_total")
                self.assertGreater(requested, 100)
                self.assertLessEqual(sent, requested * 1.2 + 3)
                self.assertGreater(stats.total("upstream_hedges_total"), requested * 0.1)
                self.assertGreater(stats.total("upstream_retries_over_budget_total"), 0)


if __name__ == "__main__":
    harness.main()
