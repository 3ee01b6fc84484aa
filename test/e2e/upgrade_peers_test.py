"""Programs of others on connections that move to another process: grpc-go over ALTS, and openssl. They must notice
nothing."""

import subprocess

import harness
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
