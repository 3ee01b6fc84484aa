"""The identity of clients and requests: client addresses, request ids, access logs and error responses, with curl in
front of nginx; compared with nginx as the proxy."""

import json
import os
import re
import socket

import harness
import http_wire as wire
from http_peers_support import KINDS, HttpTest, words
from origins import free_port
from programs import Nginx

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
PLAIN = (HTTP1, HTTP2)
ID = r"[0-9a-f]{32}"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
COMBINED = ('%{client_ip} - - [%{clf_time}] "%{method} %{target} %{protocol}" %{status} %{bytes_out} '
            '"%{header:referer}" "%{header:user-agent}"')
ECHOED = {"xff": "x_forwarded_for", "proto": "x_forwarded_proto", "forwarded": "forwarded", "id": "x_request_id",
          "parent": "traceparent", "state": "tracestate", "client": "x_client", "who": "x_client_identity",
          "scheme": "x_scheme"}


class IdentityTest(HttpTest):

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.nginx_log = os.path.join(self.files, "nginx.log")
        echo = "\n".join(f"{name}=$http_{field}" for name, field in ECHOED.items())
        self.keep(Nginx([("127.0.0.1", self.port)], f"""
            server {{ listen 127.0.0.1:{self.port}; access_log {self.nginx_log} combined;
                      location / {{ return 200 "{echo}\n"; }}
                      location /id {{ add_header X-Request-Id of-nginx; return 204; }}
                      location /etag {{ add_header ETag '"a b"'; return 200 "x"; }} }}"""))

    def sluice(self, listener=None, top=None, **http):
        return self.through(f"127.0.0.1:{self.port}", kind=("http1", False), http=http, listener=listener, top=top)

    def seen(self, proxy, client, *fields, path="/"):
        """The fields that nginx received."""
        arguments = [argument for field in fields for argument in ("-H", field)]
        response = self.curl(proxy, client, path, *arguments)
        self.assertEqual(response.status, 200, response.body)
        return dict(line.split("=", 1) for line in response.body.decode().splitlines())

    def log_lines(self, path, count):
        def read():
            with open(path, "rb") as file:
                return file.read().splitlines()
        harness.wait_until(lambda: os.path.exists(path) and len(read()) >= count, 5, f"{count} lines in {path}")
        return read()


