"""What an operator sees of an incident: for each row of "Incidents" in docs/operating/troubleshooting.md, the line of the log, the
metric and the alert that the row names show it within five seconds, and no other alert fires.

A real Prometheus scrapes each proxy and evaluates packaging/prometheus/sluice-alerts.yaml, with windows of seconds for its minutes.
Clients send requests all the while, as the shares of these are what some alerts look at.
"""

import contextlib
import os
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import harness
from harness import ROOT, SLOWNESS, wait_until
from name_server import NameServer
from origins import Origin, connect, free_port
from prometheus import ALERTS, Prometheus, in_seconds
from reload_test import RESPONSE, listener, read_head, server, upstream
from tls_support import TlsTest

WITHIN_SECONDS = 5
NAME = "app.test"


def rows():
    """The table of incidents: by the name of each, the cells log, metric and alert, without backquotes."""
    text = (ROOT / "docs/operating/troubleshooting.md").read_text(encoding="utf-8")
    section = re.split(r"\n## ", text.split("\n## Incidents\n", 1)[1], maxsplit=1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ")]
    return {name: [code_in(cell) for cell in rest[:3]] for name, *rest in cells[1:]}


def code_in(cell):
    found = re.findall(r"`([^`]+)`", cell)
    return found[0] if found else None


def pattern_of(text):
    """What matches a line as the documents write it, with words in capitals for values."""
    return re.compile("".join(".*?" if re.fullmatch("[A-Z]{4,}", part) else re.escape(part)
                              for part in re.split(r"\b([A-Z]{4,})\b", text)))


class Load:
    """A client that sends a request fifty times a second, whatever comes of it, each on a connection of its own."""

    def __init__(self, proxy, path="/", source=None):
        self._address, self._path, self._source = proxy.address(), path, source
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.02):
            with contextlib.suppress(OSError), connect(self._address, self._source, timeout=2) as sock:
                sock.sendall(b"GET %s HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n" % self._path.encode())
                while sock.recv(65536):
                    pass

    def close(self):
        self._stop.set()
        self._thread.join(10)


class Changeable:
    """An endpoint whose behaviour a test changes. The connections that are open then end."""

    def __init__(self, handler):
        self.handler = handler
        self._open = set()
        self._origin = Origin(self._serve)
        self.address = self._origin.address

    def _serve(self, sock):
        self._open.add(sock)
        try:
            self.handler(sock)
        finally:
            self._open.discard(sock)

    def change(self, handler):
        self.handler = handler
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._origin.close()


def one_response(sock):
    """Serves one request of a connection."""
    read_head(sock)
    sock.sendall(RESPONSE.replace(b"\r\n", b"\r\nconnection: close\r\n", 1) % (2, b"ok"))


