"""TLS peers that fail at each stage: what the other side then sees, and that no resources are left."""

import os
import socket
import ssl
import time

import harness
from harness import MIB
from origins import Origin, connect, last_outcome, outcome, receive_all, receive_exactly, receive_until, reset
from tls_support import TlsTest

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
# Longer than the time after which an idle connection keeps only its keys.
PARKED_AFTER_SECONDS = 1.5


class Clients(TlsTest):
    """Clients of a proxy in front of a plaintext server."""

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin())
        self.sluice = self.terminating(self.origin.address)
        self.ends = {}

    def ended(self, reason):
        """One more session has ended with this reason, and none is left."""
        self.ends[reason] = self.ends.get(reason, 0) + 1
        self.sluice.wait_for(lambda s: s.ended(reason) == self.ends[reason] and s.total("sessions_active") == 0,
                             what=f"{self.ends[reason]} sessions that ended as {reason}")

    def pair(self, version):
        client = self.secure(self.sluice.address(), self.context(version))
        return client, self.keep(self.origin.accept())

    def hello(self):
        outgoing = ssl.MemoryBIO()
        tls = self.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def end_within_hello(self, leave):
        hello = self.hello()
        for count in (0, 1, 4, 5, 6, 60, len(hello) - 1, len(hello)):
            plain = connect(self.sluice.address())
            plain.sendall(hello[:count])
            time.sleep(0.01)
            leave(plain)
        self.sluice.wait_for(lambda s: s.total("sessions_active") == 0, what="the end of all handshakes")
        self.assertEqual(self.sluice.stats().total("tls_handshakes_total"), 0)

    def test_handshake_is_reset(self):
        self.end_within_hello(reset)

    def test_handshake_is_aborted(self):
        self.end_within_hello(socket.socket.close)

    def test_resets_while_idle(self):
        for version in VERSIONS:
            for seconds in (0.1, PARKED_AFTER_SECONDS):
                client, server = self.pair(version)
                time.sleep(seconds)
                reset(client)
                self.assertEqual(outcome(server), "reset")
                self.ended("client_error")
                client, server = self.pair(version)
                time.sleep(seconds)
                reset(server)
                self.assertEqual(end_below(client), "reset")
                self.ended("upstream_error")

    def test_resets_during_stream(self):
        for version in VERSIONS:
            client, server = self.pair(version)
            client.sendall(bytes(MIB))
            reset(client)
            self.assertEqual(last_outcome(server), "reset")
            self.ended("client_error")
            client, server = self.pair(version)
            server.sendall(bytes(MIB))
            client.recv(1000)
            reset(server)
            self.assertEqual(end_below(client), "reset")
            self.ended("upstream_error")

    def test_client_that_does_not_read_resets(self):
        """Sealed data for the client, and data that waits to be sealed, is freed."""
        for version in VERSIONS:
            client, server = self.pair(version)
            server.settimeout(0.5)
            with self.assertRaises(socket.timeout):
                for _ in range(64):
                    server.sendall(bytes(MIB))
            reset(client)
            self.assertEqual(last_outcome(server), "reset")
            self.ended("client_error")

    def test_partial_record_and_reset(self):
        for seconds in (0.1, PARKED_AFTER_SECONDS):
            plain = connect(self.sluice.address())
            tls, _, outgoing = self.in_memory(plain)
            server = self.keep(self.origin.accept())
            tls.write(os.urandom(16000))
            plain.sendall(outgoing.read()[:9000])
            time.sleep(seconds)
            reset(plain)
            self.assertEqual(receive_or_reset(server), (b"", "reset"))
            self.ended("client_error")

    def test_partial_record_and_end(self):
        """A truncated stream (RFC 8446, section 6.1): the origin sees a reset after the complete records, and nothing
        of the partial one."""
        plain = connect(self.sluice.address())
        tls, _, outgoing = self.in_memory(plain)
        server = self.keep(self.origin.accept())
        tls.write(b"whole")
        tls.write(b"never")
        plain.sendall(outgoing.read()[:-1])
        plain.close()
        self.assertEqual(receive_or_reset(server), (b"whole", "reset"))
        server.close()
        self.sluice.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("tls_truncated_total") == 1)


class Servers(TlsTest):
    """Servers behind a proxy that originates TLS."""

    def behind(self, *origins, **upstream):
        return self.proxy(*(origin.address for origin in origins),
                          upstream={"tls": {"ca": self.ca, "server_name": "localhost"}, **upstream})

    def server_context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        return context

    def test_reset_handshakes(self):
        """At once, and after the client's first flight: the client sees the failure, whatever it has sent already."""
        for wait in (False, True):
            def handler(sock, wait=wait):
                if wait:
                    sock.recv(65536)
                reset(sock)
            sluice = self.behind(self.keep(Origin(handler)), max_fails=0)
            for data in (b"", b"early words"):
                try:
                    client = self.keep(connect(sluice.address()))
                    client.sendall(data)
                    how = outcome(client)
                except ConnectionError:                    # The reset came before the client had sent all of this.
                    how = "reset"
                self.assertIn(how, ("end", "reset"))
            sluice.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_next_endpoint_is_used(self):
        def cut(sock):
            sock.recv(65536)
            reset(sock)

        def serve(sock):
            with self.server_context().wrap_socket(sock, server_side=True) as tls:
                tls.sendall(b"I do: " + tls.recv(100))
                tls.unwrap().close()
        sluice = self.behind(self.keep(Origin(cut)), self.keep(Origin(serve)), max_fails=0)
        for _ in range(4):
            client = self.keep(connect(sluice.address()))
            client.sendall(b"anybody?")
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(receive_all(client), b"I do: anybody?")

    def test_resets_from_either_side(self):
        """Only this thread reads: a reset is reported to one reader only."""
        origin = self.keep(Origin())
        sluice = self.behind(origin)

        def pair():
            client = self.keep(connect(sluice.address()))
            server = self.keep(self.server_context().wrap_socket(origin.accept(), server_side=True))
            server.sendall(b"ready")
            self.assertEqual(receive_exactly(client, 5), b"ready")
            return client, server
        for seconds in (0, PARKED_AFTER_SECONDS):
            client, server = pair()
            client.sendall(b"reset yourself")
            receive_until(server, b"reset yourself")
            time.sleep(seconds)
            reset(server)
            self.assertEqual(outcome(client), "reset")
            client, server = pair()
            time.sleep(seconds)
            reset(client)
            self.assertEqual(end_below(server), "reset")
        sluice.wait_for(lambda s: s.ended("upstream_error") == 2 and s.ended("client_error") == 2)


def receive_or_reset(sock):
    """Everything that arrives, and how the connection ended."""
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionResetError:
        return received, "reset"
    return received, "end"


def end_below(secured):
    """How the stream below TLS ends, whose last records are skipped: Python would report a reset there as an end."""
    try:
        while socket.socket.recv(secured, 65536):
            pass
    except ConnectionResetError:
        return "reset"
    return "end"


if __name__ == "__main__":
    harness.main()
