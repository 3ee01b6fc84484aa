"""Websockets over HTTP/2 after they have moved to another process: what arrives before an end or a reset, how ends are
passed on, and that timeouts and shutdown still hold."""

import re
import signal
import socket

import harness
import http_wire as wire
from harness import KIB, SLOWNESS
from http_websocket_test import accept_of, connect_fields
from http_wire import Http2Client
from origins import Origin, outcome, receive_exactly
from origins import reset as reset_socket
from reload_test import listener, upstream
from upgrade_test import UpgradeTest


class StreamTunnels(UpgradeTest):

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin())

    def config(self, origin=None, shutdown_timeout="5s", **http):
        return {"workers": 1, "shutdown_timeout": shutdown_timeout,
                "listeners": [listener("main", http={"forward": "x", **http})],
                "upstreams": [upstream("x", origin or self.origin)]}

    def open(self, client, stream):
        """Opens a websocket. Returns the message of its stream, and the endpoint's socket."""
        client.send(wire.headers_frame(stream, connect_fields("/")))
        sock = self.keep(self.origin.accept())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        key = re.search(rb"sec-websocket-key: (\S+)", head)[1].decode()
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                     b"sec-websocket-accept: " + accept_of(key).encode() + b"\r\n\r\n")
        self.assertTrue(client.wait(lambda: stream in client.reader.streams))
        return client.reader.streams[stream], sock

    def moved(self, count, **http):
        """A proxy after an upgrade, its client, and the websockets that moved."""
        proxy = self.start(self.config(**http))
        client = self.keep(Http2Client(proxy.address()))
        tunnels = [self.open(client, 1 + 2 * i) for i in range(count)]
        self.assertIn("1 connections moved, 0 still end or move here", proxy.upgrade())
        return proxy, client, tunnels

    def check(self, client, stream, message, sock):
        """Bytes pass in both directions."""
        before = len(message.body)
        client.send(wire.data_frame(stream, b"there"))
        self.assertEqual(receive_exactly(sock, 5), b"there")
        sock.sendall(b"back")
        self.assertTrue(client.wait(lambda: message.body[before:] == b"back"), message)

    def test_ends(self):
        proxy, client, tunnels = self.moved(6)
        (first, one), (second, two), (third, three), (fourth, four), (fifth, five), (last, six) = tunnels
        with self.subTest("the client ends, then the endpoint"):
            client.send(wire.data_frame(1, b"bye", end=True))
            self.assertEqual(receive_exactly(one, 3), b"bye")
            self.assertEqual(outcome(one), "end")
            one.sendall(b"good bye")
            one.close()
            self.assertTrue(client.wait(lambda: first.complete), first)
            self.assertEqual(first.body, b"good bye")
        with self.subTest("the endpoint ends, then the client"):
            two.sendall(b"bye")
            two.shutdown(socket.SHUT_WR)
            self.assertTrue(client.wait(lambda: second.complete), second)
            self.assertEqual(second.body, b"bye")
            client.send(wire.data_frame(3, b"good bye", end=True))
            self.assertEqual(receive_exactly(two, 8), b"good bye")
            self.assertEqual(outcome(two), "end")
        with self.subTest("the client resets"):
            client.send(wire.rst_frame(5))
            self.assertEqual(outcome(three), "reset")
            self.assertFalse(third.complete)
        with self.subTest("the endpoint resets"):
            four.sendall(b"before")
            self.assertTrue(client.wait(lambda: fourth.body == b"before"))
            reset_socket(four)
            self.assertTrue(client.wait(lambda: fourth.failure), fourth)
        with self.subTest("the endpoint resets behind data for which the client has no window yet"):
            data = b"x" * (256 * KIB)
            client.reader.polite = False
            five.sendall(data)
            self.assertTrue(client.wait(lambda: len(fifth.body) >= 65535 - 100), fifth)
            harness.wait_until(lambda: proxy.stats().total("endpoint_received_bytes_total") >= 11 + 6 + len(data),
                               what="all data to be there")
            reset_socket(five)
            client.send(wire.window_frame(0, len(data)) + wire.window_frame(9, len(data)))
            self.assertTrue(client.wait(lambda: fifth.failure), fifth)
            self.assertEqual(fifth.body, data)
        client.reader.polite = True
        self.check(client, 11, last, six)
        client.close()
        self.assertEqual(outcome(six), "reset")
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_new_requests(self):
        """The connection takes new websockets, and moves with those and the old ones."""
        proxy, client, tunnels = self.moved(2)
        tunnels.append(self.open(client, 5))
        for _ in range(2):
            for i, (message, sock) in enumerate(tunnels):
                self.check(client, 1 + 2 * i, message, sock)
            self.assertIn("1 connections moved, 0 still end or move here", proxy.upgrade())

    def test_tunnel_timeout(self):
        _, client, ((message, sock),) = self.moved(1, tunnel_timeout=f"{2 * SLOWNESS}s")
        self.check(client, 1, message, sock)
        self.assertTrue(client.wait(lambda: message.failure), message)
        self.assertEqual(outcome(sock), "reset")

    def test_shutdown(self):
        """What is left at shutdown_timeout is reset, and nothing is left in memory."""
        proxy = self.start(self.config(shutdown_timeout="300ms"), cut_allowed=True)
        client = self.keep(Http2Client(proxy.address()))
        message, sock = self.open(client, 1)
        proxy.upgrade()
        self.check(client, 1, message, sock)
        proxy.signal(signal.SIGTERM)
        self.assertEqual(outcome(sock), "reset")
        self.stop(proxy, cut_allowed=True)

    def test_endpoint_is_not_configured_any_more(self):
        """The connection stays in the old process, and goes on there."""
        proxy = self.start(self.config())
        client = self.keep(Http2Client(proxy.address()))
        message, sock = self.open(client, 1)
        proxy.write_configuration(self.config(self.keep(Origin())))
        self.assertIn("0 connections moved, 1 still end or move here", proxy.upgrade(waits=False))
        self.check(client, 1, message, sock)
        client.close()
        self.assertEqual(outcome(sock), "reset")


if __name__ == "__main__":
    harness.main()