def relay(address):
    """A handler that passes everything on to a server."""
    def pass_on(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def handler(sock):
        with connect(address) as other:
            back = threading.Thread(target=pass_on, args=(other, sock), daemon=True)
            back.start()
            pass_on(sock, other)
            back.join()
    return handler


class Incidents(TlsTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rows = rows()
        tests = [name for name in dir(cls) if name.startswith("test_")]
        # Prometheus has to know all of them when it starts.
        ports = set()
        while len(ports) < len(tests):
            ports.add(free_port())
        cls.admins = {name: f"127.0.0.1:{port}" for name, port in zip(tests, ports)}
        cls.prometheus = Prometheus(cls.admins.values(), in_seconds(ALERTS.read_text(encoding="utf-8")))
        cls.addClassCleanup(cls.prometheus.close)

    def start_with(self, upstreams, routes=None, cut_allowed=False, descriptors=None, main=None, **top):
        """A proxy with the listener `main`, in front of the first of `upstreams` unless there are `routes`."""
        self.admin = self.admins[self._testMethodName]
        self.log = self.temporary_directory() + "/access.log"
        main = {"http": {"access_log": self.log, "routes": routes or [{"forward": upstreams[0]["name"]}]}, **(main or {})}
        self.config = {"workers": 1, "shutdown_timeout": "3s", "admin": {"address": self.admin},
                       "listeners": [listener("main", **main)], "upstreams": list(upstreams), **top}
        return self.start(self.config, cut_allowed=cut_allowed, descriptors=descriptors)

    def metric(self, selector):
        """The sum of the series in a scrape that a selector such as `name{label="value"}` means. One that is absent is 0."""
        name, wanted = re.fullmatch(r"(\w+)(?:\{(.*)\})?", selector).groups()
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10 * SLOWNESS) as response:
            lines = response.read().decode().splitlines()
        total = 0
        for line in lines:
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name and set((wanted or "").split(",")) - {""} <= set((found[2] or "").split(",")):
                total += float(found[3])
        return total

    @contextlib.contextmanager
    def incident(self, name, proxy, load=True):
        """What its block does causes the incident of this name."""
        pattern, metric, alert = self.rows[name]
        if load:
            self.keep(Load(proxy))

        def logged():
            with open(self.log, encoding="utf-8") as file:
                return len(pattern_of(pattern).findall(proxy.stderr() + file.read()))
        wait_until(lambda: any(value > 6 for _, value in self.prometheus.query(
            f'count_over_time(sluice_ready{{instance="{self.admin}"}}[1m])')), 20, "scrapes")
        self.assertEqual(self.prometheus.fired(self.admin) - {"SluiceDown"}, set(), "before the incident")
        before, logged_before = self.metric(metric), logged()
        began = time.monotonic()
        yield
        seconds = {}
        expected = {alert} if alert else set()

        def shown():
            for what, condition in (("log", lambda: logged() > logged_before), ("metric", lambda: self.changed(metric, before)),
                                    ("alert", lambda: expected <= self.prometheus.fired(self.admin))):
                if what not in seconds and condition():
                    seconds[what] = time.monotonic() - began
            return len(seconds) == 3
        try:
            wait_until(shown, WITHIN_SECONDS, "the incident to show")
        except AssertionError as error:
            self.fail(f"{error}; it shows in {seconds}; alerts: {self.prometheus.fired(self.admin)}; {metric}: {before}, "
                      f"{self.metric(metric)}\n{proxy.stderr()}\n" + pathlib.Path(self.log).read_text(encoding="utf-8")[-2000:])
        time.sleep(1.2)
        self.assertEqual(self.prometheus.fired(self.admin) - {"SluiceDown"}, expected)
        harness.print_note(", ".join(f"{what} after {after:.1f} s" for what, after in seconds.items()))

    def requests(self):
        """(path, status, reason) of each line of the access log."""
        lines = pathlib.Path(self.log).read_text(encoding="utf-8").splitlines()
        return [re.search(r'"\S+ (\S+) HTTP/1.1" (\d+) (\S+)', line).groups() for line in lines]

    def changed(self, metric, before):
        now = self.metric(metric)
        return now > before if metric.split("{")[0].endswith("_total") else now != before

    # ---- Endpoints

    def test_endpoint_dies(self):
        dying, other = Origin(server("a")), self.keep(Origin(server("b")))
        proxy = self.start_with([upstream("app", dying, other)])
        with self.incident("an endpoint dies", proxy):
            dying.close()

    def test_endpoint_gets_slow(self):
        is_slow, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def serve(sock):
            if is_slow.is_set():
                go_on.wait(30)
            one_response(sock)
        proxy = self.start_with([upstream("app", self.keep(Origin(serve)), response_timeout="200ms")])
        with self.incident("an endpoint gets slow", proxy):
            is_slow.set()

    def test_certificate_expires(self):
        valid = self.files.make("endpoint", "localhost")
        expired = self.files.make("expired", "localhost", days=0)
        time.sleep(1.1)  # Times in certificates are whole seconds.

        def secure(files):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files["chain"], files["key"])

            def handler(sock):
                with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as inner:
                    one_response(inner)
            return handler
        other, endpoint = self.keep(Changeable(secure(valid))), self.keep(Changeable(secure(valid)))
        proxy = self.start_with([upstream("app", other, endpoint, fail_timeout="500ms",
                                          tls={"ca": self.ca, "server_name": "localhost"})])
        with self.incident("the certificate of an endpoint expires", proxy):
            endpoint.change(secure(expired))

    def test_wrong_protocol(self):
        origin = self.start({"workers": 1, "listeners": [listener("main", http={"routes": [{"respond": {"status": 200}}]})]})
        other, endpoint = (self.keep(Changeable(relay(origin.address()))) for _ in range(2))
        proxy = self.start_with([upstream("app", other, endpoint, protocol="http2", fail_timeout="500ms")])
        with self.incident("an endpoint speaks the wrong protocol", proxy):
            endpoint.change(server("HTTP/1.1"))

    # ---- Clients

    def test_client_floods(self):
        proxy = self.start_with([upstream("app", self.keep(Origin(server("a"))))], main={"max_connections_per_source": 20})
        self.keep(Load(proxy, source="127.0.0.2"))
        stop = threading.Event()
        self.addCleanup(stop.set)

        def flood():
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    connect(proxy.address(), timeout=1).close()
                time.sleep(0.005)
        with self.incident("a client floods", proxy, load=False):
            for _ in range(20):
                self.keep(connect(proxy.address()))
            threading.Thread(target=flood, daemon=True).start()
        stop.set()
        self.assertEqual({request[1:] for request in self.requests()}, {("200", "ok")}, "the others are served")

    def test_reader_stalls(self):
        def wall(sock):
            read_head(sock)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (16 << 20))
            sock.sendall(bytes(16 << 20))
        proxy = self.start_with(
            [upstream("app", self.keep(Origin(server("a")))), upstream("wall", self.keep(Origin(wall)))],
            [{"match": {"path": {"prefix": "/wall"}}, "forward": "wall"}, {"forward": "app"}],
            memory={"worker_budget": "8MiB"}, cut_allowed=True)
        self.config["listeners"][0]["http"]["stuck_timeout"] = "1s"
        proxy.reload(self.config)
        with self.incident("a reader stalls and pins memory", proxy):
            for _ in range(100):
                reader = self.keep(connect(proxy.address(), receive_buffer=4096))
                reader.sendall(b"GET /wall HTTP/1.1\r\nhost: a.test\r\n\r\n")
        self.assertEqual({path for path, _, reason in self.requests() if reason == "stuck"}, {"/wall"}, "those who do not read")

    # ---- The process and its configuration

    def test_descriptors_run_out(self):
        proxy = self.start_with([upstream("app", self.keep(Origin(server("a"))))], descriptors=220,
                                limits={"max_connections": 1000})
        with self.incident("descriptors run out", proxy):
            for _ in range(150):
                self.keep(connect(proxy.address()))
        self.assertEqual({request[1:] for request in self.requests()} - {("0", "client_reset")}, {("200", "ok")},
                         "who was accepted is served")

    def test_no_route_matches(self):
        route = {"match": {"path": {"exact": "/"}}, "forward": "app"}
        proxy = self.start_with([upstream("app", self.keep(Origin(server("a"))))], [route])
        with self.incident("a route is misconfigured: nothing matches", proxy):
            route["match"]["path"]["exact"] = "/misspelled"
            proxy.reload(self.config)

    # ---- Names

    def named(self, names, port, **rest):
        return upstream("app", f"{NAME}:{port}", resolve={
            "servers": [names.address], "min_ttl": "100ms", "max_ttl": "200ms", "timeout": "300ms", "attempts": 1}, **rest)

    def start_named(self):
        port = free_port()
        for host in ("127.0.0.2", "127.0.0.3"):
            self.keep(Origin(server(host), (host, port)))
        names = self.keep(NameServer())
        names.set(NAME, "127.0.0.2")
        return self.start_with([self.named(names, port)]), names

    def test_upstream_without_endpoints(self):
        proxy, names = self.start_named()
        with self.incident("an upstream has no endpoints", proxy):
            names.forget(NAME)

    def test_dns_changes(self):
        proxy, names = self.start_named()
        with self.incident("DNS changes", proxy):
            names.set(NAME, "127.0.0.3")

    def test_dns_fails(self):
        proxy, names = self.start_named()
        with self.incident("DNS fails", proxy):
            names.fail(NAME)

    # ---- Disks

    def small_disk(self, mebibytes):
        directory = self.temporary_directory()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tiny", directory], capture_output=True,
                                 check=False)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", directory])
        return directory

    @staticmethod
    def fill(directory):
        with contextlib.suppress(OSError), open(directory + "/rest", "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def test_disk_of_the_access_log(self):
        disk = self.small_disk(1)
        proxy = self.start_with([upstream("app", self.keep(Origin(server("a"))))])
        self.log = self.config["listeners"][0]["http"]["access_log"] = disk + "/access.log"
        proxy.reload(self.config)
        with self.incident("the disk of the access log is full", proxy):
            self.fill(disk)

    def test_disk_of_bodies(self):
        disk = self.small_disk(2)

        def large(sock):
            read_head(sock)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (8 << 20))
            sock.sendall(bytes(8 << 20))
        proxy = self.start_with(
            [upstream("app", self.keep(Origin(server("a")))), upstream("large", self.keep(Origin(large)))],
            [{"match": {"path": {"prefix": "/large"}}, "forward": "large", "buffer": {"responses": "16MiB"}}, {"forward": "app"}],
            body_file={"directory": disk, "limit": "1GiB"}, cut_allowed=True)
        with self.incident("the disk of buffered bodies is full", proxy):
            self.fill(disk)
            for _ in range(4):
                reader = self.keep(connect(proxy.address(), receive_buffer=4096))
                reader.sendall(b"GET /large HTTP/1.1\r\nhost: a.test\r\n\r\n")
                time.sleep(0.3)


if __name__ == "__main__":
    harness.main()
