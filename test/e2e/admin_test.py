"""The admin listener: its pages, who may see them, clients that are slow or do wrong, and that it stays reachable while
workers are busy, while the configuration changes, in an upgrade and while the process drains."""

import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import admin_schema
import harness
from harness import LONG, SLOWNESS, SLUICE
from origins import Origin, connect, echo, free_port, receive_until, refused_address
from reload_test import Http1, listener, respond, server, upstream

PAGES = ("/", "/healthz", "/readyz", "/metrics", "/latency", "/config", "/generations", "/upstreams", "/connections", "/pools", "/memory",
         "/errors", "/log-level")
TOKEN = "0123456789abcdef0123"


class AdminTest(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        self.curl_program = harness.need("curl")

    def config(self, *listeners, admin=None, upstreams=(), **top):
        return {"workers": 2, "shutdown_timeout": "5s", "admin": {"address": "127.0.0.1:0", **(admin or {})},
                "listeners": list(listeners) or [listener("main", http=respond("hello"))], "upstreams": list(upstreams), **top}

    def start_with(self, *listeners, **rest):
        config = self.config(*listeners, **rest)
        proxy = self.start(config)
        self.address_of(proxy)
        return proxy, config

    @staticmethod
    def address_of(proxy):
        """The last address of the admin listener that was logged."""
        harness.wait_until(lambda: "admin listener on " in proxy.stderr(), what="the admin listener")
        return re.findall(r"admin listener on (?:.*, )?(\S+)\n", proxy.stderr())[-1]

    def curl(self, address, path, *arguments, seconds=10):
        """Status, fields and body of a response."""
        where = ["--unix-socket", address[5:]] if address.startswith("unix:") else []
        url = f"http://{'localhost' if where else address}{path}"
        done = subprocess.run([self.curl_program, "-sS", "-i", "-m", str(seconds * SLOWNESS), *where, *arguments, url],
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done)
        head, _, body = done.stdout.decode().partition("\r\n\r\n")
        lines = head.split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:])
        return int(lines[0].split()[1]), fields, body

    def get(self, proxy, path, *arguments, status=200):
        got, _, body = self.curl(self.address_of(proxy), path, *arguments)
        self.assertEqual(got, status, body)
        return body

    def json(self, proxy, path, *arguments):
        return admin_schema.check(path, self.get(proxy, path, *arguments))

    def connect(self, proxy, **options):
        host, port = self.address_of(proxy).rsplit(":", 1)
        return self.keep(connect((host, int(port)), **options))

    def value(self, proxy, name):
        """The value of a series in a scrape."""
        for line in self.get(proxy, "/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)

    def sluice(self, *arguments, command="admin", code=0):
        done = subprocess.run([SLUICE, command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr


class Pages(AdminTest):

    def test_each_page(self):
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        index = self.get(proxy, "/")
        for page in PAGES:
            with self.subTest(page):
                self.assertIn(f"{page} ", index)
                status, fields, body = self.curl(address, page)
                self.assertEqual(status, 200)
                self.assertEqual(fields["cache-control"], "no-store")
                self.assertEqual(int(fields["content-length"]), len(body))
                head_status, head_fields, head_body = self.curl(address, page, "--head")
                self.assertEqual((head_status, head_body), (200, ""))
                self.assertEqual(head_fields["content-type"], fields["content-type"])
                if fields["content-type"] == "application/json":
                    json.loads(body)
        for page in PAGES:
            status, fields, body = self.curl(address, page, "-X", "DELETE")
            self.assertEqual(status, 405)
            self.assertIn("GET, HEAD", fields["allow"].upper())
        self.assertIn("there is no page /nope; the pages are\n/  ", self.get(proxy, "/nope", status=404))

    def test_health_and_readiness(self):
        proxy, _ = self.start_with(shutdown_delay="2s")
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assertEqual(self.get(proxy, "/readyz"), "ready\n")
        self.assertEqual(self.value(proxy, "sluice_ready"), 1)
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("stopping: not ready any more")
        self.assertEqual(self.get(proxy, "/readyz", status=503), "draining\n")
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assertEqual(self.value(proxy, "sluice_ready"), 0)
        harness.wait_until(lambda: self.json(proxy, "/generations")["phase"] == "delaying", what="the phase")
        proxy.wait()
        proxy.checked = True

    def test_configuration_without_secrets(self):
        proxy, _ = self.start_with(
            listener("main", http={"forward": "app", "request_headers": [
                {"name": "authorization", "set": "Bearer hush-1"}, {"name": "x-plain", "set": "shown"}]}),
            upstreams=[upstream("app", refused_address(), sticky={"cookie": "c", "secret": "hush-2"})])
        body = self.get(proxy, "/config")
        self.assertNotIn("hush", body)
        shown = json.loads(body)
        self.assertEqual(shown["generation"], 1)
        self.assertRegex(shown["hash"], "^sha256:[0-9a-f]{64}$")
        self.assertRegex(shown["applied_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        http = shown["config"]["listeners"][0]["http"]
        self.assertEqual([change["set"] for change in http["request_headers"]], ["(hidden)", "shown"])
        self.assertEqual(shown["config"]["upstreams"][0]["sticky"]["secret"], "(hidden)")

    def test_upstreams(self):
        """Each state with its reason."""
        good = self.keep(Origin(server("good")))
        proxy, _ = self.start_with(
            listener("main", http={"forward": "checked"}), listener("passive", http={"forward": "passive"}),
            upstreams=[upstream("checked", good, refused_address(),
                                health_check={"interval": "100ms", "http": {"path": "/"}}),
                       upstream("passive", refused_address(), good, fail_timeout="60s")])
        harness.wait_until(lambda: self.json(proxy, "/upstreams")["upstreams"][0]["addresses_up"] == 1, what="a failed check")
        client = self.keep(Http1(proxy, "passive"))
        for _ in range(4):
            self.assertEqual(client.get(), "good")
        checked, passive = self.json(proxy, "/upstreams")["upstreams"]
        self.assertEqual((checked["name"], checked["addresses"], checked["addresses_up"]), ("checked", 2, 1))
        states = [endpoint["addresses"][0] for endpoint in checked["endpoints"]]
        self.assertEqual([state["state"] for state in states], ["up", "unhealthy"])
        self.assertRegex(states[1]["reason"], r"^its health checks have failed for \d+\.\ds$")
        self.assertEqual([state["healthy"] for state in states], [True, False])
        down, up = (endpoint["addresses"][0] for endpoint in passive["endpoints"])
        self.assertEqual((down["state"], up["state"], up["healthy"]), ("down", "up", None))
        self.assertRegex(down["reason"], r"passed over for another (60|5\d)\.\ds$")
        self.assertEqual(down["address"], passive["endpoints"][0]["endpoint"])

    def test_memory_and_pools(self):
        origin = self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", origin)])
        client = self.keep(connect(proxy.address()))
        client.sendall(b"x")
        client.recv(1)
        memory = self.json(proxy, "/memory")
        self.assertEqual(memory["connections"], 1)
        self.assertGreater(memory["resident_bytes"], 1 << 20)
        self.assertIsNone(memory["body_file"])
        pools = self.json(proxy, "/pools")
        self.assertEqual(pools["budget_bytes"], 256 << 20)
        self.assertEqual([each["worker"] for each in pools["workers"]], [0, 1])
        for each in pools["workers"]:
            self.assertTrue(each["responds"])
            self.assertEqual(each["bytes"], sum(tier["bytes"] for tier in each["tiers"]))
        client.close()

    def test_log_level(self):
        proxy, config = self.start_with()
        self.assertEqual(self.json(proxy, "/log-level"), {"level": "info", "configured": "info"})
        self.assertEqual(self.json(proxy, "/log-level", "-X", "PUT", "-d", "error\n"),
                         {"level": "error", "configured": "info"})
        proxy.wait_for_output("the log level changes from info to error")
        self.assertIn("expected one of debug, info, warning, error, got", self.get(proxy, "/log-level", "-d", "loud", status=400))
        self.assertEqual(self.json(proxy, "/log-level", "-d", "info")["level"], "info")
        self.assertEqual(self.json(proxy, "/log-level", "-d", "debug")["level"], "debug")
        proxy.reload(config)
        self.assertEqual(self.json(proxy, "/log-level")["level"], "debug", "a reload keeps it, unless it changes `log`")
        config["log"] = {"level": "warning"}
        proxy.write_configuration(config)
        proxy.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.json(proxy, "/log-level") == {"level": "warning", "configured": "warning"},
                           what="the configured level")

    def test_errors(self):
        """The last warnings and errors, the newest first; lines of a kind once."""
        dead = refused_address()
        proxy, config = self.start_with(listener("main", http={"forward": "app"}),
                                        upstreams=[upstream("app", dead, fail_timeout="100ms", connect_attempts=1)], workers=1)
        self.assertEqual(self.json(proxy, "/errors"), {"warnings": 0, "errors": 0, "limit": 50, "lines": []})
        client = self.keep(Http1(proxy))
        client.get()
        line, = self.json(proxy, "/errors")["lines"]
        self.assertEqual((line["level"], line["upstream"], line["endpoint"], line["listener"], line["client"], line["times"]),
                         ("warning", "app", dead, None, None, 1))
        self.assertIn("cannot be connected to", line["text"])
        self.assertEqual(line["time"], line["first"])
        for _ in range(2):
            proxy.reload({**config, "listeners": [listener("main", tcp={"forward": "nobody"})]}, succeeds=False)
        _, second, last = self.json(proxy, "/errors")["lines"]
        self.assertEqual((second["level"], second["times"], last["text"]), ("error", 2, line["text"]))
        self.assertIn("reload: ", second["text"])
        self.assertLessEqual(second["first"], second["time"])
        page = json.loads(self.sluice("--address", self.address_of(proxy), "errors"))
        self.assertEqual((page["warnings"], page["errors"]), (1, 4), "two lines each")
        self.assertEqual(harness.Stats.parse(self.get(proxy, "/metrics")).total("log_lines_total", level="error"), 4)
        # What the log does not have is not here either.
        self.json(proxy, "/log-level", "-d", "error")
        warnings = self.json(proxy, "/errors")["warnings"]
        time.sleep(0.2)
        client.get()
        self.assertEqual(self.json(proxy, "/errors")["warnings"], warnings)

    def test_off_by_default(self):
        config = self.config()
        del config["admin"]
        proxy = self.start(config)
        self.assertEqual(proxy.stats().total("admin_requests_total"), 0)
        self.assertNotIn("admin", proxy.stderr())


class Metrics(AdminTest):

    def test_promtool(self):
        """Names, help and types are what Prometheus expects, whatever the configuration has."""
        promtool = harness.need("promtool")
        good = self.keep(Origin(server("good")))
        folder = self.temporary_directory()
        proxy, _ = self.start_with(
            listener("main", http={"forward": "app", "access_log": {"file": folder + "/log"}, "compression": {}}),
            listener("buffering", http={"routes": [{"forward": "app", "buffer": {"requests": "1MiB"}}]}), listener("tcp", tcp={"forward": "named"}),
            upstreams=[upstream("app", good, refused_address(), health_check={"http": {"path": "/"}}, ejection={}),
                       upstream("named", "localhost:1")])
        client = self.keep(Http1(proxy))
        for _ in range(3):
            client.get()
        text = self.get(proxy, "/metrics")
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        names = {re.sub("(_seconds)_(bucket|sum|count)$", r"\1", name) for name in re.findall(r"^(sluice_\w+)", text, re.M)}
        helped = set(re.findall(r"^# HELP (sluice_\w+) .*[.]$", text, re.M))
        self.assertEqual(names, helped)
        self.assertIn('sluice_http_requests_total{listener="main"} 3', text)

    def test_prometheus(self):
        """A real Prometheus scrapes it, with a token."""
        prometheus = harness.need("prometheus")
        folder = self.temporary_directory()
        with open(folder + "/token", "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        proxy, _ = self.start_with(admin={"token_file": folder + "/token"})
        port = free_port()
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "200ms"}, "scrape_configs": [{
                "job_name": "sluice", "authorization": {"credentials_file": folder + "/token"},
                "static_configs": [{"targets": [self.address_of(proxy)]}]}]}, file)
        child = harness.spawn([prometheus, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                               f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(harness.end, child)
        self.keep(Http1(proxy)).get()

        def query(expression):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}",
                                            timeout=10) as response:
                    return [each["value"][1] for each in json.load(response)["data"]["result"]]
            except OSError:
                return None
        harness.wait_until(lambda: query("up") == ["1"], 30, "a scrape")
        harness.wait_until(lambda: query('sluice_http_requests_total{listener="main"}') == ["1"], 30, "the counter")
        self.assertEqual(query("count(sluice_worker_responds == 1)"), ["2"])
        self.assertEqual(query('count({__name__=~"sluice_.+"} offset 1y)'), [])

    def test_same_counters_as_printed(self):
        """What SIGUSR2 prints is in a scrape."""
        proxy, _ = self.start_with()
        self.keep(Http1(proxy)).get()
        scraped = harness.Stats.parse(self.get(proxy, "/metrics"))
        printed = proxy.stats()
        self.assertEqual({name for name, _ in printed} - {name for name, _ in scraped}, set())
        self.assertEqual(printed.total("http_requests_total"), scraped.total("http_requests_total"))


class Access(AdminTest):

    def test_token(self):
        folder = self.temporary_directory()
        path = folder + "/token"
        with open(path, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        proxy, config = self.start_with(admin={"token_file": path})
        address = self.address_of(proxy)
        for page in (*PAGES, "/nope"):
            status, fields, _ = self.curl(address, page)
            self.assertEqual((status, fields["www-authenticate"]), (401, 'bearer realm="sluice"'))
        good = "Authorization: Bearer " + TOKEN
        self.get(proxy, "/metrics", "-H", good)
        self.get(proxy, "/metrics", "-H", good + "x", status=401)
        self.get(proxy, "/metrics", "-u", "a:" + TOKEN, status=401)
        self.assertEqual(self.sluice("--address", address, "--token-file", path, "readyz"), "ready\n")
        self.assertIn("401 Unauthorized", self.sluice("--address", address, "readyz", code=1))
        # A reload reads it again.
        with open(path, "w", encoding="ascii") as file:
            file.write("another" + TOKEN)
        self.get(proxy, "/metrics", "-H", good)
        proxy.reload(config)
        self.get(proxy, "/metrics", "-H", good, status=401)
        self.get(proxy, "/metrics", "-H", "Authorization: Bearer another" + TOKEN)
        with open(path, "w", encoding="ascii") as file:
            file.write("short")
        self.assertIn("expected a token of 16 to 512 printable characters", proxy.reload(config, succeeds=False))
        self.get(proxy, "/metrics", "-H", "Authorization: Bearer another" + TOKEN)

    def test_other_hosts(self):
        proxy, _ = self.start_with()
        for host in ("evil.example", "localhost.evil.example:80"):
            self.assertIn("requests must name an IP address or localhost", self.get(proxy, "/config", "-H", f"Host: {host}",
                                                                                  status=403))
        self.get(proxy, "/log-level", "-X", "PUT", "-d", "debug", "-H", "Origin: https://evil.example", status=403)
        self.get(proxy, "/config", "-H", "Host: localhost:1")

    def test_check(self):
        """`check` refuses what other machines could reach, and files and tokens that `run` could not use."""
        folder = self.temporary_directory()
        path = folder + "/sluice.yaml"

        def check(admin, code=1):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.config(admin=admin), file)
            done = subprocess.run([SLUICE, "check", "--config", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done)
            return done.stderr
        self.assertIn("admin.address: 0.0.0.0:9901 can be reached from other machines", check({"address": "0.0.0.0:9901"}))
        self.assertIn(f"admin.token_file: cannot read {folder}/no", check({"token_file": folder + "/no"}))
        with open(folder + "/token", "w", encoding="ascii") as file:
            file.write(TOKEN)
        self.assertIn("unencrypted", check({"address": "0.0.0.0:9901", "token_file": folder + "/token"}, code=0))
        self.assertIn("admin.mode: expected the permissions of a file in octal", check({"mode": "rw"}))
        self.assertIn(f"admin.address: {folder}/no cannot be used: No such file or directory; make the directory first",
                      check({"address": f"unix:{folder}/no/a.sock"}))
        self.assertEqual(check({"address": [f"unix:{folder}/a.sock", "[::1]:0"]}, code=0), "")

    def test_unix_socket(self):
        folder = self.temporary_directory()
        path = folder + "/admin.sock"
        os.umask(old := os.umask(0o077))
        try:
            proxy, config = self.start_with(admin={"address": "unix:" + path, "mode": "0660"})
        finally:
            os.umask(old)

        def mode():
            found = os.stat(path).st_mode
            self.assertTrue(stat.S_ISSOCK(found))
            return stat.S_IMODE(found)
        self.assertEqual(mode(), 0o660, "whatever the umask")
        self.assertEqual(self.curl("unix:" + path, "/readyz")[0], 200)
        # A port may be forwarded to it, and then the browser that uses it may be at the page of another site.
        self.assertEqual(self.curl("unix:" + path, "/readyz", "-H", "Host: any.example")[0], 403)
        self.assertEqual(self.sluice("--config", proxy.path, "/readyz"), "ready\n")
        config["admin"]["mode"] = "0600"
        proxy.reload(config)
        self.assertEqual(mode(), 0o600)
        proxy.upgrade()
        self.assertEqual(self.sluice("--config", proxy.path, "/readyz"), "ready\n")
        self.assertEqual(mode(), 0o600)
        self.stop(proxy)
        self.assertFalse(os.path.exists(path))


class Command(AdminTest):

    def test_command(self):
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        self.assertEqual(self.sluice("--address", address, "/healthz"), "ok\n")
        self.assertEqual(json.loads(self.sluice("--address", address, "log-level", "debug"))["level"], "debug")
        self.assertIn("sluice: /nope: 404 Not Found\n", self.sluice("--address", address, "nope", code=1))
        self.assertIn("the kernel has chosen the port", self.sluice("--config", proxy.path, "/", code=1))
        self.assertIn("is the process running", self.sluice("--address", "127.0.0.1:%d" % free_port(), "/", code=1))
        self.assertIn("admin needs the PATH of a page", self.sluice("--address", address, code=2))
        self.assertIn("admin needs either --config FILE or --address", self.sluice("/", code=2))
        config = self.config()
        del config["admin"]
        path = self.temporary_directory() + "/sluice.yaml"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.assertIn(f"{path} has no `admin`", self.sluice("--config", path, "/", code=1))


    def test_running_configuration(self):
        """`explain` and `diff` with that of a process, without the file it was started with."""
        secret = {"name": "x-secret", "set": "abcdef"}
        route = {"match": {"path": {"prefix": "/a/"}}, "forward": "x", "request_headers": [secret]}
        proxy, _ = self.start_with(listener("main", http={"routes": [route, {"respond": {"status": 204}}]}),
                                   upstreams=[upstream("x", "127.0.0.1:1")])
        against = ("--against", self.address_of(proxy))
        explained = self.sluice(*against, "http://a.test/a/b", command="explain")
        self.assertIn("routes[0]: taken", explained)
        self.assertIn("127.0.0.1:1", explained)
        self.assertNotIn("abcdef", explained)
        self.assertIn("204", self.sluice(*against, "http://a.test/c", command="explain"))
        self.assertEqual(self.sluice("--config", proxy.path, *against, command="diff"), "")
        changed = self.temporary_directory() + "/sluice.yaml"
        with open(proxy.path, encoding="utf-8") as file, open(changed, "w", encoding="utf-8") as to:
            to.write(file.read().replace("127.0.0.1:1\"", "127.0.0.1:2\""))
        self.assertIn("address: 127.0.0.1:2", self.sluice("--config", changed, *against, command="diff", code=1))
        self.assertIn("not both", self.sluice("--config", changed, *against, "--pid", "1", command="diff", code=2))
        self.assertIn("is the process running", self.sluice("--against", "127.0.0.1:%d" % free_port(), "http://a/", command="explain", code=1))
        self.assertIn("expected no query, or only=config", self.get(proxy, "/config?only=x", status=400))


class Clients(AdminTest):
    """Clients that are slow, silent or wrong. The listener goes on for others, and the process for its own clients."""

    def finish(self, proxy):
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assertEqual(self.keep(Http1(proxy)).get(), "hello")

    def test_slow_and_silent(self):
        proxy, _ = self.start_with(admin={"idle_timeout": "1s", "header_timeout": "1s", "send_timeout": "1s"})
        idle, slow = self.connect(proxy), self.connect(proxy)
        kept = self.connect(proxy)
        began = time.monotonic()
        slow.sendall(b"GET / HTTP/1.1\r\nho")
        kept.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        receive_until(kept, b"ready\n")
        for sock in (idle, slow, kept):
            with self.subTest(sock):
                try:
                    self.assertEqual(sock.recv(1), b"")
                except ConnectionResetError:
                    pass
        self.assertGreater(time.monotonic() - began, 0.9)
        self.assertEqual(self.value(proxy, 'sluice_admin_timeouts_total{timeout="idle"}'), 2)
        self.assertEqual(self.value(proxy, 'sluice_admin_timeouts_total{timeout="header"}'), 1)
        # Connections are used again after a pause, and new ones are accepted after longer than all timeouts.
        time.sleep(1.5)
        self.finish(proxy)

    def test_drip(self):
        """A request that arrives byte by byte, in time."""
        proxy, _ = self.start_with()
        client = self.connect(proxy)
        for byte in b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n":
            client.sendall(bytes([byte]))
            time.sleep(0.002)
        receive_until(client, b"ready\n")

    def test_reads_nothing(self):
        """Clients that ask for a large page and do not read it are ended, and do not delay others."""
        upstreams = [upstream(f"u{i}", *(f"127.0.0.1:{j}" for j in range(1, 101))) for i in range(100)]
        proxy, _ = self.start_with(listener("main", http=respond("hello")), admin={"send_timeout": "1s"}, upstreams=upstreams)
        size = len(self.get(proxy, "/metrics"))
        self.assertGreater(size, 2 << 20)
        readers = [self.connect(proxy, receive_buffer=4096) for _ in range(8)]
        for each in readers:
            each.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        began = time.monotonic()
        self.finish(proxy)
        self.assert_within(began, 3 * SLOWNESS)
        harness.wait_until(lambda: self.value(proxy, 'sluice_admin_timeouts_total{timeout="send"}') == 8, 15, "the timeouts")
        self.finish(proxy)
        harness.print_note(f"/metrics of 100 upstreams with 100 endpoints each: {size} bytes")

    def test_pipelines_without_reading(self):
        proxy, _ = self.start_with(admin={"send_timeout": "1s"})
        client = self.connect(proxy, receive_buffer=4096)
        client.settimeout(1)
        try:
            for _ in range(100000):
                client.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)
        except OSError:
            pass
        harness.wait_until(lambda: self.value(proxy, "sluice_admin_connections_open") == 1, 15, "the end of the client")
        self.finish(proxy)

    def test_garbage(self):
        proxy, _ = self.start_with()
        for garbage in (b"\0" * 100, b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                        b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
                        b"GET /" + b"x" * 10000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", os.urandom(3000) + b"\r\n\r\n"):
            with self.subTest(garbage[:30]):
                client = self.connect(proxy)
                received = b""
                try:
                    client.sendall(garbage)
                    client.shutdown(socket.SHUT_WR)
                    while piece := client.recv(65536):
                        received += piece
                except ConnectionError:
                    pass
                self.assertNotIn(b"HTTP/1.1 200", received)
        self.finish(proxy)

    def test_1000_connections(self):
        """They cannot keep an operator out: those without a request make room."""
        proxy, _ = self.start_with()
        clients = [self.connect(proxy) for _ in range(1000)]
        for client in clients[::3]:
            try:
                client.sendall(b"GET /heal")
            except ConnectionError:
                pass
        for _ in range(5):
            self.finish(proxy)
        self.assertLessEqual(self.value(proxy, "sluice_admin_connections_open"), 64)
        self.assertGreaterEqual(self.value(proxy, "sluice_admin_connections_evicted_total"), 900)
        for client in clients:
            client.close()
        self.finish(proxy)


class Busy(AdminTest):

    PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207

    def test_busy_worker(self):
        """Scrapes take no longer than usual while the only worker moves as much as it can."""
        origin = self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", origin)], workers=1)
        stop = threading.Event()

        def load():
            with connect(proxy.address()) as client:
                sender = threading.Thread(target=self.send_until, args=(client, stop))
                sender.start()
                while client.recv(1 << 20):
                    pass
                sender.join()
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        times = []
        address = self.address_of(proxy)
        try:
            for _ in range(20):
                began = time.monotonic()
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
                    self.assertIn(b'sluice_worker_responds{worker="0"} 1\n', response.read())
                times.append(time.monotonic() - began)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertLess(sorted(times)[10], 0.5 * SLOWNESS)
        harness.print_note(f"scrapes of a busy worker: median {sorted(times)[10] * 1000:.1f} ms, "
                           f"longest {max(times) * 1000:.1f} ms")

    @staticmethod
    def send_until(client, stop):
        while not stop.is_set():
            client.sendall(b"x" * 65536)
        client.shutdown(socket.SHUT_WR)

    def test_stuck_worker(self):
        """It is reported, and the response comes all the same."""
        proxy, _ = self.start_with()
        tid = next(tid for tid in proxy.threads()
                   if pathlib.Path(f"/proc/{proxy.pid}/task/{tid}/comm").read_text(encoding="ascii") == "worker 1\n")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        harness.require(libc.ptrace(self.PTRACE_SEIZE, tid, None, None) == 0, "no right to stop a thread (ptrace)")
        try:
            libc.ptrace(self.PTRACE_INTERRUPT, tid, None, None)
            os.waitpid(tid, 0x40000000)  # __WALL
            self.assertEqual(self.get(proxy, "/readyz"), "ready\n")
            self.assertEqual(self.get(proxy, "/healthz", status=503), "no response from worker 1\n")
            self.assertEqual(self.value(proxy, 'sluice_worker_responds{worker="0"}'), 1)
            self.assertEqual(self.value(proxy, 'sluice_worker_responds{worker="1"}'), 0)
            for page in ("/pools", "/connections"):
                self.assertEqual([each["responds"] for each in self.json(proxy, page)["workers"]], [True, False])
            self.assertEqual(self.json(proxy, "/memory")["largest_connections"], [])
        finally:
            libc.ptrace(self.PTRACE_DETACH, tid, None, None)
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assertEqual(self.value(proxy, 'sluice_worker_responds{worker="1"}'), 1)
        self.assertEqual([each["responds"] for each in self.json(proxy, "/connections")["workers"]], [True, True])


class Changes(AdminTest):

    def test_reload(self):
        port, other = free_port(), free_port()
        proxy, config = self.start_with(admin={"address": f"127.0.0.1:{port}"})
        kept = self.keep(socket.create_connection(("127.0.0.1", port)))

        def ask(sock=kept):
            sock.sendall(b"GET /generations HTTP/1.1\r\nhost: localhost\r\n\r\n")
            received = b""
            while not received.endswith(b"}\n"):
                received += sock.recv(65536)
            return json.loads(received.split(b"\r\n\r\n", 1)[1])
        first = ask()
        self.assertEqual((first["current"]["generation"], first["earlier"], first["phase"]), (1, [], "serving"))
        config["listeners"][0]["http"] = respond("changed")
        proxy.reload(config)
        second = ask()
        self.assertEqual((second["current"]["generation"], second["reloads"]), (2, 1))
        self.assertNotEqual(second["current"]["hash"], first["current"]["hash"])
        # To another address: the connection stays.
        config["admin"]["address"] = f"127.0.0.1:{other}"
        self.assertIn("`admin` has changed", proxy.reload(config))
        self.assertEqual(ask()["current"]["generation"], 3)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        self.assertEqual(self.curl(f"127.0.0.1:{other}", "/readyz")[0], 200)
        # An address that is in use is refused, and nothing changes.
        with socket.create_server(("127.0.0.1", 0)) as taken:
            config["admin"]["address"] = f"127.0.0.1:{taken.getsockname()[1]}"
            output = proxy.reload(config, succeeds=False)
            self.assertIn(f"admin: cannot listen on {config['admin']['address']}", output)
            self.assertIn("another process listens there", output)
        self.assertEqual(ask()["reload_failures"], 1)
        self.assertEqual(self.curl(f"127.0.0.1:{other}", "/readyz")[0], 200)
        # Off, and on again.
        admin = {"address": f"127.0.0.1:{other}"}
        del config["admin"]
        self.assertIn("admin: the listener is closed", proxy.reload(config))
        self.assert_ended(kept)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", other))
        config["admin"] = admin
        proxy.reload(config)
        self.assertEqual(self.curl(f"127.0.0.1:{other}", "/readyz")[0], 200)

    def assert_ended(self, sock):
        sock.settimeout(10)
        try:
            self.assertEqual(sock.recv(1), b"")
        except ConnectionResetError:
            pass

    def test_earlier_generations(self):
        origin = self.keep(Origin(echo))
        proxy, config = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", origin)])
        client = self.keep(connect(proxy.address()))
        client.sendall(b"x")
        client.recv(1)
        config["listeners"][0]["tcp"]["idle_timeout"] = "77s"
        proxy.reload(config)
        shown = self.json(proxy, "/generations")
        self.assertEqual([each["generation"] for each in shown["earlier"]], [1])
        self.assertFalse(shown["earlier"][0]["draining"])
        client.close()
        harness.wait_until(lambda: not self.json(proxy, "/generations")["earlier"], what="the end of the first generation")

    def test_reloads_during_scrapes(self):
        """Scrapes while configurations, upstreams and access logs come and go."""
        folder = self.temporary_directory()
        origin = self.keep(Origin(server("a")))
        proxy, config = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)])
        address = self.address_of(proxy)
        stop, errors, scrapes = threading.Event(), [], []

        def scrape():
            while not stop.is_set():
                try:
                    for page in ("/metrics", "/upstreams", "/config", "/memory"):
                        with urllib.request.urlopen(f"http://{address}{page}", timeout=10) as response:
                            scrapes.append(len(response.read()))
                except OSError as error:
                    errors.append(error)
        threads = [threading.Thread(target=scrape) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(40 if not LONG else 400):
            config["listeners"][0]["http"] = {"forward": f"x{i}", "access_log": {"file": f"{folder}/log{i % 3}"}}
            config["upstreams"] = [upstream(f"x{i}", origin, "127.0.0.1:1", max_fails=i % 2)] * 1 + [
                upstream(f"y{i}-{j}", origin) for j in range(i % 4)]
            proxy.reload(config)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertGreater(len(scrapes), 10)

    def test_upgrade(self):
        """No connection to it is refused or cut, and the new process responds from then on."""
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        host, port = address.rsplit(":", 1)
        kept = self.connect(proxy)
        kept.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        receive_until(kept, b"ready\n")
        stop, errors, pids = threading.Event(), [], []

        def ask():
            while not stop.is_set():
                try:
                    with urllib.request.urlopen(f"http://{address}/generations", timeout=10) as response:
                        pids.append(json.load(response)["pid"])
                except OSError as error:
                    errors.append(error)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        old = proxy.pid
        for _ in range(3):
            time.sleep(0.2)
            proxy.upgrade()
        time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertIn(old, pids)
        self.assertEqual(pids[-1], proxy.pid)
        self.assert_ended(kept)
        self.assertEqual(self.json(proxy, "/generations")["pid"], proxy.pid)
        with socket.create_connection((host, int(port))):
            pass

    def test_failed_upgrade(self):
        """The old process keeps the listener."""
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        proxy.upgrade("--binary", "/bin/false", succeeds=False)
        self.assertEqual(self.curl(address, "/readyz")[0], 200)

    def test_new_process_dies(self):
        """The old process, which waits for a request that cannot move, accepts again."""
        slow = self.keep(Origin(server("a")))
        proxy, _ = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", slow)],
                                   shutdown_timeout="30s")
        address, old = self.address_of(proxy), proxy.process
        client = self.keep(Http1(proxy))
        client.connection.request("GET", "/slow")
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 1)
        proxy.upgrade(waits=False)
        self.assertNotEqual(self.json(proxy, "/generations")["pid"], old.pid)
        proxy.process.kill()
        proxy.process.wait()
        proxy.process = old
        proxy._replaced.clear()  # pylint: disable=protected-access
        proxy.wait_for_output("this process serves again")
        status, _, body = self.curl(address, "/generations")
        self.assertEqual((status, json.loads(body)["pid"]), (200, old.pid))
        self.assertEqual(client.connection.getresponse().read(), b"a")

    def test_drain(self):
        """It responds until the last connection has ended."""
        origin = self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", origin)],
                                   shutdown_timeout="30s")
        client = self.keep(connect(proxy.address()))
        client.sendall(b"x")
        client.recv(1)
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("draining: no new connections")
        self.assertEqual(self.get(proxy, "/readyz", status=503), "draining\n")
        harness.wait_until(lambda: self.json(proxy, "/generations")["phase"] == "draining", what="the phase")
        self.assertEqual(self.value(proxy, 'sluice_sessions_active{listener="main"}'), 1)
        client.close()
        self.assertEqual(proxy.wait()[0], 0)
        proxy.checked = True

    def test_idle_for_long(self):
        """Nothing happens for longer than all timeouts of both sides; then it is used again."""
        proxy, _ = self.start_with(admin={"idle_timeout": "500ms", "header_timeout": "500ms", "send_timeout": "500ms"})
        self.get(proxy, "/readyz")
        time.sleep(60 if LONG else 3)
        for page in PAGES:
            self.get(proxy, page)
        self.assertEqual(self.value(proxy, "sluice_admin_connections_open"), 1)


if __name__ == "__main__":
    harness.main()
