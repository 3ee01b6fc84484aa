"""Limits on connections: each one refuses connections beyond it, counts them, and accepts new ones when others end."""

import resource
import time

import harness
from harness import wait_until
from origins import Origin, ping, connect, echo, last_outcome, outcome, outcome_of_connecting, receive_exactly, send_name

GONE = ("end", "reset")


class Limits(harness.SluiceTest):

    def echo_proxy(self, **config):
        self.origin = self.keep(Origin(echo))
        return self.proxy(self.origin.address, **config)

    def outcome_of_refused(self, proxy, source=None):
        """How a refused connection ends."""
        return outcome_of_connecting(proxy.address(), source)

    def check_bound(self, proxy, limit, bound, count, source=None):
        """The first `bound` connections of `count` work, the others are refused; one that closes makes room."""
        let_in = []
        for _ in range(bound):
            client = self.keep(connect(proxy.address(), source))
            self.assertTrue(ping(client))
            let_in.append(client)
        active = proxy.stats().total("sessions_active")
        for _ in range(bound, count):
            self.assertIn(self.outcome_of_refused(proxy, source), GONE)
        proxy.wait_for(lambda s: s.refused(limit) == count - bound and s.total("sessions_active") == active)
        let_in[0].close()
        proxy.wait_for(lambda s: s.total("sessions_active") == active - 1)
        client = self.keep(connect(proxy.address(), source))
        self.assertTrue(ping(client))
        for sock in [client, *let_in[1:]]:
            self.assertTrue(ping(sock))
            sock.close()

    def test_whole_process(self):
        for workers in (1, 2):
            with self.subTest(workers=workers):
                proxy = self.echo_proxy(limits={"max_connections": 5}, workers=workers)
                self.check_bound(proxy, "global", 5, 12)

    def test_listener(self):
        self.check_bound(self.echo_proxy(listener={"max_connections": 4}, workers=2), "listener", 4, 10)

    def test_source(self):
        proxy = self.echo_proxy(listener={"max_connections_per_source": 3}, workers=2)
        with connect(proxy.address(), "127.0.0.3") as other:
            self.check_bound(proxy, "source", 3, 8, "127.0.0.2")
            self.assertTrue(ping(other))

    def test_source_of_the_proxy_header(self):
        """The address in the header of a trusted proxy counts, not the proxy's own."""
        proxy = self.echo_proxy(listener={"max_connections_per_source": 2, "proxy_protocol": {"accept": "required"}})

        def client_of(source):
            client = self.keep(connect(proxy.address()))
            client.sendall(f"PROXY TCP4 {source} 192.0.2.1 1000 443\r\nping".encode())
            return client

        first, second = client_of("198.51.100.1"), client_of("198.51.100.1")
        for client in (first, second, client_of("198.51.100.2")):
            self.assertEqual(receive_exactly(client, 4), b"ping")
        self.assertIn(last_outcome(client_of("198.51.100.1")), GONE)
        proxy.wait_for(lambda s: s.refused("source") == 1)
        first.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 2)
        self.assertEqual(receive_exactly(client_of("198.51.100.1"), 4), b"ping")

    def test_ipv6_source_is_a_64(self):
        proxy = self.echo_proxy(listener={"max_connections_per_source": 1, "proxy_protocol": {"accept": "required"}})

        def outcome_from(source):
            client = self.keep(connect(proxy.address()))
            client.sendall(f"PROXY TCP6 {source} 2001:db8::1 1000 443\r\nping".encode())
            return outcome(client)

        self.assertEqual(outcome_from("2001:db8:0:1::1"), b"ping")
        self.assertIn(outcome_from("2001:db8:0:1:ffff::2"), GONE)
        self.assertEqual(outcome_from("2001:db8:0:2::1"), b"ping")

    def test_endpoint(self):
        """A full endpoint is passed over; when all are full the connection is closed."""
        origins = [self.keep(Origin(send_name(name))) for name in (b"a", b"b")]
        proxy = self.proxy(*(origin.address for origin in origins), upstream={"max_connections_per_endpoint": 2})
        clients = [self.keep(connect(proxy.address())) for _ in range(4)]
        self.assertEqual(sorted(receive_exactly(client, 1) for client in clients), [b"a", b"a", b"b", b"b"])
        self.assertIn(self.outcome_of_refused(proxy), GONE)
        proxy.wait_for(lambda s: s.ended("no_endpoint") == 1)
        clients[0].close()
        proxy.wait_for(lambda s: s.total("endpoint_connections_active") == 3)
        with connect(proxy.address()) as client:
            self.assertIn(receive_exactly(client, 1), (b"a", b"b"))


class Descriptors(harness.SluiceTest):
    """The configuration may allow more connections than the process may have descriptors."""

    def start_short(self, descriptors):
        origin = self.keep(Origin(echo))
        config = harness.configuration([origin.address], limits={"max_connections": 1000})
        return self.start(config, descriptors=descriptors)

    def test_accepting_pauses_and_resumes(self):
        """Defect: with 34 descriptors left, 30 clients that came at once were all accepted, and 26 of them were then
        closed because there was no descriptor for their upstream: accepting did not pause, and no client waited."""
        for descriptors in (40, 41):
            with self.subTest(descriptors=descriptors):
                proxy = self.start_short(descriptors)
                room = (descriptors - proxy.open_descriptors()) // 2
                clients = [self.keep(connect(proxy.address())) for _ in range(30)]
                for client in clients:
                    client.sendall(b"ping")
                    client.settimeout(0.5 * harness.SLOWNESS)
                served = [client for client in clients if outcome(client) == b"ping"]
                self.assertGreaterEqual(len(served), room - 2, proxy.stats().reasons())
                stats = proxy.stats()
                self.assertGreater(stats.total("accept_pauses_total"), 0)
                proxy.wait_for_output(" connections are open, as many as file descriptors allow")
                self.assertEqual(stats.ended("no_endpoint"), 0)
                # Open connections are still served; waiting clients are served when others close.
                for client in served:
                    client.settimeout(5)
                    self.assertTrue(ping(client))
                    client.close()
                waiting = [client for client in clients if client not in served]
                for client in waiting:
                    client.settimeout(5 * harness.SLOWNESS)
                    self.assertEqual(outcome(client), b"ping")
                    client.close()
                proxy.wait_for(lambda s: s.total("sessions_active") == 0)
                self.stop(proxy)

    def test_existing_connections_continue(self):
        proxy = self.start_short(40)
        early = self.keep(connect(proxy.address()))
        self.assertTrue(ping(early))
        crowd = [self.keep(connect(proxy.address())) for _ in range(60)]
        time.sleep(0.5)
        self.assertTrue(ping(early))
        for client in crowd:
            client.close()
        wait_until(lambda: proxy.open_descriptors() < 16, 10, "descriptors to come free")
        with connect(proxy.address()) as late:
            self.assertTrue(ping(late))

    def test_stop_without_a_free_descriptor(self):
        """Defect: SIGTERM, like the first dump of counters, aborted the process when no descriptor was left: the
        control thread opened its ring only then ("worker.cc: check failed: ring.ok()")."""
        origin = self.keep(Origin(echo))
        config = harness.configuration([origin.address], limits={"max_connections": 1000})
        proxy = self.start(config, cut_allowed=True)
        resource.prlimit(proxy.pid, resource.RLIMIT_NOFILE, (proxy.open_descriptors(),) * 2)
        self.stop(proxy, cut_allowed=True)


if __name__ == "__main__":
    harness.main()
