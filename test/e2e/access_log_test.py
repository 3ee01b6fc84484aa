"""What the access log tells of requests, which of them it has, and where it goes: fields, conditions, samples and syslog,
with curl, grpc-go, and receivers of datagrams. test/e2e/http_log_test.py has its files under load, and
test/e2e/tcp_log_test.py connections."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import time

import harness
import http_access_test as access
import http_grpc_test as grpc
import quiet_day_test as quiet_day
from harness import KIB, MIB, SLOWNESS
from http_peers_support import KINDS
from origins import Origin, connect, echo, ping

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS


def respond(sock):
    """A server of HTTP/1.1 that responds `ok`."""
    head = b""
    while data := sock.recv(65536):
        head += data
        while b"\r\n\r\n" in head:
            head = head.split(b"\r\n\r\n", 1)[1]
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok")


class LogTest(grpc.GrpcTest):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.files, "access.log")
        self.read = 0

    def log(self, **options):
        return {"file": self.path, "format": "json", **options}

    def lines(self, count):
        """The next lines, once there are exactly so many."""
        def text():
            with contextlib.suppress(FileNotFoundError), open(self.path, encoding="utf-8") as file:
                return file.read().splitlines()
            return []
        harness.wait_until(lambda: len(text()) >= self.read + count, what=f"{count} lines")
        time.sleep(0.2)
        new = text()[self.read:]
        self.assertEqual(len(new), count, new)
        self.read += count
        return [json.loads(line) for line in new]

    def responding(self, log, *routes, **top):
        """A proxy that responds itself."""
        return self.start({"workers": 1, "shutdown_timeout": "3s", **top, "listeners": [
            {"name": "main", "address": "127.0.0.1:0", "http": {"access_log": log, "routes": [
                *routes, {"match": {"path": {"exact": "/bad"}}, "respond": {"status": 503}}, {"respond": {"body": "fine"}}]}}]})

    def get(self, proxy, path="/", connection=None):
        client = connection or http.client.HTTPConnection(*proxy.address(), timeout=20 * SLOWNESS)
        client.request("GET", path)
        response = client.getresponse()
        response.read()
        if not connection:
            client.close()
        return response.status


class Fields(LogTest):

    def test_client_port_and_server_name(self):
        proxy = self.through(self.keep(Origin(respond)).address, kind=HTTP1, http={"access_log": self.log()})
        for client in KINDS:
            self.curl(proxy, client, "/")
            line = self.lines(1)[0]
            self.assertEqual((line["client"], line["status"]), ("127.0.0.1", 200))
            self.assertGreater(line["client_port"], 1024)
            self.assertEqual(line["tls_server_name"], "localhost" if client[1] else None)
            self.assertEqual(line["tls_version"], "TLSv1.3" if client[1] else None)
        with socket.create_connection(proxy.address("plain")) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            port = client.getsockname()[1]
            while client.recv(65536):
                pass
            self.assertEqual(self.lines(1)[0]["client_port"], port)

    def test_behind_a_proxy_the_port_is_unknown(self):
        proxy = self.through(self.keep(Origin(respond)).address, kind=HTTP1, http={"access_log": self.log(), "trusted_hops": 1})
        self.curl(proxy, HTTP1, "/", "-H", "X-Forwarded-For: 203.0.113.7")
        line = self.lines(1)[0]
        self.assertEqual((line["client"], line["client_port"]), ("203.0.113.7", None))

    def test_password(self):
        users = self.write("users", b"bob:" + subprocess.run(
            [harness.need("openssl"), "passwd", "-6", "hunter2"], check=True, capture_output=True,
            timeout=20).stdout)
        proxy = self.through(self.keep(Origin(respond)).address, kind=HTTP1, http={"access_log": self.log(), "routes": [
            {"match": {"path": {"exact": "/open"}}, "forward": "main"},
            {"auth": {"basic": {"users_file": users}}, "forward": "main"}]})
        for client in (HTTP1, HTTP2_TLS):
            self.assertEqual(self.curl(proxy, client, "/", "-u", "bob:hunter2").status, 200)
            self.assertEqual(self.curl(proxy, client, "/", "-u", "bob:hunter2").status, 200)  # From the cache.
            self.assertEqual(self.curl(proxy, client, "/", "-u", "bob:wrong").status, 401)
            self.assertEqual(self.curl(proxy, client, "/").status, 401)
            self.assertEqual(self.curl(proxy, client, "/open", "-u", "eve:hunter2").status, 200)
            self.assertEqual([(line["status"], line["user"]) for line in self.lines(5)],
                             [(200, "bob"), (200, "bob"), (401, None), (401, None), (200, None)])

    def test_token(self):
        signer = access.Signer(self.files, "ES256", "one")
        keys = self.write("keys", json.dumps({"keys": [signer.jwk()]}).encode())
        proxy = self.through(self.keep(Origin(respond)).address, kind=HTTP1, http={
            "access_log": {"file": self.path, "format": '{"user":"%{user}","type":"%{response_header:content-type}"}'},
            "routes": [{"auth": {"jwt": {"jwks_file": keys, "audience": ["api"]}}, "forward": "main"}]})
        for subject in ("alice", "bob", "alice"):
            field = f"Authorization: Bearer {signer.token(sub=subject)}"
            self.assertEqual(self.curl(proxy, HTTP1, "/", "-H", field).status, 200)
            self.assertEqual(self.curl(proxy, HTTP2, "/", "-H", field).status, 200)
            lines = self.lines(2)
            self.assertEqual([line["user"] for line in lines], [subject, subject])
            self.assertNotIn("-", [line["type"] for line in lines])
        self.assertEqual(self.curl(proxy, HTTP1, "/").status, 401)
        self.assertEqual(self.lines(1)[0]["user"], "-")

    def test_grpc(self):
        """The status of the endpoint, in trailers and without a message, and that of the proxy."""
        server = self.grpc_server(grpc.PLAIN)
        proxy = self.through(server, http={"access_log": self.log()})
        self.run_cases(proxy, grpc.PLAIN, "empty_unary", "status_code_and_message", "unimplemented_method")
        harness.wait_until(lambda: os.path.getsize(self.path) > 0, what="lines")
        time.sleep(0.3)
        with open(self.path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual({line["status"] for line in lines}, {200})
        self.assertEqual({line["grpc_status"] for line in lines}, {0, 2, 12})
        self.assertEqual({line["grpc_status"] for line in lines if line["path"].endswith("EmptyCall")}, {0})
        self.assertEqual({line["grpc_status"] for line in lines if line["path"].endswith("UnimplementedCall")}, {12})
        os.truncate(self.path, 0)
        server.close()
        self.go_client(proxy, grpc.PLAIN, "/a/b", ["Content-Type: application/grpc", "Te: trailers"], method="POST")
        line = self.lines(1)[0]
        self.assertEqual((line["status"], line["grpc_status"], line["reason"]), (200, 14, "no_endpoint"))
        self.curl(proxy, HTTP1, "/")
        self.assertEqual(self.lines(1)[0]["grpc_status"], None)

    def test_websocket(self):
        def serve(sock):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            key = re.search(rb"sec-websocket-key: (\S+)", head)[1].decode()
            sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                         f"sec-websocket-accept: {quiet_day.accept_of(key)}\r\n\r\n".encode())
            echo(sock)
        proxy = self.through(self.keep(Origin(serve)).address, kind=HTTP1, http={"access_log": self.log()})
        client = connect(proxy.address("plain"))
        client.sendall(b"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                       b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        client.sendall(b"x" * 10)
        received = client.recv(10, socket.MSG_WAITALL)
        self.assertEqual(received, b"x" * 10)
        client.close()
        line = self.lines(1)[0]
        self.assertEqual((line["status"], line["path"], line["bytes_in"], line["bytes_out"]), (101, "/chat", 10, 10))

    def test_bytes_pinned(self):
        """What waits for a slow client is pinned, up to buffer_high; a quick one pins little."""
        size = 16 * MIB

        def serve(sock):
            while sock.recv(65536):
                with contextlib.suppress(ConnectionError):
                    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size))
        proxy = self.through(self.keep(Origin(serve)).address, kind=HTTP1,
                             http={"access_log": self.log(), "buffer_high": "512KiB"})
        with connect(proxy.address("plain"), receive_buffer=65536) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            proxy.wait_for(lambda stats: stats.total("pool_pinned_bytes") >= 512 * KIB)
            left = size
            while left > 0:
                left -= len(client.recv(min(65536, left)))
        line = self.lines(1)[0]
        self.assertTrue(512 * KIB <= line["bytes_pinned"] < 2 * MIB, line)
        self.assertEqual(line["bytes_pinned"] % KIB, 0)
        proxy = self.through(self.keep(Origin(respond)).address, kind=HTTP1, http={"access_log": self.log()})
        with contextlib.closing(http.client.HTTPConnection(*proxy.address("plain"), timeout=20 * SLOWNESS)) as client:
            self.get(proxy, connection=client)
        self.assertLessEqual(self.lines(1)[0]["bytes_pinned"], KIB)


class Conditions(LogTest):

    def test_errors_and_slow_requests(self):
        def slow(sock):
            sock.recv(65536)
            time.sleep(1.2)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        origin = self.keep(Origin(slow))
        proxy = self.start({"workers": 1, "shutdown_timeout": "3s", "listeners": [
            {"name": "main", "address": "127.0.0.1:0", "http": {
                "access_log": self.log(when="status >= 500 or duration > 1s"),
                "routes": [{"match": {"path": {"exact": "/slow"}}, "forward": "slow"},
                           {"match": {"path": {"exact": "/bad"}}, "respond": {"status": 503}},
                           {"respond": {"body": "fine"}}]}}],
            "upstreams": [{"name": "slow", "endpoints": [origin.address]}]})
        for path, status in (("/", 200), ("/bad", 503), ("/x", 200), ("/slow", 200), ("/", 200)):
            self.assertEqual(self.get(proxy, path), status)
        self.assertEqual([line["path"] for line in self.lines(2)], ["/bad", "/slow"])
        stats = proxy.stats()
        self.assertEqual(stats.total("access_log_dropped_total"), 0)
        self.assertEqual(stats.total("access_log_lines_total"), 2)

    def test_connections(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, tcp={"access_log": self.log(when="bytes_in > 10 and reason == finished")})
        for size in (5, 20, 10, 11):
            client = connect(proxy.address())
            self.assertTrue(ping(client, b"x" * size))
            client.close()
        self.assertEqual(sorted(line["bytes_in"] for line in self.lines(2)), [11, 20])

    def test_sample(self):
        proxy = self.responding(self.log(when="status >= 500 or random < 0.1"))
        connection = http.client.HTTPConnection(*proxy.address(), timeout=20 * SLOWNESS)
        for i in range(2000):
            self.get(proxy, "/bad" if i % 100 == 0 else "/", connection)
        connection.close()
        time.sleep(0.5)
        with open(self.path, encoding="utf-8") as file:
            statuses = [json.loads(line)["status"] for line in file]
        self.assertEqual(statuses.count(503), 20)
        self.assertTrue(100 < statuses.count(200) < 320, statuses.count(200))
        os.truncate(self.path, 0)
        proxy = self.responding(self.log(sample="0.1"))
        connection = http.client.HTTPConnection(*proxy.address(), timeout=20 * SLOWNESS)
        for _ in range(2000):
            self.get(proxy, "/", connection)
        connection.close()
        time.sleep(0.5)
        with open(self.path, encoding="utf-8") as file:
            self.assertTrue(100 < len(file.readlines()) < 320)

    def test_reload(self):
        proxy = self.responding(self.log(when="status >= 500"))
        config = {"workers": 1, "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {
            "access_log": self.log(when="status < 500"), "routes": [{"respond": {"body": "fine"}}]}}]}
        self.get(proxy, "/bad")
        self.assertEqual(self.lines(1)[0]["status"], 503)
        proxy.reload(config)
        self.get(proxy, "/fine")
        self.assertEqual(self.lines(1)[0]["path"], "/fine")
        # A mistake changes nothing.
        config["listeners"][0]["http"]["access_log"]["when"] = "statu < 500"
        self.assertIn("there is no field", proxy.reload(config, succeeds=False))
        self.get(proxy, "/again")
        self.assertEqual(self.lines(1)[0]["path"], "/again")

    def test_mistakes(self):
        path = os.path.join(self.files, "sluice.yaml")
        for kind, log, place, message in (
                ("http", 'when: "status = 500"', "7:15: listeners[0].http.access_log.when: ",
                 'expected ==, !=, <, <=, > or >= behind "status", got "=" (character 8); write == to compare'),
                ("http", 'when: "durration > 1s"', "7:15: listeners[0].http.access_log.when: ", 'did you mean "duration"?'),
                ("http", 'when: "connect_duration > 1s"', "7:15: listeners[0].http.access_log.when: ",
                 "a request has no connect_duration, which is for `tcp` listeners"),
                ("tcp", 'when: "status > 1"', "7:15: listeners[0].tcp.access_log.when: ",
                 "a connection of a `tcp` listener has no status; the variables are client_ip, "),
                ("http", "sample: 2", "7:17: listeners[0].http.access_log.sample: ", "expected a number above 0, up to 1"),
                ("http", "file: syslog:log", "7:15: listeners[0].http.access_log.file: ", "expected the absolute path of a socket")):
            with self.subTest(log), open(path, "w", encoding="utf-8") as file:
                file.write(f"listeners:\n  - name: main\n    address: 127.0.0.1:0\n    {kind}:\n      forward: main\n"
                           f"      access_log:\n        {log}\n" + ("" if "file" in log else "        file: stdout\n") +
                           "upstreams: [ { name: main, endpoints: [ 127.0.0.1:1 ] } ]\n")
                file.flush()
                check = subprocess.run([harness.SLUICE, "check", "--config", path], capture_output=True, text=True, check=False,
                                       timeout=20 * SLOWNESS)
                self.assertEqual(check.returncode, 1, check.stdout)
                self.assertIn(f"{path}:{place}", check.stderr)
                self.assertIn(message, check.stderr)


class Daemon:
    """A syslog daemon that takes datagrams, at a path or by UDP."""

    _FORM = re.compile(r"<30>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]+) sluice (\d+) access - (\{.*\})", re.DOTALL)

    def __init__(self, address):
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(10 * SLOWNESS)

    @property
    def target(self):
        if isinstance(self.address, str):
            return f"syslog:{self.address}"
        return "syslog:{}:{}".format(*self.socket.getsockname())

    def line(self, pid):
        text = self.socket.recv(65536).decode()
        form = self._FORM.fullmatch(text)
        assert form and int(form[3]) == pid, text
        return json.loads(form[4])

    def close(self):
        self.socket.close()
        if isinstance(self.address, str):
            with contextlib.suppress(OSError):
                os.unlink(self.address)


class Syslog(LogTest):

    def daemons(self):
        return (self.keep(Daemon(os.path.join(self.files, "syslog"))), self.keep(Daemon(("127.0.0.1", 0))))

    def test_requests(self):
        for daemon in self.daemons():
            with self.subTest(daemon.target):
                proxy = self.responding({"file": daemon.target, "format": "json"})
                for i in range(20):
                    self.get(proxy, f"/{i}")
                self.assertEqual([daemon.line(proxy.pid)["path"] for _ in range(20)], [f"/{i}" for i in range(20)])
                proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == 20)

    def test_connections(self):
        for daemon in self.daemons():
            proxy = self.proxy(self.keep(Origin(echo)).address, tcp={"access_log": {"file": daemon.target, "format": "json"}})
            client = connect(proxy.address())
            self.assertTrue(ping(client))
            client.close()
            line = daemon.line(proxy.pid)
            self.assertEqual((line["protocol"], line["reason"], line["bytes_in"]), ("TCP", "finished", 4))

    def test_daemon_that_comes_back(self):
        daemon = Daemon(os.path.join(self.files, "syslog"))
        proxy = self.responding({"file": daemon.target, "format": "json"})
        self.get(proxy, "/first")
        self.assertEqual(daemon.line(proxy.pid)["path"], "/first")
        daemon.close()
        self.get(proxy, "/meanwhile")
        proxy.wait_for(lambda stats: stats.total("access_log_errors_total") > 0)
        proxy.wait_for_output(f'access log "{daemon.target}": ')
        daemon = self.keep(Daemon(daemon.address))
        self.get(proxy, "/later")
        self.assertEqual([daemon.line(proxy.pid)["path"] for _ in range(2)], ["/meanwhile", "/later"])
        proxy.wait_for_output("can be written again")
        self.assertEqual(proxy.stats().total("access_log_dropped_total"), 0)

    def test_daemon_that_reads_nothing(self):
        """Requests do not wait for it, lines without room are counted, and all others arrive later."""
        daemon = self.keep(Daemon(os.path.join(self.files, "syslog")))
        proxy = self.responding({"file": daemon.target, "format": "json"})
        connection = http.client.HTTPConnection(*proxy.address(), timeout=20 * SLOWNESS)
        slowest, total = 0, 0
        while not proxy.stats().total("access_log_dropped_total"):
            for _ in range(200):
                begin = time.monotonic()
                self.get(proxy, "/" + "x" * 2000, connection)
                slowest = max(slowest, time.monotonic() - begin)
            total += 200
            self.assertLess(total, 20_000, "no line is dropped")
        connection.close()
        self.assertLess(slowest, 2 * SLOWNESS)
        dropped = proxy.stats().total("access_log_dropped_total")
        for _ in range(total - dropped):
            daemon.line(proxy.pid)
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == total - dropped)

    def test_absent_daemon(self):
        config = {"listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {
            "access_log": f"syslog:{self.files}/none", "routes": [{"respond": {"body": "x"}}]}}]}
        path = self.write("absent.yaml", json.dumps(config).encode())
        for command in ("check", "run"):
            done = subprocess.run([harness.SLUICE, command, "--config", path], capture_output=True, text=True, check=False,
                                  timeout=20 * SLOWNESS)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("start the syslog daemon, or name its socket", done.stderr)


if __name__ == "__main__":
    harness.main()
