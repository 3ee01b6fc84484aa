"""Endpoints by name: requests follow the records of a name server, as soon as they change."""

import contextlib
import json
import os
import socket
import threading
import time

import harness
from harness import SLOWNESS, SluiceTest, configuration, wait_until
from name_server import AAAA, SERVFAIL, NameServer
from origins import Origin, connect, free_port, receive_exactly, send_name
from programs import Nginx

NAME = "app.test"


def http_origin(name, gate=None):
    """A server of HTTP/1.1 that responds with its name; to /slow, once `gate` is set."""
    def handler(sock):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = sock.recv(1 << 16)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            if gate and b"/slow" in head:
                gate.wait(10)
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(name), name))
    return handler


def send_request(proxy, path="/", sock=None):
    """The status and the body of one request, on `sock` or on a connection of its own."""
    with contextlib.ExitStack() as stack:
        if sock is None:
            sock = stack.enter_context(connect(("127.0.0.1", proxy.port())))
        sock.sendall(b"GET %s HTTP/1.1\r\nhost: a.test\r\n\r\n" % path.encode())
        response = b""
        while b"\r\n\r\n" not in response:
            more = sock.recv(1 << 16)
            if not more:
                return 0, "the connection ended"
            response += more
        head, _, body = response.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head.split()[1]), (body + receive_exactly(sock, length - len(body))).decode()


