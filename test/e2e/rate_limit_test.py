"""Rate limits of requests and of connections, seen from outside: curl and h2load are the clients."""

import http.client
import json
import os
import re
import subprocess
import time

import harness
from harness import SLOWNESS, need
from origins import Origin, connect, echo, outcome_of_connecting, ping
from tls_support import TlsTest

GONE = ("end", "reset")


def limit(name="api", rate="1/h", burst=5, **keys):
    return {"name": name, "rate": rate, "burst": burst, **keys}


class Requests(TlsTest):

    def limited(self, *limits, http=None, listener=None, **top):
        config = harness.configuration(["127.0.0.1:1"], listener=listener, rate_limits=list(limits), **top)
        main = config["listeners"][0]
        del main["tcp"]
        main["http"] = {"rate_limits": [each["name"] for each in limits],
                        "routes": [{"respond": {"status": 200, "body": "fine"}}], **(http or {})}
        return self.start(config), config

    def curl(self, *arguments):
        """(status, fields) of each response. One call is one connection."""
        done = subprocess.run([need("curl"), "-sS", "-i", "--max-time", str(20 * SLOWNESS), *arguments],
                              capture_output=True, text=True, timeout=60 * SLOWNESS, check=True)
        heads = re.findall(r"HTTP/[\d.]+ (\d+).*\n((?:[^\s:]+: .*\n)*)", done.stdout.replace("\r", ""))
        return [(int(status), dict(line.split(": ", 1) for line in fields.splitlines())) for status, fields in heads]

    def urls(self, proxy, count):
        return [f"http://127.0.0.1:{proxy.port()}/"] * count

    def statuses(self, proxy, count):
        """Of requests on connections of their own."""
        found = []
        for _ in range(count):
            client = http.client.HTTPConnection("127.0.0.1", proxy.port(), timeout=20 * SLOWNESS)
            client.request("GET", "/")
            found.append(client.getresponse().status)
            client.close()
        return found

    def test_curl(self):
        """A refusal says when to come again, is logged with its reason, and the connection goes on."""
        for version in ("--http1.1", "--http2"):
            with self.subTest(version):
                log = os.path.join(self.temporary_directory(), "access.log")
                proxy, _ = self.limited(limit(burst=3), listener={"tls": {"certificates": [self.server]}},
                                        http={"access_log": {"file": log, "format": "json"}})
                urls = [f"https://localhost:{proxy.port()}/"] * 5
                responses = self.curl("--cacert", self.ca, version, *urls)
                self.assertEqual([status for status, _ in responses], [200, 200, 200, 429, 429])
                fields = responses[3][1]
                fields = {name.lower(): value for name, value in fields.items()}
                self.assertIn(int(fields["retry-after"]), range(3300, 3601))
                self.assertEqual(fields["ratelimit-policy"], '"api";q=3;w=10800')
                self.assertEqual(fields["ratelimit"], f'"api";r=0;t={fields["retry-after"]}')
                self.assertNotIn("retry-after", {name.lower() for name in responses[2][1]})
                stats = self.stop(proxy)
                self.assertEqual(stats.total("http_connections_total", version=version.strip("-htp")), 1)
                self.assertEqual(stats.total("rate_limited_total", limit="api"), 2)
                self.assertEqual(stats.total("http_requests_ended_total", reason="rate_limited"), 2)
                with open(log, encoding="utf-8") as lines:
                    reasons = [json.loads(line)["reason"] for line in lines]
                self.assertEqual(sorted(reasons), ["ok"] * 3 + ["rate_limited"] * 2)

    def test_workers_share_a_limit(self):
        """Connections of one client are spread over the workers; its requests count together."""
        proxy, _ = self.limited(limit(burst=20), workers=2)
        statuses = self.statuses(proxy, 60)
        self.assertEqual((statuses.count(200), statuses.count(429)), (20, 40))

    def test_h2load(self):
        """Thousands of refused requests end no connection, and leave nothing behind."""
        h2load = need("h2load")
        proxy, _ = self.limited(limit(burst=100), workers=2, http={"http2": {"max_requests": 0}})
        done = subprocess.run([h2load, "-n", "5000", "-c", "4", "-m", "20", *self.urls(proxy, 1)], capture_output=True,
                              text=True, timeout=100 * SLOWNESS, check=True)
        self.assertIn("status codes: 100 2xx, 0 3xx, 4900 4xx, 0 5xx", done.stdout)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("pool_pinned_bytes") <= 4096)
        stats = self.stop(proxy)
        self.assertEqual(stats.total("accepted_total"), 4)
        self.assertEqual(stats.total("rate_limited_total", limit="api"), 4900)

    def test_dry_run(self):
        proxy, _ = self.limited(limit(burst=3, dry_run=True))
        self.assertEqual([status for status, _ in self.curl(*self.urls(proxy, 5))], [200] * 5)
        stats = self.stop(proxy)
        self.assertEqual(stats.total("rate_limit_dry_run_total", limit="api"), 2)
        self.assertEqual(stats.total("rate_limited_total", limit="api"), 0)

    def test_evictions_are_counted(self):
        """Clients in greater number than entries are all served, and what was forgotten shows."""
        header = {"key": {"header": "x-key"}, "entries": 8}
        proxy, _ = self.limited(limit(burst=1, **header))
        client = http.client.HTTPConnection("127.0.0.1", proxy.port(), timeout=20 * SLOWNESS)
        for number in range(100):
            client.request("GET", "/", headers={"x-key": str(number)})
            response = client.getresponse()
            response.read()
            self.assertEqual(response.status, 200)
        client.close()
        proxy.wait_for(lambda s: s.total("rate_limit_evictions_total", limit="api") == 92)

    def test_reload(self):
        """A limit goes on counting in a reload that leaves it as it is, and begins anew in one that changes it."""
        proxy, config = self.limited(limit(burst=3))
        self.assertEqual(self.statuses(proxy, 4), [200, 200, 200, 429])
        config["listeners"][0]["http"]["via"] = "other"
        config["rate_limits"][0]["status"] = 503
        proxy.reload(config)
        self.assertEqual(self.statuses(proxy, 1), [503])
        config["rate_limits"][0]["burst"] = 2
        proxy.reload(config)
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 503])
        proxy.wait_for(lambda s: s.total("rate_limited_total", limit="api") == 3)

    def test_server_names(self):
        """Names that TLS clients send have limits of their own."""
        proxy, _ = self.limited(limit(burst=2, key={"sni": True}), listener={"tls": {"certificates": [self.server]}})
        found = []
        for name in ("a.test", "a.test", "b.test", "a.test"):
            found += self.curl("-k", "--connect-to", f"{name}:443:127.0.0.1:{proxy.port()}", f"https://{name}/")
        self.assertEqual([status for status, _ in found], [200, 200, 200, 429])


    def test_delay(self):
        """Requests over the rate wait for their turns, and the one that would wait too long is refused."""
        for version in ("--http1.1", "--http2"):
            with self.subTest(version):
                proxy, _ = self.limited(limit(rate="5/s", burst=1, delay="20s"),
                                        listener={"tls": {"certificates": [self.server]}})
                begin = time.monotonic()
                responses = self.curl("--cacert", self.ca, version, *[f"https://localhost:{proxy.port()}/"] * 4)
                self.assertEqual([status for status, _ in responses], [200] * 4)
                self.assertGreater(time.monotonic() - begin, 0.55)  # Three turns of 0.2 s.
                self.assertEqual(self.stop(proxy).total("rate_limited_total", limit="api"), 0)
        proxy, _ = self.limited(limit(burst=1, delay="1m"))
        self.assertEqual([status for status, _ in self.curl(*self.urls(proxy, 2))], [200, 429])

    def test_delay_of_h2load(self):
        """Streams that wait come through at the rate, whatever connection and worker they are on."""
        h2load = need("h2load")
        proxy, _ = self.limited(limit(rate="30/s", burst=10, delay="1m"), workers=2)
        begin = time.monotonic()
        done = subprocess.run([h2load, "-n", "40", "-c", "4", "-m", "20", *self.urls(proxy, 1)], capture_output=True,
                              text=True, timeout=100 * SLOWNESS, check=True)
        self.assertIn("status codes: 40 2xx, 0 3xx, 0 4xx, 0 5xx", done.stdout)
        self.assertGreater(time.monotonic() - begin, 0.95)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("pool_pinned_bytes") <= 4096)
        self.assertIn(self.stop(proxy).total("rate_limit_delayed_total", limit="api"), range(1, 31))


