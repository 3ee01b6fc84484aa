"""`sluice convert`: files of Envoy, and the same requests to Envoy with such a file and to Sluice with what it becomes. Envoy is the
program that the environment variable ENVOY names."""

import contextlib
import os
import re
import subprocess

import examples_test
import harness
from examples_test import EXAMPLES, Program
from harness import SLUICE, need
from http_wire import Server
from origins import free_port
from tls_support import TlsTest

MANAGER = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = """
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }"""

ROUTES = """
static_resources:
  listeners:
    - name: web
      address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": MANAGER
                stat_prefix: web
                use_remote_address: true
                normalize_path: true
                http_filters:
                  - name: envoy.filters.http.cors
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors }
                  - name: envoy.filters.http.rbac
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
                      rules:
                        action: DENY
                        policies:
                          closed:
                            permissions: [ { url_path: { path: { prefix: /closed } } } ]
                            principals: [ { remote_ip: { address_prefix: 127.0.0.0, prefix_len: 8 } } ]ROUTER
                route_config:
                  request_headers_to_add: [ { header: { key: x-level, value: all }, append_action: APPEND_IF_EXISTS_OR_ADD } ]
                  response_headers_to_add: [ { header: { key: x-from, value: proxy } } ]
                  virtual_hosts:
                    - name: any
                      domains: [ "*" ]
                      routes:
                        - match: { prefix: / }
                          direct_response: { status: 418, body: { inline_string: "who is that?" } }
                    - name: wide
                      domains: [ "*.wide.test" ]
                      routes:
                        - match: { path: /only }
                          route: { cluster: two }
                    - name: one
                      domains: [ a.test, a.wide.test ]
                      cors:
                        allow_origin_string_match: [ { exact: "https://ok.test" } ]
                        allow_methods: "GET, PUT"
                        max_age: "600"
                      request_headers_to_remove: [ x-secret ]
                      routes:
                        - match: { path: /direct }
                          direct_response: { status: 404, body: { inline_string: "not here" } }
                        - match: { prefix: /old/ }
                          redirect: { prefix_rewrite: /new/, response_code: PERMANENT_REDIRECT }
                        - match: { path: /moved }
                          redirect: { host_redirect: b.test, path_redirect: /there, response_code: FOUND, strip_query: true }
                        - match: { prefix: /secure }
                          redirect: { https_redirect: true }
                        - match: { prefix: /api, headers: [ { name: x-beta, string_match: { prefix: "on" } } ] }
                          route: { cluster: two, prefix_rewrite: /beta }
                        - match: { prefix: /api, headers: [ { name: x-beta, string_match: { exact: "off" }, invert_match: true } ] }
                          route: { cluster: two, prefix_rewrite: /other }
                        - match: { prefix: /api }
                          route: { cluster: one, prefix_rewrite: / }
                        - match: { path_separated_prefix: /part }
                          route: { cluster: one, prefix_rewrite: /piece }
                        - match: { safe_regex: { regex: "/users/[0-9]+" } }
                          route: { cluster: one, regex_rewrite: { pattern: { regex: "^/users/([0-9]+)$" }, substitution: '/u/\\1/' } }
                        - match: { prefix: /q, query_parameters: [ { name: v, string_match: { exact: "2" } } ] }
                          route: { cluster: two }
                        - match: { prefix: /m, headers: [ { name: ":method", string_match: { exact: PUT } } ] }
                          route: { cluster: two }
                        - match: { prefix: /case, case_sensitive: false }
                          route: { cluster: two, host_rewrite_literal: inner.test }
                        - match: { prefix: /fields }
                          request_headers_to_add:
                            - { header: { key: x-level, value: "%REQ(x-in)%" }, append_action: OVERWRITE_IF_EXISTS_OR_ADD }
                          response_headers_to_add:
                            - { header: { key: x-from, value: route }, append_action: OVERWRITE_IF_EXISTS_OR_ADD }
                          response_headers_to_remove: [ x-app ]
                          route: { cluster: one }
                        - match: { prefix: /zero }
                          route: { weighted_clusters: { clusters: [ { name: one, weight: 0 }, { name: two, weight: 100 } ] } }
                        - match: { prefix: /gone }
                          route: { cluster: nobody }
                        - match: { prefix: /retry }
                          route:
                            cluster: failing
                            retry_policy: { retry_on: "5xx", num_retries: 3, retry_back_off: { base_interval: 0.001s } }
                        - match: { prefix: /once }
                          route: { cluster: failing }
                        - match: { prefix: / }
                          route: { cluster: one }
  clusters:
    - { name: one, connect_timeout: 5s, load_assignment: { cluster_name: one, endpoints: [ { lb_endpoints: [
          { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ONE } } } } ] } ] } }
    - { name: two, type: STATIC, connect_timeout: 5s, load_assignment: { cluster_name: two, endpoints: [ { lb_endpoints: [
          { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: TWO } } } } ] } ] } }
    - { name: failing, connect_timeout: 5s, load_assignment: { cluster_name: failing, endpoints: [ { lb_endpoints: [
          { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: FAILING } } } } ] } ] } }
    - { name: nobody, connect_timeout: 1s }
""".replace("MANAGER", MANAGER).replace("ROUTER", ROUTER)

