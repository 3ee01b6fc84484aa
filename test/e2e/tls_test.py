"""TLS terminated and originated by the proxy, with third-party clients and servers: Python's ssl (OpenSSL), openssl
s_client and s_server, curl."""

import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time

import harness
from harness import SLOWNESS
from origins import Origin, connect, echo, last_outcome, outcome_of_connecting
from tls_support import Process, TlsTest, exchange
from workers import OriginProcess


class Termination(TlsTest):

    def test_both_versions_and_large_transfers(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            sock = self.secure(proxy.address(), self.context(version))
            self.assertEqual(sock.version(), "TLSv1.2" if version == ssl.TLSVersion.TLSv1_2 else "TLSv1.3")
            for size in (1, 1000, 16384, 16385, 3_000_000):
                data = os.urandom(size)
                self.assertEqual(hashlib.sha256(exchange(sock, data)).digest(), hashlib.sha256(data).digest())
            sock.close()
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        self.assertEqual(stats.total("tls_handshakes_total"), 2)

    def test_many_connections_with_small_budget(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, listener={"tls": {"certificates": [self.server]}},
                           memory={"worker_budget": "4MiB"})
        results = []

        def one():
            data = os.urandom(500_000)
            sock = self.context().wrap_socket(connect(proxy.address()), server_hostname="localhost")
            results.append(exchange(sock, data) == data)
            sock.close()
        threads = [threading.Thread(target=one, daemon=True) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60 * SLOWNESS)
        self.assertEqual(results, [True] * 40)

    def test_idle_connections_wake_up(self):
        """Connections are parked after a second: their keys are then derived again from the secrets, and a partial
        record waits meanwhile."""
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        plain = connect(proxy.address())
        tls, incoming, outgoing = self.in_memory(plain)
        for _ in range(2):
            tls.write(b"hello" * 100)
            record = outgoing.read()
            plain.sendall(record[:100])
            time.sleep(1.5)
            plain.sendall(record[100:])
            received = b""
            while len(received) < 500:
                try:
                    received += tls.read(65536)
                except ssl.SSLWantReadError:
                    incoming.write(plain.recv(65536))
            self.assertEqual(received, b"hello" * 100)
        plain.close()

    def test_certificate_by_name(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        for name, subject in (("localhost", "server"), ("a.example.com", "server"), ("x.example.org", "wildcard")):
            sock = self.secure(proxy.address(), name=name)
            self.assertEqual(dict(pair[0] for pair in sock.getpeercert()["subject"])["commonName"], subject)
        # A name that no certificate has: the first certificate, which this client does not accept.
        with self.assertRaisesRegex(ssl.SSLCertVerificationError, "Hostname mismatch"):
            self.secure(proxy.address(), name="elsewhere.net")
        # The kind of key that the client can use.
        for kind, algorithm in (("rsa", "rsa_pss_rsae_sha256"), ("server", "ecdsa_secp256r1_sha256")):
            result = subprocess.run(
                ["openssl", "s_client", "-connect", "%s:%d" % proxy.address(), "-servername", "localhost", "-sigalgs",
                 algorithm, "-CAfile", self.ca, "-verify_return_error"], input=b"", capture_output=True, timeout=20,
                check=False)
            self.assertIn(f"subject=CN = {kind}".encode(), result.stdout.replace(b"CN=", b"CN = "), result.stderr)

    def test_alpn(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, alpn=["h2", "http/1.1"])
        for offered, agreed in ((["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)):
            self.assertEqual(self.secure(proxy.address(), self.context(alpn=offered)).selected_alpn_protocol(), agreed)
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            self.secure(proxy.address(), self.context(alpn=["spdy/3"]))
        proxy.wait_for(lambda s: s.ended("tls_handshake") == 1)
        proxy.wait_for_output("NO_APPLICATION_PROTOCOL")

    def test_resumption(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(version)
            first = self.secure(proxy.address(), context)
            self.assertEqual(exchange(first, b"x"), b"x")     # Tickets arrive after the handshake.
            self.assertFalse(first.session_reused)
            second = self.secure(proxy.address(), context, session=first.session)
            self.assertTrue(second.session_reused)
            self.assertEqual(exchange(second, b"y"), b"y")
        self.assertEqual(proxy.stats().total("tls_resumed_total"), 2)

    def test_key_update(self):
        """`K` and `k` of s_client renew its keys, and `K` requests new ones."""
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        child = self.keep(Process(["openssl", "s_client", "-connect", "%s:%d" % proxy.address(), "-tls1_3", "-CAfile",
                                    self.ca, "-servername", "localhost"]))
        child.wait_for(b"Verify return code: 0 (ok)\n---")
        for i, command in enumerate((b"K\n", b"k\n", b"K\n", b"K\n")):
            child.write(command)
            time.sleep(0.2)
            child.write(b"line %d\n" % i)
            child.wait_for(b"line %d\n" % i)

    def test_ends_are_forwarded(self):
        """A client's close_notify is an end for the origin; the origin's end is a close_notify for the client."""
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        sock = self.secure(proxy.address())
        self.assertEqual(exchange(sock, b"hello"), b"hello")
        plain = sock.unwrap()                                  # Sends close_notify, waits for the other's.
        self.assertEqual(plain.recv(1), b"")
        plain.close()
        proxy.wait_for(lambda s: s.ended("finished") == 1)
        self.assertEqual(proxy.stats().total("tls_truncated_total"), 0)
        # Without close_notify the stream may have been cut: it is counted, and the origin sees a reset.
        sock = self.secure(proxy.address())
        self.assertEqual(exchange(sock, b"hello"), b"hello")
        sock.shutdown(socket.SHUT_WR)
        proxy.wait_for(lambda s: s.ended("finished") == 1 and s.ended("client_error") == 1)
        self.assertEqual(proxy.stats().total("tls_truncated_total"), 1)

    def test_curl(self):
        harness.need("curl", "nginx")
        response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"

        def serve(sock):
            sock.recv(65536)
            sock.sendall(response)
        origin = self.keep(Origin(serve))
        proxy = self.terminating(origin.address)
        host, port = proxy.address()
        result = subprocess.run(["curl", "-sS", "--cacert", self.ca, "--resolve", f"a.example.com:{port}:{host}",
                                 f"https://a.example.com:{port}/"], capture_output=True, timeout=20, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, b"hello"), result.stderr)


class Idle(TlsTest):

    def test_memory(self):
        self.check_memory(ssl.TLSVersion.TLSv1_3)

    def test_memory_of_tls12(self):
        """Defect: they stayed on their SSL objects, 4 KB each, and 20 KB with a partial record."""
        self.check_memory(ssl.TLSVersion.TLSv1_2)

    def check_memory(self, version):
        """An idle TLS connection takes at most a kibibyte, even with a partial record."""
        # They share the memory that the process allocates once: with 1,000 connections it would be a fifth.
        count = 5000 if harness.LONG else 100 if harness.SANITIZER else 4000
        harness.require(harness.raise_descriptor_limit() >= 2 * count + 200, "too few descriptors")
        origin = self.keep(OriginProcess("echo"))
        proxy = self.proxy(origin.address, listener={"tls": {"certificates": [self.server]}}, cut_allowed=True)
        context = self.context(version)

        def opened():
            plain = connect(proxy.address())
            tls, incoming, outgoing = self.in_memory(plain, context)
            tls.write(b"x")
            record = outgoing.read()
            plain.sendall(record)
            incoming.write(plain.recv(65536))
            return plain, record
        for plain, _ in [opened() for _ in range(50)]:        # Allocates everything that is allocated once.
            plain.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)
        base = proxy.pss()
        most = float("inf") if harness.SANITIZER else base + 1024 * count  # The memory of a sanitizer is not checked.
        connections = [opened() for _ in range(count)]
        time.sleep(2)
        idle = proxy.settled_pss(most)
        proxy.wait_for(lambda s: s.total("pool_pinned_bytes") == 0)
        for plain, record in connections:
            plain.sendall(record[:10])
        time.sleep(2)
        half = proxy.settled_pss(most)
        harness.print_note(f"{count} idle connections of {version.name}: {(idle - base) / count:.0f} bytes each (PSS), "
                           f"with half a record {(half - base) / count:.0f}")
        if not harness.SANITIZER:
            self.assertLessEqual((idle - base) / count, 1024)
            self.assertLessEqual((half - base) / count, 1024)
        for plain, _ in connections:
            plain.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 0, 30)

    def test_partial_record_with_http(self):
        """Defect: an HTTP connection that had become idle and then got a partial record kept the chunk that it was
        in."""
        proxy = self.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "tls": {"certificates": [self.server]},
                           "http": {"routes": [{"respond": {"status": 204}}]}}]})
        connections = []
        for _ in range(50):
            plain = connect(proxy.address())
            tls, incoming, outgoing = self.in_memory(plain)
            tls.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
            tls.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            connections.append((plain, outgoing.read()))
        proxy.wait_for(lambda s: s.total("pool_pinned_bytes") == 0)
        for plain, record in connections:
            plain.sendall(record[:10])
        proxy.wait_for(lambda s: 0 < s.total("pool_pinned_bytes") <= 128 * len(connections))
        for plain, record in connections:
            plain.sendall(record[10:])
            self.assertTrue(plain.recv(65536))
            plain.close()


