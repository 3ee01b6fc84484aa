"""ALTS without a handshaker service, between two proxies that authenticate each other by certificates."""

import contextlib
import os
import signal
import socket
import ssl
import struct
import time

import harness
from harness import MIB, SANITIZER, print_note
from http_peers_support import HttpTest
import http_wire as wire
from origins import Origin, connect, echo, last_outcome, receive_all
from tls_support import TlsTest, exchange
from transfers import TransferRun


class AltsTest(TlsTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.west = {"certificates": [cls.files.make("west", "west.example")], "peer_ca": cls.ca}
        cls.east = {"certificates": [cls.files.make("east", "east.example")], "peer_ca": cls.ca}
        cls.files.make("stranger", "stranger.example")

    def inner(self, origin, cut_allowed=False, tcp=None, **alts):
        """The proxy that terminates ALTS, in front of `origin`."""
        return self.proxy(origin, listener={"alts": {**self.east, **alts}}, tcp=tcp, cut_allowed=cut_allowed)

    def outer(self, inner, cut_allowed=False, **alts):
        """The proxy that originates ALTS. Its clients speak plaintext."""
        return self.proxy("%s:%d" % inner.address(), cut_allowed=cut_allowed,
                          upstream={"alts": {**self.west, "target_identities": ["east.example"], **alts}})

    def check_echo(self, proxy, size=1000):
        data = os.urandom(size)
        with connect(proxy.address()) as client:
            self.assertTrue(exchange(client, data) == data)


class Forwarding(AltsTest):

    def test_sizes(self):
        inner = self.inner(self.keep(Origin(echo)).address)
        outer = self.outer(inner)
        for size in (1, 1000, 65_512, 65_513, 3_000_000):
            self.check_echo(outer, size)
        for proxy, name in ((inner, "tls_handshakes_total"), (outer, "endpoint_tls_handshakes_total")):
            self.assertEqual(proxy.stats().total(name), 5)
            self.assertEqual(proxy.wait_for(lambda s: s.total("sessions_active") == 0).ended("finished"), 5)

    def test_frames_of_each_size(self):
        for size in ("16KiB", "64KiB", "1MiB"):
            inner = self.inner(self.keep(Origin(echo)).address, max_frame_size=size)
            self.check_echo(self.outer(inner, max_frame_size=size), 5_000_000)

    def test_many_connections(self):
        """Each byte is checked in both directions, while ends and resets come at any time."""
        with contextlib.closing(TransferRun(40, (1 if SANITIZER else 6) * MIB)) as transfers:
            inner = self.inner(transfers.address)
            outer = self.outer(inner)
            seconds = transfers.run(outer.address())
        total = transfers.total_bytes
        print_note(f"{total / MIB / seconds:.0f} MiB/s")
        self.assertEqual(inner.stats().total("tls_truncated_total"), 0)
        # Forwarded bytes are not copied, except for the head and the tag of a record.
        for proxy in (inner, outer):
            self.assertLess(proxy.stats().total("copied_bytes_total"), total / 100)

    def test_half_open(self):
        """A client's end is forwarded while the response still arrives."""
        def serve(sock):
            sock.sendall(receive_all(sock)[::-1])
        inner = self.inner(self.keep(Origin(serve)).address)
        with connect(self.outer(inner).address()) as client:
            client.sendall(b"abc")
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(receive_all(client), b"cba")

    def test_idle_connections_wake_up(self):
        inner = self.inner(self.keep(Origin(echo)).address)
        with connect(self.outer(inner).address()) as client:
            for _ in range(3):
                self.assertEqual(exchange(client, b"hello"), b"hello")
                time.sleep(1.5)


class Trust(AltsTest):

    def refused(self, front, proxy, text):
        """The connection ends, and the log of `proxy` has the reason."""
        try:
            with connect(front.address()) as client:
                self.assertIn(last_outcome(client), ("end", "reset"))
        except ConnectionResetError:
            pass  # On a busy machine it has ended before connect() looks for errors.
        proxy.wait_for_output(text)

    def test_wrong_endpoint(self):
        """Defect: the common name, `east`, was accepted besides the alternative names."""
        inner = self.inner(self.keep(Origin(echo)).address)
        for identity in ("west.example", "east"):
            outer = self.outer(inner, target_identities=[identity])
            self.refused(outer, outer, "failed: the peer is \"east.example\", none of target_identities")
            self.assertGreaterEqual(outer.stats().connect_errors("tls"), 1)

    def test_unwanted_client(self):
        inner = self.inner(self.keep(Origin(echo)).address, target_identities=["south.example"])
        self.refused(self.outer(inner), inner, "ALTS with it failed: the peer is \"west.example\", none of target_identities")
        inner.wait_for(lambda s: s.ended("tls_handshake") == 1)

    def test_wrong_authority(self):
        """Both sides log that they do not trust the other."""
        inner = self.inner(self.keep(Origin(echo)).address, peer_ca=self.files.path("stranger.pem"))
        outer = self.outer(inner)
        self.refused(outer, inner, "CERTIFICATE_VERIFY_FAILED")
        outer.wait_for_output("ALTS with 127.0.0.1")
        outer.wait_for_output("the peer has refused the handshake")

    def test_client_that_speaks_tls(self):
        """Its certificate is valid, but its ALPN is not that of ALTS."""
        inner = self.inner(self.keep(Origin(echo)).address)
        context = self.context(certificate=True)
        context.check_hostname = False
        with contextlib.suppress(OSError):
            sock = self.secure(inner.address(), context, name="east.example")
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            self.assertEqual(sock.recv(1), b"")
        inner.wait_for_output("the peer does not speak sluice-alts/1")

    def test_client_that_speaks_older_tls(self):
        inner = self.inner(self.keep(Origin(echo)).address)
        context = self.context(version=ssl.TLSVersion.TLSv1_2, alpn=["sluice-alts/1"], certificate=True)
        with self.assertRaises(OSError):
            self.secure(inner.address(), context, name="east.example")
        inner.wait_for_output("UNSUPPORTED_PROTOCOL")

    def test_no_resumption(self):
        """A ticket of a TLS listener with the same keys is not accepted either, and the ALTS listener sends no
        tickets."""
        config = harness.configuration([self.keep(Origin(echo)).address], listener={"alts": self.east})
        config["listeners"].append({**config["listeners"][0], "name": "tls", "tls": {
            "certificates": [self.server], "client_ca": self.ca, "client_certificate": "require"}})
        del config["listeners"][1]["alts"]
        proxy = self.start(config, cut_allowed=True)
        context = self.context(version=ssl.TLSVersion.TLSv1_3, alpn=["sluice-alts/1"], certificate=True)
        context.check_hostname = False
        first = self.secure(proxy.address("tls"), context)
        self.assertEqual(exchange(first, b"hello"), b"hello")
        ticket = first.session
        for listener, resumed in (("tls", True), ("main", False)):
            sock = self.secure(proxy.address(listener), context, session=ticket)
            self.assertEqual((sock.session_reused, sock.version()), (resumed, "TLSv1.3"))
        self.assertEqual(sock.selected_alpn_protocol(), "sluice-alts/1")
        proxy.wait_for(lambda s: s.total("tls_handshakes_total", listener="main") == 1)
        # A ticket would arrive at once. The session is over: what follows is not TLS.
        sock.settimeout(0.2)
        with self.assertRaises(TimeoutError):
            sock.recv(1)
        self.assertEqual(proxy.stats().total("tls_resumed_total", listener="main"), 0)

    def test_listener_that_speaks_tls(self):
        origin = self.keep(Origin(echo))
        tls = self.terminating(origin.address)
        outer = self.outer(tls, target_identities=["localhost"])
        self.refused(outer, outer, "(ALTS failed: the peer does not speak ")

    def test_routes_by_identity(self):
        def server_of(text):
            return self.keep(Origin(lambda sock: sock.sendall(text))).address
        config = harness.configuration([], listener={"alts": self.east}, tcp={"forward": ""})
        config["listeners"][0]["tcp"] = {"routes": [
            {"match": {"peer": ["nobody.example", "west.example"]}, "forward": "known"}, {"forward": "rest"}]}
        config["upstreams"] = [{"name": "known", "endpoints": ["%s" % server_of(b"known")]},
                               {"name": "rest", "endpoints": ["%s" % server_of(b"rest")]}]
        inner = self.start(config)
        for alts, expected in ((self.west, b"known"), (self.east, b"rest")):
            with connect(self.outer(inner, **alts).address()) as client:
                self.assertEqual(receive_all(client), expected)

    def test_proxy_header_has_identity(self):
        """PROXY v2 has the name of the peer, as it does for TLS."""
        def serve(sock):
            head = sock.recv(16, socket.MSG_WAITALL)
            headers.append(sock.recv(struct.unpack("!H", head[14:])[0], socket.MSG_WAITALL))
        headers = []
        inner = self.proxy(self.keep(Origin(serve)).address, listener={"alts": self.east},
                           upstream={"send_proxy_protocol": "v2"})
        with connect(self.outer(inner).address()) as client:
            self.assertEqual(receive_all(client), b"")
        for text in (b"ALTS-like", b"ALTSRP_GCM_AES128_REKEY", b"\x22\x00\x04west"):
            self.assertIn(text, headers[0])

    def test_certificates_are_reloaded(self):
        """A new certificate is used for new connections. Open connections continue."""
        inner = self.inner(self.keep(Origin(echo)).address)
        changing = {"chain": self.files.path("changing.pem"), "key": self.files.path("changing.key")}
        self.files.make("changing", "old.example")
        outer = self.outer(inner, certificates=[changing], target_identities=["east.example"])
        first = self.keep(connect(outer.address()))
        self.assertEqual(exchange(first, b"hello"), b"hello")
        self.files.make("changing", "new.example")
        outer.signal(signal.SIGHUP)
        outer.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        self.check_echo(outer)
        self.assertEqual(exchange(first, b"hello"), b"hello")


class Http(AltsTest, HttpTest):
    """Requests are forwarded, not connections: HTTP/1.1 and HTTP/2 on either side of ALTS."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A GeneralName of the kind 6, a URI.
        name = b"spiffe://west\r\nx-told: admin\r\n"
        names = bytes([0x30, 2 + len(name), 0x86, len(name)]) + name
        cls.hostile = cls.files.make("hostile", names="DER:" + names.hex(":"))

    def origin(self):
        """Returns the request's body, and the identity of the client that the inner proxy added."""
        return self.keep(wire.Server(lambda request, connection: connection.reply(
            request, 200, [("x-told", request.value("x-who"))], bytes(request.body))))

    def inner_http(self, origin, **http):
        return self.start(self.with_http({"alts": self.east}, http, {"endpoints": [origin.address]}))

    def outer_http(self, inner, protocol="http1", certificates=None, **upstream):
        alts = {**self.west, "target_identities": ["east.example"]}
        if certificates:
            alts["certificates"] = [certificates]
        return self.start(self.with_http({}, {}, {"endpoints": ["%s:%d" % inner.address("plain")], "protocol": protocol,
                                                  "alts": alts, **upstream}))

    @staticmethod
    def with_http(listener, http, upstream):
        return {"workers": 1, "shutdown_timeout": "3s",
                "listeners": [{"name": "plain", "address": "127.0.0.1:0", **listener, "http": {
                    **({} if "routes" in http else {"forward": "main"}), **http}}],
                "upstreams": [{"name": "main", **upstream}]}

    def test_requests(self):
        """Requests of any size and version use one connection between the proxies, which also works after a pause."""
        data = os.urandom(3_000_000)
        body = self.write("body", data)
        inner = self.inner_http(self.origin())
        for count, protocol in enumerate(("http1", "http2"), 1):
            outer = self.outer_http(inner, protocol)
            for kind in (("http1", False), ("http2", False)):
                with self.subTest(f"{kind[0]}, {protocol} over ALTS"):
                    response = self.curl(outer, kind, "/", "--data-binary", "@" + body)
                    self.assertEqual((response.status, response.body == data), (200, True))
            time.sleep(1.2)
            self.assertEqual(self.curl(outer, ("http1", False), "/").status, 200)
            self.assertEqual(outer.stats().total("endpoint_tls_handshakes_total"), 1)
            inner.wait_for(lambda s, count=count: s.total("tls_handshakes_total") == count)

    def test_client_identity(self):
        """Routes, fields and the access log of the inner proxy have the identity. A name cannot break out of its field
        value, and a client cannot set its own identity."""
        log = self.files + "/access.log"
        inner = self.inner_http(
            self.origin(), request_headers=[{"name": "x-who", "set": "%{peer}"}],
            access_log={"file": log, "format": '"%{peer}" %{tls_version} %{status}'},
            routes=[{"match": {"peer": ["nobody.example", "west.example"]}, "forward": "main"},
                    {"match": {"path": {"prefix": "/all"}}, "forward": "main"},
                    {"respond": {"status": 403}}])
        for certificate, name, status in ((None, "west.example", 200), (self.east["certificates"][0], "east.example", 403),
                                          (self.hostile, "spiffe://west??x-told: admin??", 403)):
            with self.subTest(name):
                outer = self.outer_http(inner, certificates=certificate)
                self.assertEqual(self.curl(outer, ("http1", False), "/").status, status)
                response = self.curl(outer, ("http1", False), "/all", "-H", "x-who: admin")
                self.assertEqual((response.status, response.fields["x-told"]), (200, name))
        def lines():
            with open(log, "rb") as file:
                return file.read().splitlines()
        harness.wait_until(lambda: len(lines()) == 6, what="all lines")
        self.assertEqual([line.split(b'"')[1] for line in lines()[:4]], [b"west.example"] * 2 + [b"east.example"] * 2)
        for line in lines()[4:]:
            self.assertRegex(line, rb'^"spiffe://west\\x0D\\x0Ax-told: admin\\x0D\\x0A" ALTS-like (200|403)$')

    def test_health_checks(self):
        inner = self.inner_http(self.origin(), routes=[
            {"match": {"path": {"exact": "/well"}}, "respond": {"status": 200}}, {"respond": {"status": 503}}])
        for protocol in ("http1", "http2"):
            for path, message in (("/well", None), ("/ill", "is unhealthy: it responded with 503")):
                with self.subTest(protocol=protocol, path=path):
                    outer = self.outer_http(inner, protocol, health_check={"interval": "50ms", "timeout": "2s",
                                                                           "http": {"path": path}})
                    outer.wait_for(lambda s: s.total("endpoint_health_checks_total") >= 3)
                    if message:
                        outer.wait_for_output(message)
                    else:
                        self.assertEqual(outer.stats().total("endpoint_health_checks_failed_total"), 0, outer.stderr())


class ManInTheMiddle(AltsTest):
    """A man in the middle between the two proxies changes records."""

    def between(self, inner, change):
        """Forwards the handshake, then what `change` returns for each piece that the outer proxy sends."""
        def serve(outer):
            with connect(inner.address()) as sock:
                sock.settimeout(0.02)
                outer.settimeout(0.02)
                while True:
                    for source, to in ((outer, sock), (sock, outer)):
                        try:
                            data = source.recv(65536)
                        except (TimeoutError, socket.timeout):
                            continue
                        except OSError:
                            return
                        if not data:
                            return
                        to.sendall(change(data) if source is outer else data)
        return self.keep(Origin(serve))

    def through(self, inner, change):
        origin = self.between(inner, change)
        return self.proxy(origin.address, cut_allowed=True,
                          upstream={"alts": {**self.west, "target_identities": ["east.example"]}})

    @staticmethod
    def is_frame(data):
        return len(data) > 24 and data[4:8] == b"\6\0\0\0"

    def send_payment(self, outer, inner):
        with connect(outer.address()) as client:
            # After the handshake, so that a frame arrives alone.
            inner.wait_for(lambda s: s.total("tls_handshakes_total") == 1)
            client.sendall(b"pay 100 to Bob")
            last_outcome(client)

    def check(self, change, why):
        received = []

        def serve(sock):
            received.append(receive_all(sock))
        inner = self.inner(self.keep(Origin(serve)).address, cut_allowed=True)
        outer = self.through(inner, change)
        self.send_payment(outer, inner)
        inner.wait_for(lambda s: s.ended("tls_error") == 1)
        inner.wait_for_output(why)
        self.assertIn(received, ([b""], []))

    def test_modified_record(self):
        self.check(lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:] if self.is_frame(data) else data,
                   "a frame that is not authentic")

    def test_replayed_record(self):
        def change(data):
            return data + data if self.is_frame(data) else data
        received = []

        def serve(sock):
            try:
                received.append(receive_all(sock))
            except OSError:
                received.append(b"reset")
        inner = self.inner(self.keep(Origin(serve)).address, cut_allowed=True)
        self.send_payment(self.through(inner, change), inner)
        inner.wait_for(lambda s: s.ended("tls_error") == 1)
        harness.wait_until(lambda: received)
        self.assertIn(received[0], (b"pay 100 to Bob", b"reset"))

    def test_truncated_stream(self):
        """An end without a close message is counted, and does not look complete to the endpoint."""
        inner = self.inner(self.keep(Origin(echo)).address)

        def serve(outer):
            with connect(inner.address()) as sock:
                sock.settimeout(0.02)
                outer.settimeout(0.02)
                deadline = time.monotonic() + 2
                while time.monotonic() < deadline:
                    for source, to in ((outer, sock), (sock, outer)):
                        try:
                            to.sendall(source.recv(65536))
                        except (TimeoutError, socket.timeout):
                            pass
        outer = self.proxy(self.keep(Origin(serve)).address, cut_allowed=True,
                           upstream={"alts": {**self.west, "target_identities": ["east.example"]}})
        with connect(outer.address()) as client:
            self.assertEqual(exchange(client, b"hello"), b"hello")
            last_outcome(client)
        inner.wait_for(lambda s: s.total("tls_truncated_total") == 1)
        outer.wait_for(lambda s: s.total("endpoint_tls_truncated_total") == 1)


if __name__ == "__main__":
    harness.main()
