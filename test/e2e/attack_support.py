"""Support for suites of attacks: well-behaved clients, attackers in a process of their own, and measurements of what
the proxy uses meanwhile."""

import contextlib
import multiprocessing
import select
import selectors
import socket
import threading
import time

import harness
from harness import KIB, LONG, MIB, SANITIZER, SLOWNESS
import http_wire as wire
from origins import connect, last_outcome

SECONDS = 3.0 if LONG else 1.0
# The timeouts of the listener `short`. Some are checked only once a second.
SHORT_SECONDS = 0.5
# The longest wait of a well-behaved client for a response. Most of it is a margin for a slow machine.
SLOWEST_SECONDS = 3 * SLOWNESS
CALM = "ENHANCE_YOUR_CALM"

# The counters of each class. They are series of a listener.
COUNTERS = {
    "resets": "http2_over_resets_total", "continuations": "http2_over_continuations_total",
    "header block": "http2_over_header_block_total", "settings": "http2_over_settings_total",
    "pings": "http2_over_pings_total", "empty data": "http2_over_empty_data_total",
    "window updates": "http2_over_window_updates_total", "unused frames": "http2_over_frames_unused_total",
    "glitches": "http2_glitches_total", "over glitches": "http2_over_glitches_total",
    "refused streams": "http2_refused_streams_total", "too large, 2": "http2_too_large_total",
    "too large, 1": "http1_too_large_total", "malformed, 1": "http1_malformed_total",
    "pipelines full": "http1_pipelines_full_total", "header timeouts": "http_header_timeouts_total",
}


def ended_requests(stats, reason, listener):
    return stats.total("http_requests_ended_total", listener=listener, reason=reason)


FORK = multiprocessing.get_context("fork")


# ---- The upstreams

def respond(request, connection):
    """Responds to /size/N with N bytes, and to other requests with their body."""
    words = request.path.split("/")
    body = pattern(int(words[2])) if words[1] == "size" else f"echo {request.path} {len(request.body)}\n".encode()
    connection.reply(request, body=body)


def hold(listener):
    """For /hold: receives everything, and sends nothing."""
    with selectors.DefaultSelector() as selector:
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                with contextlib.suppress(BlockingIOError):
                    if key.fileobj is listener:
                        sock = listener.accept()[0]
                        selector.register(sock, selectors.EVENT_READ)
                        continue
                    try:
                        data = key.fileobj.recv(256 * KIB)
                    except ConnectionResetError:
                        data = b""
                    if not data:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()


_patterns = {}


