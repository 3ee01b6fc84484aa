"""ALTS with grpc-go on both sides, a fake handshaker service, and peers that misbehave."""

import contextlib
import os
import socket
import time

import harness
from harness import MIB, SLOWNESS
from alts_support import (CLIENT, CLIENT_INIT, ENDPOINT_HANDSHAKES, HANDSHAKES, HELLO_FROM_CLIENT, HELLO_FROM_SERVER,
                          MAX_FRAME, RECORD_END, REFUSAL, SERVER, AltsTest, GrpcClient, GrpcServer, Handshaker,
                          HeldClient, Origin, RawAltsPeer, failed_connects, failed_handshakes, frame_head, raw_server)
from origins import BlackHole, ping, connect, discard, echo, free_port, last_outcome, outcome_of_connecting, receive_all
from workers import OriginProcess

FOREGROUND = "unary,streaming,large"


class PeersAlone(AltsTest):
    """The programs without the proxy, so that a failure of theirs is not blamed on it."""

    def test_peers(self):
        for dialect, keep in (("go", False), ("core", True), ("both", True)):
            with self.subTest(dialect=dialect, keep=keep):
                service = self.keep(Handshaker(dialect=dialect, keep=keep))
                server = self.keep(GrpcServer(service))
                client = self.keep(GrpcClient(server.address, service, case="unary,streaming,large,idle,crowd",
                                              target_identity=SERVER, quiet="200ms"))
                for seen in client.result():
                    self.assertEqual((seen["Server"], seen["Client"]), (SERVER, CLIENT))
                reports = [service.report() for _ in range(2 + 2 * 50)]
                self.assertEqual({report["Result"] for report in reports}, {"done"})
                self.assertEqual({report["Dialect"] for report in reports}, {"core" if dialect == "core" else "go"})

    def test_plaintext(self):
        server = self.keep(GrpcServer())
        for seen in self.keep(GrpcClient(server.address, case=FOREGROUND)).result():
            self.assertEqual((seen["Server"], seen["Client"]), ("", ""))

    def test_wrong_results(self):
        """grpc-go rejects these lies too. (It accepts the other lies, or crashes.)"""
        for lie, message in (("status", "handshake failed"), ("bad_consumed", "out-of-bound"),
                             ("old_versions", "RPC versions"),
                             ("no_result_protocol", "unknown resulted record protocol"),
                             ("die", "handshake failed")):
            with self.subTest(lie):
                server = self.keep(GrpcServer(self.keep(Handshaker())))
                liar = self.keep(Handshaker(lie=lie))
                self.assertIn(message, self.keep(GrpcClient(server.address, liar)).error())

    def test_wrong_identity(self):
        service = self.keep(Handshaker(check=True))
        server = self.keep(GrpcServer(service))
        client = self.keep(GrpcClient(server.address, service, target_identity="other@bar.com"))
        self.assertIn("handshake failed", client.error())
        refusal = f"{SERVER} is none of the target identities"
        harness.wait_until(lambda: refusal in service.results(), what="the service to refuse")


