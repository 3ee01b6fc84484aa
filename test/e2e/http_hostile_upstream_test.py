"""Upstreams that break every rule. Whatever they do, within seconds a client gets a complete and correct response or a
clear 502, 503 or 504, or sees that the response was cut off. It never gets a wrong response, or a partial one that
looks complete. The next request is served by a working endpoint."""

import contextlib
import socket
import threading
import time

import harness
from harness import KIB, LONG, MIB, SANITIZER, SLOWNESS
import http_wire as wire
from http_wire import data_frame, frame, goaway_frame, headers_frame, rst_frame, settings_frame, window_frame
from origins import Origin, reset

TIMEOUT = f"{700 * SLOWNESS}ms"       # The timeout for the beginning of a response, and for a pause within it.
PATIENCE_SECONDS = 3 * SLOWNESS       # No client waits longer.
FLOOD_FRAMES = 200_000 if LONG else 20_000

ERROR, CUT, OK = "error", "cut", "ok"


def body_of(path):
    return f"body of {path} ".encode() * 20


def send_all(peer, frames):
    """Sends frames in pieces, as long as the proxy takes them."""
    for at in range(0, len(frames), 64 * KIB):
        if not peer.send(frames[at:at + 64 * KIB]) or not (peer.pump(0) or not peer.how):
            return


def status(stream, code="200", fields=(), end=False):
    return headers_frame(stream, [(":status", code), *fields], end)


# ---- HTTP/2 upstreams: name -> (what it does with a connection, what clients may see)

SCENARIOS2 = {}


def scenario2(expected, name=None, **options):
    def note(function):
        SCENARIOS2[name or function.__name__] = (function, expected.split(" "), options)
        return function
    return note


def respond_with(expected, name, response, **options):
    """A scenario that sends `response(stream)` for each request, and continues to read."""
    @scenario2(expected, name, **options)
    def _(peer):
        while (request := peer.head(10 * SLOWNESS)):
            send_all(peer, response(request.stream))
            peer.pump(0)


def wait_for_end(peer):
    peer.wait(lambda: peer.how, 10 * SLOWNESS)


# The beginning of the connection

@scenario2(ERROR, greet=False)
def sends_nothing(peer):
    wait_for_end(peer)


@scenario2(ERROR, greet=False)
def closes_at_once(peer):
    pass


@scenario2(ERROR, greet=False)
def resets_at_once(peer):
    reset(peer.sock)


@scenario2(ERROR, greet=False)
def speaks_http1(peer):
    peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nEVIL")
    wait_for_end(peer)


@scenario2(ERROR, greet=False)
def begins_with_a_response(peer):
    peer.send(status(1) + data_frame(1, b"EVIL", True))
    wait_for_end(peer)


@scenario2(ERROR, greet=False)
def sends_garbage(peer):
    peer.send(bytes(range(256)) * 300)
    wait_for_end(peer)


def greeting(expected, name, frames):
    @scenario2(expected, name, greet=False)
    def _(peer):
        peer.send(frames)
        while (request := peer.head(10 * SLOWNESS)):
            peer.respond(request.stream, 200, [], body_of(request.path))


greeting(ERROR, "SETTINGS of 2,700 entries", settings_frame(*[(0x7000 + at % 9, at) for at in range(2700)]))
greeting(ERROR, "SETTINGS of 60 KiB", settings_frame(*[(0x7000, at) for at in range(10000)]))
greeting(ERROR, "SETTINGS of 5 bytes", frame(wire.SETTINGS, payload=b"12345"))
greeting(ERROR, "SETTINGS of a stream", frame(wire.SETTINGS, stream=1))
greeting(ERROR, "SETTINGS acknowledged first", frame(wire.SETTINGS, wire.ACK))
greeting(ERROR, "ENABLE_PUSH of a server", settings_frame((wire.ENABLE_PUSH, 1)))
greeting(ERROR, "INITIAL_WINDOW too large", settings_frame((wire.INITIAL_WINDOW, 1 << 31)))
greeting(ERROR, "MAX_FRAME too small", settings_frame((wire.MAX_FRAME, 100)))
greeting(ERROR, "no streams allowed", settings_frame((wire.MAX_STREAMS, 0)))
greeting(OK, "one stream allowed", settings_frame((wire.MAX_STREAMS, 1)))
greeting(OK, "unknown settings and frames", settings_frame((0x9999, 1)) + frame(0xfa, 0xff, 0, b"x" * 100))
greeting(ERROR, "GOAWAY first", settings_frame() + goaway_frame(0))