class Clients(IdentityTest):
    """The client's address and scheme, and the fields that carry them."""

    FIELDS = ("X-Forwarded-For: 6.6.6.6, 203.0.113.7", "X-Forwarded-Proto: https")
    TELL = [{"name": "x-client", "set": "%{client_ip}"}, {"name": "x-scheme", "set": "%{scheme}"}]

    def test_one_hop(self):
        proxy = self.sluice(trusted_hops=1, forwarded="append", request_headers=self.TELL)
        for client in PLAIN:
            with self.subTest(words(client)):
                seen = self.seen(proxy, client, *self.FIELDS, "Forwarded: for=6.6.6.6")
                self.assertEqual((seen["client"], seen["scheme"], seen["proto"]), ("203.0.113.7", "https", "https"))
                self.assertEqual(seen["xff"], "6.6.6.6, 203.0.113.7, 127.0.0.1")
                host = f"localhost:{proxy.port('plain')}"
                self.assertEqual(seen["forwarded"],
                                 f'for=6.6.6.6, for=127.0.0.1;proto=https;host="{host}";by=_plain')

    def test_trusted_ranges(self):
        """nginx with real_ip_recursive finds the same client address."""
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], f"""
            server {{ listen 127.0.0.1:{port}; set_real_ip_from 127.0.0.0/8; set_real_ip_from 10.0.0.0/8;
                      set_real_ip_from 2001:db8::/32; real_ip_header X-Forwarded-For; real_ip_recursive on;
                      location / {{ return 200 "$remote_addr"; }} }}"""))
        proxy = self.sluice(trusted_proxies=["127.0.0.0/8", "10.0.0.0/8", "2001:db8::/32"], request_headers=self.TELL)
        for value in ("203.0.113.7", "6.6.6.6, 203.0.113.7", "6.6.6.6, 203.0.113.7, 10.0.0.9, 2001:db8::5",
                      "203.0.113.7:4711", "2001:db9::7", "[2001:db9::7]:4711", "10.0.0.3, 10.0.0.4", "x, 203.0.113.7"):
            with self.subTest(value):
                field = f"X-Forwarded-For: {value}"
                theirs = self.call("curl", "-sS", "-H", field, f"http://127.0.0.1:{port}/").stdout.decode()
                self.assertEqual(self.seen(proxy, HTTP1, field)["client"], theirs)
        # If the field is malformed, nginx takes the last well-formed address; Sluice takes the peer's.
        self.assertEqual(self.seen(proxy, HTTP1, "X-Forwarded-For: 203.0.113.7, unknown")["client"], "127.0.0.1")
        stats = proxy.wait_for(lambda stats: stats.total("http_claims_refused_total", field="x-forwarded-for"))
        self.assertEqual(stats.total("http_claims_refused_total"), 1)

    def test_untrusted_peers_are_ignored(self):
        proxy = self.sluice(trusted_proxies=["10.0.0.0/8"], request_headers=self.TELL,
                            request_id={"header": "x-request-id", "accept": "trusted"})
        for client in KINDS:
            with self.subTest(words(client)):
                seen = self.seen(proxy, client, *self.FIELDS, "X-Request-Id: mine")
                scheme = "https" if client[1] else "http"
                self.assertEqual((seen["client"], seen["scheme"], seen["proto"]), ("127.0.0.1", scheme, scheme))
                self.assertEqual(seen["xff"], "6.6.6.6, 203.0.113.7, 127.0.0.1")
                self.assertRegex(seen["id"], f"^{ID}$")

    def test_fields_are_replaced(self):
        proxy = self.sluice(trusted_hops=1, forwarded="replace", forwarded_for="replace")
        seen = self.seen(proxy, HTTP1, "X-Forwarded-For: 2001:db8::7", "Forwarded: for=6.6.6.6")
        self.assertEqual(seen["xff"], "2001:db8::7")
        self.assertTrue(seen["forwarded"].startswith('for="[2001:db8::7]";proto=http;'), seen["forwarded"])

    def test_routes_and_log_see_the_client(self):
        log = os.path.join(self.files, "access.log")
        routes = [{"match": {"source": "203.0.113.0/24"}, "respond": {"status": 403}}, {"forward": "main"}]
        proxy = self.sluice(trusted_hops=1, routes=routes, access_log=log)
        self.assertEqual(self.curl(proxy, HTTP1, "/", "-H", self.FIELDS[0]).status, 403)
        self.assertEqual(self.curl(proxy, HTTP1, "/", "-H", "X-Forwarded-For: 203.0.113.7, 1.2.3.4").status, 200)
        self.assertEqual([line.split()[10] for line in self.log_lines(log, 2)], [b"203.0.113.7", b"1.2.3.4"])

    def test_peer_identity(self):
        """A client without a verified certificate cannot claim an identity, whatever fields it sends."""
        tls = {"certificates": [self.server], "client_ca": self.ca, "client_certificate": "request"}
        config = self.configuration(self.upstream(f"127.0.0.1:{self.port}", kind=("http1", False)), http={
            "request_headers": [{"name": "x-client-identity", "set": "%{peer}"}]})
        config["listeners"][1]["tls"] = tls
        proxy = self.start(config)
        claim = "X-Client-Identity: email:admin@example.com"
        for client in KINDS:
            with self.subTest(words(client)):
                self.assertEqual(self.seen(proxy, client, claim, claim)["who"], "")
                if client[1]:
                    response = self.curl(proxy, client, "/", "-H", claim, "--cert", self.client["chain"], "--key",
                                         self.client["key"])
                    self.assertIn(b"\nwho=client@example.com\n", response.body)


