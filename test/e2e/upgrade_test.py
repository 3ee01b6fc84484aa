"""Upgrades: a new process takes over the listening sockets and the connections of a running one, which then ends. No
connection is refused, cut or changed, and if the new process fails, the old one goes on."""

import contextlib
import hashlib
import os
import pathlib
import random
import re
import select
import signal
import socket
import ssl
import subprocess
import threading
import time

import harness
import quiet_day_test as quiet_day
from harness import KIB, LONG, MIB, SANITIZER, SLOWNESS
from http_wire import Http2Client
from origins import Origin, connect, echo, outcome_of_connecting, ping, receive_exactly
from reload_test import Http1, listener, respond, server, upstream
from tls_support import TlsTest


class UpgradeTest(TlsTest):

    def start_with(self, *listeners, upstreams=(), workers=2, **top):
        return self.start({"workers": workers, "shutdown_timeout": "5s", "listeners": list(listeners),
                           "upstreams": list(upstreams), **top})

    def tcp(self, origin, **rest):
        """A plain TCP listener and one with TLS on both sides."""
        secure = self.keep(Origin(self.over_tls(echo)))
        return self.start_with(
            listener("plain", tcp={"forward": "plain"}),
            listener("tls", tcp={"forward": "tls"}, tls={"certificates": [self.server]}),
            upstreams=[upstream("plain", origin),
                       upstream("tls", secure, tls={"server_name": "localhost", "ca": self.ca})], **rest)

    def tunnels(self, count, **http):
        """A proxy, and that many clients with an open websocket of each kind: plain, and with TLS on both sides."""
        def serve(sock):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += sock.recv(1)
            key = re.search(rb"sec-websocket-key: (\S+)", head)[1].decode()
            sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                         f"sec-websocket-accept: {quiet_day.accept_of(key)}\r\n\r\n".encode())
            echo(sock)

        self.log = self.temporary_directory() + "/access.log"
        http["access_log"] = {"file": self.log, "format": "%{status} %{reason} %{bytes_out}"}
        proxy = self.start_with(
            listener("plain", http={"forward": "plain", **http}),
            listener("tls", http={"forward": "tls", **http}, tls={"certificates": [self.server]}),
            upstreams=[upstream("plain", self.keep(Origin(serve))),
                       upstream("tls", self.keep(Origin(self.over_tls(serve))),
                                tls={"server_name": "localhost", "ca": self.ca})])
        clients = [self.keep(connect(proxy.address("plain"))) for _ in range(count)] + [
            self.secure_socket(proxy, "tls") for _ in range(count)]
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                           b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        return proxy, clients

    def over_tls(self, serve):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])

        def secured(sock):
            with context.wrap_socket(sock, server_side=True) as secure:
                serve(secure)
        return secured

    def secure_socket(self, proxy, name):
        return self.keep(self.secure(proxy.address(name)))

    def transfer_during_upgrades(self, proxy, clients):
        """Each client sends random bytes as fast as it can, and receives their echo."""
        size = (16 if SANITIZER else 64) * MIB
        results = []

        def transfer(client, seed):
            try:
                results.append(transfer_all(client, seed))
            except OSError as error:
                results.append(f"client {seed}: {error}")

        def transfer_all(client, seed):
            """Both directions in one thread: an SSLSocket is not safe for two."""
            chooser = random.Random(seed)
            sent, received = hashlib.sha256(), hashlib.sha256()
            to_send, to_receive, piece = size, size, b""
            client.setblocking(False)
            while to_receive:
                if not piece and to_send:
                    piece = chooser.randbytes(min(to_send, chooser.randrange(1, 256 * KIB)))
                    sent.update(piece)
                    to_send -= len(piece)
                moved = 0
                with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    if piece:
                        moved = client.send(piece)
                        piece = piece[moved:]
                with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    back = client.recv(min(to_receive, MIB))
                    if not back:
                        return f"client {seed}: ended {to_receive} bytes early"
                    received.update(back)
                    to_receive -= len(back)
                    moved += len(back)
                if not moved:
                    select.select([client], [client] if piece else [], [], 1)
            return sent.digest() == received.digest()

        threads = [threading.Thread(target=transfer, args=(client, i), daemon=True) for i, client in enumerate(clients)]
        for thread in threads:
            thread.start()
        upgrades = 0
        while any(thread.is_alive() for thread in threads):
            proxy.upgrade()
            upgrades += 1
            time.sleep(0.1)
        self.assertEqual(results, [True] * len(clients))
        harness.print_note(f"{upgrades} upgrades")
        self.assertGreater(upgrades, 0 if SANITIZER else 2)