# The response

SILENCE = "silence"
respond_with(ERROR, SILENCE, lambda s: b"")
respond_with(CUT, "half a response, then silence", lambda s: status(s) + data_frame(s, b"half"))
respond_with(CUT, "a head, then silence", lambda s: status(s))
respond_with(ERROR, "a head that does not end", lambda s: frame(wire.HEADERS, 0, s, wire.hpack([(":status", "200")])))
respond_with(ERROR, "a response of another stream", lambda s: status(s + 2, end=True))
respond_with(ERROR, "a response of an even stream", lambda s: status(2, end=True))
respond_with(ERROR, "a response of no stream", lambda s: status(0, end=True))
respond_with(ERROR, "DATA of another stream", lambda s: data_frame(s + 2, b"EVIL", True))
respond_with(ERROR, "DATA before the head", lambda s: data_frame(s, b"EVIL", True))
respond_with(ERROR, "a block that is broken", lambda s: frame(wire.HEADERS, 5, s, b"\xff\xff\xff\xff"))
respond_with(ERROR, "a table too large", lambda s: frame(wire.HEADERS, 5, s, b"\x3f\xe1\xff\x03\x88"))
respond_with(ERROR, "a block that is interrupted", lambda s: frame(wire.HEADERS, 0, s, wire.hpack([(":status", "200")])) +
             frame(wire.PING, payload=b"12345678") + frame(wire.CONTINUATION, 4, s))
respond_with(ERROR, "CONTINUATION of nothing", lambda s: frame(wire.CONTINUATION, 4, s, b"\x88"))
respond_with(ERROR, "a frame too large", lambda s: frame(wire.HEADERS, 5, s, wire.hpack([(":status", "200"),
                                                                                     ("x", "y" * 20000)])))
respond_with(ERROR, "padding too long", lambda s: frame(wire.HEADERS, 4 | wire.PADDED, s, b"\xff\x88"))
respond_with(CUT, "padding of DATA too long", lambda s: status(s) + frame(wire.DATA, wire.PADDED, s, b"\xffabc"))
PUSH = b"\0\0\0\2\x82"
respond_with(ERROR, "PUSH_PROMISE", lambda s: frame(wire.PUSH_PROMISE, 4, s, PUSH) + status(s, end=True))
respond_with("error cut", "PUSH_PROMISE within a response",
             lambda s: status(s) + frame(wire.PUSH_PROMISE, 4, s, PUSH) + data_frame(s, b"EVIL", True))
respond_with(ERROR, "a window of the stream too large", lambda s: window_frame(s, 0x7fffffff) + status(s, end=True))
respond_with(ERROR, "a window of the connection too large", lambda s: window_frame(0, 0x7fffffff) + status(s, end=True))
respond_with(ERROR, "a window by nothing", lambda s: window_frame(s, 0) + status(s, end=True))
respond_with(ERROR, "SETTINGS that make a window too large", lambda s: window_frame(s, 0x7fff0000) + settings_frame(
    (wire.INITIAL_WINDOW, 0x7fffffff)) + status(s, end=True))
respond_with(CUT, "less than content-length",
             lambda s: status(s, fields=[("content-length", "10")]) + data_frame(s, b"half", True))
respond_with(CUT, "more than content-length",
             lambda s: status(s, fields=[("content-length", "2")]) + data_frame(s, b"more", True))
respond_with(CUT, "trailers with a pseudo-header field",
             lambda s: status(s) + data_frame(s, b"half") + status(s, end=True))
respond_with(ERROR, "1xx without end", lambda s: status(s, "103") * FLOOD_FRAMES)
respond_with(ERROR, "1xx that end", lambda s: status(s, "103", end=True))
respond_with(ERROR, "20,000 fields", lambda s: frame(wire.HEADERS, 0, s, wire.hpack([(":status", "200")])) + frame(
    wire.CONTINUATION, 0, s, b"\x00\x01a\x00" * 4000) * 4 + frame(wire.CONTINUATION, 4, s, b"\x00\x01a\x00" * 4000))
respond_with(ERROR, "an entry again and again", lambda s: frame(wire.HEADERS, 4, s, b"\x88" + wire.hpack(
    [("x", "y" * 3900)], index=True) + b"\xbe" * 12000))