class Pairs(AltsTest):
    """Each test has one connection that is quiet for three seconds while others work."""

    def check(self, address, service, server=None, client=None, **options):
        idle = self.keep(GrpcClient(address, service, case="idle", **options))
        busy = self.keep(GrpcClient(address, service, case=FOREGROUND, **options))
        for seen in busy.result() + idle.result():
            self.assertEqual((seen["Server"], seen["Client"]), (server or "", client or ""))

    def test_alts_client(self):
        service = self.keep(Handshaker())
        proxy = self.listening(self.keep(GrpcServer()).text, service)
        self.check(proxy.address(), self.keep(Handshaker()), server=SERVER)
        self.assertEqual(proxy.stats().total(HANDSHAKES), 2)
        for report in (service.report(), service.report()):
            self.assertEqual((report["Role"], report["Result"]), ("server", "done"))
            self.assertEqual(report["LocalEndpoint"], "%s:%d/TCP" % proxy.address())
            self.assertRegex(report["RemoteEndpoint"], r"^127\.0\.0\.1:\d+/TCP$")
            self.assertEqual(report["MaxFrameSize"], 64 * 1024)

    def test_alts_server(self):
        service = self.keep(Handshaker())
        server = self.keep(GrpcServer(self.keep(Handshaker())))
        proxy = self.speaking(server.text, service, target_identities=[SERVER], max_frame_size="32KiB")
        self.check(proxy.address(), None, client=CLIENT)
        self.assertEqual(proxy.stats().total(ENDPOINT_HANDSHAKES), 2)
        for report in (service.report(), service.report()):
            self.assertEqual((report["Role"], report["Result"]), ("client", "done"))
            self.assertEqual(report["TargetIdentities"], [SERVER])
            self.assertEqual(report["RemoteEndpoint"], "%s:%d/TCP" % server.address)
            self.assertRegex(report["LocalEndpoint"], r"^127\.0\.0\.1:\d+/TCP$")
            self.assertEqual(report["MaxFrameSize"], 32 * 1024)

    def test_both(self):
        for dialect in ("go", "core"):
            with self.subTest(dialect):
                service = self.keep(Handshaker(dialect=dialect))
                server = self.keep(GrpcServer(service))
                proxy = self.listening(server.text, service,
                                       upstream=self.by_service(service, target_identities=[SERVER]))
                self.check(proxy.address(), service, server=SERVER, client=CLIENT,
                           quiet="3s" if dialect == "go" else "0s")
                stats = proxy.stats()
                self.assertEqual((stats.total(HANDSHAKES), stats.total(ENDPOINT_HANDSHAKES)), (2, 2))

    def two_sluices(self, near, far):
        behind = self.proxy(self.keep(GrpcServer()).text, listener={"alts": far})
        proxy = self.proxy("%s:%d" % behind.address(), upstream={"alts": near})
        self.check(proxy.address(), None)
        self.assertEqual(proxy.stats().total(ENDPOINT_HANDSHAKES), 2)
        self.assertEqual(behind.stats().total(HANDSHAKES), 2)

    def test_two_sluices(self):
        service = self.keep(Handshaker())
        self.two_sluices({"handshaker": service.text, "target_identities": [SERVER]}, {"handshaker": service.text})

    def test_two_sluices_with_certificates(self):
        files = self.certificates()
        near, far = files.make("near", "near.example.com"), files.make("far", "far.example.com")
        ca = files.path("ca.pem")
        self.two_sluices(
            {"certificates": [near], "peer_ca": ca, "target_identities": ["far.example.com"]},
            {"certificates": [far], "peer_ca": ca, "target_identities": ["near.example.com", "other.example.com"]})

    def test_frame_sizes(self):
        """Frame sizes: what the peers announce, and what grpc-go writes."""
        for announced, written in ((0, 4096), (16 * 1024, 512 * 1024), (MIB, 512 * 1024)):
            with self.subTest(announced=announced, written=written):
                service = self.keep(Handshaker(max_frame_size=announced))
                server = self.keep(GrpcServer(service, frame=written))
                proxy = self.listening(server.text, service, max_frame_size="1MiB", upstream=self.by_service(
                    service, target_identities=[SERVER], max_frame_size="1MiB"))
                self.keep(GrpcClient(proxy.address(), service, frame=written, case="large")).result()


