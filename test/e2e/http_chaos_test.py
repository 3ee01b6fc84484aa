"""HTTP/1.1 and HTTP/2 under load while upstreams die, stall, reset, refuse and recover, and clients reset and stall.
Every response is complete and correct, or an error that the access log explains; afterwards all resources are free.

    python3 -B test/e2e/http_chaos_test.py                          the short form
    python3 -B test/e2e/http_chaos_test.py --minutes 10 [--seed N]  the long one
"""

import argparse
import collections
import contextlib
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
import unittest

import harness
import http_wire as wire
from harness import KIB, LONG, MIB, SANITIZER, SLOWNESS
from http_wire import Http1Client, Http2Client
from origins import refused_address, reset
from transfers import pattern

_WARM_UP_SECONDS = 4
_CALM_SECONDS = 3
# No client waits longer than this for the proxy to send something: all timeouts of the proxy are shorter.
_PATIENCE_SECONDS = 12 * SLOWNESS
_RETURN_SECONDS = 45
_SIZES = (0, 1, 100, 5000, 60_000, 300_000, 1_000_000)
_WEIGHTS = (2, 4, 20, 10, 6, 3, 1)


def content(number, size):
    return b"".join(pattern(number, at, min(size - at, 256 * KIB)) for at in range(0, size, 256 * KIB))


class PlannedRequest:
    """What the server should do with a request, according to its path: `/one/<number>/<size of the response>`."""

    def __init__(self, path):
        _, self.upstream, number, size = path.split("/")
        self.number, self.size = int(number), int(size)

    @property
    def down(self):
        return content(2 * self.number, self.size)


# ---- Upstreams

