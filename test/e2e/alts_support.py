"""What tests of ALTS share: grpc-go as client, server and fake of the handshaker service, and peers that speak that
fake's handshake by hand."""

import atexit
import contextlib
import json
import os
import queue
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time

import harness
from harness import SLOWNESS
import origins
from origins import connect, last_outcome, outcome, receive_exactly
from tls_support import Certificates

CLIENT, SERVER = "client@baz.com", "server@bar.com"

# As Sluice counts.
HANDSHAKES, ENDPOINT_HANDSHAKES = "tls_handshakes_total", "endpoint_tls_handshakes_total"
HANDSHAKE_ENDS = ("tls_handshake", "tls_timeout")        # Reasons why a session ended: it failed, it was late.
RECORD_END = "tls_error"                                 # A frame that ALTS does not allow.
CONNECT_ERRORS = ("tls", "timeout")                      # Kinds.

# What the fakes of grpc-go and of gRPC core say. Nothing of it is ALTS's own, which is not public.
CLIENT_INIT, CLIENT_FINISHED = b"ClientInit", b"ClientFinished"
SERVER_INIT = {"go": b"ServerInitServerFinished", "core": b"ServerInitAndFinished"}
REFUSAL = b"Refusal"

# The first frame of each side, with "hello" in it, under the key of grpc-go's fake.
HELLO_FROM_CLIENT = bytes.fromhex("1900000006000000d8b35d6f246088e243307e88a8be9979ca104c0724")
HELLO_FROM_SERVER = bytes.fromhex("1900000006000000a367533793a327d77ffd94697c311516db6e73b629")

MAX_FRAME = 1 << 20


def frame_head(length, kind=6):
    return struct.pack("<II", length, kind)


def failed_handshakes(stats):
    return sum(stats.ended(reason) for reason in HANDSHAKE_ENDS)


def failed_connects(stats):
    return sum(stats.connect_errors(kind) for kind in CONNECT_ERRORS)


class AltsTest(harness.SluiceTest):

    def by_service(self, service, **options):
        return {"alts": {"handshaker": service if isinstance(service, str) else service.text, **options}}

    def listening(self, origin, service, upstream=None, cut_allowed=False, **options):
        """A proxy with ALTS towards clients; options are of `alts`."""
        return self.start(harness.configuration([origin], listener=self.by_service(service, **options),
                                                upstream=upstream), cut_allowed=cut_allowed)

    def speaking(self, endpoint, service, upstream=None, cut_allowed=False, **options):
        """A proxy with ALTS towards its endpoint."""
        return self.start(harness.configuration([endpoint], upstream={**self.by_service(service, **options),
                                                                      **(upstream or {})}),
                          cut_allowed=cut_allowed)

    def certificates(self):
        """A small authority."""
        harness.need("openssl")
        return Certificates(self.temporary_directory())


# ---- grpc-go

def _program():
    """The program of alts_peers.d. grpc-go comes as a module, in the version that its go.mod names."""
    if not _program.path:
        go = harness.need("go")
        found = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True, timeout=60,
                                                             check=True).stdout)
        harness.require(found and (int(found[1]), int(found[2])) >= (1, 26), "go is older than 1.26")
        folder = tempfile.mkdtemp(prefix="sluice-e2e-")
        atexit.register(shutil.rmtree, folder)
        options = {"cwd": harness.ROOT / "test/e2e/alts_peers.d", "capture_output": True, "text": True, "timeout": 200,
                   "env": {"HOME": folder, **os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
                           "GOWORK": "off"}}
        brought = subprocess.run([go, "mod", "download"], check=False, **options)
        harness.require(brought.returncode == 0, f"grpc-go does not come: {brought.stderr}")
        built = subprocess.run([go, "build", "-buildvcs=false", "-o", folder + "/peers", "."], check=False, **options)
        if built.returncode:
            raise AssertionError(built.stderr)
        _program.path = folder + "/peers"
    return _program.path


_program.path = None


class _GoPeer:
    """A role of that program; keywords are its options, `frame` the largest that it writes."""

    def __init__(self, role, frame=None, stdin=subprocess.DEVNULL, stderr=None, **options):
        options = {"seconds": 60 * SLOWNESS, **options}
        environment = {"GRPC_GO_EXPERIMENTAL_ALTS_MAX_FRAME_SIZE": str(frame)} if frame else {}
        self._child = harness.spawn(
            [_program(), role, *(f"-{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
                                 for name, value in options.items())],
            stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, **environment})

    def close(self):
        harness.end(self._child)