# Arguments of curl, the path, and more of them.
REQUESTS = [
    ("a.test", "/"), ("A.test", "/x/./y?z=1"), ("other.test", "/"), ("b.wide.test", "/only"), ("b.wide.test", "/else"),
    ("a.wide.test", "/else"), ("a.test", "/direct"), ("a.test", "/direct?q"), ("a.test", "/old/x?y=1"), ("a.test", "/old"),
    ("a.test", "/moved?x=1"), ("a.test", "/secure/a?b"), ("a.test", "/api/v1", "-H", "x-beta: on-1"), ("a.test", "/api/v1"),
    ("a.test", "/api/v1", "-H", "x-beta: off"), ("a.test", "/api/v1", "-H", "x-beta: maybe"), ("a.test", "/apis"), ("a.test", "/api"),
    ("a.test", "/part/x"), ("a.test", "/part"), ("a.test", "/parts"), ("a.test", "/users/12"), ("a.test", "/users/12/x"),
    ("a.test", "/users/12?q=1"), ("a.test", "/q?v=2"), ("a.test", "/q?v=22"), ("a.test", "/q?a=1&v=2"), ("a.test", "/m", "-X", "PUT"),
    ("a.test", "/m"), ("a.test", "/CaSe/x"), ("a.test", "/fields", "-H", "x-in: 5", "-H", "x-secret: 1"),
    ("a.test", "/under", "-H", "x_y: 1", "-H", "x-secret: 1"), ("a.test", "/zero"), ("a.test", "/gone"), ("a.test", "/retry"),
    ("a.test", "/once"), ("a.test", "/closed"), ("a.test", "/closed/x"), ("a.test", "/close"),
    ("a.test", "/", "-H", "origin: https://ok.test"), ("a.test", "/", "-H", "origin: https://bad.test"),
    ("a.test", "/", "-X", "OPTIONS", "-H", "origin: https://ok.test", "-H", "access-control-request-method: PUT"),
    ("a.test", "/a%2Fb"), ("a.test", "/", "-d", "some data"), ("a.test", "/", "-I"),
]
COMPARED = ("location", "x-from", "x-app", "access-control-allow-origin", "access-control-allow-methods", "access-control-max-age")

TLS = """
static_resources:
  listeners:
    - name: secure
      address: { socket_address: { address: 127.0.0.1, port_value: PORT } }
      listener_filters:
        - name: envoy.filters.listener.tls_inspector
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector }
      filter_chains:
        - filter_chain_match: { server_names: [ a.example.com ] }
          transport_socket: { name: tls, typed_config: CONTEXT_A }
          filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": MANAGER
                stat_prefix: a
                http_filters:ROUTER
                route_config:
                  virtual_hosts:
                    - { name: a, domains: [ "*" ], routes: [ { match: { prefix: / }, route: { cluster: one } } ] }
        - filter_chain_match: { server_names: [ "*.example.org" ] }
          transport_socket: { name: tls, typed_config: CONTEXT_B }
          filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": MANAGER
                stat_prefix: b
                http_filters:ROUTER
                route_config:
                  virtual_hosts:
                    - name: b
                      domains: [ b.example.org ]
                      routes: [ { match: { prefix: / }, direct_response: { status: 200, body: { inline_string: "b" } } } ]
  clusters:
    - { name: one, connect_timeout: 5s, load_assignment: { cluster_name: one, endpoints: [ { lb_endpoints: [
          { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ONE } } } } ] } ] } }
""".replace("MANAGER", MANAGER).replace("ROUTER", ROUTER)


