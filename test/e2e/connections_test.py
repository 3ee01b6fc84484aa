"""The page /connections of the admin listener: what it shows of each kind of connection, filters, pages, and that it holds
up nobody."""

import collections
import json
import socket
import threading
import time

import admin_test
import harness
from harness import LONG, SLOWNESS
from http_wire import Http2Client
from origins import Origin, connect, echo
from reload_test import UPGRADE, Http1, listener, read_head, respond, server, upstream, websocket
from tls_support import TlsTest


def hold(sock):
    """An origin that reads a head and responds with nothing."""
    read_head(sock)
    sock.recv(1)


class Connections(admin_test.AdminTest, TlsTest):

    def rows(self, proxy, query=""):
        return self.json(proxy, f"/connections?{query}")["connections"]

    def wait_for(self, proxy, query, condition=lambda rows: len(rows) == 1):
        found = []

        def look():
            found[:] = self.rows(proxy, query)
            return condition(found)
        harness.wait_until(look, what=f"connections with {query}")
        return found

    def test_each_kind(self):
        """TCP, a request, an idle connection, a tunnel, HTTP/2, a handshake; their endpoints and bytes."""
        echoing = self.keep(Origin(echo))
        slow, sockets = self.keep(Origin(hold)), self.keep(Origin(websocket))
        proxy, _ = self.start_with(
            listener("tcp", tcp={"forward": "echo"}), listener("web", http={"forward": "slow"}),
            listener("tunnel", http={"forward": "sockets", "websocket": True}), listener("own", http=respond("hello")),
            listener("secure", tls={"certificates": [self.server]}, http=respond("hi")),
            upstreams=[upstream("echo", echoing), upstream("slow", slow), upstream("sockets", sockets)])
        tcp = self.keep(connect(proxy.address("tcp")))
        tcp.sendall(b"x" * 1000)
        received = 0
        while received < 1000:
            received += len(tcp.recv(1000))
        row, = self.wait_for(proxy, "listener=tcp&state=forwarding")
        self.assertEqual((row["protocol"], row["tls"], row["upstream"], row["endpoint"], row["bytes_in"], row["bytes_out"]),
                         ("tcp", None, "echo", echoing.address, 1000, 1000))
        self.assertEqual((row["peer"], row["peer_port"]), tcp.getsockname())

        request = self.keep(connect(proxy.address("web")))
        request.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        row, = self.wait_for(proxy, "listener=web&state=request", lambda rows: rows and rows[0]["endpoint"])
        self.assertEqual((row["protocol"], row["streams"], row["upstream"], row["endpoint"]), ("http1", 1, "slow", slow.address))
        self.assertGreaterEqual(row["memory_bytes"], 1024)

        tunnel = self.keep(connect(proxy.address("tunnel")))
        tunnel.sendall(UPGRADE)
        read_head(tunnel)
        row, = self.wait_for(proxy, "protocol=tunnel")
        self.assertEqual((row["state"], row["upstream"], row["endpoint"]), ("forwarding", "sockets", sockets.address))

        idle = self.keep(Http1(proxy, "own"))
        self.assertEqual(idle.get(), "hello")
        row, = self.wait_for(proxy, "listener=own&state=idle")
        self.assertEqual((row["streams"], row["upstream"], row["memory_bytes"]), (0, None, 0))
        http2 = self.keep(Http2Client(proxy.address("own")))
        http2.response(http2.send_request())
        row, = self.wait_for(proxy, "protocol=http2")
        self.assertEqual(row["listener"], "own")

        silent = self.keep(connect(proxy.address("secure")))
        row, = self.wait_for(proxy, "listener=secure&state=handshake")
        self.assertEqual(row["tls"], None)
        silent.close()
        secure = self.secure(proxy.address("secure"))
        row, = self.wait_for(proxy, "listener=secure&state=inspecting")
        self.assertEqual(row["tls"], secure.version())

        everything = self.json(proxy, "/connections")
        self.assertEqual((everything["open"], everything["matching"], everything["next"]), (6, 6, None))
        self.assertEqual(len({row["id"] for row in everything["connections"]}), 6)
        self.assertEqual(sum(worker["open"] for worker in everything["workers"]), 6)

    def test_filters_and_pages(self):
        proxy, _ = self.start_with()
        old = [self.keep(connect(proxy.address(), source="127.0.0.2")) for _ in range(3)]
        self.wait_for(proxy, "peer=127.0.0.2", lambda rows: len(rows) == 3)
        time.sleep(1.1)
        new = [self.keep(connect(proxy.address())) for _ in range(20)]
        self.wait_for(proxy, "", lambda rows: len(rows) == 23)
        self.assertEqual(len(self.rows(proxy, "peer=127.0.0.0/31")), 20)
        self.assertEqual({row["peer_port"] for row in self.rows(proxy, "min_age=1s")}, {sock.getsockname()[1] for sock in old})
        self.assertEqual([row["peer"] for row in self.rows(proxy, "sort=age&limit=4")], ["127.0.0.2"] * 3 + ["127.0.0.1"])
        seen, query = [], "limit=10"
        while True:
            page = self.json(proxy, f"/connections?{query}")
            seen += [row["peer_port"] for row in page["connections"]]
            self.assertEqual(page["matching"], 23)
            if not page["next"]:
                break
            query = f"limit=10&after={page['next']}"
        self.assertEqual(sorted(seen), sorted(sock.getsockname()[1] for sock in old + new))
        self.assertEqual(self.rows(proxy, "listener=none"), [])

    def test_bad_queries(self):
        proxy, _ = self.start_with()
        for query, text in (("limit=1001", "limit: expected a number from 1 to 1000"), ("a", "expected NAME=VALUE"),
                            ("peer=example.com", "peer: expected an IP address"), ("colour=red", "the parameters are listener, ")):
            self.assertIn(text, self.get(proxy, f"/connections?{query}", status=400))
        self.assertIn("/connections does not take POST", self.get(proxy, "/connections", "-X", "POST", status=405))

    def test_who_holds_memory(self):
        """A client that reads nothing is the first by `sort=memory` and `sort=queued`, and in /memory."""
        def flood(sock):
            try:
                while True:
                    sock.sendall(b"x" * 65536)
            except OSError:
                pass
        origin = self.keep(Origin(flood))
        proxy, _ = self.start_with(listener("main", tcp={"forward": "flood"}), listener("idle", http=respond("hello")),
                                   upstreams=[upstream("flood", origin)])
        for _ in range(30):
            self.keep(connect(proxy.address("idle")))
        reader = self.keep(connect(proxy.address()))
        port = reader.getsockname()[1]
        self.wait_for(proxy, "", lambda rows: len(rows) == 31)
        self.wait_for(proxy, "sort=queued&limit=1", lambda rows: rows[0]["queued_bytes"] > 100_000)
        for page in ("/connections?sort=memory&limit=1", "/connections?sort=queued&limit=1"):
            row, = self.json(proxy, page)["connections"]
            self.assertEqual(row["peer_port"], port)
        memory = self.json(proxy, "/memory")
        self.assertEqual(len(memory["largest_connections"]), 20)
        self.assertEqual(memory["largest_connections"][0]["peer_port"], port)
        self.assertGreater(memory["largest_connections"][0]["memory_bytes"], 100_000)

    def test_command(self):
        proxy, _ = self.start_with()
        self.keep(connect(proxy.address()))
        self.wait_for(proxy, "")
        printed = json.loads(self.sluice("--address", self.address_of(proxy), "connections?sort=age&limit=1"))
        self.assertEqual(printed["connections"][0]["protocol"], "http1")

    def test_queries_at_once(self):
        """Different queries do not get each other's rows."""
        proxy, _ = self.start_with()
        for _ in range(12):
            self.keep(connect(proxy.address()))
        self.wait_for(proxy, "", lambda rows: len(rows) == 12)
        wrong = []

        def ask(limit):
            for _ in range(20):
                rows = self.rows(proxy, f"limit={limit}")
                if len(rows) != limit:
                    wrong.append((limit, len(rows)))
        threads = [threading.Thread(target=ask, args=(limit,)) for limit in (1, 3, 5, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.value(proxy, "sluice_admin_figures_timeouts_total"), 0)

    def test_clients_that_do_not_read(self):
        """Operators that request tables and read nothing hold up neither traffic nor other operators."""
        proxy, _ = self.start_with()
        for _ in range(200):
            self.keep(connect(proxy.address()))
        self.wait_for(proxy, "limit=1000", lambda rows: len(rows) == 200)
        for _ in range(20):
            lazy = self.connect(proxy, receive_buffer=2048)
            lazy.sendall(b"GET /connections?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
        client = self.keep(Http1(proxy))
        for _ in range(100):
            self.assertEqual(client.get(), "hello")
        self.assertEqual(len(self.rows(proxy, "limit=3")), 3)

    def test_workers_have_equal_shares(self):
        """The kernel chooses a worker by a hash of the addresses: of 160 connections, one of 8 workers had 29, another 11."""
        path = self.temporary_directory() + "/socket"
        proxy, config = self.start_with(listener("main", http=respond("hello")),
                                        listener("unix", address=f"unix:{path}", http=respond("hello")), workers=8)

        def check(name, count):
            rows = self.wait_for(proxy, f"listener={name}&limit=1000", lambda rows: len(rows) == count)
            shares = collections.Counter(row["worker"] for row in rows)
            self.assertLessEqual(max(shares.values()), min(shares.get(i, 0) for i in range(8)) + 3 + count // 64, shares)

        for _ in range(160):
            self.keep(Http1(proxy, "main")).get()
        check("main", 160)
        for _ in range(80):
            client = self.keep(socket.socket(socket.AF_UNIX))
            client.connect(path)
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            read_head(client)
        check("unix", 80)
        self.assertGreater(proxy.stats().total("rebalanced_total", listener="main"), 0)
        # The listener that replaces it counts the connections that have moved to it.
        config["listeners"][0]["http"] = respond("new")
        proxy.reload(config)
        for _ in range(80):
            self.assertEqual(self.keep(Http1(proxy, "main")).get(), "new")
        check("main", 240)

    def test_crowd(self):
        """Thousands of connections: no turn of a loop is long, and all of them are found."""
        count = 9000 if LONG else 1000
        proxy, _ = self.start_with(listener("main", http={**respond("hello"), "idle_timeout": "10m"}))
        for _ in range(count):
            self.keep(socket.create_connection(proxy.address()))
        self.wait_for(proxy, "limit=1", lambda rows: self.json(proxy, "/connections?limit=1")["open"] == count)

        def longest_turn():
            page = self.json(proxy, "/connections?sort=memory&limit=1000")
            self.assertEqual((page["open"], len(page["connections"])), (count, 1000))
            return max(worker["longest_turn_us"] for worker in page["workers"])

        # The machine may interrupt a turn, but not each time.
        harness.wait_until(lambda: longest_turn() < 1000 * SLOWNESS, what="a table without a turn of a millisecond")


if __name__ == "__main__":
    harness.main()
