"""TLS policy during the life of a process: files reloaded on SIGHUP, session tickets, resumption with endpoints, and
the bound on handshakes."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import harness
from harness import SLOWNESS
from origins import Origin, connect, echo, outcome_of_connecting
from tls_support import TlsTest, exchange


def common_name(sock):
    return dict(pair[0] for pair in sock.getpeercert()["subject"])["commonName"]


class Reload(TlsTest):

    def copied(self, certificate):
        """Copies the files of a certificate to a place where a test may replace them."""
        folder = self.temporary_directory()
        place = {part: os.path.join(folder, part + ".pem") for part in ("chain", "key")}
        self.replace(place, certificate)
        return place

    @staticmethod
    def replace(place, certificate):
        for part, path in place.items():
            shutil.copy(certificate[part], path + ".new")
            os.replace(path + ".new", path)

    def test_certificates(self):
        """A new certificate is used for new connections; open connections continue, even if they are in their
        handshakes."""
        origin = self.keep(Origin(echo))
        place = self.copied(self.server)
        proxy = self.proxy(origin.address, listener={"tls": {"certificates": [place]}})
        old = self.secure(proxy.address())
        self.assertEqual(common_name(old), "server")
        begun = self.keep(connect(proxy.address()))            # Is accepted before, and begins its handshake after.
        time.sleep(0.1)
        self.replace(place, self.files.make("second", "localhost"))
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        self.assertEqual(common_name(self.secure(proxy.address())), "second")
        for sock in (old, self.keep(self.context().wrap_socket(begun, server_hostname="localhost"))):
            self.assertEqual(exchange(sock, b"hello"), b"hello")

    def test_invalid_files(self):
        """The previous files stay in use, and the log has the reason."""
        origin = self.keep(Origin(echo))
        place = self.copied(self.server)
        proxy = self.proxy(origin.address, listener={"tls": {"certificates": [place]}})
        self.replace({"key": place["key"]}, self.rsa)
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reload_failures_total") == 1)
        proxy.wait_for_output("expected the key of the certificate in")
        proxy.wait_for_output("stay in use")
        self.assertEqual(exchange(self.secure(proxy.address()), b"hello"), b"hello")
        self.replace(place, self.rsa)
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        self.assertEqual(common_name(self.secure(proxy.address())), "rsa")

    def test_under_load(self):
        """A hundred reloads while connections open and close: none fails."""
        origin = self.keep(Origin(echo))
        place = self.copied(self.server)
        proxy = self.proxy(origin.address, listener={"tls": {"certificates": [place]}})
        context = self.context()
        for i in range(100):
            if i % 10 == 0:
                self.replace(place, self.rsa if i % 20 else self.server)
            proxy.signal(signal.SIGHUP)
            with context.wrap_socket(connect(proxy.address()), server_hostname="localhost") as sock:
                self.assertEqual(exchange(sock, b"hello"), b"hello")
        proxy.wait_for(lambda s: s.total("tls_reloads_total") > 0 and s.total("sessions_active") == 0)
        self.assertEqual(proxy.stats().total("tls_handshakes_total"), 100)

    def test_without_tls(self):
        """SIGHUP does not end the process, which is its default action."""
        proxy = self.proxy(self.keep(Origin(echo)).address)
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")


class Tickets(TlsTest):

    def session(self, proxy, context):
        sock = self.secure(proxy.address(), context)
        self.assertEqual(exchange(sock, b"x"), b"x")           # In TLS 1.3 tickets arrive after the handshake.
        return sock.session

    def resumes(self, proxy, context, session):
        sock = self.secure(proxy.address(), context, session=session)
        self.assertEqual(exchange(sock, b"y"), b"y")
        return sock.session_reused

    def key_file(self, folder, name):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(os.urandom(80))
        return path

    def contexts(self):
        return [self.context(version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]

    def test_survive_reload(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        for i, context in enumerate(self.contexts()):
            session = self.session(proxy, context)
            proxy.signal(signal.SIGHUP)
            proxy.wait_for(lambda s, i=i: s.total("tls_reloads_total") == i + 1)
            self.assertTrue(self.resumes(proxy, context, session))

    def test_shared_from_files(self):
        """Two processes, and rotated keys: the new one seals, the previous one still opens."""
        origin = self.keep(Origin(echo))
        folder = self.temporary_directory()
        first, second = self.key_file(folder, "first"), self.key_file(folder, "second")
        alone = self.terminating(origin.address, ticket_keys=[first])
        both = self.terminating(origin.address, ticket_keys=[second, first])
        other = self.terminating(origin.address)
        for context in self.contexts():
            session = self.session(alone, context)
            self.assertTrue(self.resumes(both, context, session))
            self.assertFalse(self.resumes(other, context, session))
            self.assertFalse(self.resumes(alone, context, self.session(both, context)))

    def test_not_without_required_certificate(self):
        """A listener that requires client certificates does not accept tickets of one that does not, though keys are
        shared."""
        origin = self.keep(Origin(echo))
        keys = [self.key_file(self.temporary_directory(), "keys")]
        lax = self.terminating(origin.address, ticket_keys=keys)
        strict = self.terminating(origin.address, ticket_keys=keys, client_ca=self.ca, client_certificate="require")
        context = self.context(ssl.TLSVersion.TLSv1_2)
        session = self.session(lax, context)
        with self.assertRaises(ssl.SSLError):
            self.resumes(strict, context, session)
        strict.wait_for(lambda s: s.ended("tls_handshake") == 1)

    def test_on_idle_connection(self):
        """Tickets are sent with the first data; without data, after a while by themselves."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        context = self.context(ssl.TLSVersion.TLSv1_3)
        sock = self.secure(proxy.address(), context)
        self.assertFalse(sock.session and sock.session.has_ticket)
        sock.settimeout(3 * SLOWNESS)
        with self.assertRaises(TimeoutError):
            sock.recv(1)
        self.assertTrue(sock.session.has_ticket)
        self.assertTrue(self.resumes(proxy, context, sock.session))

    def test_off(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, tickets=False)
        for context in self.contexts():
            sock = self.secure(proxy.address(), context)
            self.assertEqual(exchange(sock, b"x"), b"x")
            self.assertFalse(sock.session and sock.session.has_ticket)

    def test_bad_key_file(self):
        path = os.path.join(self.temporary_directory(), "keys")
        with open(path, "wb") as file:
            file.write(b"short")
        config = harness.configuration(["127.0.0.1:1"], listener={"tls": {"certificates": [self.server],
                                                                          "ticket_keys": [path]}})
        with self.assertRaises(harness.ProxyError) as caught:
            self.start(config)
        self.assertIn("expected 80 random bytes, got 5", str(caught.exception))


