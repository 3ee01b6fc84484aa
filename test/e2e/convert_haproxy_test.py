"""`sluice convert --from haproxy`: the same requests to HAProxy with a file and to Sluice with what it becomes."""

import os
import re
import ssl
import subprocess

import examples_test
import harness
from convert_support import ConvertTest, app
from examples_test import EXAMPLES
from harness import SLUICE
from origins import Origin, receive_exactly

DEFAULTS = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 1
"""

ROUTES = DEFAULTS + """
frontend web
    bind 127.0.0.1:PORT1
    option forwardfor
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Real-IP %[src]
    http-request del-header X-Gone
    acl host_a req.hdr(host) -i a.test www.a.test
    acl host_b hdr(host) -i b.test
    acl wide hdr_end(host) .wide.test
    acl api path_beg /api
    acl write method POST PUT
    acl inside src 10.0.0.0/8
    acl local src 127.0.0.0/8
    http-request set-header X-Set api if api
    http-request set-header X-Set not-api unless api
    http-request deny deny_status 405 if host_b write
    http-request deny if { path_beg /inside } !inside
    http-request deny if { path /nobody }
    http-request return status 200 content-type text/plain string "said: text" if { path /text }
    http-request return status 404 content-type text/plain string "said: nothing" if !host_a !host_b !wide
    http-request redirect location /new code 301 if { path /old }
    http-request redirect prefix https://c.test code 302 if { path_beg /prefix }
    http-request redirect location https://%[hdr(host)]/there if { path /there-too }
    redirect scheme https code 301 if { path_beg /tls }
    use_backend two if host_b or wide
    use_backend two if host_a { path_end .png .jpg }
    use_backend two if { path_reg ^/users/[0-9]+$ }
    use_backend two if { hdr(x-beta) -m beg on } || { url_param(v) 2 }
    use_backend two if { cook(side) right }
    use_backend api if api
    use_backend sub if { path_sub /middle/ } local
    default_backend one

backend one
    http-response set-header X-Added one
    http-response del-header X-Secret
    server s1 127.0.0.1:ONE check inter 10s
backend two
    server s1 127.0.0.1:TWO weight 2
    server s2 127.0.0.1:9 backup
backend api
    http-request replace-path /api/?(.*) /\\1
    http-request add-header X-User me
    server s1 127.0.0.1:ONE
backend sub
    http-request set-path /sub%[path]
    server s1 127.0.0.1:TWO

listen both
    bind 127.0.0.1:PORT2
    option forwardfor
    http-request set-header X-Forwarded-Proto http
    http-request set-path %[path,regsub(^/x/,/)]
    server s1 127.0.0.1:TWO

frontend secure
    bind 127.0.0.1:PORT3 ssl crt BOTH alpn h2,http/1.1
    http-request set-header X-Forwarded-Proto https
    option forwardfor
    http-request redirect scheme https unless { ssl_fc }
    default_backend one
"""

REQUESTS = [
    ("a.test", "/"), ("A.test", "/x/y?z=1"), ("www.a.test", "/"), ("b.test", "/"), ("b.test", "/", "-d", "x"), ("b.test", "/api", "-X", "PUT", "-d", "x"),
    ("x.wide.test", "/"), ("y.x.wide.test", "/api/x"), ("wide.test", "/"), ("other.test", "/"), ("other.test", "/text"), ("a.test", "/text"),
    ("a.test", "/inside"), ("a.test", "/insidemore"), ("a.test", "/nobody"), ("a.test", "/nobody/x"), ("a.test", "/old"), ("a.test", "/old?q"),
    ("a.test", "/prefix/a?b"), ("a.test", "/there-too"), ("a.test", "/tls/a?b=c"), ("a.test", "/a.png"), ("a.test", "/a.pngx"), ("a.test", "/users/12"),
    ("a.test", "/users/12/x"), ("a.test", "/q", "-H", "x-beta: on-1"), ("a.test", "/q?v=2"), ("a.test", "/q?v=22"), ("a.test", "/q", "-b", "side=right"),
    ("a.test", "/q", "-b", "a=b; side=right"), ("a.test", "/q", "-b", "side=left"), ("a.test", "/api/v1?x"), ("a.test", "/api"), ("a.test", "/apis"),
    ("a.test", "/api/a.png"), ("a.test", "/a/middle/b"), ("a.test", "/x", "-H", "x-gone: 1", "-H", "x-set: mine"),
    ("a.test", "/api", "-H", "x-user: root"), ("a.test", "/", "-I"),
]

# What is refused: lines of the frontend, a part of the message, and the status of requests for /x then.
REFUSED = [
    ("http-request deny if { sc_http_req_rate(0) gt 10 }", "no counterpart as a condition", "403"),
    ("http-request auth unless { http_auth(users) }", "there is no counterpart", "403"),
    ("http-request deny if { path_beg /x } { hdr_dom(host) a.test }", "no counterpart as a condition", "403"),
    ("http-request lua.check", "there is no counterpart", "403"),
    ("use_backend one if { nbsrv(one) lt 1 }", "no counterpart as a condition", "403"),
    ("http-request set-path /x%[rand]", "cannot be said", "503"),
    ("http-request set-header X-User %[var(txn.user)]", "it is not sent", "200"),
    ("http-request redirect location /%[rand]", "cannot be said", "503"),
    ("http-request deny if { src -f /etc/bad }", "no counterpart as a condition", "403"),
    ("reqideny ^x", "does not know it", "403"),
    ("http-request return status 200 file /etc/e", "a fixed text", "503"),
    ("http-response set-header X-Added a if { res.hdr(x) b }", "without a condition", "200"),
    ("filter spoe engine x config /etc/spoe", "there are no filters", "403"),
]


class Haproxy(ConvertTest):

    proxy_name = "haproxy"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pem = os.path.join(cls.folder, "both.pem")
        with open(cls.pem, "w", encoding="utf-8") as both:
            for name in ("chain", "key"):
                with open(cls.server[name], encoding="utf-8") as part:
                    both.write(part.read())

    def test_routes(self):
        text = self.filled(ROUTES, one=self.keep(app("one")), two=self.keep(app("two"))).replace("BOTH", self.pem)
        with self.both(text) as ports:
            self.compare(ports, REQUESTS)
            self.compare(ports, [("a.test", "/x/y"), ("a.test", "/y/x/")], number=2)
            self.compare(ports, [("localhost", "/a?b", "--http1.1"), ("localhost", "/", "--http2")], number=3, scheme="https")

    def test_server_names(self):
        def tls_server(name):
            files = self.files.make(name, name, "*." + name)
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(files["chain"], files["key"])

            def serve(sock):
                try:
                    with context.wrap_socket(sock, server_side=True) as secure:
                        secure.sendall(name.encode())
                        secure.recv(100)
                except OSError:
                    pass
            return self.keep(Origin(serve))
        text = self.filled("""
