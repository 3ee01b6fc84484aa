"""Overload: readers that pin more memory than the process may have. The proxy goes on, those pay that hold most, and all is as
before once it is over."""

import threading
import time

import harness
import http_wire as wire
from attack_support import crowd, pattern, respond
from harness import MIB, SANITIZER, SLOWNESS

# Beyond what the process has at rest.
ROOM_MIB = 64
READERS = 120


class Bystander(threading.Thread):
    """Sends a request each 20 ms, on a connection that it keeps as long as the proxy does."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.over = threading.Event()
        self.times, self.failures, self.refused = [], [], 0

    def run(self):
        client = None
        while not self.over.is_set():
            began = time.monotonic()
            is_new = client is None
            try:
                client = client or wire.Http1Client(self.address)
                response = client.get("/size/100", seconds=10 * SLOWNESS)
                if not response and is_new and client.how:
                    raise ConnectionResetError  # It came behind the handshake.
                if not response or not response.complete or response.body != pattern(100):
                    raise AssertionError(f"{response!r} {client.how}")
                self.times.append(time.monotonic() - began)
                if not response.persistent:
                    client = self.closed(client)
            except ConnectionResetError:  # At the last mark.
                self.refused += 1
                client = self.closed(client)
            except Exception as error:  # Whatever it is, the test reports it.
                self.failures.append(repr(error))
                client = self.closed(client)
            time.sleep(0.02)

    @staticmethod
    def closed(client):
        if client:
            client.close()

    def stop(self):
        self.over.set()
        self.join(30 * SLOWNESS)
        self.times.sort()
        return self


class Memory(harness.SluiceTest):

    def setUp(self):
        self.upstream = self.keep(wire.Server(respond))
        self.config = {
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {"forward": "main"}}],
            "upstreams": [{"name": "main", "endpoints": [self.upstream.address], "protocol": "http1"}]}
        self.proxy = self.start(self.config)
        self.proxy.wait_for(lambda s: s.total("overload_memory_used_bytes") > 0, 5, "the memory to be read")
        self.rest = self.proxy.stats().total("overload_memory_used_bytes")

    def limit(self, beyond_mib):
        """The limit of the memory, as a reload sets it."""
        limit = self.rest + beyond_mib * MIB
        marks = [int(self.rest * 100 / limit + (100 - self.rest * 100 / limit) * part) for part in (0.5, 0.75, 0.95)]
        self.proxy.reload({**self.config, "overload": {"memory": dict(zip(("reduce", "close", "refuse"), marks), limit=limit)}})
        return limit

    def test_readers_that_pin_memory(self):
        limit = self.limit(ROOM_MIB)
        bystander = Bystander(self.proxy.address())
        bystander.start()
        peak = []

        def watch():
            while not bystander.over.is_set():
                peak.append(self.proxy.stats().total("overload_memory_used_bytes"))
                time.sleep(0.1)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        opening = f"GET /size/{4 * MIB} HTTP/1.1\r\nhost: a.test\r\n\r\n".encode()
        closed = crowd(self.proxy.address(), READERS, opening, time.monotonic() + 4 * SLOWNESS)
        if not SANITIZER:  # Its allocator keeps what is freed, so that the memory in use does not fall.
            self.proxy.wait_for(lambda s: s.total("overload_memory_level") == 0, 10, "memory to be as before")
        bystander.stop()
        watcher.join()
        stats = self.proxy.stats()
        harness.print_note(f"{READERS} readers: {closed} closed; memory at most {max(peak) / MIB:.0f} of {limit / MIB:.0f} MiB; the "
                           f"bystander had {len(bystander.times)} responses, the slowest after "
                           f"{bystander.times[-1] * 1000:.0f} ms, {bystander.refused} refused")
        self.assertFalse(bystander.failures)
        self.assertGreater(len(bystander.times), 20)
        self.assertLess(bystander.times[len(bystander.times) * 99 // 100], 1.5 * SLOWNESS)
        self.assertLessEqual(bystander.refused, stats.total("refused_total", limit="overload"))
        if not SANITIZER:
            self.assertLess(max(peak), limit * 1.3)  # What arrives until the next reading, which a busy machine delays.
            self.proxy.wait_for_output("overload: memory is at the level `normal`")
        self.assertGreater(stats.ended("overload"), 0)
        self.assertEqual(stats.ended("overload"), stats.total("overload_actions_total", action="close_connection"))
        self.assertGreater(stats.total("overload_closed_bytes_total"), MIB)
        self.proxy.wait_for_output("overload: memory is at the level `")

    def test_the_last_mark(self):
        """Where nobody holds much, connections end with their response, and beyond the last mark nobody gets in."""
        address = self.proxy.address()
        with wire.Http1Client(address) as kept:
            self.assertTrue(kept.get("/size/10").persistent)
            marks = {"limit": 16 * MIB, "reduce": 1, "close": 2, "refuse": 3}
            self.proxy.reload({**self.config, "overload": {"memory": marks}})
            self.proxy.wait_for(lambda s: s.total("overload_memory_level") == 3, 5, "the level")
            self.assertFalse(kept.get("/size/10").persistent)
        with self.assertRaises(ConnectionError):
            with wire.Http1Client(address) as refused:
                response = refused.get("/size/10")
                raise ConnectionError if not response else AssertionError(f"{response!r}")
        self.proxy.wait_for(lambda s: s.refused("overload") == 1, 5, "the refusal")
        self.proxy.reload({**self.config, "overload": {"memory": {"enabled": False}}})
        self.proxy.wait_for(lambda s: s.total("overload_memory_level") == 0, 5, "the level")
        with wire.Http1Client(address) as again:
            self.assertTrue(again.get("/size/10").persistent)


if __name__ == "__main__":
    harness.main()
