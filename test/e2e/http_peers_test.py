"""HTTP with third-party programs on both sides: curl, h2load, nghttp, wrk, ab and Go in front of the proxy; Go's
net/http, Node and nginx behind it."""

import contextlib
import hashlib
import os
import re

import harness
from harness import LONG, MIB, SLOWNESS, need
from http_peers_support import KINDS, HttpTest, words
from origins import free_port
from programs import Nginx

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
VERSIONS = {"http1": "1.1", "http2": "2"}
PROTOCOLS = {"http1": "HTTP/1.1", "http2": "HTTP/2.0"}  # The names that Go and Node use.


class PeersTest(HttpTest):
    """Checks for one pair of client and server."""

    def check_get(self, proxy, client):
        response = self.curl(proxy, client, "/echo?a=b")
        self.assertEqual((response.status, response.version), (200, VERSIONS[client[0]]))
        seen = response.json()
        self.assertEqual((seen["Method"], seen["Target"], seen["Bytes"]), ("GET", "/echo?a=b", 0))
        return seen

    def check_bodies(self, proxy, client, size):
        """Uploads with known and unknown length arrive unchanged, with the same framing."""
        data = os.urandom(size)
        path, digest = self.write("upload", data), hashlib.sha256(data).hexdigest()
        for known_length in (True, False):
            arguments = ("-X", "POST", "-T", path) if known_length else (
                "-X", "POST", "-T", "-", *(("-H", "Transfer-Encoding: chunked") if client[0] == "http1" else ()))
            response = self.curl(proxy, client, "/echo", *arguments, *((), ("-H", "Expect:"))[size % 2],
                                 **({} if known_length else {"input": data}))
            seen = response.json()
            self.assertEqual((response.status, seen["Method"], seen["Bytes"], seen["Hash"]), (200, "POST", size, digest))
            self.assertEqual(seen["Header"].get("Content-Length", [str(size)]), [str(size)])
            if "ContentLength" in seen:
                self.assertEqual(seen["ContentLength"], size if known_length else -1)

    def check_trailers(self, proxy, client):
        response = self.go_client(proxy, client, "/trailers", ["Te: trailers"], ["X-Last: 1", "X-Sum: abc"],
                                  method="POST", body="x" * 5000)
        self.assertEqual((response["Status"], response["Body"]), (200, "5000 bytes"))
        self.assertEqual(response["Trailer"], {"X-Announced": ["yes"], "Back-X-Last": ["1"], "Back-X-Sum": ["abc"]})
        if client[0] == "http1":  # curl does not print all trailers of HTTP/2.
            response = self.curl(proxy, client, "/trailers", "-H", "TE: trailers")
            self.assertEqual((response.body, response.trailers), (b"0 bytes", {"x-announced": "yes"}))

    def check_early_hints(self, proxy, client):
        response = self.curl(proxy, client, "/hints")
        self.assertEqual([(status, fields.get("link")) for status, fields in response.early],
                         [(103, "</0.css>; rel=preload"), (103, "</1.css>; rel=preload")])
        self.assertEqual((response.status, response.body), (200, b"hinted"))
        self.assertNotIn("link", response.fields)

    def check_continue(self, proxy, client):
        data = b"d" * 100_000
        path = self.write("upload", data)
        response = self.curl(proxy, client, "/echo", "-X", "POST", "-T", path, "-H", "Expect: 100-continue",
                             "--expect100-timeout", str(20 * SLOWNESS))
        self.assertEqual(([status for status, _ in response.early], response.json()["Bytes"]), ([100], len(data)))
        self.assertLess(response.facts["time_total"], 10 * SLOWNESS)

    def check_refused_continue(self, proxy, client):
        """The body is not sent when the server refuses it, and the next request is served."""
        path = self.write("upload", b"d" * MIB)
        if client[0] == "http1":
            response = self.curl(proxy, client, "/refuse", "-X", "POST", "-T", path, "-H", "Expect: 100-continue",
                                 "--expect100-timeout", str(20 * SLOWNESS))
            self.assertEqual((response.status, response.facts["size_upload"]), (417, 0))
        else:  # curl reports an error when the stream is reset after the response.
            output = self.call(need("nghttp"), "-v", "-y", "--expect-continue", "-d", path, self.url(
                proxy, client, "/refuse")).stdout.decode()
            self.assertIn(":status: 417", output)
            self.assertNotIn("send DATA", output)
        self.assertEqual(self.curl(proxy, client, "/small").status, 200)

    def check_files(self, proxy, client):
        """Go's file server: HEAD, ranges, 304."""
        data = os.urandom(100_000)
        self.write("file", data)
        head = self.curl(proxy, client, "/files/file", "--head")
        self.assertEqual((head.status, head.body[:4], head.fields["content-length"]), (200, b"HTTP", "100000"))
        part = self.curl(proxy, client, "/files/file", "-r", "1000-1999")
        self.assertEqual((part.status, part.body), (206, data[1000:2000]))
        self.assertEqual(part.fields["content-range"], "bytes 1000-1999/100000")
        same = self.curl(proxy, client, "/files/file", "-H", f"If-Modified-Since: {head.fields['last-modified']}")
        self.assertEqual((same.status, same.body), (304, b""))
        self.assertEqual(self.curl(proxy, client, "/files/none").status, 404)

    def check_without_bodies(self, proxy, client):
        for code in (204, 304):
            response = self.curl(proxy, client, f"/status?code={code}")
            self.assertEqual((response.status, response.body), (code, b""))
            self.assertNotIn("transfer-encoding", response.fields)
            self.assertNotEqual(response.fields.get("content-length"), "0" if code == 204 else "none")

    def check_many_fields(self, proxy, client):
        response = self.curl(proxy, client, "/many?count=80&bytes=300")
        self.assertEqual([response.fields.get(f"x-many-{i}") for i in range(80)], ["v" * 300] * 80)
        lines = [f"X-Many-{i}: {'v' * 300}" for i in range(80)]
        seen = self.curl(proxy, client, "/echo", *(part for line in lines for part in ("-H", line))).json()
        self.assertEqual([seen["Header"].get(f"X-Many-{i}") for i in range(80)], [["v" * 300]] * 80)

    def check_downloads(self, proxy, client, size):
        data = os.urandom(size)
        self.write("large", data)
        self.assertEqual(hashlib.sha256(self.curl(proxy, client, "/files/large").body).digest(),
                         hashlib.sha256(data).digest())

    def check_reuse(self, proxy, client):
        """curl reuses its connection. (For HTTP/2 without TLS it cannot: curl 7.88 fails with Go's server, too.)"""
        if client == HTTP2:
            return
        output = self.call(need("curl"), *self.curl_options(client), "-o", "/dev/null", "-w",
                           "%{http_code} %{num_connects},", self.url(proxy, client, "/small?[1-5]")).stdout
        self.assertEqual(output, b"200 1,200 0,200 0,200 0,200 0,")

    def check_http10(self, proxy, client):
        """HTTP/1.0: a body without a length ends with the connection, and is not chunked."""
        if client[0] != "http1":
            return
        for path, body in (("/trailers", b"0 bytes"), ("/small", b"x" * 100), ("/drip?pieces=3&ms=1", None)):
            response = self.curl(proxy, client, path, "--http1.0", "--no-alpn")
            self.assertEqual((response.status, response.body), (200, body or b"piece 0\npiece 1\npiece 2\n"))
            self.assertNotIn("transfer-encoding", response.fields)