class Connections(UpgradeTest):
    """Connections that live across upgrades."""

    def test_idle_tcp(self):
        """TCP, plain and with TLS of both versions on both sides, twice."""
        proxy = self.tcp(self.keep(Origin(echo)))
        clients = [self.keep(connect(proxy.address("plain"))) for _ in range(100)]
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            clients += [self.keep(self.secure(proxy.address("tls"), self.context(version=version))) for _ in range(10)]
        for _ in range(3):
            for client in clients:
                self.assertTrue(ping(client))
            self.assertIn("120 connections moved, 0 still end or move here", proxy.upgrade())
            self.assertEqual(proxy.before_upgrades[-1].ended("moved"), 120)
        for client in clients:
            self.assertTrue(ping(client))
            client.close()
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        self.assertEqual((stats.total("resumed_total"), stats.total("accepted_total")), (120, 0))
        # Clients of TLS that close at once.
        self.assertEqual((stats.ended("finished"), stats.total("tls_truncated_total")), (100, 20))

    def test_limits_count_moved_connections(self):
        origin = self.keep(Origin(echo))
        proxy = self.start_with(listener("main", tcp={"forward": "main"}, max_connections_per_source=2),
                                upstreams=[upstream("main", origin)])
        first, second = (self.keep(connect(proxy.address())) for _ in range(2))
        self.assertTrue(ping(first) and ping(second))
        proxy.upgrade()
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        self.assertEqual(proxy.stats().refused("source"), 1)
        first.close()
        proxy.wait_for(lambda s: s.ended("finished") == 1)
        self.assertTrue(ping(self.keep(connect(proxy.address()))))
        self.assertTrue(ping(second))

    def test_half_closed(self):
        """An end that has been passed on is not lost, and the other direction goes on."""
        def serve(sock):
            while sock.recv(65536):
                pass
            go.wait(20)
            sock.sendall(b"the end was seen")

        go = threading.Event()
        proxy = self.start_with(listener("main", tcp={"forward": "main"}), upstreams=[upstream("main", self.keep(Origin(serve)))])
        client = self.keep(connect(proxy.address()))
        client.sendall(b"all")
        client.shutdown(socket.SHUT_WR)
        proxy.wait_for(lambda s: s.total("endpoint_sent_bytes_total") == 3)
        proxy.upgrade()
        go.set()
        self.assertEqual(receive_exactly(client, 16), b"the end was seen")
        self.assertEqual(client.recv(1), b"")

    def test_bulk_both_ways(self):
        """Transfers in both directions at full speed, plain and TLS, during upgrades: each byte arrives once."""
        proxy = self.tcp(self.keep(Origin(echo)))
        self.transfer_during_upgrades(proxy, [self.keep(connect(proxy.address("plain"))) for _ in range(2)] + [
            self.secure_socket(proxy, "tls") for _ in range(2)])

    def test_client_that_does_not_read(self):
        """Queued output moves too."""
        def serve(sock):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(1)

        data = random.Random(1).randbytes(16 * MIB)
        proxy = self.start_with(listener("main", tcp={"forward": "main"}), upstreams=[upstream("main", self.keep(Origin(serve)))])
        client = self.keep(connect(proxy.address(), receive_buffer=4096))
        for _ in range(3):
            time.sleep(0.3)
            proxy.upgrade()
        self.assertEqual(receive_exactly(client, len(data)), data)
        self.assertEqual(client.recv(1), b"")

    def test_idle_http(self):
        """HTTP/1.1 and HTTP/2, plain and TLS: a connection goes on with its next request."""
        origin = self.keep(Origin(server("a")))
        proxy = self.start_with(
            listener("main", http={"forward": "x"}),
            listener("tls", http={"forward": "x"}, tls={"certificates": [self.server], "alpn": ["h2", "http/1.1"]}),
            upstreams=[upstream("x", origin)])
        http1 = self.keep(Http1(proxy))
        http2 = Http2Client(proxy.address())
        fields = [("x-a", "1" * 50), ("x-b", "2" * 50)]
        secure = self.secure_socket(proxy, "tls")
        unused = self.keep(connect(proxy.address()))
        curl = harness.need("curl")

        def check():
            self.assertEqual(http1.get(), "a")
            for _ in range(3):  # The table of the header fields is used.
                self.assertEqual(http2.get("/", fields=fields).body, b"a")
            secure.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            self.assertTrue(receive_exactly(secure, len(b"HTTP/1.1 200 OK")).endswith(b"200 OK"))
            secure.settimeout(1)
            while not secure.recv(65536).endswith(b"a"):
                pass
            host, port = proxy.address("tls")
            done = subprocess.run([curl, "-sS", "--http2", "--cacert", self.ca, f"https://localhost:{port}/"],
                                  capture_output=True, check=False, timeout=20 * SLOWNESS)
            self.assertEqual((done.stdout, done.stderr), (b"a", b""))

        check()
        for _ in range(3):
            self.assertIn("4 connections moved, 0 still end or move here", proxy.upgrade())
            check()
        unused.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        self.assertTrue(receive_exactly(unused, 15))
        http2.close()

    def test_reasons_to_stay(self):
        """What keeps connections is in the output of the command, and counted at half of shutdown_timeout."""
        endpoint = self.keep(socket.create_server(("127.0.0.1", 0)))  # It never responds.
        address = "%s:%d" % endpoint.getsockname()
        proxy = self.start_with(
            listener("http", http={"forward": "x"}), listener("tcp", tcp={"forward": "x"}),
            listener("tls", tcp={"forward": "x"}, tls={"certificates": [self.server]}),
            listener("connecting", tcp={"forward": "tls"}), listener("lost", tcp={"forward": "x"}),
            listener("paced", tcp={"forward": "x", "upload_bandwidth": "bytes"}),
            rate_limits=[{"name": "bytes", "rate": "1MiB/s"}],
            upstreams=[{"name": "x", "endpoints": [address]},
                       {"name": "tls", "endpoints": [address], "connect_timeout": "30s",
                        "tls": {"server_name": "localhost", "ca": self.ca}}],
            shutdown_timeout=f"{3 * SLOWNESS}s")
        kept = {name: self.keep(connect(proxy.address(name))) for name in ("http", "tcp", "tls", "connecting", "lost", "paced")}
        kept["http"].sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        proxy.wait_for(lambda s: s.total("http_requests_active") == 1 and s.total("sessions_active") == 6 and
                       s.total("endpoint_connections_active") == 5)
        proxy.write_configuration({**proxy.config, "listeners": [each for each in proxy.config["listeners"]
                                                          if each["name"] != "lost"]})
        old = proxy.process
        self.assertIn("1 connections moved, 5 still end or move here (1 handshake, 1 connecting, 1 request, 1 returned, 1 paced)",
                      proxy.upgrade(waits=False))
        proxy.end_of(old)
        counted = {name[1]: value for name, value in proxy.before_upgrades[-1].items() if name[0] == "not_moved_total"}
        self.assertEqual(counted, {(("listener", where), ("reason", reason)): 1 for where, reason in (
            ("http", "request"), ("tls", "handshake"), ("connecting", "connecting"), ("lost", "returned"), ("paced", "paced"))})
        endpoint.close()
        kept["tcp"].close()

    def test_request_in_progress_ends_first(self):
        """The request ends in the old process, and its connection moves then."""
        proxy = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", self.keep(Origin(server("a"))))])
        slow, http2 = self.keep(Http1(proxy)), Http2Client(proxy.address())
        slow.connection.request("GET", "/slow")
        stream = http2.send_request("/slow")
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 2)
        old = proxy.process
        self.assertIn("0 connections moved, 2 still end or move here (2 request)", proxy.upgrade(waits=False))
        self.assertEqual(slow.connection.getresponse().read(), b"a")
        self.assertEqual(http2.response(stream).body, b"a")
        proxy.end_of(old)
        self.assertEqual(proxy.before_upgrades[-1].ended("moved"), 2)
        self.assertEqual(slow.get(), "a")
        self.assertEqual(http2.get("/").body, b"a")
        http2.close()

    def test_tunnels(self):
        """Websockets of HTTP/1.1, plain and with TLS on both sides, while their connections are idle."""
        proxy, clients = self.tunnels(20)
        for _ in range(3):
            for client in clients:
                self.assertTrue(ping(client))
            self.assertIn("40 connections moved, 0 still end or move here", proxy.upgrade())
        stats = proxy.before_upgrades[0]
        self.assertEqual((stats.total("http_requests_ended_total", reason="moved"), stats.ended("moved")), (40, 40))
        for client in clients:
            self.assertTrue(ping(client))
        # They are still sessions of their listeners.
        self.assertEqual(proxy.stats().total("sessions_active"), 40)
        proxy.signal(signal.SIGHUP)
        proxy.wait_for_output("reload: configuration applied")
        for client in clients:
            self.assertTrue(ping(client))
            client.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        self.assertEqual(pathlib.Path(self.log).read_text(encoding="utf-8"), "101 moved 4\n" * 40)

    def test_session_tickets(self):
        """The new process resumes the sessions of TLS that the old one began."""
        proxy = self.tcp(self.keep(Origin(echo)))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(version=version)
            first = self.keep(self.secure(proxy.address("tls"), context))
            self.assertTrue(ping(first))  # TLS 1.3 sends tickets behind its handshake.
            for _ in range(2):
                proxy.upgrade()
                again = self.keep(self.secure(proxy.address("tls"), context, session=first.session))
                self.assertTrue(ping(again) and again.session_reused)
                first = again

    def test_tunnel_timeout(self):
        """It counts from the last byte, also if that was before the upgrade."""
        proxy, (client, secure) = self.tunnels(1, tunnel_timeout=f"{2 * SLOWNESS}s")
        self.assertTrue(ping(client) and ping(secure))
        proxy.upgrade()
        proxy.wait_for(lambda s: s.ended("idle_timeout") == 2)

    def test_bulk_through_tunnels(self):
        proxy, clients = self.tunnels(2)
        self.transfer_during_upgrades(proxy, clients)

    def test_unix_socket(self):
        """The file of the socket stays where it is, and the last process removes it."""
        path = os.path.join(self.folder, "proxy.sock")
        proxy = self.start_with(listener("main", address=f"unix:{path}", http=respond("here")))
        proxy.upgrade()
        for _ in range(10):
            with connect(path) as client:
                client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                self.assertTrue(receive_exactly(client, 15))
        self.stop(proxy)
        self.assertFalse(os.path.exists(path))

    def test_new_connections_are_never_refused(self):
        proxy = self.start_with(listener("main", http=respond("here")))
        errors, served, over = [], [0], threading.Event()

        def ask():
            while not over.is_set():
                try:
                    with connect(proxy.address()) as client:
                        client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                        receive_exactly(client, 15)
                    served[0] += 1
                except (OSError, AssertionError) as error:
                    errors.append(error)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in range(5 if SANITIZER else 20):
            proxy.upgrade(waits=False)
            time.sleep(0.1)
        over.set()
        for thread in threads:
            thread.join(20 * SLOWNESS)
        harness.print_note(f"{served[0]} connections")
        self.assertEqual(errors, [])