class Connections(TlsTest):

    def test_tcp(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, listener={"connection_rate_limits": "slow"}, workers=2,
                           rate_limits=[limit("slow", burst=3)])
        for _ in range(3):
            with connect(proxy.address(), "127.0.0.2") as client:
                self.assertTrue(ping(client))
        for _ in range(4):
            self.assertIn(outcome_of_connecting(proxy.address(), "127.0.0.2"), GONE)
        with connect(proxy.address(), "127.0.0.3") as client:
            self.assertTrue(ping(client))
        proxy.wait_for(lambda s: s.refused("rate") == 4 and s.total("rate_limited_total", limit="slow") == 4)

    def test_before_tls(self):
        """A refused connection costs no handshake."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, rate_limits=[limit("slow", burst=1)],
                           listener={"connection_rate_limits": ["slow"], "tls": {"certificates": [self.server]}})
        with self.secure(proxy.address()) as client:
            self.assertTrue(ping(client))
        for _ in range(3):
            self.assertIn(outcome_of_connecting(proxy.address()), GONE)
        proxy.wait_for(lambda s: s.refused("rate") == 3 and s.total("tls_handshakes_total") == 1)


class Handshakes(TlsTest):

    def limited(self, *limits, **tls):
        origin = self.keep(Origin(echo))
        return self.proxy(origin.address, workers=2, rate_limits=list(limits),
                          listener={"handshake_rate_limits": [each["name"] for each in limits],
                                    "tls": {"certificates": [self.server], **tls}})

    def assert_refused(self, proxy, **options):
        with self.assertRaises(OSError):
            self.secure(proxy.address(), **options)

    def test_hellos_count(self):
        """A connection counts when its hello is there; one that is refused costs no handshake."""
        proxy = self.limited(limit("slow", burst=2))
        for _ in range(4):
            connect(proxy.address()).close()
        for _ in range(2):
            with self.secure(proxy.address()) as client:
                self.assertTrue(ping(client))
        for _ in range(3):
            self.assert_refused(proxy)
        proxy.wait_for(lambda s: s.refused("rate") == 3 and s.total("rate_limited_total", limit="slow") == 3)
        stats = self.stop(proxy)
        self.assertEqual(stats.total("tls_handshakes_total"), 2)
        self.assertEqual(stats.total("sessions_ended_total", reason="tls_handshake"), 0)

    def test_sources(self):
        proxy = self.limited(limit("slow", burst=1))
        for source, admitted in (("127.0.0.2", True), ("127.0.0.2", False), ("127.0.0.3", True)):
            with self.subTest(source), connect(proxy.address(), source) as plain:
                context = self.context()
                try:
                    context.wrap_socket(plain, server_hostname="localhost").close()
                    self.assertTrue(admitted)
                except OSError:
                    self.assertFalse(admitted)

    def test_server_names(self):
        """Names have limits of their own, also where HTTP follows."""
        config = harness.configuration(["127.0.0.1:1"], rate_limits=[limit("names", burst=1, key={"sni": True})],
                                       listener={"handshake_rate_limits": "names",
                                                 "tls": {"certificates": [self.server]}})
        main = config["listeners"][0]
        del main["tcp"]
        main["http"] = {"routes": [{"respond": {"status": 200, "body": "fine"}}]}
        proxy = self.start(config)
        codes = [subprocess.run([need("curl"), "-sk", "--max-time", str(20 * SLOWNESS), "--connect-to",
                                 f"{name}:443:127.0.0.1:{proxy.port()}", f"https://{name}/"],
                                capture_output=True, timeout=60 * SLOWNESS, check=False).returncode
                 for name in ("a.test", "a.test", "b.test")]
        self.assertEqual(codes, [0, 35, 0])  # CURLE_SSL_CONNECT_ERROR

    def test_dry_run(self):
        proxy = self.limited(limit("slow", burst=1, dry_run=True))
        for _ in range(3):
            with self.secure(proxy.address()) as client:
                self.assertTrue(ping(client))
        proxy.wait_for(lambda s: s.total("rate_limit_dry_run_total", limit="slow") == 2)


if __name__ == "__main__":
    harness.main()