class PeersAlone(PeersTest):
    """The programs without the proxy, so that a failure of theirs is not blamed on it."""

    def test_go(self):
        for kind in KINDS:
            with self.subTest(words(kind)):
                server = self.web_server(kind, files=self.files)
                self.assertEqual(self.check_get(server, kind)["Proto"], PROTOCOLS[kind[0]])
                for check in (self.check_trailers, self.check_early_hints, self.check_continue,
                              self.check_refused_continue, self.check_files, self.check_without_bodies,
                              self.check_many_fields, self.check_reuse, self.check_http10):
                    check(server, kind)
                self.check_bodies(server, kind, 100_001)

    def test_node(self):
        for kind in KINDS:
            with self.subTest(words(kind)):
                server = self.web_server(kind, node=True)
                self.assertEqual(self.check_get(server, kind)["Proto"], PROTOCOLS[kind[0]])
                for check in (self.check_trailers, self.check_early_hints, self.check_continue):
                    check(server, kind)
                self.check_bodies(server, kind, 100_001)


class Pairs(PeersTest):
    """Each kind of client with each kind of server."""

    def each_client(self, check, *arguments):
        for server in KINDS:
            proxy = self.through(self.web_server(server, files=self.files))
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    check(proxy, client, *arguments)

    def test_get(self):
        self.each_client(self.check_get)

    def test_small_bodies(self):
        for size in (0, 1, 100_001):
            self.each_client(self.check_bodies, size)

    def test_large_bodies(self):
        for server in KINDS:
            proxy = self.through(self.web_server(server, files=self.files))
            for client in KINDS:
                size = 50 * MIB if LONG or client == server and client in (HTTP1, HTTP2_TLS) else 2 * MIB
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    self.check_bodies(proxy, client, size)
                    self.check_downloads(proxy, client, size)

    def test_trailers(self):
        self.each_client(self.check_trailers)

    def test_early_hints(self):
        self.each_client(self.check_early_hints)

    def test_continue(self):
        self.each_client(self.check_continue)

    def test_refused_continue(self):
        self.each_client(self.check_refused_continue)

    def test_files(self):
        self.each_client(self.check_files)

    def test_without_bodies(self):
        self.each_client(self.check_without_bodies)

    def test_many_fields(self):
        self.each_client(self.check_many_fields)

    def test_reuse(self):
        self.each_client(self.check_reuse)

    def test_http10(self):
        self.each_client(self.check_http10)

    def test_node(self):
        for server in KINDS:
            proxy = self.through(self.web_server(server, node=True))
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    self.check_get(proxy, client)
                    self.check_bodies(proxy, client, 100_001)
                    self.check_bodies(proxy, client, MIB)
                    self.check_trailers(proxy, client)
                    self.check_early_hints(proxy, client)
                    self.check_continue(proxy, client)
                    self.check_reuse(proxy, client)


