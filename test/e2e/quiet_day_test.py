"""A day of a quiet site: single requests of all kinds with long pauses between them, all timeouts at their defaults.

Many clients, each of its own kind, are idle most of the time. At times all of them are idle, for longer than the
default timeouts of connections and handshakes. Workers sleep meanwhile, as nothing wakes them: no --stats, no health
checks. Each response must be complete and correct, nothing may be logged as a warning or an error, and the counters at
the end must agree with what the clients did. The long form takes half an hour. The seed is printed;
SLUICE_E2E_SEED=<number> sets it.
"""

import base64
import collections
import contextlib
import hashlib
import os
import random
import re
import socket
import ssl
import struct
import threading
import time
import unittest

import harness
import http_wire as wire
from harness import KIB, LONG, SANITIZER, SLOWNESS
from http_wire import Http1Client, Http1Reader, Http2Client, Http2Reader, Peer
from origins import Origin, connect, receive_exactly
from tls_support import TlsTest
from transfers import pattern

# The time in which clients begin requests; finishing them may take some seconds more.
SECONDS = 1800 if LONG else 40 if SANITIZER else 140
LONGEST_PAUSE = 90 if LONG else 20
# How long all clients are idle: more than the default tls.handshake_timeout and header_timeout (10 s), connect_timeout,
# proxy_protocol.timeout and http2.preface_timeout (5 s each).
SILENCE = (12, 60) if LONG else (11, 14)
BETWEEN_SILENCES = 120 if LONG else 30
# The default http.idle_timeout closes a client's connection; requests near that time could meet its end.
IDLE_TIMEOUT = 75
NEAR_IDLE_TIMEOUT = 5 * SLOWNESS
# The longest delay of a part of a request, and of a response.
MAX_DELAY = 3
FOREVER = 24 * 3600


# ---- Servers, which describe the request in the response

def response_of(number, size):
    return b"%08d" % number + bytes(pattern(number, 0, size))


def parts_of(path):
    """Number of the request, size of the response, and delay in milliseconds, of /number/size/delay."""
    return [int(part) for part in path.split("?")[0].strip("/").split("/")[-3:]]


def serve_http1(peer):
    served = 0
    messages = peer.reader.messages
    while peer.wait(lambda: len(messages) > served and messages[served].complete, FOREVER):
        request = messages[served]
        served += 1
        number, size, delay = parts_of(request.path)
        time.sleep(delay / 1000)
        if request.protocol:
            peer.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                      f"sec-websocket-accept: {accept_of(request.value('sec-websocket-key'))}\r\n\r\n")
            return echo_tunnel(peer)
        body = response_of(number, size) + request.body
        peer.send(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return None


def accept_of(key):
    return base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()


def echo_tunnel(peer):
    tunnel = peer.reader.tunnel
    while peer.wait(lambda: tunnel or peer.how, FOREVER) and tunnel:
        data = bytes(tunnel)
        tunnel.clear()
        peer.send(data)
    end(peer.sock)


def end(sock):
    """Ends the sending side. SSLSocket.shutdown would leave out close_notify."""
    with contextlib.suppress(OSError):
        sock.unwrap() if isinstance(sock, ssl.SSLSocket) else sock.shutdown(socket.SHUT_WR)


class Http2Responder:
    """One request at a time on a connection: clients of a quiet site do not meet often, and when they do, they wait."""

    def __init__(self, peer):
        self.peer = peer
        self.windows = {}
        self.window = wire.FIRST_WINDOW

    def run(self):
        reader = self.peer.reader
        served = 0
        self.peer.send(wire.settings_frame((wire.MAX_STREAMS, 1000)))
        self.peer.send_responses()
        while self.peer.wait(lambda: len(reader.done) > served, FOREVER):
            request = reader.done[served]
            served += 1
            if not request.failure:
                self.respond(request)

    def respond(self, request):
        number, size, delay = parts_of(request.path)
        time.sleep(delay / 1000)
        stream = request.stream
        head = [(":status", "200")]
        if request.value("content-type") == "application/grpc":
            message = response_of(number, size) + bytes(request.body[5:])
            self.peer.send(wire.headers_frame(stream, [*head, ("content-type", "application/grpc")]))
            self.send_body(request, b"\0" + struct.pack(">I", len(message)) + message, end=False)
            self.peer.send(wire.headers_frame(stream, [("grpc-status", "0")], end=True))
            return
        body = response_of(number, size) + request.body
        self.peer.send(wire.headers_frame(stream, [*head, ("content-length", str(len(body)))]))
        self.send_body(request, body, end=True)

    def send_body(self, request, body, end):
        reader = self.peer.reader
        stream = request.stream
        window = reader.settings.get(wire.INITIAL_WINDOW, wire.FIRST_WINDOW)
        while body and not request.failure:
            window += reader.windows.pop(stream, 0)
            self.window += reader.windows.pop(0, 0)
            size = min(window, self.window, 16384, len(body))
            if size <= 0:
                if not self.peer.wait(lambda: reader.windows[stream] or reader.windows[0] or request.failure):
                    return
                continue
            piece, body = body[:size], body[size:]
            window -= size
            self.window -= size
            self.peer.send(wire.data_frame(stream, piece, end and not body))


def serve_http(sock):
    """HTTP/1.1 or HTTP/2, as the client chooses."""
    sock.settimeout(None)
    first = b""
    while len(first) < len(wire.PREFACE) and wire.PREFACE.startswith(first):
        data = sock.recv(65536)
        if not data:
            return
        first += data
    http2 = first.startswith(wire.PREFACE)
    peer = Peer(sock, (Http2Reader if http2 else Http1Reader)(requests=True))
    peer.reader.feed(first)
    if http2:
        Http2Responder(peer).run()
    else:
        serve_http1(peer)


def serve_echo(sock):
    sock.settimeout(None)
    while data := sock.recv(65536):
        sock.sendall(data)
    end(sock)


# ---- Clients

class Ended(Exception):
    """The kept connection was closed for its idleness, as expected."""


def secured(sock, context, alpn):
    """Strict: an end without close_notify is an error."""
    secure = context.wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False)
    if alpn and secure.selected_alpn_protocol() != alpn:
        raise AssertionError(f"ALPN chose {secure.selected_alpn_protocol()}, not {alpn}")
    return secure


