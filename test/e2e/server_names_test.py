"""Listeners that share an address, and are told apart by the server name of the ClientHello: each with its own TLS, protocol and
routes, among clients that are slow, broken or ask for the wrong name, and while the configuration and the program change."""

import socket
import ssl
import struct
import subprocess
import time

import harness
from harness import SLOWNESS, wait_until
from inspect_test import client_hello, enlarged, proxy_v2
from origins import Origin, connect, echo, free_port, last_outcome, outcome_of_connecting, ping, receive_exactly
from tls_support import TlsTest

ALERT = b"\x15\x03\x03\x00\x02\x02"  # Fatal; the description follows.
MISSING_EXTENSION, UNRECOGNIZED_NAME = bytes([109]), bytes([112])
GONE = ("end", "reset")


def responds(name, **http):
    """`http` of a listener that responds with its name."""
    return {"http": {"routes": [{"respond": {"status": 200, "body": name}}], **http}}


def status_and_body(sock, host, path="/"):
    """Of a request of HTTP/1.1 on an open connection."""
    sock.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    received = b""
    while b"\r\n\r\n" not in received:
        piece = sock.recv(65536)
        if not piece:
            raise AssertionError(f"the connection ended: {received}")
        received += piece
    head, body = received.split(b"\r\n\r\n", 1)
    length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")))
    return int(head.split()[1]), (body + receive_exactly(sock, length - len(body))).decode()