class ClientCertificates(TlsTest):

    def test_required(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, client_ca=self.ca, client_certificate="require")
        sock = self.secure(proxy.address(), self.context(certificate=True))
        self.assertEqual(exchange(sock, b"hello"), b"hello")
        sock = self.secure(proxy.address())                    # In TLS 1.3 the client learns of it with its first read.
        with self.assertRaisesRegex(ssl.SSLError, "(?i)certificate.required"):
            sock.recv(1)
        proxy.wait_for(lambda s: s.ended("tls_handshake") == 1)
        proxy.wait_for_output("PEER_DID_NOT_RETURN_A_CERTIFICATE")

    def test_requested(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, client_ca=self.ca, client_certificate="request")
        for certificate in (True, False):
            sock = self.secure(proxy.address(), self.context(certificate=certificate))
            self.assertEqual(exchange(sock, b"hello"), b"hello")


class Failures(TlsTest):

    def test_not_tls(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address)
        client = self.keep(connect(proxy.address()))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        self.assertIn(last_outcome(client), ("end", "reset"))
        proxy.wait_for(lambda s: s.ended("tls_handshake") == 1 and s.total("sessions_active") == 0)
        proxy.wait_for_output("HTTP_REQUEST")

    def test_late_handshake(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, handshake_timeout="300ms")
        client = self.keep(connect(proxy.address()))
        client.sendall(b"\x16\x03\x01")
        self.assertIn(last_outcome(client), ("end", "reset"))
        proxy.wait_for(lambda s: s.ended("tls_timeout") == 1)

    def test_old_version(self):
        origin = self.keep(Origin(echo))
        proxy = self.terminating(origin.address, min_version="1.3")
        with self.assertRaisesRegex(ssl.SSLError, "(?i)protocol.version"):
            self.secure(proxy.address(), self.context(ssl.TLSVersion.TLSv1_2))
        proxy.wait_for(lambda s: s.ended("tls_handshake") == 1)

    def test_broken_record(self):
        """The client gets bad_record_mac; the origin sees a reset, since its data is incomplete."""
        outcomes = []

        def serve(sock):
            outcomes.append(last_outcome(sock))
        origin = self.keep(Origin(serve))
        proxy = self.terminating(origin.address)
        plain = self.keep(connect(proxy.address()))
        tls, incoming, outgoing = self.in_memory(plain)
        tls.write(b"hello")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        plain.sendall(record)
        with self.assertRaisesRegex(ssl.SSLError, "(?i)bad.record.mac"):
            while True:
                try:
                    tls.read()
                except ssl.SSLWantReadError:
                    incoming.write(plain.recv(65536))
        proxy.wait_for(lambda s: s.ended("tls_error") == 1 and s.total("sessions_active") == 0)
        harness.wait_until(lambda: outcomes, what="the origin's end")
        self.assertEqual(outcomes, ["reset"])

    def test_broken_record_with_http(self):
        """Defect: it was counted, but not logged. Now there is a line, at most ten a second."""
        proxy = self.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "tls": {"certificates": [self.server]},
                           "http": {"routes": [{"respond": {"status": 204}}]}}]})
        for _ in range(25):
            plain = self.keep(connect(proxy.address()))
            tls, _, outgoing = self.in_memory(plain)
            tls.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            plain.sendall(record)
        stats = proxy.wait_for(lambda s: s.ended("tls_error") == 25 and s.total("sessions_active") == 0)
        self.assertEqual(stats.total("tls_handshakes_total"), 25)
        line = 'listener "main", client 127.0.0.1: TLS with it failed: a record that is not authentic'
        harness.wait_until(lambda: proxy.stderr().count(line) in range(10, 26), what="10 to 25 lines")

    def test_files(self):
        def refused(tls, message, upstream=None):
            config = harness.configuration(["127.0.0.1:1"], listener={"tls": tls} if tls else None, upstream=upstream)
            with self.assertRaises(harness.ProxyError) as caught:
                self.start(config)
            self.assertIn(message, str(caught.exception))
        good = self.server
        refused({"certificates": [{**good, "chain": "/nowhere.pem"}]}, "cannot read /nowhere.pem")
        refused({"certificates": [{**good, "chain": good["key"]}]}, "expected certificates in PEM")
        refused({"certificates": [{**good, "key": good["chain"]}]}, "expected a private key in PEM")
        refused({"certificates": [{**good, "key": self.rsa["key"]}]}, "expected the key of the certificate in")
        refused({"certificates": [good], "client_certificate": "require"}, "needs `client_ca`")
        refused(None, "expected `server_name`", upstream={"tls": {}})


