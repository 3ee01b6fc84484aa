"""Attacks on HTTP beside clients that behave. Those are served rightly all the while; the proxy's memory and processor
time stay within stated bounds, each class has its counter, and the attacker's connections end as they should.

Attacks of a kind run side by side for a second; in the long form each runs alone, for three.
"""

import contextlib
import multiprocessing
import selectors
import socket
import struct
import threading
import time
import unittest

import harness
from harness import KIB, LONG, MIB, SANITIZER, SLOWNESS
import http_wire as wire
from http_wire import frame, headers_frame, request_fields, request_frame
from origins import connect, last_outcome

SECONDS = 3.0 if LONG else 1.0
# The timeouts of the listener `short`. Some are looked at once a second only.
SHORT_SECONDS = 0.5
# That a client which behaves ever waits for a response. Most of it is for the machine.
SLOWEST_SECONDS = 3 * SLOWNESS
CALM = "ENHANCE_YOUR_CALM"

# What counts each class; series of a listener.
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

def answer(request, connection):
    """/size/N: so many bytes; else an echo."""
    words = request.path.split("/")
    body = pattern(int(words[2])) if words[1] == "size" else f"echo {request.path} {len(request.body)}\n".encode()
    connection.reply(request, body=body)


def hold(listener):
    """For /hold: takes everything, and answers nothing."""
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


# ---- The clients that behave

class Victim(threading.Thread):
    """Asks all the time, and looks at each answer."""

    def __init__(self, address, http2):
        super().__init__(daemon=True)
        self._address = address
        self._kind = wire.Http2Client if http2 else wire.Http1Client
        self._over = threading.Event()
        self.served = 0
        self.slowest = 0
        self.problem = None

    def run(self):
        try:
            while not self._over.is_set():
                with self._kind(self._address) as client:
                    while not self._over.is_set() and self._ask(client):
                        time.sleep(0.002)
        except Exception as error:  # Whatever it is, the test is to say it.
            self.problem = repr(error)

    def _ask(self, client):
        """False when a new connection is needed."""
        size = (0, 100, 5000, 70000)[self.served % 4]
        path = f"/size/{size}" if size else f"/victim/{self.served}"
        wanted = pattern(size) if size else f"echo {path} 0\n".encode()
        began = time.monotonic()
        response = client.get(path, seconds=10 * SLOWNESS)
        self.slowest = max(self.slowest, time.monotonic() - began)
        if not response or not response.complete or response.status != 200 or response.body != wanted:
            raise AssertionError(f"{path}: {response!r} {client.how} {getattr(client.reader, 'goaway', None)}")
        self.served += 1
        return response.persistent

    def stop(self):
        self._over.set()
        self.join(30 * SLOWNESS)


# ---- Attackers

class Ending:
    """How a connection of an attacker ended: what it was told, and whether and how it was closed."""

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
    """Sends the opening, then the blob again and again, until the proxy ends it or the time is over."""
    client = wire.Http2Client(address, settings, polite=False) if http2 else wire.Http1Client(address)
    with client:
        sent = len(opening)
        client.send(opening)
        with contextlib.suppress(OSError):  # A timeout is one: it reads no more, which bounds it too.
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
    """Frames for so many new streams."""
    return b"".join(make(stream) for stream in range(first, first + 2 * count, 2))


def run_apart(attacks, until, pipe):
    """In a process of their own, so that they and the clients that behave do not wait for each other."""
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
    """Connections side by side that say `opening`, then `trickle` a byte at a time each, and read nothing until the
    time is over. How each ended: "end", "reset" or "silence"."""
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


