"""HTTP/2 connections without a request: how much memory each takes, and that they go on as if nothing had been.

Defect: an idle connection of HTTP/2 kept its codec and, for ten to twenty seconds, its header tables: 3.8 KB.
"""

import signal
import time
import unittest

import harness
import http_wire as wire
from harness import SLOWNESS

IDLE_SECONDS = 1.5 * SLOWNESS  # A connection is idle after one second.
ROUTES = {"routes": [{"respond": {"status": 200, "body": "hello"}}]}
FIRST_DYNAMIC = 0x80 | 62  # RFC 7541, section 6.1 and appendix A.


class IdleHttp2(harness.SluiceTest):

    def begin(self, **http):
        return self.start({"workers": 1, "shutdown_timeout": "5s",
                           "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {**ROUTES, **http}}]})

    def client(self, proxy):
        client = self.keep(wire.Http2Client(proxy.address()))
        self.assertEqual(client.get("/").status, 200)
        return client

    @unittest.skipIf(harness.SANITIZER, "a sanitizer's shadow memory")
    def test_memory(self):
        count, most = 2000, 900
        proxy = self.begin()
        for client in [self.client(proxy) for _ in range(50)]:  # Allocates everything that is allocated once.
            client.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        base = proxy.pss()
        clients = [self.client(proxy) for _ in range(count)]
        time.sleep(2)
        idle = proxy.settled_pss(base + count * most)
        harness.print_note(f"{count} idle connections of HTTP/2: {(idle - base) / count:.0f} bytes each (PSS)")
        self.assertLessEqual((idle - base) / count, most)
        for client in clients[::100]:
            self.assertEqual(client.get("/").status, 200)

    def test_requests_after_a_pause(self):
        """With the header table of before, and a PING between."""
        client = self.client(self.begin())
        block = wire.hpack(wire.request_fields()) + wire.hpack([("x-test", "v" * 100)], index=True)
        client.send(wire.frame(wire.HEADERS, wire.END_STREAM | wire.END_HEADERS, 3, block))
        self.assertEqual(client.response(3).status, 200)
        for stream in (5, 7):
            time.sleep(IDLE_SECONDS)
            client.send(wire.frame(wire.PING, payload=b"12345678"))
            block = wire.hpack(wire.request_fields()) + bytes([FIRST_DYNAMIC])
            client.send(wire.frame(wire.HEADERS, wire.END_STREAM | wire.END_HEADERS, stream, block))
            self.assertEqual(client.response(stream).status, 200)
        self.assertIsNone(client.reader.goaway)
        # A table that was forgotten would be noticed: this entry was never made.
        client.send(wire.frame(wire.HEADERS, wire.END_STREAM | wire.END_HEADERS, 9, bytes([FIRST_DYNAMIC + 1])))
        client.wait(lambda: client.reader.goaway)
        self.assertEqual(client.ending(), "end")

    def test_idle_timeout(self):
        proxy = self.begin(idle_timeout=f"{int(2500 * SLOWNESS)}ms")
        client = self.client(proxy)
        client.wait(lambda: client.reader.goaway)
        self.assertEqual(client.ending(), "end")
        proxy.wait_for(lambda s: s.ended("idle_timeout") == 1)

    def test_shutdown(self):
        """A GOAWAY that admits what is on its way comes first, as for one with requests."""
        proxy = self.begin()
        client = self.client(proxy)
        time.sleep(IDLE_SECONDS)
        proxy.signal(signal.SIGTERM)
        client.wait(lambda: client.reader.goaway)
        self.assertEqual(client.ending(), "end")

    def test_clients_that_leave(self):
        proxy = self.begin()
        clients = [self.client(proxy) for _ in range(4)]
        time.sleep(IDLE_SECONDS)
        clients[0].close()
        clients[1].reset()
        clients[2].send(wire.goaway_frame(0))
        clients[2].close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 1)
        self.assertEqual(clients[3].get("/").status, 200)


if __name__ == "__main__":
    harness.main()