class Http(AltsTest):
    """Calls are forwarded, not connections: HTTP/2 over ALTS on either side."""

    def grpc_proxy(self, server, service, http=None, listener=None, **upstream):
        http = {**({} if http and "routes" in http else {"forward": "main"}), **(http or {})}
        listener = self.by_service(service) if listener is None else listener
        return self.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "http": http, **listener}],
            "upstreams": [{"name": "main", "protocol": "http2", "endpoints": [server.text], **upstream}]})

    def test_calls(self):
        """Defect: the service negotiates "grpc", and endpoints that did not negotiate "h2" were refused."""
        service = self.keep(Handshaker())
        server, plain = self.keep(GrpcServer(service)), self.keep(GrpcServer())
        to_server = self.by_service(service, target_identities=[SERVER])
        for what, proxy, near, far in (
                ("both", self.grpc_proxy(server, service, **to_server), service, True),
                ("endpoints", self.grpc_proxy(server, service, listener={}, **to_server), None, True),
                ("clients", self.grpc_proxy(plain, service), service, False)):
            with self.subTest(what):
                client = self.keep(GrpcClient(proxy.address(), near, case="unary,streaming,large,idle", quiet="1200ms"))
                for seen in client.result():
                    self.assertEqual((seen["Server"], seen["Client"]), (SERVER if near else "", CLIENT if far else ""))
                stats = proxy.stats()
                self.assertEqual((stats.total(HANDSHAKES), stats.total(ENDPOINT_HANDSHAKES)), (bool(near), far))

    def test_client_identity(self):
        """Routes, fields and the access log have the identity of the client."""
        service = self.keep(Handshaker())
        log = self.temporary_directory() + "/access.log"
        routes = [{"match": {"peer": ["other@baz.com"]}, "respond": {"status": 404}},
                  {"match": {"peer": [CLIENT]}, "forward": "main",
                   "request_headers": [{"name": "x-who", "set": "%{peer}"}]},
                  {"respond": {"status": 403}}]
        proxy = self.grpc_proxy(self.keep(GrpcServer()), service, {
            "routes": routes, "access_log": {"file": log, "format": "%{peer} %{tls_version} %{tls_cipher} %{status}"}})
        seen, = self.keep(GrpcClient(proxy.address(), service)).result()
        self.assertEqual(seen["Forwarded"], CLIENT)
        harness.wait_until(lambda: os.path.getsize(log), what="a line")
        with open(log, encoding="utf-8") as lines:
            self.assertEqual(set(lines), {f"{CLIENT} ALTS ALTSRP_GCM_AES128_REKEY 200\n"})

    def test_health_checks(self):
        service = self.keep(Handshaker())
        server = self.keep(GrpcServer(service))
        proxy = self.grpc_proxy(server, service, **self.by_service(service), health_check={
            "interval": "50ms", "timeout": "2s", "grpc": {"service": ""}})
        proxy.wait_for(lambda s: s.total("endpoint_health_checks_total") >= 3)
        self.assertEqual(proxy.stats().total("endpoint_health_checks_failed_total"), 0, proxy.stderr())


