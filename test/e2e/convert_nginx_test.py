"""`sluice convert --from nginx`: the same requests to nginx with a file and to Sluice with what it becomes."""

import os
import re
import subprocess

import examples_test
import harness
from convert_support import ConvertTest, app
from examples_test import EXAMPLES
from harness import SLUICE
from http_wire import Server

FIELDS = """
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  proxy_set_header Host $http_host;
  proxy_set_header X-Real-IP $remote_addr;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
"""

ROUTES = """
events {}
http {
""" + FIELDS + """
  default_type text/plain;
  upstream one { server 127.0.0.1:ONE; keepalive 8; }
  upstream two { server 127.0.0.1:TWO; server 127.0.0.1:9 backup; }
  map $http_upgrade $connection_upgrade { default upgrade; '' close; }
  server {
    listen 127.0.0.1:PORT1 default_server;
    return 404 "said: nothing here\\n";
  }
  server {
    listen 127.0.0.1:PORT1;
    server_name a.test www.a.test;
    location / { proxy_pass http://one; }
    location /bytes { proxy_pass http://two; }
    location /slash/ { proxy_pass http://two/; }
    location /deep/er/ { proxy_pass http://two/x/; }
    location /deep/ { proxy_pass http://one/y; }
    location = /exact { proxy_pass http://two/other; }
    location = /slash/exact { proxy_pass http://one; }
    location ^~ /static/ { proxy_pass http://two; }
    location ~ \\.(png|jpg)$ { proxy_pass http://two; add_header X-Added picture always; }
    location ~* ^/CASE/([0-9]+)$ { proxy_pass http://two; }
    location ~ /first { proxy_pass http://one; add_header X-Added first always; }
    location ~ /first/second { proxy_pass http://two; }
    location /moved { return 301 /new?x=1; }
    location /moved/plain { return 301 /new; }
    location /host { return 302 https://b.test$request_uri; }
    location /tls { return 301 https://$host$request_uri; }
    location /url { return https://c.test/there; }
    location /code { return 410; }
    location /empty { return 204; }
    location /text { return 200 "said: text\\n"; }
    location /rewritten/ { rewrite ^/rewritten/(.*)$ /r/$1 break; proxy_pass http://one; }
    location /permanent/ { rewrite ^/permanent/(.*)$ /p/$1 permanent; proxy_pass http://one; }
    location /fields {
      proxy_set_header Host fixed.test;
      proxy_set_header X-Set "$host and $request_method";
      proxy_set_header X-Gone "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_hide_header X-Secret;
      add_header X-Added "for $scheme" always;
      proxy_pass http://one;
    }
    location /default_host {
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_pass http://127.0.0.1:ONE;
    }
    location /allowed { allow 127.0.0.0/8; deny all; proxy_pass http://one; }
    location /denied { deny 127.0.0.1; allow all; proxy_pass http://one; }
    location /nobody { deny all; proxy_pass http://one; }
    location /inside { allow 10.0.0.0/8; deny all; proxy_pass http://one; }
    location /users { auth_basic "the shed"; auth_basic_user_file FOLDER/users; proxy_pass http://one; }
    location /asked { auth_request /auth; proxy_pass http://one; }
    location = /auth { internal; proxy_pass http://127.0.0.1:AUTH/check; proxy_pass_request_body off; proxy_set_header Content-Length ""; }
    location /small { client_max_body_size 10; proxy_pass http://one; }
    location /methods { if ($request_method !~ ^(GET|HEAD)$) { return 405; } proxy_pass http://one; }
    location /robots { if ($http_user_agent ~* "bot|crawler") { return 403; } proxy_pass http://one; }
    location /query { if ($arg_v = 2) { return 302 /v2; } proxy_pass http://one; }
    location /down { proxy_pass http://127.0.0.1:9; }
    location /pages/error { proxy_pass http://two; }
    location /upgrade {
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_read_timeout 1h;
      proxy_pass http://one;
    }
  }
  server {
    listen 127.0.0.1:PORT1;
    server_name *.wide.test;
    location / { proxy_pass http://two; }
  }
  server {
    listen 127.0.0.1:PORT1;
    server_name only.wide.test .dot.test;
    if ($host = only.wide.test) { return 301 https://wide.test$request_uri; }
    location / { proxy_pass http://one; }
  }
  server {
    listen 127.0.0.1:PORT1;
    server_name ~^[^.]+\\.files\\.test$ ~^(www\\.)?re\\.test$;
    rewrite ^/old/(.*)$ /new/$1 redirect;
    rewrite ^/away/ https://else.test/gone? permanent;
    location / { proxy_pass http://two; }
  }
  server {
    listen 127.0.0.1:PORT2;
    server_name any.test;
    if ($scheme = http) { return 301 https://$host$request_uri; }
    location / { proxy_pass http://one; }
  }
  server {
    listen 127.0.0.1:PORT3 ssl http2;
    server_name localhost;
    ssl_certificate CHAIN;
    ssl_certificate_key KEY;
    ssl_protocols TLSv1.2 TLSv1.3;
    if ($scheme = http) { return 301 https://$host$request_uri; }
    location / { proxy_pass http://one; }
  }
}
"""

