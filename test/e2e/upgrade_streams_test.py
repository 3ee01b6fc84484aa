"""Streams of HTTP/2 that share connections to endpoints move to another process together with all clients of those
connections: data, ends, trailers, resets, windows and timeouts afterwards, and what keeps a connection from moving."""

import contextlib
import signal
import threading
import time

import harness
import http_wire as wire
from harness import KIB, SLOWNESS
from http_wire import Http2Client, Http2Server
from origins import Origin
from reload_test import listener, upstream
from upgrade_test import UpgradeTest


def frames(stream, data, end):
    """DATA of 16 KiB at most."""
    pieces = [data[i:i + 16 * KIB] for i in range(0, len(data), 16 * KIB)] or [b""]
    return b"".join(wire.data_frame(stream, piece, end and piece is pieces[-1]) for piece in pieces)


class Stream:
    """A stream of a client's connection and one of the endpoint's, behind the head of the response."""

    def __init__(self, client, server):
        """`server`: a function that returns the endpoint's side of the connection."""
        self.client = client
        self.at_client, client._next = client._next, client._next + 2
        client.send(wire.request_frame(self.at_client, "POST", "/", end=False))
        self.server = server()
        self.request = self.server.head()
        assert self.request, "the request did not reach the endpoint"
        self.at_server = self.request.stream
        self.server.respond(self.at_server, end=False)
        assert client.wait(lambda: self.at_client in client.reader.streams), "there is no response"
        self.response = client.reader.streams[self.at_client]

    def send(self, data=b"", end=False):
        self.client.send(frames(self.at_client, data, end))

    def respond(self, data=b"", end=False):
        self.server.send(frames(self.at_server, data, end))

    def rally(self, number):
        """Bytes pass in both directions."""
        there, back = b"there %d " % number, b"back %d " % number
        self.send(there)
        assert self.server.wait(lambda: self.request.body.endswith(there)), self.request
        self.respond(back)
        assert self.client.wait(lambda: self.response.body.endswith(back)), self.response


