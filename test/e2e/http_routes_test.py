"""Actions of routes besides the choice of an upstream, in front of nginx, with curl; compared with nginx as the
proxy."""

import json
import os
import re

import harness
from harness import wait_until
from http_peers_support import KINDS, HttpTest, words
from origins import free_port
from programs import Nginx

HTTP1, HTTP1_TLS, HTTP2, HTTP2_TLS = KINDS
ECHO = """return 200 "$request_method $request_uri host=$http_host env=$http_x_env client=$http_x_client path=$http_x_path
 agent=$http_user_agent proto=$http_x_forwarded_proto";"""


class Routes(HttpTest):

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.keep(Nginx([("127.0.0.1", self.port)], f"""
            server {{ listen 127.0.0.1:{self.port}; add_header X-Powered-By nginx always; location / {{ {ECHO} }} }}"""))

    def routes(self, *routes, **http):
        return self.through(f"127.0.0.1:{self.port}", kind=("http1", False), http={"routes": list(routes), **http})

    def response_text(self, proxy, path, *arguments, client=HTTP1):
        response = self.curl(proxy, client, path, "-A", "test", *arguments)
        return response.status, response.body.decode().replace("\n", "")

    def test_redirect_to_https(self):
        """curl follows from the plain listener to the one with TLS, and gets to the upstream."""
        port = free_port()
        config = self.configuration(self.upstream(f"127.0.0.1:{self.port}", kind=("http1", False)))
        plain, secure = config["listeners"]
        secure["address"] = f"127.0.0.1:{port}"
        plain["http"] = {"routes": [{"redirect": {"scheme": "https", "port": port}}]}
        proxy = self.start(config)
        for client in (HTTP1, HTTP2):
            with self.subTest(words(client)):
                response = self.curl(proxy, client, "/a/../b?c=d", "-L")
                self.assertEqual([(status, fields["location"]) for status, fields in response.early],
                                 [(301, f"https://localhost:{port}/b?c=d")])
                self.assertEqual(response.status, 200)
                self.assertIn(b"GET /b?c=d", response.body)
                self.assertIn(b"proto=https", response.body)

    def test_redirects_that_keep_the_method(self):
        proxy = self.routes({"match": {"path": {"prefix": "/see"}}, "redirect": {"status": 303, "path": "/there"}},
                            {"match": {"path": {"prefix": "/old"}}, "redirect": {"status": 308, "prefix": "/new"}},
                            {"forward": "main"})
        # Not over HTTP/2: curl 7.88 reports an error for a response that does not wait for the request's body, with
        # nginx too.
        for client in (HTTP1, HTTP1_TLS):
            with self.subTest(words(client)):
                post = ("-L", "-d", "some=data")
                self.assertIn("GET /there ", self.response_text(proxy, "/see", *post, client=client)[1])
                self.assertIn("POST /new/x?y ", self.response_text(proxy, "/old/x?y", *post, client=client)[1])

    def test_rewrites(self):
        proxy = self.routes({"match": {"path": {"prefix": "/api"}}, "forward": "main",
                             "rewrite": {"prefix": "/", "host": "inner.test:81"}},
                            {"match": {"path": {"exact": "/one"}}, "forward": "main", "rewrite": {"path": "/other"}},
                            {"forward": "main"})
        for client in KINDS:
            with self.subTest(words(client)):
                self.assertIn("GET /v1/x?y=z host=inner.test:81 ", self.response_text(proxy, "/api/v1/x?y=z", client=client)[1])
                self.assertIn("GET / host=inner.test:81 ", self.response_text(proxy, "/api", client=client)[1])
                self.assertIn("GET /other?q ", self.response_text(proxy, "/one?q", client=client)[1])
                self.assertIn("GET /apis host=localhost", self.response_text(proxy, "/apis", client=client)[1])

    def test_fields(self):
        proxy = self.routes(
            {"match": {"path": {"prefix": "/a"}}, "forward": "main", "rewrite": {"path": "/"},
             "request_headers": [{"name": "X-Client", "set": "%{client_ip}"}, {"name": "X-Path", "set": "%{path}"},
                                 {"name": "User-Agent", "remove": True}],
             "response_headers": [{"name": "X-Powered-By", "remove": True}, {"name": "X-Route", "set": "a"}]},
            {"forward": "main"},
            request_headers=[{"name": "x-env", "set": "%{listener}/%{tls_version}"}],
            response_headers=[{"name": "strict-transport-security", "set": "max-age=63072000"}])
        for client in KINDS:
            with self.subTest(words(client)):
                response = self.curl(proxy, client, "/a/b", "-H", "X-Client: spoofed", "-H", "X-Env: spoofed")
                listener = "secure/TLSv1.3" if client[1] else "plain/"
                self.assertIn(f"env={listener} client=127.0.0.1 path=/a/b", response.body.decode().replace("\n", ""))
                self.assertIn("agent= ", response.body.decode())
                self.assertEqual((response.fields["x-route"], response.fields["strict-transport-security"]),
                                 ("a", "max-age=63072000"))
                self.assertNotIn("x-powered-by", response.fields)
                other = self.curl(proxy, client, "/b", "-H", "X-Client: mine")
                self.assertIn("client=mine path= ", other.body.decode().replace("\n", "") + " ")
                self.assertEqual(other.fields["x-powered-by"], "nginx")
                self.assertNotIn("x-route", other.fields)

    def test_maintenance(self):
        """While a file exists, for half of the paths."""
        file = f"{self.files}/down"
        proxy = self.routes({"match": {"path": {"prefix": "/app"}}, "forward": "main",
                             "maintenance": {"file": file, "retry_after": "2m"}},
                            {"forward": "main"})

        def status(path, client):
            return self.curl(proxy, client, path).status

        for client in KINDS:
            with self.subTest(words(client)):
                wait_until(lambda: status("/app", client) == 200, what="the route to be up")
                self.write("down", b"")
                wait_until(lambda: status("/app", client) == 503, what="the route to be down")
                response = self.curl(proxy, client, "/app/x")
                self.assertEqual((response.status, response.fields["retry-after"], response.body),
                                 (503, "120", b"down for maintenance\n"))
                self.assertEqual(status("/", client), 200)
                os.remove(file)
        self.assertGreaterEqual(proxy.stats().total("http_requests_ended_total", reason="maintenance"), 2 * len(KINDS))

    def test_conditions(self):
        proxy = self.routes(
            {"match": {"method": ["GET", "HEAD"], "headers": [{"name": "x-canary", "exact": "yes"}]}, "forward": "main",
             "request_headers": [{"name": "x-env", "set": "canary"}]},
            {"match": {"query": [{"name": "debug", "not": True}], "source": "127.0.0.0/8"}, "forward": "main",
             "request_headers": [{"name": "x-env", "set": "local"}]},
            {"respond": {"status": 403}})
        for client in KINDS:
            with self.subTest(words(client)):
                canary = ("-H", "X-Canary: yes")
                self.assertIn("env=canary", self.response_text(proxy, "/", *canary, client=client)[1])
                self.assertIn("env=local", self.response_text(proxy, "/", *canary, "-X", "DELETE", client=client)[1])
                self.assertIn("env=local", self.response_text(proxy, "/?a=b", client=client)[1])
                self.assertEqual(self.response_text(proxy, "/?a=b&debug", client=client)[0], 403)

    def test_explain_matches_behavior(self):
        """For each request, `sluice explain` prints what then happens to it, and which certificate a name gets."""
        config = self.configuration(self.upstream(f"127.0.0.1:{self.port}", kind=("http1", False)), http={"routes": [
            {"match": {"path": {"prefix": "/a"}}, "forward": "main", "rewrite": {"prefix": "/b", "host": "inner.test"},
             "request_headers": [{"name": "x-env", "set": "%{method}"}, {"name": "x-path", "set": "%{path}"}]},
            {"match": {"path": {"prefix": "/old"}}, "redirect": {"scheme": "https", "prefix": "/new"}},
            {"match": {"method": "DELETE"}, "respond": {"status": 403}},
            {"match": {"headers": [{"name": "x-canary"}]}, "forward": "main"}]})
        path = self.write("explained.json", json.dumps(config).encode())
        proxy = self.start(config)
        for method, target, *fields in (("GET", "/a/x?y"), ("PUT", "/a"), ("GET", "/old/x"), ("DELETE", "/x"),
                                        ("GET", "/x", "X-Canary: 1"), ("GET", "/x")):
            with self.subTest(f"{method} {target}"):
                field_arguments = [argument for field in fields for argument in ("-H", field)]
                output = self.call(harness.SLUICE, "explain", "--config", path, "--listener", "plain", method,
                                   f"http://a.test{target}", *field_arguments).stdout.decode()
                response = self.curl(proxy, HTTP1, target, "-X", method, "-H", "Host: a.test", *field_arguments)
                if response.status == 200:
                    printed_fields = dict(re.findall(r"^ {12}([a-z-]+): (.*)$", output, re.MULTILINE))
                    line = re.search(r"^sends +(\S+ \S+) HTTP", output, re.MULTILINE)[1]
                    self.assertIn(f"{line} host={printed_fields['host']} env={printed_fields.get('x-env', '')} client= "
                                  f"path={printed_fields.get('x-path', '')}", response.body.decode().replace("\n", ""))
                else:
                    self.assertIn(f"response    {response.status}, {'Location: ' if 300 <= response.status < 400 else ''}"
                                  f"{response.fields.get('location', '')}", output)
        output = self.call(harness.SLUICE, "explain", "--config", path, "--listener", "secure", "https://localhost/").stdout
        self.assertIn(f"certificate {self.server['chain']} (localhost, a.example.com)", output.decode())

    def test_compared_with_nginx(self):
        """The same configuration for both: the responses to curl and the requests to the upstream are the same."""
        port = free_port()
        fields = "proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Env edge; proxy_set_header Host"
        self.keep(Nginx([("127.0.0.1", port)], f"""
            proxy_http_version 1.1; proxy_hide_header X-Powered-By; add_header X-Served edge always;
            server {{ listen 127.0.0.1:{port};
                location / {{ proxy_pass http://127.0.0.1:{self.port}; {fields} $http_host; }}
                location /api/ {{ proxy_pass http://127.0.0.1:{self.port}/; {fields} inner.test; }}
                location = /gone {{ return 410; }}
                location /old/ {{ return 301 https://$host$request_uri; }}
                location = /here {{ return 307 /there$is_args$args; }}
                location /read/ {{ limit_except GET {{ deny all; }} proxy_pass http://127.0.0.1:{self.port};
                                   {fields} $http_host; }} }}"""))
        proxy = self.routes(
            {"match": {"path": {"prefix": "/api/"}}, "forward": "main", "rewrite": {"prefix": "/", "host": "inner.test"}},
            {"match": {"path": {"exact": "/gone"}}, "respond": {"status": 410}},
            {"match": {"path": {"prefix": "/old/"}}, "redirect": {"scheme": "https"}},
            {"match": {"path": {"exact": "/here"}}, "redirect": {"status": 307, "path": "/there"}},
            {"match": {"path": {"prefix": "/read/"}, "method": ["GET", "HEAD"]}, "forward": "main"},
            {"match": {"path": {"prefix": "/read/"}}, "respond": {"status": 403}},
            {"forward": "main"},
            request_headers=[{"name": "x-env", "set": "edge"}, {"name": "x-forwarded-for", "remove": True},
                             {"name": "via", "remove": True}],
            response_headers=[{"name": "x-served", "set": "edge"}, {"name": "x-powered-by", "remove": True}])

        def seen(url, arguments):
            with_head = self.call(harness.need("curl"), "-sS", "-i", "-A", "test", "-H", "Host: a.test", *arguments, url)
            head, _, body = with_head.stdout.decode().partition("\r\n\r\n")
            lines = head.split("\r\n")
            fields = {line.split(":")[0].lower(): line.split(": ", 1)[1] for line in lines[1:]}
            location = fields.get("location", "").replace(f"http://a.test:{port}", "").replace("http://a.test", "")
            return (lines[0].split()[1], location, fields.get("x-served"), "x-powered-by" in fields,
                    body if lines[0].split()[1] == "200" else "")

        for path, *arguments in (("/",), ("/a?b=c",), ("/api/v1/x?y",), ("/api/",), ("/gone",), ("/old/x?y=z",),
                                 ("/here?a=b",), ("/read/x",), ("/read/x", "-X", "DELETE"), ("/x", "-X", "PUT", "-d", "a")):
            with self.subTest(path):
                by_nginx = seen(f"http://127.0.0.1:{port}{path}", arguments)
                self.assertEqual(seen(f"http://127.0.0.1:{proxy.port('plain')}{path}", arguments), by_nginx)


if __name__ == "__main__":
    harness.main()
