"""Read modes: the memory of a waiting connection by mode, and that each mode forwards bytes, ends and resets."""

import hashlib
import os
import select
import time

import harness
from harness import KIB, MIB, SANITIZER
from origins import Origin, connect, echo, receive_exactly
from tls_support import TlsTest, exchange


class ReadModes(TlsTest):

    def test_forwarding(self):
        for mode in ("provided", "ready", "pinned"):
            for tls in (None, {"certificates": [self.server]}):
                origin = self.keep(Origin(echo))
                listener = {"tls": tls} if tls else None
                proxy = self.proxy(origin.address, listener=listener, arguments=["--read-mode", mode])
                sock = self.secure(proxy.address()) if tls else self.keep(connect(proxy.address()))
                data = os.urandom((1 if SANITIZER else 8) * MIB)
                self.assertEqual(hashlib.sha256(exchange(sock, data)).digest(), hashlib.sha256(data).digest())
                sock.close()
                proxy.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_memory_of_waiting_connections(self):
        """Both sockets of a connection wait; only `pinned` holds a buffer for each."""
        count = 50
        for mode, pinned in (("provided", 0), ("ready", 0), ("pinned", 2 * count * 32 * KIB)):
            origin = self.keep(Origin(echo))
            proxy = self.proxy(origin.address, arguments=["--read-mode=" + mode], cut_allowed=True)
            clients = [self.keep(connect(proxy.address())) for _ in range(count)]
            for client in clients:
                self.assertEqual(exchange(client, b"hello"), b"hello")
            proxy.wait_for(lambda s, pinned=pinned: s.total("pool_pinned_bytes") == pinned, what=f"what {mode} pins")

    def test_budget_is_kept(self):
        """Each waiting connection holds 32 KiB. Connections that find no memory wait for it, and all are served in the
        end."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, arguments=["--read-mode=pinned"], cut_allowed=True, workers=1,
                           memory={"worker_budget": "4MiB"})
        waiting = [self.keep(connect(proxy.address())) for _ in range(100)]
        for client in waiting:
            client.sendall(b"hello")
        time.sleep(0.3)
        self.assertGreater(proxy.stats().total("receives_parked"), 0)
        deadline = time.monotonic() + 30 * harness.SLOWNESS
        while waiting:
            self.assertLess(time.monotonic(), deadline, f"{len(waiting)} were not served")
            served = select.select(waiting, [], [], 1)[0]
            for client in served:
                self.assertEqual(receive_exactly(client, 5), b"hello")
                client.close()
            waiting = [client for client in waiting if client not in served]


if __name__ == "__main__":
    harness.main()