REQUESTS = [
    ("a.test", "/"), ("A.test", "/x/y?z=1"), ("www.a.test", "/"), ("other.test", "/"), ("a.test", "/bytes"), ("a.test", "/bytesmore/x"),
    ("a.test", "/slash/x?q"), ("a.test", "/slash/"), ("a.test", "/slash"), ("a.test", "/slash?a=b"), ("a.test", "/slash/exact"),
    ("a.test", "/deep/er/z"), ("a.test", "/deep/z"), ("a.test", "/deep/er"), ("a.test", "/exact?q=1"), ("a.test", "/exact/x"),
    ("a.test", "/static/a.png"), ("a.test", "/slash/a.png"), ("a.test", "/a.png?x"), ("a.test", "/a.pngx"), ("a.test", "/case/12"),
    ("a.test", "/CaSe/x"), ("a.test", "/first/second"), ("a.test", "/x/first"), ("a.test", "/moved/plain"), ("a.test", "/moved/plain?q"),
    ("a.test", "/host/x?y"), ("a.test", "/tls/a?b=c"), ("a.test", "/url"), ("a.test", "/code"), ("a.test", "/empty"), ("a.test", "/text"),
    ("a.test", "/rewritten/a/b?c"), ("a.test", "/rewritten/"), ("a.test", "/permanent/a?b"), ("a.test", "/permanent/"),
    ("a.test", "/fields", "-H", "x-set: mine", "-H", "x-gone: 1", "-H", "x-forwarded-for: 1.2.3.4"),
    ("a.test", "/default_host"), ("a.test", "/allowed"), ("a.test", "/denied"), ("a.test", "/nobody"),
    ("a.test", "/inside"), ("a.test", "/users"), ("a.test", "/users", "-u", "alice:secret"), ("a.test", "/users", "-u", "alice:wrong"),
    ("a.test", "/asked"), ("a.test", "/asked", "-H", "x-user: root"), ("a.test", "/auth"), ("a.test", "/small", "-d", "short"),
    ("a.test", "/small", "-d", "more than ten bytes"), ("a.test", "/methods"), ("a.test", "/methods", "-X", "DELETE"),
    ("a.test", "/methods", "-I"), ("a.test", "/robots", "-A", "a Crawler"), ("a.test", "/robots"), ("a.test", "/query?v=2"),
    ("a.test", "/query?v=3"), ("a.test", "/down"), ("a.test", "/pages/error"), ("b.wide.test", "/"), ("x.b.wide.test", "/"),
    ("only.wide.test", "/a?b"), ("dot.test", "/"), ("x.y.dot.test", "/"), ("one.files.test", "/"), ("a.one.files.test", "/"),
    ("re.test", "/old/x?y=1"), ("www.re.test", "/away/x?y"), ("re.test", "/old"), ("a.test", "/upgrade"), ("a.test", "//slash//x"),
    ("a.test", "/", "-d", "some data"), ("a.test", "/", "-I"),
]