class ChaoticServer(wire.Server):
    """A server whose behavior changes at random all the time."""

    MOODS = (("good", 30), ("silent", 3), ("slow", 6), ("reset", 4), ("half", 4), ("garbage", 2), ("errors", 3),
             ("early", 4), ("close", 3))

    def __init__(self, seed):
        self.chooser = random.Random(seed)
        self.calm = True
        self.wrong = []  # Requests that reached it and should not have.
        self.counts = collections.Counter()
        self._stalled = {}
        super().__init__(self._respond_chaotically, early=lambda request: self._early(request))
        self._port = self._listener.getsockname()[1]
        self._listening = True

    def _early(self, request):
        """Whether the response comes before the request's body: decided once, when the head has arrived."""
        if not hasattr(request, "impatient"):
            request.impatient = not self.calm and self.chooser.random() < 0.05
        return request.impatient

    def _respond_chaotically(self, request, connection):
        try:
            wish = PlannedRequest(request.path)
        except ValueError:
            return self.wrong.append(f"{request!r}")
        if request.method == "POST" and request.complete:
            size = int(request.value("x-size"))
            if bytes(request.body) != content(2 * wish.number + 1, size):
                self.wrong.append(f"{request.path}: a request's body of {len(request.body)} bytes is wrong, {size} were sent")
        moods = self.MOODS[:1] if self.calm else self.MOODS
        mood = self.chooser.choices([name for name, _ in moods], [weight for _, weight in moods])[0]
        self.counts[mood] += 1
        fields = [("x-path", request.path)]
        if mood == "good":
            return connection.reply(request, fields=fields, body=wish.down)
        if mood == "errors":
            return connection.reply(request, 500, fields, b"the upstream's own error")
        if mood == "silent":
            return None
        if mood == "slow":
            return connection.after(self.chooser.uniform(0, 0.5),
                                    lambda: request.failure or connection.reply(request, fields=fields, body=wish.down))
        if mood == "close" and not connection.http2:
            connection.send(f"HTTP/1.1 200 OK\r\nx-path: {request.path}\r\nconnection: close\r\n\r\n")
            connection.send(wish.down)
            return connection.close()
        if mood == "reset":
            if connection.http2 and self.chooser.random() < 0.7:
                return connection.send(wire.rst_frame(request.stream, self.chooser.choice((2, 7, 8, 11))))
            return connection.reset()
        if mood in ("half", "early", "close"):
            half = wish.down[:wish.size // 2]
            if connection.http2:
                connection.send(wire.headers_frame(request.stream, [
                    (":status", "200"), ("content-length", str(wish.size + 1)), *fields]) +
                    wire.data_frame(request.stream, half[:16384]))
                if mood == "half":
                    return connection.send(wire.rst_frame(request.stream, 2))
                if mood == "close":
                    return connection.send(wire.data_frame(request.stream, b"", True))  # Less than its content-length.
            else:
                connection.send(f"HTTP/1.1 200 OK\r\nx-path: {request.path}\r\ntransfer-encoding: chunked\r\n\r\n")
                if half:
                    connection.send(b"%x\r\n" % len(half) + half + b"\r\n")
            return connection.after(self.chooser.uniform(0, 0.2), connection.reset)
        return connection.send(b"\0\0\4\xff\xff nonsense \r\n\r\n")

    # These run on the server's own thread.

    def misbehave(self):
        act = self.chooser.random()
        open_ones = [connection for connection in self.connections if not connection.closed]
        self.connections[:] = open_ones
        if act < 0.25 and open_ones:
            self.counts["all reset"] += 1
            for connection in open_ones:
                self._resume(connection)
                connection.reset()
        elif act < 0.45 and self._listening:
            self.counts["refuses"] += 1
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listening = False
        elif act < 0.7 and open_ones:
            self.counts["stalls"] += 1
            for connection in self.chooser.sample(open_ones, (len(open_ones) + 1) // 2):
                if connection not in self._stalled and connection in self._watched:
                    self._selector.unregister(connection.sock)
                    self._stalled[connection] = self._watched.pop(connection)
        elif act < 0.8 and open_ones:
            self.counts["goaways"] += 1
            for connection in open_ones:
                if connection.http2:
                    connection.send(wire.goaway_frame(max(connection.reader.streams, default=0)))
        else:
            self.behave()

    def behave(self):
        if not self._listening:
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=1024)
            self._listener.setblocking(False)
            self._selector.register(self._listener, 1)
            self._listening = True
        for connection in list(self._stalled):
            self._resume(connection)

    def _resume(self, connection):
        events = self._stalled.pop(connection, None)
        if events and not connection.closed:
            self._watched[connection] = events
            self._selector.register(connection.sock, events, connection)

    def watch(self, connection, writing):
        if connection not in self._stalled:
            super().watch(connection, writing)

    def forget(self, connection, **how):
        self._stalled.pop(connection, None)
        super().forget(connection, **how)


# ---- The whole test

class Outcome:
    """The result of one request, as the client saw it."""

    def __init__(self, path, kind, status=0, whole=False, left=False, note=""):
        self.path, self.kind, self.status, self.whole, self.left, self.note = path, kind, status, whole, left, note

    def __repr__(self):
        return f"{self.kind} {self.path}: {self.status} {'whole' if self.whole else 'not whole'} {self.note}"


class Chaos:

    def __init__(self, seed=None, log=lambda text: None):
        self.seed = seed if seed is not None else random.randrange(1 << 32)
        self._log = log
        self._directory = tempfile.TemporaryDirectory(prefix="sluice-chaos-")
        self.access_log = os.path.join(self._directory.name, "access.log")
        self.servers = [ChaoticServer(self.seed + at) for at in range(6)]
        config = harness.configuration(
            [], workers=2, tcp={}, shutdown_timeout="10s", listener={"max_connections_per_source": 0})
        main = config["listeners"][0]
        del main["tcp"]
        main["http"] = {
            "routes": [{"match": {"path": {"prefix": f"/{name}/"}}, "forward": name} for name in ("one", "two")],
            "access_log": self.access_log,
            "header_timeout": "2s", "body_timeout": "1500ms", "send_timeout": "2s", "stream_idle_timeout": "4s",
            "request_timeout": "8s", "idle_timeout": "3s", "http1": {"max_requests": 200}, "http2": {"max_requests": 500}}
        common = {"connect_timeout": "500ms", "response_timeout": "1s", "fail_timeout": "200ms",
                  "pool": {"idle_timeout": "2s", "max_requests": 300}}
        config["upstreams"] = [
            {"name": "one", "protocol": "http1", **common,
             "endpoints": [server.address for server in self.servers[:3]] + [refused_address()]},
            {"name": "two", "protocol": "http2", **common,
             "endpoints": [server.address for server in self.servers[3:]] + [refused_address()]}]
        self.proxy = harness.Proxy(config)
        self.counts = collections.Counter()
        self.outcomes = []
        self.errors = []
        self._number = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._calm = True

    # Requests

    def _plan(self, chooser):
        with self._lock:
            self._number += 1
            number = self._number
        return f"/{chooser.choice(('one', 'two'))}/{number}/{chooser.choices(_SIZES, _WEIGHTS)[0]}"

    def _upload(self, chooser, path):
        """The method, body and fields of a request."""
        if chooser.random() < 0.6:
            return "GET", b"", []
        size = chooser.choices(_SIZES, _WEIGHTS)[0]
        return "POST", content(2 * PlannedRequest(path).number + 1, size), [("x-size", str(size))]

    def _note(self, outcome):
        self.counts["whole" if outcome.whole and outcome.status == 200 else
                    f"status {outcome.status}" if outcome.whole else "left" if outcome.left else "broken"] += 1
        with self._lock:
            self.outcomes.append(outcome)

    def _wrong(self, text):
        with self._lock:
            self.errors.append(text)

    def _judge(self, path, kind, message, note=""):
        """Checks the part of a response that has arrived."""
        if message is None:
            return self._note(Outcome(path, kind, note=note or "no response"))
        outcome = Outcome(path, kind, message.status, message.complete, note=note or message.failure)
        if message.complete:
            body = bytes(message.body)
            ours = dict(message.fields).get("x-path") is None
            if message.status == 200 and (dict(message.fields).get("x-path") != path or body != PlannedRequest(path).down):
                self._wrong(f"{outcome}: {len(body)} bytes that are not what was requested, of "
                            f"{message.value('x-path') or 'nobody'}")
            elif message.status not in (200, 500, 502, 503, 504, 408):
                self._wrong(f"{outcome}")
            elif message.status == 500 and (ours or body != b"the upstream's own error"):
                self._wrong(f"{outcome}: {body[:100]}")
        elif message.body and message.status == 200 and not PlannedRequest(path).down.startswith(bytes(message.body)):
            self._wrong(f"{outcome}: what came of it is not what was requested")
        return self._note(outcome)

    # Clients

    def _http1(self, chooser):
        with Http1Client(self.proxy.address(), timeout=_PATIENCE_SECONDS) as client:
            for _ in range(chooser.randrange(1, 60)):
                if self._stop.is_set():
                    return
                path = self._plan(chooser)
                method, body, fields = self._upload(chooser, path)
                start = time.monotonic()
                response = client.get(path, method, "".join(f"{name}: {value}\r\n" for name, value in fields), body,
                                      seconds=_PATIENCE_SECONDS)
                if time.monotonic() - start > _PATIENCE_SECONDS - 0.5:
                    self._wrong(f"http1 {path}: no end after {_PATIENCE_SECONDS} s: {response}")
                self._judge(path, "http1", response, client.how)
                if response is None or not response.complete or not response.persistent or client.how:
                    return

    def _http2(self, chooser):
        with Http2Client(self.proxy.address(), timeout=_PATIENCE_SECONDS) as client:
            for _ in range(chooser.randrange(1, 20)):
                if self._stop.is_set():
                    return
                pending = {}
                for _ in range(chooser.randrange(1, 9)):
                    path = self._plan(chooser)
                    method, body, fields = self._upload(chooser, path)
                    # Bodies within the first window: this client does not follow the proxy's windows.
                    body = body[:6000] if method == "POST" else None
                    fields = [("x-size", str(len(body)))] if method == "POST" else []
                    pending[client.send_request(path, method, fields, body)] = path
                start = time.monotonic()
                given_up = {}
                if chooser.random() < 0.1 and not self._calm:
                    stream, path = chooser.choice(list(pending.items()))
                    client.send(wire.rst_frame(stream))
                    given_up[stream] = pending.pop(stream)
                streams = client.reader.streams
                client.wait(lambda: all(stream in streams and (streams[stream].complete or streams[stream].failure)
                                        for stream in pending), _PATIENCE_SECONDS)
                late = time.monotonic() - start > _PATIENCE_SECONDS - 0.5
                for stream, path in pending.items():
                    message = streams.get(stream)
                    if message is None or not message.status and not message.failure:
                        if late:
                            self._wrong(f"http2 {path}: no end after {_PATIENCE_SECONDS} s")
                        self._judge(path, "http2", None, client.how)
                    else:
                        self._judge(path, "http2", message, client.how)
                for path in given_up.values():
                    self._note(Outcome(path, "http2", left=True, note="taken back"))
                if client.how or client.reader.goaway:
                    return
                for stream in list(streams):
                    del streams[stream]
                client.reader.messages.clear()
                client.reader.done.clear()

    def _misbehaving_client(self, chooser):
        """A client that resets, stalls, and sends half requests."""
        kind = chooser.choice((Http1Client, Http2Client))
        with kind(self.proxy.address(), timeout=_PATIENCE_SECONDS, receive_buffer=8192) as client:
            path = self._plan(chooser).rsplit("/", 1)[0] + "/1000000"
            act = chooser.random()
            self._note(Outcome(path, "rude", left=True))
            if kind is Http1Client:
                if act < 0.2:
                    client.send(f"POST {path} HTTP/1.1\r\nhost: a\r\nx-size: 500\r\ncontent-length: 500\r\n\r\nhalf")
                elif act < 0.3:
                    client.send(f"GET {path} HTTP/1.1\r\nho")
                else:
                    client.send(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
            else:
                client.send_request(path)
                if act < 0.2:
                    client.send(wire.request_frame(3, "POST", self._plan(chooser), [("x-size", "9")], end=False))
                elif act < 0.3:
                    client.send(wire.frame(wire.HEADERS, 0, 3, wire.hpack(wire.request_fields())))
                elif act < 0.4:
                    client.send(b"\0\0\1\6\0\0\0\0\0x")
            if 0.3 < act:
                with contextlib.suppress(OSError):
                    client.sock.recv(chooser.randrange(1, 200_000))
            time.sleep(chooser.choice((0, 0, 0.1, 0.5, 2.5)))
            if chooser.random() < 0.6:
                reset(client.sock)

    def _client(self, manner, seed):
        chooser = random.Random(seed)
        while not self._stop.is_set() and len(self.errors) < 20:
            try:
                manner(chooser)
            except wire.WireError as error:
                self._wrong(f"{manner.__name__}: the proxy broke a rule: {error!r}")
            except OSError as error:
                self.counts[type(error).__name__] += 1
                time.sleep(0.01)
            except Exception as error:  # pylint: disable=broad-except
                self._wrong(f"{manner.__name__}: {error!r}")
                raise

    def _run_clients(self, seconds, calm):
        self._stop.clear()
        self._calm = calm
        manners = [self._http1] * 5 + [self._http2] * 4 + ([] if calm else [self._misbehaving_client] * 3)
        threads = [threading.Thread(target=self._client, args=(manner, self.seed * 1000 + at), daemon=True)
                   for at, manner in enumerate(manners)]
        for server in self.servers:
            server.call(lambda server=server: setattr(server, "calm", calm))
        for thread in threads:
            thread.start()
        chooser = random.Random(self.seed)
        end = time.monotonic() + seconds
        logged_at = time.monotonic()
        while time.monotonic() < end and self.proxy.process.poll() is None and len(self.errors) < 20:
            time.sleep(min(0.15, max(0, end - time.monotonic())))
            if not calm:
                server = chooser.choice(self.servers)
                server.call(server.misbehave)
            if time.monotonic() - logged_at > 10:
                logged_at = time.monotonic()
                self._log(f"{end - logged_at:4.0f} s left: {self._number} requests, PSS {self.proxy.pss() / KIB:.0f} KiB, "
                          f"{dict(self.counts)}")
                self._check_log(seconds < 60)
        for server in self.servers:
            server.call(server.behave)
            server.call(lambda server=server: setattr(server, "calm", True))
        self._stop.set()
        for thread in threads:
            thread.join(2 * _PATIENCE_SECONDS)
            if thread.is_alive():
                self._wrong("a client hangs")
        if self.proxy.process.poll() is not None:
            self._wrong(f"the proxy has ended: {self.proxy.stderr()}")

    # The access log

    _LINE = re.compile(r'^\[[^]]*\] "(\S+) (\S+) (\S+)" (\d+) (\S+) (\d+) (\d+) ')

    def _lines(self):
        """{path: (status, reason, response bytes)} for the current log. A path that occurs twice is an error.

        Lines for incomplete heads have no path.
        """
        found = {}
        with open(self.access_log, encoding="ascii") as file:
            for line in file:
                match = self._LINE.match(line)
                if not match:
                    self._wrong(f"a line of the access log: {line!r}")
                    continue
                if match[2] == "-":
                    if match[5] == "ok":
                        self._wrong(f"the log does not explain it: {line!r}")
                    continue
                if match[2] in found:
                    self._wrong(f"two lines for {match[2]}: {line!r}")
                found[match[2]] = (int(match[4]), match[5], int(match[7]))
        return found

    def _check_log(self, keep=True):
        """Compares outcomes with the log."""
        if keep:
            return
        with self._lock:
            outcomes, self.outcomes = self.outcomes, []
        time.sleep(0.5)
        self._compare(outcomes, self._lines())

    def _compare(self, outcomes, lines):
        reasons = collections.Counter()
        for outcome in outcomes:
            line = lines.get(outcome.path)
            if line is None:
                # The proxy never saw a request: the connection had just ended, or only half of it arrived.
                self.counts["not in the log"] += 1
                if outcome.whole and not outcome.left:
                    self._wrong(f"not in the log: {outcome}")
                continue
            status, reason, size = line
            reasons[reason] += 1
            if outcome.left:
                continue
            wish = PlannedRequest(outcome.path)
            if outcome.whole:
                if status != outcome.status:
                    self._wrong(f"the log has {line}: {outcome}")
                if status in (200, 500) and reason != "ok":
                    self._wrong(f"the log has {line}: {outcome}")
                if status == 200 and size != wish.size:
                    self._wrong(f"the log has {line}: {outcome}")
                if status in (502, 503, 504, 408) and reason == "ok":
                    self._wrong(f"the log does not explain it, it has {line}: {outcome}")
            elif reason == "ok":
                self._wrong(f"the log has {line}: {outcome}")
        self.reasons = getattr(self, "reasons", collections.Counter()) + reasons

    # The run

    def _all_ended(self):
        self.proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30, "sessions to end")

    def run(self, seconds):
        self._log(f"seed {self.seed}")
        self._run_clients(_WARM_UP_SECONDS, calm=True)
        if self.counts["whole"] != sum(self.counts.values()):
            self._wrong(f"in the calm before: {dict(self.counts)}")
        self._all_ended()
        base = self._settled(self.proxy.pss())
        self._run_clients(seconds, calm=False)
        chaos = dict(self.counts)
        time.sleep(1)  # fail_timeout
        self.counts.clear()
        self._run_clients(_CALM_SECONDS, calm=True)
        # Connections that stalled may still be detected: one of them fails the requests that use it.
        failed = sum(self.counts.values()) - self.counts["whole"]
        if failed > 0.02 * self.counts["whole"]:
            self._wrong(f"in the calm behind: {dict(self.counts)}")
        self._all_ended()
        time.sleep(0.3)
        lines = self._lines()
        self._compare(self.outcomes, lines)
        missing = self.counts["not in the log"]
        explained = f"{len(lines)} lines in the log, {missing} requests that never were: {dict(self.reasons)}"
        for server in self.servers:
            for text in server.wrong[:5]:
                self._wrong(f"upstream: {text}")
            for _, failure in server.failures[:5]:
                self._wrong(f"upstream: the proxy broke a rule: {failure}")
        allowed = base * 1.15 + 3 * MIB
        after = self._settled(allowed)
        moods = sum((server.counts for server in self.servers), collections.Counter())
        harness.print_note(f"{seconds:.0f} s, {self._number} requests; clients: {chaos}; upstreams: {dict(moods)}; "
                           f"{explained}; PSS {base / KIB:.0f} KiB before, {after / KIB:.0f} KiB after")
        if self.errors:
            raise AssertionError(f"seed {self.seed}: {len(self.errors)} findings:\n" + "\n".join(self.errors[:12]))
        if chaos.get("whole", 0) < 20 * seconds / SLOWNESS or sum(chaos.values()) == chaos["whole"]:
            raise AssertionError(f"seed {self.seed}: that was no chaos: {chaos}")
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
            elif time.monotonic() - since > (24 if LONG else 5):
                break
        return self.proxy.pss()

    def close(self):
        """Ends the proxy, with the checks of every test."""
        try:
            harness.stop_and_check(self.proxy)
        finally:
            for server in self.servers:
                server.close()
            self._directory.cleanup()


def run(seconds, seed=None, log=lambda text: None):
    chaos = Chaos(seed, log)
    try:
        chaos.run(seconds)
    finally:
        chaos.close()


class ChaosTest(unittest.TestCase):

    def test_chaos(self):
        run(600 if LONG else 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, help="repeats the choices of a run that failed")
    options = parser.parse_args()
    harness.raise_descriptor_limit()
    try:
        run(options.minutes * 60, options.seed, lambda text: print(text, flush=True))
    except AssertionError as error:
        sys.exit(f"chaos: FAILED: {error}")
    print("chaos: ok, nothing leaked")


if __name__ == "__main__":
    main() if "--minutes" in sys.argv else harness.main()
