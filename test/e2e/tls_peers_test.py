"""TLS with real programs on both sides: openssl, Go's crypto/tls, GnuTLS, curl and nginx, Chromium."""

import base64
import hashlib
import os
import re
import subprocess
import threading
import time

import harness
from harness import MIB, SLOWNESS, need
from origins import Origin, connect, echo, free_port, outcome_of_connecting, receive_exactly
from programs import Nginx, certificate
from tls_support import GoPeer, Process, TlsTest

CIPHERS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CIPHERS_12 = tuple(f"ECDHE-{kind}-{cipher}" for kind in ("ECDSA", "RSA")
                   for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"))
SUITES = ([("-tls1_3", "-ciphersuites", name) for name in CIPHERS_13] +
          [("-tls1_2", "-cipher", name) for name in CIPHERS_12])
VERSIONS = ("-tls1_3", "-tls1_2")
# The names that openssl takes, and those that it prints.
GROUPS = {"X25519": b"X25519", "P-256": b"prime256v1", "P-384": b"secp384r1"}


class PeersTest(TlsTest):

    def originating(self, *endpoints, cut_allowed=False, **tls):
        return self.proxy(*endpoints, upstream={"tls": {"ca": self.ca, "server_name": "localhost", **tls}},
                          cut_allowed=cut_allowed)

    def both(self, *endpoints, cut_allowed=False):
        return self.terminating(*endpoints, upstream={"tls": {"ca": self.ca, "server_name": "localhost"}},
                                cut_allowed=cut_allowed)

    def call(self, *arguments, seconds=60, check=True, **options):
        result = subprocess.run(arguments, capture_output=True, timeout=seconds * SLOWNESS, check=False, **options)
        if check:
            self.assertEqual(result.returncode, 0, result.stderr)
        return result


class OpensslClient(PeersTest):
    """s_client in front of a proxy that terminates TLS."""

    def s_client(self, proxy, *options):
        return self.keep(Process(["openssl", "s_client", "-connect", "%s:%d" % proxy.address(), "-CAfile", self.ca,
                                  "-servername", "localhost", "-verify_return_error", *options]))

    def check_lines(self, proxy, *options, size=50_000):
        """Opens a connection on which lines are echoed. Returns the output of s_client."""
        client = self.s_client(proxy, *options)
        client.wait_for(b"Verify return code: 0 (ok)")
        lines = b"".join(b"line %d\n" % i for i in range(size // 10))
        client.write(lines)
        client.wait_for(b"line %d\n" % (size // 10 - 1))
        time.sleep(0.02)
        client.write(b"Q\n")
        client.child.wait(10 * SLOWNESS)
        client.wait_for(b"DONE\n")
        # Session tickets are printed in between, so only the lines themselves are compared.
        came = b"".join(re.findall(rb"line \d+\n", client.output))
        self.assertTrue(came == lines, client.output[:4000])
        return client.output

    def refused(self, proxy, *options):
        client = self.s_client(proxy, *options)
        client.child.wait(10 * SLOWNESS)
        harness.wait_until(lambda: b"alert" in client.output, what="an alert")
        return client.output

    def test_ciphers(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for options in SUITES:
            with self.subTest(options[-1]):
                self.assertIn(b"Cipher is " + options[-1].encode(), self.check_lines(proxy, *options))
        self.assertEqual(proxy.stats().total("tls_handshakes_total"), len(SUITES))

    def test_groups(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for version in VERSIONS:
            for group, printed in GROUPS.items():
                with self.subTest(group=group, version=version):
                    output = self.check_lines(proxy, version, "-groups", group)
                    self.assertRegex(output, rb"Temp Key: (ECDH, )?" + printed)

    def test_hello_retry_request(self):
        """The client's first key share is of a group that the server does not have."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        client = self.s_client(proxy, "-tls1_3", "-groups", "P-521:P-384", "-msg")
        client.wait_for(b"Temp Key: ECDH, secp384r1")
        client.wait_for(b"Verify return code: 0 (ok)")
        self.assertEqual(client.output.count(b", ClientHello"), 2)

    def test_no_common_group(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for version in VERSIONS:
            self.assertIn(b"handshake failure", self.refused(proxy, version, "-groups", "P-521", "-cipher", "ECDHE"))
        proxy.wait_for(lambda s: s.ended("tls_handshake") == 2)

    def test_refused_clients(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for options, alert in ((("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), b"alert protocol version"),
                               (("-tls1_2", "-fallback_scsv"), b"alert inappropriate fallback"),
                               (("-tls1_3", "-sigalgs", "ed25519"), b"alert handshake failure")):
            self.assertIn(alert, self.refused(proxy, *options))
        client = self.s_client(proxy, "-tls1_2")
        client.wait_for(b"Verify return code: 0 (ok)")
        client.write(b"R\n")
        client.wait_for(b"alert no renegotiation")
        proxy.wait_for(lambda s: s.ended("tls_error") == 1 and s.ended("tls_handshake") == 3)

    def test_small_fragments(self):
        """It sends small records. It also requests small ones, which it does not get, and accepts that."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for version in VERSIONS:
            self.check_lines(proxy, version, "-max_send_frag", "512")
            self.check_lines(proxy, version, "-maxfraglen", "512")

    def test_resumption(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for version in VERSIONS:
            with self.subTest(version):
                file = os.path.join(self.temporary_directory(), "session")
                self.assertIn(b"\nNew, ", self.check_lines(proxy, version, "-sess_out", file))
                for _ in range(2):
                    self.assertIn(b"\nReused, ", self.check_lines(proxy, version, "-sess_in", file))
        # There is no resumption without tickets.
        self.assertIn(b"\nNew, ", self.check_lines(proxy, "-tls1_2", "-no_ticket", "-sess_out", file))
        self.assertIn(b"\nNew, ", self.check_lines(proxy, "-tls1_2", "-no_ticket", "-sess_in", file))
        self.assertEqual(proxy.stats().total("tls_resumed_total"), 4)

    def test_session_of_another_proxy(self):
        """Its ticket cannot be decrypted: the handshake is a full one."""
        origin = self.keep(Origin(echo))
        for version in VERSIONS:
            file = os.path.join(self.temporary_directory(), "session")
            self.check_lines(self.terminating(origin.address), version, "-sess_out", file)
            self.assertIn(b"\nNew, ", self.check_lines(self.terminating(origin.address), version, "-sess_in", file))

    def test_early_data(self):
        """Our tickets allow no early data. With another server's ticket the client sends it, and it is skipped."""
        proxy = self.terminating(self.keep(Origin(echo)).address)
        folder = self.temporary_directory()
        early, ours, theirs = (os.path.join(folder, name) for name in ("early", "ours", "theirs"))
        with open(early, "wb") as file:
            file.write(b"early words\n" * 500)
        self.check_lines(proxy, "-tls1_3", "-sess_out", ours)
        self.assertIn(b"Early data was not sent", self.check_lines(proxy, "-tls1_3", "-sess_in", ours, "-early_data", early))
        port = free_port()
        server = self.keep(Process(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-tls1_3", "-early_data",
                                    "-cert", self.server["chain"], "-key", self.server["key"]]))
        server.wait_for(b"ACCEPT\n")
        client = self.keep(Process(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", self.ca,
                                    "-servername", "localhost", "-sess_out", theirs]))
        client.wait_for(b"Verify return code: 0 (ok)")
        # A server with early data lets s_client finish its handshake.
        client.write(b"any\n")
        harness.wait_until(lambda: os.path.exists(theirs), what="the session")
        client.child.stdin.close()  # A command would count only alone.
        client.child.wait(10 * SLOWNESS)
        client.wait_for(b"Max Early Data: 16384")
        output = self.check_lines(proxy, "-tls1_3", "-sess_in", theirs, "-early_data", early)
        self.assertIn(b"Early data was rejected", output)
        self.assertNotIn(b"early words", output)
        self.assertEqual(proxy.stats().total("tls_handshakes_total"), 3)

    def test_client_certificates(self):
        proxy = self.terminating(self.keep(Origin(echo)).address, client_ca=self.ca, client_certificate="require")
        mine = ("-cert", self.client["chain"], "-key", self.client["key"])
        for version, alert in zip(VERSIONS, (b"certificate required", b"handshake failure")):
            with self.subTest(version):
                output = self.check_lines(proxy, version, *mine)
                self.assertIn(b"Acceptable client certificate CA names\nCN = test authority", output)
                file = os.path.join(self.temporary_directory(), "session")
                self.check_lines(proxy, version, *mine, "-sess_out", file)
                self.assertIn(b"\nReused, ", self.check_lines(proxy, version, *mine, "-sess_in", file))
                self.assertIn(alert, self.refused(proxy, version))
        self.assertEqual(proxy.stats().ended("tls_handshake"), 2)

    def test_client_certificate_of_another_authority(self):
        folder = self.temporary_directory()
        chain, key = certificate(folder, "stranger")
        proxy = self.terminating(self.keep(Origin(echo)).address, client_ca=self.ca, client_certificate="request")
        for version in VERSIONS:
            self.assertIn(b"unknown ca", self.refused(proxy, version, "-cert", chain, "-key", key))
        proxy.wait_for_output("CERTIFICATE_VERIFY_FAILED")

    def test_key_updates(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for cipher in CIPHERS_13:
            client = self.s_client(proxy, "-tls1_3", "-ciphersuites", cipher)
            client.wait_for(b"Verify return code: 0 (ok)")
            updates = 0
            for i in range(60):
                for command in (b"K\n", b"k\n")[:1 + i % 2]:
                    client.write(command)
                    updates += 1
                    harness.wait_until(lambda: client.output.count(b"KEYUPDATE") == updates, what="the key update")
                client.write(b"line %d\n" % i)
                client.wait_for(b"line %d\n" % i)


class OpensslServer(PeersTest):
    """s_server behind a proxy that originates TLS."""

    def s_server(self, *options, certificate=None, commands=True):
        """Returns its address. Without `commands` it returns lines reversed."""
        certificate = certificate or self.server
        port = free_port()
        self.child = self.keep(Process(["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert",
                                        certificate["chain"], "-key", certificate["key"], *options,
                                        *(() if commands else ("-rev",))]))
        self.child.wait_for(b"ACCEPT\n")
        return f"127.0.0.1:{port}"

    def reversed_lines(self, proxy):
        client = self.keep(connect(proxy.address()))
        for i in range(50):
            line = b"%04d" % i + b"x" * (i * 20)
            client.sendall(line + b"\n")
            self.assertEqual(receive_exactly(client, len(line) + 1), line[::-1] + b"\n")

    def test_ciphers(self):
        for options in SUITES:
            with self.subTest(options[-1]):
                certificate = self.rsa if "-RSA-" in options[-1] else self.server
                proxy = self.originating(self.s_server(*options, certificate=certificate, commands=False))
                self.reversed_lines(proxy)
                self.child.wait_for(b"Ciphersuite: " + options[-1].encode())

    def test_groups(self):
        for version in VERSIONS:
            for group, printed in GROUPS.items():
                with self.subTest(group=group, version=version):
                    proxy = self.originating(self.s_server(version, "-groups", group, "-msg", commands=False))
                    self.reversed_lines(proxy)
                    # The proxy sends a key share of the first group only, and gets a request for another.
                    hellos = 2 if version == "-tls1_3" and group != "X25519" else 1
                    self.assertEqual(self.child.output.count(b", ClientHello"), hellos)

    def test_resumption(self):
        for version in VERSIONS:
            with self.subTest(version):
                proxy = self.proxy(self.s_server(version), workers=1,
                                   upstream={"tls": {"ca": self.ca, "server_name": "localhost"}})
                for i in range(3):
                    with connect(proxy.address()) as client:
                        harness.wait_until(lambda: self.child.output.count(b"Secure Renegotiation IS") == i + 1,
                                           what="a connection")
                        self.child.write(b"line %d\n" % i)   # Tickets arrive with it.
                        self.assertEqual(receive_exactly(client, 7), b"line %d\n" % i)
                    proxy.wait_for(lambda s: s.total("sessions_active") == 0)
                self.assertEqual(self.child.output.count(b"Reused session-id"), 2)

    def test_key_updates(self):
        """Both peers' keys change while lines are sent in both directions."""
        proxy = self.originating(self.s_server("-tls1_3"))
        client = self.keep(connect(proxy.address()))
        up = [b"up %d\n" % i for i in range(2000)]

        def send():
            for line in up:
                client.sendall(line)
                time.sleep(0.001)
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        self.child.wait_for(up[0])
        for i in range(100):
            # s_server accepts a command only alone.
            self.child.write(b"K\n" if i % 2 else b"k\n")
            harness.wait_until(lambda: self.child.output.count(b"SSL_do_handshake -> 1") == i + 1, what="new keys")
            self.child.write(b"down %d\n" % i)
            self.assertEqual(receive_exactly(client, len(b"down %d\n" % i)), b"down %d\n" % i)
        self.child.wait_for(up[-1])
        sender.join()
        self.assertEqual(b"".join(re.findall(rb"up \d+\n", self.child.output)), b"".join(up))

    def test_client_certificate(self):
        """The server requires a certificate."""
        for version in VERSIONS:
            with self.subTest(version):
                options = (version, "-Verify", "1", "-verify_return_error", "-CAfile", self.ca)
                self.reversed_lines(self.originating(self.s_server(*options, commands=False), certificate=self.client))
                self.child.wait_for(b"CN = client")
                proxy = self.originating(self.s_server(*options, commands=False))
                self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
                # In TLS 1.3 the client learns of it after its handshake.
                reason = "upstream_error" if version == "-tls1_3" else "no_endpoint"
                proxy.wait_for(lambda s: s.ended(reason) == 1)
                proxy.wait_for_output("certificate_required" if version == "-tls1_3" else "HANDSHAKE_FAILURE")


class Go(PeersTest):

    def options(self, certificate=None):
        certificate = certificate or self.server
        return {"certificate": certificate["chain"], "key": certificate["key"]}

    def check(self, client, server, size):
        """Everything that one side sent has arrived at the other."""
        for report in (client, server):
            self.assertEqual(report["Error"], "")
            self.assertEqual(report["SentBytes"], size)
        self.assertEqual(client["SentHash"], server["ReceivedHash"])
        self.assertEqual(server["SentHash"], client["ReceivedHash"])

    def pairs(self, size, client=None, server=None, **common):
        """TLS to the proxy, from the proxy, and both. Returns the reports of the client and the server."""
        for kind in ("terminated", "spoken", "both"):
            with self.subTest(kind, **{**common, **(client or {})}):
                origin = self.keep(GoPeer(send=size, plain=kind == "terminated", **self.options(), **common,
                                          **(server or {})))
                start = {"terminated": self.terminating, "spoken": self.originating, "both": self.both}[kind]
                proxy = start(origin.address)
                mine, = GoPeer.client(proxy.address(), plain=kind == "spoken", ca=self.ca, send=size, **common,
                                      **(client or {}))
                self.assertEqual(mine["Error"], "")
                theirs = origin.report()
                self.check(mine, theirs, size)
                proxy.wait_for(lambda s: s.ended("finished") == 1)
                self.assertEqual(proxy.stats().total("tls_truncated_total"), 0)
                yield kind, mine, theirs

    def test_versions_and_groups(self):
        for version, group in (("1.3", ""), ("1.3", "X25519MLKEM768"), ("1.3", "X25519"), ("1.3", "P-256"),
                               ("1.3", "P-384"), ("1.2", ""), ("1.2", "X25519"), ("1.2", "P-256"), ("1.2", "P-384")):
            for kind, client, server in self.pairs(300_000, version=version, group=group):
                for end in (client if kind != "spoken" else None, server if kind != "terminated" else None):
                    self.assertIn(end and end["Version"], (None, "TLS " + version))

    def test_closing_orders(self):
        """Each end may have sent everything and its end before the other begins."""
        for version in ("1.2", "1.3"):
            for _ in self.pairs(20 * MIB, version=version):
                pass
            for _ in self.pairs(5 * MIB, version=version, client={"after_end": True}):
                pass
            for _ in self.pairs(5 * MIB, version=version, server={"after_end": True}):
                pass

    def test_small_writes(self):
        for version in ("1.2", "1.3"):
            for _ in self.pairs(1_000_000, version=version, pieces=99):
                pass

    def test_both_certificates(self):
        for version in ("1.2", "1.3"):
            origin = self.keep(GoPeer(**self.options(), ca=self.ca, version=version))
            proxy = self.terminating(origin.address, client_ca=self.ca, client_certificate="require", upstream={
                "tls": {"ca": self.ca, "server_name": "localhost", "certificate": self.client}})
            report, = GoPeer.client(proxy.address(), ca=self.ca, version=version, **self.options(self.client))
            self.assertEqual((report["Error"], report["Peer"]), ("", "server"))
            self.assertEqual(origin.report()["Peer"], "client")
            report, = GoPeer.client(proxy.address(), ca=self.ca, version=version)
            self.assertIn("certificate required" if version == "1.3" else "handshake failure", report["Error"])

    def test_resumption(self):
        for version in ("1.2", "1.3"):
            origin = self.keep(GoPeer(send=1000, plain=True))
            proxy = self.terminating(origin.address)
            reports = GoPeer.client(proxy.address(), ca=self.ca, version=version, send=1000, connections=5)
            self.assertEqual([report["Resumed"] for report in reports], [False] + [True] * 4)
            # The origin reports connections in the order in which they ended there.
            theirs = {report["ReceivedHash"]: report for report in (origin.report() for _ in reports)}
            for report in reports:
                self.check(report, theirs[report["SentHash"]], 1000)
            self.assertEqual(proxy.stats().total("tls_resumed_total"), 4)

    def test_resumption_with_an_endpoint(self):
        for version in ("1.2", "1.3"):
            origin = self.keep(GoPeer(send=1000, version=version, **self.options()))
            proxy = self.originating(origin.address)
            for resumed in (False, True, True):
                report, = GoPeer.client(proxy.address(), plain=True, send=1000)
                theirs = origin.report()
                self.check(report, theirs, 1000)
                self.assertEqual(theirs["Resumed"], resumed)

    def test_alpn(self):
        origin = self.keep(GoPeer(**self.options(), alpn="two,one"))
        proxy = self.terminating(origin.address, alpn=["h2", "http/1.1"], upstream={
            "tls": {"ca": self.ca, "server_name": "localhost", "alpn": ["one", "two"]}})
        for offered, agreed in (("http/1.1,h2", "h2"), ("http/1.1", "http/1.1"), ("", "")):
            report, = GoPeer.client(proxy.address(), ca=self.ca, alpn=offered)
            self.assertEqual((report["Error"], report["Protocol"]), ("", agreed))
            self.assertEqual(origin.report()["Protocol"], "two")
        report, = GoPeer.client(proxy.address(), ca=self.ca, alpn="spdy/3")
        self.assertIn("no application protocol", report["Error"])


class GnuTls(PeersTest):

    PRIORITIES = ("NORMAL:-VERS-ALL:+VERS-TLS1.3", "NORMAL:-VERS-ALL:+VERS-TLS1.2")

    def gnutls_cli(self, proxy, *options):
        # Into a pipe it would write block by block.
        return self.keep(Process(["stdbuf", "-oL", need("gnutls-cli"), "--port", str(proxy.port()), "--x509cafile",
                                  self.ca, "--sni-hostname", "localhost", "--verify-hostname", "localhost", *options,
                                  "127.0.0.1"]))

    def check_lines(self, client, lines=100):
        client.wait_for(b"Handshake was completed")
        for i in range(lines):
            client.write(b"line %d\n" % i)
            client.wait_for(b"line %d\n" % i)

    def test_versions_and_ciphers(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for cipher, printed in (("AES-128-GCM", b"AES-128-GCM"), ("AES-256-GCM", b"AES-256-GCM"),
                                ("CHACHA20-POLY1305", b"CHACHA20-POLY1305")):
            for priority in self.PRIORITIES:
                with self.subTest(cipher=cipher, priority=priority):
                    client = self.gnutls_cli(proxy, "--priority", f"{priority}:-CIPHER-ALL:+{cipher}")
                    self.check_lines(client)
                    self.assertRegex(client.output, rb"Description: .*" + printed)

    def test_resumption(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        for number, priority in enumerate(self.PRIORITIES, 1):
            client = self.gnutls_cli(proxy, "--priority", priority, "--resume", "--waitresumption")
            client.wait_for(b"This is a resumed session", 20)
            client.write(b"hello\n")
            client.wait_for(b"hello\n")
            proxy.wait_for(lambda s: s.total("tls_resumed_total") == number)

    def test_client_certificate(self):
        proxy = self.terminating(self.keep(Origin(echo)).address, client_ca=self.ca, client_certificate="require")
        for priority in self.PRIORITIES:
            self.check_lines(self.gnutls_cli(proxy, "--priority", priority, "--x509certfile", self.client["chain"],
                                             "--x509keyfile", self.client["key"]))

    def test_key_updates(self):
        proxy = self.terminating(self.keep(Origin(echo)).address)
        client = self.gnutls_cli(proxy, "--priority", self.PRIORITIES[0], "--inline-commands")
        client.wait_for(b"Handshake was completed")
        for i in range(20):
            time.sleep(0.1)  # It accepts eight responses a second.
            client.write((b"^rekey^\n", b"^rekey1^\n")[i % 2])
            harness.wait_until(lambda: client.output.count(b"Rekey was completed") == i + 1, what="the key update")
            client.write(b"line %d\n" % i)
            client.wait_for(b"line %d\n" % i)

    def test_small_record_size(self):
        """It requests small records (RFC 8449), which BoringSSL does not support; then it accepts large ones."""
        response = b"x" * 300_000 + b"end\n"
        proxy = self.terminating(self.keep(Origin(lambda sock: (sock.recv(100), sock.sendall(response)))).address)
        for priority in self.PRIORITIES:
            client = self.gnutls_cli(proxy, "--priority", priority, "--recordsize", "512")
            client.wait_for(b"Handshake was completed")
            client.write(b"hello\n")
            client.wait_for(response[-1000:])

    def test_server(self):
        for priority in self.PRIORITIES:
            for options in ((), ("--require-client-cert", "--verify-client-cert"), ("--recordsize", "512")):
                with self.subTest(priority=priority, options=options):
                    port = free_port()
                    server = self.keep(Process([
                        need("gnutls-serv"), "--port", str(port), "--echo", "--priority", priority, "--x509cafile",
                        self.ca, "--x509certfile", self.server["chain"], "--x509keyfile", self.server["key"], *options]))
                    server.wait_for(b"IPv4 0.0.0.0 port %d...done" % port)
                    proxy = self.originating(f"127.0.0.1:{port}", certificate=self.client)
                    client = self.keep(connect(proxy.address()))
                    for i in range(50):
                        line = b"line %d" % i + b"x" * 100 + b"\n"
                        client.sendall(line)
                        self.assertEqual(receive_exactly(client, len(line)), line)
                    client.close()
                    proxy.wait_for(lambda s: s.total("sessions_active") == 0)


class Web(PeersTest):
    """HTTP/1.1 by nginx, behind a proxy that terminates TLS."""

    def nginx(self, **options):
        port = free_port()
        self.site = self.temporary_directory()
        os.chmod(self.site, 0o755)
        os.mkdir(os.path.join(self.site, "put"))
        self.keep(Nginx([("127.0.0.1", port)], f"""
            types {{ text/html html; text/css css; text/javascript js; image/svg+xml svg; }}
            server {{ listen 127.0.0.1:{port}; root {self.site}; client_max_body_size 1g; client_body_buffer_size 16k;
                      location /put/ {{ dav_methods PUT; }} }}"""))
        return self.terminating(f"127.0.0.1:{port}", **options)

    def write(self, name, data):
        with open(os.path.join(self.site, name), "wb") as file:
            file.write(data)
        return data

    def written(self, name):
        with open(os.path.join(self.site, name), "rb") as file:
            return file.read()

    def curl(self, proxy, *arguments, **options):
        return self.call(need("curl"), "-sS", "--fail", "--http1.1", "--cacert", self.ca, "--resolve",
                         f"a.example.com:{proxy.port()}:127.0.0.1", *arguments, **options).stdout

    def test_curl(self):
        proxy = self.nginx()
        url = f"https://a.example.com:{proxy.port()}"
        for version in (("--tlsv1.3",), ("--tls-max", "1.2")):
            for size in (0, 1, 1460, 16384, 1_000_003, 20 * MIB):
                with self.subTest(version=version, size=size):
                    body = self.write("body", os.urandom(size))
                    self.assertTrue(self.curl(proxy, *version, url + "/body") == body)
                    self.curl(proxy, *version, "-T", "-", f"{url}/put/{size}", input=body)
                    self.assertTrue(self.written(f"put/{size}") == body)

    def test_curl_reuses_connections_and_sessions(self):
        proxy = self.nginx()
        body = self.write("body", os.urandom(100_000))
        url, out = f"https://a.example.com:{proxy.port()}/body?[1-5]", self.temporary_directory()
        # (curl does not resume sessions of TLS 1.2 with nginx either.)
        for version in (("--tlsv1.3",), ("--tls-max", "1.2")):
            options = (*version, "-o", f"{out}/#1", "-w", "%{num_connects}", url)
            self.assertEqual(self.curl(proxy, *options), b"10000")
            self.assertEqual(self.curl(proxy, *options, "-H", "Connection: close"), b"11111")
            for number in range(1, 6):
                with open(f"{out}/{number}", "rb") as file:
                    self.assertTrue(file.read() == body)
        self.assertEqual(proxy.stats().total("tls_resumed_total"), 4)

    def test_curl_parallel(self):
        proxy = self.nginx(client_ca=self.ca, client_certificate="require")
        body = self.write("body", os.urandom(MIB))
        out = self.temporary_directory()
        self.curl(proxy, "--parallel", "--parallel-max", "20", "--cert", self.client["chain"], "--key",
                  self.client["key"], "-o", f"{out}/#1", f"https://a.example.com:{proxy.port()}/body?[1-40]")
        for number in range(1, 41):
            with open(f"{out}/{number}", "rb") as file:
                self.assertTrue(file.read() == body)

    def test_chromium(self):
        """A page with a style, scripts, an image, downloads and an upload, whose text says what arrived."""
        chromium = need("chromium")
        proxy = self.nginx(alpn=["http/1.1"])
        data = self.write("data", os.urandom(3 * MIB))
        self.write("style.css", b"#styled { width: 77px }")
        self.write("script.js", b"const scripted = 'scripted';")
        self.write("image.svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="33" height="44"/>')
        self.write("index.html", b"""<!DOCTYPE html><link rel=stylesheet href=style.css><script src=script.js></script>
            <div id=styled></div><img id=image src=image.svg><p id=result>nothing</p><script>
            const hex = b => Array.from(new Uint8Array(b), x => x.toString(16).padStart(2, '0')).join('');
            const load = async n => (await fetch('data?' + n)).arrayBuffer();
            const get = async n => hex(await crypto.subtle.digest('SHA-256', await load(n)));
            onload = async () => {
              let outcome;
              try {
                const hashes = await Promise.all([...Array(12).keys()].map(get));
                const upload = await fetch('put/upload', {method: 'PUT', body: await load(99)});
                outcome = [scripted, styled.offsetWidth, image.naturalWidth, upload.status, new Set(hashes).size,
                        hashes[0], performance.getEntriesByType('navigation')[0].nextHopProtocol].join(' ');
              } catch (error) { outcome = error; }
              result.textContent = 'said: ' + outcome;
            }</script>""")
        key = self.call("openssl", "x509", "-in", self.server["chain"], "-pubkey", "-noout").stdout
        key = self.call("openssl", "pkey", "-pubin", "-outform", "DER", input=key).stdout
        pin = base64.b64encode(hashlib.sha256(key).digest()).decode()
        for version in ("tls1.3", "tls1.2"):
            with self.subTest(version):
                folder = self.temporary_directory()
                result = self.call(
                    chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                    f"--user-data-dir={folder}", f"--ignore-certificate-errors-spki-list={pin}",
                    f"--ssl-version-max={version}",
                    "--host-resolver-rules=MAP a.example.com 127.0.0.1, MAP * ~NOTFOUND",
                    "--timeout=20000", "--virtual-time-budget=60000", "--dump-dom",
                    f"https://a.example.com:{proxy.port()}/index.html", check=False, env={**os.environ, "HOME": folder})
                shown = re.search(rb"said: ([^<]*)", result.stdout)
                self.assertTrue(shown, (result.stdout + result.stderr).decode(errors="replace")[-4000:])
                self.assertEqual(shown[1].decode(), f"scripted 77 33 201 1 {hashlib.sha256(data).hexdigest()} http/1.1")
                self.assertTrue(self.written("put/upload") == data)
                os.remove(os.path.join(self.site, "put/upload"))
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)


if __name__ == "__main__":
    harness.main()