# As one would find it on a server of Debian.
SITE = """
user www-data;
worker_processes auto;
pid FOLDER/nginx.pid;
error_log FOLDER/error.log;
events { worker_connections 768; multi_accept on; }
http {
  sendfile on;
  tcp_nopush on;
  types_hash_max_size 2048;
  server_tokens off;
  server_names_hash_bucket_size 64;
  include FOLDER/mime.types;
  default_type application/octet-stream;
  ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;
  ssl_prefer_server_ciphers on;
  access_log FOLDER/access.log;
  gzip on;
  gzip_vary on;
  gzip_types text/plain application/json;
  limit_req_zone $binary_remote_addr zone=login:10m rate=600r/m;
  limit_conn_zone $binary_remote_addr zone=addr:10m;
  upstream app {
    least_conn;
    server 127.0.0.1:ONE weight=2 max_fails=3 fail_timeout=30s;
    server 127.0.0.1:9 backup;
    keepalive 32;
  }
  include FOLDER/sites/*.conf;
}
"""
SITE_CONF = """
server {
  listen 127.0.0.1:PORT1;
  server_name localhost;
  location /.well-known/acme-challenge/ { root FOLDER; }
  location / { return 301 https://$host$request_uri; }
}
server {
  listen 127.0.0.1:PORT2 ssl http2;
  server_name localhost;
  ssl_certificate CHAIN;
  ssl_certificate_key KEY;
  ssl_session_timeout 1d;
  ssl_session_cache shared:SSL:10m;
  ssl_session_tickets off;
  ssl_stapling on;
  add_header Strict-Transport-Security "max-age=63072000" always;
  add_header X-Added yes always;
  client_max_body_size 20m;
  limit_conn addr 50;
  error_page 500 502 503 504 /50x.html;
  location = /50x.html { root FOLDER; internal; }
  location / { try_files $uri @app; }
  location @app {
""" + FIELDS + """
    proxy_redirect off;
    proxy_read_timeout 90s;
    proxy_buffering off;
    proxy_pass http://app;
  }
  location /login {
""" + FIELDS + """
    limit_req zone=login burst=5 nodelay;
    proxy_pass http://app;
  }
  location /broken {
    proxy_pass http://127.0.0.1:9;
  }
  location ~ /\\.git { deny all; }
  location ~ \\.php$ {
    include FOLDER/fastcgi.conf;
    fastcgi_pass unix:/run/php/php-fpm.sock;
  }
}
"""

# What is refused: a directive, where it stands, a part of the message, and the status of requests for /x then.
REFUSED = [
    ("location", "fastcgi_pass 127.0.0.1:9000;", "by HTTP only", "503"),
    ("location", "root /var/www;", "serves no files", "503"),
    ("location", "proxy_pass http://$backend;", "expected a fixed server", "503"),
    ("location", "proxy_pass http://one; auth_jwt on;", "does not know it", "403"),
    ("location", "proxy_pass http://one; limit_except GET { deny all; }", "no counterpart", "403"),
    ("location", "proxy_pass http://one; allow 127.0.0.1; deny 127.0.0.0/8;", "cannot be denied", "403"),
    ("location", "proxy_pass http://one; limit_req zone=nowhere;", "there is no zone", "403"),
    ("location", "proxy_pass http://one; auth_request /nowhere;", "no location of this path", "403"),
    ("location", "proxy_pass http://one; if ($ssl_client_verify != SUCCESS) { return 403; }", "no counterpart", "403"),
    ("location", "proxy_pass http://one; if ($http_a) { set $b 1; }", "only `return`", "403"),
    ("location", "proxy_pass http://one; rewrite ^/x /y last;", "no other location", "503"),
    ("location", "proxy_pass http://one; proxy_cache all;", "there is no cache", "200"),
    ("location", "proxy_pass http://one; sub_filter a b;", "not changed", "200"),
    ("location", "proxy_pass http://one; proxy_set_header X-User $remote_user;", "upstreams do not get the field", "200"),
    ("location", "location /x/y { proxy_pass http://one; }", "inside of others", "503"),
    ("server", "location ~ ^/(?!y) { deny all; } location / { proxy_pass http://one; }", "no counterpart", "403"),
    ("server", "location ~ [@] { deny all; } location / { proxy_pass http://one; }", "no counterpart", "403"),
    ("server", "set $a 1; location / { proxy_pass http://one; }", "no variables of one's own", "200"),
    ("server", "secure_link $arg_a; location / { proxy_pass http://one; }", "what it guards gets 403", "403"),
    ("server", "ssl_crl /etc/crl.pem; location / { proxy_pass http://one; }", "revoked", "403"),
    ("server", "set_real_ip_from 127.0.0.1; real_ip_header CF-Connecting-IP; location / { allow 127.0.0.1; deny all; proxy_pass http://one; }",
     "refuses all requests", "403"),
]


