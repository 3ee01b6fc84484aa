"""The addresses of listeners: several for one listener, both address families on one, and what reloads change."""

import json
import socket
import subprocess

import harness
from harness import SLOWNESS
from origins import Origin, connect, echo, free_port, outcome_of_connecting, ping, receive_until
from reload_test import listener, respond, upstream


def get(address, request=b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"):
    """The body of a response."""
    with connect(address) as sock:
        sock.sendall(request)
        received = b""
        while piece := sock.recv(65536):
            received += piece
    return received.split(b"\r\n\r\n", 1)[1].decode()


def show_client(**rest):
    """A listener's `http` that responds with the family of the client's address, by its rules for sources."""
    return {"routes": [{"match": {"source": "127.0.0.0/8"}, "respond": {"status": 200, "body": "IPv4"}},
                       {"match": {"source": "::1"}, "respond": {"status": 200, "body": "IPv6"}},
                       {"respond": {"status": 200, "body": "neither"}}], **rest}


def has_ip6():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


class Listen(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        if not has_ip6():
            self.skipTest("no ::1")

    def start_with(self, *listeners, upstreams=(), **top):
        config = {"workers": 2, "shutdown_timeout": "3s", "listeners": list(listeners), "upstreams": list(upstreams), **top}
        return self.start(config), config

    def refuses(self, address):
        """Soon: the workers close their sockets in their own time."""
        def is_refused():
            try:
                connect(address).close()
            except ConnectionRefusedError:
                return True
            except ConnectionResetError:  # The socket was just being closed.
                return False
            return False
        harness.wait_until(is_refused, 3, "connections to be refused")

    # ---- Several addresses

    def test_list(self):
        """TCP of both families and a Unix socket; each with port 0 has its own port, and all are logged."""
        path = self.temporary_directory() + "/socket"
        addresses = ["127.0.0.1:0", "127.0.0.1:0", "[::1]:0", f"unix:{path}"]
        proxy, _ = self.start_with(listener("main", addresses, http=respond("in")))
        proxy.wait_for_output(f"listener main on unix:{path}")
        bound = proxy.all_addresses["main"]
        self.assertEqual(len(bound), 4, bound)
        ports = [int(address.rsplit(":", 1)[1]) for address in bound[:3]]
        self.assertEqual(len(set(ports)), 3)
        for address in (("127.0.0.1", ports[0]), ("127.0.0.1", ports[1]), ("::1", ports[2]), path):
            for _ in range(4):
                self.assertEqual(get(address), "in")
        self.assertEqual(proxy.stats().total("accepted_total", listener="main"), 16)

    def test_limits_are_those_of_the_listener(self):
        proxy, _ = self.start_with(listener("main", ["127.0.0.1:0", "127.0.0.2:0"], tcp={"forward": "x"}, max_connections=2),
                                   upstreams=[upstream("x", self.keep(Origin(echo)))])
        harness.wait_until(lambda: len(proxy.all_addresses["main"]) == 2)
        ports = [int(address.rsplit(":", 1)[1]) for address in proxy.all_addresses["main"]]
        first, second = connect(("127.0.0.1", ports[0])), connect(("127.0.0.2", ports[1]))
        self.assertTrue(ping(first) and ping(second))
        self.assertEqual(outcome_of_connecting(("127.0.0.2", ports[1])), "reset")
        self.assertEqual(proxy.stats().refused("listener"), 1)
        first.close()
        second.close()

    def test_reload_adds_and_removes(self):
        """Connections live on, also those of an address that is gone."""
        ports = [free_port() for _ in range(3)]
        one, two, three = (f"127.0.0.1:{port}" for port in ports)
        proxy, config = self.start_with(listener("main", [one, two], tcp={"forward": "x"}),
                                        upstreams=[upstream("x", self.keep(Origin(echo)))])
        clients = [connect(("127.0.0.1", port)) for port in ports[:2]]
        for client in clients:
            self.assertTrue(ping(client))
        config["listeners"][0]["address"] = [two, three]
        output = proxy.reload(config)
        self.assertIn("listeners: 1 changed", output)
        for client in clients:
            self.assertTrue(ping(client))
        self.refuses(("127.0.0.1", ports[0]))
        for port in ports[1:]:
            with connect(("127.0.0.1", port)) as client:
                self.assertTrue(ping(client))
        config["listeners"][0]["address"] = one
        proxy.reload(config)
        with connect(("127.0.0.1", ports[0])) as client:
            self.assertTrue(ping(client))
        for port in ports[1:]:
            self.refuses(("127.0.0.1", port))
        for client in clients:
            self.assertTrue(ping(client))
            client.close()
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_ports_of_the_kernel_stay(self):
        """Port 0 means the same socket as before the reload, wherever it is in the list."""
        proxy, config = self.start_with(listener("main", ["127.0.0.1:0", "127.0.0.1:0"], http=respond("old")))
        harness.wait_until(lambda: len(proxy.all_addresses["main"]) == 2)
        before = proxy.all_addresses["main"][:]
        config["listeners"][0] = listener("main", ["[::1]:0", "127.0.0.1:0", "127.0.0.1:0"], http=respond("new"))
        proxy.reload(config)
        harness.wait_until(lambda: len(proxy.all_addresses["main"]) == 5)
        self.assertEqual(proxy.all_addresses["main"][3:], before)
        for address in before:
            self.assertEqual(get(("127.0.0.1", int(address.rsplit(":", 1)[1]))), "new")

    def test_printed_and_compared(self):
        """A single address is printed as such, and `sluice diff` shows the lists."""
        proxy, config = self.start_with(listener("main", "127.0.0.1:0", http=respond("in")))
        path = self.temporary_directory() + "/new.yaml"
        config["listeners"][0]["address"] = ["127.0.0.1:0", "[::1]:0"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        result = subprocess.run([harness.SLUICE, "diff", "--config", path, "--pid", str(proxy.pid)], capture_output=True,
                                text=True, timeout=30 * SLOWNESS, check=False)
        self.assertEqual(result.stdout, "listener main: changed\n  listeners:\n-     address: 127.0.0.1:0\n"
                         '+     address: [ 127.0.0.1:0, "[::1]:0" ]\n')

    # ---- Both families

    def test_all_addresses_of_both_families(self):
        """`[::]` takes IPv4 connections, whose clients have IPv4 addresses everywhere."""
        log = self.temporary_directory() + "/log"
        proxy, config = self.start_with(listener("main", "[::]:0", http=show_client(
            access_log={"file": log, "format": "%{client_ip}"}), max_connections_per_source=1))
        proxy.wait_for_output("(IPv4 too)")
        port = proxy.port()
        self.assertEqual(get(("127.0.0.1", port)), "IPv4")
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        self.assertEqual(get(("::1", port)), "IPv6")

        def lines():
            with open(log, encoding="utf-8") as file:
                return file.read().split()
        harness.wait_until(lambda: len(lines()) == 2)
        self.assertEqual(sorted(lines()), ["127.0.0.1", "::1"])  # Workers write in no order.
        # Each IPv4 address is a source of its own, not all of them the same /64.
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        first = connect(("127.0.0.1", port))
        second = connect(("127.0.0.1", port), source="127.0.0.2")
        for sock in (first, second):
            sock.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            receive_until(sock, b"IPv4")
        self.assertEqual(outcome_of_connecting(("127.0.0.1", port)), "reset")
        self.assertEqual(proxy.stats().refused("source"), 1)
        first.close()
        second.close()

    def test_what_upstreams_see(self):
        """X-Forwarded-For and the PROXY header have the IPv4 address."""
        def respond_with_request(sock):
            received = b""
            while b"\r\n\r\n" not in received and (piece := sock.recv(65536)):
                received += piece
            sock.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(received), received))
        origin = self.keep(Origin(respond_with_request))
        proxy, _ = self.start_with(listener("web", "[::]:0", http={"forward": "x"}),
                                   listener("raw", "[::]:0", tcp={"forward": "y"}),
                                   upstreams=[upstream("x", origin), upstream("y", origin, send_proxy_protocol="v1")])
        self.assertIn("x-forwarded-for: 127.0.0.1\r\n", get(("127.0.0.1", proxy.port("web"))).lower())
        self.assertRegex(get(("127.0.0.1", proxy.port("raw"))),
                         rf"^PROXY TCP4 127\.0\.0\.1 127\.0\.0\.1 \d+ {proxy.port('raw')}\r\n")

    def test_ipv6_only(self):
        proxy, _ = self.start_with(listener("main", "[::]:0", ipv6_only=True, http=show_client()))
        self.assertEqual(get(("::1", proxy.port())), "IPv6")
        self.refuses(("127.0.0.1", proxy.port()))

    def test_ipv4_address_with_the_same_port(self):
        """It takes the IPv4 connections, also when it comes and goes by reloads."""
        port = free_port()
        six, four = listener("six", f"[::]:{port}", http=respond("six")), listener("four", f"0.0.0.0:{port}", http=respond("four"))
        proxy, config = self.start_with(six)
        self.assertEqual((get(("127.0.0.1", port)), get(("::1", port))), ("six", "six"))
        for others, expected in (([four], "four"), ([], "six"), ([listener("four", f"127.0.0.1:{port}", http=respond("four"))],
                                                                 "four")):
            config["listeners"] = [six, *others]
            proxy.reload(config)
            for _ in range(5):
                self.assertEqual((get(("127.0.0.1", port)), get(("::1", port))), (expected, "six"))

    def test_nothing_is_accepted_for_a_removed_listener(self):
        """A reload was reported while the listener that it removed still took connections, which should have come to the
        other one by then."""
        port = free_port()
        six, four = listener("six", f"[::]:{port}", http=respond("six")), listener("four", f"0.0.0.0:{port}", http=respond("four"))
        proxy, config = self.start_with(six)
        with proxy.low_priority_workers():
            for _ in range(10):
                for others, expected in (([four], "four"), ([], "six")):
                    config["listeners"] = [six, *others]
                    proxy.reload(config)
                    self.assertEqual(get(("127.0.0.1", port)), expected)

    def test_taken_by_another_process(self):
        """Also if the other one has the IPv4 half only."""
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        with self.assertRaises(harness.ProxyError) as failed:
            self.start_with(listener("main", f"[::]:{port}", http=respond("in")))
        self.assertIn(f'listener "main": cannot listen on [::]:{port}: ', str(failed.exception))
        self.assertIn("for IPv6 alone set `ipv6_only: true`", str(failed.exception))
        proxy, _ = self.start_with(listener("main", f"[::]:{port}", ipv6_only=True, http=respond("in")))
        self.assertEqual(get(("::1", proxy.port())), "in")

    # ---- From one address to all

    def test_one_address_becomes_all(self):
        """And back, in one reload each, while clients connect all the time; what another process has is still found."""
        port = free_port()
        one, everywhere = f"127.0.0.1:{port}", f"0.0.0.0:{port}"
        proxy, config = self.start_with(listener("main", one, http=respond("in")))
        for address in (everywhere, one, f"[::]:{port}", one, everywhere, f"[::]:{port}"):
            config["listeners"][0]["address"] = address
            proxy.reload(config)
            for _ in range(5):
                self.assertEqual(get(("127.0.0.1", port)), "in")
            if address == one:
                self.refuses(("127.0.0.2", port))
            else:
                self.assertEqual(get(("127.0.0.2", port)), "in")
        self.assertEqual(proxy.stats().total("config_reloads_total"), 6)

    def test_all_addresses_while_another_process_has_one(self):
        port = free_port()
        taken = socket.socket()
        self.addCleanup(taken.close)
        # Even if the other one would share it.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.2", port))
        taken.listen()
        proxy, config = self.start_with(listener("main", f"127.0.0.1:{port}", http=respond("in")))
        config["listeners"][0]["address"] = f"0.0.0.0:{port}"
        self.assertIn("another process listens there", proxy.reload(config, succeeds=False))
        self.assertEqual(get(("127.0.0.1", port)), "in")


if __name__ == "__main__":
    harness.main()
