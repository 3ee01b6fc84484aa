"""Support for tests of TLS: an authority and its certificates, proxies that terminate TLS, clients, programs on pipes,
and Go's TLS."""

import atexit
import contextlib
import json
import os
import queue
import re
import select
import shutil
import ssl
import subprocess
import tempfile
import threading
import time

import harness
from harness import SLOWNESS
from origins import PATIENCE_SECONDS, connect


class Certificates:
    """A small certificate authority and the certificates it signed, as files."""

    def __init__(self, folder):
        self.folder = folder
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                 "-out", "ca.pem", "-subj", "/CN=test authority", "-days", "2")

    def run(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, *hosts, kind="ec", days=2, names=None):
        """Signs a certificate for `hosts`, names and addresses, or for `names` in the notation of OpenSSL's
        configuration. Returns the part of a configuration that names its files."""
        key = ("-newkey", "rsa:2048") if kind == "rsa" else ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        with open(self.path(name + ".ext"), "w", encoding="utf-8") as file:
            kinds = (("IP:" if re.fullmatch(r"[0-9.]+|.*:.*", host) else "DNS:") + host for host in hosts)
            names = names or ",".join(kinds) or "email:client@example.com"
            file.write(f"subjectAltName={names}\n")
        self.run("req", *key, "-nodes", "-keyout", name + ".key", "-out", name + ".csr", "-subj", f"/CN={name}")
        self.run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                 name + ".pem", "-days", str(days), "-extfile", name + ".ext")
        return {"chain": self.path(name + ".pem"), "key": self.path(name + ".key")}


    def staple(self, certificate, path, status="V", days=1):
        """Writes an OCSP response: V or R (revoked), valid for `days`."""
        subject = subprocess.run(["openssl", "x509", "-in", certificate["chain"], "-noout", "-serial"],
                                 capture_output=True, text=True, check=True, timeout=20).stdout
        serial = re.search("serial=(.*)", subject)[1]
        revoked = "700101000000Z" if status == "R" else ""
        with open(self.path("index.txt"), "w", encoding="ascii") as file:
            file.write(f"{status}\t991231235959Z\t{revoked}\t{serial}\tunknown\t/CN=any\n")
        self.run("ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key", "-issuer",
                 "ca.pem", "-cert", certificate["chain"], "-ndays", str(days), "-respout", path)


class TlsTest(harness.SluiceTest):

    @classmethod
    def setUpClass(cls):
        harness.need("openssl")
        super().setUpClass()
        cls.folder = tempfile.mkdtemp()
        cls.files = Certificates(cls.folder)
        cls.server = cls.files.make("server", "localhost", "a.example.com")
        cls.rsa = cls.files.make("rsa", "localhost", "a.example.com", kind="rsa")
        cls.wildcard = cls.files.make("wildcard", "*.example.org")
        cls.client = cls.files.make("client")
        cls.ca = cls.files.path("ca.pem")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        super().tearDownClass()

    def terminating(self, origin, cut_allowed=False, upstream=None, arguments=(), **tls):
        return self.proxy(origin, listener={"tls": {"certificates": [self.server, self.rsa, self.wildcard], **tls}},
                          upstream=upstream, cut_allowed=cut_allowed, arguments=arguments)

    def context(self, version=None, alpn=(), certificate=False):
        context = ssl.create_default_context(cafile=self.ca)
        if version:
            context.minimum_version = context.maximum_version = version
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if certificate:
            context.load_cert_chain(self.client["chain"], self.client["key"])
        return context

    def secure(self, address, context=None, name="localhost", session=None):
        return self.keep((context or self.context()).wrap_socket(connect(address), server_hostname=name, session=session))

    def in_memory(self, plain, context=None):
        """A client whose records pass through memory, so that a test can cut and change them. Its handshake is done."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = (context or self.context()).wrap_bio(incoming, outgoing, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        plain.sendall(outgoing.read())
        return tls, incoming, outgoing


def exchange(sock, data):
    """Sends all data and receives as much; both at once, but on one thread: OpenSSL's objects do not support two."""
    left, received = memoryview(data), b""
    deadline = time.monotonic() + 60 * SLOWNESS
    sock.setblocking(False)
    while len(received) < len(data):
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(received)} of {len(data)} bytes came back in time")
        progress = False
        if left:
            try:
                left = left[sock.send(left[:16384]):]
                progress = True
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                pass
        try:
            piece = sock.recv(65536)
            if not piece:
                raise AssertionError(f"the stream ended after {len(received)} bytes")
            received += piece
            progress = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            pass
        if not progress:
            select.select([sock], [sock] if left else [], [], 1)
    sock.settimeout(PATIENCE_SECONDS)
    return received


class Process:
    """A program with pipes for its input and output."""

    def __init__(self, arguments):
        self.child = harness.spawn(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = b""
        self.lock = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(OSError, ValueError):  # It was closed.
            while data := os.read(self.child.stdout.fileno(), 65536):
                with self.lock:
                    self.output += data
                    self.lock.notify_all()

    def write(self, data):
        while data:
            data = data[os.write(self.child.stdin.fileno(), data):]

    def wait_for(self, text, seconds=10):
        with self.lock:
            if not self.lock.wait_for(lambda: text in self.output, seconds * SLOWNESS):
                raise AssertionError(f"{text!r} did not come; there was:\n{self.output.decode(errors='replace')}")

    def close(self):
        harness.end(self.child)


class GoPeer:
    """The program of tls_peers.d: TLS by Go's crypto/tls. Keywords are its options."""

    _program = None

    @classmethod
    def program(cls):
        if not cls._program:
            go = harness.need("go")
            found = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True,
                                                                 timeout=60, check=True).stdout)
            harness.require(found and (int(found[1]), int(found[2])) >= (1, 24), "go is older than 1.24")
            folder = tempfile.mkdtemp(prefix="sluice-e2e-")
            atexit.register(shutil.rmtree, folder)
            # It has no dependencies: nothing needs to be downloaded.
            subprocess.run([go, "build", "-buildvcs=false", "-o", folder + "/peer", "."], check=True, timeout=200,
                           cwd=harness.ROOT / "test/e2e/tls_peers.d",
                           env={"HOME": folder, **os.environ, "GOFLAGS": "",
                                "GOTOOLCHAIN": "local", "GOPROXY": "off"})
            cls._program = folder + "/peer"
        return cls._program

    @classmethod
    def _arguments(cls, options):
        return [cls.program(), *(f"-{name}={str(value).lower() if isinstance(value, bool) else value}"
                                 for name, value in {"seconds": 60 * SLOWNESS, **options}.items())]

    @classmethod
    def client(cls, address, seconds=60, **options):
        """Runs a client. Returns its report, as `report` of main.go."""
        options = {"connect": "%s:%d" % address, "seconds": seconds * SLOWNESS, **options}
        result = subprocess.run(cls._arguments(options), capture_output=True, timeout=2 * seconds * SLOWNESS,
                                check=False)
        if result.returncode:
            raise AssertionError(result.stderr.decode())
        return [json.loads(line) for line in result.stdout.splitlines()]

    def __init__(self, **options):
        """A server."""
        self._child = harness.spawn(self._arguments({"listen": "127.0.0.1:0", **options}), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE)
        self.address = self._child.stdout.readline().decode().strip()
        self._reports = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            self._reports.put(json.loads(line))

    def report(self, seconds=10):
        """The report of its next connection."""
        try:
            return self._reports.get(timeout=seconds * SLOWNESS)
        except queue.Empty:
            raise AssertionError("the Go server's connection does not end") from None

    def close(self):
        harness.end(self._child)
