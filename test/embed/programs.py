"""Checks of the example programs that need only the buffer library, wherever they were built."""

import contextlib
import hashlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time

SECONDS = 30


def checksum(data):
    """The Internet checksum (RFC 1071), not complemented."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def check_leak(test, program):
    """One request in three is leaked, and the report names the function that did it, and no other."""
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=SECONDS)
    test.assertIn("2048000 bytes in chunks were not released: 1000 x 2048 B", done.stderr)
    test.assertRegex(done.stderr, r"(?s)1000 of 2048000 bytes in all, taken at\n.*#\d+ +example::read_request\(.*"
                                  r"#\d+ +example::answer_and_forget\(.*#\d+ +main\+")
    test.assertNotIn("example::answer_well", done.stderr)


def check_frames(test, program):
    """Known frames, cut at random positions by a pipe that delivers them in pieces, and from a file."""
    rng = random.Random(1)
    sizes = [0, 1, 3, 4, 5, 252, 1000, 4096, 16380, 16384, 65536, 70000, 1 << 20]
    payloads = [rng.randbytes(size) for size in sizes + [rng.randrange(2000) for _ in range(300)]]
    stream = b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)

    def pieces():
        left = memoryview(stream)
        while left:
            size = rng.choice([1, 7, 300, 5000, 40000])
            yield left[:size]
            left = left[size:]

    def expect(output, message):
        lines = output.decode().splitlines()
        test.assertEqual(len(lines), len(payloads) + 1, message)
        for number, (line, payload) in enumerate(zip(lines, payloads), 1):
            found = re.fullmatch(rf"{number}: (\d+) bytes in (\d+) windows, checksum ([0-9a-f]{{4}})", line)
            test.assertTrue(found, line)
            test.assertEqual(int(found[1]), len(payload), line)
            test.assertEqual(int(found[3], 16), checksum(payload), line)
        end = re.fullmatch(r"(\d+) frames, (\d+) bytes, (\d+) bytes copied, (\d+) bytes of chunks at most", lines[-1])
        test.assertTrue(end, lines[-1])
        test.assertEqual([int(end[1]), int(end[2])], [len(payloads), sum(map(len, payloads))])
        # Bytes are copied only before a wait, if they hold a chunk more than twice their size.
        test.assertLess(int(end[3]), len(stream) / 4, lines[-1])
        # The largest frame, and not much more.
        test.assertLess(int(end[4]), (1 << 20) + 256 * 1024, lines[-1])

    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        def feed():
            for piece in pieces():
                process.stdin.write(piece)
                process.stdin.flush()
            process.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        output, errors = process.stdout.read(), process.stderr.read()
        feeder.join(SECONDS)
        test.assertEqual((process.wait(SECONDS), errors), (0, b""))
    expect(output, "in pieces")

    path = os.path.join(test.folder, "frames.bin")
    with open(path, "wb") as file:
        file.write(stream)
    result = subprocess.run([program, path], capture_output=True, timeout=SECONDS, check=False)
    test.assertEqual((result.returncode, result.stderr), (0, b""))
    expect(result.stdout, "from a file")

    for data, message in ((stream[:-1], b"ends within a frame"), (struct.pack(">I", 1 << 30), b"has more than")):
        result = subprocess.run([program], input=data, capture_output=True, timeout=SECONDS, check=False)
        test.assertEqual(result.returncode, 1)
        test.assertIn(message, result.stderr)


def check_echo(test, program):
    """Bytes return unchanged, nothing is copied, and at the end all chunks have returned."""
    rng = random.Random(2)

    with _echo(test, program) as server:
        bulks = [rng.randbytes(size) for size in (1, 4095, 4096, 4097, 100_000, 1 << 20, 5 << 20, 8 << 20)]
        threads = [_Client(server.address, bulk) for bulk in bulks]
        drips = rng.randbytes(500)
        with socket.create_connection(server.address, SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in drips:
                connection.send(bytes([byte]))
            got = b""
            while len(got) < len(drips):
                got += connection.recv(1000)
            test.assertEqual(got, drips)
        _finish(test, threads)
        # It ends while one connection is open, and another has sent data whose echo it does not read.
        with socket.create_connection(server.address, SECONDS) as idle, \
                socket.create_connection(server.address, SECONDS) as stuck:
            idle.sendall(b"x")
            test.assertEqual(idle.recv(10), b"x")
            stuck.settimeout(0.3)
            with test.assertRaises(TimeoutError, msg="it takes any number of bytes for a client that reads none"):
                while True:
                    stuck.send(bytes(4096))
            server.end()
    total = sum(map(len, bulks)) + len(drips) + 1
    test.assertGreaterEqual(server.echoed, total)
    test.assertLess(server.copied, total / 100, "small pieces behind others are all that is copied")
    test.assertLess(server.at_most, 8 << 20, "nobody's queue goes far beyond its mark")

    # Clients that read late, and together use up the budget: they wait for chunks, and lose nothing. So does one that
    # connects when there is no chunk left.
    with _echo(test, program, "1") as server:
        read = threading.Event()
        # Each is stuck with more than echo's low mark (64 KiB) in its queue, in addition to what the sockets hold.
        bulk = rng.randbytes(6 << 20)
        threads = [_Client(server.address, bulk, read) for _ in range(16)]
        time.sleep(0.4)  # By then the queues are full. If they are not, the test checks less, and still passes.
        threads.append(_Client(server.address, b"late"))
        time.sleep(0.1)
        read.set()
        _finish(test, threads)
        server.end()
    test.assertEqual(server.echoed, 16 * len(bulk) + len(b"late"))
    test.assertGreater(server.at_most, (1 << 20) - (128 << 10), "the budget was not reached")
    test.assertLess(server.at_most, (1 << 20) + (128 << 10), "only bookkeeping may go beyond the budget")


class _Client(threading.Thread):
    """Sends all of `bulk`, and reads meanwhile or only once `read` is set; errors are in `failure`."""

    def __init__(self, address, bulk, read=None):
        super().__init__()
        self.address, self.bulk, self.read, self.failure = address, bulk, read, "did not end"
        self.start()

    def run(self):
        try:
            with socket.socket() as connection:
                if self.read:
                    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                        connection.setsockopt(socket.SOL_SOCKET, buffer, 65536)
                connection.settimeout(SECONDS)
                connection.connect(self.address)

                def send():
                    connection.sendall(self.bulk)
                    connection.shutdown(socket.SHUT_WR)

                sender = threading.Thread(target=send)
                sender.start()
                if self.read:
                    self.read.wait(SECONDS)
                digest, count = hashlib.sha256(), 0
                while data := connection.recv(1 << 16):
                    digest.update(data)
                    count += len(data)
                sender.join()
            same = digest.digest() == hashlib.sha256(self.bulk).digest()
            self.failure = None if same else f"sent {len(self.bulk)} bytes, got {count} back, or others"
        except OSError as error:
            self.failure = str(error)


def _finish(test, clients):
    for client in clients:
        client.join()
    test.assertEqual([client.failure for client in clients if client.failure], [])


class _Server:
    """A running echo: `address`, and its figures after end()."""

    def __init__(self, test, process):
        self.test, self.process = test, process
        line = process.stdout.readline().decode()
        started = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", line)
        test.assertTrue(started, line or process.stderr.read().decode())
        self.address = ("127.0.0.1", int(started[1]))

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=SECONDS)
        # A leaked chunk would be reported.
        self.test.assertEqual((self.process.returncode, errors), (0, b""))
        end = re.fullmatch(r"(\d+) bytes echoed, (\d+) bytes copied, (\d+) bytes of chunks at most\n", output.decode())
        self.test.assertTrue(end, output)
        self.echoed, self.copied, self.at_most = map(int, end.groups())


@contextlib.contextmanager
def _echo(test, program, *arguments):
    with subprocess.Popen([program, "0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield _Server(test, process)
        finally:
            process.kill()
