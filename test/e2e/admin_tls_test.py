"""TLS on the admin listener: who gets in, which clients work, connections that never shake hands, and reloads."""

import json
import os
import re
import ssl
import subprocess
import time
import urllib.parse
import urllib.request

import admin_test
import harness
from harness import SLOWNESS, SLUICE
from origins import free_port, outcome, receive_until
from tls_support import Certificates


REQUEST = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def ask(sock, path="/readyz"):
    """The body of a response; the connection stays open."""
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        received += sock.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(body) < length:
        body += sock.recv(65536)
    return body


class AdminTls(admin_test.AdminTest):

    @classmethod
    def setUpClass(cls):
        harness.need("openssl")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.folder = self.temporary_directory()
        self.files = Certificates(self.folder)
        self.server = self.files.make("server", "localhost", "127.0.0.1")
        self.client = self.files.make("client", names="DNS:ops.example")
        self.ca = self.files.path("ca.pem")

    def tls(self, **more):
        return {"tls": {"certificates": [self.server], "client_ca": self.ca, "client_certificate": "require", **more}}

    def secured(self, **more):
        return self.start_with(admin=self.tls(**more))

    def https(self, proxy, path, *arguments, certificate=True, code=0):
        """The status and the body of a response to curl, or its error."""
        own = ["--cert", self.client["chain"], "--key", self.client["key"]] if certificate else []
        done = subprocess.run([self.curl_program, "-sS", "-m", str(10 * SLOWNESS), "-w", "\n%{http_code}", "--cacert", self.ca, *own,
                               *arguments, f"https://{self.address_of(proxy)}{path}"], capture_output=True, text=True, check=False)
        if code:
            self.assertNotEqual(done.returncode, 0, done)
            return done.stderr
        self.assertEqual(done.returncode, 0, done)
        body, status = done.stdout.rsplit("\n", 1)
        return int(status), body

    def count(self, proxy, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.https(proxy, "/metrics")[1], re.M)
        return float(found[1])

    def secure(self, proxy, certificate=True):
        context = ssl.create_default_context(cafile=self.ca)
        if certificate:
            context.load_cert_chain(self.client["chain"], self.client["key"])
        return self.keep(context.wrap_socket(self.connect(proxy), server_hostname="localhost"))

    def serial(self, proxy):
        return self.secure(proxy).getpeercert()["serialNumber"]

    def test_certificates(self):
        """Both versions of TLS, and only with a certificate of the right authority."""
        proxy, _ = self.secured()
        for version in ("1.2", "1.3"):
            exact = ("--tls-max", version, f"--tlsv{version}")
            self.assertEqual(self.https(proxy, "/readyz", *exact), (200, "ready\n"))
            self.assertRegex(self.https(proxy, "/readyz", *exact, certificate=False, code=1), "(?i)alert|certificate|reset|SSL")
        # A name as the host, as the certificate has proven it; not the page of another site.
        port = self.address_of(proxy).rsplit(":", 1)[1]
        self.assertEqual(self.https(proxy, "/readyz", "-H", f"Host: proxy.example:{port}")[0], 200)
        self.assertEqual(self.https(proxy, "/log-level", "-d", "debug", "-H", "Origin: https://evil.example")[0], 403)
        elsewhere = self.temporary_directory()
        stranger = Certificates(elsewhere).make("stranger")
        self.https(proxy, "/readyz", "--cert", stranger["chain"], "--key", stranger["key"], certificate=False, code=1)
        done = subprocess.run(["openssl", "s_client", "-connect", self.address_of(proxy), "-CAfile", self.ca, "-quiet"],
                              input="GET /config HTTP/1.0\r\n\r\n", capture_output=True, text=True, timeout=60, check=False)
        self.assertNotIn("HTTP/", done.stdout)
        self.assertIn("certificate required", done.stderr)
        self.assertGreaterEqual(self.count(proxy, "sluice_admin_tls_failures_total"), 4)
        proxy.wait_for_output(r"admin: TLS with 127.0.0.1:")
        proxy.wait_for_output("PEER_DID_NOT_RETURN_A_CERTIFICATE")

    def test_who(self):
        """A change is logged with the name in the certificate."""
        proxy, _ = self.start_with(admin_test.listener("main", tcp={"forward": "x"}), admin=self.tls(),
                                   upstreams=[admin_test.upstream("x", "127.0.0.1:1")])
        status, body = self.https(proxy, "/upstreams/x/endpoints/127.0.0.1:2", "-X", "PUT", "-d", "add=true")
        self.assertEqual(status, 200)
        self.assertRegex(json.loads(body)["addresses"][0]["changed"]["by"], r"^127\.0\.0\.1:\d+ \(ops\.example\)$")
        harness.wait_until(lambda: "(ops.example) has requested" in proxy.stderr(), what="the line")

    def test_origin(self):
        """Changes that a browser makes: for the listener's own page, and for no other one."""
        proxy, _ = self.start_with(admin=self.tls())
        change = lambda origin: self.https(proxy, "/log-level", "-X", "PUT", "-d", "info", "-H", f"Origin: {origin}")
        own = self.address_of(proxy)
        self.assertEqual(change(f"https://{own}")[0], 200)
        for origin in (f"http://{own}", "https://evil.example", "null"):
            status, body = change(origin)
            self.assertEqual(status, 403, origin)
            self.assertIn("the page of another site", body)

    def test_with_token(self):
        """Both are needed if both are configured."""
        with open(self.folder + "/token", "w", encoding="ascii") as file:
            file.write(admin_test.TOKEN)
        proxy, _ = self.start_with(admin={**self.tls(), "token_file": self.folder + "/token"})
        self.assertEqual(self.https(proxy, "/readyz")[0], 401)
        token = ("-H", "Authorization: Bearer " + admin_test.TOKEN)
        self.assertEqual(self.https(proxy, "/readyz", *token)[0], 200)
        self.https(proxy, "/readyz", *token, certificate=False, code=1)

    def test_no_handshake(self):
        """Clients that say nothing, or a part, or no TLS; they keep nobody out and end."""
        proxy, _ = self.start_with(admin={**self.tls(handshake_timeout=f"{SLOWNESS}s"), "max_connections": 4})
        known = self.secure(proxy)
        self.assertEqual(ask(known), b"ready\n")
        silent = [self.connect(proxy) for _ in range(12)]
        silent[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        self.assertEqual(self.https(proxy, "/readyz")[0], 200)
        self.assertEqual(ask(known), b"ready\n", "those who may be anyone make room before it")
        known.close()
        for sock in silent:
            self.assertIn(outcome(sock), ("end", "reset"))
        proxy.wait_for_output(" failed: the handshake was not complete after ")
        proxy.wait_for_match(r"admin: TLS with 127\.0\.0\.1:\d+ failed: the handshake .* waiting for the peer")
        harness.wait_until(lambda: self.count(proxy, 'sluice_admin_timeouts_total{timeout="handshake"}') >= 2, what="timeouts")
        self.assertGreaterEqual(self.count(proxy, "sluice_admin_connections_evicted_total"), 9)
        plain = self.connect(proxy)
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receive_until(plain, b"the admin listener expects https://")
        garbage = self.connect(proxy)
        garbage.sendall(b"\x16\x03\x01\x00\x04junk" + b"x" * 4000)
        self.assertTrue(b"HTTP" not in garbage.recv(65536))
        harness.wait_until(lambda: self.count(proxy, "sluice_admin_connections_open") == 1, what="the end of the others")

    def test_idle_and_slow(self):
        """A connection is used again after a pause; slow requests and responses are as without TLS."""
        proxy, _ = self.start_with(admin={**self.tls(), "header_timeout": f"{2 * SLOWNESS}s"})
        idle = self.secure(proxy)
        self.assertEqual(ask(idle), b"ready\n")
        slow = self.secure(proxy)
        slow.sendall(b"GET /readyz HT")
        time.sleep(0.3)
        slow.sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
        receive_until(slow, b"ready")
        stalled = self.secure(proxy)
        stalled.sendall(b"GET /readyz HT")
        self.assertIn(outcome(stalled), ("end", "reset"))
        self.assertEqual(ask(idle), b"ready\n")
        self.assertGreater(len(ask(idle, "/metrics")), 10000)

    def test_commands(self):
        """`sluice admin` and `sluice top`: by the configuration, which names the expected certificates, and by --ca."""
        proxy, config = self.secured()
        port = int(self.address_of(proxy).rsplit(":", 1)[1])
        path = self.folder + "/sluice.yaml"

        def write(**tls):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({**config, "admin": {"address": f"127.0.0.1:{port}", **self.tls(**tls)}}, file)
        write()
        own = ("--certificate", self.client["chain"], "--key", self.client["key"])
        by_config, by_ca = ("--config", path), ("--address", f"127.0.0.1:{port}", "--ca", self.ca)
        self.assertEqual(self.sluice(*by_config, *own, "/readyz"), "ready\n")
        self.assertEqual(self.sluice(*by_ca, *own, "/readyz"), "ready\n")
        self.assertEqual(self.sluice(*by_ca, "--server-name", "localhost", *own, "/readyz"), "ready\n")
        self.assertIn('"level": "debug"', self.sluice(*by_config, *own, "/log-level", "debug"))
        shown = subprocess.run([SLUICE, "top", *by_ca, *own], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("configuration 1: ready", shown.stdout)
        self.assertIn("name one with --certificate and --key", self.sluice(*by_config, "/readyz", code=1))
        self.assertIn("CERTIFICATE_VERIFY_FAILED", self.sluice(*by_ca, "--server-name", "other.example", *own, "/readyz", code=1))
        other = self.files.make("other", "localhost")
        write(certificates=[other])
        self.assertIn("the server's certificate is none of those of `admin.tls.certificates`",
                      self.sluice(*by_config, *own, "/readyz", code=1))
        self.assertIn("--certificate and --key need each other",
                      self.sluice(*by_ca, "--certificate", self.client["chain"], "/readyz", code=1))
        self.assertIn("--certificate is for TLS, which needs --ca",
                      self.sluice("--address", f"127.0.0.1:{port}", *own, "/readyz", code=1))
        self.assertIn("400 Bad Request", self.sluice("--address", f"127.0.0.1:{port}", "/readyz", code=1))

    def test_reload_turns_it_on(self):
        """Plain connections end, and get no more than a refusal."""
        folder = self.temporary_directory()
        proxy, config = self.start_with(admin={"address": [f"unix:{folder}/admin.sock", "127.0.0.1:0"]})
        plain = self.connect(proxy)
        unused = self.connect(proxy)
        self.assertEqual(ask(plain), b"ready\n")
        config["admin"] = {**config["admin"], **self.tls()}
        proxy.reload(config)
        self.assertEqual(outcome(plain), "end")
        self.assertEqual(ask(unused), b"admin.tls has changed since this connection began: make another one\n")
        self.assertEqual(outcome(unused), "end")
        self.assertEqual(self.https(proxy, "/readyz")[0], 200)
        self.assertEqual(self.curl(f"unix:{folder}/admin.sock", "/readyz")[0], 200)
        self.assertEqual(self.count(proxy, 'sluice_admin_requests_refused_total{reason="insecure"}'), 1)

    def test_reload_of_certificates(self):
        """The server's own, which open connections do not need; and the authority of clients, which they do."""
        proxy, config = self.secured()
        kept = self.secure(proxy)
        self.assertEqual(ask(kept), b"ready\n")
        before = self.serial(proxy)
        self.files.make("server", "localhost", "127.0.0.1")
        proxy.reload(config)
        proxy.wait_for_output("read the TLS files of `admin`")
        self.assertNotEqual(self.serial(proxy), before)
        self.assertEqual(ask(kept), b"ready\n")
        others = Certificates(self.temporary_directory())
        config["admin"]["tls"]["client_ca"] = others.path("ca.pem")
        proxy.reload(config)
        self.assertEqual(outcome(kept), "end")
        self.https(proxy, "/readyz", code=1)
        self.client = others.make("client", names="DNS:ops.example")
        self.assertEqual(self.https(proxy, "/readyz")[0], 200)
        with open(self.server["chain"], "w", encoding="ascii") as file:
            file.write("no certificate")
        proxy.reload(config, succeeds=False)
        self.assertEqual(self.https(proxy, "/readyz")[0], 200)

    def test_watch(self):
        """A renewed certificate is used without a command."""
        proxy, _ = self.start_with(admin=self.tls(), watch=True)
        before = self.serial(proxy)
        other = self.files.make("other", "localhost", "127.0.0.1")
        for name in ("key", "chain"):
            os.rename(other[name], self.server[name])
        harness.wait_until(lambda: self.serial(proxy) != before, what="the new certificate")

    def test_check(self):
        path = self.folder + "/sluice.yaml"

        def check(admin, code=1):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.config(admin=admin), file)
            done = subprocess.run([SLUICE, "check", "--config", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done)
            return done.stderr
        self.assertEqual(check({"address": "0.0.0.0:9901", **self.tls()}, code=0), "")
        printed = subprocess.run([SLUICE, "check", "--config", path, "--print"], capture_output=True, text=True, check=True).stdout
        with open(path, "w", encoding="utf-8") as file:
            file.write(printed)
        subprocess.run([SLUICE, "check", "--config", path], check=True, capture_output=True)
        self.assertIn("need a token or a certificate", check({"address": "0.0.0.0:9901", **self.tls(client_certificate="request")}))
        self.assertIn("admin.tls.client_certificate: needs `client_ca`", check(self.tls(client_ca="")))
        self.assertIn("speaks http/1.1 only, got \"h2\"", check(self.tls(alpn=["h2"])))
        self.assertIn("admin.tls.max_handshakes: has no effect here", check(self.tls(max_handshakes=5)))
        self.assertIn("all addresses are Unix sockets", check({"address": f"unix:{self.folder}/a.sock", **self.tls()}))
        missing = {"chain": self.folder + "/no.pem", "key": self.server["key"]}
        self.assertIn(f"{self.folder}/no.pem", check(self.tls(certificates=[missing])))

    def test_prometheus(self):
        """A real Prometheus scrapes it with its certificate."""
        prometheus = harness.need("prometheus")
        proxy, _ = self.secured()
        port = free_port()
        with open(self.folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "200ms"}, "scrape_configs": [{
                "job_name": "sluice", "scheme": "https",
                "tls_config": {"ca_file": self.ca, "cert_file": self.client["chain"], "key_file": self.client["key"]},
                "static_configs": [{"targets": [self.address_of(proxy)]}]}]}, file)
        child = harness.spawn([prometheus, f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                               f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(harness.end, child)

        def query(expression):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}",
                                            timeout=10) as response:
                    return [each["value"][1] for each in json.load(response)["data"]["result"]]
            except OSError:
                return None
        harness.wait_until(lambda: query("up") == ["1"], 30, "a scrape")
        harness.wait_until(lambda: query("sluice_admin_tls_handshakes_total > 0"), 30, "the counter")


if __name__ == "__main__":
    harness.main()