class Resolve(SluiceTest):

    def setUp(self):
        super().setUp()
        self.names = self.keep(NameServer())
        self.port = free_port()

    def origin(self, address, gate=None):
        """A server on the port that the name has, at another loopback address."""
        self.keep(Origin(http_origin(address.encode(), gate), (address, self.port)))
        return address

    def resolving(self, *endpoints, http=True, resolve=None, workers=1, **upstream):
        config = configuration(
            endpoints or [f"{NAME}:{self.port}"], workers=workers,
            upstream={"resolve": {"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": "200ms",
                                  "timeout": "500ms", **(resolve or {})}, **upstream})
        if http:
            listener = config["listeners"][0]
            del listener["tcp"]
            listener["http"] = {"forward": "main", "http1": {"max_requests": 0}}
        return self.start(config)

    def responding_servers(self, proxy, count=8):
        return {send_request(proxy)[1] for _ in range(count)}

    def counted(self, proxy, what, **labels):
        return proxy.stats().total(what, upstream="main", **labels)

    def test_first_request_is_served(self):
        """The first request resolves the name, in lower case and with an alias in between."""
        self.names.set("real.test", self.origin("127.0.0.2"))
        self.names.set_alias(NAME, "real.test")
        proxy = self.resolving(f"APP.test:{self.port}")
        self.assertEqual(send_request(proxy), (200, "127.0.0.2"))
        proxy.wait_for_output(f'upstream "main": {NAME}:{self.port} resolves to 127.0.0.2:{self.port}')
        self.assertEqual(self.counted(proxy, "resolve_addresses", endpoint=f"{NAME}:{self.port}"), 1)

    def test_follows_changes(self):
        """When the record's TTL (1 s) is over, new requests go to the new address. None fails, and a request in
        progress at the old address ends there. The idle connection to the old address is closed at once."""
        gate = threading.Event()
        self.names.set(NAME, self.origin("127.0.0.2", gate))
        self.origin("127.0.0.3")
        proxy = self.resolving(resolve={"max_ttl": "60s"})
        slow = {}
        thread = threading.Thread(target=lambda: slow.update(response=send_request(proxy, "/slow")))
        thread.start()
        self.assertEqual(send_request(proxy), (200, "127.0.0.2"))
        # The slow request has arrived there.
        proxy.wait_for(lambda stats: stats.total("endpoint_connections_active") == 1)
        self.names.set(NAME, "127.0.0.3")
        deadline = time.monotonic() + 10
        while (response := send_request(proxy)) == (200, "127.0.0.2") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(response, (200, "127.0.0.3"))
        self.assertEqual(self.responding_servers(proxy), {"127.0.0.3"})
        gate.set()
        thread.join()
        self.assertEqual(slow["response"], (200, "127.0.0.2"))
        stats = proxy.stats()
        self.assertEqual(stats.total("http_responses_total", **{"class": "5xx"}), 0)
        self.assertEqual([dict(labels)["address"] for (name, labels) in stats if name == "endpoint_address_connections_active"],
                         [f"127.0.0.3:{self.port}"])
        # Both addresses count for the one configured endpoint.
        self.assertGreaterEqual(stats.total("endpoint_connections_total", endpoint=f"{NAME}:{self.port}"), 2)

    def test_idle_connections_end_with_their_endpoint(self):
        """Without another request: the workers are notified."""
        ended = threading.Event()

        def handler(sock):
            with contextlib.suppress(OSError):
                http_origin(b"old")(sock)
            ended.set()
        self.keep(Origin(handler, ("127.0.0.2", self.port)))
        self.names.set(NAME, "127.0.0.2")
        proxy = self.resolving()
        self.assertEqual(send_request(proxy), (200, "old"))
        self.assertFalse(ended.is_set())
        self.names.set(NAME, "127.0.0.3")
        self.assertTrue(ended.wait(10 * harness.SLOWNESS))
        self.assertEqual(proxy.stats().total("http_requests_total"), 1)

    def test_http2(self):
        """The connection that all requests share is replaced, and the old one ends."""
        addresses = ["127.0.0.2", "127.0.0.3"]
        self.keep(Nginx([(address, self.port) for address in addresses], "".join(
            f"server {{ listen {address}:{self.port} http2; location / {{ return 200 {address}; }} }}" for address in addresses)))
        self.names.set(NAME, "127.0.0.2")
        proxy = self.resolving(protocol="http2")
        self.assertEqual(self.responding_servers(proxy), {"127.0.0.2"})
        descriptors = proxy.open_descriptors()
        self.assertEqual(self.counted(proxy, "upstream_connections_opened_total"), 1)
        self.names.set(NAME, "127.0.0.3")
        wait_until(lambda: send_request(proxy) == (200, "127.0.0.3"), what="the new address")
        self.assertEqual(self.responding_servers(proxy), {"127.0.0.3"})
        self.assertEqual(self.counted(proxy, "upstream_connections_opened_total"), 2)
        # A lookup in progress has some too.
        wait_until(lambda: proxy.open_descriptors() <= descriptors, what="the old connection to end")

    def test_each_name_has_its_ttl(self):
        """One name's record has a TTL of a minute, the other's of a second: only the other is resolved again."""
        self.names.set(NAME, "127.0.0.2", ttl=60)
        self.names.set("other.test", "127.0.0.3", ttl=1)
        proxy = self.resolving(f"{NAME}:{self.port}", f"other.test:{self.port}", resolve={"max_ttl": "60s"})
        stats = proxy.wait_for(lambda stats: stats.total("resolve_lookups_total", endpoint=f"other.test:{self.port}") >= 3)
        self.assertEqual(stats.total("resolve_lookups_total", endpoint=f"{NAME}:{self.port}"), 1)

    def test_balances_over_all_addresses(self):
        several = [self.origin(f"127.0.0.{i}") for i in (2, 3, 4)]
        self.names.set(NAME, *several)
        proxy = self.resolving()
        self.assertEqual(sorted(send_request(proxy)[1] for _ in range(9)), sorted(several * 3))

    def test_both_families(self):
        """A failed lookup for one family leaves its known addresses as they are: a name server that fails for AAAA has
        no other effect."""
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                self.skipTest("no ::1")
        self.origin("127.0.0.2"), self.origin("127.0.0.3"), self.origin("::1")
        self.names.set(NAME, "127.0.0.2", "::1")
        proxy = self.resolving()
        self.assertEqual(self.responding_servers(proxy), {"127.0.0.2", "::1"})
        self.names.set(NAME, "127.0.0.3", "::1")
        self.names.fail(NAME, SERVFAIL, kinds=(AAAA,))
        wait_until(lambda: self.responding_servers(proxy) == {"127.0.0.3", "::1"}, what="IPv4 to change and IPv6 to stay")
        only4 = self.resolving(resolve={"family": "ip4"})
        self.assertEqual(self.responding_servers(only4), {"127.0.0.3"})
        self.names.set(NAME, "127.0.0.3", "::1")
        only6 = self.resolving(resolve={"family": "ip6"})
        self.assertEqual(self.responding_servers(only6), {"::1"})

    def test_srv_records(self):
        """Ports and weights come from the records; another name with an address is not affected."""
        self.origin("127.0.0.2"), self.origin("127.0.0.3")
        other = free_port()
        self.keep(Origin(http_origin(b"literal"), ("127.0.0.1", other)))
        self.names.set("a.test", "127.0.0.2")
        self.names.set("b.test", "127.0.0.3")
        self.names.set_services("_http._tcp.test", (10, 30, self.port, "a.test"), (10, 10, self.port, "b.test"))
        proxy = self.resolving({"srv": "_http._tcp.test"})
        got = [send_request(proxy)[1] for _ in range(40)]
        self.assertEqual((got.count("127.0.0.2"), got.count("127.0.0.3")), (30, 10))
        # Only the weights change.
        opened = self.counted(proxy, "endpoint_connections_total")
        self.names.set_services("_http._tcp.test", (10, 10, self.port, "a.test"), (10, 30, self.port, "b.test"))
        proxy.wait_for(lambda stats: stats.total("resolve_changes_total") == 2)
        got = [send_request(proxy)[1] for _ in range(40)]
        self.assertEqual((got.count("127.0.0.2"), got.count("127.0.0.3")), (10, 30))
        self.assertEqual(self.counted(proxy, "endpoint_connections_total"), opened)
        both = self.resolving({"srv": "_http._tcp.test"}, f"127.0.0.1:{other}")
        self.assertEqual(self.responding_servers(both, 82), {"127.0.0.2", "127.0.0.3", "literal"})

    def test_failures_keep_known_addresses(self):
        self.names.set(NAME, self.origin("127.0.0.2"))
        proxy = self.resolving(resolve={"timeout": "100ms", "attempts": 1})
        for how in (SERVFAIL, None):
            with self.subTest(how):
                self.names.fail(NAME, how)
                before = self.counted(proxy, "resolve_failures_total")
                proxy.wait_for(lambda stats: stats.total("resolve_failures_total") >= before + 2)
                self.assertEqual(send_request(proxy), (200, "127.0.0.2"))
                proxy.wait_for_output(f"keeping the known addresses: 127.0.0.2:{self.port}")
                proxy.wait_for_match("warning sluice: .* cannot be resolved: ")
        self.names.set(NAME, self.origin("127.0.0.3"))
        wait_until(lambda: send_request(proxy) == (200, "127.0.0.3"), what="the name to be resolved again")
        proxy.wait_for_output(f"{NAME}:{self.port} is resolved again")

    def test_timeout_of_one_try(self):
        """Each try has at least the configured timeout, and the lookup fails when the timeout of the last one is
        over."""
        times = []
        silent = self.keep(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        silent.bind(("127.0.0.1", 0))
        silent.settimeout(20 * SLOWNESS)

        def note_tries():
            for _ in range(4):  # The fourth is the first of the next lookup, half a second after the end of this one.
                silent.recv(512)
                times.append(time.monotonic())

        reader = threading.Thread(target=note_tries, daemon=True)
        reader.start()
        proxy = self.resolving(resolve={"servers": ["127.0.0.1:%d" % silent.getsockname()[1]], "timeout": "300ms",
                                        "attempts": 3, "family": "ip4", "max_ttl": "1m"})
        reader.join(20 * SLOWNESS)
        gaps = [after - before for before, after in zip(times, times[1:])]
        self.assertEqual(len(gaps), 3)
        self.assertGreater(min(gaps), 0.25, gaps)
        self.assertLess(sum(gaps), 4 * SLOWNESS, gaps)
        self.assertGreaterEqual(proxy.stats().total("resolve_failures_total"), 1)

    def test_no_address_at_first(self):
        """Names without an address: the log of a 503 has the reason, and the name is used as soon as it has an address.
        When the address is removed again, so are its endpoints."""
        proxy = self.resolving()
        self.assertEqual(send_request(proxy), (503, "the upstream's name does not resolve\n"))
        self.assertEqual(proxy.stats().total("http_requests_ended_total", reason="not_resolved"), 1)
        proxy.wait_for_output("resolves to no address yet")
        self.names.set(NAME, self.origin("127.0.0.2"))
        wait_until(lambda: send_request(proxy)[0] == 200, what="the name to appear")
        self.names.forget(NAME)
        wait_until(lambda: send_request(proxy)[0] == 503, what="the name to be gone")
        self.assertGreater(self.counted(proxy, "resolve_empty_total"), 0)

    def test_no_name_server_at_first(self):
        """Listening begins after one try, and no later."""
        self.names.fail(NAME, None)
        proxy = self.resolving(resolve={"timeout": "200ms"})
        self.assertEqual(send_request(proxy)[0], 503)
        self.names.set(NAME, self.origin("127.0.0.2"))
        wait_until(lambda: send_request(proxy)[0] == 200, what="the name server to be there")

    def test_tcp_connections(self):
        """An open connection stays with its endpoint; the next goes to the new one. Without any endpoint, it is
        closed."""
        for address in ("127.0.0.2", "127.0.0.3"):
            self.keep(Origin(send_name(address.encode()), (address, self.port)))
        self.names.set(NAME, "127.0.0.2")
        proxy = self.resolving(http=False)

        def open_one():
            sock = connect(("127.0.0.1", proxy.port()))
            self.addCleanup(sock.close)
            return sock, sock.recv(100)

        def is_reset():
            try:
                open_one()
            except ConnectionResetError:  # Possibly before connect() has returned.
                return True
            return False
        first, name = open_one()
        self.assertEqual(name, b"127.0.0.2")
        self.names.set(NAME, "127.0.0.3")
        wait_until(lambda: open_one()[1] == b"127.0.0.3", what="the new address")
        first.sendall(b"still here")
        self.assertEqual(receive_exactly(first, 10), b"still here")
        self.names.forget(NAME)
        wait_until(lambda: is_reset(), what="the name to be gone")
        self.assertGreater(proxy.stats().ended("not_resolved"), 0)
        first.sendall(b"and here")
        self.assertEqual(receive_exactly(first, 8), b"and here")

    def test_system_resolver(self):
        """Without configured servers: /etc/hosts, and /etc/resolv.conf for the rest."""
        with open("/etc/hosts", encoding="utf-8") as hosts:
            words = [line.split() for line in hosts if line.strip() and not line.startswith("#")]
        name = next((word for line in words for word in line[1:] if line[0] == "127.0.0.1"), None)
        harness.require(name, "/etc/hosts has no name for 127.0.0.1")
        self.origin("127.0.0.1")
        proxy = self.resolving(f"{name}:{self.port}" if name != "localhost" else f"localhost.:{self.port}",
                               resolve={"family": "ip4"})
        self.assertEqual(send_request(proxy), (200, "127.0.0.1"))

    def test_changes_under_load(self):
        """Four clients without a pause, while the name changes between two sets: nothing fails."""
        several = [self.origin(f"127.0.0.{i}") for i in range(2, 8)]
        self.names.set(NAME, several[0])
        proxy = self.resolving(workers=2)
        over, problems, seen = threading.Event(), [], set()

        def client():
            with connect(("127.0.0.1", proxy.port())) as sock:
                while not over.is_set():
                    status, body = send_request(proxy, sock=sock)
                    if status != 200:
                        return problems.append((status, body))
                    seen.add(body)
        clients = [threading.Thread(target=client) for _ in range(4)]
        for thread in clients:
            thread.start()
        for i in range(12):
            changes = self.counted(proxy, "resolve_changes_total")
            self.names.set(NAME, *([several[i % 6]] if i % 2 else several[i % 5:]))
            proxy.wait_for(lambda stats: stats.total("resolve_changes_total") > changes)
        over.set()
        for thread in clients:
            thread.join()
        self.assertEqual(problems, [])
        self.assertEqual(seen, set(several))

    def test_checks_follow_names(self):
        """A new address of a name is checked at once: an unhealthy one gets no requests."""
        self.names.set(NAME, self.origin("127.0.0.2"))
        proxy = self.resolving(workers=2, health_check={"interval": "100ms", "timeout": "1s", "unhealthy_after": 1,
                                                        "http": {"path": "/", "body": "127.0.0.2"}})
        endpoint = f"{NAME}:{self.port}"
        proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_total", endpoint=endpoint) >= 2)
        self.assertEqual(self.counted(proxy, "endpoint_healthy", endpoint=endpoint), 1)
        self.names.set(NAME, "127.0.0.2", self.origin("127.0.0.3"))
        proxy.wait_for(lambda stats: stats.total("endpoint_health_checks_failed_total", endpoint=endpoint) >= 1)
        wait_until(lambda: self.counted(proxy, "endpoint_healthy", endpoint=endpoint) == 0, what="the check to count")
        self.assertEqual(self.responding_servers(proxy), {"127.0.0.2"})
        proxy.wait_for_output(f"endpoint {endpoint} (127.0.0.3:{self.port}) is unhealthy")
        self.names.set(NAME, "127.0.0.2")
        wait_until(lambda: self.counted(proxy, "endpoint_healthy", endpoint=endpoint) == 1, what="the other one to go")

    def test_check_and_explain(self):
        """A name is accepted without being resolved."""
        path = os.path.join(self.temporary_directory(), "sluice.json")
        config = configuration(["nowhere.invalid:80", {"srv": "_x._tcp.nowhere.invalid"}])
        config["listeners"][0] = {"name": "main", "address": "127.0.0.1:0", "http": {"forward": "main"}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

        def call(*arguments):
            child = harness.spawn([harness.SLUICE, *arguments], stdout=-1, stderr=-1, text=True)
            self.addCleanup(harness.end, child)
            return child.communicate()[0], child.returncode
        self.assertEqual(call("check", "--config", path)[1], 0)
        self.assertIn("nowhere.invalid:80 (resolved at run time), _x._tcp.nowhere.invalid (resolved at run time)",
                      call("explain", "--config", path, "http://a.test/")[0])


if __name__ == "__main__":
    harness.main()