class Fields(PeersTest):
    """The fields that the proxy adds, keeps and removes."""

    def each(self, check):
        for server in KINDS:
            proxy = self.through(self.web_server(server))
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    check(proxy, client)

    def test_added_fields(self):
        def check(proxy, client):
            response = self.curl(proxy, client, "/echo", "-H", "X-Forwarded-Proto: gopher")
            header = response.json()["Header"]
            self.assertEqual(header["X-Forwarded-For"], ["127.0.0.1"])
            self.assertEqual(header["X-Forwarded-Proto"], ["https" if client[1] else "http"])
            self.assertRegex(", ".join(header["Via"]), rf"^{VERSIONS[client[0]]}(\.0)? sluice$")
            self.assertRegex(response.fields["via"], r"^(1\.1|2|2\.0) sluice$")
            header = self.curl(proxy, client, "/echo", "-H", "X-Forwarded-For: 192.0.2.7", "-H",
                               "Via: 1.1 other").json()["Header"]
            self.assertEqual(", ".join(header["X-Forwarded-For"]), "192.0.2.7, 127.0.0.1")
            self.assertRegex(", ".join(header["Via"]), r"^1\.1 other, [12](\.[01])? sluice$")
        self.each(check)

    def test_kept_fields(self):
        def check(proxy, client):
            lines = ("Host: other.example:81", "Cookie: a=1; b=2", "X-Twice: 1", "X-Twice: 2", "Accept:")
            seen = self.curl(proxy, client, "/echo/../echo?x=%2F&y", "--path-as-is", "-A", "tester/1",
                             *(part for line in lines for part in ("-H", line))).json()
            self.assertEqual((seen["Host"], seen["Target"]), ("other.example:81", "/echo?x=%2F&y"))
            header = seen["Header"]
            self.assertEqual("; ".join(header["Cookie"]), "a=1; b=2")
            self.assertEqual(", ".join(header["X-Twice"]), "1, 2")
            self.assertEqual(header["User-Agent"], ["tester/1"])
            self.assertNotIn("Accept", header)
            self.assertNotIn("Accept-Encoding", header)
        self.each(check)

    def test_removed_fields(self):
        def check(proxy, client):
            if client[0] == "http2":
                return  # In HTTP/2 these fields are errors.
            header = self.curl(proxy, client, "/echo", "-H", "Connection: keep-alive, X-Hop", "-H", "X-Hop: 1", "-H",
                               "Keep-Alive: timeout=5", "-H", "Proxy-Connection: keep-alive", "-H", "TE: gzip", "-H",
                               "X-Kept: 1").json()["Header"]
            self.assertEqual(header.get("X-Kept"), ["1"])
            for name in ("Connection", "X-Hop", "Keep-Alive", "Proxy-Connection", "Te", "Upgrade"):
                self.assertNotIn(name, header)
        self.each(check)


    def test_fields_removed_from_responses(self):
        for server in (HTTP1, HTTP1_TLS):
            proxy = self.through(self.web_server(server, node=True))
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    response = self.curl(proxy, client, "/hops")
                    self.assertEqual((response.status, response.body, response.fields["x-kept"]), (200, b"hops", "1"))
                    for name in ("x-hop", "keep-alive", "proxy-connection", "connection"):
                        self.assertNotIn(name, response.fields)


