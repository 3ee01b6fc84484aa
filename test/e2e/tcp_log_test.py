"""The access log of `tcp` listeners: a line for each connection, at its end, wherever that is and however it comes."""

import contextlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import time

import harness
from harness import KIB, MIB, SLOWNESS
from origins import BlackHole, Origin, connect, echo, outcome_of_connecting, ping, receive_exactly, refused_address
from tls_support import TlsTest


class TcpLog(TlsTest):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.temporary_directory()) / "access.log"
        self.read = 0

    def logging(self, endpoint, format="json", listener=None, upstream=None, tcp=None, log=None, **top):
        return self.proxy(endpoint, listener=listener, upstream=upstream, cut_allowed=True,
                          tcp={"access_log": {"file": str(self.path), "format": format, **(log or {})}, **(tcp or {})}, **top)

    def lines(self, count):
        """The next lines, once there are exactly so many."""
        def arrived():
            return self.path.exists() and len(self.path.read_text().splitlines()) >= self.read + count
        harness.wait_until(arrived, what=f"{count} lines")
        new = self.path.read_text().splitlines()[self.read:]
        self.assertEqual(len(new), count, new)
        self.read += count
        return new

    def line(self):
        return json.loads(self.lines(1)[0])

    def test_a_connection(self):
        origin = self.keep(Origin(echo))
        proxy = self.logging(origin.address)
        client = connect(proxy.address())
        port = client.getsockname()[1]
        self.assertTrue(ping(client, b"x" * 5000))
        time.sleep(0.2)
        self.assertEqual(self.path.read_text() if self.path.exists() else "", "", "no line before the end")
        client.close()
        line = self.line()
        self.assertEqual(line["client"], "127.0.0.1")
        self.assertEqual(line["client_port"], port)
        self.assertEqual((line["listener"], line["protocol"], line["reason"]), ("main", "TCP", "finished"))
        self.assertEqual((line["bytes_in"], line["bytes_out"]), (5000, 5000))
        self.assertEqual((line["route"], line["upstream"], line["endpoint"]), ("0", "main", origin.address))
        self.assertEqual(line["attempts"], 1)
        self.assertGreater(line["duration_us"], 190_000)
        self.assertTrue(0 < line["connect_us"] < line["duration_us"], line)
        self.assertEqual((line["tls_version"], line["tls_cipher"], line["tls_server_name"]), (None, None, None))
        began = time.mktime(time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        self.assertLess(abs(time.time() - line["duration_us"] / 1e6 - began), 5 * SLOWNESS)
        proxy.wait_for(lambda stats: stats.total("access_log_lines_total") == 1)

    def test_default_format(self):
        origin = self.keep(Origin(echo))
        proxy = self.logging(origin.address, format="default")
        client = connect(proxy.address())
        self.assertTrue(ping(client))
        client.close()
        self.assertRegex(self.lines(1)[0], r'^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\] "- - TCP" 0 finished 4 4 \d+ \d+ '
                         r'127\.0\.0\.1 main - main ' + re.escape(origin.address) + r' "-" "-"$')

    def test_own_format(self):
        proxy = self.logging(refused_address(), format="%{client_ip}:%{client_port} %{reason} %{attempts} %{connect_duration} %{endpoint}")
        with socket.socket() as client, contextlib.suppress(ConnectionResetError):  # It may come at once.
            client.bind(("127.0.0.1", 0))
            port = client.getsockname()[1]
            client.connect(proxy.address())
        line = self.lines(1)[0]
        self.assertRegex(line, rf"^127\.0\.0\.1:{port} (no_endpoint|client_left) 1 - 127\.0\.0\.1:\d+$")

    def test_bytes_pinned(self):
        """What waits for a slow client, up to buffer_high."""
        size = 16 * MIB
        proxy = self.logging(self.keep(Origin(lambda sock: sock.sendall(bytes(size)))).address,
                             tcp={"buffer_high": "512KiB"})
        with connect(proxy.address(), receive_buffer=65536) as client:
            proxy.wait_for(lambda stats: stats.total("pool_pinned_bytes") >= 512 * KIB)
            received = 0
            while data := client.recv(1 << 20):
                received += len(data)
        self.assertEqual(received, size)
        line = self.line()
        self.assertTrue(512 * KIB <= line["bytes_pinned"] < 2 * MIB, line)

    def test_ends(self):
        """Each end has its reason, which is that of the counters, and exactly one line."""
        def count(reason):
            return lambda stats: stats.ended(reason) == 1
        # The client resets.
        proxy = self.logging(self.keep(Origin(echo)).address)
        client = connect(proxy.address())
        self.assertTrue(ping(client, b"x"))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        self.assertEqual(self.line()["reason"], "client_error")
        proxy.wait_for(count("client_error"))
        # The endpoint resets.
        def reset(sock):
            sock.recv(10)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        proxy = self.logging(self.keep(Origin(reset)).address)
        client = self.keep(connect(proxy.address()))
        client.sendall(b"x")
        self.assertEqual(self.line()["reason"], "upstream_error")
        # It takes no connection.
        proxy = self.logging(self.keep(BlackHole()).address, upstream={"connect_timeout": "200ms"})
        self.keep(connect(proxy.address()))
        line = self.line()
        self.assertEqual((line["reason"], line["attempts"], line["connect_us"]), ("no_endpoint", 1, None))
        self.assertGreater(line["duration_us"], 190_000)
        # Nothing moves.
        proxy = self.logging(self.keep(Origin(echo)).address, tcp={"idle_timeout": "300ms"})
        self.keep(connect(proxy.address()))
        self.assertEqual(self.line()["reason"], "idle_timeout")
        # The process ends.
        proxy = self.logging(self.keep(Origin(echo)).address, shutdown_timeout="0")
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client, b"x"))
        self.stop(proxy, cut_allowed=True)
        self.assertEqual(self.line()["reason"], "shutdown")

    def test_terminated_tls(self):
        proxy = self.logging(self.keep(Origin(echo)).address, listener={"tls": {"certificates": [self.server]}})
        client = subprocess.run(["openssl", "s_client", "-connect", proxy.addresses["main"], "-servername", "a.example.com", "-CAfile",
                                 self.ca, "-quiet", "-no_ign_eof", "-tls1_3"], input=b"Q\n", capture_output=True, check=False,
                                timeout=20 * SLOWNESS)
        self.assertEqual(client.returncode, 0, client.stderr)
        line = self.line()
        self.assertEqual((line["tls_version"], line["tls_server_name"]), ("TLSv1.3", "a.example.com"))
        self.assertRegex(line["tls_cipher"], r"^TLS_(AES|CHACHA20)_\w+$")
        # A handshake that fails has a line, too.
        plain = self.keep(connect(proxy.address()))
        plain.sendall(b"no TLS at all\r\n\r\n")
        line = self.line()
        self.assertEqual((line["reason"], line["upstream"], line["route"]), ("tls_handshake", None, None))

    def test_passed_tls(self):
        """The name in a ClientHello that routes have read."""
        end = self.keep(Origin(echo))
        proxy = self.start({
            "workers": 1,
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "tcp": {
                "routes": [{"match": {"sni": "other.example.com"}, "forward": "a"},
                           {"match": {"sni": "b.example.com"}, "forward": "b"}],
                "access_log": {"file": str(self.path), "format": "json"}}}],
            "upstreams": [{"name": name, "endpoints": [end.address]} for name in "ab"]}, cut_allowed=True)
        for name, route, upstream, reason in (("b.example.com", "1", "b", None), ("c.example.com", None, None, "no_route")):
            subprocess.run(["openssl", "s_client", "-connect", proxy.addresses["main"], "-servername", name], input=b"", check=False,
                           capture_output=True, timeout=20 * SLOWNESS)
            line = self.line()
            self.assertEqual((line["tls_server_name"], line["route"], line["upstream"]), (name, route, upstream))
            if reason:
                self.assertEqual(line["reason"], reason)

    def test_address_of_proxy_header(self):
        proxy = self.logging(self.keep(Origin(echo)).address, listener={"proxy_protocol": {"accept": "required"}})
        client = connect(proxy.address())
        client.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\nx")
        self.assertEqual(client.recv(1), b"x")
        client.close()
        line = self.line()
        self.assertEqual((line["client"], line["client_port"], line["bytes_in"]), ("192.0.2.7", 4711, 1))

    def test_limit_per_source(self):
        """A client that is refused has a line, with the address in its PROXY header if it sends one."""
        for accept, header, address in (("off", b"x", "127.0.0.1"),
                                        ("required", b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 443\r\nx", "192.0.2.7")):
            proxy = self.logging(self.keep(Origin(echo)).address,
                                 listener={"proxy_protocol": {"accept": accept}, "max_connections_per_source": 1})
            first = self.keep(connect(proxy.address()))
            first.sendall(header)
            self.assertEqual(first.recv(1), b"x")
            self.assertEqual(outcome_of_connecting(proxy.address(), data=header), "reset")
            line = self.line()
            self.assertEqual((line["reason"], line["client"], line["upstream"]), ("source", address, None))
            first.close()
            self.assertEqual(self.line()["reason"], "finished")
            proxy.wait_for(lambda stats: stats.refused("source") == 1)

    def test_limit_of_connections(self):
        """What is refused as soon as it is accepted has no line."""
        proxy = self.logging(self.keep(Origin(echo)).address, listener={"max_connections": 1})
        first = connect(proxy.address())
        self.assertTrue(ping(first))
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        proxy.wait_for(lambda stats: stats.refused("listener") == 1)
        first.close()
        self.assertEqual(self.line()["reason"], "finished")
        time.sleep(0.3)
        self.assertEqual(len(self.path.read_text().splitlines()), 1)

    def test_every_connection_once(self):
        proxy = self.logging(self.keep(Origin(echo)).address, workers=2)
        clients = [connect(proxy.address()) for _ in range(200)]
        for client in clients:
            client.sendall(b"abc")
        for client in clients:
            self.assertEqual(receive_exactly(client, 3), b"abc")
            client.close()
        lines = [json.loads(line) for line in self.lines(200)]
        self.assertEqual(len({line["client_port"] for line in lines}), 200)
        self.assertEqual({(line["bytes_in"], line["bytes_out"], line["reason"]) for line in lines}, {(3, 3, "finished")})

    def test_upgrade(self):
        """A connection that moves to another process is logged there, with all that the first one knew."""
        origin = self.keep(Origin(echo))
        proxy = self.logging(origin.address, listener={"tls": {"certificates": [self.server]}})
        client = self.secure(proxy.address(), name="a.example.com")
        port = client.getsockname()[1]
        self.assertTrue(ping(client, b"x" * 1000))
        time.sleep(0.3)
        proxy.upgrade()
        self.assertTrue(ping(client, b"y" * 10))
        time.sleep(0.2)
        self.assertEqual(self.path.read_text(), "", "no line before the end")
        client.unwrap()
        client.close()
        line = self.line()
        self.assertEqual((line["client_port"], line["bytes_in"], line["bytes_out"]), (port, 1010, 1010))
        self.assertEqual((line["tls_version"], line["tls_server_name"], line["route"]), ("TLSv1.3", "a.example.com", "0"))
        self.assertEqual((line["upstream"], line["endpoint"], line["attempts"]), ("main", origin.address, 1))
        self.assertGreater(line["connect_us"], 0)
        self.assertGreaterEqual(line["duration_us"], 500_000)

    def test_upgrade_that_changes_the_log(self):
        """A log that only the new process has counts from there on; one that only the old process has gets no line."""
        origin = self.keep(Origin(echo))
        without = harness.configuration([origin.address])
        logging = harness.configuration([origin.address], tcp={"access_log": {"file": str(self.path), "format": "json"}})
        proxy = self.start(without)
        client = connect(proxy.address())
        port = client.getsockname()[1]
        self.assertTrue(ping(client, b"x" * 1000))
        proxy.write_configuration(logging)
        proxy.upgrade()
        self.assertTrue(ping(client, b"x" * 10))
        client.close()
        line = self.line()
        self.assertEqual((line["client"], line["client_port"], line["bytes_in"], line["bytes_out"]), ("127.0.0.1", port, 10, 10))
        self.assertEqual((line["reason"], line["upstream"], line["endpoint"]), ("finished", "main", origin.address))
        self.assertEqual((line["route"], line["connect_us"]), (None, None))
        client = connect(proxy.address())
        self.assertTrue(ping(client))
        proxy.write_configuration(without)
        proxy.upgrade()
        self.assertTrue(ping(client))
        client.close()
        proxy.wait_for(lambda stats: stats.ended("finished") == 1)
        self.assertEqual(len(self.path.read_text().splitlines()), 1)

    def test_pipe_without_reader(self):
        """Connections go on while nobody reads the log, and lines without room are counted."""
        os.mkfifo(self.path)
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        proxy = self.logging(self.keep(Origin(echo)).address, workers=1)
        slowest, total = 0, 0
        while not proxy.stats().total("access_log_dropped_total"):
            for _ in range(200):
                begin = time.monotonic()
                client = connect(proxy.address())
                client.sendall(b"x")
                self.assertEqual(client.recv(1), b"x")
                slowest = max(slowest, time.monotonic() - begin)
                client.close()
            total += 200
            self.assertLess(total, 20_000, "no line is dropped")
        self.assertLess(slowest, 2 * SLOWNESS)
        self.assertGreater(total, 256 * KIB // 400, "lines wait in memory first")

    def test_configuration(self):
        for log, message in (
                ({"file": "x", "format": "%{method}"}, "a connection of a `tcp` listener has no method; the variables are "),
                ({"file": "off"}, "for no log leave the key out"),
                ({"file": "/nowhere/access.log"}, "make the directory first")):
            config = harness.configuration([refused_address()], tcp={"access_log": log})
            path = os.path.join(self.temporary_directory(), "sluice.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            check = subprocess.run([harness.SLUICE, "check", "--config", path], capture_output=True, text=True, check=False,
                                   timeout=20 * SLOWNESS)
            self.assertEqual(check.returncode, 1, check.stdout)
            self.assertRegex(check.stderr, r"^\S+sluice\.yaml:\d+:\d+: listeners\[0\]\.tcp\.access_log")
            self.assertIn(message, check.stderr)


if __name__ == "__main__":
    harness.main()