class Origination(TlsTest):

    def tls_origin(self, handler, certificate=None, client_ca=None, version=None, alpn=(), names=None):
        """`names` gets the server name of each ClientHello, None where there is none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if names is not None:
            context.sni_callback = lambda sock, name, context: names.append(name)
        certificate = certificate or self.server
        context.load_cert_chain(certificate["chain"], certificate["key"])
        if alpn:
            context.set_alpn_protocols(alpn)
        if client_ca:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        if version:
            context.minimum_version = context.maximum_version = version

        def serve(sock):
            try:
                with context.wrap_socket(sock, server_side=True) as secured:
                    handler(secured)
            except (ssl.SSLError, OSError):
                pass
        return self.keep(Origin(serve))

    def test_verified(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            origin = self.tls_origin(echo, version=version)
            proxy = self.proxy(origin.address, upstream={"tls": {"ca": self.ca, "server_name": "localhost"}})
            client = self.keep(connect(proxy.address()))
            data = os.urandom(1_000_000)
            self.assertEqual(exchange(client, data), data)

    def test_both_sides(self):
        origin = self.tls_origin(echo, client_ca=self.ca)
        proxy = self.terminating(origin.address, upstream={
            "tls": {"ca": self.ca, "server_name": "localhost", "certificate": self.client}})
        sock = self.secure(proxy.address())
        data = os.urandom(1_000_000)
        self.assertEqual(exchange(sock, data), data)

    def test_untrusted_certificate(self):
        for tls, reason in (({"ca": self.ca, "server_name": "elsewhere.net"}, "CERTIFICATE_VERIFY_FAILED"),
                            ({"ca": self.client["chain"], "server_name": "localhost"}, "CERTIFICATE_VERIFY_FAILED")):
            origin = self.tls_origin(echo)
            proxy = self.proxy(origin.address, upstream={"tls": tls})
            self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
            proxy.wait_for(lambda s: s.ended("no_endpoint") == 1 and s.connect_errors("tls") == 1)
            proxy.wait_for_output(reason)

    def test_addresses(self):
        """Defect: an address was sent as if it were a name, and not compared with the addresses of the certificate."""
        by_address = self.files.make("by_address", "127.0.0.1", "::1")
        seen = []
        for name, believed in (("127.0.0.1", True), ("::1", True), ("127.0.0.2", False), ("localhost", False)):
            with self.subTest(name):
                origin = self.tls_origin(echo, by_address, names=seen)
                proxy = self.proxy(origin.address, upstream={"tls": {"ca": self.ca, "server_name": name}})
                if believed:
                    self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")
                    self.assertIsNone(seen[-1], "An address is not sent (RFC 6066 section 3)")
                else:
                    self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
                    proxy.wait_for_output("CERTIFICATE_VERIFY_FAILED")

    def test_verify_names(self):
        """The certificate must have one of `verify_names`, whatever name is sent: DNS, IP address or URI; wildcards of
        the certificate count. A resumed session is one that was verified."""
        uri = "spiffe://mesh/ns/app"
        certificate = self.files.make("named", names=f"URI:{uri},DNS:*.mesh.internal,IP:127.0.0.9")
        seen = []
        for names, sent, believed in (
                ([uri], None, True), (["other.net", uri], "front.net", True), (["app.mesh.internal"], "front.net", True),
                (["127.0.0.9"], None, True), (["spiffe://mesh/ns/ap"], None, False), (["a.app.mesh.internal"], None, False),
                (["127.0.0.8", "localhost"], "app.mesh.internal", False)):
            with self.subTest(names=names):
                origin = self.tls_origin(echo, certificate, names=seen)
                tls = {"ca": self.ca, "verify_names": names, **({"server_name": sent} if sent else {})}
                proxy = self.proxy(origin.address, upstream={"tls": tls})
                if believed:
                    for _ in range(3):
                        self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")
                    self.assertEqual(seen[-1], sent)
                else:
                    self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
                    proxy.wait_for_output('; expected "' + '" or "'.join(names) + '"')

    def test_system_authorities(self):
        """The system's authorities are trusted if no others are configured; SSL_CERT_FILE and SSL_CERT_DIR say where
        they are."""
        origin = self.tls_origin(echo)
        config = harness.configuration([origin.address], upstream={"tls": {"server_name": "localhost"}})
        folder = self.temporary_directory()
        shutil.copy(self.ca, folder)
        subprocess.run(["openssl", "rehash", folder], check=True, capture_output=True, timeout=20)
        for environment in ({"SSL_CERT_FILE": self.ca}, {"SSL_CERT_DIR": folder}):
            proxy = self.start(config, environment=environment)
            self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")
        # Neither the client's certificate alone nor Debian's authorities verify the test's authority.
        for environment in ({"SSL_CERT_FILE": self.client["chain"]}, {}):
            if not environment and not os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
                continue
            proxy = self.start(config, environment=environment)
            self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
            proxy.wait_for_output("CERTIFICATE_VERIFY_FAILED")
        with self.assertRaises(harness.ProxyError) as caught:
            self.start(config, environment={"SSL_CERT_FILE": "/nowhere.pem"})
        self.assertIn("SSL_CERT_FILE=/nowhere.pem: expected CA certificates in PEM", str(caught.exception))

    def test_without_verification(self):
        origin = self.tls_origin(echo)
        proxy = self.proxy(origin.address, upstream={"tls": {"verify": False}})
        self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")

    def test_broken_record_before_settings(self):
        """An endpoint that speaks HTTP/2. Defect: the requests that waited for the settings got no error, and hung."""
        def break_off(secured):
            os.write(secured.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)  # Not through the TLS of Python.
            last_outcome(secured)
        origin = self.tls_origin(break_off, alpn=["h2"])
        config = harness.configuration(
            [origin.address], upstream={"protocol": "http2", "tls": {"ca": self.ca, "server_name": "localhost"}})
        config["listeners"][0]["http"] = config["listeners"][0].pop("tcp")
        proxy = self.start(config)
        client = self.keep(connect(proxy.address()))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.settimeout(10 * SLOWNESS)
        self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 503 "))
        proxy.wait_for_output(f"endpoint {origin.address} cannot be connected to (TLS failed: ")
        self.assertGreater(proxy.stats().connect_errors("tls"), 0)

    def test_broken_record_in_response(self):
        """Defect: with HTTP, a record that could not be opened was counted, but not logged."""
        def break_off(secured):
            secured.recv(65536)
            os.write(secured.fileno(), b"\x17\x03\x03\x00\x20" + b"x" * 32)  # Not through the TLS of Python.
            last_outcome(secured)
        origin = self.tls_origin(break_off)
        config = harness.configuration([origin.address], upstream={"tls": {"ca": self.ca, "server_name": "localhost"}})
        config["listeners"][0]["http"] = config["listeners"][0].pop("tcp")
        proxy = self.start(config)
        client = self.keep(connect(proxy.address()))
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        client.settimeout(10 * SLOWNESS)
        self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 50"))
        proxy.wait_for_output(f"TLS with {origin.address} failed: a record that is not authentic")

    def test_endpoint_without_tls_is_passed_over(self):
        plain = self.keep(Origin(lambda sock: sock.recv(65536) and sock.sendall(b"220 hello\r\n")))
        good = self.tls_origin(echo)
        proxy = self.proxy(plain.address, good.address, upstream={"tls": {"ca": self.ca, "server_name": "localhost"}})
        for _ in range(2):
            self.assertEqual(exchange(self.keep(connect(proxy.address())), b"hello"), b"hello")
        self.assertEqual(proxy.stats().connect_errors("tls"), 1)


if __name__ == "__main__":
    harness.main()
