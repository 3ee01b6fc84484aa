"""Many connections that carry data once and then wait. CI: 2,000; long form: 9,000.

Defect: what sessions need only until bytes flow was allocated between them on the heap, where it left holes: 1,036
bytes for each of 2,000 simultaneous pairs, instead of 480.

The clients and the servers are processes of their own: each has as many descriptors as there are connections.
"""

import harness
from harness import KIB, LONG, MIB, SANITIZER, print_note, wait_until
from workers import ClientProcess, OriginProcess

COUNT = 9000 if LONG else 500 if SANITIZER else 2000
MAX_IDLE_BYTES = 640  # Per proxied pair, after the memory for connecting was returned.


class Scale(harness.SluiceTest):

    def idle_pairs(self, **config):
        hard = harness.raise_descriptor_limit()
        harness.require(hard >= 2 * COUNT + 200, f"{hard} descriptors per process are too few for {COUNT} connections")
        origin = self.keep(OriginProcess("echo"))
        proxy = self.proxy(origin.address, listener={"max_connections_per_source": 0}, **config)
        clients = self.keep(ClientProcess(proxy.address()))
        # Warm-up: allocates everything that is allocated once, including all posted buffers.
        clients.do("open", 50)
        for _ in range(5):
            clients.do("request")
        clients.do("close")
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        base = proxy.pss()

        clients.do("open", COUNT)
        clients.do("request")
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == COUNT and s.total("pool_pinned_bytes") == 0)
        idle = base if SANITIZER else proxy.settled_pss(base + MAX_IDLE_BYTES * COUNT)
        per_pair = (idle - base) / COUNT
        print_note(f"{COUNT} idle pairs: {per_pair:.0f} bytes per pair (PSS {base / KIB:.0f} -> {idle / KIB:.0f} KiB); "
                   f"pinned buffers {stats.total('pool_pinned_bytes')} bytes")
        if not SANITIZER:
            self.assertLessEqual(per_pair, MAX_IDLE_BYTES)

        clients.do("request")
        self.assertEqual(proxy.stats().ended("finished"), 50)
        clients.do("close")
        proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30)
        if not SANITIZER:
            # Unused buffers are returned after two ageing periods of ten seconds. The memory of sessions was returned
            # to malloc, which keeps it: 6 MiB after 9,000 connections.
            wait_until(lambda: proxy.pss() <= base * 1.1 + 2 * MIB, 40, "memory to return")
        print_note(f"after all have left: {proxy.pss() / KIB:.0f} KiB")
        self.assertEqual(self.stop(proxy).ended("finished"), 50 + COUNT)

    def test_one_worker(self):
        self.idle_pairs()

    def test_two_workers_plain_rings(self):
        self.idle_pairs(workers=2, memory={"rings": "plain"})


if __name__ == "__main__":
    harness.main()
