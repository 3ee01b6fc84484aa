"""ALTS with names instead of addresses: the name of the handshaker service, and names of endpoints, which are passed to
the service."""

import harness
from alts_support import ENDPOINT_HANDSHAKES, HANDSHAKES, SERVER, AltsTest, GrpcClient, GrpcServer, Handshaker
from harness import SLOWNESS
from name_server import NameServer
from origins import outcome_of_connecting


class ServiceName(AltsTest):

    def test_name_is_resolved(self):
        """`localhost.` is resolved, while `localhost` stands for 127.0.0.1."""
        service = self.keep(Handshaker())
        proxy = self.listening(self.keep(GrpcServer()).text, "localhost.:%d" % service.address[1])
        self.keep(GrpcClient(proxy.address(), self.keep(Handshaker()))).result()
        self.assertEqual(proxy.stats().total(HANDSHAKES), 1)

    def test_unknown_name(self):
        name = "alts.invalid.:1"
        proxy = self.speaking(self.keep(GrpcServer()).text, name, target_identities=[SERVER],
                              upstream={"connect_timeout": "20s"})
        self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
        harness.wait_until(lambda: f"the handshaker service {name} cannot be found: " in proxy.stderr(), 3 * SLOWNESS,
                           "a line about the name")


class EndpointNames(AltsTest):

    def test_name_is_resolved(self):
        """The service gets the name of the endpoint, as from gRPC, or no name where there is none."""
        names = self.keep(NameServer())
        names.set("app.test", "127.0.0.1")
        service = self.keep(Handshaker())
        server = self.keep(GrpcServer(self.keep(Handshaker())))
        for endpoint, name in (("app.test:%d" % server.address[1], "app.test:%d" % server.address[1]),
                               (server.text, "")):
            with self.subTest(endpoint):
                proxy = self.speaking(endpoint, service, target_identities=[SERVER],
                                      upstream={"resolve": {"servers": [names.address]}})
                self.keep(GrpcClient(proxy.address())).result()
                self.assertEqual(proxy.stats().total(ENDPOINT_HANDSHAKES), 1)
                self.assertEqual(service.report()["TargetName"], name)


if __name__ == "__main__":
    harness.main()
