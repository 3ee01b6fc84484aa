"""Access logs of a running proxy under load: rotation by SIGUSR1, and logs that take no data. wrk sends the requests,
and the proxy responds by itself.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile

import harness

CONNECTIONS = 16
# Lines that fit into a ring and a pipe are not lost.
LEAST_DROPPED = 1000


class Logs(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.need("wrk")
        folder = tempfile.TemporaryDirectory(prefix="sluice-log-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def logging_to(self, path):
        return self.start({
            "workers": 2, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": {
                "routes": [{"respond": {"body": "fine"}}], "access_log": {"file": str(path)}}}],
            "upstreams": [{"name": "unused", "endpoints": ["127.0.0.1:1"]}],
        })

    def load(self, proxy, seconds):
        """A process that sends requests for `seconds`."""
        child = harness.spawn(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency",
                               f"http://127.0.0.1:{proxy.port()}/some/path"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(harness.end, child)
        return child

    def request_count(self, load):
        """The number of requests, if all responses were good."""
        text, _ = load.communicate(timeout=60)
        self.assertNotIn("Socket errors", text)
        self.assertNotIn("Non-2xx", text)
        count = int(re.search(r"(\d+) requests in", text)[1])
        self.assertGreater(count, 0, text)
        return count

    def requests_of(self, proxy):
        """The number of requests once none is in progress, and each has its line or is counted as dropped."""
        def settled(stats):
            lines = stats.total("access_log_lines_total") + stats.total("access_log_dropped_total")
            return stats.total("http_requests_active") == 0 and lines == stats.total("http_requests_total")
        return proxy.wait_for(settled, what="a line for each request, or a count of those without")

    def lines_of(self, path):
        text = path.read_text(encoding="utf-8")
        self.assertTrue(text.endswith("\n"), "the last line is whole")
        lines = text.splitlines()
        for line in lines:
            self.assertIn('"GET /some/path HTTP/1.1" 200 ok', line)
        return len(lines)

    def test_rotation(self):
        """After SIGUSR1, lines go to a new file of the same name; no written line is lost or split."""
        log, old, older = self.folder / "access.log", self.folder / "old.log", self.folder / "older.log"
        proxy = self.logging_to(log)
        load = self.load(proxy, 3)
        for moved in (older, old):
            harness.wait_until(lambda: log.exists() and log.stat().st_size > 0, what="lines")
            log.rename(moved)
            size = moved.stat().st_size
            harness.wait_until(lambda: moved.stat().st_size > size, what="more lines where the file is now")
            self.assertFalse(log.exists())
            proxy.signal(signal.SIGUSR1)
        harness.wait_until(log.exists, what="a new file")
        self.request_count(load)
        stats = self.requests_of(proxy)
        # With one, the writing thread cannot keep up with every load; it counts what it drops.
        if not harness.SANITIZER:
            self.assertEqual(stats.total("access_log_dropped_total"), 0)
        in_files = [self.lines_of(path) for path in (older, old, log)]
        self.assertEqual(sum(in_files), stats.total("access_log_lines_total"), in_files)

    def test_pipe_without_reader(self):
        """Requests continue, and lines without room are counted; when the pipe is read again, the log continues by
        itself."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(lambda: os.close(reader))
        proxy = self.logging_to(pipe)
        load = self.load(proxy, 2)
        proxy.wait_for(lambda stats: stats.total("access_log_dropped_total") > LEAST_DROPPED, what="lines that are lost")
        before = proxy.stats().total("http_requests_total")
        proxy.wait_for(lambda stats: stats.total("http_requests_total") > before, what="requests that go on")
        self.request_count(load)

        def read_until_all_is_there():
            stats = proxy.stats()
            try:
                while data := os.read(reader, 1 << 16):
                    received.append(data)
            except BlockingIOError:
                pass
            lines = stats.total("access_log_lines_total")
            return (lines + stats.total("access_log_dropped_total") == stats.total("http_requests_total")
                    and b"".join(received).count(b"\n") == lines)

        received = []
        harness.wait_until(read_until_all_is_there, seconds=20, what="what waited")

    def test_full_disk(self):
        """The same, with an error in the log; clients can use the proxy meanwhile."""
        proxy = self.logging_to("/dev/full")
        load = self.load(proxy, 2)
        proxy.wait_for(lambda stats: stats.total("access_log_dropped_total") > LEAST_DROPPED and
                       stats.total("access_log_errors_total") > 0, what="lines that are lost")
        self.request_count(load)
        self.assertEqual(proxy.stats().total("access_log_lines_total"), 0)
        proxy.wait_for_output("/dev/full")
        self.assertIn("No space left on device", proxy.stderr())


if __name__ == "__main__":
    harness.main()