respond_with(ERROR, "CONTINUATIONs without end", lambda s: frame(wire.HEADERS, 0, s, b"\x88") + frame(
    wire.CONTINUATION, 0, s, wire.hpack([("x", "y")])) * FLOOD_FRAMES)
respond_with(ERROR, "empty CONTINUATIONs",
             lambda s: frame(wire.HEADERS, 0, s, b"\x88") + frame(wire.CONTINUATION, 0, s) * FLOOD_FRAMES)
respond_with(ERROR, "PINGs without end", lambda s: frame(wire.PING, payload=b"12345678") * FLOOD_FRAMES)
respond_with(ERROR, "SETTINGS without end", lambda s: settings_frame() * FLOOD_FRAMES)
respond_with("error ok", "windows without end", lambda s: window_frame(0, 1) * FLOOD_FRAMES)
respond_with(ERROR, "frames of no known type without end", lambda s: frame(0xfa) * FLOOD_FRAMES)
respond_with(CUT, "DATA a byte at a time, then silence", lambda s: status(s) + data_frame(s, b"x") * 60_000)
respond_with(CUT, "empty DATA without end", lambda s: status(s) + data_frame(s) * FLOOD_FRAMES)
for _code, _error in enumerate(wire.ERRORS):
    respond_with(ERROR, f"RST_STREAM of {_error}", lambda s, code=_code: rst_frame(s, code))
    if _code in (0, 2, 7, 8, 11):
        respond_with(CUT, f"RST_STREAM of {_error} within a response",
                     lambda s, code=_code: status(s) + data_frame(s, b"half") + rst_frame(s, code))
respond_with(ERROR, "GOAWAY that leaves it out", lambda s: goaway_frame(s - 2 if s > 1 else 0))
respond_with(ERROR, "GOAWAY with an error", lambda s: goaway_frame(s, 2))
respond_with(ERROR, "GOAWAY that lets it in, then silence", lambda s: goaway_frame(0x7fffffff))
respond_with(CUT, "GOAWAY within a response, then silence", lambda s: status(s) + data_frame(s, b"half") + goaway_frame(s))


def whole(stream, path):
    return status(stream) + data_frame(stream, body_of(path), True)


def respond_well(name, around):
    """Odd, but allowed, or too late to matter: `around(stream, whole response)`."""
    @scenario2(OK, name)
    def _(peer):
        while (request := peer.head(10 * SLOWNESS)):
            send_all(peer, around(request.stream, whole(request.stream, request.path)))


respond_well("RST_STREAM behind a response", lambda s, good: good + rst_frame(s, 0))
respond_well("GOAWAY behind a response", lambda s, good: good + goaway_frame(s))
respond_well("GOAWAY before a response", lambda s, good: goaway_frame(s) + good)
respond_well("windows before a response", lambda s, good: window_frame(s, 1000) + window_frame(0, 1000) + good)
respond_well("frames of no known type before a response", lambda s, good: frame(0xfa, 0xff, s, b"x") * 20 + good)
respond_well("PRIORITY before a response", lambda s, good: frame(wire.PRIORITY, 0, s, b"\0\0\0\0\0") + good)
respond_well("DATA behind a response", lambda s, good: good + data_frame(s, b"EVIL", True))
respond_well("trailers behind a response", lambda s, good: good + headers_frame(s, [("x", "evil")], True))
respond_well("a response behind a response", lambda s, good: good + status(s) + data_frame(s, b"EVIL", True))
respond_well("an unrequested response behind a response",
             lambda s, good: good + status(s + 2) + data_frame(s + 2, b"EVIL", True))


@scenario2(OK)
def refuses_once(peer):
    """REFUSED_STREAM means that the request may be retried."""
    while (request := peer.head(10 * SLOWNESS)):
        if peer.first_time(request.path):
            peer.send(rst_frame(request.stream, 7))
        else:
            peer.send(whole(request.stream, request.path))


@scenario2(OK)
def goes_away_once(peer):
    """So does a GOAWAY whose last stream is before it."""
    while (request := peer.head(10 * SLOWNESS)):
        if peer.first_time(request.path):
            peer.send(goaway_frame(0))
            return
        peer.send(whole(request.stream, request.path))


def dying(name, expected, beginning, how):
    @scenario2(expected, f"{how}s {name}")
    def _(peer):
        request = peer.head(10 * SLOWNESS)
        if request:
            peer.send(beginning(request.stream))
            time.sleep(0.03)
            if how == "reset":
                reset(peer.sock)


