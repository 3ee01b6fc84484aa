"""Bulk data through TLS, records of every size and padding, and storms of key updates, with third-party programs: Go's
crypto/tls and openssl. Records that those cannot be made to send are made after their handshake (tls_peers.d)."""

import contextlib
import hashlib
import os
import ssl
import threading
import time

import harness
from harness import LONG, MIB, SANITIZER, print_note
from origins import Origin, connect, echo, free_port
from tls_support import GoPeer, Process, TlsTest, exchange

EACH_WAY = 1024 * MIB if LONG else 16 * MIB if SANITIZER else 64 * MIB
# The maximum of the record layer.
UPDATES_IN_A_ROW = 32
UNEXPECTED_MESSAGE = 10


class BulkTest(TlsTest):

    def setUp(self):
        super().setUp()
        self.credentials = {"certificate": self.server["chain"], "key": self.server["key"]}
        self.to_upstream = {"tls": {"ca": self.ca, "server_name": "localhost"}}

    def check(self, *reports, alert=0):
        for report in reports:
            self.assertEqual((report["Error"], report["Alert"]), ("", alert), report)

    def still_serves(self, proxy, secure):
        sock = self.secure(proxy.address()) if secure else self.keep(connect(proxy.address()))
        self.assertEqual(exchange(sock, b"hello" * 1000), b"hello" * 1000)


class Transfers(BulkTest):

    def transfer(self, terminate, originate, **options):
        server = self.keep(GoPeer(plain=not originate, send=EACH_WAY, seconds=600, **self.credentials, **options))
        listener = {"tls": {"certificates": [self.server]}} if terminate else None
        proxy = self.proxy(server.address, listener=listener, upstream=self.to_upstream if originate else None)
        begin = time.monotonic()
        client, = GoPeer.client(proxy.address(), 600, plain=not terminate, ca=self.ca, send=EACH_WAY, **options)
        seconds = time.monotonic() - begin
        theirs = server.report()
        self.check(client, theirs)
        self.assertEqual((client["SentBytes"], client["SentHash"]), (EACH_WAY, theirs["ReceivedHash"]))
        self.assertEqual((theirs["SentBytes"], theirs["SentHash"]), (EACH_WAY, client["ReceivedHash"]))
        stats = proxy.wait_for(lambda s: s.ended("finished") == 1)
        self.assertEqual(stats.total("received_bytes_total"), EACH_WAY)
        self.assertEqual(stats.total("sent_bytes_total"), EACH_WAY)
        self.assertEqual(stats.total("tls_truncated_total"), 0)
        print_note(f"{options}: {2 * EACH_WAY / MIB / seconds:.0f} MiB/s")

    def each_version(self, *sides):
        for version in ("1.3", "1.2"):
            with self.subTest(version):
                self.transfer(*sides, version=version)

    def test_terminated(self):
        self.each_version(True, False)

    def test_originated(self):
        self.each_version(False, True)

    def test_both(self):
        self.each_version(True, True)

    def test_small_writes(self):
        self.transfer(True, True, pieces=3000)