class Shared(TlsTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.every = cls.files.make("every", "a.test", "b.test", "*.wide.test", "*.sub.wide.test", "other.test", "c.test")

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.at = ("127.0.0.1", self.port)

    def listener(self, name, names=(), tls=(), **more):
        made = {"name": name, "address": f"127.0.0.1:{self.port}", **more}
        if names:
            made["server_names"] = list(names)
        if tls is not None:
            made["tls"] = {"certificates": [self.every], **dict(tls)}
        if "tcp" not in made and "http" not in made:
            made |= responds(name)
        return made

    def run_with(self, *listeners, upstreams=(), **options):
        self.config = {"workers": 1, "shutdown_timeout": "5s", "listeners": list(listeners), "upstreams": list(upstreams)}
        return self.start(self.config, **options)

    def changed(self, *listeners):
        return {**self.config, "listeners": list(listeners)}

    def get(self, name, host=None, **options):
        with self.context(**options).wrap_socket(connect(self.at), server_hostname=name) as client:
            return status_and_body(client, host or name)

    def served_by(self, name):
        status, body = self.get(name)
        return body if status == 200 else status

    def alert_for(self, data):
        with connect(self.at) as client:
            client.sendall(data)
            received = receive_exactly(client, 7)
            self.assertEqual(last_outcome(client), "end")
            return received


class Choice(Shared):

    def test_names(self):
        """Exact names, then the longest wildcard, then the listener without names."""
        proxy = self.run_with(self.listener("rest"), self.listener("a", ["a.test"]),
                              self.listener("wide", ["**.wide.test"]), self.listener("sub", ["*.sub.wide.test", "B.test"]))
        for name, expected in (("a.test", "a"), ("x.wide.test", "wide"), ("x.sub.wide.test", "sub"), ("b.test", "sub"),
                               ("other.test", "rest")):
            with self.subTest(name):
                self.assertEqual(self.served_by(name), expected)
        stats = self.stop(proxy)
        accepted = {name: stats.total("accepted_total", listener=name) for name in ("rest", "a", "wide", "sub")}
        self.assertEqual(accepted, {"rest": 1, "a": 1, "wide": 1, "sub": 2})
        self.assertEqual(stats.ended("server_name"), 0)

    def test_options_differ(self):
        """Each listener has its own ALPN, minimum version and routes; and requests for the host of another listener on an open
        connection, as browsers that coalesce connections of HTTP/2 send them, get 421."""
        curl = harness.need("curl")
        self.run_with(self.listener("a", ["a.test"], {"alpn": ["h2", "http/1.1"]}),
                      self.listener("b", ["b.test"], {"alpn": ["http/1.1"], "min_version": "1.3"}))

        def ask(name, host, *options):
            done = subprocess.run([curl, "-s", "--cacert", self.ca, "--resolve", f"{name}:{self.port}:127.0.0.1", "-H", f"Host: {host}",
                                   "--http2", "-w", " %{http_code} %{http_version}", *options, f"https://{name}:{self.port}/"],
                                  capture_output=True, text=True, timeout=20 * SLOWNESS)
            return done.stdout if done.returncode == 0 else done.returncode

        self.assertEqual(ask("a.test", "a.test"), "a 200 2")
        self.assertEqual(ask("b.test", "b.test"), "b 200 1.1")
        self.assertEqual(ask("a.test", "a.test", "--tls-max", "1.2"), "a 200 2")
        self.assertEqual(ask("b.test", "b.test", "--tls-max", "1.2"), 35)
        self.assertRegex(ask("a.test", "b.test"), "421 2$")
        self.assertRegex(ask("a.test", "B.test:443"), "421 2$")
        self.assertRegex(ask("b.test", "a.test"), "421 1.1$")
        self.assertEqual(ask("a.test", "unknown.test"), "a 200 2", "a host of no listener is the business of the routes")

    def test_misdirected_to_the_rest(self):
        """With a listener for all other names, all other hosts are its own."""
        proxy = self.run_with(self.listener("rest"), self.listener("a", ["a.test"]))
        self.assertEqual(self.get("a.test", "other.test")[0], 421)
        self.assertEqual(self.get("other.test", "a.test")[0], 421)
        with self.context().wrap_socket(connect(self.at), server_hostname="a.test") as client:
            self.assertEqual(status_and_body(client, "other.test")[0], 421)
            self.assertEqual(status_and_body(client, "a.test"), (200, "a"), "the connection stays")
        proxy.wait_for(lambda s: s.total("http_requests_ended_total", reason="misdirected") == 3)

    def test_terminated_beside_passed_through(self):
        """A listener of HTTP, one that terminates TLS for TCP, and one that passes it through to an endpoint with its own certificate."""
        own = self.files.make("own", "c.test")
        server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_side.load_cert_chain(own["chain"], own["key"])

        def secure_echo(sock):
            with server_side.wrap_socket(sock, server_side=True) as secured:
                echo(secured)

        origins = {"plain": self.keep(Origin(echo)), "secure": self.keep(Origin(secure_echo))}
        self.run_with(self.listener("web", ["a.test"]), self.listener("terminated", ["b.test"], tcp={"forward": "plain"}),
                      self.listener("passed", ["c.test"], None, tcp={"forward": "secure"}),
                      upstreams=[{"name": name, "endpoints": [origin.address]} for name, origin in origins.items()])
        self.assertEqual(self.served_by("a.test"), "web")
        for name, common_name in (("b.test", "every"), ("c.test", "own")):
            with self.context().wrap_socket(connect(self.at), server_hostname=name) as client:
                self.assertEqual(client.getpeercert()["subject"], ((("commonName", common_name),),))
                self.assertTrue(ping(client))
                time.sleep(1.5)  # Idle: its buffers are given back.
                self.assertTrue(ping(client, b"x" * 100_000))

    def test_plain_beside_tls(self):
        """What does not begin with a ClientHello is for the listener without names."""
        self.run_with(self.listener("plain", (), None), self.listener("a", ["a.test"]))
        self.assertEqual(self.served_by("a.test"), "a")
        with connect(self.at) as client:
            self.assertEqual(status_and_body(client, "a.test"), (200, "plain"))

    def test_two_workers_and_both_addresses(self):
        """A Unix socket, from which all workers accept, beside an address."""
        path = self.temporary_directory() + "/s"
        address = {"address": [f"127.0.0.1:{self.port}", "unix:" + path]}
        proxy = self.run_with(self.listener("rest", **address), self.listener("a", ["a.test"], **address))
        self.config["workers"] = 2
        self.stop(proxy)
        proxy = self.start(self.config)
        hello = client_hello("a.test")
        for _ in range(8):
            self.assertEqual(self.served_by("a.test"), "a")
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.settimeout(10 * SLOWNESS)
                client = self.context().wrap_socket(sock, server_hostname="a.test")
                self.assertEqual(status_and_body(client, "a.test"), (200, "a"))
                client.close()
            with socket.socket(socket.AF_UNIX) as sock:  # The kernel tells of each piece there.
                sock.connect(path)
                sock.settimeout(10 * SLOWNESS)
                sock.sendall(hello[:100])
                time.sleep(0.05)
                sock.sendall(hello[100:])
                self.assertEqual(sock.recv(1), b"\x16")
        proxy.wait_for(lambda s: s.total("accepted_total", listener="a") == 24)


class Hello(Shared):
    """ClientHellos that are late, broken, in pieces, or for no listener."""

    def test_in_pieces(self):
        self.run_with(self.listener("a", ["a.test"]))
        hello = client_hello("a.test")
        for size in (1, 7, 100, len(hello) - 1):
            with self.subTest(size), connect(self.at) as client:
                for begin in range(0, len(hello), size):
                    client.sendall(hello[begin:begin + size])
                    time.sleep(0.001)
                self.assertEqual(client.recv(1), b"\x16")
        many_records = b"".join(b"\x16\x03\x01" + struct.pack("!H", 1) + hello[i:i + 1] for i in range(5, len(hello)))
        with connect(self.at) as client:
            client.sendall(many_records)
            self.assertIn(client.recv(1), b"\x16\x15", "BoringSSL may find it too long")
        with connect(self.at) as client:
            client.sendall(enlarged(hello, 12000))
            self.assertEqual(client.recv(1), b"\x16")

    def test_waiting_holds_no_buffer(self):
        """Half a ClientHello stays in the kernel."""
        proxy = self.run_with(self.listener("a", ["a.test"]))
        hello = client_hello("a.test")
        before = proxy.stats().total("pool_pinned_bytes")
        clients = [self.keep(connect(self.at)) for _ in range(50)]
        for client in clients:
            client.sendall(hello[:-1])
        time.sleep(0.3 * SLOWNESS)
        self.assertEqual(proxy.stats().total("pool_pinned_bytes"), before)
        self.assertEqual(proxy.stats().total("accepted_total"), 0, "no listener has them yet")
        for client in clients:
            client.sendall(hello[-1:])
            self.assertEqual(client.recv(1), b"\x16")

    def test_no_listener(self):
        """A server name of no listener, and none at all, get an alert that says so."""
        proxy = self.run_with(self.listener("a", ["a.test"]))
        self.assertEqual(self.alert_for(client_hello("other.test")), ALERT + UNRECOGNIZED_NAME)
        self.assertEqual(self.alert_for(client_hello(None)), ALERT + MISSING_EXTENSION)
        self.assertEqual(self.alert_for(client_hello("other.test") + bytes(500)), ALERT + UNRECOGNIZED_NAME)
        with self.assertRaisesRegex(ssl.SSLError, "(?i)unrecognized.name"):
            self.secure(self.at, name="other.test")
        with connect(self.at) as client:  # It need not read the alert, nor end.
            client.sendall(client_hello("other.test"))
            time.sleep(1.3)
            self.assertEqual(receive_exactly(client, 7), ALERT + UNRECOGNIZED_NAME)
        proxy.wait_for(lambda s: s.ended("server_name") == 5 and s.total("sessions_active") == 0)
        self.assertEqual(proxy.stats().total("accepted_total", listener="a"), 5)
        self.assertEqual(self.served_by("a.test"), "a")

    def test_broken(self):
        proxy = self.run_with(self.listener("a", ["a.test"]))
        hello = client_hello("a.test")
        for count, junk in enumerate((
                b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", bytes(100), b"\x16\x03\x01\x00\x00", b"\x16\x03\x01\x40\x00\x02",
                hello[:5] + b"\x02" + hello[6:], b"\x16\x03\x01\x40\x00\x01\x00\xff\xff" + bytes(20000)), 1):
            with self.subTest(junk[:20]), connect(self.at) as client:
                client.sendall(junk)
                self.assertIn(last_outcome(client), GONE)
                proxy.wait_for(lambda s, count=count: s.ended("hello") == count)
        self.assertEqual(self.served_by("a.test"), "a")

    def test_timeout(self):
        proxy = self.run_with(self.listener("a", ["a.test"], {"handshake_timeout": "700ms"}), self.listener("rest"))
        for count, beginning in enumerate((b"", client_hello("a.test")[:300]), 1):
            with connect(self.at) as client:
                client.sendall(beginning)
                begun = time.monotonic()
                self.assertIn(last_outcome(client), GONE)
                self.assertGreater(time.monotonic() - begun, 0.5)
                proxy.wait_for(lambda s, count=count: s.ended("hello_timeout") == count)
        self.assertEqual(proxy.stats().total("sessions_ended_total", listener="rest", reason="hello_timeout"), 2)

    def test_client_leaves(self):
        proxy = self.run_with(self.listener("a", ["a.test"]))
        for count, beginning in enumerate((b"", client_hello("a.test")[:300]), 1):
            with connect(self.at) as client:
                client.sendall(beginning)
                client.shutdown(socket.SHUT_WR)
                self.assertIn(last_outcome(client), GONE)
            proxy.wait_for(lambda s, count=count: s.ended("client_left") == count)
        with connect(self.at) as client:
            client.sendall(client_hello("a.test")[:300])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        proxy.wait_for(lambda s: s.ended("client_error") + s.ended("client_left") == 3)

    def test_proxy_protocol(self):
        """The header comes before the ClientHello; the session of the chosen listener reads it, too."""
        header = {"proxy_protocol": {"accept": "required", "timeout": "700ms"}}
        routes = {"http": {"routes": [{"match": {"source": "192.0.2.7"}, "respond": {"status": 200, "body": "known"}},
                                      {"respond": {"status": 200, "body": "unknown"}}]}}
        proxy = self.run_with(self.listener("rest", **header), self.listener("a", ["a.test"], **header, **routes))
        with connect(self.at) as plain:
            plain.sendall(proxy_v2()[:20])
            time.sleep(0.05)
            plain.sendall(proxy_v2()[20:])
            with self.context().wrap_socket(plain, server_hostname="a.test") as client:
                self.assertEqual(status_and_body(client, "a.test"), (200, "known"))
        for count, junk in enumerate((client_hello("a.test"), b"PROXY TCP5 x\r\n"), 1):
            with connect(self.at) as client:
                client.sendall(junk)
                self.assertIn(last_outcome(client), GONE)
            proxy.wait_for(lambda s, count=count: s.ended("proxy_header") == count)
        with connect(self.at) as client:
            self.assertIn(last_outcome(client), GONE)
        proxy.wait_for(lambda s: s.ended("proxy_timeout") == 1)

    def test_limits(self):
        """Each listener has its own limit of connections; sources are counted while no listener has them yet."""
        limits = {"max_connections_per_source": 3}
        proxy = self.run_with(self.listener("rest", max_connections=2, **limits), self.listener("a", ["a.test"], **limits))
        for _ in range(2):
            self.secure(self.at, name="other.test")
        with self.assertRaises((ssl.SSLError, OSError)):
            self.secure(self.at, name="other.test")
        proxy.wait_for(lambda s: s.refused("listener") == 1)
        self.assertEqual(self.served_by("a.test"), "a")
        self.keep(connect(self.at))
        time.sleep(0.1)
        self.assertIn(outcome_of_connecting(self.at), GONE)
        proxy.wait_for(lambda s: s.refused("source") == 1)

    def test_limit_of_those_without_a_listener(self):
        """As many as `max_connections` of the listener that accepts, beside those that it has: otherwise clients that say nothing
        could take all connections of the process."""
        proxy = self.run_with(self.listener("rest", max_connections=2), self.listener("a", ["a.test"]))
        kept = [self.secure(self.at, name="other.test") for _ in range(2)]
        waiting = [self.keep(connect(self.at)) for _ in range(2)]
        time.sleep(0.2)
        self.assertIn(outcome_of_connecting(self.at), GONE)
        proxy.wait_for(lambda s: s.refused("listener") == 1)
        for client in waiting:
            client.close()
        proxy.wait_for(lambda s: s.ended("client_left") == 2)
        self.assertEqual(self.served_by("a.test"), "a")
        self.assertEqual(status_and_body(kept[0], "other.test"), (200, "rest"))


class Certificates(Shared):

    def test_client_certificate_of_one_name(self):
        """A session that began where no certificate is demanded is not resumed where one is."""
        self.run_with(self.listener("open", ["a.test"]),
                      self.listener("closed", ["b.test"], {"client_ca": self.ca, "client_certificate": "require"}))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                self.assertEqual(self.get("b.test", version=version, certificate=True), (200, "closed"))
                with self.assertRaises((ssl.SSLError, OSError, AssertionError)):
                    self.get("b.test", version=version)
                self.assertEqual(self.get("a.test", "b.test", version=version)[0], 421)
                context = self.context(version)
                with context.wrap_socket(connect(self.at), server_hostname="a.test") as client:
                    status_and_body(client, "a.test")
                    session = client.session
                with context.wrap_socket(connect(self.at), server_hostname="a.test", session=session) as client:
                    self.assertEqual(status_and_body(client, "a.test"), (200, "open"))
                    self.assertTrue(client.session_reused)
                with self.assertRaises((ssl.SSLError, OSError, AssertionError)):
                    with context.wrap_socket(connect(self.at), server_hostname="b.test", session=session) as client:
                        status_and_body(client, "b.test")


class Changes(Shared):

    def test_reload(self):
        """Listeners come to and leave an address that is shared; what stays goes on, also connections that have no listener yet."""
        a, b, c = (self.listener(name, [name + ".test"]) for name in "abc")
        proxy = self.run_with(a, b)
        kept = {name: self.secure(self.at, name=name + ".test") for name in "ab"}
        for name, client in kept.items():
            self.assertEqual(status_and_body(client, name + ".test"), (200, name))
        pending = self.keep(connect(self.at))
        hello = client_hello("c.test")
        pending.sendall(hello[:200])
        proxy.reload(self.changed(a, c, self.listener("rest")))
        self.assertEqual(status_and_body(kept["a"], "a.test"), (200, "a"))
        wait_until(lambda: last_outcome(kept["b"]) in GONE, 5)
        self.assertEqual([self.served_by(name + ".test") for name in "abc"], ["a", "rest", "c"])
        pending.sendall(hello[200:])
        self.assertEqual(pending.recv(1), b"\x16")
        proxy.wait_for(lambda s: s.total("accepted_total", listener="c") == 2)
        self.assertEqual(status_and_body(kept["a"], "b.test")[0], 421, "the name is the rest's now")

    def test_sharing_begins_and_ends(self):
        """A listener that had its address alone shares it, and has it alone again; its connections stay."""
        alone, shared = self.listener("main"), self.listener("a", ["a.test"])
        proxy = self.run_with(alone)
        kept = self.secure(self.at, name="other.test")
        for config, expected in ((self.changed(alone, shared), "a"), (self.changed(alone), "main"), (self.changed(shared, alone), "a")):
            pending = self.keep(connect(self.at))
            pending.sendall(client_hello("a.test")[:100])
            proxy.reload(config)
            self.assertEqual(self.served_by("a.test"), expected)
            self.assertEqual(status_and_body(kept, "other.test"), (200, "main"))
            pending.sendall(client_hello("a.test")[100:])
            self.assertEqual(pending.recv(1) in (b"\x16", b"\x15"), True)
        proxy.reload(self.changed(self.listener("elsewhere", address=f"127.0.0.1:{free_port()}")))
        wait_until(lambda: last_outcome(kept) in GONE, 5)

    def test_address_goes(self):
        """A connection without a listener, at an address that no listener has any more, is closed when it has said its name."""
        proxy = self.run_with(self.listener("a", ["a.test"]), self.listener("b", ["b.test"]))
        pending = self.keep(connect(self.at))
        hello = client_hello("a.test")
        pending.sendall(hello[:100])
        time.sleep(0.1)
        proxy.reload(self.changed(self.listener("elsewhere", address=f"127.0.0.1:{free_port()}")))
        pending.sendall(hello[100:])
        self.assertIn(last_outcome(pending), GONE)
        self.stop(proxy, cut_allowed=True)

    def test_upgrade(self):
        """Established connections go on in the new process; one that has no listener yet is served by the old one, or is closed."""
        proxy = self.run_with(self.listener("rest"), self.listener("a", ["a.test"]), cut_allowed=True)
        kept = self.secure(self.at, name="a.test")
        self.assertEqual(status_and_body(kept, "a.test"), (200, "a"))
        pending = self.keep(connect(self.at))
        hello = client_hello("a.test")
        pending.sendall(hello[:100])
        time.sleep(0.1)
        old = proxy.process
        proxy.upgrade(waits=False)
        self.assertEqual(status_and_body(kept, "a.test"), (200, "a"))
        self.assertEqual([self.served_by(name) for name in ("a.test", "other.test")], ["a", "rest"])
        pending.sendall(hello[100:])
        self.assertIn(pending.recv(1), (b"\x16", b""))
        pending.close()
        proxy.end_of(old)
        self.assertEqual(status_and_body(kept, "other.test")[0], 421)

    def test_stop(self):
        """At the end, connections that have no listener yet do not hold up the process beyond its timeout."""
        proxy = self.run_with(self.listener("a", ["a.test"]))
        pending = self.keep(connect(self.at))
        pending.sendall(client_hello("a.test")[:100])
        time.sleep(0.1)
        self.stop(proxy, cut_allowed=True)
        self.assertIn(last_outcome(pending), GONE)


class Check(harness.SluiceTest):
    """What `sluice check` says of listeners that cannot share an address is in test/proxy/config/sharing_test.cc."""

    def test_explain_finds_the_listener(self):
        path = self.temporary_directory() + "/c.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write("""listeners:
  - { name: rest, address: 127.0.0.1:443, tls: { certificates: [ { chain: c, key: k } ] }, http: { forward: u } }
  - { name: a, address: 127.0.0.1:443, server_names: a.test, tls: { certificates: [ { chain: c, key: k } ] }, http: { forward: u } }
  - { name: t, address: 127.0.0.1:443, server_names: t.test, tcp: { forward: u } }
upstreams: [ { name: u, endpoints: [ 127.0.0.1:1 ] } ]
""")
        for url, expected in (("https://a.test/", "a (127.0.0.1:443, TLS)"), ("https://x.test/", "rest (127.0.0.1:443, TLS)"),
                              ("https://t.test/", 'listener "t", which has this server name, has no `http`')):
            done = subprocess.run([harness.SLUICE, "explain", "--config", path, url], capture_output=True, text=True, timeout=20 * SLOWNESS)
            self.assertIn(expected, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
