"""A server outside that decides about each request (`forward_auth`), with curl in front of Python's http.server and nginx
as the authorizer, over HTTP/1.1 and HTTP/2."""

import base64
import hashlib
import http.server
import json
import os
import signal
import socket
import subprocess
import threading

from harness import MIB, SLOWNESS, main, need, wait_until
from http_peers_support import KINDS, HttpTest, words
from origins import Origin, connect, free_port, last_outcome, receive_exactly
from programs import Nginx

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
PLAIN = (HTTP1, HTTP2)
ALLOWED = b"HTTP/1.1 200 OK\r\nX-User: ann\r\nContent-Length: 0\r\n\r\n"


class _Server:
    """Python's http.server with a handler of GET and POST, a method of the class that gets the request."""

    def __init__(self):
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                test.handle(self)

            do_POST = do_PUT = do_GET

            def log_message(self, *_):
                pass

        self.seen = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # Connections end with the proxy.
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def respond(request, status, body=b"", *fields):
        request.send_response(status)
        for name, value in fields:
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Login(_Server):
    """An authorizer: those without its cookie are sent to its page."""

    def handle(self, request):
        self.seen.append(request.headers)
        if "session=good" in request.headers.get("Cookie", ""):
            return self.respond(request, 200, b"welcome", ("X-User", "ann"))
        return self.respond(request, 302, b"<p>log in</p>", ("Location", "https://login.test/?rd=" +
                                                             request.headers["X-Forwarded-Uri"]),
                            ("Set-Cookie", "csrf=1; Path=/"), ("Set-Cookie", "state=2; Path=/"),
                            ("Content-Type", "text/html"))


class Echo(_Server):
    """An origin that responds with the fields of the request, and the length of its body."""

    def handle(self, request):
        length = int(request.headers.get("Content-Length", 0))
        if "chunked" in request.headers.get("Transfer-Encoding", ""):
            while size := int(request.rfile.readline(), 16):
                length += len(request.rfile.read(size))
                request.rfile.readline()
            while request.rfile.readline().strip():
                pass
        else:
            for at in range(0, length, MIB):
                request.rfile.read(min(MIB, length - at))
        self.seen.append(request.path)
        fields = {}
        for name, value in request.headers.items():
            fields.setdefault(name.lower(), []).append(value)
        self.respond(request, 200, json.dumps({"fields": fields, "bytes": length}).encode())


def read_head(sock):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += receive_exactly(sock, 1)
    return head.decode()


class ForwardAuthTest(HttpTest):

    def setUp(self):
        super().setUp()
        self.echo = self.keep(Echo())

    def guarded(self, authorizer, http=None, kind="http1", origin=None, **rule):
        rule = {"to": "auth", "path": "/verify", "response_headers": ["X-User"], **rule}
        config = self.configuration(self.upstream(origin or self.echo.address, kind=HTTP1),
                                    {"routes": [{"forward": "main", "forward_auth": rule}], **(http or {})})
        config["upstreams"].append({"name": "auth", "protocol": kind, "endpoints": [authorizer]})
        return config

    def proxy_of(self, *arguments, cut_allowed=False, **rule):
        return self.start(self.guarded(*arguments, **rule), cut_allowed=cut_allowed)

    def expect_results(self, proxy, **results):
        stats = proxy.wait_for(lambda stats: stats.total("http_forward_auth_total") >= sum(results.values()))
        for result in ("allowed", "refused", "failed", "timeout", "cancelled"):
            self.assertEqual(stats.total("http_forward_auth_total", result=result), results.get(result, 0), result)
        return stats


