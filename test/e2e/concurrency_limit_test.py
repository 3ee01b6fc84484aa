"""adaptive_concurrency in front of an origin of limited capacity, which gets twice as many requests as it can process: whether
or not there is a response, as from many clients that do not know each other."""

import asyncio
import re
import threading
import time

import harness
from admin_test import AdminTest
from harness import SLOWNESS

WORK_SECONDS = 0.05


class Origin:
    """Has a number of slots. Each request takes one for WORK_SECONDS; those that find none wait, first in, first out."""

    def __init__(self, slots):
        self.slots, self.busy, self.waiting = slots, 0, []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = self.call(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def resize(self, slots):
        self.loop.call_soon_threadsafe(self._resize, slots)

    def _resize(self, slots):
        self.slots = slots
        self._wake()

    def _wake(self):
        while self.waiting and self.busy < self.slots:
            self.busy += 1
            self.waiting.pop(0).set_result(None)

    async def serve(self, reader, writer):
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                turn = self.loop.create_future()
                self.waiting.append(turn)
                self._wake()
                await turn
                await asyncio.sleep(WORK_SECONDS)
                self.busy -= 1
                self._wake()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)


class Load:
    """Sends requests at their times, each on a connection that has none, from a thread. Times are in seconds, from when a
    request was due."""

    def __init__(self, address, rates, seconds):
        """`rates`: by path."""
        self.address, self.rates, self.seconds = address, rates, seconds
        self.idle, self.served, self.refused = [], {path: [] for path in rates}, {path: 0 for path in rates}
        self.retry_after = set()
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def join(self):
        self.thread.join((self.seconds + 30) * SLOWNESS)
        if self.error:
            raise self.error
        return self

    def _run(self):
        try:
            asyncio.run(self._send_all())
        except Exception as error:  # The test raises it.
            self.error = error

    async def _send_all(self):
        tasks, began = [], time.monotonic()
        due = sorted((i / rate, path) for path, rate in self.rates.items() for i in range(int(rate * self.seconds)))
        for at, path in due:
            await asyncio.sleep(max(0, began + at - time.monotonic()))
            tasks.append(asyncio.create_task(self._send(path, began + at)))
        await asyncio.wait(tasks, timeout=20 * SLOWNESS)
        for _, writer in self.idle:
            writer.close()

    async def _send(self, path, due):
        reader, writer = self.idle.pop() if self.idle else await asyncio.open_connection(*self.address)
        writer.write(b"GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n" % path.encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        self.idle.append((reader, writer))
        if head.startswith(b"HTTP/1.1 200"):
            self.served[path].append(time.monotonic() - due)
        else:
            self.refused[path] += 1
            self.retry_after.add((head.split()[1], re.search(rb"(?i)retry-after: (\d+)", head)[1]))

    def times(self):
        return sorted(time for times in self.served.values() for time in times)

    def goodput(self):
        return len(self.times()) / self.seconds

    def time_at(self, share):
        times = self.times()
        return times[int((len(times) - 1) * share)]

    def __str__(self):
        return (f"{self.goodput():.0f} served and {sum(self.refused.values()) / self.seconds:.0f} refused a second, "
                f"p50 {self.time_at(0.5):.3f} s, p99 {self.time_at(0.99):.3f} s")


class ConcurrencyLimit(AdminTest):

    def begin(self, slots, **adaptive):
        self.origin = self.keep(Origin(slots))
        routes = [{"match": {"path": {"exact": f"/{name}"}}, "priority": name, "forward": "main"}
                  for name in ("high", "low")]
        self.config = {
            "workers": 1, "shutdown_timeout": "3s",
            "admin": {"address": "127.0.0.1:0"},
            "listeners": [{"name": "main", "address": "127.0.0.1:0",
                           "http": {"routes": [*routes, {"forward": "main"}]}}],
            "upstreams": [{"name": "main", "endpoints": [self.origin.address], "protocol": "http1",
                           **({"adaptive_concurrency": adaptive} if adaptive else {})}]}
        return self.start(self.config, cut_allowed=not adaptive)

    def load(self, proxy, seconds, **rates):
        load = Load(proxy.address(), {f"/{path}": rate for path, rate in rates.items()}, seconds).join()
        harness.print_note(f"{rates}: {load}")
        return load

    def limit(self, proxy):
        return proxy.stats().total("upstream_concurrency_limit")

    def test_twice_the_capacity(self):
        slots = 8
        capacity = slots / WORK_SECONDS
        proxy = self.begin(slots, initial=100)
        self.load(proxy, 1.5, other=2 * capacity)  # It learns.
        load = self.load(proxy, 2, other=2 * capacity)
        self.assertGreater(load.goodput(), capacity * 0.6)
        self.assertLess(load.time_at(0.99), 1.5 * SLOWNESS)
        self.assertEqual(load.retry_after, {(b"503", b"1")})
        stats = proxy.stats()
        self.assertEqual(stats.total("http_requests_ended_total", reason="concurrency_limit"),
                         stats.total("upstream_concurrency_refused_total", priority="normal"))
        self.assertEqual(stats.total("upstream_concurrency_in_flight"), 0)
        self.assertLess(self.limit(proxy), 90)
        self.assertEqual(proxy.count_in_output("adaptive_concurrency allows"), 1)
        shown = self.json(proxy, "/upstreams")["upstreams"][0]["adaptive_concurrency"]
        self.assertEqual(shown["limit"], self.limit(proxy))
        self.assertEqual(shown["refused"], stats.total("upstream_concurrency_refused_total"))
        # A reload that changes the upstream does not forget it.
        self.config["upstreams"][0]["connect_timeout"] = "4s"
        proxy.reload(self.config)
        self.load(proxy, 0.2, other=50)
        self.assertLess(self.limit(proxy), 90)
        # The capacity falls, and rises again.
        self.origin.resize(2)
        self.load(proxy, 1.5, other=2 * capacity)
        load = self.load(proxy, 1.5, other=2 * capacity)
        self.assertGreater(load.goodput(), capacity / 4 * 0.5)
        self.assertLess(load.time_at(0.99), 2 * SLOWNESS)
        self.origin.resize(slots)
        self.load(proxy, 2, other=2 * capacity)
        load = self.load(proxy, 1.5, other=2 * capacity)
        self.assertGreater(load.goodput(), capacity * 0.6)
        self.assertLess(load.time_at(0.99), 1.5 * SLOWNESS)

    def test_without_it_requests_wait(self):
        load = self.load(self.begin(4), 2, other=2 * 4 / WORK_SECONDS)
        self.assertGreater(load.time_at(0.99), 1.2)

    def test_priorities(self):
        slots = 8
        capacity = slots / WORK_SECONDS
        proxy = self.begin(slots, initial=8)
        self.load(proxy, 1.5, high=0.3 * capacity, other=0.3 * capacity, low=1.4 * capacity)
        load = self.load(proxy, 2, high=0.3 * capacity, other=0.3 * capacity, low=1.4 * capacity)
        high, other, low = (load.refused[path] / (load.refused[path] + len(load.served[path]))
                            for path in ("/high", "/other", "/low"))
        self.assertLessEqual(high, other)
        self.assertLess(other, low)
        self.assertLess(high, 0.2)
        self.assertGreater(low, 0.4)


if __name__ == "__main__":
    harness.main()
