"""Shutdown: draining, its timeout, a second signal; and signals that are ignored."""

import contextlib
import ctypes
import os
import signal
import threading
import time

import harness
from harness import MIB, SLOWNESS
from origins import Origin, ping, connect, echo, last_outcome, outcome, receive_exactly
from transfers import TransferRun


class Shutdown(harness.SluiceTest):

    def proxy_with_client(self, **config):
        self.origin = self.keep(Origin(echo))
        proxy = self.proxy(self.origin.address, cut_allowed=True, **config)
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client))
        return proxy, client

    def refused(self, proxy):
        try:
            with connect(proxy.address(), timeout=1) as client:
                return last_outcome(client) == "reset"
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:  # The listening socket was just being closed.
            return False

    def test_no_connections(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                proxy = self.proxy(self.keep(Origin(echo)).address, workers=2)
                start = time.monotonic()
                proxy.signal(number)
                code, stats = proxy.wait()
                self.assertEqual(code, 0)
                self.assertTrue(stats)
                self.assertLess(time.monotonic() - start, 1.5 * SLOWNESS)
                proxy.checked = True

    def test_drain_lets_transfers_complete(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                proxy, client = self.proxy_with_client(shutdown_timeout="20s", workers=2)
                proxy.signal(number)
                self.assertTrue(proxy.wait_for_output("draining"))
                harness.wait_until(lambda: self.refused(proxy), 5, "new connections to be refused")
                data = os.urandom(4 * MIB)
                sender = threading.Thread(target=lambda: client.sendall(data), daemon=True)
                sender.start()
                self.assertEqual(receive_exactly(client, len(data)), data)
                sender.join(10)
                start = time.monotonic()
                client.close()
                code, stats = proxy.wait()
                self.assertLess(time.monotonic() - start, 2 * SLOWNESS)
                self.assertEqual((code, stats.ended("shutdown")), (0, 0))
                proxy.checked = True

    def test_shutdown_timeout(self):
        proxy, client = self.proxy_with_client(shutdown_timeout="700ms")
        start = time.monotonic()
        proxy.signal(signal.SIGTERM)
        self.assertEqual(outcome(client), "reset")
        code, stats = proxy.wait()
        self.assertGreaterEqual(time.monotonic() - start, 0.69)
        self.assertLess(time.monotonic() - start, 3 * SLOWNESS)
        self.assertEqual((code, stats.ended("shutdown")), (0, 1))

    def test_second_signal(self):
        for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(f"{first.name}, {second.name}"):
                proxy, client = self.proxy_with_client(shutdown_timeout="1h")
                proxy.signal(first)
                self.assertTrue(proxy.wait_for_output("draining"))
                self.assertTrue(ping(client))
                start = time.monotonic()
                proxy.signal(second)
                self.assertEqual(outcome(client), "reset")
                code, stats = proxy.wait()
                self.assertLess(time.monotonic() - start, 2 * SLOWNESS)
                self.assertEqual((code, stats.ended("shutdown")), (0, 1))

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
