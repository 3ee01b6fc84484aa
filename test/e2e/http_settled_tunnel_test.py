"""Websockets that were quiet for a while, and so continue as small objects without HTTP: how much memory each takes, and
that they go on as those do that were never quiet.

Defect: an idle websocket over TLS kept all that its request had needed: 2.5 KB.
"""

import json
import os
import signal
import time
import unittest

import harness
from harness import KIB, MIB, SLOWNESS
from origins import Origin, receive_exactly
from settled_tunnel_support import SETTLED_SECONDS, SettledTest, leave


class Continues(SettledTest):

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin())

    def settled(self, count=1, **options):
        proxy = self.begin(self.origin, **options)
        tunnels = [self.open(proxy, self.origin) for _ in range(count)]
        time.sleep(SETTLED_SECONDS)
        return proxy, tunnels

    def test_messages_and_pauses(self):
        proxy, tunnels = self.settled(3)
        for _ in range(2):
            for tunnel in tunnels:
                self.both(tunnel)
            time.sleep(SETTLED_SECONDS)
        stats = proxy.stats()
        self.assertEqual((stats.total("http_requests_active"), stats.total("sessions_active")), (3, 3))

    def test_half_close(self):
        """Each side may go on sending after the other has ended."""
        _, [(client, server)] = self.settled()
        server.sendall(b"last")
        server.shutdown(1)
        self.assertEqual(receive_exactly(client, 4), b"last")
        self.assertEqual(client.recv(1), b"")
        client.sendall(b"more")
        self.assertEqual(receive_exactly(server, 4), b"more")

    def test_large_transfers(self):
        """Both ways, after a pause."""
        _, [(client, server)] = self.settled()
        data = os.urandom(MIB)
        for _ in range(8):
            for to, at in ((client, server), (server, client)):
                for start in range(0, MIB, 64 * KIB):
                    to.sendall(data[start:start + 64 * KIB])
                    self.assertEqual(receive_exactly(at, 64 * KIB), data[start:start + 64 * KIB])

    def fill(self, server):
        """Sends until nothing is taken any more."""
        server.settimeout(2 * SLOWNESS)
        sent = 0
        try:
            while sent < 256 * MIB:
                sent += server.send(bytes(256 * KIB))
        except TimeoutError:
            pass
        return sent

    def test_client_does_not_read(self):
        """It ends after send_timeout, and what waits for it is bounded until then."""
        proxy, [(_, server)] = self.settled(http={"send_timeout": f"{int(3 * SLOWNESS)}s"})
        self.fill(server)
        self.assertLess(proxy.stats().total("pool_pinned_bytes"), 4 * MIB)
        proxy.wait_for(lambda s: s.total("http_requests_ended_total", reason="client_reset") == 1, 20)
        self.assertEqual(proxy.stats().ended("stuck"), 1)

    def test_client_that_sends_but_does_not_read(self):
        """Its own bytes are no reason to wait longer."""
        proxy, [(client, server)] = self.settled(http={"send_timeout": f"{int(3 * SLOWNESS)}s"})
        self.fill(server)
        deadline = time.monotonic() + 20 * SLOWNESS
        while proxy.stats().ended("stuck") == 0 and time.monotonic() < deadline:
            try:
                client.sendall(b"x")
            except OSError:
                break
            time.sleep(0.2)
        proxy.wait_for(lambda s: s.ended("stuck") == 1, 5)

    def test_drain(self):
        """It continues until its peers end it."""
        proxy, [tunnel] = self.settled(shutdown_timeout="60s")
        proxy.signal(signal.SIGTERM)
        proxy.wait_for_output("draining")
        self.both(tunnel)
        leave(tunnel[0])
        tunnel[1].close()
        proxy.process.wait(20 * SLOWNESS)

    def test_reload(self):
        """A reload leaves it where it is, as part of the configuration that it began with."""
        proxy, [tunnel] = self.settled()
        config = json.loads(json.dumps(proxy.config))
        config["listeners"][0]["http"]["tunnel_timeout"] = "77m"
        proxy.reload(config)
        self.both(tunnel)
        time.sleep(SETTLED_SECONDS)
        self.both(tunnel)
        client, server = tunnel
        leave(client)
        server.close()
        proxy.wait_for(lambda s: s.total("http_requests_active") == 0)

    def test_upgrade(self):
        proxy, tunnels = self.settled(3)
        self.assertIn("3 connections moved, 0 still", proxy.upgrade())
        for tunnel in tunnels:
            self.both(tunnel)
        with open(self.log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["reason"] for line in lines], ["moved"] * 3)


class Memory(SettledTest):

    @unittest.skipIf(harness.SANITIZER, "a sanitizer's shadow memory")
    def test_memory(self):
        count, most = 800, 1800
        origin = self.keep(Origin())
        config = self.http_config(origin, listener={"tls": {"certificates": [self.server]}})
        proxy = self.start({**config, "workers": 1}, cut_allowed=True)
        for client, server in [self.open(proxy, origin) for _ in range(30)]:
            client.close()
            server.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        base = proxy.pss()
        tunnels = []
        for _ in range(4):  # What comes later reuses the memory of what has settled.
            tunnels += [self.open(proxy, origin) for _ in range(count // 4)]
            time.sleep(SETTLED_SECONDS)
        idle = proxy.settled_pss(base + count * most)
        harness.print_note(f"{count} idle websockets over TLS: {(idle - base) / count:.0f} bytes each (PSS)")
        self.assertLessEqual((idle - base) / count, most)
        for tunnel in tunnels[::50]:
            self.both(tunnel)


if __name__ == "__main__":
    harness.main()