class Nginx(ConvertTest):

    proxy_name = "nginx"

    def setUp(self):
        super().setUp()
        self.written("users", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")  # secret

    # ---- The same requests to both

    def test_routes(self):
        one, two = self.keep(app("one")), self.keep(app("two"))

        def decide(request, connection):
            connection.reply(request, status=403 if request.value("x-user") == "root" or request.path != "/check" else 204)
        text = self.filled(ROUTES, one=one, two=two, auth=self.keep(Server(decide)))
        with self.both(text, code=3) as ports:
            self.compare(ports, REQUESTS)
            self.compare(ports, [("any.test", "/a?b"), ("localhost", "/")], number=2)
            self.compare(ports, [("localhost", "/a?b"), ("localhost", "/", "--http1.1"), ("localhost", "/", "--http2")], number=3, scheme="https")

    def test_site(self):
        """The files of a usual site, in several."""
        os.makedirs(os.path.join(self.folder, "sites"), exist_ok=True)
        self.written("mime.types", "types { text/html html htm; application/json json; }\n")
        self.written("fastcgi.conf", "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n")
        self.written("50x.html", "said: sorry\n")
        one = self.keep(app("one"))
        folder = self.folder
        site = self.filled(SITE_CONF, one=one)
        ports = [{1: examples_test.free_port(), 2: examples_test.free_port()} for _ in range(2)]
        texts = [re.sub(r"\bPORT(\d)\b", lambda m, own=own: str(own[int(m[1])]), site) for own in ports]
        main = self.filled(SITE, one=one)
        self.written("sites/a.conf", texts[1])
        output, errors = self.converted(main, code=3)
        self.assertRegex(errors, re.escape(folder) + r"/sites/a.conf:\d+:\d+: fastcgi_pass: refused: ")
        self.assertIn("user: www-data", output)
        config = output.replace("user: www-data\n", "")
        proxy = self.start(config, listeners=re.findall(r"^  - name: (\S+)\n    address", config, re.M))
        self.written("sites/a.conf", texts[0])
        nginx = examples_test.Program("nginx", main.replace(f"pid {folder}/nginx.pid;", "").replace("error_log", "#").replace(
            "user www-data;", ""), [("127.0.0.1", p) for p in ports[0].values()])
        self.addCleanup(nginx.close)
        self.compare(ports, [("localhost", "/x?y"), ("localhost", "/")])
        self.compare(ports, [("localhost", "/x?y"), ("localhost", "/login"), ("localhost", "/.git/config"), ("localhost", "/50x.html"),
                             ("localhost", "/broken")], number=2, scheme="https")
        self.assertEqual(self.ask(ports[1][2], "localhost", "/index.php", scheme="https")[0], "503")
        self.stop(proxy)

    def test_limits(self):
        text = self.filled("""
events {}
http {
  limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
  server {
    listen 127.0.0.1:PORT1;
    location /burst { limit_req zone=slow burst=3 nodelay; limit_req_status 429; proxy_pass http://127.0.0.1:ONE; }
  }
}
""", one=self.keep(app("one")))
        with self.both(text) as ports:
            statuses = [[self.ask(own[1], "a.test", "/burst")[0] for _ in range(6)] for own in ports]
            self.assertEqual(statuses[0], ["200"] * 4 + ["429"] * 2)
            self.assertEqual(statuses[1], statuses[0])

    def test_client_certificates(self):
        text = self.filled("""
events {}
http {
  server {
    listen 127.0.0.1:PORT1 ssl;
    server_name localhost;
    ssl_certificate CHAIN;
    ssl_certificate_key KEY;
    ssl_client_certificate AUTHORITY;
    ssl_verify_client on;
    location / { proxy_pass http://127.0.0.1:ONE; }
  }
}
""", one=self.keep(app("one"))).replace("AUTHORITY", self.ca)
        with self.both(text) as ports:
            known = ("--cert", self.client["chain"], "--key", self.client["key"])
            self.assertEqual([self.ask(own[1], "localhost", "/", *known, scheme="https")[0] for own in ports], ["200", "200"])
            for own in ports:  # nginx responds with 400.
                self.assertNotEqual(self.ask(own[1], "localhost", "/", scheme="https")[0], "200")

    # ---- What is refused

    def test_refused(self):
        one = self.keep(app("one"))
        for where, directive, message, status in REFUSED:
            with self.subTest(directive=directive):
                inner = directive if where == "server" else "location / { %s }" % directive
                port = examples_test.free_port()
                text = self.filled("events {}\nhttp {\n upstream one { server 127.0.0.1:ONE; }\n server {\n  listen 127.0.0.1:PORT;\n  %s\n }\n}\n" %
                                   inner, one=one).replace("PORT", str(port))
                config, errors = self.converted(text, code=3)
                self.assertRegex(errors, r"convert\.conf:\d+:\d+: .*: refused: .*" + re.escape(message))
                proxy = self.start(config, listeners=re.findall(r"^  - name: (\S+)\n    address", config, re.M))
                self.assertEqual(self.ask(port, "a.test", "/x")[0], status)
                self.stop(proxy)

    def test_exit_codes(self):
        self.assertIn("convert needs --from", self.convert("x.conf", code=2)[1])
        self.assertIn("takes several FILEs", self.convert("--from", "nginx", "a", "b", code=2)[1])
        self.assertIn("nothing.conf", self.convert("--from", "nginx", self.folder + "/nothing.conf", code=1)[1])
        self.assertRegex(self.converted("http {\n  server {", code=1)[1], r"convert\.conf:2:11: a block does not end")
        self.assertIn("expected a block `http`", self.converted("events {}\n", code=1)[1])
        refused = "events {}\nhttp {\n  server { listen 80; location / { root /x; } }\n}\n"
        self.assertEqual(self.convert("--from", "nginx", "--strict", self.written("s.conf", refused), code=1)[0], "")
        target = os.path.join(self.folder, "out.yaml")
        self.convert("--from", "nginx", "--output", target, self.written("s.conf", refused), code=3)
        with open(target, encoding="utf-8") as file:
            self.assertIn("listeners:", file.read())

    def test_shipped_file(self):
        """The configuration that nginx is installed with."""
        if not os.path.exists("/etc/nginx/nginx.conf"):
            self.skipTest("nginx has no /etc/nginx/nginx.conf here")
        done = subprocess.run([SLUICE, "convert", "--from", "nginx", "/etc/nginx/nginx.conf"], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertNotIn("does not know it", done.stderr)


class ConvertedExamples(examples_test.Examples):
    """What holds for nginx in docs/examples holds for Sluice with the file that is made of nginx's, where all of it can be said."""

    test_all_examples_are_tested = None
    # With geo, maps and names of certificates: these are refused. In the last one nginx's bound on heads is four times that of the others.
    test_04_maintenance = test_07_mutual_tls = test_08_canary = test_10_public_edge = None

    def each_program(self, example, servers, claims):
        ports = {}
        text = self.rewritten((EXAMPLES / example / "nginx.conf").read_text(encoding="utf-8"), servers, ports)
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([SLUICE, "convert", "--from", "nginx", "--strict", path], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        proxy = self.sluice(done.stdout)
        claims(ports, "sluice")
        self.stop(proxy)


if __name__ == "__main__":
    harness.main()