class Nginx1(PeersTest):
    """nginx behind the proxy."""

    def nginx(self, secure):
        port, put = free_port(), os.path.join(self.files, "put")
        os.mkdir(put)
        tls = f"ssl_certificate {self.server['chain']}; ssl_certificate_key {self.server['key']};" if secure else ""
        self.keep(Nginx([("127.0.0.1", port)], f"""
            server {{ listen 127.0.0.1:{port} {'ssl' if secure else ''}; {tls} root {self.files};
                      client_max_body_size 1g; keepalive_requests 100000;
                      location /put/ {{ dav_methods PUT DELETE; }} }}"""))
        return f"127.0.0.1:{port}"

    def check(self, secure):
        proxy = self.through(self.nginx(secure), kind=("http1", secure))
        for client in KINDS:
            with self.subTest(words(client)):
                data = os.urandom(50 * MIB if LONG or client == HTTP1 and not secure else 2 * MIB)
                self.write("large", data)
                self.assertTrue(self.curl(proxy, client, "/large").body == data)
                for number, source in enumerate((os.path.join(self.files, "large"), "-")):
                    name = f"/put/{client[0]}-{client[1]}-{number}"
                    response = self.curl(proxy, client, name, "-T", source, **({"input": data} if source == "-" else {}))
                    self.assertEqual(response.status, 201)
                    with open(self.files + name, "rb") as file:
                        self.assertTrue(file.read() == data)
                    self.assertEqual(self.curl(proxy, client, name, "-X", "DELETE").status, 204)
                part = self.curl(proxy, client, "/large", "-r", "5-10,100-")
                self.assertEqual((part.status, "multipart" in part.fields["content-type"]), (206, True))
                head = self.curl(proxy, client, "/large", "--head")
                self.assertEqual(head.fields["content-length"], str(len(data)))
                same = self.curl(proxy, client, "/large", "-H", f"If-None-Match: {head.fields['etag']}")
                self.assertEqual((same.status, same.body), (304, b""))

    def test_plain(self):
        self.check(False)

    def test_tls(self):
        self.check(True)