class Client:
    """One kind of client. `tls` is its context, if any."""

    protocol = ""        # For ALPN.
    keeps = True         # Its connections may be reused.
    idle_timeout = True  # http.idle_timeout applies to it.

    def __init__(self, day, name, listener, context, chooser):
        self.day, self.name, self.listener = day, name, listener
        self.context, self.chooser = context, chooser
        self.sock = None
        self.used_at = 0

    def open(self):
        self.day.count("connections")
        self.sock = connect(self.day.proxy.address(self.listener))
        self.maybe_wait()
        if self.context:
            self.day.count("tls")
            self.sock = secured(self.sock, self.context, self.protocol)
            self.maybe_wait()
        self.begin()

    def begin(self):
        """Steps after a new connection."""

    def maybe_wait(self):
        """A client is sometimes slow; timeouts for it must count from now."""
        if self.chooser.random() < 0.3:
            time.sleep(self.chooser.uniform(0, MAX_DELAY))

    def close(self):
        if not self.sock:
            return
        sock, self.sock = self.sock, None
        if isinstance(sock, ssl.SSLSocket):
            with contextlib.suppress(ssl.SSLError):  # Unread frames prevent the shutdown.
                sock = sock.unwrap()
        sock.close()

    def ended(self):
        """Whether the other side has closed the kept connection."""
        raise NotImplementedError

    def turn(self):
        """One request."""
        if self.sock:
            idle = time.monotonic() - self.used_at
            if self.idle_timeout and abs(idle - IDLE_TIMEOUT) < NEAR_IDLE_TIMEOUT:
                time.sleep(2 * NEAR_IDLE_TIMEOUT)
                idle = time.monotonic() - self.used_at
            due = self.idle_timeout and idle > IDLE_TIMEOUT
            ended = self.ended()
            if ended != due:
                raise AssertionError(f"after {idle:.1f} s without a request the connection is {'closed' if ended else 'open'}")
            if ended:
                self.day.count("idle_timeout")
            if ended or not self.keeps or self.chooser.random() < 0.4:
                self.close()
        if not self.sock:
            self.open()
        number = self.day.number()
        self.request(number)
        self.used_at = time.monotonic()
        self.day.count(self.name)

    def size(self):
        """Mostly small."""
        return int(self.chooser.random() ** 6 * 200 * KIB)

    def path(self, number, size):
        delay = int(self.chooser.uniform(0, MAX_DELAY) * 1000) if self.chooser.random() < 0.3 else 0
        return f"/{number}/{size}/{delay}"

    def body(self, number):
        return bytes(pattern(number + 1, 0, self.size())) if self.chooser.random() < 0.4 else b""

    @staticmethod
    def check(found, expected, what):
        if bytes(found) != expected:
            raise AssertionError(f"{what}: {len(found)} bytes, expected {len(expected)}; they begin with "
                                 f"{bytes(found[:40])!r}")

    @staticmethod
    def check_response(response, expected):
        if not response or not response.complete or response.status != 200:
            raise AssertionError(f"response: {response}")
        Client.check(response.body, expected, "body")

    def request(self, number):
        raise NotImplementedError


