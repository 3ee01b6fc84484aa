"""Runs of cases: clients and an upstream on either side of a proxy, and the comparison of what arrived at both with the
expectation."""

import base64
import collections
import contextlib
import hashlib
import selectors
import socket
import time

import harness
from harness import SLOWNESS
import http_wire as wire
from http_wire import Http1Reader, Http2Reader, WireError, bytes_of
from origins import connect

from corpus import SCRIPTED, join

PROBE = "/probe"
PAUSES = {"!wait": 0.04, "!next": 0.004}
# A client that received nothing for this long will receive nothing more.
QUIET_SECONDS = 1.5 * SLOWNESS


class Upstream:
    """Records what arrives, and responds with an echo of its beginning, or as the request's path says."""

    def __init__(self):
        self.scripts = {}  # By the name in the path: (case, via, pieces(items) -> items)
        self.server = wire.Server(self._respond, early=lambda request: request.path.endswith("?early"))
        self.address = self.server.address
        self._taken = {}
        self._playing = {}  # Connections whose scripts are not over, and the requests that wait for their ends.

    def close(self):
        self.server.close()

    def _respond(self, request, connection):
        if connection.http2 and connection in self._playing:  # Nothing may come between the pieces of its frames.
            return self._playing[connection].append(request)
        script = request.path.partition("?")[0][len(SCRIPTED):]
        if request.path.startswith(SCRIPTED) and script in self.scripts:
            case, via, cut = self.scripts[script]
            self._playing[connection] = []
            return self._play(cut(case.script(via, request.stream)), connection)
        if request.protocol and not connection.http2:
            if "/accept" not in request.path:
                connection.send("HTTP/1.1 403 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                return connection.after(0.05, connection.close)
            key = request.value("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            return connection.send("HTTP/1.1 101 Yes\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                                   f"sec-websocket-accept: {accept}\r\n\r\n")
        return connection.reply(request, fields=[("x-echo", f"{request.method} {request.path}")],
                                body=bytes_of(f"echo {request.method} {request.path}\n"))

    def _play(self, items, connection):
        """Pieces are sent separately, so that the proxy reads each of them alone."""
        for at, item in enumerate(items):
            if connection.closed:
                break
            if item in PAUSES:
                return connection.server.at(time.monotonic() + PAUSES[item], None,
                                            lambda rest=items[at + 1:]: self._play(rest, connection))
            if item == "!close":
                connection.close()
            elif item == "!reset":
                connection.reset()
            else:
                connection.send(item)
        for request in self._playing.pop(connection, ()):
            if not connection.closed:
                self._respond(request, connection)
        return None

    def new_messages(self):
        """What arrived since the last call: (message, connection, bytes after an upgrade)."""
        def take():
            found = []
            for connection in self.server.connections:
                messages = connection.messages()
                taken = self._taken.get(connection.number, 0)
                if len(messages) > taken:
                    self._taken[connection.number] = len(messages)
                    tunnel = b"" if connection.http2 else connection.reader.tunnel or b""
                    found += [(message, connection, tunnel) for message in messages[taken:]]
            # Finished connections are no longer needed.
            self.server.connections[:] = [connection for connection in self.server.connections if not connection.closed]
            return [(message, connection, tunnel) for message, connection, tunnel in found
                    if not message.path.startswith((PROBE, SCRIPTED))]
        return self.server.call(take)

    def settled(self):
        def look():
            return all(message.complete or message.failure or connection.failure
                       for connection in self.server.connections for message in connection.messages())
        return self.server.call(look)

    def scripts_done(self):
        return self.server.call(lambda: not self._playing)

    def failures(self):
        def take():
            found = [failure for _, failure in self.server.failures]
            self.server.failures.clear()
            return found
        return self.server.call(take)


class Run:
    """One case by one way, in pieces."""

    def __init__(self, case, via, number, cut, address):
        self.case, self.via, self.address = case, via, address
        self.label = f"{case.name} {via} {cut.label}"
        self.script = f"{case.name}-{via}-{number}"
        self.http2 = via.startswith("h2")
        items = case.sent(via, self.script)
        if self.http2:
            items = join([wire.PREFACE + wire.settings_frame(), *items])
        self.items = cut.of(items) if not case.responds else items
        self.script_cut = cut.of if case.responds else (lambda items: items)
        self.expected = case.expect(via)
        self.reader = Http2Reader(requests=False) if self.http2 else Http1Reader(requests=False)
        self.how = self.garbled = ""
        self.probed = False
        self.done = False
        self._deadline = 0
        sent = b"".join(item for item in items if isinstance(item, bytes))
        if self.http2:
            self.streams = self._streams_in(sent[len(wire.PREFACE):])
        else:
            # The framing of the first response depends on the request's method.
            method = sent.split(b" ", 1)[0].decode("latin-1")
            self.reader.methods.append(method if method in ("HEAD", "CONNECT") else "GET")

    @staticmethod
    def _streams_in(data):
        """The streams of the HEADERS frames, in order."""
        found, at = [], 0
        while at + 9 <= len(data):
            stream = int.from_bytes(data[at + 5:at + 9], "big") & 0x7fffffff
            if data[at + 3] == wire.HEADERS and stream not in found and stream:
                found.append(stream)
            at += 9 + int.from_bytes(data[at:at + 3], "big")
        return found

    def open(self):
        self.sock = connect(self.address)
        self.sock.setblocking(False)

    def send(self, data):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.sock.setblocking(True)
            self.sock.sendall(data)
        self.sock.setblocking(False)

    def step(self):
        """Sends up to the next pause, and returns it. Empty when all is sent."""
        while self.items:
            item = self.items.pop(0)
            if item in PAUSES:
                return item
            if item == "!end":
                with contextlib.suppress(OSError):
                    self.sock.shutdown(socket.SHUT_WR)
            else:
                self.send(item)
        return ""

    def receive(self):
        try:
            data = self.sock.recv(1 << 17)
            self.how = "" if data else "close"
        except BlockingIOError:
            return
        except OSError:
            data, self.how = b"", "rst"
        self._deadline = time.monotonic() + QUIET_SECONDS
        try:
            if data:
                self.reader.feed(data)
            else:
                self.reader.end()
        except WireError as error:
            self.garbled = f"{error}"
        if self.http2 and self.reader.out and not self.how:
            self.send(bytes(self.reader.out))
            self.reader.out.clear()

    # The result

    def _finals(self):
        """The responses as words, without the probe's."""
        if not self.http2:
            return [f"{message.status}" + ("" if message.complete else "(broken)") for message in self.reader.messages
                    if message is not self._probe_response()]
        words = []
        for stream in self.streams:
            message = self.reader.streams.get(stream)
            if message and message.complete:
                words.append(f"{message.status}")
            elif message and message.failure and message.failure != "end":
                words.append(f"{message.status}(broken)" if message.status else f"reset({message.failure})")
            elif message and message.status:
                words.append(f"{message.status}(broken)")
        return words

    def _probe_response(self):
        if not self.probed:
            return None
        if self.http2:
            return self.reader.streams.get(self._probe_stream)
        last = self.reader.messages[-1] if self.reader.messages else None
        return last if last and last.value("x-echo") == f"GET {PROBE}" else None

    def words(self):
        fate = self.how
        probe = self._probe_response()
        if not fate and self.reader.ended:
            fate = "close"
        if self.garbled:
            fate = "garbled"
        elif not self.http2 and self.reader.tunnel is not None and self.reader.messages[-1].status < 300:
            fate = "tunnel"
        elif probe and probe.complete and probe.value("x-echo") == f"GET {PROBE}":
            fate = "keep"
        elif self.probed and not fate:
            fate = "stuck"
        words = self._finals()
        if self.http2 and self.reader.goaway and self.reader.goaway[1] != "NO_ERROR":
            words.append(f"goaway({self.reader.goaway[1]})")
        return [*words, fate or "open"]

    def _as_expected(self):
        return matches(self.words(), self.expected)

    def look(self):
        """Decides on the next step."""
        now = time.monotonic()
        late = now > self._deadline
        if self.how or self.garbled:
            self.done = True
        elif self.probed:
            probe = self._probe_response()
            self.done = late or bool(probe and (probe.complete or probe.failure))
        elif not self.http2 and self.reader.tunnel is not None:
            self.done = late or self._as_expected()
        elif late or (self.expected.endswith("keep") and self._finals_are_there()):
            self._probe(now)

    def _finals_are_there(self):
        if self.http2:
            messages = [self.reader.streams.get(stream) for stream in self.streams]
            settled = [message for message in messages if message and (message.complete or message.failure)]
        else:
            settled = [message for message in self.reader.messages if message.complete]
        return len(settled) >= len(self.expected.split(" ")) - 1

    def _probe(self, now):
        self.probed = True
        self._deadline = now + QUIET_SECONDS
        if self.http2:
            self._probe_stream = max(self.streams, default=-1) + 2
            self.send(wire.request_frame(self._probe_stream, path=PROBE))
        else:
            self.reader.methods.append("GET")
            self.send(b"GET " + PROBE.encode() + b" HTTP/1.1\r\nHost: a.test\r\n\r\n")

    def start_waiting(self):
        self._deadline = time.monotonic() + QUIET_SECONDS

    def problem(self):
        """Why it failed, in words."""
        words = self.words()
        if not matches(words, self.expected):
            detail = self.garbled or (self.reader.goaway if self.http2 else "") or ""
            return f"the client saw {' '.join(words)!r} for {self.expected!r} {detail}"
        wanted = self.case.client(self.via)
        if wanted:
            messages = ([self.reader.streams[stream] for stream in self.streams if stream in self.reader.streams]
                        if self.http2 else [message for message in self.reader.messages
                                            if message is not self._probe_response()])
            if len(wanted) != len(messages):
                return f"{len(messages)} responses for {len(wanted)}"
            for want, message in zip(wanted, messages):
                start = (str(message.status), *(str(interim.status) for interim in message.interim))
                different = want.differs(start, message, self.http2)
                if different:
                    return f"the client saw {different}"
        return ""


def matches(words, expected):
    """`a|b c` is one of two words, then another; `a b or c` is one of two sequences of words."""
    for row in expected.split(" or "):
        places = row.split(" ")
        if len(words) == len(places) and all(
                any(word == option or (option == "reset" and word.startswith("reset(")) for option in place.split("|"))
                for word, place in zip(words, places)):
            return True
    return False


class Target:
    """A proxy and its surroundings. `addresses` are those of its listeners by way, possibly also by whether the
    upstream has a script."""

    name = "sluice"

    def __init__(self, upstream, addresses):
        self.upstream = upstream
        self.addresses = addresses
        self._barrier = None
        self._barriers = 0

    def address(self, via, case=None):
        return self.addresses.get((via, bool(case and case.responds))) or self.addresses.get(via)

    def barrier(self):
        """One more client, which must get its own response. When that has arrived, the proxy has read what was sent
        before."""
        self._barriers += 1
        path = f"{PROBE}/{self._barriers}"
        for _ in range(3):
            self._barrier = self._barrier or wire.Http1Client(self.address("h1-h1"))
            response = self._barrier.get(path)
            if not response or not response.persistent:
                self._barrier.close()
                self._barrier = None
            if response:
                if response.value("x-echo") != f"GET {path}" or not response.complete:
                    raise WireError(f"a client that requested {path} got {response!r}")
                return
        raise WireError(f"{self.name} does not respond to a plain request")

    def close(self):
        if self._barrier:
            self._barrier.close()

    def run(self, runs):
        """Runs them side by side to their ends."""
        for run in runs:
            if run.case.responds:
                self.upstream.scripts[run.script] = (run.case, run.via, run.script_cut)
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for run in runs:
                run.open()
                stack.callback(run.sock.close)
                selector.register(run.sock, selectors.EVENT_READ, run)
            left = list(runs)
            while left:
                pauses = {run: run.step() for run in left}
                left = [run for run in left if pauses[run]]
                if left:
                    self.barrier()
                if "!wait" in pauses.values():
                    # The barrier overtakes a request for which a connection has to be opened first.
                    time.sleep(PAUSES["!wait"])
                    self.barrier()
            for run in runs:
                run.start_waiting()
                run.look()
            waiting = {run for run in runs if not run.done}
            while waiting:
                for key, _ in selector.select(0.05):
                    key.data.receive()
                for run in list(waiting):
                    run.look()
                    if run.done:
                        waiting.discard(run)
                        selector.unregister(run.sock)
        self.upstream.scripts.clear()

    def arrived(self):
        """What arrived at the upstream, when all of it has arrived."""
        self.barrier()
        deadline = time.monotonic() + QUIET_SECONDS
        while not self.upstream.settled() and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.upstream.new_messages()


def arrival_problem(runs, arrived, failures):
    """Compares what arrived at the upstream with the expectation of all runs together."""
    if failures:
        return f"the upstream could not read what came: {failures[0]}"
    left, cut_allowed = collections.defaultdict(list), False
    for run in runs:
        wanted, cut = run.case.upstream(run.via) or ([], False)
        cut_allowed = cut_allowed or cut
        for want in wanted:
            left[want.start].append(want)
    for message, connection, behind in arrived:
        if not message.complete and cut_allowed:
            continue
        candidates = left[message.method, message.authority, message.path]
        differences = [want.differs(want.start, message, connection.http2, behind) for want in candidates]
        if "" not in differences:
            return f"the upstream saw {differences[0] if differences else repr(message)}"
        candidates.pop(differences.index(""))
    missing = [want for wants in left.values() for want in wants if not want.maybe]
    return f"the upstream did not see {missing[0].start}" if missing else ""


def try_all(target, runs):
    """Runs them. Returns problems with what arrived, or with what other clients got."""
    target.run(runs)
    try:
        if runs[0].case.responds:
            # What upstreams still send must not reach later requests.
            target.barrier()
            harness.wait_until(target.upstream.scripts_done, 5, "the upstream's scripts")
            target.barrier()
            target.barrier()
        return arrival_problem(runs, target.arrived(), target.upstream.failures())
    except WireError as error:
        return f"{error}"
