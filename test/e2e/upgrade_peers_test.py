"""Programs of others on connections that move to another process: grpc-go over ALTS, and openssl. They must notice
nothing."""

import subprocess

import harness
from harness import LONG, SLOWNESS
from http_grpc_test import PLAIN, TLS, GrpcTest
from http_peers_support import words
from alts_support import (ENDPOINT_HANDSHAKES, HANDSHAKES, SERVER, AltsTest, GrpcClient, GrpcServer, Handshaker,
                          HeldClient)
from origins import Origin, echo
from tls_support import TlsTest


class Grpc(AltsTest):

    def test_alts(self):
        """TCP with ALTS on both sides: calls go on, and a stream that is quiet during the upgrades."""
        service = self.keep(Handshaker())
        server = self.keep(GrpcServer(service))
        proxy = self.listening(server.text, service, upstream=self.by_service(service, target_identities=[SERVER]))
        client = self.keep(HeldClient(proxy.address(), service))
        self.assertEqual(client.call()["Server"], SERVER)
        quiet = self.keep(GrpcClient(proxy.address(), service, case="idle", quiet="2s"))
        proxy.wait_for(lambda s: s.total(ENDPOINT_HANDSHAKES) == 2)
        for _ in range(3):
            self.assertIn("2 connections moved, 0 still end or move here", proxy.upgrade())
            self.assertEqual(client.call()["Server"], SERVER)
        self.assertEqual([seen["Server"] for seen in quiet.result()], [SERVER])
        stats = proxy.stats()
        self.assertEqual((stats.total("resumed_total"), stats.total(HANDSHAKES), stats.total(ENDPOINT_HANDSHAKES)),
                         (2, 0, 0))


class GrpcStreams(GrpcTest):

    def test_held_streams(self):
        """Streams of several connections, all busy in both directions: none is cut, and all move at each upgrade."""
        upgrades = 20 if LONG else 5
        for client, server in ((PLAIN, PLAIN), (TLS, TLS)):
            with self.subTest(f"{words(client)} -> {words(server)}"):
                proxy = self.through(self.grpc_server(server), top={"workers": 2})
                caller = self.begin(proxy, client, "held", count=200, connections=8,
                                    length=f"{(2 + upgrades // 2) * SLOWNESS}s")
                self.assertEqual(caller.stdout.readline(), "open\n")
                for _ in range(upgrades):
                    self.assertIn("8 connections moved, 0 still end or move here", proxy.upgrade())
                messages, case = self.ended(caller)
                self.assertEqual(case, "held")
                self.assertGreater(int(messages), 1000)

    def test_calls(self):
        """Streams and short calls on one connection, without a pause: none fails."""
        for client, server in ((PLAIN, PLAIN), (TLS, TLS)):
            with self.subTest(f"{words(client)} -> {words(server)}"):
                proxy = self.through(self.grpc_server(server))
                caller = self.begin(proxy, client, "steady", length=f"{3 * SLOWNESS}s")
                for _ in range(3):
                    proxy.upgrade(waits=False)
                self.assertEqual(self.ended(caller), ["steady"])


class Openssl(TlsTest):

    def test_client(self):
        proxy = self.start(harness.configuration([self.keep(Origin(echo)).address],
                                                 listener={"tls": {"certificates": [self.server]}}))
        for version in ("-tls1_2", "-tls1_3"):
            with self.subTest(version):
                client = harness.spawn(
                    [harness.need("openssl"), "s_client", "-connect", "%s:%d" % proxy.address(), "-quiet", version,
                     "-CAfile", self.ca, "-verify_return_error", "-servername", "localhost"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                self.addCleanup(harness.end, client)
                for i in range(4):
                    line = b"line %d\n" % i
                    client.stdin.write(line)
                    client.stdin.flush()
                    self.assertEqual(client.stdout.readline(), line)
                    self.assertIn("1 connections moved, 0 still end or move here", proxy.upgrade())
                harness.end(client)
                proxy.wait_for(lambda s: s.total("sessions_active") == 0)


if __name__ == "__main__":
    harness.main()