def pattern(size):
    if size not in _patterns:
        _patterns[size] = (bytes(range(256)) * (size // 256 + 1))[:size]
    return _patterns[size]


# ---- Well-behaved clients

class Victim(threading.Thread):
    """Sends requests all the time, and checks each response. With `fresh`, each request has a connection of its own."""

    def __init__(self, address, http2, fresh=False):
        super().__init__(daemon=True)
        self._address = address
        self._fresh = fresh
        self._kind = wire.Http2Client if http2 else wire.Http1Client
        self._over = threading.Event()
        self.served = 0
        self.slowest = 0
        self.problem = None

    def run(self):
        try:
            while not self._over.is_set():
                with self._kind(self._address) as client:
                    while not self._over.is_set() and self._send_request(client):
                        time.sleep(0.002)
        except Exception as error:  # Whatever it is, the test reports it.
            self.problem = repr(error)

    def _send_request(self, client):
        """Returns false when a new connection is needed."""
        size = (0, 100, 5000, 70000)[self.served % 4]
        path = f"/size/{size}" if size else f"/victim/{self.served}"
        wanted = pattern(size) if size else f"echo {path} 0\n".encode()
        began = time.monotonic()
        response = client.get(path, seconds=10 * SLOWNESS)
        self.slowest = max(self.slowest, time.monotonic() - began)
        if not response or not response.complete or response.status != 200 or response.body != wanted:
            raise AssertionError(f"{path}: {response!r} {client.how} {getattr(client.reader, 'goaway', None)}")
        self.served += 1
        drains = getattr(client.reader, "goaway", None)  # For example after http2.max_requests.
        return response.persistent and not drains and not self._fresh

    def stop(self):
        self._over.set()
        self.join(30 * SLOWNESS)


# ---- Attackers

class Ending:
    """How a connection of an attacker ended: what it received, and whether and how it was closed."""

    def __init__(self, client, sent):
        reader = client.reader
        self.how = client.how
        self.sent = sent
        goaway = getattr(reader, "goaway", None)
        self.goaway, self.text = goaway[1:] if goaway else ("", "")
        self.statuses = [message.status for message in reader.messages]

    def __repr__(self):
        return f"<{self.how or 'open'} {self.goaway} {self.text} {self.statuses[:3]} after {self.sent} bytes>"


def flood(address, opening, blob, until, http2=True, reads=True, settings=()):
    """Sends the opening, then the blob repeatedly, until the proxy ends the connection or the time is over."""
    client = wire.Http2Client(address, settings, polite=False) if http2 else wire.Http1Client(address)
    with client:
        sent = len(opening)
        client.send(opening)
        # A timeout is an OSError: the proxy reads no more, which also bounds the attack.
        with contextlib.suppress(OSError):
            while time.monotonic() < until and not client.how:
                client.sock.settimeout(0.3 * SLOWNESS)
                if not blob:
                    client.pump(0.05)
                for at in range(0, len(blob), 16 * KIB):
                    client.sock.sendall(memoryview(blob)[at:at + 16 * KIB])
                    sent += 16 * KIB
                    while reads and client.pump(0):
                        pass
                    client.sock.settimeout(0.3 * SLOWNESS)
                    if client.how or time.monotonic() > until:
                        break
        with contextlib.suppress(OSError, wire.WireError):
            client.wait(lambda: client.how or getattr(client.reader, "goaway", None), 0.3 * SLOWNESS)
            client.wait(lambda: client.how, 0.3 * SLOWNESS)
        return Ending(client, sent)


def repeated(piece, bytes_at_least=256 * KIB):
    return piece * (bytes_at_least // len(piece) + 1)


def per_stream(make, count, first=1):
    """Frames for `count` new streams."""
    return b"".join(make(stream) for stream in range(first, first + 2 * count, 2))


def run_in_process(attacks, until, pipe):
    """Runs the attacks in a process of their own, so that they and the well-behaved clients do not wait for each
    other."""
    results, problems = {name: [] for name in attacks}, []

    def run(name):
        try:
            while True:
                results[name].append(attacks[name](until))
                if time.monotonic() >= until:
                    return
        except Exception as error:
            problems.append(f"{name}: {error!r}")

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20 * SLOWNESS)
        if thread.is_alive():
            problems.append("an attacker hangs")
    pipe.send((results, problems))


def many(address, count, opening, until, trickle=b"", pause=0.05, receive_buffer=None):
    """Opens `count` connections that send `opening`, then `trickle` one byte at a time, and read nothing until the time
    is over. Returns how each ended: "end", "reset" or "silence"."""
    socks = []
    try:
        for _ in range(count):
            socks.append(connect(address, receive_buffer=receive_buffer))
            with contextlib.suppress(OSError):
                socks[-1].sendall(opening)
        at = 0
        while time.monotonic() < until:
            for sock in socks if trickle else ():
                with contextlib.suppress(OSError):
                    sock.sendall(trickle[at % len(trickle):at % len(trickle) + 1])
            at += 1
            time.sleep(pause)
        for sock in socks:
            sock.settimeout(4 * SLOWNESS)
        return [last_outcome(sock) for sock in socks]
    finally:
        for sock in socks:
            sock.close()


def crowd(address, count, opening, until):
    """Opens `count` connections that send `opening`, read nothing, and close all at once when the time is over. Returns
    how many had been closed by the proxy before."""
    socks = []
    try:
        for _ in range(count):
            socks.append(connect(address, receive_buffer=4 * KIB))
            socks[-1].settimeout(0.3 * SLOWNESS)
            with contextlib.suppress(OSError):
                socks[-1].sendall(opening)
        time.sleep(max(until - time.monotonic(), 0))
        return sum(not is_open(sock) for sock in socks)
    finally:
        for sock in socks:
            sock.close()


def is_open(sock):
    """Whether the peer has neither closed nor reset the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return not poll.poll(0)


class AttackTest(harness.SluiceTest):
    CONFIG = {}
    HTTP = {}
    ROUTES = []  # They precede the routes of every test.
    UPSTREAMS = []
    SLOWEST = SLOWEST_SECONDS
    LEAST_SERVED = 2

    def setUp(self):
        self.upstream = self.keep(wire.Server(respond))
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            holding = FORK.Process(target=hold, args=(listener,), daemon=True)
            holding.start()
            held = f"127.0.0.1:{listener.getsockname()[1]}"
        self.addCleanup(holding.join)
        self.addCleanup(holding.kill)
        routes = [*self.ROUTES, {"match": {"path": {"prefix": "/hold"}}, "forward": "hold"}, {"forward": "main"}]
        short = f"{int(SHORT_SECONDS * SLOWNESS * 1000)}ms"
        listeners = [
            {"name": "main", "address": "127.0.0.1:0", "http": {"routes": routes, **self.HTTP}},
            {"name": "short", "address": "127.0.0.1:0", "http": {
                "routes": routes, "header_timeout": short, "body_timeout": short, "send_timeout": short,
                "idle_timeout": short, "http2": {"preface_timeout": short}}}]
        self.proxy = self.start({
            "workers": 1, "shutdown_timeout": "3s", **self.CONFIG, "listeners": listeners,
            "upstreams": [{"name": "main", "endpoints": [self.upstream.address], "protocol": "http1"},
                          {"name": "hold", "endpoints": [held], "protocol": "http1"}, *self.UPSTREAMS]})
        self.main = self.proxy.address("main")
        self.short = self.proxy.address("short")

    # What the proxy uses

    def cpu_seconds(self):
        total = 0
        for task in self.proxy.threads():
            with contextlib.suppress(OSError), open(f"/proc/{self.proxy.pid}/task/{task}/schedstat",
                                                    encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def memory(self):
        with open(f"/proc/{self.proxy.pid}/status", encoding="ascii") as file:
            return sum(int(line.split()[1]) * KIB for line in file if line.startswith(("RssAnon:", "RssShmem:")))

    def under(self, attacks, memory_mib, attack_ms=None, share=None, seconds=SECONDS, together=not LONG):
        """Runs the attacks, `name: attack(until)`, each on a thread and repeatedly, beside well-behaved clients.
        Returns what each attack returned, by name. The bounds are the growth of memory, and the processor time for each
        attack or for all attacks as a share of a processor."""
        if not together and len(attacks) > 1:
            results = {}
            for name, attack in attacks.items():
                harness.print_note(f"{name}:")
                results.update(self.under({name: attack}, memory_mib, attack_ms, share, seconds))
            return results
        calm_cpu = self._serve(time.monotonic() + 0.2)[1]
        base = self.memory()
        peak = [base]
        until = time.monotonic() + seconds
        ours, theirs = multiprocessing.Pipe()
        attacker = FORK.Process(target=run_in_process, args=(attacks, until, theirs), daemon=True)
        attacker.start()
        self.addCleanup(attacker.join)
        self.addCleanup(attacker.kill)
        victims, cpu = self._serve(until, lambda: peak.append(self.memory()))
        self.assertTrue(ours.poll(30 * SLOWNESS), "the attackers hang")
        results, problems = ours.recv()
        attacker.join()
        peak.append(self.memory())
        self.assertFalse(problems)
        grown = (max(peak) - base) / MIB
        count = sum(map(len, results.values()))
        taken = max(cpu - calm_cpu, 0)
        each_ms = taken * seconds * 1000 / count
        bounds = [f"memory +{grown:.1f} MiB (of {memory_mib})", f"processor {taken * 100:.0f} %" +
                  (f" (of {share * 100:.0f})" if share else ""),
                  f"{each_ms:.2f} ms each" + (f" (of {attack_ms})" if attack_ms else "")]
        harness.print_note(f"{count} attacks: {', '.join(bounds)}; served {sum(victim.served for victim in victims)}, slowest "
                           f"{max(victim.slowest for victim in victims) * 1000:.0f} ms")
        for victim in victims:
            self.assertGreaterEqual(victim.served, self.LEAST_SERVED)
            self.assertLess(victim.slowest, self.SLOWEST)
        if not SANITIZER:
            self.assertLess(grown, memory_mib)
            if attack_ms:
                self.assertLess(each_ms, attack_ms)
            if share:
                self.assertLess(taken, share)
        return results

    def _serve(self, until, meanwhile=lambda: None):
        """Runs the well-behaved clients. Returns the share of a processor that the proxy used."""
        victims = [Victim(self.main, http2) for http2 in (False, True)] + [Victim(self.main, False, fresh=True)]
        for victim in victims:
            victim.start()
        began, before = time.monotonic(), self.cpu_seconds()
        while time.monotonic() < until:
            meanwhile()
            time.sleep(0.02)
        cpu = (self.cpu_seconds() - before) / (time.monotonic() - began)
        for victim in victims:
            victim.stop()
        self.assertFalse([victim.problem for victim in victims if victim.problem])
        return victims, cpu

    def check_counted(self, what, least=1, listener="main"):
        self.proxy.wait_for(lambda stats: stats.total(COUNTERS[what], listener=listener) >= least,
                            what=f"{least} of {COUNTERS[what]}")

    def check_ended_with_goaway(self, name, endings, word, goaway=CALM):
        """The connections were ended, with a GOAWAY that names the limit. The last one may have had no time to receive
        it."""
        matching = [ending for ending in endings if ending.goaway == goaway and word in ending.text]
        self.assertTrue(matching, f"{name}: {endings[:3]}")
        for ending in endings[:-1]:
            self.assertIn(ending.how, ("end", "reset"), f"{name}: {endings[:3]}")

    def check_upstream_has_no_requests(self):
        """Requests that no client waits for are gone from the upstream."""
        self.proxy.wait_for(lambda s: s.total("endpoint_connections_active", upstream="hold") == 0,
                            what="the upstream to be rid of the requests")
