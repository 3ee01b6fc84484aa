"""Attacks on HTTP beside well-behaved clients. These get correct responses all the while; the proxy's memory and
processor time stay within bounds, each class of attack has its counter, and the attacker's connections end as they
should.

Attacks of a kind run side by side for a second; in the long form each runs alone, for three.
"""

import struct
import time

import harness
from harness import KIB, SLOWNESS
from attack_support import (SECONDS, SHORT_SECONDS, AttackTest, ended_requests, flood, many, per_stream, repeated)
import http_wire as wire
from http_wire import frame, headers_frame, request_fields, request_frame


class Attacks(AttackTest):

    # ---- Streams

    def test_rapid_reset(self):
        """CVE-2023-44487. 100 resets are tolerated; none of the reset requests keeps the upstream busy."""
        blob = per_stream(lambda stream: request_frame(stream, path="/hold") + wire.rst_frame(stream), 500)
        endings = self.under({"rapid reset": lambda until: flood(self.main, b"", blob, until)}, memory_mib=16,
                             attack_ms=10)["rapid reset"]
        self.check_ended_with_goaway("rapid reset", endings, "reset")
        self.check_counted("resets")
        self.assertLess(self.proxy.stats().total("upstream_requests_total", upstream="hold"), 110 * len(endings) + 100)
        self.check_upstream_has_no_requests()

    def test_made_you_reset(self):
        """CVE-2025-8671: resets that the proxy is made to send, in every possible way."""
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
            self.check_ended_with_goaway(name, endings, "reset")
        self.check_counted("resets", len(ways))
        self.check_upstream_has_no_requests()

    def test_too_many_streams(self):
        """More streams than are allowed at once, none of which ever ends."""
        blob = per_stream(lambda stream: request_frame(stream, path="/hold"), 300)
        endings = self.under({"streams": lambda until: flood(self.main, blob, b"", until)}, memory_mib=16,
                             attack_ms=10)["streams"]
        self.check_ended_with_goaway("streams", endings, "reset")
        self.check_counted("refused streams", 100)
        self.check_upstream_has_no_requests()

    def test_resets_after_responses_are_allowed(self):
        """100 streams at once, each reset after its response, for a long time, are not an attack."""
        with wire.Http2Client(self.main) as client:
            for _ in range(10):
                streams = [client.send_request("/size/10") for _ in range(100)]
                for stream in streams:
                    response = client.response(stream)
                    self.assertTrue(response and response.complete, client.reader.goaway)
                client.send(b"".join(wire.rst_frame(stream) for stream in streams))
            self.assertTrue(client.get("/size/10").complete)

    # ---- Heads

    def test_header_blocks(self):
        """Header blocks without end (VU#421644), blocks that are small on the wire only (CVE-2016-6581), and blocks of
        very many empty fields (CVE-2026-49975), which would be held while the windows are closed."""
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
            self.check_ended_with_goaway(name, endings, "CONTINUATION" if "continuations" in name else "header block")
        self.check_counted("continuations", 3)
        self.check_counted("header block", 3)

    def test_heads_of_maximum_size(self):
        """100 streams with the largest heads that are accepted, 32 KiB each, wait for an upstream that does not
        respond."""
        fields = [(f"x-{number:03}", "y" * 280) for number in range(95)]
        blob = per_stream(lambda stream: wide_headers(stream, [*request_fields(path="/hold"), *fields]), 100)
        self.under({f"{number}": lambda until: flood(self.main, blob, b"", until) for number in range(2)},
                   memory_mib=24, attack_ms=200, together=True)
        self.check_upstream_has_no_requests()

    def test_large_heads(self):
        """HTTP/1.1: start lines, heads, trailers and chunk headers without end are refused when they exceed the
        bound."""
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
            # Not all of them: a reset may overtake the response.
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
            "responses to no PING": (b"", frame(wire.PING, wire.ACK, payload=b"attacker"), "over glitches"),
            "responses to no SETTINGS": (b"", frame(wire.SETTINGS, wire.ACK), "over glitches"),
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
            self.check_ended_with_goaway(name, endings, words[floods[name][2]])
        for _, _, what in floods.values():
            self.check_counted(what)

    def test_ping_responses_that_are_not_read(self):
        """PINGs from a client that reads nothing: the queue of responses is bounded."""
        blob = repeated(frame(wire.PING, payload=b"attacker"))
        self.under({"PING": lambda until: flood(self.main, b"", blob, until, reads=False)}, memory_mib=8)
        self.check_counted("pings")

    def test_frames_on_closed_streams(self):
        """Frames for a reset stream may still be in flight, but not forever. (Defect: they were accepted forever.)"""
        opening = headers_frame(1, [*request_fields("POST", "/hold"), ("content-length", "1")])
        opening += wire.data_frame(1, b"xx")
        pieces = {"DATA": wire.data_frame(1, b"x"), "RST_STREAM": wire.rst_frame(1),
                  "trailers": headers_frame(1, [("x", "y")], end=True), "WINDOW_UPDATE": wire.window_frame(1, 1)}
        results = self.under({name: lambda until, blob=repeated(piece): flood(self.main, opening, blob, until)
                              for name, piece in pieces.items()}, memory_mib=8)
        for name, endings in results.items():
            self.check_ended_with_goaway(name, endings, "WINDOW_UPDATE" if name == "WINDOW_UPDATE" else "closed streams")

    # ---- Slow clients

    def test_slow_requests(self):
        """Slowloris and its variants: their waiting costs next to nothing, and each is ended in time."""
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

    def test_idle_connections(self):
        """Clients that send nothing, or nothing more. An idle connection takes next to no memory, and it ends."""
        harness.raise_descriptor_limit()
        openings = {"silent": b"", "HTTP/1.1": b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n",
                    "HTTP/2": wire.PREFACE + wire.settings_frame()}
        results = self.under({name: lambda until, opening=opening: many(self.short, 330, opening, until)
                              for name, opening in openings.items()}, memory_mib=6, share=0.35, seconds=SECONDS + 0.5)
        endings = {ending for results_of_one in results.values() for ending in sum(results_of_one, [])}
        self.assertEqual(endings - {"end", "reset"}, set())

    def test_slow_readers(self):
        """Large responses that the client does not read, or that the window of the streams or of the connection holds
        back."""
        requests = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        results = self.under({
            "HTTP/1.1": lambda until: many(self.short, 8, b"GET /size/16000000 HTTP/1.1\r\nhost: a\r\n\r\n", until,
                                           receive_buffer=4096),
            "stream windows": lambda until: flood(self.short, requests, b"", until, settings=[(wire.INITIAL_WINDOW, 0)]),
            "connection window": lambda until: flood(self.short, requests, b"", until,
                                                     settings=[(wire.INITIAL_WINDOW, 1 << 30)]),
        }, memory_mib=112, seconds=SECONDS + 1 + 2 * SHORT_SECONDS * SLOWNESS)
        endings = sum(results["HTTP/1.1"], [])
        self.assertEqual(set(endings) - {"end", "reset"}, set())
        # HTTP/1.1: the connection is stuck. HTTP/2: the streams are.
        self.proxy.wait_for(lambda s: s.ended("stuck") >= len(endings) and
                            ended_requests(s, "send_timeout", "short") >= 200)

    def test_slow_connections_leave_memory_for_others(self):
        """Ten connections with a hundred responses each that no window lets out. Their share leaves enough of the
        worker's memory to serve the others, long before send_timeout (here 30 s) ends them, and their end is noticed
        once they close. (Defect: each stream had buffer_high for itself, and no client was served until
        send_timeout.)"""
        requests = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        self.under({f"{number}": lambda until: flood(self.main, requests, b"", until, settings=[(wire.INITIAL_WINDOW, 0)])
                    for number in range(10)}, memory_mib=256 + 16, together=True)
        self.proxy.wait_for(lambda s: s.total("http_requests_active", listener="main") == 0, 5)

    def test_pipelining(self):
        """Requests without end from a client that reads no responses."""
        blob = repeated(b"GET /size/2000 HTTP/1.1\r\nhost: a\r\n\r\n")
        self.under({f"{number}": lambda until: flood(self.main, b"", blob, until, http2=False, reads=False)
                    for number in range(4)}, memory_mib=10, together=True)
        self.check_counted("pipelines full")

    def test_tiny_pieces(self):
        """Bodies one byte at a time, in chunks, and in chunks with long extensions (CVE-2023-39326); responses through
        windows that open one byte at a time (CVE-2019-9511)."""
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
        """DATA frames of one byte are tolerated. Data that waits for the upstream takes
        not much more memory than the 64 KiB of window of each of the four streams. (Defect: each byte took a window,
        and a chunk of HTTP/1.1 to the upstream.)"""
        opening = request_frame(1, "POST", "/size/1", end=False)
        blob = wire.data_frame(1, b"x") * 65000
        self.under({f"{number}": lambda until: flood(self.main, opening, blob, until) for number in range(4)},
                   memory_mib=16, together=True)