for _how in ("close", "reset"):
    dying("before a response", ERROR, lambda s: b"", _how)
    dying("within a head", ERROR, lambda s: status(s)[:12], _how)
    dying("within a frame's header", CUT, lambda s: status(s) + data_frame(s, b"half") + data_frame(s)[:5], _how)
    dying("within DATA", CUT, lambda s: status(s) + data_frame(s, b"x" * 1000)[:500], _how)
    dying("between DATA", CUT, lambda s: status(s, fields=[("content-length", "8")]) + data_frame(s, b"half"), _how)


@scenario2("ok cut")
def ignores_windows(peer):
    """It sends 2 MiB at once. If the client reads, there is room; if there is no room, that is an error."""
    while (request := peer.head(10 * SLOWNESS)):
        size = 2 * MIB
        request.large = body_of(request.path) * (size // len(body_of(request.path)))
        pieces = [request.large[at:at + 16384] for at in range(0, len(request.large), 16384)]
        send_all(peer, status(request.stream) + b"".join(data_frame(request.stream, piece) for piece in pieces[:-1]) +
                 data_frame(request.stream, pieces[-1], True))


@scenario2(OK)
def sends_a_byte_at_a_time(peer):
    """DATA frames of one byte, each with as much padding as possible."""
    while (request := peer.head(10 * SLOWNESS)):
        frames = [frame(wire.DATA, wire.PADDED, request.stream, b"\x14" + bytes([byte]) + b"\0" * 20)
                  for byte in body_of(request.path)]
        send_all(peer, status(request.stream) + b"".join(frames) + data_frame(request.stream, b"", True))


# ---- HTTP/1.1 upstreams

SCENARIOS1 = {}


def scenario1(expected, name=None):
    def note(function):
        SCENARIOS1[name or function.__name__] = (function, expected.split(" "), {})
        return function
    return note


class Peer1:
    """A connection on which a request arrived."""

    def __init__(self, sock):
        self.sock = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = wire.Http1Reader(requests=True)
        self.seen = 0

    def head(self):
        """The next request whose head has arrived; None at the end."""
        while len(self.reader.messages) <= self.seen:
            data = self.sock.recv(1 << 18)
            if not data:
                return None
            self.reader.feed(data)
        self.seen += 1
        return self.reader.messages[self.seen - 1]

    def send(self, data):
        self.sock.sendall(wire.bytes_of(data))


def respond_with_text(expected, name, text, then="wait", pause=None):
    """Sends a text for each request; then waits, closes or resets. With a pause, it sends one byte at a time."""
    @scenario1(expected, name)
    def _(peer):
        while (request := peer.head()):
            if pause:
                for byte in wire.bytes_of(text):
                    peer.send(bytes([byte]))
                    time.sleep(pause)
            else:
                peer.send(text)
            if then == "wait":
                continue
            time.sleep(0.03)
            if then == "reset":
                reset(peer.sock)
            return


HEAD = "HTTP/1.1 200 OK\r\n"
CHUNK = HEAD + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
respond_with_text(ERROR, "silence", "")
respond_with_text(ERROR, "closes", "", "close")
respond_with_text(ERROR, "resets", "", "reset")
respond_with_text(ERROR, "half a head, then silence", HEAD + "Content-Le")
respond_with_text(ERROR, "half a head, then closes", HEAD + "Content-Le", "close")
respond_with_text(ERROR, "half a head, then resets", HEAD + "Content-Le", "reset")
respond_with_text(ERROR, "a head that drips", HEAD + "X: " + "y" * 1000, pause=0.02)
respond_with_text(ERROR, "a head without end", HEAD + "X: y\r\n" * 100_000)
respond_with_text(ERROR, "a field without end", HEAD + "X: " + "y" * 1_000_000)
respond_with_text(ERROR, "a status line without end", "HTTP/1.1 200 " + "O" * 1_000_000)
respond_with_text(ERROR, "rubbish", bytes(range(256)) * 100)
respond_with_text(ERROR, "a TLS alert", b"\x15\x03\x01\x00\x02\x02\x46", "close")
respond_with_text(ERROR, "a preface of HTTP/2", wire.PREFACE + settings_frame())
respond_with_text(ERROR, "1xx without end", "HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000)
respond_with_text(ERROR, "1xx, then silence", "HTTP/1.1 100 Continue\r\n\r\n")
respond_with_text(ERROR, "101 to a plain request", "HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nEVIL")
respond_with_text(CUT, "less than content-length, then silence", HEAD + "Content-Length: 10\r\n\r\nhalf")
respond_with_text(CUT, "less than content-length, then closes", HEAD + "Content-Length: 10\r\n\r\nhalf", "close")
respond_with_text(CUT, "less than content-length, then resets", HEAD + "Content-Length: 10\r\n\r\nhalf", "reset")
respond_with_text(CUT, "half a chunk, then closes", HEAD + "Transfer-Encoding: chunked\r\n\r\n5\r\nha", "close")
respond_with_text(CUT, "no last chunk, then closes", CHUNK, "close")
respond_with_text(CUT, "no last chunk, then silence", CHUNK)
respond_with_text(CUT, "chunks that are none", CHUNK + "EVIL\r\n")
respond_with_text(CUT, "an extension without end", CHUNK + "5;" + "x" * 1_000_000)
respond_with_text(CUT, "a body until the end that is a reset", HEAD + "\r\nhalf", "reset")


@scenario1(OK)
def trailers_without_end(peer):
    """The response is complete without them."""
    while (request := peer.head()):
        body = body_of(request.path)
        peer.send(HEAD + f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n")
        peer.send(body)
        peer.send("\r\n0\r\n" + "x: y\r\n" * 100_000)


@scenario1(OK)
def closes_on_second_request(peer):
    """The idle connection ends just as the next request arrives; such a request may be retried."""
    request = peer.head()
    if request:
        body = body_of(request.path)
        peer.send(HEAD + f"Content-Length: {len(body)}\r\n\r\n")
        peer.send(body)
        peer.head()


@scenario1("ok error")
def responds_early_and_resets(peer):
    """A response before the request was complete, and the rest of the request is not read."""
    request = peer.head()
    if request:
        body = body_of(request.path)
        peer.send(HEAD + f"Content-Length: {len(body)}\r\n\r\n")
        peer.send(body)
        time.sleep(0.05)
        reset(peer.sock)


# ---- The test

class Hostile:
    """A server whose behavior is set for each scenario. Connections of an earlier scenario are closed."""

    def __init__(self, http2):
        self._http2 = http2
        self._scenario = None
        self._options = {}
        self._open = set()
        self._seen = set()
        self._lock = threading.Lock()
        self.problems = []
        self.origin = Origin(self._serve)
        self.address = self.origin.address

    def behave(self, function=None, options=None):
        with self._lock:
            self._scenario, self._options = function, options or {}
            self._seen = set()
            left, self._open = self._open, set()
        for sock in left:
            with contextlib.suppress(OSError):
                sock.shutdown(2)

    def _serve(self, sock):
        with self._lock:
            scenario = self._scenario
            self._open.add(sock)
        if not scenario:
            return
        peer = wire.Http2Server(sock, greet=self._options.get("greet", True)) if self._http2 else Peer1(sock)
        peer.first_time = self._first_time
        try:
            scenario(peer)
        except OSError:
            pass
        except wire.WireError as error:
            self.problems.append(f"{error}")
        finally:
            with self._lock:
                self._open.discard(sock)

    def _first_time(self, path):
        with self._lock:
            known = path in self._seen
            self._seen.add(path)
        return not known

    def close(self):
        self.behave()
        self.origin.close()


def outcome(response, path, how):
    """What a client saw, as a word; anything but the three words is a fault."""
    if response is None:
        # A reset may overtake the beginning of a response that was cut off.
        return CUT if how == "reset" else f"nothing ({how or 'it waits'})"
    if not response.complete:
        cut = response.failure and response.status
        return CUT if cut else f"{response!r}, {how or 'it waits'}"
    if response.status in (502, 503, 504):
        return ERROR
    wanted = body_of(path)
    good = response.status == 200 and (response.body == wanted or response.body == wanted * (2 * MIB // len(wanted)))
    return OK if good else f"wrong: {response!r}"


class HostileUpstream(harness.SluiceTest):

    def setUp(self):
        self.good = self.keep(wire.Server(
            lambda request, connection: connection.reply(request, body=body_of(request.path))))
        self.hostile = {1: self.keep(Hostile(False)), 2: self.keep(Hostile(True))}
        upstreams = []
        for version, hostile in self.hostile.items():
            options = {"protocol": f"http{version}", "connect_timeout": TIMEOUT, "response_timeout": TIMEOUT,
                       "max_fails": 0, "pool": {"max_streams": 1}}
            upstreams += [{"name": f"bad{version}", "endpoints": [hostile.address], **options},
                          {"name": f"mixed{version}", "endpoints": [hostile.address, self.good.address], **options},
                          {"name": f"many{version}", "endpoints": [hostile.address], **options, "pool": {}}]
        routes = [{"match": {"path": {"prefix": f"/{upstream['name']}/"}}, "forward": upstream["name"]}
                  for upstream in upstreams]
        self.proxy = self.start({
            "workers": 1, "shutdown_timeout": "3s", "upstreams": upstreams,
            "listeners": [{"name": "main", "address": "127.0.0.1:0",
                           "http": {"stream_idle_timeout": TIMEOUT, "routes": routes}}]}, cut_allowed=True)

    def send_request(self, client_version, path, method="GET", body=None):
        """Returns (outcome, seconds)."""
        began = time.monotonic()
        kind = wire.Http1Client if client_version == 1 else wire.Http2Client
        with kind(self.proxy.address()) as client:
            if client_version == 1:
                response = client.get(path, method, body=body or b"", seconds=PATIENCE_SECONDS)
            else:
                response = client.get(path, PATIENCE_SECONDS, method=method, body=body)
            if response is None or not (response.complete or response.failure):
                client.wait(lambda: client.how, 0.1)
            return outcome(response, path, client.how), time.monotonic() - began

    def check(self, version, name, expected, method="GET", body=None):
        """Both kinds of clients send requests to the hostile upstream, and a further client to one where half of the
        endpoints work."""
        requests = [(client, f"/bad{version}/{client}") for client in (1, 2)]
        results, problems = {}, []

        def run(client, path):
            try:
                results[path] = self.send_request(client, path, method, body)
            except (wire.WireError, OSError) as error:
                results[path] = (f"garbled: {error!r}", 0)

        def run_mixed():
            words = [self.send_request(2 - number % 2, f"/mixed{version}/{number}", method, body)[0] for number in range(4)]
            if not all(word in (OK, *expected) for word in words):
                problems.append(f"mixed: {words}")
            if any(OK not in pair for pair in zip(words, words[1:])):
                problems.append(f"mixed: the next request was not served: {words}")

        threads = [threading.Thread(target=run, args=one) for one in requests] + [threading.Thread(target=run_mixed)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for path, (word, seconds) in results.items():
            if word not in expected:
                problems.append(f"{path}: {word}")
            if seconds > PATIENCE_SECONDS:
                problems.append(f"{path}: it took {seconds:.1f} s")
        hostile = self.hostile[version]
        problems += [f"the upstream could not read: {problem}" for problem in hostile.problems]
        hostile.problems.clear()
        return [f"{name} (wanted: {' or '.join(expected)}): {problem}" for problem in problems]

    def check_all(self, version, scenarios, **options):
        self.proxy.reset_peak_rss()
        base = self.proxy.peak_rss()
        problems, began = [], time.monotonic()
        for name, (function, expected, scenario_options) in scenarios.items():
            self.hostile[version].behave(function, scenario_options)
            problems += self.check(version, name, expected, **options)
        grown = (self.proxy.peak_rss() - base) / MIB
        harness.print_note(f"{len(scenarios)} scenarios in {time.monotonic() - began:.1f} s; memory +{grown:.1f} MiB at most; "
                           f"{len(problems)} problems")
        if problems:
            self.fail("\n" + "\n".join(problems))
        if not SANITIZER:
            self.assertLess(grown, 32)

    def test_http2(self):
        self.check_all(2, SCENARIOS2)

    def test_http1(self):
        self.check_all(1, SCENARIOS1)

    def test_bodies(self):
        """What upstreams do with the body of a request: they read nothing or a little, or respond before its end."""
        body = b"b" * 300_000

        def reads_nothing(peer):
            time.sleep(4 * SLOWNESS)

        def opens_no_window(peer):
            peer.reader.polite = False
            peer.send(settings_frame((wire.INITIAL_WINDOW, 0)) + frame(wire.SETTINGS, wire.ACK))
            wait_for_end(peer)

        def opens_windows_slowly(peer):
            peer.reader.polite = False
            peer.send(settings_frame((wire.INITIAL_WINDOW, 1)) + frame(wire.SETTINGS, wire.ACK))
            while (request := peer.head(10 * SLOWNESS)):
                while not request.complete and not peer.how:
                    peer.send(window_frame(request.stream, 9973) + window_frame(0, 9973))
                    peer.pump(0.01)
                peer.send(whole(request.stream, request.path))

        def shrinks_windows(peer):
            peer.reader.polite = False
            peer.send(frame(wire.SETTINGS, wire.ACK))
            request = peer.head(10 * SLOWNESS)
            if request:
                peer.send(settings_frame((wire.INITIAL_WINDOW, 0)))
                peer.send(settings_frame((wire.INITIAL_WINDOW, 400_000)) + window_frame(0, 400_000))
                peer.wait(lambda: request.complete, 5 * SLOWNESS)
                peer.send(whole(request.stream, request.path) + goaway_frame(request.stream))

        def responds_early(peer):
            while (request := peer.head(10 * SLOWNESS)):
                peer.send(whole(request.stream, request.path) + rst_frame(request.stream, 0))

        problems = []
        for function, expected in ((opens_no_window, [ERROR]), (opens_windows_slowly, [OK]), (shrinks_windows, [OK]),
                                   (responds_early, [OK])):
            self.hostile[2].behave(function, {"greet": True})
            problems += self.check(2, function.__name__, expected, "POST", body)
        # In HTTP/1.1 the kernel takes some megabytes before the sender has to wait.
        for function, expected, size in ((reads_nothing, [ERROR], 12 * MIB),
                                         (responds_early_and_resets, [OK, ERROR], MIB)):
            self.hostile[1].behave(function)
            problems += self.check(1, function.__name__, expected, "POST", b"b" * size)
        if problems:
            self.fail("\n" + "\n".join(problems))

    def test_many_streams_of_one_connection(self):
        """An error of the connection ends each of its streams, and an error of one stream affects no other."""
        count = 20

        def backwards(peer):
            """Responds to all requests, the last one first, and piece by piece."""
            requests = []
            while len(requests) < count:
                request = peer.head(5 * SLOWNESS)
                if not request:
                    break
                requests.append(request)
            peer.send(b"".join(status(request.stream) for request in reversed(requests)))
            bodies = {request.stream: body_of(request.path) for request in requests}
            for at in range(0, max(map(len, bodies.values()), default=0), 37):
                peer.send(b"".join(data_frame(stream, body[at:at + 37]) for stream, body in reversed(bodies.items())))
            peer.send(b"".join(data_frame(stream, b"", True) for stream in bodies))
            wait_for_end(peer)

        def half_then_goaway(peer):
            """The last id of the GOAWAY is in the middle. Requests above it may be retried; by then the server
            works."""
            requests = []
            while len(requests) < count and not peer.second_time:
                request = peer.head(1)
                if not request:
                    break
                requests.append(request)
            if requests:
                middle = requests[len(requests) // 2].stream
                peer.send(goaway_frame(middle))
                peer.send(b"".join(whole(request.stream, request.path) for request in requests
                                   if request.stream <= middle))
                return wait_for_end(peer)
            while (request := peer.head(5 * SLOWNESS)):
                peer.send(whole(request.stream, request.path))

        def half_then_closes(peer):
            requests = []
            while len(requests) < count:
                request = peer.head(1)
                if not request:
                    break
                requests.append(request)
            peer.send(b"".join(whole(request.stream, request.path) for request in requests[:len(requests) // 2]))
            peer.send(b"".join(status(request.stream) + data_frame(request.stream, b"half")
                               for request in requests[len(requests) // 2:]))
            time.sleep(0.05)

        for function, least_good, expected in ((backwards, count, {OK}), (half_then_goaway, count, {OK}),
                                               (half_then_closes, 1, {OK, CUT, ERROR})):
            with self.subTest(function.__name__):
                once = iter([False])
                def scenario(peer, function=function, once=once):
                    peer.second_time = next(once, True)
                    function(peer)
                self.hostile[2].behave(scenario)
                with wire.Http2Client(self.proxy.address()) as client:
                    paths = {client.send_request(f"/many2/{number}"): f"/many2/{number}" for number in range(count)}
                    words = [outcome(client.response(stream, PATIENCE_SECONDS), path, client.how)
                             for stream, path in paths.items()]
                self.assertLessEqual(set(words), expected, words)
                self.assertGreaterEqual(words.count(OK), least_good, words)


if __name__ == "__main__":
    harness.main()