class Crowd(AltsTest):

    PER_ROLE = 100  # HandshakerService::kMaxCalls; there is one worker.

    def crowd(self, count, processes, **options):
        """Many connections with ALTS on both sides are open at once, and the service is slow."""
        service = self.keep(Handshaker(**{"delay": "20ms", **options}))
        theirs = self.keep(Handshaker())
        server = self.keep(GrpcServer(theirs))
        proxy = self.listening(server.text, service, upstream=self.by_service(service, target_identities=[SERVER]))
        start = time.monotonic()
        for client in [self.keep(GrpcClient(proxy.address(), theirs, case="crowd", connections=count // processes))
                       for _ in range(processes)]:
            client.result()
        reports = [service.report() for _ in range(2 * (count + processes))]
        at_once = max(report["AtOnce"] for report in reports)
        harness.print_note(f"{count} ALTS connections on both sides: {time.monotonic() - start:.1f} s, "
                           f"at most {at_once} handshakes at once")
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        # Each client process also has one connection of its own, with which it ends.
        self.assertEqual(stats.total(HANDSHAKES), count + processes)
        self.assertEqual(stats.total(ENDPOINT_HANDSHAKES), count + processes)
        self.assertEqual(failed_handshakes(stats) + failed_connects(stats), 0)
        return at_once

    def test_simultaneous_handshakes(self):
        """Both roles have more handshakes than their limit. One role at its limit does not stop the other."""
        at_once = self.crowd(250, 5, delay="300ms")
        self.assertGreater(at_once, self.PER_ROLE)
        self.assertLessEqual(at_once, 2 * self.PER_ROLE)

    def test_service_with_low_concurrency(self):
        at_once = self.crowd(100, 2, streams=7)
        self.assertGreater(at_once, 1)
        self.assertLessEqual(at_once, 7)

    def test_stalled_peers(self):
        """Peers that begin a handshake and stall, more than the limit of handshakes, do not lock others out."""
        service = self.keep(Handshaker())
        proxy = self.listening(self.keep(GrpcServer()).text, service)
        stalled = [self.keep(RawAltsPeer(proxy.address())) for _ in range(150)]
        for peer in stalled:
            peer.begin()
        time.sleep(0.2)
        start = time.monotonic()
        self.keep(GrpcClient(proxy.address(), self.keep(Handshaker()))).result()
        self.assert_within(start, 5 * SLOWNESS)


class BrokenService(AltsTest):
    """A handshaker service that is absent, or that is not a handshaker service."""

    LIES = ("short_key", "no_result_protocol", "no_identity", "old_versions", "bad_consumed", "status", "die", "silent")
    TIMEOUT_S = 1

    @staticmethod
    def not_grpc(sock):
        sock.recv(1000)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        sock.recv(1000)

    def services(self, address):
        """Yields one service of each kind, one after the other, at the same address."""
        for lie in self.LIES:
            yield lie, Handshaker(listen="%s:%d" % address, lie=lie)
        yield "not gRPC", Origin(self.not_grpc, address)
        yield "discards", Origin(discard, address)

    def each_service(self, proxy, address, failures, attempt, held):
        """With each kind, an attempt fails in time, and nothing else fails."""
        text = "%s:%d" % address

        def attempt_once():
            lines, before, start = proxy.stderr().count(text), failures(proxy.stats()), time.monotonic()
            received, how = attempt()
            took = time.monotonic() - start
            self.assertIn(how, ("end", "reset"))
            self.assertLess(took, self.TIMEOUT_S + 1.5 * SLOWNESS)
            proxy.wait_for(lambda s: failures(s) == before + 1, what="a counter")
            held.call()
            harness.wait_until(lambda: proxy.stderr().count(text) > lines, 3, "a line about the service")
            return received, took
        with self.subTest("nobody"):
            attempt_once()
        for kind, service in self.services(address):
            with self.subTest(kind), contextlib.closing(service):
                # After a failure, the proxy may wait a little before it connects to the service.
                deadline = time.monotonic() + 5 * SLOWNESS
                while True:
                    received, took = attempt_once()
                    time.sleep(0.1)
                    if service.was_called():
                        break
                    self.assertLess(time.monotonic(), deadline, "the service is not called any more")
                if kind == "silent":
                    self.assertGreater(took, self.TIMEOUT_S - 0.3)
                    harness.wait_until(lambda: "left" in service.results(), 3, "the service to see the end of the call")
                if kind == "status" and received is not None:
                    self.assertEqual(received, REFUSAL)

    def wait_for_recovery(self, address, proxy, theirs, held):
        """When the service is back it is used soon, even after many failures."""
        self.keep(Handshaker(listen="%s:%d" % address))

        def works():
            try:
                return self.keep(GrpcClient(proxy.address(), theirs, seconds=3 * SLOWNESS)).result()
            except AssertionError:
                return None
        harness.wait_until(works, 5, "the service to be used again")
        held.call()

    def test_listener(self):
        address, theirs = ("127.0.0.1", free_port()), self.keep(Handshaker())
        with contextlib.closing(Handshaker(listen="%s:%d" % address)) as service:
            proxy = self.listening(self.keep(GrpcServer()).text, service, handshake_timeout=f"{self.TIMEOUT_S}s")
            held = self.keep(HeldClient(proxy.address(), theirs))
            held.call()
        self.each_service(proxy, address, failed_handshakes,
                          lambda: self.keep(RawAltsPeer(proxy.address())).try_to_shake(), held)
        self.wait_for_recovery(address, proxy, theirs, held)

    def test_upstream(self):
        address, server = ("127.0.0.1", free_port()), self.keep(GrpcServer(self.keep(Handshaker())))
        with contextlib.closing(Handshaker(listen="%s:%d" % address)) as service:
            proxy = self.speaking(server.text, service, target_identities=[SERVER],
                                  upstream={"connect_timeout": f"{self.TIMEOUT_S}s"},
                                  top={"log": {"level": "debug"}})  # A line for each attempt.
            held = self.keep(HeldClient(proxy.address()))
            held.call()
        self.each_service(proxy, address, failed_connects,
                          lambda: (None, outcome_of_connecting(proxy.address())), held)
        self.wait_for_recovery(address, proxy, None, held)

    def test_black_hole(self):
        hole = self.keep(BlackHole())
        proxy = self.listening(self.keep(Origin(echo)).address, hole.address, handshake_timeout="1s")
        start = time.monotonic()
        peer = self.keep(RawAltsPeer(proxy.address()))
        peer.begin()
        self.assertIn(peer.outcome(), ("end", "reset"))
        self.assert_within(start, 1 + 1.5 * SLOWNESS)
        proxy.wait_for(lambda s: failed_handshakes(s) == 1)
        proxy.wait_for_output(hole.address, 3)


class Identities(AltsTest):

    def refused(self, proxy, *words):
        """A plain client gets nothing, and one line of the log has all the words."""
        self.assertIn(outcome_of_connecting(proxy.address(), data=b"secret"), ("end", "reset"))
        proxy.wait_for(lambda s: s.ended("no_endpoint") == 1 and failed_connects(s) == 1)
        harness.wait_until(lambda: any(all(word in line for word in words) for line in proxy.stderr().splitlines()), 3,
                           f"a line with {words}; there is\n{proxy.stderr()}")

    def test_wrong_server(self):
        """The endpoint is refused whether or not the service checks its identity."""
        for check in (True, False):
            with self.subTest(check=check):
                service = self.keep(Handshaker(check=check))
                server = self.keep(GrpcServer(self.keep(Handshaker())))
                proxy = self.speaking(server.text, service, target_identities=["other@bar.com"])
                self.refused(proxy, server.text, SERVER)
                self.assertEqual(service.report()["TargetIdentities"], ["other@bar.com"])

    def test_wrong_client(self):
        service = self.keep(Handshaker())
        origin = self.keep(GrpcServer())
        proxy = self.listening(origin.text, service, target_identities=["other@baz.com"])
        self.keep(GrpcClient(proxy.address(), self.keep(Handshaker()), seconds=2 * SLOWNESS)).error()
        proxy.wait_for(lambda s: failed_handshakes(s) >= 1)
        proxy.wait_for_output(CLIENT, 3)
        proxy = self.listening(origin.text, service, target_identities=["other@baz.com", CLIENT])
        self.keep(GrpcClient(proxy.address(), self.keep(Handshaker()))).result()

    def test_certificates(self):
        files, others = self.certificates(), self.certificates()
        near, far, stranger = files.make("near", "near"), files.make("far", "far"), others.make("stranger", "near")
        ca, came = files.path("ca.pem"), []

        def note(sock):
            while data := sock.recv(1000):
                came.append(data)
                sock.sendall(data)
        origin = self.keep(Origin(note))

        def two(certificate, authority, identity):
            behind = self.proxy(origin.address, listener={"alts": {"certificates": [far], "peer_ca": ca,
                                                                   "target_identities": ["near"]}})
            endpoint = "%s:%d" % behind.address()
            return behind, endpoint, self.proxy(endpoint, upstream={"alts": {
                "certificates": [certificate], "peer_ca": authority, "target_identities": [identity]}})
        self.assertTrue(ping(self.keep(connect(two(near, ca, "far")[2].address()))))
        for authority, identity in ((ca, "other"), (others.path("ca.pem"), "far")):
            with self.subTest("a wrong endpoint", identity=identity):
                _, endpoint, proxy = two(near, authority, identity)
                self.refused(proxy, endpoint)
        for what, certificate in (("of another authority", stranger), ("of another name", far)):
            with self.subTest("a client's certificate " + what):
                behind, _, proxy = two(certificate, ca, "far")
                self.assertIn(outcome_of_connecting(proxy.address(), data=b"secret"), ("end", "reset"))
                behind.wait_for(lambda s: failed_handshakes(s) == 1)
                behind.wait_for_output("ALTS with it failed", 3)
        self.assertEqual(came, [b"ping"])

    def test_routes(self):
        service = self.keep(Handshaker())
        one, other = self.keep(Origin(echo)), self.keep(Origin(discard))
        config = harness.configuration([other.address], listener=self.by_service(service), tcp={})
        config["upstreams"].append({"name": "one", "endpoints": [one.address]})
        config["listeners"][0]["tcp"] = {"routes": [{"match": {"peer": [CLIENT]}, "forward": "one"},
                                                    {"forward": "main"}]}
        proxy = self.start(config)
        peer = self.keep(RawAltsPeer(proxy.address()))
        peer.shake(HELLO_FROM_CLIENT)
        self.assertEqual(peer.receive(len(HELLO_FROM_SERVER)), HELLO_FROM_SERVER)


class RawFrames(AltsTest):

    def test_client_bytes(self):
        """A frame that is known byte for byte, also where all bytes arrive one at a time."""
        for keep in (False, True):
            service = self.keep(Handshaker(dialect="go", keep=keep))
            proxy = self.listening(self.keep(Origin(echo)).address, service)
            for piecewise in (False, True):
                for behind in (False, True):
                    with self.subTest(keep=keep, piecewise=piecewise, behind=behind):
                        peer = self.keep(RawAltsPeer(proxy.address()))
                        peer.shake(HELLO_FROM_CLIENT if behind else b"", piecewise)
                        if not behind:
                            peer.send(HELLO_FROM_CLIENT, piecewise)
                        self.assertEqual(peer.receive(len(HELLO_FROM_SERVER)), HELLO_FROM_SERVER)
                        peer.close()
                        self.assertEqual(service.report()["Result"], "done")
            proxy.wait_for(lambda s: s.ended("finished") == 4)

    def test_end_directly_after_handshake(self):
        """Defect: a client that ended while the service still worked on its last message was dropped, with all that it
        had sent."""
        service = self.keep(Handshaker(delay="20ms"))
        proxy = self.listening(self.keep(Origin(echo)).address, service)
        for _ in range(20):
            peer = self.keep(RawAltsPeer(proxy.address()))
            peer.shake(HELLO_FROM_CLIENT)
            peer.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(peer.receive(len(HELLO_FROM_SERVER)), HELLO_FROM_SERVER)
            self.assertEqual(peer.outcome(), "end")
        proxy.wait_for(lambda s: s.ended("finished") == 20)

    def test_frames_have_negotiated_size(self):
        """The frame size is what both sides accept, 16 KiB where one side announces nothing, and our own maximum where
        both accept more."""
        longest = 32 * 1024 - 40  # AltsRecordLayer::kBestFrameBytes
        for theirs, ours, agreed in ((0, "1MiB", 16 * 1024), (24 * 1024, "1MiB", 24 * 1024),
                                     (MIB, "20KiB", 20 * 1024), (MIB, "1MiB", longest)):
            with self.subTest(theirs=theirs, ours=ours):
                service = self.keep(Handshaker(max_frame_size=theirs))
                origin = self.keep(Origin(lambda sock: sock.sendall(bytes(500_000))))
                peer = self.keep(RawAltsPeer(self.listening(origin.address, service, max_frame_size=ours).address()))
                peer.shake()
                wire, lengths = receive_all(peer.sock), []
                while wire:
                    lengths.append(4 + int.from_bytes(wire[:4], "little"))
                    wire = wire[lengths[-1]:]
                self.assertEqual(max(lengths), agreed)
                self.assertEqual(sum(lengths) - 24 * len(lengths), 500_000)

    def test_server_bytes(self):
        """The endpoint's first frame comes directly after the last handshake message of its client."""
        service = self.keep(Handshaker())

        def serve(sock):
            sock.sendall(HELLO_FROM_SERVER)
            self.assertEqual(sock.recv(1000), HELLO_FROM_CLIENT)
        proxy = self.speaking(self.keep(Origin(raw_server(serve))).address, service)
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client, b"hello"))
        self.assertEqual(last_outcome(client), "end")

    def test_invalid_frames(self):
        service = self.keep(Handshaker())
        origin = self.keep(Origin(echo))
        proxy = self.listening(origin.address, service)
        bad = {"a broken tag": HELLO_FROM_CLIENT[:-1] + b"x", "another type": frame_head(25, 7) + bytes(21),
               "a type with high bytes": frame_head(25, 0x106) + bytes(21), "too short": frame_head(3) + bytes(21),
               "no tag": frame_head(19) + bytes(15), "too long": frame_head(MAX_FRAME + 1),
               "the longest number": frame_head(0xffffffff), "the server's own": HELLO_FROM_SERVER,
               "the same again": HELLO_FROM_CLIENT + HELLO_FROM_CLIENT, "TLS": b"\x16\x03\x01\x00\x10" + bytes(0x10316)}
        for count, (what, frame) in enumerate(bad.items(), 1):
            with self.subTest(what):
                peer = self.keep(RawAltsPeer(proxy.address()))
                peer.shake(frame)
                self.assertIn(peer.outcome(), ("end", "reset"))
                proxy.wait_for(lambda s, count=count: s.ended(RECORD_END) == count, 3, what)

    def test_not_alts(self):
        """A client that speaks another protocol, leaves in the middle, or sends nothing."""
        service = self.keep(Handshaker())
        proxy = self.listening(self.keep(Origin(echo)).address, service, handshake_timeout="1s")
        peer = self.keep(RawAltsPeer(proxy.address()))
        peer.send(b"GET / HTTP/1.1\r\n\r\n")
        self.assertIn(peer.outcome(), ("end", "reset"))
        proxy.wait_for(lambda s: failed_handshakes(s) == 1)
        slow = [self.keep(RawAltsPeer(proxy.address())) for _ in range(2)]
        slow[1].send(CLIENT_INIT[:4])
        for peer in slow:
            self.assertIn(peer.outcome(), ("end", "reset"))
        proxy.wait_for(lambda s: failed_handshakes(s) == 3)
        for sent in (b"", CLIENT_INIT[:4], CLIENT_INIT):
            peer = RawAltsPeer(proxy.address())
            peer.send(sent)
            time.sleep(0.05)
            peer.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.ended("client_left") >= 1)