class AccessLog(PeersTest):
    """The log agrees with what the programs did."""

    LINE = re.compile(r'\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)\] '
                      r'"(\S+) (\S+) (\S+)" (\d+) (\S+) (\d+) (\d+) (\d+) (\d+|-) '
                      r'(\S+) (\S+) (\S+) (\S+) (\S+) "(\S+)" "(.*)"\n')
    NAMES = ("time", "method", "path", "protocol", "status", "reason", "request_bytes", "response_bytes", "micros",
             "upstream_micros", "client", "listener", "tls", "upstream", "endpoint", "authority", "agent")

    def lines(self, proxy, count):
        """Waits until the log has exactly `count` lines."""
        path = os.path.join(self.files, "access.log")

        def read():
            with open(path, encoding="ascii") as file:
                return file.read().splitlines(keepends=True)
        harness.wait_until(lambda: len(read()) >= count, 5, f"{count} lines in the access log")
        self.stop(proxy)
        found = read()
        self.assertEqual(len(found), count)
        return [dict(zip(self.NAMES, self.LINE.fullmatch(line).groups())) for line in found]

    def test_requests(self):
        log, data = os.path.join(self.files, "access.log"), self.write("upload", b"u" * 5000)
        self.write("file", b"f" * 3000)
        did = (("GET", "/files/file", 200, 0, 3000, ()), ("HEAD", "/files/file", 200, 0, 0, ("--head",)),
               ("POST", "/trailers?a=b", 200, 5000, len("5000 bytes"), ("-X", "POST", "-T", data)),
               ("GET", "/files/../files/none", 404, 0, 19, ("--path-as-is",)),
               ("GET", "/status?code=204", 204, 0, 0, ()))
        for server in KINDS if LONG else (HTTP1, HTTP2_TLS):
            origin = self.web_server(server, files=self.files)
            for client in KINDS:
                with self.subTest(f"{words(client)} -> {words(server)}"):
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(log)
                    proxy = self.through(origin, http={"access_log": log})
                    for _, path, _, _, _, arguments in did:
                        self.curl(proxy, client, path, *arguments, "-A", "an agent/1.0 \"quoted\"")
                    for line, (method, path, status, sent, came, _) in zip(self.lines(proxy, len(did)), did):
                        self.assertEqual([line[name] for name in self.NAMES[1:6]],
                                         [method, path.replace("/files/..", ""), "HTTP/" + VERSIONS[client[0]],
                                          str(status), "ok"])
                        self.assertEqual((line["request_bytes"], line["response_bytes"]), (str(sent), str(came)))
                        self.assertEqual((line["listener"], line["upstream"], line["endpoint"]),
                                         ("secure" if client[1] else "plain", "main", origin.address))
                        self.assertEqual((line["tls"], line["agent"]), ("TLSv1.3" if client[1] else "-",
                                                                        r"an agent/1.0 \x22quoted\x22"))
                        self.assertRegex(line["client"], r"^127\.0\.0\.1(:\d+)?$")
                        self.assertEqual(line["authority"], f"localhost:{proxy.port(line['listener'])}")
                        self.assertGreaterEqual(int(line["micros"]), int(line["upstream_micros"]))

    def test_load(self):
        """Two workers write one complete line for each request."""
        log = os.path.join(self.files, "access.log")
        proxy = self.through(self.web_server(HTTP1), http={"access_log": log}, top={"workers": 2})
        for client in (HTTP1, HTTP2_TLS):
            self.call(need("h2load"), "-n", "3000", "-c", "20", "-m", "4", *(("--h1",) if client[0] == "http1" else ()),
                      self.url(proxy, client, "/small").replace("localhost", "127.0.0.1"))
        lines = self.lines(proxy, 6000)
        self.assertEqual({(line["status"], line["reason"], line["response_bytes"]) for line in lines},
                         {("200", "ok", "100")})
        for name in ("HTTP/1.1", "HTTP/2"):
            self.assertEqual(sum(line["protocol"] == name for line in lines), 3000)

    def test_no_server(self):
        log = os.path.join(self.files, "access.log")
        routes = [{"match": {"path": {"prefix": "/gone"}}, "forward": "main"}]
        proxy = self.through("127.0.0.1:1", kind=HTTP1, http={"routes": routes, "access_log": log})
        for client in KINDS:
            self.assertEqual(self.curl(proxy, client, "/gone").status, 503)
            self.assertEqual(self.curl(proxy, client, "/none").status, 404)
        logged = [(line["path"], line["status"], line["reason"], line["upstream"]) for line in self.lines(proxy, 8)]
        self.assertEqual(logged, [("/gone", "503", "no_endpoint", "main"), ("/none", "404", "no_route", "-")] * 4)


if __name__ == "__main__":
    harness.main()