def context(files):
    return ('{ "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: { '
            'alpn_protocols: [ h2, http/1.1 ], tls_certificates: [ { certificate_chain: { filename: "%s" }, '
            'private_key: { filename: "%s" } } ] } }' % (files["chain"], files["key"]))


def app(name):
    """A server whose response has what it got."""
    def respond(request, connection):
        fields = "".join(f" {field}={request.value(field)}"
                         for field in ("x-level", "x-secret", "x_y", "x-forwarded-for", "x-forwarded-proto"))
        connection.reply(request, body=f"{name}: {request.method} {request.path} {request.authority}{fields}".encode(),
                         fields=[("x-app", name)])
    return Server(respond)


class Convert(TlsTest):

    def convert(self, *arguments, code=0):
        done = subprocess.run([SLUICE, "convert", *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def written(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def curl(self, port, host, path, *arguments, scheme="http"):
        """Status, the fields that are compared, and the body, in which the port is hidden."""
        done = subprocess.run(
            [need("curl"), "-sS", "-i", "--max-time", "20", "--path-as-is", "--cacert", self.ca, "--resolve", f"{host}:{port}:127.0.0.1",
             f"{scheme}://{host}:{port}{path}", "-H", f"Host: {host}", *arguments],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            return f"curl: {done.returncode}"
        head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
        lines = head.split("\n")
        status = lines[0].split()[1]
        fields = sorted(line.lower() for line in lines[1:] if line.lower().partition(":")[0] in COMPARED)
        fields = [field.replace(f"location: {scheme}://{host.lower()}/", "location: /") for field in fields]
        if status == "403" or "OPTIONS" in arguments:  # Envoy adds x-from to one, Sluice to the other; 200 and 204 are both right.
            status = "2xx" if status in ("200", "204") else status
            fields = [field for field in fields if not field.startswith("x-from:")]
        if body == "no route matches the request\n":  # Envoy's 404 has no body.
            body = ""
        # Envoy sends an address of its own.
        return status, fields, re.sub(r"x-forwarded-for=[\d.]+", "x-forwarded-for=IP", body)

    @contextlib.contextmanager
    def both(self, text, code=0):
        """Runs Envoy and Sluice with the same file, but for the port. Yields the two ports."""
        if not os.environ.get("ENVOY"):
            self.skipTest("no Envoy: the environment names none in ENVOY")
        ports = free_port(), free_port()
        config, _ = self.convert("--from", "envoy", self.written("convert.yaml", text.replace("PORT", str(ports[1]))), code=code)
        proxy = self.start(config, listeners=re.findall(r"^  - name: (\S+)\n    address", config, re.M))
        with contextlib.closing(Program("envoy", text.replace("PORT", str(ports[0])), [("127.0.0.1", ports[0])])):
            yield ports
        self.stop(proxy)

    def ports_of(self, text, **servers):
        for name, server in servers.items():
            text = re.sub(rf"\b{name.upper()}\b", server.address.rsplit(":", 1)[1], text)
        return text

    # ---- The same requests to both

    def test_routes(self):
        def fail_twice(request, connection):
            if not request.path.startswith("/retry"):
                return connection.reply(request, status=503, body=b"down")
            count[0] += 1
            connection.reply(request, status=503 if count[0] % 3 else 200, body=f"request {count[0] % 3}".encode())
        count = [0]
        text = self.ports_of(ROUTES, one=self.keep(app("one")), two=self.keep(app("two")), failing=self.keep(Server(fail_twice)))
        with self.both(text, code=3) as (envoy, sluice):
            for host, path, *arguments in REQUESTS:
                with self.subTest(host=host, path=path, arguments=arguments):
                    self.assertEqual(self.curl(envoy, host, path, *arguments), self.curl(sluice, host, path, *arguments))

    def test_tls_by_server_name(self):
        text = self.ports_of(TLS, one=self.keep(app("one")))
        text = text.replace("CONTEXT_A", context(self.server)).replace("CONTEXT_B", context(self.wildcard))
        with self.both(text) as (envoy, sluice):
            for host in ("a.example.com", "b.example.org", "c.example.org"):
                for version in ("--http1.1", "--http2"):
                    with self.subTest(host=host, version=version):
                        expected = self.curl(envoy, host, "/", version, scheme="https")
                        self.assertIn(expected[0], ("200", "404"))
                        self.assertEqual(self.curl(sluice, host, "/", version, scheme="https"), expected)

    # ---- The command

    def test_examples_of_the_documents(self):
        for file in sorted(EXAMPLES.glob("*/envoy.yaml")):
            with self.subTest(file.parent.name):
                output, _ = self.convert("--from", "envoy", "--strict", str(file))
                self.assertIn("listeners:", output)

    def test_exit_codes(self):
        self.assertIn("convert needs --from envoy", self.convert("x.yaml", code=2)[1])
        self.assertIn("convert needs a FILE", self.convert("--from", "envoy", code=2)[1])
        self.assertIn("nothing.yaml", self.convert("--from", "envoy", self.folder + "/nothing.yaml", code=1)[1])
        broken = self.written("broken.yaml", "static_resources: [")
        self.assertIn(broken + ":", self.convert("--from", "envoy", broken, code=1)[1])
        other = self.written("other.yaml", "listeners: []\n")
        self.assertIn("expected static_resources", self.convert("--from", "envoy", other, code=1)[1])
        refused = self.written("refused.yaml", ROUTES.replace("PORT", "8080").replace("ONE", "1").replace("TWO", "2").replace("FAILING", "3"))
        output, errors = self.convert("--from", "envoy", refused, code=3)
        self.assertRegex(errors, re.escape(refused) + r':\d+:\d+: cluster "nobody": refused: there are no endpoints')
        self.assertIn("listeners:", output)
        output, errors = self.convert("--from", "envoy", "--strict", refused, code=1)
        self.assertEqual(output, "")
        self.assertIn("because of --strict", errors)
        target = os.path.join(self.folder, "out.yaml")
        self.convert("--from", "envoy", "--output", target, refused, code=3)
        with open(target, encoding="utf-8") as file:
            self.assertIn("listeners:", file.read())

    def test_several_files(self):
        """Resources as a control plane sends them, each kind in a file."""
        prefix = "type.googleapis.com/envoy.config."
        listener = self.written("lds.yaml", f"""
resources:
  - "@type": {prefix}listener.v3.Listener
    name: web
    address: {{ socketAddress: {{ address: 127.0.0.1, portValue: 8080 }} }}
    filterChains:
      - filters:
          - name: hcm
            typedConfig: {{ "@type": {MANAGER}, statPrefix: web, rds: {{ routeConfigName: routes, configSource: {{ ads: {{}} }} }} }}
""")
        rest = self.written("rest.json", """{"resources": [
{"@type": "PREFIXroute.v3.RouteConfiguration", "name": "routes", "virtualHosts": [
  {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app"}}]}]},
{"@type": "PREFIXcluster.v3.Cluster", "name": "app", "type": "EDS", "edsClusterConfig": {"edsConfig": {"ads": {}}}},
{"@type": "PREFIXendpoint.v3.ClusterLoadAssignment", "clusterName": "app", "endpoints": [{"lbEndpoints": [
  {"endpoint": {"address": {"socketAddress": {"address": "10.0.0.1", "portValue": 80}}}}]}]}]}
""".replace("PREFIX", prefix))
        output, errors = self.convert("--from", "envoy", listener, rest)
        self.assertEqual(errors, "")
        self.assertIn("endpoints: [ 10.0.0.1:80 ]", output)
        _, errors = self.convert("--from", "envoy", listener, code=3)
        self.assertIn('lds.yaml:9:', errors)
        self.assertIn('there is no route configuration "routes"', errors)


class ConvertedExamples(examples_test.Examples):
    """What holds for Envoy in docs/examples holds for Sluice with the file that is made of Envoy's."""

    test_all_examples_are_tested = None

    def each_program(self, example, servers, claims):
        ports = {}
        text = self.rewritten((EXAMPLES / example / "envoy.yaml").read_text(encoding="utf-8"), servers, ports)
        path = os.path.join(self.folder, "envoy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([SLUICE, "convert", "--from", "envoy", "--strict", path], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        proxy = self.sluice(done.stdout)
        claims(ports, "envoy")
        self.stop(proxy)


if __name__ == "__main__":
    harness.main()