class TowardsEndpoints(TlsTest):

    def tls_origin(self, version, outcomes=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        context.minimum_version = context.maximum_version = version

        def serve(sock):
            try:
                with context.wrap_socket(sock, server_side=True) as secured:
                    echo(secured)
            except (ssl.SSLError, OSError) as error:
                if outcomes is not None:
                    outcomes.append(str(error))
        return self.keep(Origin(serve))

    def test_sessions_are_resumed(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            origin = self.tls_origin(version)
            proxy = self.proxy(origin.address, upstream={"tls": {"ca": self.ca, "server_name": "localhost"}}, workers=1)
            for _ in range(5):
                with connect(proxy.address()) as client:
                    self.assertEqual(exchange(client, b"hello"), b"hello")
            stats = proxy.stats()
            self.assertEqual(stats.total("endpoint_tls_handshakes_total"), 5)
            self.assertEqual(stats.total("endpoint_tls_resumed_total"), 4)
            # Not if another authority may have verified the certificate.
            proxy.signal(signal.SIGHUP)
            proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
            for _ in range(2):
                with connect(proxy.address()) as client:
                    self.assertEqual(exchange(client, b"hello"), b"hello")
            self.assertEqual(proxy.stats().total("endpoint_tls_resumed_total"), 5)

    def test_endpoint_gets_alert(self):
        """An endpoint whose certificate is not trusted gets the alert, not just the end."""
        outcomes = []
        origin = self.tls_origin(ssl.TLSVersion.TLSv1_3, outcomes)
        proxy = self.proxy(origin.address, upstream={"tls": {"ca": self.client["chain"], "server_name": "localhost"}})
        self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
        harness.wait_until(lambda: outcomes, what="the endpoint's error")
        self.assertRegex(outcomes[0], "(?i)unknown.ca")


class Stapling(TlsTest):

    def stapled(self, proxy):
        """The stapled status that clients get that request it: good, revoked, or None."""
        result = subprocess.run(["openssl", "s_client", "-connect", "%s:%d" % proxy.address(), "-status", "-CAfile",
                                 self.ca], input=b"", capture_output=True, timeout=20, check=False)
        found = re.search(rb"Cert Status: (\w+)", result.stdout)
        return found and found[1]

    def test_ocsp(self):
        """The content of the file is stapled for clients that request it, and a newer one after SIGHUP."""
        response = os.path.join(self.temporary_directory(), "response.der")
        self.files.staple(self.server, response)
        proxy = self.proxy(self.keep(Origin(echo)).address,
                           listener={"tls": {"certificates": [{**self.server, "ocsp": response}]}})
        self.assertEqual(self.stapled(proxy), b"good")
        self.files.staple(self.server, response, status="R")
        self.assertEqual(self.stapled(proxy), b"good")
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        self.assertEqual(self.stapled(proxy), b"revoked")

    def test_unusable_responses(self):
        """Defect: any content of the file was stapled. Now an unusable one is left out, with a warning, and `check`
        fails."""
        response = os.path.join(self.temporary_directory(), "response.der")
        self.files.staple(self.server, response)
        config = harness.configuration([self.keep(Origin(echo)).address], listener={
            "tls": {"certificates": [{**self.server, "ocsp": response}]}})
        self.assertEqual(check(self, config), (0, ""))
        proxy = self.start(config)
        self.files.staple(self.rsa, response)
        message = "response.der: the OCSP response is for another certificate; nothing is stapled"
        self.assertIn(message, check(self, config, status=1)[1])
        proxy.signal(signal.SIGHUP)
        proxy.wait_for(lambda s: s.total("tls_reloads_total") == 1)
        proxy.wait_for_output(message)
        self.assertIsNone(self.stapled(proxy))


def check(test, config, status=0):
    """Runs `sluice check`. Checks its status, and returns its output on stderr."""
    path = os.path.join(test.temporary_directory(), "sluice.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    result = subprocess.run([harness.SLUICE, "check", "--config", path], capture_output=True, text=True,
                            timeout=20 * SLOWNESS, check=False)
    test.assertEqual(result.returncode, status, result.stderr)
    return result.returncode, result.stderr


class Check(TlsTest):

    def test_certificates_outside_validity(self):
        old = self.files.make("old", "localhost", days=-1)
        config = harness.configuration(["127.0.0.1:1"], listener={"tls": {"certificates": [self.server, old]}})
        self.assertRegex(check(self, config)[1],
                         r"^\S+sluice.yaml:\d+:\d+: warning: listeners\[0\]\.tls\.certificates\[1\]\.chain: "
                         r"\S+old.pem: certificate 1 expired on .* UTC\n$")

    def test_broken_intermediate(self):
        """Defect: broken data after the first certificate was accepted, and clients got no chain."""
        chain = os.path.join(self.temporary_directory(), "chain.pem")
        with open(self.server["chain"], encoding="ascii") as leaf, open(self.ca, encoding="ascii") as authority:
            text = leaf.read() + authority.read()[:-100]
        with open(chain, "w", encoding="ascii") as file:
            file.write(text)
        config = harness.configuration(["127.0.0.1:1"],
                                       listener={"tls": {"certificates": [{**self.server, "chain": chain}]}})
        self.assertIn(f"{chain}: expected certificates in PEM; number 2 is malformed", check(self, config, status=1)[1])

    def test_server_names(self):
        """Defect: a name that TLS cannot send ended the process at the first connection."""
        for name in ("a" * 256, "a..b", "example.com."):
            config = harness.configuration(["127.0.0.1:1"], upstream={"tls": {"server_name": name}})
            self.assertRegex(check(self, config, status=1)[1],
                             r"sluice.yaml:\d+:\d+: upstreams\[0\].tls.server_name: expected a host's name")


class Identity(TlsTest):

    def header(self, sock):
        """The PROXY header of version 2 at the beginning: its fields about TLS."""
        head = sock.recv(16, socket.MSG_WAITALL)
        self.assertEqual(head[:13], b"\r\n\r\n\0\r\nQUIT\n\x21")
        body = sock.recv(int.from_bytes(head[14:16], "big"), socket.MSG_WAITALL)
        found = self.fields(body[12:])
        tls = found.pop(0x20)
        return {**found, "client": tls[0], "verify": int.from_bytes(tls[1:5], "big"), **self.fields(tls[5:])}

    def fields(self, body):
        found = {}
        while body:
            size = int.from_bytes(body[1:3], "big")
            found[body[0]], body = body[3:3 + size], body[3 + size:]
        return found

    def test_proxy_header(self):
        """PROXY v2 has the parameters of the client's TLS connection, and the verified identity of the client."""
        headers = []

        def serve(sock):
            headers.append(self.header(sock))
            echo(sock)
        proxy = self.terminating(self.keep(Origin(serve)).address, upstream={"send_proxy_protocol": "v2"},
                                 client_ca=self.ca, client_certificate="request", alpn=["h2"])
        context = self.context(ssl.TLSVersion.TLSv1_3, alpn=["h2"], certificate=True)
        first = self.secure(proxy.address(), context)
        self.assertEqual(exchange(first, b"hello"), b"hello")
        resumed = self.secure(proxy.address(), context, session=first.session)
        self.assertEqual(exchange(resumed, b"hello"), b"hello")
        unknown = self.secure(proxy.address(), self.context(ssl.TLSVersion.TLSv1_2))
        self.assertEqual(exchange(unknown, b"hello"), b"hello")
        expected = {0x01: b"h2", 0x02: b"localhost", 0x21: b"TLSv1.3", 0x22: b"client", 0x23: headers[0][0x23],
                    "verify": 0}
        self.assertEqual(headers[0], {**expected, "client": 7})
        self.assertEqual(headers[1], {**expected, "client": 5})
        self.assertEqual(headers[2], {0x02: b"localhost", 0x21: b"TLSv1.2", 0x23: headers[2][0x23], "verify": 1,
                                      "client": 1})
        self.assertRegex(headers[0][0x23], rb"^TLS_AES_\d+_GCM_SHA\d+$")

    def test_chain_is_bounded(self):
        files = self.files
        with open(files.path("middle.ext"), "w", encoding="utf-8") as file:
            file.write("basicConstraints=critical,CA:TRUE\n")
        files.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "middle.key",
                  "-out", "middle.csr", "-subj", "/CN=middle")
        files.run("x509", "-req", "-in", "middle.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                  "middle.pem", "-days", "2", "-extfile", "middle.ext")
        files.run("x509", "-req", "-in", "client.csr", "-CA", "middle.pem", "-CAkey", "middle.key", "-CAcreateserial",
                  "-out", "leaf.pem", "-days", "2")
        with open(files.path("long.pem"), "wb") as chain:
            for name in ("leaf.pem", "middle.pem"):
                with open(files.path(name), "rb") as part:
                    chain.write(part.read())
        context = self.context()
        context.load_cert_chain(files.path("long.pem"), self.client["key"])
        for depth in (1, 0):
            proxy = self.terminating(self.keep(Origin(echo)).address, client_ca=self.ca,
                                     client_certificate="require", client_depth=depth)
            sock = self.secure(proxy.address(), context)
            if depth:
                self.assertEqual(exchange(sock, b"hello"), b"hello")
                continue
            with self.assertRaises(ssl.SSLError):
                sock.recv(1)
            proxy.wait_for(lambda s: s.ended("tls_handshake") == 1)
            proxy.wait_for_output("CERTIFICATE_VERIFY_FAILED")


class Handshakes(TlsTest):

    def test_bound(self):
        """Clients that connect and send nothing leave room for others after a second, and are refused beyond the
        bound."""
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, max_handshakes=20, handshake_timeout="60s")
        silent = []
        for _ in range(30):
            # Clients beyond the bound may see the reset while they connect.
            with contextlib.suppress(ConnectionResetError):
                silent.append(self.keep(connect(proxy.address())))
        proxy.wait_for(lambda s: s.refused("handshakes") == 10)
        proxy.wait_for(lambda s: s.ended("tls_timeout") >= 10, 5)
        # Half of the bound is not ended before handshake_timeout.
        time.sleep(1.5)
        self.assertEqual(proxy.stats().total("sessions_active"), 10)
        self.assertEqual(exchange(self.secure(proxy.address()), b"hello"), b"hello")
        for sock in silent:
            sock.close()
        proxy.wait_for(lambda s: s.ended("client_left") == 10)

    def test_crowd_does_not_block_others(self):
        """Slow handshakes arrive without end; a fast client is served all the same."""
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, max_handshakes=100, handshake_timeout="60s")
        served, end = 0, time.monotonic() + 5
        crowd = []
        while time.monotonic() < end:
            for _ in range(10):
                sock = socket.create_connection(proxy.address(), 10 * SLOWNESS)
                sock.sendall(b"\x16\x03\x01\x02\x00\x01")
                crowd.append(sock)
            with self.context().wrap_socket(connect(proxy.address()), server_hostname="localhost") as sock:
                self.assertEqual(exchange(sock, b"hello"), b"hello")
                served += 1
            time.sleep(0.25)
        self.assertGreater(served, 5)
        for sock in crowd:
            sock.close()
        self.assertGreater(proxy.stats().ended("tls_timeout"), 50)


if __name__ == "__main__":
    harness.main()
