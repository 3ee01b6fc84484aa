"""Clients that make the proxy hold as much memory as they can, beside well-behaved clients. Memory stays within its
budget, clients above their share are paused or refused, the others are served, and afterwards memory is returned.

Defects: 0.9 MB of requests took a worker's whole budget, and until body_timeout not even the ends of connections were
noticed; a copy of the `respond` body or error page was queued for each pipelined request, without a bound.
"""

import time

import harness
from harness import KIB, LONG, MIB, SLOWNESS
from attack_support import AttackTest, crowd, per_stream
import http_wire as wire
from http_wire import END_HEADERS, HEADERS, frame, request_fields

BODY = "b" * 64 * KIB
PAGE = "p" * 12 * KIB
BUDGET_MIB = 256
# The number of attacking connections.
CROWDS = (10, 100, 1000) if LONG else (150,)
ATTACK_SECONDS = 12 if LONG else 5
INDEXED = 0x80
FIRST_DYNAMIC = 62
# A quarter of a worker's default budget is reserved: attackers get up to that limit and a little more.
GROWTH_MIB = BUDGET_MIB * 1.1


def amplified_heads(streams, path, value_bytes=4 * KIB - 64, uses=7):
    """Heads of POST requests for the path without their bodies, each of which refers `uses` times to one entry of the
    HPACK table."""
    entry = wire.hpack([("x", "v" * value_bytes)], index=True)

    def head(stream):
        block = wire.hpack(request_fields("POST", path))
        block += entry + bytes([INDEXED | FIRST_DYNAMIC]) * (uses - 1) if stream == 1 else bytes(
            [INDEXED | FIRST_DYNAMIC]) * uses
        return frame(HEADERS, END_HEADERS, stream, block)

    return per_stream(head, streams)


def pipelined(path, count):
    return f"GET {path} HTTP/1.1\r\nhost: a.test\r\n\r\n".encode() * count


GREETING = wire.PREFACE + wire.settings_frame()


class MemoryAttacks(AttackTest):
    CONFIG = {"memory": {"worker_budget": f"{BUDGET_MIB}MiB"}}
    ROUTES = [{"match": {"path": {"exact": "/body"}}, "respond": {"status": 200, "body": BODY}},
              {"match": {"path": {"exact": "/page"}}, "forward": "down"}]
    UPSTREAMS = [{"name": "down", "endpoints": ["127.0.0.1:1"]}]
    HTTP = {"errors": [{"status": "5xx", "body": PAGE}]}

    def attack(self, opening, connections, memory_mib, seconds=ATTACK_SECONDS, begun=0):
        """`connections` connections send the opening at once, stay open, and close. Then the memory is returned.
        `begun` is the number of requests on one connection that began before and continue."""
        base = self.mapped()
        ended, = self.under({"crowd": lambda until: crowd(self.main, connections, opening, until)}, memory_mib,
                            seconds=seconds)["crowd"]
        began = time.monotonic()
        self.proxy.wait_for(lambda s: s.total("sessions_active") == min(begun, 1) and
                            s.total("http_requests_active") == begun, 5, "the ends of the attacker's connections to be seen")
        seen = time.monotonic()
        self.proxy.wait_for(lambda s: s.total("pool_mapped_bytes") <= base + 32 * MIB, 20, "memory to return")
        stats = self.proxy.stats()
        harness.print_note(f"{connections} connections: {stats.total('http_memory_pauses_total')} pauses, "
                           f"{stats.total('http1_over_memory_total') + stats.total('http2_over_memory_total')} requests "
                           f"refused, {ended} connections ended, {stats.ended('memory')} for memory; ends seen after "
                           f"{seen - began:.2f} s, memory back after {time.monotonic() - began:.2f} s")

    def mapped(self):
        return self.proxy.stats().total("pool_mapped_bytes")

    def test_amplified_heads(self):
        for crowd in CROWDS:
            self.attack(GREETING + amplified_heads(100, "/hold"), crowd, GROWTH_MIB)
        stats = self.proxy.stats()
        self.assertGreater(stats.total("http2_over_memory_total") + stats.total("http_memory_pauses_total"), 0)

    def test_requests_of_other_sources_are_not_shed(self):
        """Requests that another source began before memory became short are not refused, and end well."""
        uploads = 6
        with wire.Http2Client(self.main, source="127.0.0.2") as client:
            client.send(amplified_heads(uploads, "/upload"))
            self.attack(GREETING + amplified_heads(100, "/hold"), CROWDS[-1], GROWTH_MIB, seconds=8, begun=uploads)
            self.assertGreater(self.proxy.stats().total("http_memory_pauses_total"), 0)
            client.send(per_stream(lambda stream: wire.data_frame(stream, b"abc", True), uploads))
            for stream in range(1, 2 * uploads, 2):
                response = client.response(stream)
                self.assertEqual((response.status, response.body), (200, b"echo /upload 3\n"), client.how)

    def test_unread_configured_bodies(self):
        for crowd in CROWDS:
            self.attack(pipelined("/body", 1000), crowd, 16)

    def test_unread_error_pages(self):
        for crowd in CROWDS:
            self.attack(pipelined("/page", 1000), crowd, 16)


if __name__ == "__main__":
    harness.main()
