"""bench/overload.d/open_loop.cc, a client with an open loop: what a server that stands still does to requests that are due
meanwhile is in their times, also if they could not be sent (coordinated omission)."""

import json
import pathlib
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "compare.d"))

import machine  # noqa: E402

RATE, SECONDS, STOP_S = 100, 3, 0.4  # Few, as the machine may be busy.
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server(threading.Thread):
    """Responds at once, but stands still for `stop_s` once, in the second second of its work."""

    def __init__(self, stop_s):
        super().__init__(daemon=True)
        self.stop_s = stop_s
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.requests = {}  # By client.

    def run(self):
        stop_at = time.monotonic() + 1.5
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while True:
                if self.stop_s and time.monotonic() > stop_at:
                    time.sleep(self.stop_s)
                    self.stop_s = 0
                for key, _ in selector.select(0.01):
                    if key.fileobj is self.listener:
                        selector.register(self.listener.accept()[0], selectors.EVENT_READ)
                    elif data := key.fileobj.recv(65536):
                        count = data.count(b"\r\n\r\n")
                        self.requests[key.fileobj] = self.requests.get(key.fileobj, 0) + count
                        key.fileobj.sendall(RESPONSE * count)
                    else:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()


class OpenLoop(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.program = machine.compiled(BENCH / "overload.d/open_loop.cc", cls.folder.name)

    def times_ms(self, stop_s, connections, use):
        server = Server(stop_s)
        server.start()
        done = subprocess.run([self.program, str(server.port), str(RATE), str(connections), use, "0.5", str(SECONDS), "60000", "4000",
                               "/x"], check=True, capture_output=True, text=True, timeout=30)
        found = json.loads(done.stdout)[0]
        self.assertEqual((found["due"], found["statuses"]), (len(found["times_us"]), {"200": found["due"]}))
        self.assertAlmostEqual(found["due"], RATE * SECONDS, delta=2)
        return sorted(us / 1000 for us in found["times_us"])

    def test_a_stop_is_in_the_times_of_all_that_was_due_meanwhile(self):
        for connections, use in ((200, "spare"), (1, "spare"), (200, "each")):
            times = self.times_ms(STOP_S, connections, use)
            # Evenly spread over the stop; a closed loop would have one of them for each connection.
            self.assertGreater(sum(ms > STOP_S * 1000 / 2 for ms in times), RATE * STOP_S / 2 * 0.9, (connections, use))
            self.assertGreater(times[-1], STOP_S * 1000 * 0.9)

    def test_without_a_stop_a_time_is_short(self):
        self.assertLess(self.times_ms(0, 50, "spare")[0], STOP_S * 1000 / 4)  # The shortest, as others depend on the machine.

    def test_each_connection_takes_its_turn(self):
        """Defect: bench/overload sent requests on the connection that was used last, so below its peak few of many were busy."""
        server = Server(0)
        server.start()
        subprocess.run([self.program, str(server.port), *"200 20 each 0 1 60000 200 /x".split()], check=True, capture_output=True, timeout=30)
        counts = server.requests.values()
        self.assertEqual(len(counts), 20)
        self.assertLessEqual(max(counts), 2 * min(counts))

    def test_other_ways_are_refused(self):
        done = subprocess.run([self.program, *"1 1 1 all 0 1 1 1 /x".split()], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("spare|each", done.stderr)


if __name__ == "__main__":
    unittest.main()
