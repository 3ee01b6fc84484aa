"""A crowd of connections of all kinds goes through upgrades in a row, and every one of them is used before and after
each: none is cut, refused, or gets another connection's bytes.

SLUICE_E2E_LONG=1: 2,000 websockets over TLS and HTTP/2, 2,000 over TLS and HTTP/1.1, 1,000 TCP connections with TLS, 1,000
plain ones with bulk in both directions, 200 gRPC streams, and 20 upgrades."""

import hashlib
import random
import selectors
import subprocess
import threading
import time

import harness
import http_wire as wire
from harness import LONG, SANITIZER, SLOWNESS
from http_grpc_test import TLS, GrpcTest
from http_peers_support import go_options, go_program
from http_websocket_test import connect_fields, upgrade_of
from http_wire import Http2Reader, Peer
from origins import connect, receive_exactly
from reload_test import listener, upstream
from workers import OriginProcess

SCALE = 1 if LONG else 40 if SANITIZER else 20
UPGRADES = 20 if LONG else 3


class Socket:
    """A connection whose bytes are echoed."""

    def __init__(self, sock):
        self.sock = sock

    def write(self, data):
        self.sock.sendall(data)

    def read(self, size):
        return receive_exactly(self.sock, size)


class Bulk:
    """Connections whose bytes are echoed, with as much in both directions as they take. Each has its own bytes."""

    BLOCK = random.Random(1).randbytes(1 << 20)
    WINDOW = 256 * 1024  # Of each, at most that much is under way.

    def __init__(self, socks):
        self.connections = []
        for number, sock in enumerate(socks):
            sock.setblocking(False)
            self.connections.append({"sock": sock, "at": number * 1009 % len(self.BLOCK), "sent": 0, "received": 0,
                                     "out": hashlib.sha256(), "in": hashlib.sha256()})

    def send(self, each):
        piece = self.BLOCK[each["at"]:each["at"] + 16384]
        size = each["sock"].send(piece)
        each["out"].update(piece[:size])
        each["at"] = (each["at"] + size) % len(self.BLOCK)
        each["sent"] += size

    def receive(self, each):
        data = each["sock"].recv(65536)
        assert data, f"the connection ended after {each['received']} of {each['sent']} bytes"
        each["in"].update(data)
        each["received"] += len(data)

    def run(self, goes_on, seconds):
        """Until goes_on() is false and all that was sent has come back. Returns the number of bytes."""
        with selectors.DefaultSelector() as selector:
            for each in self.connections:
                selector.register(each["sock"], selectors.EVENT_READ | selectors.EVENT_WRITE, each)
            end = None
            while goes_on() or any(each["received"] < each["sent"] for each in self.connections):
                if not goes_on():
                    end = end or time.monotonic() + seconds
                    assert time.monotonic() < end, "bytes do not come back"
                for key, events in selector.select(0.1):
                    each, open_window = key.data, key.data["sent"] - key.data["received"] < self.WINDOW
                    if events & selectors.EVENT_READ:
                        self.receive(each)
                    if events & selectors.EVENT_WRITE and open_window and goes_on():
                        self.send(each)
                    # A socket that may not send now must not wake the loop.
                    wanted = selectors.EVENT_READ
                    if goes_on() and each["sent"] - each["received"] < self.WINDOW:
                        wanted |= selectors.EVENT_WRITE
                    if wanted != key.events:
                        selector.modify(each["sock"], wanted, each)
        for each in self.connections:
            assert each["in"].digest() == each["out"].digest(), "other bytes came back"
        return sum(each["received"] for each in self.connections)


class Stream(Peer):
    """A websocket over HTTP/2, alone on its connection."""

    def __init__(self, sock):
        super().__init__(sock, Http2Reader(requests=False))
        self.sock.sendall(wire.PREFACE + wire.settings_frame() + wire.headers_frame(1, connect_fields("/")))
        assert self.wait(lambda: 1 in self.reader.streams), "no websocket"
        self.message = self.reader.streams[1]
        assert self.message.status == 200, self.message

    def write(self, data):
        self.send(wire.data_frame(1, data))

    def read(self, size):
        assert self.wait(lambda: len(self.message.body) >= size), self.message
        data = bytes(self.message.body[:size])
        del self.message.body[:size]
        return data