class Decisions(ForwardAuthTest):

    def test_login(self):
        login = self.keep(Login())
        proxy = self.proxy_of(login.address)
        for client in KINDS:
            with self.subTest(words(client)):
                refused = self.curl(proxy, client, "/a?b=c", "-H", "X-User: root", "-X", "POST")
                self.assertEqual((refused.status, refused.body), (302, b"<p>log in</p>"))
                self.assertEqual(refused.fields["location"], "https://login.test/?rd=/a?b=c")
                self.assertEqual(refused.fields["set-cookie"], "csrf=1; Path=/, state=2; Path=/")
                asked = login.seen[-1]
                self.assertEqual(
                    [asked.get(name) for name in ("X-Forwarded-Method", "X-Forwarded-Proto", "X-Forwarded-Host",
                                                  "X-Forwarded-Uri", "X-Forwarded-For", "X-User", "Content-Length")],
                    ["POST", "https" if client[1] else "http",
                     f"localhost:{proxy.port('secure' if client[1] else 'plain')}", "/a?b=c", "127.0.0.1", None, None])
                admitted = self.curl(proxy, client, "/", "-H", "X-User: root", "-b", "session=good", "-d", "body")
                self.assertEqual(admitted.status, 200)
                self.assertEqual(admitted.json()["fields"]["x-user"], ["ann"])
                self.assertEqual(admitted.json()["bytes"], 4)
        stats = self.expect_results(proxy, allowed=len(KINDS), refused=len(KINDS))
        self.assertEqual(stats.total("http_requests_ended_total", reason="auth_refused"), len(KINDS))
        self.assertEqual(len(self.echo.seen), len(KINDS))

    def test_nginx_by_http2(self):
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], f"""server {{ listen 127.0.0.1:{port} http2;
            location /verify {{ if ($cookie_session = good) {{ add_header X-User ann; return 204; }}
                                add_header WWW-Authenticate Basic always; return 401 "no\\n"; }} }}"""))
        proxy = self.proxy_of(f"127.0.0.1:{port}", kind="http2")
        for client in PLAIN:
            with self.subTest(words(client)):
                refused = self.curl(proxy, client, "/", "-H", "X-User: root")
                self.assertEqual((refused.status, refused.body, refused.fields["www-authenticate"]), (401, b"no\n", "Basic"))
                admitted = self.curl(proxy, client, "/", "-H", "X-User: root", "-b", "session=good")
                self.assertEqual(admitted.json()["fields"]["x-user"], ["ann"])
        self.expect_results(proxy, allowed=2, refused=2)

    def test_websockets(self):
        def serve(sock):
            head = read_head(sock)
            key = next(line.split(": ", 1)[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
            accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            sock.sendall(next(line for line in head.lower().split("\r\n") if line.startswith("x-user")).encode())
            while data := sock.recv(1 << 16):
                sock.sendall(data)

        proxy = self.proxy_of(self.keep(Login()).address, origin=self.keep(Origin(serve)).address)
        handshake = ("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-User: root\r\n")
        with connect(proxy.address("plain")) as client:
            client.sendall((handshake + "\r\n").encode())
            self.assertIn(" 302 ", read_head(client))
        with connect(proxy.address("plain")) as client:
            client.sendall((handshake + "Cookie: session=good\r\n\r\n").encode())
            self.assertIn(" 101 ", read_head(client))
            self.assertEqual(receive_exactly(client, 11), b"x-user: ann")
            client.sendall(b"ping")
            self.assertEqual(receive_exactly(client, 4), b"ping")
        self.expect_results(proxy, allowed=1, refused=1)


class Failures(ForwardAuthTest):

    def test_slow(self):
        silent = self.keep(Origin(lambda sock: sock.recv(1 << 16) and sock.recv(1)))
        proxy = self.proxy_of(silent.address, timeout="200ms")
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/").status, 503)
        stats = self.expect_results(proxy, timeout=2)
        self.assertEqual(stats.total("http_requests_ended_total", reason="auth_failed"), 2)
        self.assertEqual(self.echo.seen, [])
        proxy.wait_for_output('upstream "auth" did not decide: no response in time: the client gets 503')

    def test_dead(self):
        port = free_port()
        proxy = self.proxy_of(f"127.0.0.1:{port}")
        for client in PLAIN:
            self.assertEqual(self.curl(proxy, client, "/").status, 503)
        self.expect_results(proxy, failed=2)
        self.assertEqual(self.echo.seen, [])

    def test_allowed(self):
        proxy = self.proxy_of(f"127.0.0.1:{free_port()}", on_failure="allow")
        for client in PLAIN:
            response = self.curl(proxy, client, "/", "-H", "X-User: root", "-d", "body")
            self.assertEqual((response.status, response.json()["bytes"]), (200, 4))
            self.assertNotIn("x-user", response.json()["fields"])
        stats = self.expect_results(proxy, failed=2)
        self.assertEqual(stats.total("http_forward_auth_unchecked_total"), 2)

    def test_clients_that_leave(self):
        authorizer = self.keep(Origin())
        proxy = self.proxy_of(authorizer.address, timeout="60s")
        with connect(proxy.address("plain")) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            asked = authorizer.accept()
            read_head(asked)
        with asked:
            self.assertIn(last_outcome(asked), ("end", "reset"))
        self.expect_results(proxy, cancelled=1)
        self.assertEqual(self.echo.seen, [])


class Waiting(ForwardAuthTest):
    """The authorizer has not decided yet."""

    def begin(self, proxy, client, *arguments):
        child = subprocess.Popen([need("curl"), *self.curl_options(client), "-w", "%{http_code}", *arguments,
                                  self.url(proxy, client, "/up")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(child.kill)
        return child

    def expect_served(self, child, bytes_sent=0):
        out, _ = child.communicate(timeout=30 * SLOWNESS)
        self.assertTrue(out.endswith(b"}200"), out)
        report = json.loads(out[:-3])
        self.assertEqual((report["bytes"], report["fields"]["x-user"]), (bytes_sent, ["ann"]))

    def test_uploads(self):
        """They stay where they are: neither the proxy nor the origin has them."""
        authorizer = self.keep(Origin())
        proxy = self.proxy_of(authorizer.address, timeout="60s")
        path = self.write("upload", os.urandom(MIB) * 48)
        for client in PLAIN:
            with self.subTest(words(client)):
                before = self.echo.seen[:]
                child = self.begin(proxy, client, "-H", "Expect:", "-T", path)
                asked = authorizer.accept() if client == HTTP1 else asked
                self.assertIn("X-Forwarded-Method: PUT".lower(), read_head(asked).lower())
                wait_until(lambda: proxy.stats().total("http_requests_active") == 1, 5, "the request")
                for _ in range(3):
                    self.assertLess(proxy.stats().total("pool_pinned_bytes"), 4 * MIB)
                self.assertEqual(self.echo.seen, before)
                asked.sendall(ALLOWED)
                self.expect_served(child, 48 * MIB)
        asked.close()

    def test_expectation(self):
        """100 (Continue) comes from the origin, so the body is not sent before the decision."""
        authorizer = self.keep(Origin())
        proxy = self.proxy_of(authorizer.address)
        with connect(proxy.address("plain")) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            with authorizer.accept() as asked:
                self.assertNotIn("expect", read_head(asked).lower())
                client.settimeout(0.2)
                self.assertRaises(socket.timeout, client.recv, 1)
                client.settimeout(10 * SLOWNESS)
                asked.sendall(ALLOWED)
                self.assertEqual(read_head(client).split("\r\n")[0], "HTTP/1.1 100 Continue")
                client.sendall(b"body")
                self.assertIn(" 200 ", read_head(client))

    def across(self, change, **options):
        """A request whose decision comes after a change of the proxy."""
        authorizer = self.keep(Origin())
        proxy = self.proxy_of(authorizer.address, timeout="60s", **options)
        children = [self.begin(proxy, client, "-d", "body") for client in PLAIN]
        asked = [authorizer.accept() for _ in PLAIN]
        for sock in asked:
            read_head(sock)
        change(proxy)
        for sock in asked:
            sock.sendall(ALLOWED)
        for child in children:
            self.expect_served(child, 4)
        for sock in asked:
            sock.close()

    def test_reload(self):
        """To a configuration without an authorizer."""
        def reload(proxy):
            routes = [{"forward": "main"}]
            proxy.reload({**proxy.config, "upstreams": proxy.config["upstreams"][:1],
                          "listeners": [{**each, "http": {"routes": routes}} for each in proxy.config["listeners"]]})
        self.across(reload)

    def test_drain(self):
        def drain(proxy):
            proxy.signal(signal.SIGTERM)
            proxy.wait_for_output("draining")
        self.across(drain)

    def test_upgrade(self):
        def upgrade(proxy):
            old = proxy.process
            proxy.upgrade(waits=False)
            self.assertIsNone(old.poll())
        self.across(upgrade)


if __name__ == "__main__":
    main()
