"""Random traffic for a given time, then a drain, after which all memory and descriptors must be returned. Runs as
tools/soak and as soak_test.py."""

import collections
import contextlib
import random
import socket
import tempfile
import threading
import time

import harness
from harness import KIB, MIB, SANITIZER, SLOWNESS
from origins import Origin, connect, free_port, receive_exactly, refused_address, reset
from tls_support import Certificates
from transfers import pattern

_WARM_UP_SECONDS = 4
_THREADS = 12
# Memory that was unused for two ageing periods of ten seconds is returned, a part at a time.
_RETURN_SECONDS = 45


class WrongData(AssertionError):
    pass


class Soak:
    """Clients that connect, transfer, idle, half-close and reset at random, through one proxy."""

    def __init__(self, seed=None, log=lambda text: None):
        self.seed = seed if seed is not None else random.randrange(1 << 32)
        self._log = log
        self._origins = [Origin(self._serve), Origin(self._serve), Origin(self._rude)]
        config = harness.configuration(
            [self._origins[0].address, self._origins[1].address, refused_address()], workers=2,
            listener={"max_connections_per_source": 0}, tcp={"idle_timeout": "20s"},
            upstream={"max_fails": 3, "fail_timeout": "1s", "balance": "least_connections"})
        config["listeners"].append({"name": "rude", "address": "127.0.0.1:0", "max_connections_per_source": 0,
                                    "tcp": {"forward": "rude", "idle_timeout": "20s"}})
        config["upstreams"].append({"name": "rude", "endpoints": [self._origins[2].address]})
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-soak-")
        self._add_tls(config)
        self.proxy = harness.Proxy(config)
        self.counts = collections.Counter()
        self.errors = []
        self._lock = threading.Lock()
        self._local = threading.local()  # `chooser`: each client thread has its own seed, so that a seed repeats a run.
        self._rude_ones = 0
        self._stop = threading.Event()

    def _add_tls(self, config):
        """Adds a listener whose connections pass through TLS: to another listener of the proxy, and from there like
        those of `main`. So clients need no TLS, and can do all of their actions."""
        files = Certificates(self._folder.name)
        between = f"127.0.0.1:{free_port()}"
        limits = {"max_connections_per_source": 0}
        config["listeners"] += [
            {"name": "over_tls", "address": "127.0.0.1:0", **limits, "tcp": {"forward": "secure", "idle_timeout": "20s"}},
            {"name": "secure", "address": between, **limits, "tcp": {"forward": "main", "idle_timeout": "20s"},
             "tls": {"certificates": [files.make("server", "localhost")]}}]
        config["upstreams"].append({"name": "secure", "endpoints": [between],
                                    "tls": {"ca": files.path("ca.pem"), "server_name": "localhost"}})

    # Servers. A request is a stream number, how much the client sends, and how much it expects: 3 x 8 digits.

    def _serve(self, sock):
        try:
            self._serve_all(sock)
        except WrongData as error:
            # Otherwise it would be lost with this thread.
            with self._lock:
                self.errors.append(f"a server: {error}")

    def _serve_all(self, sock):
        while True:
            first = sock.recv(1)
            if not first:
                break
            request = first + receive_exactly(sock, 23)
            stream, comes, wanted = (int(request[i:i + 8]) for i in (0, 8, 16))
            sender = threading.Thread(target=self._send, args=(sock, 2 * stream + 1, wanted), daemon=True)
            sender.start()
            self._check(sock, 2 * stream, comes)
            sender.join()
        sock.shutdown(socket.SHUT_WR)

    def _rude(self, sock):
        """Resets, ends early, or never responds."""
        with self._lock:
            self._rude_ones += 1
            chooser = random.Random(self.seed * 1_000_003 + self._rude_ones)
        mood = chooser.random()
        sock.settimeout(5)
        if mood < 0.4:
            sock.recv(chooser.randrange(1, 20000))
            reset(sock)
        elif mood < 0.7:
            sock.recv(chooser.randrange(1, 20000))
            sock.sendall(bytes(chooser.randrange(1, 100000)))
        else:
            time.sleep(chooser.uniform(0, 1))

    @staticmethod
    def _send(sock, stream, count):
        chooser = random.Random(stream)
        with contextlib.suppress(OSError):
            done = 0
            while done < count:
                piece = min(count - done, chooser.choice((100, 4 * KIB, 64 * KIB, 256 * KIB)))
                sock.sendall(pattern(stream, done, piece))
                done += piece

    @staticmethod
    def _check(sock, stream, count):
        done = 0
        while done < count:
            data = sock.recv(min(count - done, 256 * KIB))
            if not data:
                raise ConnectionAbortedError(f"the stream ended after {done} of {count} bytes")
            if data != pattern(stream, done, len(data)):
                raise WrongData(f"wrong data between {done} and {done + len(data)} of stream {stream}")
            done += len(data)

    # Clients

    @property
    def _chooser(self):
        return self._local.chooser

    def _request(self, sock, largest):
        stream = self._chooser.randrange(10_000_000)
        sends, wants = (int(self._chooser.uniform(0, 1) ** 3 * largest) for _ in range(2))
        sock.sendall(b"%08d%08d%08d" % (stream, sends, wants))
        sender = threading.Thread(target=self._send, args=(sock, 2 * stream, sends), daemon=True)
        sender.start()
        self._check(sock, 2 * stream + 1, wants)
        sender.join()
        self._count("bytes", sends + wants)

    def _transfer(self, sock):
        for _ in range(self._chooser.randrange(1, 4)):
            self._request(sock, 4 * MIB)

    def _small_requests(self, sock):
        for _ in range(self._chooser.randrange(1, 50)):
            self._request(sock, 2000)

    def _idle(self, sock):
        self._request(sock, 1000)
        time.sleep(self._chooser.uniform(0, 2))
        self._request(sock, 1000)

    def _half_close(self, sock):
        self._request(sock, 100_000)
        sock.shutdown(socket.SHUT_WR)
        if sock.recv(1):
            raise AssertionError("data where the end was due")

    def _reset_at_once(self, sock):
        if self._chooser.random() < 0.5:
            sock.sendall(b"x")
        reset(sock)

    def _reset_in_the_middle(self, sock):
        sock.sendall(b"%08d%08d%08d" % (1, 9_000_000, 9_000_000))
        sock.sendall(pattern(2, 0, self._chooser.randrange(200_000)))
        sock.recv(self._chooser.randrange(1, 200_000))
        reset(sock)

    def _leave_in_the_middle(self, sock):
        sock.sendall(b"%08d%08d%08d" % (1, 0, 5_000_000))
        sock.recv(self._chooser.randrange(1, 200_000))

    def _slow_reader(self, sock):
        sock.sendall(b"%08d%08d%08d" % (1, 0, 9_000_000))
        for _ in range(20):
            if not sock.recv(2000):
                break
            time.sleep(0.02)

    def _use_misbehaving_server(self, sock):
        sock.sendall(bytes(self._chooser.randrange(1, 300_000)))
        while sock.recv(65536):
            pass

    _MANNERS = ((_transfer, 4, True), (_small_requests, 4, True), (_idle, 2, True), (_half_close, 3, True),
                (_reset_at_once, 2, False), (_reset_in_the_middle, 2, False), (_leave_in_the_middle, 2, False),
                (_slow_reader, 1, False), (_use_misbehaving_server, 3, False))

    def _client(self, seed):
        chooser = self._local.chooser = random.Random(seed)
        while not self._stop.is_set():
            manner, _, strict = chooser.choices(self._MANNERS, [weight for _, weight, _ in self._MANNERS])[0]
            name = manner.__name__.strip("_")
            listener = "rude" if name == "use_misbehaving_server" else chooser.choice(("main", "over_tls"))
            try:
                with connect(self.proxy.address(listener), timeout=20 * SLOWNESS) as sock:
                    manner(self, sock)
                self._count(name)
            except (OSError, AssertionError) as error:
                if strict or isinstance(error, (AssertionError, socket.timeout)):
                    with self._lock:
                        self.errors.append(f"{name}: {error!r}")
                    if len(self.errors) > 20:
                        return
                self._count(name + " (cut)")

    def _count(self, name, count=1):
        with self._lock:
            self.counts[name] += count

    def _run_clients(self, seconds):
        self._stop.clear()
        threads = [threading.Thread(target=self._client, args=(self.seed + number,), daemon=True)
                   for number in range(_THREADS)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.proxy.process.poll() is None and len(self.errors) <= 20:
            time.sleep(min(5, max(0, end - time.monotonic())))
            if seconds > 60:
                stats = self.proxy.stats()
                self._log(f"{end - time.monotonic():4.0f} s left: {stats.total('accepted_total')} sessions, "
                          f"{stats.total('sessions_active')} open, PSS {self.proxy.pss() / KIB:.0f} KiB")
        self._stop.set()
        for thread in threads:
            thread.join(30 * SLOWNESS)

    def _all_ended(self):
        # Sessions whose server still waits for data end with their idle timeout at the latest.
        self.proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30, "sessions to end")

    def run(self, seconds):
        """Raises AssertionError for any error at the end."""
        self._log(f"seed {self.seed}")
        self._run_clients(_WARM_UP_SECONDS)
        self._all_ended()
        base = self._settled(self.proxy.pss())
        self._run_clients(seconds)
        self._all_ended()
        # Chunks that are posted to the kernel have pages once they have been used, and keep them.
        allowed = base * 1.1 + 2 * MIB + self.proxy.stats().total("pool_posted_bytes")
        after = self._settled(allowed)
        stats = self.proxy.stats()
        harness.print_note(f"{seconds:.0f} s, {stats.total('accepted_total')} sessions, "
                           f"{stats.total('tls_handshakes_total')} of them with TLS, "
                           f"{self.counts['bytes'] / MIB:.0f} MiB checked; PSS {base / KIB:.0f} KiB before, "
                           f"{after / KIB:.0f} KiB after; sessions ended: {stats.reasons()}")
        self._log(", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()) if name != "bytes"))
        if self.errors:
            raise AssertionError(f"seed {self.seed}: {len(self.errors)} clients were not served:\n" +
                                 "\n".join(self.errors[:10]))
        # Each client closed or reset its connection in the end: no session may end by its timeout.
        if stats.ended("idle_timeout"):
            raise AssertionError(f"seed {self.seed}: {stats.ended('idle_timeout')} sessions outlived their client")
        if not SANITIZER and after > allowed:
            raise AssertionError(f"seed {self.seed}: {after / KIB:.0f} KiB are in use, {base / KIB:.0f} were before")

    def _settled(self, enough):
        """The memory in use, once it no longer shrinks or is no more than `enough`."""
        if SANITIZER:
            return self.proxy.pss()
        end = time.monotonic() + _RETURN_SECONDS
        least, since = self.proxy.pss(), time.monotonic()
        while time.monotonic() < end:
            time.sleep(0.5)
            now = self.proxy.pss()
            if now < enough and enough != least:
                return now
            if now < least - 16 * KIB:
                least, since = now, time.monotonic()
            elif time.monotonic() - since > 24:
                break
        return self.proxy.pss()

    def close(self):
        """Ends the proxy, with the checks of every test."""
        try:
            harness.stop_and_check(self.proxy)
        finally:
            for origin in self._origins:
                origin.close()
            self._folder.cleanup()
