"""Websockets that were quiet for a while, and so continue as small objects without HTTP: how much memory each takes, and
that they end, and are counted, logged and shown, as those do that were never quiet.

Defect: an idle websocket over TLS kept all that its request had needed: 2.5 KB.
"""

import contextlib
import json
import os
import signal
import time
import unittest

import harness
import http_tunnel_cut_test as tunnel_cut
from harness import KIB, MIB, SLOWNESS
from http_tunnel_cut_test import REQUEST
from origins import PATIENCE_SECONDS, Origin, connect, last_outcome, receive_exactly, reset

SETTLED_SECONDS = 2 * SLOWNESS  # A tunnel settles one second after its last byte.

COUNTERS = {f"{name}_total" for name in (
    "accepted", "received_bytes", "sent_bytes", "sessions_ended", "sessions_reset", "sessions_resumed", "tls_truncated",
    "http_requests", "http_requests_ended", "http_responses", "http_tunnels", "http_request_body_bytes",
    "http_response_body_bytes", "http1_messages", "http1_lost", "http1_malformed", "endpoint_connections",
    "endpoint_received_bytes", "endpoint_sent_bytes", "endpoint_tls_truncated", "upstream_requests",
    "upstream_connections_opened", "access_log_lines", "log_lines")}


def comparable(stats):
    """The counters that are not 0, without the endpoint's address."""
    return {(name, *(label for label in labels if label[0] != "endpoint")): value
            for (name, labels), value in stats.items() if name in COUNTERS and value}


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


class Ends(SettledTest):
    """Each end once without a pause and once settled: what the peers see, the line and the counters must be the same."""

    def check(self, end, reason, tls=True, http=(), signals=None, log_format="json"):
        seen = []
        for pause in (0, SETTLED_SECONDS):
            origin = self.keep(Origin())
            proxy = self.begin(origin, tls, http, log_format, shutdown_timeout="1s")
            head = REQUEST[:-2] + b"user-agent: test/1\r\ncookie: a=1\r\nx-request-id: 17\r\n\r\n"
            tunnel = self.open(proxy, origin, tls, head)
            self.both(tunnel)
            time.sleep(pause)
            what = end(*tunnel) if not signals else proxy.signal(signals)
            proxy.wait_for(lambda s: s.total("http_requests_ended_total") == 1, 20) if not signals else None
            stats = self.stop(proxy, cut_allowed=True)
            with open(self.log, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 1, lines)
            line = json.loads(lines[0]) if log_format == "json" else {"line": lines[0]}
            for name in list(line):
                if name in ("time", "duration_us", "client_port", "upstream_us", "request_id", "endpoint"):
                    line[name] = bool(line[name])
            seen.append((what, sorted(line.items()), comparable(stats)))
        self.assertEqual(seen[0][:2], seen[1][:2])
        self.assertEqual(seen[0][2], seen[1][2])
        self.assertIn(reason, str(seen[0][1]))

    def test_client_closes(self):
        def end(client, server):
            leave(client)
            how = last_outcome(server)
            server.close()
            return how
        self.check(end, "ok")

    def test_server_closes(self):
        def end(client, server):
            server.close()
            how = client.recv(1)
            leave(client)
            return how
        self.check(end, "ok")

    def test_client_is_cut(self):
        def end(client, server):
            client.shutdown(2)
            return last_outcome(server)
        self.check(end, "client_reset")

    def test_client_resets(self):
        def end(client, server):
            reset(client)
            return last_outcome(server)
        self.check(end, "client_reset")

    def test_plain_client_resets(self):
        def end(client, server):
            reset(client)
            return last_outcome(server)
        self.check(end, "client_reset", tls=False)

    def test_server_resets(self):
        def end(client, server):
            reset(server)
            return last_outcome(client)
        self.check(end, "upstream_reset", tls=False)

    def test_idle_timeout(self):
        def end(client, server):
            return last_outcome(client), last_outcome(server)
        self.check(end, "idle_timeout", tls=False, http={"tunnel_timeout": f"{int(4000 * SLOWNESS)}ms"})

    def test_shutdown(self):
        self.check(None, "shutdown", signals=signal.SIGTERM)

    def test_text_format(self):
        """Fields of the request and of the response that only a format shows."""
        def end(client, server):
            leave(client)
            how = last_outcome(server)
            server.close()
            return how
        self.check(end, "ok a=1", log_format="%{reason} %{header:cookie} %{header:user-agent} "
                   "%{target} %{response_header:server} %{tls_version} %{route} %{client_ip}")


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
        self.assertTrue(proxy.wait_for_output("draining"))
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