class TcpClient(Client):
    idle_timeout = False

    def ended(self):
        self.sock.settimeout(0.001)
        try:
            return not self.sock.recv(1)
        except (socket.timeout, ssl.SSLWantReadError):
            return False
        finally:
            self.sock.settimeout(10 * SLOWNESS)

    def request(self, number):
        data = response_of(number, self.size())
        half = self.chooser.randrange(len(data))
        self.sock.sendall(data[:half])
        if half:
            self.check(receive_exactly(self.sock, half), data[:half], "echo")
        self.maybe_wait()
        self.sock.sendall(data[half:])
        self.check(receive_exactly(self.sock, len(data) - half), data[half:], "echo")


class PeerClient(Client):
    """Clients with a reader of http_wire."""

    def begin(self):
        self.peer = self.peer_of(self.sock)

    def peer_of(self, sock):
        raise NotImplementedError

    def ended(self):
        while self.peer.pump(0.001):
            pass
        return bool(self.peer.how)

    def close(self):
        if self.sock:
            self.ended()  # Reads what has arrived.
        super().close()


class Http1Kind(PeerClient):
    protocol = "http/1.1"

    def peer_of(self, sock):
        peer = Http1Client.__new__(Http1Client)
        Peer.__init__(peer, sock, Http1Reader(requests=False))
        return peer

    def request(self, number):
        size, body = self.size(), self.body(number)
        path = self.path(number, size)
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nhost: a.test\r\n"
        head += f"content-length: {len(body)}\r\n\r\n" if body else "\r\n"
        data = head.encode() + body
        cut = self.chooser.randrange(1, len(data))
        self.peer.send_request(data[:cut], ["POST" if body else "GET"])
        self.maybe_wait()
        self.peer.send(data[cut:])
        self.check_response(self.peer.response(), response_of(number, size) + body)


class WebsocketKind(PeerClient):
    """The tunnel stays open between its messages."""
    protocol = "http/1.1"
    idle_timeout = False

    def peer_of(self, sock):
        peer = Http1Client.__new__(Http1Client)
        Peer.__init__(peer, sock, Http1Reader(requests=False))
        key = "dGhlIHNhbXBsZSBub25jZQ=="
        self.day.count("tunnels")
        peer.send_request(f"GET {self.path(0, 0)} HTTP/1.1\r\nhost: a.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
                          f"sec-websocket-version: 13\r\nsec-websocket-key: {key}\r\n\r\n")
        response = peer.response()
        if not response or response.status != 101 or response.value("sec-websocket-accept") != accept_of(key):
            raise AssertionError(f"response: {response}")
        return peer

    def request(self, number):
        data = response_of(number, self.size())
        tunnel = self.peer.reader.tunnel
        self.peer.send(data)
        self.peer.wait(lambda: len(tunnel) >= len(data))
        self.check(tunnel, data, "message")
        tunnel.clear()

    def close(self):
        """In order: the server's end comes before ours is complete."""
        if self.sock and not self.context:
            self.sock.shutdown(socket.SHUT_WR)
            how = self.peer.ending()
            if how != "end":
                raise AssertionError(f"the websocket did not end but was: {how}")
        super().close()


class Http2Kind(PeerClient):
    protocol = "h2"

    def peer_of(self, sock):
        peer = Http2Client.__new__(Http2Client)
        Peer.__init__(peer, sock, Http2Reader(requests=False))
        peer.send(wire.PREFACE + wire.settings_frame())
        return peer

    def ended(self):
        ended = super().ended()
        goaway = self.peer.reader.goaway
        if goaway and (goaway[1] != "NO_ERROR" or not ended):
            raise AssertionError(f"GOAWAY: {goaway}, then {self.peer.how or 'nothing'}")
        return ended

    def request(self, number):
        size, body = self.size(), self.body(number)
        path = self.path(number, size)
        if body:
            stream = self.peer.send_request(path, "POST", body=body)
        else:
            stream = self.peer.send_request(path)
        self.check_response(self.peer.response(stream), response_of(number, size) + body)