class _GoServer(_GoPeer):

    def __init__(self, role, **options):
        super().__init__(role, **options)
        self.text = self._child.stdout.readline().decode().strip()
        if not self.text:
            raise AssertionError(f"{role} did not start")
        self.address = (self.text.rsplit(":", 1)[0], int(self.text.rsplit(":", 1)[1]))
        self._reports = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            self._reports.put(json.loads(line))

    def report(self, seconds=10):
        try:
            return self._reports.get(timeout=seconds * SLOWNESS)
        except queue.Empty:
            raise AssertionError("nothing more is reported") from None

    def reports(self):
        """All that are there by now."""
        found = []
        while not self._reports.empty():
            found.append(self._reports.get())
        return found


class Handshaker(_GoServer):
    """The fake service. It reports each handshake when that is over, as `handshakeReport` of handshaker.go."""

    def __init__(self, **options):
        super().__init__("handshaker", **options)
        self._results = set()

    def results(self):
        """Of all handshakes until now."""
        self._results.update(report["Result"] for report in self.reports())
        return self._results

    def asked(self):
        return self._child.poll() is not None or bool(self.results())


class GrpcServer(_GoServer):
    """With ALTS where there is a service."""

    def __init__(self, service=None, **options):
        super().__init__("grpc-server", **_security(service), **options)


class GrpcClient(_GoPeer):
    """A client that runs its case at once; with ALTS where there is a service."""

    def __init__(self, address, service=None, **options):
        self._seconds = options.get("seconds", 60 * SLOWNESS)
        super().__init__("grpc-client", stderr=subprocess.PIPE, target="%s:%d" % address, **_security(service),
                         **options)

    def _end(self):
        try:
            out, error = self._child.communicate(timeout=4 * self._seconds + 10)
        except subprocess.TimeoutExpired:
            raise AssertionError("the grpc-go client does not end") from None
        return out, error.decode()

    def result(self):
        """What it saw, as `clientReport` of client.go, one of each case; fails if the client did."""
        out, error = self._end()
        if self._child.returncode:
            raise AssertionError(error)
        return [json.loads(line) for line in out.splitlines()]

    def error(self):
        """Why it failed."""
        out, error = self._end()
        if not self._child.returncode:
            raise AssertionError(f"the grpc-go client did not fail: {out}")
        return error


class HeldClient(GrpcClient):
    """A client with one connection, over which the test has calls made."""

    def __init__(self, address, service=None, **options):
        super().__init__(address, service, case="hold", stdin=subprocess.PIPE, seconds=200 * SLOWNESS, **options)

    def call(self):
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise AssertionError(self._end()[1])
        return json.loads(line)


def _security(service):
    return {"handshaker": service.text} if service else {"plain": True}


# ---- By hand

class Origin(origins.Origin):
    """In the place of a service."""

    def asked(self):
        return self.count > 0


class RawAltsPeer:
    """A client that knows the fakes' handshake, and no key."""

    def __init__(self, address, timeout=10 * SLOWNESS):
        self.sock = connect(address, timeout=timeout)

    def begin(self, piecewise=False):
        self._send(CLIENT_INIT, piecewise)

    def finish(self, behind=b"", piecewise=False):
        """Takes what the server says, and sends the last message with what is to lie behind it."""
        came = receive_exactly(self.sock, min(map(len, SERVER_INIT.values())))
        if not SERVER_INIT["core"].startswith(came):
            came += receive_exactly(self.sock, len(SERVER_INIT["go"]) - len(came))
        if came not in SERVER_INIT.values():
            raise AssertionError(f"the server said {came!r}")
        self._send(CLIENT_FINISHED + behind, piecewise)

    def try_to_shake(self):
        """Goes on as far as the other side does. What came that was no part of a handshake, and how it ended."""
        self.begin()
        came, finished = b"", False
        while True:
            how = outcome(self.sock)
            if isinstance(how, str):
                return came, how
            came += how
            if came in SERVER_INIT.values() and not finished:
                came, finished = b"", True
                with contextlib.suppress(OSError):
                    self._send(CLIENT_FINISHED, False)

    def shake(self, behind=b"", piecewise=False):
        self.begin(piecewise)
        self.finish(behind, piecewise)

    def send(self, data, piecewise=False):
        self._send(data, piecewise)

    def receive(self, count):
        return receive_exactly(self.sock, count)

    def outcome(self):
        return last_outcome(self.sock)

    def _send(self, data, piecewise):
        for piece in (data[i:i + 1] for i in range(len(data))) if piecewise else (data,):
            self.sock.sendall(piece)
            if piecewise:
                time.sleep(0.002)  # So that each comes by itself.

    def close(self):
        self.sock.close()


def raw_server(and_then, dialect="go"):
    """For an Origin: does the server's part of the handshake, and then what is given, with the socket."""
    def handler(sock):
        receive_exactly(sock, len(CLIENT_INIT))
        sock.sendall(SERVER_INIT[dialect])
        receive_exactly(sock, len(CLIENT_FINISHED))
        and_then(sock)
    return handler
