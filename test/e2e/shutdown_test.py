"""Shutdown: draining, its timeout, a second signal; and signals that are ignored."""

import contextlib
import ctypes
import os
import signal
import threading
import time

import harness
from harness import MIB, SLOWNESS
from http_wire import Http2Client
from origins import Origin, connect, discard, echo, outcome, ping, receive_all, receive_exactly
from reload_test import UPGRADE, read_head, websocket
from transfers import TransferRun


class Shutdown(harness.SluiceTest):

    def proxy_with_client(self, **config):
        self.origin = self.keep(Origin(echo))
        proxy = self.proxy(self.origin.address, cut_allowed=True, **config)
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client))
        return proxy, client

    def assert_refused(self, proxy):
        with self.assertRaises(ConnectionRefusedError):
            connect(proxy.address()).close()

    def test_no_connections(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                proxy = self.proxy(self.keep(Origin(echo)).address, workers=2)
                start = time.monotonic()
                proxy.signal(number)
                code, stats = proxy.wait()
                self.assertEqual(code, 0)
                self.assertTrue(stats)
                self.assert_within(start, 1.5 * SLOWNESS)
                proxy.checked = True

    def test_draining_is_logged_when_nothing_is_accepted(self):
        """The line "draining: no new connections" was printed before the workers stopped accepting. A client that
        connected then was served by a process that was believed to accept no more."""
        for _ in range(10):
            proxy, client = self.proxy_with_client(workers=2)
            with proxy.low_priority_workers():
                proxy.signal(signal.SIGTERM)
                proxy.wait_for_output("draining: no new connections")
                self.assert_refused(proxy)
            client.close()
            self.assertEqual(proxy.wait()[0], 0)
            proxy.checked = True

    def test_drain_lets_transfers_complete(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                proxy, client = self.proxy_with_client(shutdown_timeout="20s", workers=2)
                proxy.signal(number)
                proxy.wait_for_output("draining")
                self.assert_refused(proxy)
                data = os.urandom(4 * MIB)
                sender = threading.Thread(target=lambda: client.sendall(data), daemon=True)
                sender.start()
                self.assertEqual(receive_exactly(client, len(data)), data)
                sender.join(10)
                start = time.monotonic()
                client.close()
                code, stats = proxy.wait()
                self.assert_within(start, 2 * SLOWNESS)
                self.assertEqual((code, stats.ended("shutdown")), (0, 0))
                proxy.checked = True

    def test_new_connection_gets_its_response(self):
        """Defect: a client whose connection had just been accepted, and whose request was on its way, got an end instead of a
        response."""
        config = harness.configuration([], listener={"http": {"routes": [{"respond": {"status": 200, "body": "x"}}]}})
        del config["listeners"][0]["tcp"]
        config["upstreams"] = []
        proxy = self.start(config)
        first, silent = self.keep(connect(proxy.address())), self.keep(connect(proxy.address()))
        proxy.wait_for(lambda stats: stats.total("sessions_active") == 2)
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("draining")
        time.sleep(0.2)
        first.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        self.assertEqual(receive_exactly(first, 12), b"HTTP/1.1 200")
        start = time.monotonic()
        self.assertEqual(outcome(silent), "end")
        self.assert_within(start, 3 * SLOWNESS)

    def test_shutdown_timeout(self):
        proxy, client = self.proxy_with_client(shutdown_timeout="700ms")
        start = time.monotonic()
        proxy.signal(signal.SIGTERM)
        self.assertEqual(outcome(client), "reset")
        code, stats = proxy.wait()
        self.assertGreaterEqual(time.monotonic() - start, 0.69)
        self.assert_within(start, 3 * SLOWNESS)
        self.assertEqual((code, stats.ended("shutdown")), (0, 1))

    def test_second_signal(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(f"{first.name}, {second.name}"):
                proxy, client = self.proxy_with_client(shutdown_timeout="1h")
                proxy.signal(first)
                proxy.wait_for_output("draining")
                self.assertTrue(ping(client))
                start = time.monotonic()
                proxy.signal(second)
                self.assertEqual(outcome(client), "reset")
                code, stats = proxy.wait()
                self.assert_within(start, 2 * SLOWNESS)
                self.assertEqual((code, stats.ended("shutdown")), (0, 1))

    # ---- Readiness, and the time until accepting ends

    READINESS = {"routes": [{"match": {"path": {"exact": "/ready"}}, "readiness": True}, {"forward": "web"}]}

    def proxy_with_readiness(self, web=None, **top):
        tcp, web = self.keep(Origin(echo)), self.keep(Origin(web or discard))
        config = {"workers": 2, "shutdown_timeout": "5s", **top,
                  "listeners": [{"name": "main", "address": "127.0.0.1:0", "tcp": {"forward": "main"}},
                                {"name": "web", "address": "127.0.0.1:0", "http": self.READINESS}],
                  "upstreams": [{"name": "main", "endpoints": [tcp.address]}, {"name": "web", "endpoints": [web.address]}]}
        return self.start(config, cut_allowed=True)

    def readiness(self, proxy):
        with connect(proxy.address("web")) as sock:
            sock.sendall(b"GET /ready HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            response = receive_all(sock)
        return int(response.split()[1]), response.split(b"\r\n\r\n")[1]

    def test_readiness(self):
        """It turns false at the signal. New connections are accepted until shutdown_delay is over."""
        proxy = self.proxy_with_readiness(shutdown_delay="1200ms")
        self.assertEqual(self.readiness(proxy), (200, b"ready\n"))
        start = time.monotonic()
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("stopping: not ready any more; new connections are accepted for another 1200ms")
        self.assertEqual(self.readiness(proxy), (503, b"draining\n"))
        with connect(proxy.address()) as client:
            self.assertTrue(ping(client))
            proxy.wait_for_output("draining: no new connections")
            self.assertGreaterEqual(time.monotonic() - start, 1.1)
            self.assert_refused(proxy)
            self.assertTrue(ping(client))
        self.assertEqual(proxy.wait()[0], 0)
        proxy.checked = True

    def test_readiness_is_for_requests_only(self):
        """No CONNECT is accepted by its 200."""
        proxy = self.proxy_with_readiness()
        with connect(proxy.address("web")) as sock:
            sock.sendall(b"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n")
            self.assertRegex(receive_all(sock), rb"^HTTP/1.1 (4|5)\d\d ")

    def test_signals_skip_the_delay_and_then_the_drain(self):
        proxy = self.proxy_with_readiness(shutdown_delay="1h", shutdown_timeout="1h")
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client))
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("stopping: ")
        self.assertEqual(self.readiness(proxy), (503, b"draining\n"))
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("draining: ")
        self.assertTrue(ping(client))
        proxy.signal(signal.SIGINT)
        self.assertEqual(outcome(client), "reset")
        code, stats = proxy.wait()
        self.assertEqual((code, stats.total("sessions_reset_total", kind="tcp")), (0, 1))

    def test_no_reload_while_stopping(self):
        proxy = self.proxy_with_readiness(shutdown_delay="1h")
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("stopping: ")
        proxy.signal(signal.SIGHUP)
        proxy.wait_for_output("reload: ignored, because the process is draining")
        proxy.signal(signal.SIGTERM)
        self.assertEqual(proxy.wait()[0], 0)
        proxy.checked = True

    def test_resets_are_counted_by_kind(self):
        def serve(sock):
            head = read_head(sock)
            if b"upgrade" in head.lower():
                return websocket(sock, head)
            discard(sock)
        proxy = self.proxy_with_readiness(serve, shutdown_timeout="700ms")
        tcp, http1, tunnel = (self.keep(connect(proxy.address(name))) for name in ("main", "web", "web"))
        self.assertTrue(ping(tcp))
        http1.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        tunnel.sendall(UPGRADE)
        self.assertIn(b" 101 ", read_head(tunnel))
        http2 = Http2Client(proxy.address("web"))
        http2.send_request()
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 3)
        proxy.signal(signal.SIGTERM)
        self.assertEqual(outcome(tcp), "reset")
        code, stats = proxy.wait()
        self.assertEqual(code, 0)
        for kind in ("tcp", "http1", "tunnel", "http2"):
            self.assertEqual(stats.total("sessions_reset_total", kind=kind), 1, kind)
        self.assertIn("sessions reset because their time to end was over: 1 tcp, 1 http1, 1 tunnel, 1 http2", proxy.stderr())
        http2.close()

    def test_cut_during_transfer(self):
        """The client reads nothing, every buffer is full, and the time is over."""
        origin = self.keep(Origin())
        proxy = self.proxy(origin.address, cut_allowed=True, shutdown_timeout="300ms", workers=2)
        clients = [self.keep(connect(proxy.address(), timeout=0.5)) for _ in range(8)]
        for client in clients:
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    client.sendall(bytes(65536))
        stats = self.stop(proxy, cut_allowed=True)
        self.assertEqual(stats.ended("shutdown"), 8)


class Signals(harness.SluiceTest):

    HARMLESS = (signal.SIGWINCH, signal.SIGURG, signal.SIGCHLD, signal.SIGCONT, signal.SIGPIPE)

    def test_signal_storm(self):
        """Threads are stopped and continued and get thousands of ignored signals: every wait is interrupted all the
        time, and nothing is lost."""
        tgkill = ctypes.CDLL(None, use_errno=True).tgkill
        sent = [0]

        def storm():
            for thread in proxy.threads():
                for number in self.HARMLESS * 10:
                    tgkill(proxy.pid, thread, number)
                    sent[0] += 1
            proxy.signal(signal.SIGSTOP)
            proxy.signal(signal.SIGCONT)

        with contextlib.closing(TransferRun(10, 8 * MIB)) as transfers:
            proxy = self.proxy(transfers.address, workers=2)
            transfers.run(proxy.address(), 60, on_turn=storm)
        self.assertEqual(self.stop(proxy).ended("finished"), 10)
        harness.print_note(f"{sent[0]} signals")
        self.assertGreater(sent[0], 1000)


if __name__ == "__main__":
    harness.main()