class GrpcKind(Http2Kind):
    """A unary call with a deadline."""

    def request(self, number):
        size, message = self.size(), self.body(number)
        body = b"\0" + struct.pack(">I", len(message)) + message
        stream = self.peer.send_request(
            "/grpc" + self.path(number, size), "POST", body=body,
            fields=[("content-type", "application/grpc"), ("te", "trailers"), ("grpc-timeout", f"{8 * SLOWNESS}S")])
        expected = response_of(number, size) + message
        response = self.peer.response(stream)
        self.check_response(response, b"\0" + struct.pack(">I", len(expected)) + expected)
        if ("grpc-status", "0") not in response.trailers:
            raise AssertionError(f"trailers: {response.trailers}")


# ---- The day

class Day:

    def __init__(self, proxy, seed):
        self.proxy = proxy
        self.end = 0
        self.longest_pause = LONGEST_PAUSE
        self.counts = collections.Counter()
        self.errors = []
        self._lock = threading.Lock()
        self._silences = []
        self._chooser = random.Random(seed)

    def count(self, name, by=1):
        with self._lock:
            self.counts[name] += by

    def number(self):
        with self._lock:
            self.counts["turns"] += 1
            return self.counts["turns"]

    def plan(self, begin):
        """Plans the times at which all clients are silent."""
        self.end = begin + SECONDS
        at = begin
        while at < self.end:
            until = at + self._chooser.uniform(*SILENCE)
            self._silences.append((at, until))
            at = until + self._chooser.uniform(0.5, 1) * BETWEEN_SILENCES

    def wake_up(self, pause):
        """When a client that wants to continue after `pause` seconds does so: not in a silence, but soon after it."""
        when = time.monotonic() + pause
        for begin, until in self._silences:
            if begin - 2 * MAX_DELAY < when < until:
                return until + self._chooser.expovariate(0.5)
        return when

    def run_client(self, client):
        while True:
            # Short pauses as well as long ones.
            pause = client.chooser.uniform(0, self.longest_pause * (1 if client.chooser.random() < 0.7 else 0.1))
            when = self.wake_up(pause)
            if when > self.end or self.errors:
                break
            time.sleep(max(0, when - time.monotonic()))
            try:
                client.turn()
            except Exception as error:  # Whatever it is, the test reports it.
                with self._lock:
                    self.errors.append(f"{SECONDS - self.end + time.monotonic():.1f} s: {client.name}: {error!r}")
                return
        try:
            client.close()
        except Exception as error:
            with self._lock:
                self.errors.append(f"at the end: {client.name}: {error!r}")


