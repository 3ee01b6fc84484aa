"""The worked examples in docs/examples: tests that each claim holds for Sluice, for nginx and HAProxy with the
equivalent configuration, and for Envoy if the environment variable ENVOY names that program.

The files are what users read. Only their addresses are replaced: `0.0.0.0:PORT` by a free port, each server in
10.0.0.0/8 by one of the test, and the folder of certificates.
"""

import base64
import contextlib
import hashlib
import os
import re
import shutil
import ssl
import subprocess

import harness
import programs
from harness import ROOT, need, wait_until
from http_wire import Http1Client, Server, data_frame, headers_frame
from origins import Origin, connect, free_port, receive_exactly
from tls_support import TlsTest

EXAMPLES = ROOT / "docs/examples"
FILES = "/etc/ssl/example"
PROGRAMS = {"sluice": "sluice.yaml", "nginx": "nginx.conf", "haproxy": "haproxy.cfg", "envoy": "envoy.yaml"}
ADDRESS = re.compile(r"\b((?:0|10)(?:\.\d+){3}):(\d+)\b")
ENVOY_ADDRESS = re.compile(r"address: ((?:0|10)(?:\.\d+){3}), port_value: (\d+)")


class Program(programs._Server):
    """Another proxy, with its own configuration."""

    def __init__(self, name, config, listens):
        super().__init__(name if name != "envoy" else os.environ["ENVOY"], listens)
        path = self.write(PROGRAMS[name], config)
        if name == "nginx":
            temporary = "".join(f"{kind}_temp_path {self.folder}/{kind}; " for kind in
                                ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            self.write(PROGRAMS[name], config.replace("http {\n", f"http {{ access_log off; {temporary}\n"))
            self.run("-e", "stderr", "-c", path, "-g",
                     f"daemon off; master_process off; pid {self.folder}/pid; error_log stderr;")
        elif name == "haproxy":
            self.run("-db", "-f", path)
        else:
            self.run("-c", path, "--disable-hot-restart", "-l", "warning", "--concurrency", "1")


def app(name):
    """A server whose response has the request and the server's name."""
    def respond(request, connection):
        fields = "".join(f" {field}={request.value(field)}" for field in
                         ("x-forwarded-for", "x-forwarded-proto", "x-client-name"))
        connection.reply(request, body=f"{name}: {request.method} {request.path} {request.authority}{fields}".encode())
    return Server(respond)


def call(request, connection):
    """A gRPC server: its responses have trailers."""
    connection.send(headers_frame(request.stream, [(":status", "200"), ("content-type", "application/grpc")]) +
                    data_frame(request.stream, b"pong!") +
                    headers_frame(request.stream, [("grpc-status", "0")], end=True))


class Examples(TlsTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.ssl = os.path.join(cls.folder, "example")
        os.mkdir(folder)
        os.chmod(cls.folder, 0o755)
        server = cls.files.make("example", "example.com", "www.example.com")
        cls.alice = cls.files.make("alice.example.com", "alice.example.com")
        cls.bob = cls.files.make("bob.example.com", "bob.example.com")
        for source, name in ((server["chain"], "chain.pem"), (server["key"], "key.pem"), (cls.ca, "clients-ca.pem")):
            shutil.copy(source, os.path.join(folder, name))
        with open(os.path.join(folder, "both.pem"), "w", encoding="utf-8") as both:
            for name in ("chain.pem", "key.pem"):
                with open(os.path.join(folder, name), encoding="utf-8") as part:
                    both.write(part.read())

    def each_program(self, example, servers, claims):
        """Runs `claims(ports, program)` for each program. `servers` maps an address in the files to that of the test's
        server; `ports` maps a port in the files to the one on which the program listens."""
        for program, file in PROGRAMS.items():
            with self.subTest(program):
                if program == "envoy" and not os.environ.get("ENVOY"):
                    self.skipTest("no Envoy: the environment names none in ENVOY")
                text = (EXAMPLES / example / file).read_text(encoding="utf-8")
                ports = {}
                config = self.rewritten(text, servers, ports)
                self.assertTrue(ports)
                if program == "sluice":
                    proxy = self.sluice(config)
                    claims(ports, program)
                    self.stop(proxy)
                else:
                    with contextlib.closing(Program(program, config, [("127.0.0.1", p) for p in ports.values()])):
                        claims(ports, program)

    def rewritten(self, text, servers, ports):
        def place(match, form):
            host, port = match[1], int(match[2])
            if host == "0.0.0.0":
                ports.setdefault(port, free_port())
                return form.format("127.0.0.1", ports[port])
            host, port = servers[f"{host}:{port}"].rsplit(":", 1)
            return form.format(host, port)
        text = ENVOY_ADDRESS.sub(lambda match: place(match, "address: {}, port_value: {}"), text)
        text = ADDRESS.sub(lambda match: place(match, "{}:{}"), text)
        return text.replace(FILES, self.ssl)

    def sluice(self, text):
        """The configuration as text: the user's file with its comments."""
        return self.start(text, listeners=re.findall(r"^  - name: (\S+)\n    address", text, re.M))

    def app(self, name):
        return self.keep(app(name)).address

    def curl(self, *arguments, check=True):
        """Returns status and heads, and the body."""
        result = subprocess.run([need("curl"), "-sS", "-i", "--cacert", self.ca, "--max-time", "20", *arguments],
                                capture_output=True, text=True, timeout=60, check=False)
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        head, _, body = result.stdout.replace("\r\n", "\n").partition("\n\n")
        return head.lower(), body

    def at(self, ports, port, host="example.com", scheme="http", path="/"):
        """The arguments of curl for a URL of the files."""
        return [f"{scheme}://{host}:{ports[port]}{path}", "--resolve", f"{host}:{ports[port]}:127.0.0.1"]

    # ---- The claims

    def test_01_reverse_proxy(self):
        def claims(ports, program):
            head, body = self.curl("--path-as-is", *self.at(ports, 80, path="/a/../b?c"))
            self.assertIn(" 200", head)
            path = "/a/../b?c" if program in ("nginx", "haproxy") else "/b?c"
            client = r"[\d.]+" if program == "envoy" else r"127\.0\.0\.1"  # Envoy sends its own loopback address.
            self.assertRegex(body, rf"^app: GET {re.escape(path)} example.com:{ports[80]} "
                                   rf"x-forwarded-for={client} x-forwarded-proto=http")
        self.each_program("01-reverse-proxy", {"10.0.0.11:8080": self.app("app")}, claims)

    def test_02_tls_and_redirect(self):
        def claims(ports, program):
            head, _ = self.curl(*self.at(ports, 80, path="/a?b"), "-H", "Host: example.com")
            self.assertIn(" 301", head)
            self.assertRegex(head, r"\nlocation: https://example.com/a\?b\b")
            for version, line in (("--http2", "http/2 200"), ("--http1.1", "http/1.1 200")):
                head, body = self.curl(version, *self.at(ports, 443, scheme="https", path="/x"))
                self.assertTrue(head.startswith(line), head)
                self.assertIn("strict-transport-security: max-age=31536000", head)
                self.assertIn("x-content-type-options: nosniff", head)
                self.assertIn("app: GET /x ", body)
                self.assertIn("x-forwarded-proto=https", body)
        self.each_program("02-tls-and-redirect", {"10.0.0.11:8080": self.app("app")}, claims)

    def test_03_hosts_and_paths(self):
        def claims(ports, program):
            for host, path, expected in (
                    ("www.example.com", "/api/v1/users", "api: GET /v1/users "), ("www.example.com", "/api", "api: GET / "),
                    ("www.example.com", "/apis", "web: GET /apis "), ("example.com", "/", "web: GET / "),
                    ("a.files.example.com", "/f", "files: GET /f "), ("other.example.com", "/", "nothing here")):
                head, body = self.curl(*self.at(ports, 80, host, path=path))
                self.assertIn(expected, body, f"{host}{path}")
                self.assertIn(" 404" if expected == "nothing here" else " 200", head)
        self.each_program("03-hosts-and-paths", {
            "10.0.0.11:8080": self.app("api"), "10.0.0.12:8080": self.app("api"), "10.0.0.21:8080": self.app("web"),
            "10.0.0.31:8080": self.app("files")}, claims)

    def test_04_maintenance(self):
        def claims(ports, program):
            head, body = self.curl(*self.at(ports, 80, path="/some/page"))
            self.assertIn(" 503", head)
            self.assertIn("retry-after: 3600", head)
            self.assertIn("content-type: text/html", head)
            self.assertIn("<h1>We are back in an hour</h1>", body)
            head, body = self.curl(*self.at(ports, 80, path="/healthz"))
            self.assertIn(" 200", head)
            self.assertEqual(body, "ok\n")
        self.each_program("04-maintenance", {"10.0.0.11:8080": self.app("app")}, claims)

    def test_05_database_failover(self):
        def database(name):
            def serve(sock):
                header = b""
                while not header.endswith(b"\r\n"):
                    header += receive_exactly(sock, 1)
                sock.sendall(name + b" " + header)
                with contextlib.suppress(OSError):
                    while sock.recv(100):
                        pass
            return serve

        def claims(ports, program):
            first, second = (Origin(database(name), ("127.0.0.1", port)) for name, port in
                             ((b"one", servers[0]), (b"two", servers[1])))
            self.addCleanup(second.close)

            def send_request():
                with connect(("127.0.0.1", ports[5432])) as client:
                    response = b""
                    while not response.endswith(b"\r\n"):
                        response += receive_exactly(client, 1)
                    self.assertRegex(response, rb"^(one|two) PROXY TCP4 127\.0\.0\.1 127\.0\.0\.1 \d+ \d+\r\n$")
                    return response[:3]
            self.assertEqual({send_request() for _ in range(12)}, {b"one", b"two"})
            first.close()
            self.assertEqual({send_request() for _ in range(6)}, {b"two"})
            second.close()
        servers = free_port(), free_port()
        self.each_program("05-database-failover", {f"10.0.0.1{i + 1}:5432": f"127.0.0.1:{port}"
                                                   for i, port in enumerate(servers)}, claims)

    def test_06_sni_passthrough(self):
        def tls_server(name):
            files = self.files.make(name, name, "*." + name)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(files["chain"], files["key"])

            def serve(sock):
                with contextlib.suppress(OSError), context.wrap_socket(sock, server_side=True) as secure:
                    secure.sendall(name.encode())
                    secure.recv(100)
            return self.keep(Origin(serve)).address

        def claims(ports, program):
            for name, server in (("mail.example.com", b"mail.example.com"), ("a.mail.example.com", b"mail.example.com"),
                                 ("www.example.com", b"www.example.com")):
                client = self.secure(("127.0.0.1", ports[443]), name=name)
                self.assertEqual(receive_exactly(client, len(server)), server)
                client.close()
            with self.assertRaises(OSError):
                self.secure(("127.0.0.1", ports[443]), name="other.example.com")
        self.each_program("06-sni-passthrough", {"10.0.0.11:443": tls_server("mail.example.com"),
                                                 "10.0.0.21:443": tls_server("www.example.com")}, claims)

    def test_07_mutual_tls(self):
        def claims(ports, program):
            alice = ["--cert", self.alice["chain"], "--key", self.alice["key"]]
            bob = ["--cert", self.bob["chain"], "--key", self.bob["key"]]
            for who, name, path, status in ((alice, "alice", "/", 200), (alice, "alice", "/admin/users", 200),
                                            (bob, "bob", "/", 200), (bob, "bob", "/admin/users", 403)):
                head, body = self.curl(*who, "-H", "X-Client-Name: root", *self.at(ports, 443, scheme="https", path=path))
                self.assertIn(f" {status}", head.split("\n")[0], f"{name} {path}")
                if status == 200:
                    self.assertTrue(body.endswith(f"x-client-name={name}.example.com"), body)
            head, body = self.curl(*self.at(ports, 443, scheme="https"), check=False)
            self.assertNotIn(" 200", head)  # nginx responds with 400.
            self.assertNotIn("app:", body)
        self.each_program("07-mutual-tls", {"10.0.0.11:8080": self.app("app")}, claims)

    def test_08_canary(self):
        def claims(ports, program):
            def who(client, header=""):
                response = client.get("/", fields=f"X-Canary: {header}\r\n" if header else "")
                self.assertEqual(response.status, 200)
                return bytes(response.body).partition(b":")[0]
            with Http1Client(("127.0.0.1", ports[80])) as client:
                self.assertEqual({who(client, "always") for _ in range(5)}, {b"canary"})
                self.assertEqual({who(client, "never") for _ in range(20)}, {b"stable"})
                canaries = sum(who(client) == b"canary" for _ in range(400))
            # 10% of the requests are 40; the standard deviation is 6.
            self.assertTrue(10 <= canaries <= 80, canaries)
        self.each_program("08-canary", {"10.0.0.11:8080": self.app("stable"), "10.0.0.12:8080": self.app("stable"),
                                        "10.0.0.21:8080": self.app("canary")}, claims)

    def test_09_websocket_and_grpc(self):
        def websocket(sock):
            """Accepts an upgrade, or responds like any app; then echoes."""
            head = b""
            while b"\r\n\r\n" not in head:
                head += receive_exactly(sock, 1)
            if b"upgrade: websocket" not in head.lower():
                return sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\napp\n")
            key = re.search(rb"sec-websocket-key: *(\S+)", head, re.I)[1]
            accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            while data := sock.recv(1000):
                sock.sendall(data)

        def claims(ports, program):
            where = ("127.0.0.1", ports[443])
            upgrade = self.secure(where, self.context(alpn=["http/1.1"]), name="example.com")
            upgrade.sendall(b"GET /chat HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += receive_exactly(upgrade, 1)
            self.assertTrue(head.startswith(b"HTTP/1.1 101"), head)
            self.assertIn(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", head)
            upgrade.sendall(b"\x81\x85\0\0\0\0hello")
            self.assertEqual(receive_exactly(upgrade, 11), b"\x81\x85\0\0\0\0hello")
            upgrade.close()
            head, body = self.curl("--http1.1", *self.at(ports, 443, scheme="https"))
            self.assertEqual(body, "app\n")
            result = subprocess.run(
                [need("curl"), "-sS", "-i", "--http2", "--cacert", self.ca, "-H", "content-type: application/grpc", "-H",
                 "te: trailers", "--data-binary", "ping!", *self.at(ports, 443, scheme="https",
                                                                     path="/shop.v1.Orders/List")],
                capture_output=True, text=True, timeout=60, check=True)
            self.assertIn("HTTP/2 200", result.stdout)
            self.assertIn("content-type: application/grpc", result.stdout)
            self.assertIn("pong!", result.stdout)
            self.assertIn("grpc-status: 0", result.stdout)
        grpc = self.keep(Server(call))
        self.each_program("09-websocket-and-grpc", {
            "10.0.0.11:50051": grpc.address, "10.0.0.21:8080": self.keep(Origin(websocket)).address}, claims)

    def connections(self, where, count):
        """Opens `count` connections at once that each get a response. Returns None if fewer do."""
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            clients = [stack.enter_context(connect(where)) for _ in range(count)]
            for client in clients:
                client.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")
                if not client.recv(100).startswith(b"HTTP/1.1 200"):
                    return None
            stack.pop_all()
            return clients
        return None

    def test_10_public_edge(self):
        def claims(ports, program):
            where = ("127.0.0.1", ports[80])
            with Http1Client(where) as client:
                self.assertEqual(client.get("/", "POST", body=b"x" * 1_000_000).status, 200)
            with Http1Client(where) as client:
                client.send_request(b"POST / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 1048577\r\n\r\n" + b"x" * 1_048_577,
                                    ["POST"])
                self.assertEqual(client.response().status, 413)
            with Http1Client(where) as client:
                response = client.get("/", fields=f"x-large: {'x' * 20_000}\r\n")
                # nginx responds with 400, and HAProxy accepts as much as one of its buffers holds.
                self.assertIn(response.status, (400, 431))
            if program in ("nginx", "envoy"):  # They count requests, or the connections of all clients.
                return
            clients = wait_until(lambda: self.connections(where, 20), what="20 connections")
            self.assertIsNone(self.connections(where, 1))
            for client in clients:
                client.close()
        self.each_program("10-public-edge", {"10.0.0.11:8080": self.app("app")}, claims)

    # ---- All examples

    def test_all_examples_are_tested(self):
        folders = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
        self.assertEqual(len(folders), 10)
        index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
        for folder in folders:
            self.assertEqual(sorted(file.name for file in (EXAMPLES / folder).iterdir()),
                             sorted([*PROGRAMS.values(), "README.md"]), folder)
            self.assertIn(f"({folder}/README.md)", index)
            self.assertTrue(hasattr(self, "test_" + folder.replace("-", "_")), f"{folder} is not tested")


if __name__ == "__main__":
    harness.main()