class Ids(IdentityTest):

    def test_same_id_everywhere(self):
        """The upstream, the response, the log, and the body of an error have the same id."""
        log = os.path.join(self.files, "access.log")
        routes = [{"match": {"path": {"exact": "/none"}}, "forward": "gone"}, {"name": "all", "forward": "main"}]
        config = self.configuration(self.upstream(f"127.0.0.1:{self.port}", kind=("http1", False)), http={
            "routes": routes, "request_id": {"header": "x-request-id", "respond": True}, "trace_context": "make",
            "access_log": {"file": log, "format": "json"}})
        config["upstreams"].append({"name": "gone", "endpoints": ["127.0.0.1:1"]})
        proxy = self.start(config)
        ids = []
        for client in KINDS:
            response = self.curl(proxy, client, "/", "-H", "X-Request-Id: mine")
            body = response.body.decode()
            ids.append(response.fields["x-request-id"])
            self.assertIn(f"\nid={ids[-1]}\n", body)
            trace = re.search(r"\nparent=00-([0-9a-f]{32})-[0-9a-f]{16}-01\n", body)[1]
            response = self.curl(proxy, client, "/id")
            ids.append(response.fields["x-request-id"])
            self.assertNotIn("of-nginx", ids[-1])
            failure = self.curl(proxy, client, "/none", "-H", "Accept: application/json").json()
            ids.append(failure["request_id"])
            self.assertEqual((failure["status"], failure["reason"]), (503, "no_endpoint"))
            lines = [json.loads(line) for line in self.log_lines(log, len(ids))]
            self.assertEqual([line["request_id"] for line in lines], ids)
            self.assertEqual(lines[-3]["trace_id"], trace)
            self.assertEqual([(line["route"], line["attempts"]) for line in lines[-3:]], [("all", 1), ("all", 1), ("0", 1)])
        self.assertEqual(len(set(ids)), 3 * len(KINDS))
        for each in ids:
            self.assertRegex(each, f"^{ID}$")

    def test_id_of_trusted_peer(self):
        proxy = self.sluice(request_id={"header": "X-Request-Id", "accept": "always"})
        for client in PLAIN:
            self.assertEqual(self.seen(proxy, client, "X-Request-Id: 4bf92f35-77b3-4da6")["id"], "4bf92f35-77b3-4da6")
            self.assertRegex(self.seen(proxy, client, "X-Request-Id: a b")["id"], f"^{ID}$")
            self.assertRegex(self.seen(proxy, client, "X-Request-Id: " + "a" * 129)["id"], f"^{ID}$")

    def test_trace_context_is_forwarded(self):
        proxy = self.sluice(trace_context="pass")
        for client in PLAIN:
            seen = self.seen(proxy, client, f"traceparent: {PARENT}", "tracestate: a=b")
            self.assertRegex(seen["parent"], PARENT[:36] + r"[0-9a-f]{16}-00$")
            self.assertNotEqual(seen["parent"], PARENT)
            self.assertEqual(seen["state"], "a=b")
            seen = self.seen(proxy, client, "traceparent: 00-zero-01", "tracestate: a=b")
            self.assertEqual((seen["parent"], seen["state"]), ("", ""))
        self.assertEqual(self.seen(self.sluice(), HTTP1, f"traceparent: {PARENT}")["parent"], PARENT)