class QuietDay(TlsTest):

    def start_proxy(self):
        plain, secure = self.keep(Origin(serve_http)), self.keep(Origin(self.over_tls(serve_http)))
        spare = self.keep(Origin(serve_http))
        plain_echo, secure_echo = self.keep(Origin(serve_echo)), self.keep(Origin(self.over_tls(serve_echo)))
        to_tls = {"server_name": "localhost", "ca": self.ca}
        ejection = {"ejection": {"consecutive_errors": 1}}
        upstreams = [
            {"name": "http1", "endpoints": [plain.address, spare.address], **ejection},
            {"name": "http1-tls", "endpoints": [secure.address], "tls": to_tls, **ejection},
            {"name": "http2", "endpoints": [plain.address, spare.address], "protocol": "http2", **ejection},
            {"name": "http2-tls", "endpoints": [secure.address], "protocol": "http2", "tls": to_tls, **ejection},
            {"name": "tcp", "endpoints": [plain_echo.address]},
            {"name": "tcp-tls", "endpoints": [secure_echo.address], "tls": to_tls}]
        certificate = {"tls": {"certificates": [self.server]}}
        listeners = []
        for name, tls in (("plain", {}), ("tls", certificate)):
            for upstream in upstreams:
                to = upstream["name"]
                kind = {"tcp": {"forward": to}} if to.startswith("tcp") else {"http": {"routes": [{"forward": to}]}}
                listeners.append({"name": f"{name}-{to}", "address": "127.0.0.1:0", **tls, **kind})
        return self.start({"workers": 3, "listeners": listeners, "upstreams": upstreams})

    def over_tls(self, handler):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        context.set_alpn_protocols(["h2", "http/1.1"])

        def serve(sock):
            with context.wrap_socket(sock, server_side=True) as secure:
                secure.settimeout(None)
                handler(secure)
                with contextlib.suppress(ValueError):  # It has ended.
                    end(secure)
        return serve

    def clients(self, day, seed):
        """Two clients of each kind, plaintext and TLS, each with its own kind of endpoint."""
        kinds = [(Http1Kind, "http1", "http2"), (Http1Kind, "http2-tls", "http1-tls"), (Http2Kind, "http2", "http1"),
                 (Http2Kind, "http1-tls", "http2-tls"), (GrpcKind, "http2", "http2-tls"),
                 (GrpcKind, "http2-tls", "http2"), (WebsocketKind, "http1", "http1-tls"), (TcpClient, "tcp", "tcp-tls"),
                 (TcpClient, "tcp-tls", "tcp")]
        for kind, *upstreams in kinds:
            for way, upstream in zip(("plain", "tls"), upstreams):
                context = self.context(alpn=(kind.protocol,) if kind.protocol else ()) if way == "tls" else None
                name = f"{kind.__name__} {way}-{upstream}"
                yield kind(day, name, f"{way}-{upstream}", context, random.Random(f"{seed} {name}"))

    def test_quiet_day(self):
        seed = int(os.environ.get("SLUICE_E2E_SEED") or random.randrange(1 << 32))
        harness.print_note(f"seed {seed}")
        proxy = self.start_proxy()
        day = Day(proxy, seed)
        day.plan(time.monotonic())
        threads = [threading.Thread(target=day.run_client, args=(client,), daemon=True) for client in self.clients(day, seed)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 60 * SLOWNESS)
        stuck = [thread for thread in threads if thread.is_alive()]
        counts = day.counts
        harness.print_note(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
        output = proxy.stderr()
        self.assertEqual((day.errors, stuck), ([], []), f"seed {seed}; stderr:\n{output}")
        stats = proxy.wait_for(lambda stats: stats.total("sessions_active") == 0, 20, "sessions to end")
        self.check_counters(stats, counts)
        self.assertEqual(re.findall(r"^.*(?:warning|error).*$", output, re.M), [])
        self.stop(proxy)

    def check_counters(self, stats, counts):
        """The counters of HTTP and of sessions, and those that must be 0."""
        is_http = lambda name: name.startswith(("Http", "Grpc"))
        requests = sum(count for name, count in counts.items() if is_http(name)) + counts["tunnels"]
        self.assertGreater(requests, 0)
        found = {
            "accepted": stats.total("accepted_total"),
            "TLS": stats.total("tls_handshakes_total"),
            "reasons of sessions": set(stats.reasons()),
            "ended by idle_timeout": stats.ended("idle_timeout"),
            "requests": stats.total("http_requests_total"),
            "requests that ended well": stats.total("http_requests_ended_total", reason="ok"),
            "2xx": stats.total("http_responses_total", **{"class": "2xx"}),
            "tunnels": stats.total("http_tunnels_total"),
        }
        self.assertEqual(found, {
            "accepted": counts["connections"],
            "TLS": counts["tls"],
            "reasons of sessions": {"finished", "idle_timeout"} if counts["idle_timeout"] else {"finished"},
            "ended by idle_timeout": counts["idle_timeout"],
            "requests": requests,
            "requests that ended well": requests,
            "2xx": requests - counts["tunnels"],
            "tunnels": counts["tunnels"],
        })
        for name in ("endpoint_connect_errors_total", "endpoint_ejections_total", "upstream_ejections_refused_total",
                     "endpoint_ejected", "http_retries_total", "upstream_retries_total",
                     "upstream_retries_over_budget_total", "upstream_connections_stale_total",
                     "http_header_timeouts_total", "refused_total", "accept_pauses_total", "upstream_panics_total",
                     "tls_truncated_total", "endpoint_tls_truncated_total", "http1_lost_total",
                     "http1_malformed_total", "http2_malformed_total", "http2_protocol_failures_total",
                     "http_requests_active", "log_suppressed_total", "log_dropped_total"):
            self.assertEqual(stats.total(name), 0, name)


if __name__ == "__main__":
    harness.main()