class AttackTest(harness.SluiceTest):
    CONFIG = {}
    HTTP = {}
    SLOWEST = SLOWEST_SECONDS
    LEAST_SERVED = 2

    def setUp(self):
        self.upstream = self.keep(wire.Server(answer))
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            holding = FORK.Process(target=hold, args=(listener,), daemon=True)
            holding.start()
            held = f"127.0.0.1:{listener.getsockname()[1]}"
        self.addCleanup(holding.join)
        self.addCleanup(holding.kill)
        routes = [{"match": {"path": {"prefix": "/hold"}}, "forward": "hold"}, {"forward": "main"}]
        short = f"{int(SHORT_SECONDS * SLOWNESS * 1000)}ms"
        listeners = [
            {"name": "main", "address": "127.0.0.1:0", "http": {"routes": routes, **self.HTTP}},
            {"name": "short", "address": "127.0.0.1:0", "http": {
                "routes": routes, "header_timeout": short, "body_timeout": short, "send_timeout": short,
                "idle_timeout": short, "http2": {"preface_timeout": short}}}]
        self.proxy = self.start({
            "workers": 1, "shutdown_timeout": "3s", **self.CONFIG, "listeners": listeners,
            "upstreams": [{"name": "main", "endpoints": [self.upstream.address], "protocol": "http1"},
                          {"name": "hold", "endpoints": [held], "protocol": "http1"}]})
        self.main = self.proxy.address("main")
        self.short = self.proxy.address("short")

    # What the proxy takes

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
        """Runs the attacks, `name: attack(until)`, each on a thread again and again, beside two clients that behave.
        Returns what each attack returned, by name. Bounds: what memory grows by; the processor time for each attack, or
        all that the attacks take as a share of a processor."""
        if not together and len(attacks) > 1:
            results = {}
            for name, attack in attacks.items():
                harness.say(f"{name}:")
                results.update(self.under({name: attack}, memory_mib, attack_ms, share, seconds))
            return results
        calm_cpu = self._serve(time.monotonic() + 0.2)[1]
        base = self.memory()
        peak = [base]
        until = time.monotonic() + seconds
        ours, theirs = multiprocessing.Pipe()
        attacker = FORK.Process(target=run_apart, args=(attacks, until, theirs), daemon=True)
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
        harness.say(f"{count} attacks: {', '.join(bounds)}; served {sum(victim.served for victim in victims)}, slowest "
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
        """The two clients, and the share of a processor that the proxy took."""
        victims = [Victim(self.main, http2) for http2 in (False, True)]
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

    def check_calmed(self, name, endings, word, goaway=CALM):
        """They were ended, with a GOAWAY that names the limit. The last one may have had no time for it."""
        told = [ending for ending in endings if ending.goaway == goaway and word in ending.text]
        self.assertTrue(told, f"{name}: {endings[:3]}")
        for ending in endings[:-1]:
            self.assertIn(ending.how, ("end", "reset"), f"{name}: {endings[:3]}")

    def check_upstream_is_rid_of_them(self):
        """Of the requests that nobody waits for any more."""
        self.proxy.wait_for(lambda s: s.total("endpoint_connections_active", upstream="hold") == 0,
                            what="the upstream to be rid of the requests")


class Attacks(AttackTest):

    # ---- Streams

    def test_rapid_reset(self):
        """CVE-2023-44487. 100 resets are borne; nothing keeps the upstream busy behind them."""
        blob = per_stream(lambda stream: request_frame(stream, path="/hold") + wire.rst_frame(stream), 500)
        endings = self.under({"rapid reset": lambda until: flood(self.main, b"", blob, until)}, memory_mib=16,
                             attack_ms=10)["rapid reset"]
        self.check_calmed("rapid reset", endings, "reset")
        self.check_counted("resets")
        self.assertLess(self.proxy.stats().total("upstream_requests_total", upstream="hold"), 110 * len(endings) + 100)
        self.check_upstream_is_rid_of_them()

    def test_made_you_reset(self):
        """CVE-2025-8671: resets that the proxy is made to send, in each way that there is."""
        def head(stream, **options):
            return request_frame(stream, path="/hold", **options)
        sized = lambda stream: headers_frame(stream, [*request_fields("POST", "/hold"), ("content-length", "1")])
        ways = {
            "window update by nothing": lambda stream: head(stream) + wire.window_frame(stream, 0),
            "window too large": lambda stream: head(stream) + wire.window_frame(stream, 0x7fffffff),
            "priority of a wrong length": lambda stream: head(stream) + frame(wire.PRIORITY, 0, stream, b"1234"),
            "data behind the end": lambda stream: head(stream) + wire.data_frame(stream, b"x"),
            "trailers behind the end": lambda stream: head(stream) + headers_frame(stream, [("x", "y")], end=True),
            "too much data": lambda stream: sized(stream) + wire.data_frame(stream, b"xx"),
            "malformed head": lambda stream: head(stream, fields=[("connection", "close")]),
            "large trailers": lambda stream: request_frame(stream, "POST", "/hold", end=False) +
                              headers_frame(stream, [("x", "y")] * 110, end=True),
        }
        blobs = {name: per_stream(make, 300) for name, make in ways.items()}
        results = self.under({name: lambda until, blob=blob: flood(self.main, b"", blob, until)
                              for name, blob in blobs.items()}, memory_mib=24, attack_ms=15)
        for name, endings in results.items():
            self.check_calmed(name, endings, "reset")
        self.check_counted("resets", len(ways))
        self.check_upstream_is_rid_of_them()

    def test_too_many_streams(self):
        """More than are allowed at once, and none of them ever ends."""
        blob = per_stream(lambda stream: request_frame(stream, path="/hold"), 300)
        endings = self.under({"streams": lambda until: flood(self.main, blob, b"", until)}, memory_mib=16,
                             attack_ms=10)["streams"]
        self.check_calmed("streams", endings, "reset")
        self.check_counted("refused streams", 100)
        self.check_upstream_is_rid_of_them()

    def test_what_is_allowed(self):
        """100 at once, each reset when it was answered, for long, is nobody's attack."""
        with wire.Http2Client(self.main) as client:
            for _ in range(10):
                streams = [client.ask("/size/10") for _ in range(100)]
                for stream in streams:
                    response = client.response(stream)
                    self.assertTrue(response and response.complete, client.reader.goaway)
                client.send(b"".join(wire.rst_frame(stream) for stream in streams))
            self.assertTrue(client.get("/size/10").complete)

    # ---- Heads

    def test_header_blocks(self):
        """Blocks without end (VU#421644), blocks that are small on the wire only (CVE-2016-6581), and blocks of very
        many fields of no length (CVE-2026-49975), which would be held while the windows are shut."""
        begun = frame(wire.HEADERS, wire.END_STREAM, 1, wire.hpack(request_fields()))
        continuation = lambda fields: repeated(frame(wire.CONTINUATION, 0, 1, wire.hpack(fields)))
        fill = frame(wire.HEADERS, 5, 1, wire.hpack(request_fields()) + wire.hpack([("x", "y" * 3900)], index=True))
        use = per_stream(lambda stream: frame(wire.HEADERS, 5, stream, wire.hpack(request_fields()) + b"\xbe" * 16000),
                         50, 3)
        fields = lambda piece: per_stream(lambda stream: frame(
            wire.HEADERS, 5, stream, (wire.hpack(request_fields(path="/hold")) + piece * 4000)[:16384]), 50)
        shut = [(wire.INITIAL_WINDOW, 0)]
        attacks = {
            "continuations": (begun, continuation([("x", "y")]), ()),
            "long continuations": (begun, continuation([("x", "y" * 4000)]), ()),
            "empty continuations": (begun, continuation([]), ()),
            "an entry again and again": (fill, use, ()),
            "fields of no length": (b"", fields(b"\x00\x01a\x00"), shut),
            "crumbs": (b"", fields(b"\x00\x06cookie\x00"), shut),
        }
        results = self.under({name: lambda until, opening=opening, blob=blob, settings=settings: flood(
            self.main, opening, blob, until, settings=settings) for name, (opening, blob, settings) in attacks.items()},
            memory_mib=16, attack_ms=1)
        for name, endings in results.items():
            self.check_calmed(name, endings, "CONTINUATION" if "continuations" in name else "header block")
        self.check_counted("continuations", 3)
        self.check_counted("header block", 3)

    def test_heads_as_large_as_allowed(self):
        """100 streams with the largest heads that are taken, which wait for an upstream that does not answer: each is
        32 KiB."""
        fields = [(f"x-{number:03}", "y" * 280) for number in range(95)]
        blob = per_stream(lambda stream: wide_headers(stream, [*request_fields(path="/hold"), *fields]), 100)
        self.under({f"{number}": lambda until: flood(self.main, blob, b"", until) for number in range(2)},
                   memory_mib=24, attack_ms=200, together=True)
        self.check_upstream_is_rid_of_them()

    def test_large_heads(self):
        """HTTP/1.1: start lines, heads, trailers and chunk headers without end are refused when the bound is passed."""
        post = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        get = b"GET / HTTP/1.1\r\nhost: a\r\n"
        attacks = {
            "start line": (b"GET /", b"a", 414), "method": (b"", b"G", 414), "value": (get + b"x: ", b"a", 431),
            "name": (get, b"a", 431), "fields": (get, b"a: b\r\n", 431), "empty lines": (b"", b"\r\n", 400),
            "trailers": (post + b"0\r\n", b"a: b\r\n", 431), "chunk extension": (post + b"5;", b"a", 400),
            "chunk size": (post, b"0", 400),
        }
        results = self.under({name: lambda until, opening=opening, blob=repeated(piece): flood(
            self.main, opening, blob, until, http2=False) for name, (opening, piece, _) in attacks.items()},
            memory_mib=8, attack_ms=1)
        for name, endings in results.items():
            for ending in endings[:-1]:
                self.assertIn(ending.how, ("end", "reset"), name)
            # Not all: a reset may overtake the answer.
            self.assertEqual({status for ending in endings for status in ending.statuses}, {attacks[name][2]}, name)
        self.check_counted("too large, 1", 5)
        self.check_counted("malformed, 1", 2)

    # ---- Frames that cost the sender little

    def test_floods(self):
        hold = request_frame(1, "POST", "/hold", end=False)
        held = per_stream(lambda stream: request_frame(stream, path="/hold"), 90)
        entries = [(wire.INITIAL_WINDOW, number) for number in range(2700)]
        floods = {
            "SETTINGS": (b"", wire.settings_frame((wire.MAX_STREAMS, 100)), "settings"),
            "empty SETTINGS": (b"", wire.settings_frame(), "settings"),
            "SETTINGS of many entries": (held, wire.settings_frame(*entries), "settings"),
            "PING": (b"", frame(wire.PING, payload=b"attacker"), "pings"),
            "answers to no PING": (b"", frame(wire.PING, wire.ACK, payload=b"attacker"), "over glitches"),
            "answers to no SETTINGS": (b"", frame(wire.SETTINGS, wire.ACK), "over glitches"),
            "GOAWAY": (b"", wire.goaway_frame(0), "over glitches"),
            "WINDOW_UPDATE": (b"", wire.window_frame(0, 1), "window updates"),
            "PRIORITY": (b"", frame(wire.PRIORITY, stream=1, payload=struct.pack(">IB", 3, 16)), "unused frames"),
            "PRIORITY_UPDATE": (b"", frame(wire.PRIORITY_UPDATE, payload=b"\0\0\0\1u=1"), "unused frames"),
            "frames of no known type": (b"", frame(0xfa, payload=b"x"), "unused frames"),
            "empty DATA": (hold, wire.data_frame(1), "empty data"),
            "DATA of padding": (hold, frame(wire.DATA, wire.PADDED, 1, b"\x00"), "empty data"),
        }
        words = {"settings": "SETTINGS", "pings": "PING", "over glitches": "oddities",
                 "window updates": "WINDOW_UPDATE", "unused frames": "PRIORITY or unknown", "empty data": "empty DATA"}
        blobs = {name: repeated(piece) for name, (_, piece, _) in floods.items()}
        results = self.under({name: lambda until, opening=opening, blob=blobs[name]: flood(
            self.main, opening, blob, until) for name, (opening, _, _) in floods.items()}, memory_mib=16, attack_ms=1)
        for name, endings in results.items():
            self.check_calmed(name, endings, words[floods[name][2]])
        for _, _, what in floods.values():
            self.check_counted(what)

    def test_answers_that_nobody_takes(self):
        """PINGs without reading: what waits to be sent is bounded."""
        blob = repeated(frame(wire.PING, payload=b"attacker"))
        self.under({"PING": lambda until: flood(self.main, b"", blob, until, reads=False)}, memory_mib=8)
        self.check_counted("pings")

    def test_frames_on_closed_streams(self):
        """For a stream that was reset, frames may still be on their way; not for ever. (A defect: they were let pass.)"""
        opening = headers_frame(1, [*request_fields("POST", "/hold"), ("content-length", "1")])
        opening += wire.data_frame(1, b"xx")
        pieces = {"DATA": wire.data_frame(1, b"x"), "RST_STREAM": wire.rst_frame(1),
                  "trailers": headers_frame(1, [("x", "y")], end=True), "WINDOW_UPDATE": wire.window_frame(1, 1)}
        results = self.under({name: lambda until, blob=repeated(piece): flood(self.main, opening, blob, until)
                              for name, piece in pieces.items()}, memory_mib=8)
        for name, endings in results.items():
            self.check_calmed(name, endings, "window_updates" if name == "WINDOW_UPDATE" else "frames_on_closed")

    # ---- Clients that are slow

    def test_slow_requests(self):
        """Slow loris and its kin: they wait at next to no cost, and each is ended in time."""
        greeting = wire.PREFACE + wire.settings_frame()
        block = frame(wire.CONTINUATION, 0, 1, wire.hpack([("x", "y" * 200)]))
        begun = greeting + frame(wire.HEADERS, wire.END_STREAM, 1, wire.hpack(request_fields()))
        bodies = per_stream(lambda stream: request_frame(stream, "POST", "/", end=False), 50)
        attacks = {
            "head": (50, b"GET / HTTP/1.1\r\nhost: a\r\n", b"x: y\r\n"),
            "start line": (50, b"G", b"ET /" + b"a" * 60),
            "preface": (50, wire.PREFACE[:10], wire.PREFACE[10:16]),
            "preface only": (50, wire.PREFACE, b""),
            "header block": (50, begun, block),
            "body": (50, b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n12345", b""),
            "chunk": (50, b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe", b""),
            "bodies of HTTP/2": (2, greeting + bodies, b""),
        }
        results = self.under({name: lambda until, count=count, opening=opening, trickle=trickle: many(
            self.short, count, opening, until, trickle) for name, (count, opening, trickle) in attacks.items()},
            memory_mib=12, share=0.35, seconds=SECONDS + 0.5)
        not_ended = {name: ending for name, endings in results.items() for ending in endings if "silence" in ending}
        self.assertEqual(not_ended, {})
        self.check_counted("header timeouts", 250, "short")
        self.proxy.wait_for(lambda s: ended_requests(s, "body_timeout", "short") >= 200)

    def test_idle(self):
        """Those that say nothing, or nothing more. An idle connection is next to nothing; and it ends."""
        harness.raise_descriptor_limit()
        openings = {"silent": b"", "HTTP/1.1": b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n",
                    "HTTP/2": wire.PREFACE + wire.settings_frame()}
        results = self.under({name: lambda until, opening=opening: many(self.short, 330, opening, until)
                              for name, opening in openings.items()}, memory_mib=6, share=0.35, seconds=SECONDS + 0.5)
        endings = {ending for results_of_one in results.values() for ending in sum(results_of_one, [])}
        self.assertEqual(endings - {"end", "reset"}, set())

    def test_slow_readers(self):
        """Large responses that nobody takes, or that no window lets out: of the streams, and of the connection."""
        asks = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        results = self.under({
            "HTTP/1.1": lambda until: many(self.short, 8, b"GET /size/16000000 HTTP/1.1\r\nhost: a\r\n\r\n", until,
                                           receive_buffer=4096),
            "stream windows": lambda until: flood(self.short, asks, b"", until, settings=[(wire.INITIAL_WINDOW, 0)]),
            "connection window": lambda until: flood(self.short, asks, b"", until,
                                                     settings=[(wire.INITIAL_WINDOW, 1 << 30)]),
        }, memory_mib=96, seconds=SECONDS + 1 + 2 * SHORT_SECONDS * SLOWNESS)
        endings = sum(results["HTTP/1.1"], [])
        self.assertEqual(set(endings) - {"end", "reset"}, set())
        # HTTP/1.1: the connection is stuck. HTTP/2: the streams are.
        self.proxy.wait_for(lambda s: s.ended("stuck") >= len(endings) and
                            ended_requests(s, "send_timeout", "short") >= 200)

    def test_memory_is_not_for_the_slow(self):
        """Ten connections with a hundred responses each that no window lets out: what they may hold leaves enough of
        the worker's memory to serve the others, long before send_timeout (here 30 s) ends them; and once they are closed
        that is noticed. (A defect: each stream had buffer_high for itself, and until then nobody was served.)"""
        asks = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        self.under({f"{number}": lambda until: flood(self.main, asks, b"", until, settings=[(wire.INITIAL_WINDOW, 0)])
                    for number in range(10)}, memory_mib=256 + 16, together=True)
        self.proxy.wait_for(lambda s: s.total("http_requests_active", listener="main") == 0, 5)

    def test_pipelining(self):
        """Requests without end, and nobody reads the responses."""
        blob = repeated(b"GET /size/2000 HTTP/1.1\r\nhost: a\r\n\r\n")
        self.under({f"{number}": lambda until: flood(self.main, b"", blob, until, http2=False, reads=False)
                    for number in range(4)}, memory_mib=8, together=True)
        self.check_counted("pipelines full")

    def test_tiny_pieces(self):
        """Bodies a byte at a time, in chunks, and in chunks with long extensions (CVE-2023-39326); responses a byte of
        window at a time (CVE-2019-9511)."""
        chunked = b"POST /size/1 HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        self.under({
            "chunks": lambda until: flood(self.main, chunked, repeated(b"1\r\nx\r\n"), until, http2=False),
            "extensions": lambda until: flood(self.main, chunked, repeated(b"1;" + b"a" * 250 + b"\r\nx\r\n"), until,
                                              http2=False),
            "windows": lambda until: flood(self.main, request_frame(1, path="/size/100000"),
                                           repeated(wire.window_frame(1, 1), 13 * 200), until,
                                           settings=[(wire.INITIAL_WINDOW, 0)]),
        }, memory_mib=8)

    def test_frames_of_one_byte(self):
        """DATA a byte at a time is borne, but a glitch each thousand. What waits for the upstream takes not much more
        memory than the 64 KiB of window that each of the four has. (A defect: each took a window, and a chunk of HTTP/1.1
        upstream.)"""
        opening = request_frame(1, "POST", "/size/1", end=False)
        blob = wire.data_frame(1, b"x") * 65000
        self.under({f"{number}": lambda until: flood(self.main, opening, blob, until) for number in range(4)},
                   memory_mib=16, together=True)
        self.check_counted("glitches")


class AttacksInLittleMemory(AttackTest):
    STUCK_MS = int(500 * SLOWNESS)
    CONFIG = {"memory": {"worker_budget": "8MiB"}}
    HTTP = {"stuck_timeout": f"{STUCK_MS}ms"}
    LEAST_SERVED = 100
    SLOWEST = 6 * SLOWNESS  # They wait for the stuck, and each other.

    def test_the_stuck_give_way(self):
        """Ten connections with a hundred responses each that no window lets out, in a worker that has not the memory
        for them: they are ended, and those whose clients read are served. (Defects: until send_timeout nobody was; the
        RST_STREAM of one counted as progress of all on its connection; what came home went to a few of those that
        waited, and to those that would be stuck with it before those that would take it.)"""
        asks = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        self.under({f"{number}": lambda until: flood(self.main, asks, b"", until, settings=[(wire.INITIAL_WINDOW, 0)])
                    for number in range(10)}, memory_mib=32, seconds=SECONDS + 14 * self.STUCK_MS / 1000, together=True)
        self.assertGreater(ended_requests(self.proxy.stats(), "stuck", "main"), 0)


def wide_headers(stream, fields):
    """HEADERS with CONTINUATIONs as needed."""
    block = wire.hpack(fields)
    pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
    return b"".join(frame(wire.CONTINUATION if at else wire.HEADERS, (0 if at else wire.END_STREAM) |
                          (wire.END_HEADERS if piece is pieces[-1] else 0), stream, piece)
                    for at, piece in enumerate(pieces))


if __name__ == "__main__":
    harness.main()
