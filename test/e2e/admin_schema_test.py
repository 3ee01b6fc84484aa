"""The JSON of the admin pages is as docs/reference/admin.schema.json says: each page of a process that uses much of what they
show, and the responses to changes. The other suites of the admin listener check what they read, too."""

import copy

import admin_schema
import harness
from admin_test import AdminTest
from origins import Origin, connect, echo, refused_address
from reload_test import Http1, listener, server, upstream
from tls_support import TlsTest


def objects_of(schema):
    """All objects that a schema describes."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects_of(value)


class Published(AdminTest, TlsTest):

    def setUp(self):
        super().setUp()
        harness.require(admin_schema.jsonschema, "missing: python3-jsonschema; run tools/deps")

    def much(self):
        """A process with something on every page."""
        good, other, tcp = self.keep(Origin(server("good"))), self.keep(Origin(server("other"))), self.keep(Origin(echo))
        routes = [{"name": "named", "match": {"path": {"prefix": "/named"}}, "forward": "app"},
                  {"buffer": {"requests": "1MiB"}, "forward": "app"}]
        proxy, config = self.start_with(
            listener("plain", http={"routes": routes, "max_body": "2MiB", "header_timeout": "3s"}),
            listener("secure", http={"forward": "checked", "request_headers": [{"name": "authorization", "set": "hush"}]},
                     tls={"certificates": [self.server]}),
            listener("raw", tcp={"forward": "raw", "access_log": {"file": "stdout"}}),
            upstreams=[upstream("app", good, other, sticky={"cookie": "c", "secret": "hush"}),
                       upstream("checked", good, refused_address(), health_check={"interval": "100ms", "http": {"path": "/"}}),
                       upstream("passive", refused_address(), fail_timeout="60s"), upstream("raw", tcp)])
        for path in ("/named", "/"):
            client = self.keep(Http1(proxy, "plain"))
            self.assertIn(client.get(path), ("good", "other"))
        raw = self.keep(connect(proxy.address("raw")))
        raw.sendall(b"x")
        self.assertEqual(raw.recv(1), b"x")
        harness.wait_until(lambda: self.json(proxy, "/upstreams")["upstreams"][1]["addresses_up"] == 1, what="a failed check")
        return proxy, config, good

    def test_pages(self):
        proxy, config, good = self.much()
        changed = self.json(proxy, f"/upstreams/app/endpoints/{good.address}", "-d", "state=draining&weight=3&keep=true")
        self.assertIsNotNone(changed["addresses"][0]["changed"])
        self.json(proxy, f"/upstreams/app/endpoints/{good.address}")
        # The connection of `raw` stays with the configuration before.
        proxy.reload({**config, "upstreams": [*config["upstreams"], upstream("more", refused_address())]})
        self.json(proxy, "/log-level", "-X", "PUT", "-d", "debug")
        pages = {path: self.json(proxy, path) for path in admin_schema.DEFINITIONS}
        pages["/connections?limit=1"] = self.json(proxy, "/connections?limit=1")
        # They show what they are to be checked for.
        self.assertIsNotNone(pages["/connections?limit=1"]["next"])
        self.assertEqual({row["protocol"] for row in pages["/connections"]["connections"]}, {"http1", "tcp"})
        self.assertIsNotNone(pages["/memory"]["body_file"])
        self.assertTrue(pages["/memory"]["largest_connections"])
        self.assertEqual(pages["/config"]["config"]["upstreams"][0]["sticky"]["secret"], "(hidden)")
        self.assertEqual(pages["/upstreams"]["upstreams"][0]["endpoints"][0]["addresses"][0]["changed"]["weight"], 3)
        self.assertTrue(pages["/latency"]["listeners"][0]["routes"])
        self.assertEqual(pages["/generations"]["current"]["generation"], 2)
        for path, page in pages.items():
            self.check_strict(path, page)

    def check_strict(self, path, page):
        """A member that is missing, or not published, fails."""
        self.assertEqual(admin_schema.problems(path, page), [])
        for name in page:
            without = {key: value for key, value in page.items() if key != name}
            if path != "/config" or name != "config":
                self.assertTrue(admin_schema.problems(path, without), f"{path} without {name}")
        self.assertTrue(admin_schema.problems(path, {**page, "more": 1}), path)
        deep = copy.deepcopy(page)
        rows = next((value for value in deep.values() if isinstance(value, list) and value), None)
        if rows:
            rows[0]["more"] = 1
            self.assertTrue(admin_schema.problems(path, deep), f"{path}: a member of a row")

    def test_schema(self):
        """No object takes other members, each page has a definition, and each definition is one of a page or a part."""
        definitions = admin_schema.schema("admin.schema.json")["definitions"]
        for each in objects_of(definitions):
            self.assertIs(each["additionalProperties"], False, each)
            self.assertLessEqual(set(each["required"]), set(each["properties"]))
        pages = {*admin_schema.DEFINITIONS.values(), "endpoint"}
        self.assertEqual(set(definitions) - pages, {"address", "connection", "connection_id", "times"})
        proxy, _ = self.start_with()
        texts = {"/", "/healthz", "/readyz", "/metrics", "/stats/prometheus", "/profile", "/upstreams/NAME/endpoints/ADDRESS",
                 "/config_dump", "/clusters", "/listeners"}  # The last three have Envoy's form (xds_dump_test).
        listed = {line.split()[0] for line in self.get(proxy, "/").splitlines()}
        self.assertEqual(listed - texts, set(admin_schema.DEFINITIONS), "pages without a definition")


if __name__ == "__main__":
    harness.main()
