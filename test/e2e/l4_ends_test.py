"""How connections of `tcp` listeners end when one side fails: data that arrived is not lost, truncated data does not
look complete, and the counters name the side that failed."""

import os
import socket
import ssl
import time

import harness
from harness import KIB
from origins import BlackHole, Origin, connect, last_outcome, outcome, outcome_of_connecting, receive_exactly, refused_address
from tls_support import TlsTest

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def receive_or_reset(sock):
    """Everything that arrives, and how the connection ended."""
    parts = []
    while True:
        how = outcome(sock)
        if isinstance(how, str):
            return b"".join(parts), how
        parts.append(how)


class Ends(TlsTest):

    def test_response_before_reset(self):
        """Defect: with the origin's reset the proxy dropped what the client had not taken yet: 124 KB of 600
        arrived."""
        body = os.urandom(600 * KIB)

        def refuse(sock):
            sock.recv(1000)
            sock.sendall(body)
            time.sleep(1)
            sock.close()                                   # Most of the request is unread: the kernel sends a reset.
        proxy = self.proxy(self.keep(Origin(refuse)).address)
        client = self.keep(connect(proxy.address(), receive_buffer=16 * KIB))
        client.sendall(bytes(100 * KIB))
        time.sleep(2.5)
        received, how = receive_or_reset(client)
        self.assertEqual((len(received), how), (len(body), "reset"))
        self.assertTrue(received == body)
        proxy.wait_for(lambda s: s.ended("upstream_error") == 1)

    def test_no_endpoint_is_not_an_empty_response(self):
        """Defect: the client's connection ended cleanly, as if the response were empty."""
        hole = self.keep(BlackHole())
        deaf = self.keep(Origin(lambda sock: time.sleep(3)))
        garbled = self.keep(Origin(lambda sock: sock.sendall(b"no TLS at all\r\n")))
        tls = {"tls": {"server_name": "localhost", "ca": self.ca}}
        for endpoint, upstream in ((refused_address(), {}), (hole.address, {"connect_timeout": "200ms"}),
                                   (deaf.address, {**tls, "connect_timeout": "200ms"}), (garbled.address, tls)):
            proxy = self.proxy(endpoint, upstream=upstream)
            self.assertEqual(outcome_of_connecting(proxy.address()), "reset", (endpoint, upstream))
            proxy.wait_for(lambda s: s.ended("no_endpoint") == 1)

    def test_tls_client_is_cut(self):
        """Defect: an end without close_notify was an orderly end for a plaintext server, which took the data for
        complete."""
        origin = self.keep(Origin())
        proxy = self.terminating(origin.address)
        count = 0
        for version in VERSIONS:
            for half in (False, True):
                plain = connect(proxy.address())
                tls, _, outgoing = self.in_memory(plain, self.context(version))
                server = self.keep(origin.accept())
                body = os.urandom(400_000)
                for at in range(0, len(body), 16000):
                    tls.write(body[at:at + 16000])
                records = outgoing.read()
                plain.sendall(records)
                if half:
                    tls.write(b"never whole")
                    plain.sendall(outgoing.read()[:-1])
                plain.shutdown(socket.SHUT_WR)
                received, how = receive_or_reset(server)
                self.assertEqual((received == body, how), (True, "reset"))
                plain.close()
                count += 1
                proxy.wait_for(lambda s: s.ended("client_error") == count and s.total("tls_truncated_total") == count)

    def test_tls_server_is_cut(self):
        """The same in the other direction."""
        body = os.urandom(400_000)
        for version in VERSIONS:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(self.server["chain"], self.server["key"])

            def serve(sock):
                with context.wrap_socket(sock, server_side=True) as tls:
                    tls.sendall(body)
                    tls.shutdown(socket.SHUT_WR)           # Below TLS.
                    time.sleep(1)
            proxy = self.proxy(self.keep(Origin(serve)).address,
                               upstream={"tls": {"server_name": "localhost", "ca": self.ca}})
            client = self.keep(connect(proxy.address()))
            received, how = receive_or_reset(client)
            self.assertEqual((received == body, how), (True, "reset"))
            proxy.wait_for(lambda s: s.ended("upstream_error") == 1 and s.total("endpoint_tls_truncated_total") == 1)

    def test_alert_arrives_before_reset(self):
        """Defect: the connection was closed with unread bytes, so that a reset overtook the alert (RFC 8446 section
        6.2)."""
        origin = self.keep(Origin())
        proxy = self.terminating(origin.address)
        for _ in range(5):
            plain = self.keep(connect(proxy.address()))
            tls, incoming, outgoing = self.in_memory(plain)
            server = self.keep(origin.accept())
            tls.write(b"good")
            broken = bytearray(outgoing.read())
            broken[-1] ^= 1
            plain.sendall(broken)
            for _ in range(20):
                plain.sendall(bytes(16 * KIB))
                time.sleep(0.005)
            time.sleep(0.1)
            received, how = receive_or_reset(plain)
            self.assertEqual(how, "end")
            incoming.write(received)
            with self.assertRaisesRegex(ssl.SSLError, "(?i)alert.bad.record.mac"):
                while True:
                    tls.read(1000)
            plain.close()
            self.assertEqual(last_outcome(server), "reset")
        proxy.wait_for(lambda s: s.ended("tls_error") == 5)

    def test_proxy_header_before_tls_is_counted(self):
        """Defect: the header before a handshake was not counted among the bytes sent to the endpoint."""
        header = []

        def serve(sock):
            while not header or not header[0].endswith(b"\r\n"):
                header[:] = [b"".join(header) + sock.recv(1)]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.server["chain"], self.server["key"])
            with context.wrap_socket(sock, server_side=True) as tls:
                tls.sendall(tls.recv(100))
                tls.recv(1)
        proxy = self.proxy(self.keep(Origin(serve)).address, cut_allowed=True, upstream={
            "tls": {"server_name": "localhost", "ca": self.ca}, "send_proxy_protocol": "v1"})
        client = self.keep(connect(proxy.address()))
        client.sendall(b"ping")
        self.assertEqual(receive_exactly(client, 4), b"ping")
        wanted = len(header[0]) + 4
        proxy.wait_for(lambda s: s.total("endpoint_sent_bytes_total") == wanted, what=f"{wanted} bytes out")


if __name__ == "__main__":
    harness.main()
