"""Profiles of a running process: the functions that traffic uses, the time that they take, and that no request is lost by it."""

import contextlib
import http.client
import os
import pathlib
import pwd
import re
import signal
import subprocess
import threading
import time

import harness
from admin_test import AdminTest
from harness import SLUICE, SLOWNESS, wait_until
from origins import Origin
from reload_test import RESPONSE, listener, server, upstream
from tls_support import TlsTest

# TSan delivers signals late, when their stacks are gone; ASan's own functions are everywhere.
EXACT = not harness.SANITIZER

# Receiving, TLS, HTTP/2.
DATA_PATH = ("sluice::BufferRing", "sluice::Tls", "sluice::Http2Codec")


def lines_of(text):
    """(stack as a list, number) of folded stacks."""
    for line in text.splitlines():
        stack, number = re.fullmatch(r"(.+) (\d+)", line).groups()
        yield stack.split(";"), int(number)


class Load(threading.Thread):
    """Requests on one connection, one after the other. Counts those without a good response."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.good, self.bad, self.ended = address, 0, [], False
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address, timeout=20 * SLOWNESS)
        while not self.ended:
            try:
                connection.request("GET", "/some/path", headers={"accept": "text/html"})
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                self.bad.append(repr(error))
                connection.close()
                continue
            if response.status == 200:
                self.good += 1
            else:
                self.bad.append(response.status)
        connection.close()

    def close(self):
        self.ended = True
        self.join(30 * SLOWNESS)


class Profile(AdminTest):

    def serve(self, **top):
        origin = self.keep(Origin(server("good")))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), upstreams=[upstream("app", origin)], **top)
        return proxy

    def profile(self, proxy, seconds, status=200):
        got, _, body = self.curl(self.address_of(proxy), f"/profile?seconds={seconds}", seconds=seconds + 20)
        self.assertEqual(got, status, body)
        return body

    def process_cpu_us(self, proxy):
        fields = pathlib.Path(f"/proc/{proxy.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")

    def test_functions_of_http_during_load(self):
        proxy = self.serve()
        load = [self.keep(Load(proxy.address("main"))) for _ in range(4)]
        wait_until(lambda: all(each.good for each in load), 20, "requests")
        before, good = self.process_cpu_us(proxy), sum(each.good for each in load)
        status, fields, body = self.curl(self.address_of(proxy), "/profile?seconds=3", seconds=30)
        used, requests = self.process_cpu_us(proxy) - before, sum(each.good for each in load) - good
        self.assertEqual((status, fields["content-type"]), (200, "text/plain; charset=utf-8"))
        self.assertGreater(requests, 100)
        for each in load:
            each.close()
        self.assertEqual([each.bad for each in load], [[]] * len(load), "requests were lost")

        stacks = [(stack, number) for stack, number in lines_of(body) if stack != ["[lost samples]"]]
        self.assertEqual(len(stacks), len(body.splitlines()), "samples are lost")
        self.assertLessEqual({stack[0] for stack, _ in stacks},
                             {"worker 0", "worker 1", "admin", "control", "log", "access log", "resolver", "helper"})
        if EXACT:
            total = sum(number for _, number in stacks)
            # The kernel's figure has ticks of 10 ms, and a sample stands for 5 ms.
            self.assertGreater(total, used * 0.5, (total, used))
            self.assertLess(total, used * 1.3 + 100_000, (total, used))
            workers = [(stack, number) for stack, number in stacks if stack[0].startswith("worker ")]
            http_code = sum(number for stack, number in workers if any("Http1" in each for each in stack))
            self.assertGreater(http_code, total * 0.1, body)
            loop = sum(number for stack, number in workers if "sluice::Worker::run" in stack)
            self.assertGreater(loop, sum(number for _, number in workers) * 0.5, body)
        self.assertIn("admin: profile of 3 s: ", proxy.stderr())

        # It ends with the profile.
        timers = pathlib.Path(f"/proc/{proxy.process.pid}/timers")
        if timers.exists():
            self.assertEqual(timers.read_text(encoding="ascii"), "")

    def test_one_at_a_time(self):
        proxy = self.serve()
        address = self.address_of(proxy)
        client = self.connect(proxy)
        client.sendall(b"GET /profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(address, "/profile?seconds=1", seconds=10)[0] == 409, 10, "the first profile")
        self.assertEqual(self.curl(address, "/profile?seconds=1")[2], "another profile is in progress; try again later\n")
        # Other pages do not wait for it.
        begin = time.monotonic()
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assertLess(time.monotonic() - begin, 5 * SLOWNESS)
        # A client that leaves ends its profile.
        client.close()
        wait_until(lambda: self.curl(address, "/profile?seconds=1", seconds=10)[0] == 200, 20, "the next profile")

    def test_requests_that_are_wrong(self):
        proxy, _ = self.start_with()
        for query, text in (("seconds=0", 'seconds: expected a number from 1 to 60, got "0"'), ("seconds=61", '"61"'),
                            ("seconds=x", '"x"'), ("second=1", 'there is no parameter "second"; the parameters are type, seconds and unit'),
                            ("seconds", "expected NAME=VALUE"), ("type=heap", 'type: expected time or allocations, got "heap"'),
                            ("type=allocations&unit=kb", 'unit: expected bytes or count, got "kb"'),
                            ("unit=count", "unit is for type=allocations")):
            self.assertIn(text, self.get(proxy, "/profile?" + query, status=400))
        self.assertEqual(self.curl(self.address_of(proxy), "/profile", "-X", "POST")[0], 405)

    def test_command(self):
        proxy = self.serve()
        self.keep(Load(proxy.address("main")))
        address = self.address_of(proxy)

        def command(*arguments):
            return subprocess.run([SLUICE, "admin", *arguments], capture_output=True, text=True, timeout=60 * SLOWNESS, check=False)

        done = command("--address", address, "profile", "--seconds", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for stack, number in lines_of(done.stdout):
            self.assertGreater(number, 0, stack)
        done = command("--address", address, "profile", "--seconds", "99")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a number from 1 to 60", done.stdout)
        for wrong, text in ((["/metrics", "--seconds", "1"], "--seconds is for the page /profile"),
                            (["/metrics", "--allocations"], "--allocations is for the page /profile"),
                            (["profile", "--seconds", "x"], "--seconds: expected a number")):
            done = command("--address", address, *wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)

    def test_end_of_the_process(self):
        """A profile that is in progress holds up nothing."""
        proxy = self.serve()
        client = self.connect(proxy)
        client.sendall(b"GET /profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(self.address_of(proxy), "/profile?seconds=1")[0] == 409, 10, "the profile")
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(20 * SLOWNESS), 0)

    def test_signals_of_others(self):
        """SIGPROF ends a process that has no handler. After a profile it does nothing."""
        proxy = self.serve()
        self.profile(proxy, 1)
        for _ in range(20):
            proxy.process.send_signal(signal.SIGPROF)
        load = self.keep(Load(proxy.address("main")))
        wait_until(lambda: load.good > 10, 20, "requests")
        self.assertEqual(load.bad, [])

    def test_with_user(self):
        """The filter of system calls, and the rights of an ordinary user, are enough."""
        if os.geteuid() != 0:
            self.skipTest("only root can change to another user")
        with contextlib.suppress(KeyError):
            pwd.getpwnam("nobody")
            proxy = self.serve(user="nobody")
            load = self.keep(Load(proxy.address("main")))
            body = self.profile(proxy, 2)
            if EXACT:
                self.assertRegex(body, r"(?m)^worker \d;.*sluice::.* \d+$")
            load.close()
            self.assertEqual(load.bad, [])



def swallow(sock):
    """A server that reads the bodies of requests, which have a length, and responds with 64 KiB."""
    received = b""
    while piece := sock.recv(1 << 18):
        received += piece
        while b"\r\n\r\n" in received:
            head, received = received.split(b"\r\n\r\n", 1)
            left = int((re.search(rb"(?i)\r\ncontent-length: *(\d+)", head) or [0, 0])[1])
            while left > len(received):
                left -= len(received)
                received = sock.recv(1 << 18)
                if not received:
                    return
            received = received[left:]
            sock.sendall(RESPONSE % (65536, b"x" * 65536))


class Allocations(AdminTest, TlsTest):

    def serve_bodies(self):
        origin = self.keep(Origin(swallow))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}, tls={"certificates": [self.server]}),
                                   upstreams=[upstream("app", origin)])
        return proxy

    def load(self, proxy):
        """Uploads and downloads over TLS and HTTP/2, until the test ends."""
        upload = pathlib.Path(self.folder, "upload")
        upload.write_bytes(bytes(200_000))
        host, port = proxy.address("main")
        load = subprocess.Popen([harness.need("h2load"), "-c4", "-m4", "-n1000000", "-d", upload, f"https://{host}:{port}/"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        wait_until(lambda: self.requests(proxy) > 20, 20, "requests")

    def requests(self, proxy):
        return sum(float(line.split()[-1]) for line in self.get(proxy, "/metrics").splitlines()
                   if line.startswith("sluice_http_requests_total{"))

    def profile(self, proxy, query=""):
        status, fields, body = self.curl(self.address_of(proxy), f"/profile?type=allocations&seconds=2{query}", seconds=30)
        self.assertEqual((status, fields["content-type"]), (200, "text/plain; charset=utf-8"), body)
        stacks = [(stack, number) for stack, number in lines_of(body) if stack != ["[lost samples]"]]
        self.assertEqual(len(stacks), len(body.splitlines()), "samples are lost")
        return stacks, body

    def test_buffers_of_the_data_path(self):
        proxy = self.serve_bodies()
        self.load(proxy)
        before = self.requests(proxy)
        stacks, body = self.profile(proxy)
        requests = self.requests(proxy) - before
        self.assertGreater(requests, 10)
        self.assertLessEqual({stack[1] for stack, _ in stacks}, {"buffers"} if harness.SANITIZER else {"buffers", "heap"})
        total = sum(number for _, number in stacks)
        logged = re.search(r"admin: profile of allocations of 2 s: (\d+) samples, 0 lost, (\d+) bytes allocated", proxy.stderr())
        self.assertAlmostEqual(int(logged[2]) / total, 1, delta=0.001)
        self.assertGreater(int(logged[1]), 20)
        buffers = [(stack, number) for stack, number in stacks if stack[0].startswith("worker ") and stack[1] == "buffers"]
        # Each byte of a body was in a buffer at least once. More requests than these may be in progress.
        self.assertGreater(sum(number for _, number in buffers), 0.5 * requests * (200_000 + 65_536), body)
        if EXACT:
            for part in DATA_PATH:
                self.assertTrue(any(part in each for stack, _ in buffers for each in stack), f"no {part} in\n{body}")
            # The hooks are not part of it.
            self.assertEqual([stack for stack, _ in stacks if "AllocationSampler" in stack[-1]], [])

        # Counts are of the same allocations: a buffer has 64 bytes to 64 KiB.
        counts, _ = self.profile(proxy, "&unit=count")
        self.assertGreater(sum(number for _, number in counts), 100)
        self.assertLess(sum(number for _, number in counts), total)

    def test_heap_of_the_admin_listener(self):
        if harness.SANITIZER:
            self.skipTest("the heap is the sanitizer's")
        proxy = self.serve_bodies()
        ended = threading.Event()

        def scrape():
            while not ended.is_set():
                self.get(proxy, "/metrics")

        scraping = threading.Thread(target=scrape, daemon=True)
        scraping.start()
        stacks, body = self.profile(proxy)
        ended.set()
        scraping.join()
        heap = [stack for stack, _ in stacks if stack[:2] == ["admin", "heap"]]
        self.assertTrue(any("sluice::ProcessPages::metrics" in stack for stack in heap), body)
        self.assertTrue(any(stack[-1] == "operator new" for stack in heap), body)

    def test_one_profile_at_a_time(self):
        proxy = self.serve_bodies()
        address = self.address_of(proxy)
        text = "another profile is in progress; try again later\n"
        for first in ("allocations", "time"):
            client = self.connect(proxy)
            client.sendall(f"GET /profile?type={first}&seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            for other in ("time", "allocations"):
                path = f"/profile?type={other}&seconds=1"
                wait_until(lambda path=path: self.curl(address, path, seconds=10)[0] == 409, 10, "the first profile")
                self.assertEqual(self.curl(address, path)[2], text)
            # A client that leaves ends its profile.
            client.close()
            wait_until(lambda: self.curl(address, "/profile?type=allocations&seconds=1", seconds=10)[0] == 200, 20, "the next profile")

    def test_command(self):
        proxy = self.serve_bodies()
        self.load(proxy)
        done = subprocess.run([SLUICE, "admin", "--address", self.address_of(proxy), "profile", "--allocations", "--seconds", "1"],
                              capture_output=True, text=True, timeout=60 * SLOWNESS, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^worker \d;buffers;.* \d+$")

    def test_end_of_the_process(self):
        """Workers that are sampled may end."""
        proxy = self.serve_bodies()
        self.load(proxy)
        client = self.connect(proxy)
        client.sendall(b"GET /profile?type=allocations&seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(self.address_of(proxy), "/profile?seconds=1")[0] == 409, 10, "the profile")
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(20 * SLOWNESS), 0)


if __name__ == "__main__":
    harness.main()