defaults
    mode tcp
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend tls
    bind 127.0.0.1:PORT1
    tcp-request inspect-delay 5s
    tcp-request content accept if { req.ssl_hello_type 1 }
    use_backend a if { req.ssl_sni -i a.test } or { req.ssl_sni -m end .a.test }
    default_backend b
backend a
    server s 127.0.0.1:ONE
backend b
    server s 127.0.0.1:TWO
""", one=tls_server("a.test"), two=tls_server("b.test"))
        with self.both(text) as ports:
            for own in ports:
                for name, expected in (("a.test", b"a.test"), ("x.a.test", b"a.test"), ("b.test", b"b.test")):
                    client = self.secure(("127.0.0.1", own[1]), name=name)
                    self.assertEqual(receive_exactly(client, 6), expected)
                    client.close()

    def test_refused(self):
        one = self.keep(app("one"))
        for line, message, status in REFUSED:
            with self.subTest(line=line):
                port = examples_test.free_port()
                text = self.filled(DEFAULTS + "frontend web\n    bind 127.0.0.1:PORT\n    %s\n    default_backend one\n"
                                   "backend one\n    server s 127.0.0.1:ONE\n" % line, one=one).replace("PORT", str(port))
                config, errors = self.converted(text, code=3)
                self.assertRegex(errors, r"convert\.conf:\d+:\d+: .*: refused: .*" + re.escape(message))
                proxy = self.start(config, listeners=re.findall(r"^  - name: (\S+)\n    address", config, re.M))
                self.assertEqual(self.ask(port, "a.test", "/x")[0], status)
                self.stop(proxy)

    def test_mistakes(self):
        self.assertRegex(self.converted("bind :80\n", code=1)[1], r"convert\.conf:1:1: expected a section")
        self.assertRegex(self.converted('frontend a\n    bind "x\n', code=1)[1], r"convert\.conf:2:5: a quoted text does not end")
        self.assertIn("expected a section `frontend`", self.converted("global\n", code=1)[1])

    def test_shipped_file(self):
        """The configuration that HAProxy is installed with has no frontend; with one it is taken over."""
        if not os.path.exists("/etc/haproxy/haproxy.cfg"):
            self.skipTest("HAProxy has no /etc/haproxy/haproxy.cfg here")
        with open("/etc/haproxy/haproxy.cfg", encoding="utf-8") as file:
            text = file.read() + "\nfrontend web\n    bind :8080\n    default_backend app\nbackend app\n    server a 10.0.0.1:80 check\n"
        done = subprocess.run(["haproxy", "-c", "-f", self.written("shipped.cfg", text)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        output, errors = self.converted(text)
        self.assertNotIn("does not know it", errors)
        self.assertIn("health_check: { interval: 2s }", output)


class ConvertedExamples(examples_test.Examples):
    """What holds for HAProxy in docs/examples holds for Sluice with the file that is made of HAProxy's, where all of it can be said."""

    test_all_examples_are_tested = None
    # With names of certificates, chance, and a table of connections: these are refused.
    test_07_mutual_tls = test_08_canary = test_10_public_edge = None

    def each_program(self, example, servers, claims):
        ports = {}
        text = self.rewritten((EXAMPLES / example / "haproxy.cfg").read_text(encoding="utf-8"), servers, ports)
        path = os.path.join(self.folder, "haproxy.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([SLUICE, "convert", "--from", "haproxy", "--strict", path], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        proxy = self.sluice(done.stdout)
        claims(ports, "sluice")
        self.stop(proxy)


if __name__ == "__main__":
    harness.main()
