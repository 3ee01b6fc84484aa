"""Workers that lend memory to one another: one has all the load and uses more than its part. Then another gets load, too: it gets
what it is guaranteed, and the connections of the first pay for it. What all use stays within the budget."""

import json
import re
import selectors
import socket
import threading
import time
import urllib.request

import harness
from harness import KIB, MIB, SLOWNESS
from origins import connect, receive_exactly, text_of

PART_MIB = 32
CLIENTS = 160  # On each of two workers.
# What get() hands out of the part: not the reserve.
OPEN = PART_MIB * MIB * 3 // 4
GREEDY = b"GET /large HTTP/1.1\r\nhost: a.test\r\n\r\n"
SMALL = b"GET /small HTTP/1.1\r\nhost: a.test\r\n\r\n"


class SourceOfBytes:
    """An origin with responses of 64 MiB, sent as fast as they are taken, and of 5 bytes, by one thread."""

    LARGE = b"HTTP/1.1 200 OK\r\ncontent-length: 67108864\r\n\r\n"
    SMALL = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    BLOCK = memoryview(bytes(64 * KIB))

    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.address = text_of(self._listener.getsockname())
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._left = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._over.set()
        self._thread.join(5)
        for sock in (self._listener, *self._left):
            sock.close()
        self._selector.close()

    def _run(self):
        while not self._over.is_set():
            for key, events in self._selector.select(0.1):
                if key.fileobj is self._listener:
                    self._accept()
                    continue
                try:
                    if events & selectors.EVENT_READ:
                        self._read(key.fileobj)
                    if events & selectors.EVENT_WRITE and key.fileobj in self._left:
                        self._left[key.fileobj] -= key.fileobj.send(self.BLOCK[:self._left[key.fileobj]])
                        if not self._left[key.fileobj]:
                            self._selector.modify(key.fileobj, selectors.EVENT_READ)
                except BlockingIOError:
                    pass
                except OSError:
                    self._forget(key.fileobj)

    def _accept(self):
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * KIB)
        sock.setblocking(False)
        self._left[sock] = 0
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, sock):
        request = sock.recv(16 * KIB)
        if not request:
            self._forget(sock)
        elif request.startswith(b"GET /large"):
            sock.send(self.LARGE)
            self._left[sock] = 64 * MIB
            self._selector.modify(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        else:
            sock.send(self.SMALL)

    def _forget(self, sock):
        self._selector.unregister(sock)
        del self._left[sock]
        sock.close()


class Bystander(threading.Thread):
    """Sends a request each 20 ms on a connection that it keeps. Every response has to be right."""

    def __init__(self, sock):
        super().__init__(daemon=True)
        self.sock = sock
        self.over = threading.Event()
        self.times, self.failure = [], None

    def run(self):
        self.sock.settimeout(10 * SLOWNESS)
        try:
            while not self.over.is_set():
                began = time.monotonic()
                self.sock.sendall(SMALL)
                self._receive()
                self.times.append(time.monotonic() - began)
                time.sleep(0.02)
        except (OSError, AssertionError, EOFError) as error:
            self.failure = repr(error)

    def _receive(self):
        received = b""
        while not received.endswith(b"hello"):
            piece = self.sock.recv(4096)
            if not piece or not (received + piece).startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"got {received + piece!r}")
            received += piece

    def stop(self):
        self.over.set()
        self.join(20 * SLOWNESS)
        return self