def command_of(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()


def processes_of(command):
    """A process, and those with its command line that it has started to replace it."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == command:
                found.add(int(path.parent.name))
    return found


class Failures(UpgradeTest):
    """The new process fails: the old one goes on."""

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin(echo))
        self.config = {"workers": 2, "shutdown_timeout": "5s",
                       "listeners": [listener("main", tcp={"forward": "main"})],
                       "upstreams": [upstream("main", self.origin)]}
        self.running = self.start(self.config)

    def still_serves(self, client):
        self.assertTrue(ping(client))
        self.assertTrue(ping(self.keep(connect(self.running.address()))))

    def test_it_does_not_start(self):
        client = self.keep(connect(self.running.address()))
        for binary, why in (("/nonexistent", "cannot start /nonexistent: No such file"), ("/bin/false", "it has ended")):
            with self.subTest(binary):
                output = self.running.upgrade("--binary", binary, succeeds=False)
                self.assertIn(why, output)
                self.assertIn("nothing was changed: this process goes on", output)
                self.still_serves(client)
        self.running.write_configuration({**self.config, "upstreams": []})
        self.assertIn("the new process", self.running.upgrade(succeeds=False))
        self.running.write_configuration({**self.config, "workers": 1})
        self.assertIn("the old process has 2 workers and this one only 1", self.running.upgrade(succeeds=False))
        self.still_serves(client)
        stats = self.running.stats()
        self.assertEqual((stats.total("upgrades_total"), stats.total("upgrade_failures_total")), (0, 4))
        self.running.write_configuration(self.config)
        self.running.upgrade()
        self.still_serves(client)

    def test_it_dies(self):
        """Killed at some moment of the upgrade: connections that had moved end, and all others and new ones are served.
        Nothing hangs."""
        rounds = 50 if LONG else 5 if SANITIZER else 12
        address, lost = self.running.address(), 0
        seed = random.randrange(1 << 32)
        harness.print_note(f"seed {seed}")
        chooser = random.Random(seed)
        # It takes tens of milliseconds to start.
        for _ in range(rounds):
            clients = [connect(address) for _ in range(200)]
            for client in clients:
                self.assertTrue(ping(client))
            pid, old = self.running.pid, self.running.process
            command = command_of(pid)
            known = processes_of(command)
            delay = chooser.random() * 0.06 * SLOWNESS

            def kill_the_new_process():
                for _ in range(2000):
                    if processes_of(command) - known:
                        time.sleep(delay)
                        # The one that was spawned may just now make the one that goes on, behind the place in /proc
                        # that was read last.
                        for _ in range(5):
                            for each in processes_of(command) - known:
                                # Not a helper of LeakSanitizer in the old process, which would wait for it for ever.
                                with contextlib.suppress(OSError):
                                    if b"SLUICE_UPGRADE_FD=" in pathlib.Path(f"/proc/{each}/environ").read_bytes():
                                        os.kill(each, signal.SIGKILL)
                            time.sleep(0.002)
                        return
                    time.sleep(0.001)

            killer = threading.Thread(target=kill_the_new_process, daemon=True)
            killer.start()
            done = subprocess.run([harness.SLUICE, "upgrade", "--pid", str(pid)], capture_output=True, text=True,
                                  timeout=60 * SLOWNESS)
            killer.join()
            # The old process may have ended before it could notice: its work was done. Its end takes a while.
            is_done = "0 still end or move here" in done.stdout
            try:
                old.wait((10 if is_done else 0.5) * SLOWNESS)
            except subprocess.TimeoutExpired:
                alive = 0
                for client in clients:
                    try:
                        alive += bool(ping(client))
                    except (OSError, AssertionError):
                        lost += 1
                self.assertTrue(ping(self.keep(connect(address))), done)
            else:
                # As after any other death of the process, someone has to start it.
                self.assertEqual(done.returncode, 0)
                self.running.checked = True
                self.running.wait()
                self.running = self.start(self.config)
                address = self.running.address()
            for client in clients:
                client.close()
        harness.print_note(f"{rounds} rounds, {lost} connections had moved to a process that died")
        self.running.wait_for(lambda s: s.total("sessions_active") <= rounds)


class UnderLoad(quiet_day.QuietDay):
    """All kinds of clients, without the pauses of a quiet day, while one process after the other takes over."""

    def test_quiet_day(self):
        seconds = 600 if LONG else 10 if SANITIZER else 15
        seed = int(os.environ.get("SLUICE_E2E_SEED") or random.randrange(1 << 32))
        harness.print_note(f"seed {seed}")
        proxy = self.start_proxy()
        day = quiet_day.Day(proxy, seed)
        day.end = time.monotonic() + seconds
        day.longest_pause = 0.3
        threads = [threading.Thread(target=day.run_client, args=(client,), daemon=True)
                   for client in self.clients(day, seed)]
        for thread in threads:
            thread.start()
        replaced = []
        while time.monotonic() < day.end and not day.errors:
            replaced.append(proxy.process)
            proxy.upgrade(waits=False)
            time.sleep(0.5)
        for thread in threads:
            thread.join(60 * SLOWNESS)
        self.assertEqual((day.errors, [thread for thread in threads if thread.is_alive()]), ([], []),
                         f"seed {seed}; stderr:\n{proxy.stderr()[-5000:]}")
        harness.print_note(f"{len(replaced)} upgrades, {day.counts['turns']} turns")
        self.assertGreater(len(replaced), 5)
        for old in replaced:
            self.assertEqual(old.wait(60 * SLOWNESS), 0)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0, 20)
        self.stop(proxy)


if __name__ == "__main__":
    harness.main()