class Logs(IdentityTest):

    AGENTS = (b"curl \"quoted\" \\ back", b"caf\xc3\xa9", b"no\xffutf8\xc3", b"tab\there")

    def raw(self, proxy, agent, target=b"/"):
        with socket.create_connection(("127.0.0.1", proxy.port("plain"))) as sock:
            sock.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: a.test\r\nUser-Agent: " + agent +
                         b"\r\nConnection: close\r\n\r\n")
            while sock.recv(65536):
                pass

    def test_json(self):
        log = os.path.join(self.files, "access.log")
        proxy = self.sluice(access_log={"file": log, "format": "json"})
        for agent in self.AGENTS:
            self.raw(proxy, agent)
        self.curl(proxy, HTTP1_TLS, "/x?y=z", "-d", "12345")
        self.raw(proxy, b"x", target=b"/\x01")
        self.raw(proxy, b"x\r\nX_Y: z")
        with wire.Http2Client(proxy.address("plain")) as client:
            self.assertEqual(client.response(client.send_request(fields=[("host", "b.test")])).failure, "PROTOCOL_ERROR")
        lines = [json.loads(line.decode()) for line in self.log_lines(log, len(self.AGENTS) + 4)]
        self.assertEqual([line["user_agent"] for line in lines[:4]],
                         [agent.decode(errors="replace") for agent in self.AGENTS])
        posted = lines[4]
        self.assertEqual({name: posted[name] for name in (
            "listener", "protocol", "tls_version", "method", "path", "status", "reason", "bytes_in", "route", "upstream",
            "endpoint", "attempts", "request_id", "trace_id", "client")}, {
                "listener": "secure", "protocol": "HTTP/1.1", "tls_version": "TLSv1.3", "method": "POST", "path": "/x?y=z",
                "status": 200, "reason": "ok", "bytes_in": 5, "route": "0", "upstream": "main",
                "endpoint": f"127.0.0.1:{self.port}", "attempts": 1, "request_id": None, "trace_id": None,
                "client": "127.0.0.1"})
        self.assertTrue(posted["tls_cipher"].startswith("TLS_"), posted["tls_cipher"])
        self.assertGreaterEqual(posted["duration_us"], posted["upstream_us"])
        malformed = [(line["protocol"], line["status"], line["reason"], line["method"], line["detail"]) for line in lines[5:]]
        self.assertEqual(malformed, [
            ("HTTP/1.1", 400, "malformed", "GET", "a malformed request target (RFC 9112 section 3.2)"),
            ("HTTP/1.1", 400, "malformed", "GET", "a field name with an underscore (http1.allow_underscores: false)"),
            ("HTTP/2", 0, "malformed", "GET", "a Host that differs from :authority (RFC 9113 section 8.3.1)")])
        self.assertEqual({tuple(line) for line in lines}, {tuple(posted)}, "the same keys in the same order")

    def test_combined_like_nginx(self):
        log = os.path.join(self.files, "access.log")
        proxy = self.sluice(access_log={"file": log, "format": COMBINED})
        for arguments in (("-A", "an agent \"quoted\" \\"), ("-e", "http://refer.test/a b"), ("-A", "caf\u00e9"),
                          ("-X", "DELETE"), ("-A", "")):
            self.curl(proxy, HTTP1, "/etag?a=b", *arguments)
        ours, theirs = ([re.sub(rb"\[.*?\]", b"[]", line) for line in self.log_lines(path, 5)]
                        for path in (log, self.nginx_log))
        self.assertEqual(ours, theirs)
        for line in self.log_lines(log, 5):
            self.assertRegex(line.decode(), r"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\]")

    def test_own_format(self):
        log = os.path.join(self.files, "access.log")
        routes = [{"name": "tagged", "match": {"path": {"prefix": "/etag"}}, "forward": "main",
                   "response_headers": [{"name": "x-added", "set": "yes"}]}, {"forward": "main"}]
        proxy = self.sluice(routes=routes, access_log={"file": log, "format": (
            'route=%{route} to=%{upstream}/%{endpoint} host=%{host} etag=%{response_header:etag} "%{response_header:etag}" '
            '%{response_header:x-added} %{status} %{reason} %{header:x-y} %{attempts} %{tls_version} %{tls_cipher} 100%%')})
        self.curl(proxy, HTTP1, "/etag", "-H", "X-Y: a b")
        self.curl(proxy, HTTP2_TLS, "/")
        self.raw(proxy, b"x", target=b"/\x01")
        first, second, third = (line.decode() for line in self.log_lines(log, 3))
        endpoint = f"127.0.0.1:{self.port}"
        self.assertEqual(first, rf'route=tagged to=main/{endpoint} host=localhost etag=\x22a\x20b\x22 "\x22a b\x22" yes '
                                r'200 ok a\x20b 1 - - 100%')
        self.assertRegex(second, rf'^route=1 to=main/{endpoint} host=localhost etag=- "-" - 200 ok - 1 TLSv1.3 TLS_\w+ 100%$')
        self.assertEqual(third, 'route=- to=-/- host=- etag=- "-" - 400 malformed - 0 - - 100%')

    def test_refused(self):
        path = self.write("bad.json", json.dumps(self.configuration(self.upstream("127.0.0.1:1", kind=HTTP1), http={
            "access_log": {"file": "stdout", "format": "%{statu}"}})).encode())
        output = self.call(harness.SLUICE, "check", "--config", path, check=False)
        self.assertEqual(output.returncode, 1)
        self.assertIn(b'access_log.format: there is no variable "statu"; did you mean %{status}?', output.stderr)