class BorrowedMemory(harness.SluiceTest):

    def start_pair(self, **memory):
        """A proxy with two workers, each of which has CLIENTS idle connections."""
        origin = self.keep(SourceOfBytes())
        http = {"forward": "main", "stuck_timeout": "0", "idle_timeout": "60s"}
        self.borrowing = self.start({
            "workers": 2, "shutdown_timeout": "1s", "admin": {"address": "127.0.0.1:0"},
            "memory": {"worker_budget": f"{PART_MIB}MiB", **memory}, "overload": {"memory": {"enabled": False}},
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": http}],
            "upstreams": [{"name": "main", "endpoints": [origin.address], "protocol": "http1"}]}, cut_allowed=True)
        harness.wait_until(lambda: "admin listener on " in self.borrowing.stderr(), what="the admin listener")
        self.admin = re.findall(r"admin listener on (?:.*, )?(\S+)\n", self.borrowing.stderr())[-1]
        self.clients = {0: [], 1: []}
        socks = {}
        for _ in range(2 * (CLIENTS + 1)):
            sock = self.keep(connect(self.borrowing.address(), receive_buffer=4 * KIB))
            socks[sock.getsockname()[1]] = sock
        # Each has had a response, so that all are known to their workers.
        for sock in socks.values():
            sock.sendall(SMALL)
        for sock in socks.values():
            receive_exactly(sock, 5)
        shown = self.page("/connections?limit=1000")["connections"]
        for each in shown:
            if each["peer_port"] in socks:
                self.clients[each["worker"]].append(socks[each["peer_port"]])
        for sock in socks.values():
            sock.setblocking(False)
            while True:
                try:
                    sock.recv(4096)
                except BlockingIOError:
                    break
        self.assertGreater(min(map(len, self.clients.values())), CLIENTS * 3 // 4, "the workers share connections")

    def page(self, path):
        with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=10 * SLOWNESS) as response:
            return json.load(response)

    def pools(self):
        pools = self.page("/pools")
        self.most = max(getattr(self, "most", 0), sum(each["bytes"] for each in pools["workers"]))
        return pools["workers"]

    def wait_for_pools(self, condition, seconds, what):
        harness.wait_until(lambda: condition(self.pools()), seconds, what)

    def test_one_worker_borrows_and_returns(self):
        self.start_pair()
        bystander = Bystander(self.clients[1].pop())
        bystander.start()
        for sock in self.clients[0]:
            sock.send(GREEDY)
        # A worker's own part without its reserve would be three quarters of it.
        self.wait_for_pools(lambda workers: workers[0]["bytes"] > PART_MIB * MIB * 1.05, 10, "the first worker to borrow")
        alone = self.pools()
        self.assertGreater(alone[0]["borrowed_bytes"], 0)
        self.assertEqual(alone[1]["borrowed_bytes"], 0)
        refused_before = alone[1]["refused"]
        began = time.monotonic()
        for sock in self.clients[1]:
            sock.send(GREEDY)
        self.wait_for_pools(lambda workers: workers[1]["bytes"] > OPEN * 0.9, 10, "the second worker to get its part")
        took = time.monotonic() - began
        # The bystander is served all the time, from what is never lent.
        self.wait_for_pools(lambda workers: workers[0]["borrowed_bytes"] == 0 or workers[1]["bytes"] > OPEN * 0.98, 10,
                            "the first worker to return what it borrowed")
        both = self.pools()
        harness.wait_until(lambda: len(bystander.times) > 25, 20 * SLOWNESS, "the bystander's responses")
        stats = self.borrowing.stats()
        bystander.stop()
        self.assertIsNone(bystander.failure)
        self.assertGreaterEqual(stats.total("pool_recalls_total"), 1)
        self.assertGreaterEqual(stats.total("pool_claims_total"), 1)
        self.assertEqual(stats.total("pool_budget_bytes"), 2 * PART_MIB * MIB)
        # Windows of bookkeeping may exceed a budget by little.
        self.assertLessEqual(self.most, 2.02 * PART_MIB * MIB)
        # The borrower's connections paid, and those of nobody else.
        closed = {number: sum(self.is_closed(sock) for sock in self.clients[number]) for number in (0, 1)}
        self.assertEqual(closed[0], stats.ended("overload"))
        self.assertEqual(closed[1], 0)
        harness.print_note(
            f"alone {alone[0]['bytes'] / MIB:.1f} MiB of {PART_MIB}, then {both[0]['bytes'] / MIB:.1f} and "
            f"{both[1]['bytes'] / MIB:.1f} MiB, at most {self.most / MIB:.1f} together; the part was there after {took:.2f} s; "
            f"{closed[0]} closed; {both[1]['refused'] - refused_before} refused to the second; the bystander's slowest "
            f"response of {len(bystander.times)} took {max(bystander.times) * 1000:.0f} ms")

    @staticmethod
    def is_closed(sock):
        try:
            while sock.recv(256 * KIB):
                pass
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def test_without_lending(self):
        self.start_pair(lendable=0)
        for sock in self.clients[0]:
            sock.send(GREEDY)
        self.wait_for_pools(lambda workers: workers[0]["bytes"] > OPEN * 0.9, 10, "the first worker to use its part")
        time.sleep(0.5)
        workers = self.pools()
        self.assertLessEqual(workers[0]["bytes"], PART_MIB * MIB)
        self.assertEqual([each["budget_bytes"] for each in workers], [PART_MIB * MIB] * 2)
        self.assertEqual(sum(each["borrowed_bytes"] for each in workers), 0)
        harness.print_note(f"alone {workers[0]['bytes'] / MIB:.1f} MiB of {PART_MIB}")

    def test_budget_that_is_too_small(self):
        with self.assertRaisesRegex(AssertionError, "memory.budget: 32MiB is less than memory.worker_budget, 32MiB, of 2 workers"):
            harness.Proxy({**harness.configuration(["127.0.0.1:1"]), "workers": 2,
                           "memory": {"worker_budget": "32MiB", "budget": "32MiB"}})


if __name__ == "__main__":
    harness.main()