class RecordSizes(BulkTest):

    STEP = 97 if SANITIZER and not LONG else 1

    RECORDS = {"do": "sizes", "step": STEP, "paddings": "none,one,random,full"}
    BYTES = 4 * sum(range(0, 16385, STEP))

    def test_from_client(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        report, = GoPeer.client(proxy.address(), 300, **self.RECORDS, ca=self.ca)
        self.check(report)
        self.assertEqual(report["SentBytes"], self.BYTES)
        self.assertEqual(report["ReceivedHash"], report["SentHash"])

    def test_from_server(self):
        server = self.keep(GoPeer(**self.RECORDS, seconds=300, **self.credentials))
        proxy = self.proxy(server.address, upstream=self.to_upstream)
        echo(self.keep(connect(proxy.address())))
        report = server.report()
        self.check(report)
        self.assertEqual(report["SentBytes"], self.BYTES)
        self.assertEqual(report["ReceivedHash"], report["SentHash"])

    def test_from_openssl(self):
        """One record for each write, from Python's ssl; with TLS 1.2 too."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            plain = self.keep(connect(proxy.address()))
            tls, incoming, outgoing = self.in_memory(plain, self.context(version))
            data, expected, echoed, sent, came = os.urandom(16384), hashlib.sha256(), hashlib.sha256(), 0, 0

            def take():
                incoming.write(plain.recv(1 << 20))
                count = 0
                with contextlib.suppress(ssl.SSLWantReadError):
                    while True:
                        piece = tls.read(1 << 16)
                        echoed.update(piece)
                        count += len(piece)
                return count
            for size in range(1, 16385, self.STEP):
                self.assertEqual(tls.write(data[:size]), size)
                expected.update(data[:size])
                sent += size
                plain.sendall(outgoing.read())
                while sent - came > 300_000:
                    came += take()
            while came < sent:
                came += take()
            self.assertEqual(echoed.hexdigest(), expected.hexdigest())

    def test_padding_by_openssl(self):
        """s_client and s_server pad to multiples of a size."""
        lines = b"".join(b"line %d" % i + b"x" * (i * 7 % 1000) + b"\n" for i in range(500))
        terminating = self.terminating(self.keep(Origin(echo)).address)
        for size in (2, 100, 512, 4096, 16384):
            with self.subTest(size):
                client = self.keep(Process([
                    "openssl", "s_client", "-connect", "%s:%d" % terminating.address(), "-CAfile", self.ca, "-tls1_3",
                    "-quiet", "-verify_quiet", "-no_ticket", "-record_padding", str(size)]))
                client.write(lines)
                client.wait_for(lines)
                port = free_port()
                server = self.keep(Process([
                    "openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", self.server["chain"], "-key",
                    self.server["key"], "-tls1_3", "-rev", "-record_padding", str(size)]))
                server.wait_for(b"ACCEPT\n")
                sock = self.keep(connect(self.proxy(f"127.0.0.1:{port}", upstream=self.to_upstream).address()))
                # s_client responds line by line.
                for line in lines.splitlines()[:50]:
                    sock.sendall(line + b"\n")
                    response = b""
                    while not response.endswith(b"\n"):
                        response += sock.recv(65536)
                    self.assertEqual(response, line[::-1] + b"\n")


class KeyUpdates(BulkTest):

    ROUNDS = 20_000 if LONG else 200 if SANITIZER else 1000

    def test_storms_from_client(self):
        """The maximum number of updates in a row, then data, repeatedly."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for request in (False, True):
            report, = GoPeer.client(proxy.address(), 120, do="updates", updates=UPDATES_IN_A_ROW, rounds=self.ROUNDS,
                                    request=request, ca=self.ca)
            self.check(report)
            self.assertEqual(report["SentBytes"], 100 * self.ROUNDS)
            self.assertEqual(report["ReceivedHash"], report["SentHash"])
            self.assertEqual(report["UpdatesSent"], UPDATES_IN_A_ROW * self.ROUNDS)
            # One response is enough for many requests, but at least one must arrive.
            self.assertGreaterEqual(report["UpdatesReceived"], 1 if request else 0)
            self.assertLessEqual(report["UpdatesReceived"], report["UpdatesSent"] if request else 0)

    def test_storms_from_server(self):
        for request in (False, True):
            server = self.keep(GoPeer(do="updates", updates=UPDATES_IN_A_ROW, rounds=self.ROUNDS, request=request,
                                      seconds=120, **self.credentials))
            proxy = self.proxy(server.address, upstream=self.to_upstream)
            echo(self.keep(connect(proxy.address())))
            report = server.report()
            self.check(report)
            self.assertEqual(report["ReceivedHash"], report["SentHash"])
            self.assertGreaterEqual(report["UpdatesReceived"], 1 if request else 0)
            self.assertLessEqual(report["UpdatesReceived"], report["UpdatesSent"] if request else 0)

    def test_one_too_many_from_client(self):
        """The client gets the alert, the log has a line, and other clients are still served."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for times in (1, 2):
            report, = GoPeer.client(proxy.address(), do="updates", updates=UPDATES_IN_A_ROW + 1, request=True, ca=self.ca)
            self.assertEqual(report["Alert"], UNEXPECTED_MESSAGE)
            proxy.wait_for(lambda s: s.ended("tls_error") == times)
        proxy.wait_for_output("TLS with it failed: too many KeyUpdates")
        self.still_serves(proxy, True)

    def test_one_too_many_from_server(self):
        server = self.keep(GoPeer(do="updates", updates=UPDATES_IN_A_ROW + 1, request=True, **self.credentials))
        proxy = self.proxy(server.address, upstream=self.to_upstream)
        with self.assertRaises(ConnectionError):  # Not everything arrived. The reset may come while it still connects.
            client = self.keep(connect(proxy.address()))
            while client.recv(65536):
                pass
        report = server.report()
        proxy.wait_for(lambda s: s.ended("upstream_error") == 1)
        proxy.wait_for_output(f"TLS with {server.address} failed: too many KeyUpdates")
        self.assertEqual(report["Alert"], UNEXPECTED_MESSAGE, report)

    def s_client(self, proxy):
        client = self.keep(Process(["openssl", "s_client", "-connect", "%s:%d" % proxy.address(), "-CAfile", self.ca,
                                    "-servername", "localhost", "-tls1_3"]))
        client.wait_for(b"Verify return code: 0 (ok)")
        return client

    def command(self, client, letter):
        """s_client accepts a command only alone, so each waits for the previous one."""
        count = client.output.count(b"KEYUPDATE") + 1
        client.write(letter + b"\n")
        harness.wait_until(lambda: client.output.count(b"KEYUPDATE") == count, what="the key update")

    def test_storm_by_openssl(self):
        """Rows of updates, half of which request one, while the other side sends data all the time."""
        rows, received = 30 if not SANITIZER else 10, bytearray()

        def serve(sock):
            stop = threading.Event()

            def send():
                with contextlib.suppress(OSError):
                    while not stop.wait(0.001):
                        sock.sendall(b"a line of the origin's\n" * 50)
            threading.Thread(target=send, daemon=True).start()
            while data := sock.recv(65536):
                received.extend(data)
            stop.set()
        proxy = self.terminating(self.keep(Origin(serve)).address)
        client = self.s_client(proxy)
        for i in range(rows):
            for letter in (b"K", b"k") * 15:
                self.command(client, letter)
            client.write(b"line %d\n" % i)
            harness.wait_until(lambda: received.endswith(b"line %d\n" % i), what="the line")
        self.assertEqual(bytes(received), b"".join(b"line %d\n" % i for i in range(rows)))
        client.child.stdin.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_one_too_many_by_openssl(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        client = self.s_client(proxy)
        for _ in range(UPDATES_IN_A_ROW):
            self.command(client, b"k")
        client.write(b"hello\n")
        client.wait_for(b"hello\n")
        for _ in range(UPDATES_IN_A_ROW + 1):
            self.command(client, b"k")
        client.wait_for(b"alert unexpected message")
        proxy.wait_for_output("TLS with it failed: too many KeyUpdates")
        self.still_serves(proxy, True)


if __name__ == "__main__":
    harness.main()