class Crowd(GrpcTest):

    def open(self, proxy, kind):
        if kind == "tls":
            return Socket(self.secure(proxy.address("tls"), self.contexts["plain"]))
        if kind == "websocket over HTTP/2":
            return Stream(self.secure(proxy.address("https"), self.contexts["h2"]))
        sock = self.secure(proxy.address("https"), self.contexts["plain"])
        sock.sendall(upgrade_of("/").encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        self.assertTrue(head.startswith(b"HTTP/1.1 101 "), head)
        return Socket(sock)

    def test_upgrades(self):
        self.contexts = {"plain": self.context(), "h2": self.context(alpn=["h2"])}
        server = self.grpc_server(TLS)
        certificates = {"certificates": [self.server]}
        echo, websocket = self.keep(OriginProcess("echo")), self.keep(OriginProcess("websocket"))
        proxy = self.start({
            "workers": 2, "shutdown_timeout": f"{30 * SLOWNESS}s",
            "listeners": [listener("tcp", tcp={"forward": "echo"}),
                          listener("tls", tcp={"forward": "echo"}, tls=certificates),
                          listener("https", http={"forward": "websocket"}, tls={**certificates,
                                                                                "alpn": ["h2", "http/1.1"]}),
                          listener("grpc", http={"forward": "grpc"}, tls={**certificates, "alpn": ["h2"]})],
            "upstreams": [upstream("echo", echo), upstream("websocket", websocket),
                          upstream("grpc", server, protocol="http2", tls={"ca": self.ca,
                                                                          "server_name": "localhost"})]})
        bulk = Bulk([self.keep(connect(proxy.address("tcp"))) for _ in range(1000 // SCALE)])
        numbers = {"tls": 1000, "websocket over HTTP/2": 2000, "websocket": 2000}
        crowd = [self.open(proxy, kind) for kind, number in numbers.items() for _ in range(number // SCALE)]
        upgrading = threading.Event()
        problems, rounds, bulk_bytes = [], [], []

        def use(clients, offset):
            """Each client sends a message and gets its echo, one after the other."""
            count = 0
            while not problems:
                last = not upgrading.is_set()
                for number, client in enumerate(clients):
                    message = b"%d of %d;" % (count, offset + number) * (1 + (number + count) % 50)
                    try:
                        client.write(message)
                        got = client.read(len(message))
                        if got != message:
                            raise AssertionError(f"{got[:100]} instead of {message[:100]}")
                    except (OSError, AssertionError) as error:
                        problems.append(f"client {offset + number}, message {count}: {error!r}")
                        return
                count += 1
                if last:
                    rounds.append(count)
                    return

        def use_bulk():
            try:
                bulk_bytes.append(bulk.run(lambda: upgrading.is_set() and not problems, 60 * SLOWNESS))
            except (OSError, AssertionError) as error:
                problems.append(f"bulk: {error!r}")

        connections = 8
        call = subprocess.Popen(
            [go_program("./grpc"), "client", *go_options(
                target=f"localhost:{proxy.port('grpc')}", ca=self.ca, case="held", count=max(200 // SCALE, connections),
                connections=connections, length=f"{(120 if LONG else 8) * SLOWNESS}s", seconds=600 * SLOWNESS)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(harness.end, call)
        self.assertEqual(call.stdout.readline(), "open\n")
        upgrading.set()
        half = len(crowd) // 2
        threads = [threading.Thread(target=use, args=(part, offset)) for part, offset in
                   ((crowd[::2], 0), (crowd[1::2], half))] + [threading.Thread(target=use_bulk)]
        for thread in threads:
            thread.start()
        took = []
        try:
            for _ in range(UPGRADES):
                began = time.monotonic()
                printed = proxy.upgrade()
                took.append(time.monotonic() - began)
                self.assertIn(f"{len(crowd) + len(bulk.connections) + connections} connections moved, 0 still", printed)
        finally:
            upgrading.clear()
            for thread in threads:
                thread.join()
        self.assertEqual(problems, [])
        messages = self.ended(call)[0]
        harness.print_note(f"{len(crowd)} connections, {bulk_bytes[0] >> 20} MiB on {len(bulk.connections)} more, and {messages} gRPC messages, {UPGRADES} upgrades, each "
                           f"{min(took):.2f} to {max(took):.2f} s with the end of the old process; rounds {rounds}")


if __name__ == "__main__":
    harness.main()