class Failures(IdentityTest):
    """Error responses to clients."""

    def failing(self, **http):
        return self.sluice(routes=[{"match": {"path": {"prefix": "/there"}}, "forward": "main"}], **http)

    def test_by_accept(self):
        proxy = self.failing()
        for client in KINDS:
            with self.subTest(words(client)):
                for accept, kind, body in (
                        ("*/*", "text/plain; charset=utf-8", "no route matches the request\n"),
                        ("text/html, */*;q=0.8", "text/plain; charset=utf-8", "no route matches the request\n"),
                        ("application/json", "application/json",
                         {"status": 404, "reason": "no_route", "message": "no route matches the request"}),
                        ("application/problem+json, application/json;q=0.5", "application/problem+json",
                         {"status": 404, "title": "Not Found", "detail": "no route matches the request", "reason": "no_route"})):
                    response = self.curl(proxy, client, "/", "-H", f"Accept: {accept}")
                    self.assertEqual((response.status, response.fields["content-type"], response.fields["vary"]),
                                     (404, kind, "accept"))
                    self.assertEqual(response.json() if isinstance(body, dict) else response.body.decode(), body)
                head = self.curl(proxy, client, "/", "-I", "-H", "Accept: application/json")
                self.assertEqual((head.status, head.fields["content-type"], head.facts["size_download"]),
                                 (404, "application/json", 0))
                self.assertEqual(int(head.fields["content-length"]),
                                 len(self.curl(proxy, client, "/", "-H", "Accept: application/json").body))

    def test_http10(self):
        with socket.create_connection(("127.0.0.1", self.failing().port("plain"))) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\nHost: a.test\r\nAccept: application/json\r\n\r\n")
            received = b""
            while piece := sock.recv(65536):
                received += piece
        head, body = received.split(b"\r\n\r\n", 1)
        self.assertIn(b" 404 Not Found\r\n", head)
        self.assertIn(f"\r\ncontent-length: {len(body)}".encode(), head)
        self.assertEqual(json.loads(body)["reason"], "no_route")

    def test_pages(self):
        page = b"<h1>%{status} %{reason}</h1>\n" + b"<p style='width: 100%'>" * 2500
        path = self.write("page.html", page)
        proxy = self.failing(errors=[{"status": [404, "5xx"], "file": path},
                                     {"status": "4xx", "body": '{"code": %{status}, "id": "%{request_id}"}',
                                      "content_type": "application/json"}], request_id="x-request-id")
        for client in KINDS:
            with self.subTest(words(client)):
                response = self.curl(proxy, client, "/")
                self.assertEqual((response.status, response.fields["content-type"]), (404, "text/html; charset=utf-8"))
                self.assertEqual(response.body, page.replace(b"%{status}", b"404").replace(b"%{reason}", b"no_route"))
                head = self.curl(proxy, client, "/", "-I")
                self.assertEqual((int(head.fields["content-length"]), head.facts["size_download"]),
                                 (len(response.body), 0))
                response = self.curl(proxy, client, "/", "-H", "Accept: application/json").json()
                self.assertEqual(response["code"], 404)
                self.assertRegex(response["id"], f"^{ID}$")
                # Responses of an upstream are not changed.
                self.assertIn(b"xff=", self.curl(proxy, client, "/there").body)

    def test_invalid_pages(self):
        for data, message in ((b"x" * 65537, "expected a body of at most 64KiB, got 65537 bytes"),
                              (b"%{path}", 'there is no variable "path" of errors')):
            path = self.write("page.html", data)
            config = self.configuration(self.upstream("127.0.0.1:1", kind=HTTP1), http={
                "errors": [{"status": "5xx", "file": path}]})
            for command in ("check", "run"):
                output = self.call(harness.SLUICE, command, "--config", self.write("c.json", json.dumps(config).encode()),
                                   check=False)
                self.assertEqual(output.returncode, 1)
                self.assertIn(f"{path}: {message}", output.stderr.decode())


class Explain(IdentityTest):

    def test_identity(self):
        config = self.configuration(self.upstream("127.0.0.1:1", kind=HTTP1), http={
            "trusted_proxies": ["10.0.0.0/8"], "forwarded": "append", "request_id": "x-request-id",
            "trace_context": "make"})
        path = self.write("c.json", json.dumps(config).encode())

        def explained(*arguments):
            return self.call(harness.SLUICE, "explain", "--config", path, "--listener", "plain", *arguments,
                             "http://a.test/").stdout.decode()
        output = explained("--from", "10.0.0.1", "-H", "X-Forwarded-For: 6.6.6.6, 203.0.113.7", "-H",
                           "X-Forwarded-Proto: https")
        self.assertIn("client      203.0.113.7, from X-Forwarded-For of 10.0.0.1, which is trusted\n", output)
        self.assertIn("            x-forwarded-for: 6.6.6.6, 203.0.113.7, 10.0.0.1\n", output)
        self.assertIn("            x-forwarded-proto: https\n", output)
        self.assertIn("            forwarded: for=10.0.0.1;proto=https;host=a.test;by=_plain\n", output)
        request_id = re.search(rf"^request id  ({ID}), ", output, re.MULTILINE)[1]
        self.assertIn(f"            x-request-id: {request_id}\n", output)
        trace_id = re.search(rf"^trace id    ({ID}), ", output, re.MULTILINE)[1]
        self.assertRegex(output, rf"\n {{12}}traceparent: 00-{trace_id}-[0-9a-f]{{16}}-01\n")
        output = explained("--from", "11.0.0.1", "-H", "X-Forwarded-For: 203.0.113.7")
        self.assertIn("client      11.0.0.1, whose X-Forwarded-For is not trusted\n", output)
        output = explained("--from", "10.0.0.1", "-H", "X-Forwarded-For: unknown")
        self.assertIn("client      10.0.0.1, whose X-Forwarded-For is trusted\n"
                      "            x-forwarded-for is malformed, or has too few entries\n", output)


if __name__ == "__main__":
    harness.main()