class AttacksInLittleMemory(AttackTest):
    STUCK_MS = int(500 * SLOWNESS)
    CONFIG = {"memory": {"worker_budget": "8MiB"}}
    HTTP = {"stuck_timeout": f"{STUCK_MS}ms"}
    LEAST_SERVED = 100
    SLOWEST = 6 * SLOWNESS  # They wait for the stuck connections, and for each other.

    def test_stuck_connections_are_ended(self):
        """Ten connections with a hundred responses each that no window lets out, in a worker without the memory for
        them. They are ended, and clients that read are served. (Defects: no client was served until send_timeout;
        RST_STREAM for one stream counted as progress of all streams of its connection; returned memory went to a few of
        the waiting connections, and to future stuck ones before clients that read.)"""
        requests = per_stream(lambda stream: request_frame(stream, path="/size/1000000"), 100)
        self.under({f"{number}": lambda until: flood(self.main, requests, b"", until, settings=[(wire.INITIAL_WINDOW, 0)])
                    for number in range(10)}, memory_mib=32, seconds=SECONDS + 14 * self.STUCK_MS / 1000, together=True)
        self.assertGreater(ended_requests(self.proxy.stats(), "stuck", "main"), 0)


def wide_headers(stream, fields):
    """HEADERS, with CONTINUATION frames as needed."""
    block = wire.hpack(fields)
    pieces = [block[at:at + 16384] for at in range(0, len(block), 16384)]
    return b"".join(frame(wire.CONTINUATION if at else wire.HEADERS, (0 if at else wire.END_STREAM) |
                          (wire.END_HEADERS if piece is pieces[-1] else 0), stream, piece)
                    for at, piece in enumerate(pieces))


if __name__ == "__main__":
    harness.main()