class StalledFrames(AltsTest):
    """A thousand peers, each of which sends a little of the largest possible frame, in small pieces, and stops."""

    COUNT = 200 if harness.SANITIZER else 1000
    IDLE = 1024  # Bytes of a connection that has been idle since; the same as for TLS.
    PIECES = tuple(bytes([i]) * size for i, size in enumerate((1, 3, 60, 100, 100)))

    def check(self, proxy, base):
        stats, pss = proxy.stats(), proxy.pss()
        harness.print_note(f"{self.COUNT} halves of frames pin {stats.total('pool_pinned_bytes')} bytes for "
                           f"{(8 + sum(map(len, self.PIECES))) * self.COUNT} that came; all of it takes "
                           f"{(pss - base) / self.COUNT:.0f} bytes each (PSS)")
        self.assertEqual(stats.total("sessions_active"), self.COUNT)
        self.assertLess(stats.total("pool_pinned_bytes"), MIB)
        if not harness.SANITIZER:
            self.assertLess(pss - base, 8 * MIB)

    def warm_up(self, proxy, open_some):
        """Allocates everything that is allocated once."""
        for one in open_some(50):
            one.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        return proxy.pss()

    def test_clients(self):
        harness.require(harness.raise_descriptor_limit() >= 2 * self.COUNT + 200, "too few descriptors")
        service = self.keep(Handshaker())
        proxy = self.listening(self.keep(OriginProcess("echo")).address, service, cut_allowed=True)

        def opened(count):
            # One after the other: malloc keeps the memory that many simultaneous handshakes take for the next ones.
            peers = []
            for _ in range(count):
                peers.append(self.keep(RawAltsPeer(proxy.address())))
                peers[-1].shake(HELLO_FROM_CLIENT)
                peers[-1].receive(len(HELLO_FROM_SERVER))
            return peers
        base = self.warm_up(proxy, opened)
        peers = opened(self.COUNT)
        # What is left is the packed HPACK table of the connection to the service.
        proxy.wait_for(lambda s: s.total("pool_pinned_bytes") <= 64, 5, "them to rest")
        idle = (proxy.settled_pss(base + self.IDLE * self.COUNT) - base) / self.COUNT
        harness.print_note(f"{self.COUNT} idle ALTS connections: {idle:.0f} bytes each (PSS)")
        if not harness.SANITIZER:
            self.assertLessEqual(idle, self.IDLE)
        for piece in (frame_head(MAX_FRAME), *self.PIECES):
            for peer in peers:
                peer.send(piece)
        self.check(proxy, base)
        for peer in peers:
            peer.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30)

    def test_endpoints(self):
        harness.require(harness.raise_descriptor_limit() >= 2 * self.COUNT + 200, "too few descriptors")
        service = self.keep(Handshaker())
        shaken = []
        origin = self.keep(Origin(raw_server(lambda sock: (shaken.append(sock), sock.recv(1)))))
        proxy = self.speaking(origin.address, service, cut_allowed=True)

        def opened(count):
            shaken.clear()
            clients = [self.keep(connect(proxy.address())) for _ in range(count)]
            harness.wait_until(lambda: len(shaken) == count, 30, "the handshakes")
            return clients
        base = self.warm_up(proxy, opened)
        clients = opened(self.COUNT)
        for piece in (frame_head(MAX_FRAME), *self.PIECES):
            for sock in shaken:
                sock.sendall(piece)
        self.check(proxy, base)
        for client in clients:
            client.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30)


if __name__ == "__main__":
    harness.main()