class SharedConnections(UpgradeTest):

    def setUp(self):
        super().setUp()
        self.origin = self.keep(Origin())

    def config(self, origin=None, shutdown_timeout=f"{5 * SLOWNESS}s", upstream_options=None, **http):
        return {"workers": 1, "shutdown_timeout": shutdown_timeout,
                "listeners": [listener(name, http={"forward": "x", **http}) for name in ("main", "other")],
                "upstreams": [upstream("x", origin or self.origin, protocol="http2", **(upstream_options or {}))]}

    def begin(self, clients=2, streams=2, **options):
        """A proxy, and streams of several clients through one connection to the endpoint."""
        self.proxy = self.start(self.config(**options))
        connections = [self.keep(Http2Client(self.proxy.address(("main", "other")[i % 2]))) for i in range(clients)]
        self.server = None
        return [Stream(client, self.endpoint) for client in connections for _ in range(streams)]

    def endpoint(self):
        """The endpoint's side of the one connection."""
        if not self.server:
            self.server = self.keep(Http2Server(self.origin.accept()))
        return self.server

    def move(self, clients=2):
        self.assertIn(f"{clients} connections moved, 0 still end or move here", self.proxy.upgrade())

    def test_moves(self):
        """Three times, with two clients of two listeners on one connection to the endpoint."""
        streams = self.begin()
        for number in range(4):
            for stream in streams:
                stream.rally(number)
            if number < 3:
                self.move()
        self.assertEqual(self.origin.count, 1)
        for stream in streams:
            self.assertEqual(stream.request.body, b"".join(b"there %d " % i for i in range(4)))
            self.assertEqual(stream.response.body, b"".join(b"back %d " % i for i in range(4)))
        stats = self.proxy.stats()
        self.assertEqual((stats.total("resumed_total"), stats.total("sessions_active")), (2, 2))

    def test_many_clients(self):
        """More connections than descriptors fit into one message of a Unix socket (SCM_MAX_FD)."""
        streams = self.begin(clients=400, streams=1, upstream_options={"pool": {"max_streams": 1000}})
        for number in range(2):
            self.move(clients=400)
            for stream in streams:
                stream.rally(number)
        self.assertEqual(self.origin.count, 1)

    def test_ends(self):
        first, second, third, fourth, fifth, last = self.begin(clients=2, streams=3)
        first.send(b"all", end=True)
        self.assertTrue(self.server.wait(lambda: first.request.complete))
        self.move()
        with self.subTest("the request had ended; the response ends with trailers"):
            first.respond(b"result")
            self.server.send(wire.headers_frame(first.at_server, [("grpc-status", "0")], end=True))
            self.assertTrue(first.client.wait(lambda: first.response.complete), first.response)
            self.assertEqual((first.response.body, first.response.trailers), (b"result", [("grpc-status", "0")]))
        with self.subTest("the request ends with trailers, then the response"):
            second.send(b"more")
            second.client.send(wire.headers_frame(second.at_client, [("checksum", "1")], end=True))
            self.assertTrue(self.server.wait(lambda: second.request.complete), second.request)
            self.assertEqual((second.request.body, second.request.trailers), (b"more", [("checksum", "1")]))
            second.respond(b"done", end=True)
            self.assertTrue(second.client.wait(lambda: second.response.complete))
        with self.subTest("the response ends first"):
            third.respond(b"enough", end=True)
            self.assertTrue(third.client.wait(lambda: third.response.complete))
            self.assertTrue(self.server.wait(lambda: third.request.failure), third.request)
        with self.subTest("the client resets"):
            fourth.client.send(wire.rst_frame(fourth.at_client))
            self.assertTrue(self.server.wait(lambda: fourth.request.failure), fourth.request)
        with self.subTest("the endpoint resets"):
            fifth.respond(b"part")
            self.server.send(wire.rst_frame(fifth.at_server, 2))
            self.assertTrue(fifth.client.wait(lambda: fifth.response.failure), fifth.response)
            self.assertEqual(fifth.response.body, b"part")
        last.rally(1)
        self.move()
        last.rally(2)
        with self.subTest("the endpoint's connection is lost"):
            self.server.close()
            self.assertTrue(last.client.wait(lambda: last.response.failure), last.response)
        self.proxy.wait_for(lambda s: s.total("endpoint_active") == 0)

    def test_client_leaves(self):
        """Its streams are reset at the endpoint; the other client's go on."""
        one, _, three, _ = streams = self.begin()
        self.move()
        one.client.close()
        for stream in streams[:2]:
            self.assertTrue(self.server.wait(lambda stream=stream: stream.request.failure))
        three.rally(1)
        self.move(clients=1)
        three.rally(2)

    def test_new_requests(self):
        """Both connections take new streams afterwards, and move with them."""
        streams = self.begin(clients=2, streams=1)
        for number in range(3):
            self.move()
            streams += [Stream(stream.client, self.endpoint) for stream in streams[:2]]
            for stream in streams:
                stream.rally(number)
        self.assertEqual(self.origin.count, 1)

    def test_windows(self):
        """Data that waits for the windows of either side, and windows that are still to be given, move."""
        first, second = self.begin(clients=2, streams=1)
        client = first.client
        client.reader.polite = self.server.reader.polite = False
        down, up = bytes(range(256)) * 400, b"up" * (50 * KIB)

        def bodies():
            return len(first.response.body), len(first.request.body)

        self.server.wait(lambda: self.server.reader.settings)
        first.respond(down[:60 * KIB])
        client.wait(lambda: len(first.response.body) == 60 * KIB)
        first.send(up[:60 * KIB])
        self.server.wait(lambda: len(first.request.body) == 60 * KIB)
        # The rest does not fit into the windows of the receiving sides.
        first.respond(down[60 * KIB:])
        client.wait(lambda: len(first.response.body) >= 65535)
        for _ in range(2):
            self.move()
        first.send(up[60 * KIB:])
        self.server.wait(lambda: len(first.request.body) >= 65535)
        self.assertEqual(bodies(), (65535, 65535))
        self.move()
        client.send(wire.window_frame(first.at_client, 1 << 20) + wire.window_frame(0, 1 << 20))
        self.server.send(wire.window_frame(first.at_server, 1 << 20) + wire.window_frame(0, 1 << 20))
        self.assertTrue(client.wait(lambda: len(first.response.body) == len(down)), bodies())
        self.assertTrue(self.server.wait(lambda: len(first.request.body) == len(up)), bodies())
        self.assertEqual((bytes(first.response.body), bytes(first.request.body)), (down, up))
        second.rally(1)

    def test_head_waits(self):
        """A request without a response keeps both clients where they are; they move once it has one."""
        one, two = self.begin(clients=2, streams=1)
        client = one.client
        number = client.send_request("/slow")
        # It may go on another connection, since an upgrade has begun.
        self.assertIn("0 connections moved, 2 still end or move here (1 request, 1 group)", self.proxy.upgrade(waits=False))
        one.rally(1)
        request = self.server.head()
        self.server.respond(request.stream, body=b"late")
        self.assertEqual(client.response(number).body, b"late")
        self.proxy.wait_for(lambda s: s.total("resumed_total") == 2)
        one.rally(2)
        two.rally(2)

    def test_requests_beside_streams(self):
        """Clients that always have several requests in progress move, with their streams, and no request fails."""
        streams = self.begin(clients=2, streams=2)
        stop = threading.Event()
        responses = []

        def call(client):
            open_requests = []
            while not stop.is_set() or open_requests:
                while len(open_requests) < 4 and not stop.is_set():
                    open_requests.append(client.send_request("/call"))
                message = client.response(open_requests.pop(0))
                responses.append((message.status, bytes(message.body), message.failure))

        def serve():
            servers = [self.server]
            while threads[0].is_alive() or threads[1].is_alive():
                for server in servers:
                    server.pump(0.001)
                    while request := server.head(seconds=0):
                        server.respond(request.stream, body=b"result")
                with contextlib.suppress(AssertionError):
                    servers.append(self.keep(Http2Server(self.origin.accept(timeout=0.001))))

        threads = [threading.Thread(target=call, args=(client,)) for client in {id(s.client): s.client
                                                                                for s in streams}.values()]
        for thread in threads:
            thread.start()
        server = threading.Thread(target=serve)
        server.start()
        try:
            for _ in range(5):
                self.assertIn("2 connections moved, 0 still", self.proxy.upgrade())
        finally:
            stop.set()
            for thread in (*threads, server):
                thread.join()
        self.assertEqual(set(responses), {(200, b"result", "")})
        self.assertGreater(len(responses), 100)
        for stream in streams:
            stream.rally(1)

    def test_endpoint_is_not_configured_any_more(self):
        """They stay in the old process, and go on there."""
        streams = self.begin(clients=2, streams=1)
        self.proxy.write_configuration(self.config(self.keep(Origin())))
        self.assertIn("0 connections moved, 2 still end or move here", self.proxy.upgrade(waits=False))
        for stream in streams:
            stream.rally(1)
        for stream in streams:
            stream.client.close()
            self.assertTrue(self.server.wait(lambda stream=stream: stream.request.failure))

    def test_idle_timeout(self):
        """It goes on where it was."""
        (stream,) = self.begin(clients=1, streams=1, stream_idle_timeout=f"{3 * SLOWNESS}s")
        stream.rally(1)
        began = time.monotonic()
        time.sleep(1.5 * SLOWNESS)
        self.move(clients=1)
        self.assertTrue(stream.client.wait(lambda: stream.response.failure))
        self.assertLess(abs(time.monotonic() - began - 3 * SLOWNESS), SLOWNESS)
        self.assertTrue(self.server.wait(lambda: stream.request.failure))

    def test_request_timeout(self):
        """The deadline of the whole request stays what it was."""
        began = time.monotonic()
        (stream,) = self.begin(clients=1, streams=1, request_timeout=f"{3 * SLOWNESS}s")
        time.sleep(1.5 * SLOWNESS)
        self.move(clients=1)
        stream.rally(1)
        self.assertTrue(stream.client.wait(lambda: stream.response.failure))
        self.assertLess(abs(time.monotonic() - began - 3 * SLOWNESS), SLOWNESS)

    def test_shutdown(self):
        """What is left at shutdown_timeout is reset, and nothing is left in memory."""
        streams = self.begin(shutdown_timeout="500ms")
        self.move()
        self.proxy.signal(signal.SIGTERM)
        for stream in streams:
            self.assertTrue(stream.client.wait(lambda stream=stream: stream.client.how))
        self.stop(self.proxy, cut_allowed=True)

    def test_busy(self):
        """Bytes flow in both directions during twenty upgrades; nothing is lost, doubled or in another order."""
        streams = self.begin(clients=3, streams=2)
        stop = threading.Event()
        sent = {}

        def flow(peer, mine, send, received, name):
            """Numbered blocks on the streams `mine`, with so few bytes under way that they fit into every window."""
            counts, bytes_sent = dict.fromkeys(mine, 0), dict.fromkeys(mine, 0)
            while not stop.is_set():
                for i in mine:
                    if bytes_sent[i] - received(i) < 8 * KIB:
                        block = b"%s %d %d;" % (name, i, counts[i])
                        send(i, block)
                        counts[i] += 1
                        bytes_sent[i] += len(block)
                peer.pump(0.001)
            sent[name] = counts

        # Each peer belongs to one thread.
        threads = [threading.Thread(target=flow, args=(
            self.server, range(6), lambda i, data: streams[i].respond(data), lambda i: len(streams[i].response.body),
            b"down"))]
        for number in range(3):
            threads.append(threading.Thread(target=flow, args=(
                streams[2 * number].client, (2 * number, 2 * number + 1), lambda i, data: streams[i].send(data),
                lambda i: len(streams[i].request.body), b"up %d" % number)))
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                self.move(clients=3)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        for i, stream in enumerate(streams):
            name = b"up %d" % (i // 2)
            up = b"".join(b"%s %d %d;" % (name, i, count) for count in range(sent[name][i]))
            down = b"".join(b"down %d %d;" % (i, count) for count in range(sent[b"down"][i]))
            self.assertTrue(self.server.wait(lambda: len(stream.request.body) >= len(up)))  # pylint: disable=W0640
            self.assertTrue(stream.client.wait(lambda: len(stream.response.body) >= len(down)))  # pylint: disable=W0640
            self.assertEqual(bytes(stream.request.body), up)
            self.assertEqual(bytes(stream.response.body), down)


if __name__ == "__main__":
    harness.main()
