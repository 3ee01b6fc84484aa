"""Websockets whose TLS connection is cut on one side: the other side must not take the cut for an orderly end."""

import base64
import hashlib
import re
import socket
import ssl

import harness
from origins import Origin, connect, last_outcome, receive_exactly
from tls_support import TlsTest

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
REQUEST = (b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
           b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n")
LAST_WORDS = b"last words"


def receive_head(sock):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = sock.recv(1)
        if not piece:
            raise AssertionError(f"the connection ended behind {head}")
        head += piece
    return head


def cut(tls):
    """Sends something, and ends the connection below TLS."""
    tls.sendall(LAST_WORDS)
    tls.shutdown(socket.SHUT_WR)  # Python does this without close_notify.


class Cut(TlsTest):
    """Defect: the other side got an orderly end: FIN, and in TLS close_notify."""

    def complete_upgrade(self, client, server):
        """The server's part of the handshake, and the end of the client's."""
        key = re.search(rb"\r\nsec-websocket-key: (\S+)\r\n", receive_head(server))[1]
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        server.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                       b"sec-websocket-accept: " + accept + b"\r\n\r\n")
        self.assertTrue(receive_head(client).startswith(b"HTTP/1.1 101 "))
        server.sendall(b"hello")
        self.assertEqual(receive_exactly(client, 5), b"hello")

    def http_config(self, origin, listener=None, upstream=None):
        config = harness.configuration([origin.address], listener=listener, upstream=upstream)
        config["listeners"][0]["http"] = config["listeners"][0].pop("tcp")
        return config

    def test_client_is_cut(self):
        origin = self.keep(Origin())
        proxy = self.start(self.http_config(origin, listener={"tls": {"certificates": [self.server]}}))
        client = self.secure(proxy.address())
        client.sendall(REQUEST)
        server = self.keep(origin.accept())
        self.complete_upgrade(client, server)
        cut(client)
        self.assertEqual(receive_exactly(server, len(LAST_WORDS)), LAST_WORDS)
        self.assertEqual(last_outcome(server), "reset")

    def test_server_is_cut(self):
        origin = self.keep(Origin())
        proxy = self.start(self.http_config(
            origin, upstream={"tls": {"ca": self.ca, "server_name": "localhost"}}))
        client = self.keep(connect(proxy.address()))
        client.sendall(REQUEST)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        server = self.keep(context.wrap_socket(origin.accept(), server_side=True))
        self.complete_upgrade(client, server)
        cut(server)
        self.assertEqual(receive_exactly(client, len(LAST_WORDS)), LAST_WORDS)
        self.assertEqual(last_outcome(client), "reset")

    def test_orderly_end(self):
        origin = self.keep(Origin())
        proxy = self.start(self.http_config(origin, listener={"tls": {"certificates": [self.server]}}))
        client = self.secure(proxy.address())
        client.sendall(REQUEST)
        server = self.keep(origin.accept())
        self.complete_upgrade(client, server)
        server.sendall(LAST_WORDS)
        server.shutdown(socket.SHUT_WR)
        self.assertEqual(receive_exactly(client, len(LAST_WORDS)), LAST_WORDS)
        self.assertEqual(client.recv(1), b"")  # close_notify: otherwise Python raises.
        client.unwrap().close()
        self.assertEqual(last_outcome(server), "end")


if __name__ == "__main__":
    harness.main()
