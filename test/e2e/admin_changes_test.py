"""Changes of endpoints at run time by the admin listener: what they do to traffic, on all workers, how they are shown, how
long they last, and who may make them."""

import collections
import json
import os
import re
import threading

import admin_test
import harness
from name_server import NameServer
from origins import Origin, connect, echo, free_port, ping
from reload_test import Http1, listener, server, upstream


class Changes(admin_test.AdminTest):

    def two(self, *more, balance="round_robin", **options):
        """A proxy with two origins behind `web` (HTTP) and `tcp`."""
        self.a, self.b = self.keep(Origin(server("a"))), self.keep(Origin(server("b")))
        proxy, config = self.start_with(listener("main", http={"forward": "app"}), *more,
                                        upstreams=[upstream("app", self.a, self.b, balance=balance), *options.pop("upstreams", ())],
                                        **options)
        return proxy, config

    @staticmethod
    def page(origin, name="app"):
        return f"/upstreams/{name}/endpoints/{getattr(origin, 'address', origin)}"

    def change(self, proxy, origin, text, name="app"):
        return self.json(proxy, self.page(origin, name), "-d", text)["addresses"]

    def shares(self, proxy, requests=40, connections=8):
        """How many requests each origin gets: of new connections, so that both workers choose."""
        names = collections.Counter()
        for _ in range(connections):
            client = Http1(proxy)
            names.update(client.get() for _ in range(requests // connections))
            client.connection.close()
        return names

    def addresses(self, proxy):
        return [endpoint["addresses"][0] for endpoint in self.json(proxy, "/upstreams")["upstreams"][0]["endpoints"]]

    def test_drain_and_enable(self):
        proxy, _ = self.two()
        self.assertEqual(set(self.shares(proxy)), {"a", "b"})
        shown, = self.change(proxy, self.a, "state=draining")
        self.assertEqual((shown["address"], shown["state"]), (self.a.address, "draining"))
        self.assertEqual(self.shares(proxy), {"b": 40})
        first, second = self.addresses(proxy)
        self.assertEqual((first["changed"]["state"], first["changed"]["weight"], first["changed"]["keep"]),
                         ("draining", None, False))
        self.assertRegex(first["changed"]["by"], r"^127\.0\.0\.1:\d+$")
        self.assertRegex(first["changed"]["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIsNone(second["changed"])
        self.assertEqual(self.json(proxy, "/upstreams")["upstreams"][0]["addresses_up"], 1)
        self.assertTrue(proxy.wait_for_output(f"admin: {self.a.address} of upstream app is draining, with its configured "
                                              f"weight, as {first['changed']['by']} has requested; a reload ends that"))
        self.change(proxy, self.a, "state=enabled")
        self.assertEqual(set(self.shares(proxy)), {"a", "b"})
        self.assertIsNone(self.addresses(proxy)[0]["changed"])
        self.assertEqual(self.value(proxy, "sluice_admin_endpoint_changes_total"), 2)

    def test_the_last_one(self):
        """Nothing is sent to endpoints that drain, though there are no others."""
        proxy, _ = self.two()
        for origin in (self.a, self.b):
            self.change(proxy, origin, "state=disabled")
        status, _, _ = self.curl("%s:%d" % proxy.address(), "/")
        self.assertEqual(status, 503)
        self.change(proxy, self.b, "state=enabled")
        self.assertEqual(self.shares(proxy), {"b": 40})

    def test_weight(self):
        """With each kind of table."""
        for balance in ("round_robin", "random"):
            with self.subTest(balance):
                proxy, _ = self.two(balance=balance, workers=1)
                self.change(proxy, self.a, "weight=9")
                self.assertEqual((self.addresses(proxy)[0]["weight"], self.addresses(proxy)[0]["changed"]["configured_weight"]), (9, 1))
                counts = self.shares(proxy, requests=400, connections=1)
                low, high = (360, 360) if balance == "round_robin" else (310, 395)
                self.assertTrue(low <= counts["a"] <= high, counts)
                self.change(proxy, self.a, "weight=configured")
                self.assertEqual(self.addresses(proxy)[0]["weight"], 1)
                self.assertLess(self.shares(proxy, requests=400, connections=1)["a"], 260)

    def test_connections_go_on(self):
        """Those that exist when an endpoint drains; new ones go elsewhere."""
        one, other = self.keep(Origin(echo)), self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "x"}), upstreams=[upstream("x", one, other)])
        clients = [self.keep(connect(proxy.address())) for _ in range(4)]
        for client in clients:
            ping(client)
        before = {row["endpoint"] for row in self.json(proxy, "/connections")["connections"]}
        self.assertEqual(before, {one.address, other.address})
        self.change(proxy, one, "state=draining", "x")
        late = [self.keep(connect(proxy.address())) for _ in range(4)]
        for client in clients + late:
            ping(client)
        ends = [row["endpoint"] for row in self.json(proxy, "/connections?sort=age")["connections"]]
        self.assertEqual(set(ends[:4]), {one.address, other.address})
        self.assertEqual(set(ends[4:]), {other.address})

    def test_disabled_ends_idle_connections(self):
        """Draining leaves them, so that an endpoint that comes back has them."""
        proxy, _ = self.two(workers=1)
        self.shares(proxy)
        self.change(proxy, self.a, "state=draining")
        self.shares(proxy)
        count = lambda: proxy.stats().total("upstream_connections_opened_total", upstream="app")
        opened = count()
        self.change(proxy, self.a, "state=enabled")
        self.shares(proxy)
        self.assertEqual(count(), opened, "the connections were kept")
        self.change(proxy, self.a, "state=disabled")
        self.shares(proxy)
        self.change(proxy, self.a, "state=enabled")
        self.shares(proxy)
        self.assertGreater(count(), opened, "a new one was needed")

    def test_reload(self):
        """A reload ends changes, unless they are to be kept, whether the upstream has changed or not."""
        proxy, config = self.two()
        self.change(proxy, self.a, "state=draining&weight=5")
        proxy.reload(config)
        self.assertTrue(proxy.wait_for_output("reload: 1 changed endpoints are as configured again"))
        self.assertEqual([each["changed"] for each in self.addresses(proxy)], [None, None])
        self.assertEqual(set(self.shares(proxy)), {"a", "b"})
        self.change(proxy, self.a, "state=draining&keep=true")
        self.change(proxy, self.b, "weight=7")
        proxy.reload(config)
        self.assertEqual(self.addresses(proxy)[0]["changed"]["keep"], True)
        self.assertIsNone(self.addresses(proxy)[1]["changed"])
        self.assertEqual(self.shares(proxy), {"b": 40})
        third = self.keep(Origin(server("c")))
        config["upstreams"] = [upstream("app", third, self.b, self.a)]
        proxy.reload(config)
        self.assertEqual([each["state"] for each in self.addresses(proxy)], ["up", "up", "draining"])
        self.assertEqual(set(self.shares(proxy)), {"b", "c"})
        # A configuration that is refused changes nothing.
        self.change(proxy, self.b, "weight=7")
        proxy.reload({**config, "listeners": [listener("main", tcp={"forward": "nobody"})]}, succeeds=False)
        self.assertEqual(self.addresses(proxy)[1]["weight"], 7)

    def test_names(self):
        """An endpoint that is a name: all its addresses at once, or one of them; a change outlives queries of the name."""
        names, port = self.keep(NameServer()), free_port()
        for address in ("127.0.0.2", "127.0.0.3"):
            self.keep(Origin(server(address), (address, port)))
        names.set("app.test", "127.0.0.2", "127.0.0.3")
        proxy, _ = self.start_with(
            listener("main", http={"forward": "app"}),
            upstreams=[upstream("app", f"app.test:{port}", resolve={"servers": [names.address], "min_ttl": "100ms", "max_ttl": "200ms"})])
        self.assertEqual(set(self.shares(proxy)), {"127.0.0.2", "127.0.0.3"})
        self.assertEqual(len(self.change(proxy, f"app.test:{port}", "state=draining")), 2)
        self.assertEqual(self.curl("%s:%d" % proxy.address(), "/")[0], 503)
        self.change(proxy, f"127.0.0.3:{port}", "state=enabled")
        asked = names.query_count
        harness.wait_until(lambda: names.query_count >= asked + 4, what="queries of the name")
        self.assertEqual(set(self.shares(proxy)), {"127.0.0.3"})
        names.set("app.test", "127.0.0.3", "127.0.0.4")
        harness.wait_until(lambda: f"127.0.0.4:{port}" in self.get(proxy, "/upstreams"), what="the new address")
        names.set("app.test", "127.0.0.2", "127.0.0.3")
        harness.wait_until(lambda: f"127.0.0.4:{port}" not in self.get(proxy, "/upstreams"), what="the old address")

    def test_wrong_requests(self):
        proxy, _ = self.two()
        page = self.page(self.a)
        self.assertEqual(json.loads(self.get(proxy, page))["addresses"][0]["state"], "up")
        self.get(proxy, page + "?state=draining")
        self.assertEqual(self.addresses(proxy)[0]["state"], "up", "GET changes nothing")
        _, fields, _ = self.curl(self.address_of(proxy), page, "-X", "DELETE")
        self.assertEqual(fields["allow"], "get, head, put, post")
        for text, expected in (
                ("", "expected state=enabled, state=draining or state=disabled, weight=N or weight=configured"),
                ("keep=true", "expected state=enabled, "), ("state=down", "state: expected enabled, draining or disabled, got"),
                ("weight=0", "weight: expected a number from 1 to 1000, or configured"), ("weight=1001", "weight: expected"),
                ("state=draining&keep=maybe", "keep: expected true or false"), ("colour=red", 'got "colour"'),
                ("state", "expected NAME=VALUE"), ("state=enabled&state=draining", '"state" twice')):
            self.assertIn(expected, self.get(proxy, page, "-d", text, status=400), text)
        self.assertIn("a query and a body", self.get(proxy, page + "?weight=2", "-d", "weight=3", status=400))
        self.assertIn('there is no upstream "nope"; the upstreams are app', self.get(
            proxy, self.page(self.a, "nope"), "-d", "weight=2", status=404))
        self.assertIn(f'upstream app has no endpoint "127.0.0.1:1"; it has {self.a.address}, {self.b.address}', self.get(
            proxy, self.page("127.0.0.1:1"), "-d", "weight=2", status=404))
        self.assertIn("expected /upstreams/NAME/endpoints/ADDRESS", self.get(proxy, "/upstreams/app", status=404))
        self.assertEqual([each["changed"] for each in self.addresses(proxy)], [None, None])
        self.assertEqual(self.value(proxy, "sluice_admin_endpoint_changes_total"), 0)

    def test_who_may(self):
        """No page of another site, and nobody without the token if there is one."""
        proxy, _ = self.two()
        page = self.page(self.a)
        self.get(proxy, page, "-d", "state=draining", "-H", "Origin: https://evil.example", status=403)
        self.get(proxy, page, "-d", "state=draining", "-H", "Host: evil.example", status=403)
        self.assertIsNone(self.addresses(proxy)[0]["changed"])
        folder = self.temporary_directory()
        with open(folder + "/token", "w", encoding="ascii") as file:
            file.write(admin_test.TOKEN)
        secured, _ = self.two(admin={"token_file": folder + "/token"})
        page = self.page(self.a)
        self.get(secured, page, "-d", "state=draining", status=401)
        self.get(secured, page, "-d", "state=draining", "-H", "Authorization: Bearer " + admin_test.TOKEN)

    def test_command_and_unix_socket(self):
        """`sluice admin` by a Unix socket: the log names the process."""
        folder = self.temporary_directory()
        proxy, _ = self.two(admin={"address": f"unix:{folder}/admin.sock"})
        printed = self.sluice("--address", f"unix:{folder}/admin.sock", self.page(self.a), "state=draining")
        self.assertRegex(json.loads(printed)["addresses"][0]["changed"]["by"], rf"^process \d+ of user {os.getuid()}$")
        said = re.compile(rf"is draining, .* as process \d+ of user {os.getuid()} has requested")
        harness.wait_until(lambda: said.search(proxy.stderr()), what="a line of the log")
        self.assertIn("400 Bad Request", self.sluice("--address", f"unix:{folder}/admin.sock", self.page(self.a), "x=y", code=1))

    def test_changes_under_load(self):
        """No request fails while an endpoint comes and goes and operators are slow."""
        proxy, _ = self.two()
        for start in (b"POST " + self.page(self.a).encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\nstate=",
                      b"GET /connections HTTP/1.1\r\n"):
            self.connect(proxy).sendall(start)
        stop, names = threading.Event(), [collections.Counter() for _ in range(4)]

        def run(count):
            client = Http1(proxy)
            while not stop.is_set():
                count[client.get()] += 1
                if sum(count.values()) % 500 == 0:
                    client.connection.close()
                    client = Http1(proxy)
            client.connection.close()
        threads = [threading.Thread(target=run, args=(each,)) for each in names]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                for text in ("state=draining", "state=enabled&weight=3", "state=disabled", "state=enabled&weight=configured"):
                    self.change(proxy, self.a, text)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        total = sum(names, collections.Counter())
        self.assertEqual(set(total), {"a", "b"})
        stats = proxy.stats()
        self.assertEqual(stats.total("http_responses_total", listener="main", **{"class": "2xx"}), sum(total.values()))


if __name__ == "__main__":
    harness.main()
