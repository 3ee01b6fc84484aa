"""Profiles of allocations: the buffers and the heap memory that the functions of the data path and of the admin listener take."""

import pathlib
import re
import signal
import subprocess
import threading

import harness
from admin_test import AdminTest
from harness import SLUICE, SLOWNESS, wait_until
from origins import Origin
from profile_test import EXACT, lines_of
from reload_test import RESPONSE, listener, upstream
from tls_support import TlsTest

# Receiving, TLS, HTTP/2.
DATA_PATH = ("sluice::BufferRing", "sluice::Tls", "sluice::Http2Codec")


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
        line = r"admin: profile of allocations of 2 s: (\d+) samples, 0 lost, (\d+) bytes allocated"
        proxy.wait_for_match(line)
        logged = re.search(line, proxy.stderr())
        self.assertAlmostEqual(int(logged[2]) / total, 1, delta=0.001)
        self.assertGreater(int(logged[1]), 20)
        buffers = [(stack, number) for stack, number in stacks if stack[0].startswith("worker ") and stack[1] == "buffers"]
        # Each byte of a body was in a buffer at least once. More requests than these may be in progress.
        self.assertGreater(sum(number for _, number in buffers), 0.5 * requests * (200_000 + 65_536), body)
        if EXACT:
            # Some take little: a slow machine may need several profiles for a sample.
            missing = set(DATA_PATH)
            for _ in range(10):
                missing -= {part for part in missing for stack, _ in buffers for each in stack if part in each}
                if not missing:
                    break
                buffers, body = self.profile(proxy)
            self.assertEqual(missing, set(), body)
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
        client = self.connect(proxy)
        client.sendall(b"GET /profile?type=allocations&seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(self.address_of(proxy), "/profile?seconds=1")[0] == 409, 10, "the profile")
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(20 * SLOWNESS), 0)


if __name__ == "__main__":
    harness.main()
