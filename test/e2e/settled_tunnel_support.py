"""Tunnels that settle: those that were quiet for a while continue as small objects without HTTP."""

import contextlib
import os

import http_tunnel_cut_test as tunnel_cut
from harness import SLOWNESS
from http_tunnel_cut_test import REQUEST
from origins import PATIENCE_SECONDS, connect, receive_exactly

SETTLED_SECONDS = 2 * SLOWNESS  # A tunnel settles one second after its last byte.


def leave(client):
    """Ends its direction in order, whatever the other one does."""
    client.settimeout(0.1)
    with contextlib.suppress(OSError):
        client.unwrap()
    client.settimeout(PATIENCE_SECONDS)


class SettledTest(tunnel_cut.Cut):
    """Without the tests of the base class."""

    test_client_is_cut = test_server_is_cut = test_orderly_end = None

    def begin(self, origin, tls=True, http=(), log_format="json", **top):
        self.log = os.path.join(self.temporary_directory(), "log")
        listener = {"tls": {"certificates": [self.server]}} if tls else None
        config = self.http_config(origin, listener=listener)
        config["listeners"][0]["http"].update({"access_log": {"file": self.log, "format": log_format},
                                               "request_id": {"header": "x-request-id"}, **dict(http)})
        return self.start({**config, "workers": 1, **top}, cut_allowed=True)

    def open(self, proxy, origin, tls=True, head=REQUEST):
        client = self.secure(proxy.address()) if tls else self.keep(connect(proxy.address()))
        client.sendall(head)
        server = self.keep(origin.accept())
        self.complete_upgrade(client, server)
        return client, server

    def both(self, tunnel):
        """Bytes pass in both directions."""
        client, server = tunnel
        client.sendall(b"there")
        self.assertEqual(receive_exactly(server, 5), b"there")
        server.sendall(b"back")
        self.assertEqual(receive_exactly(client, 4), b"back")
