"""Support for tests of ALTS: grpc-go as client, server and fake handshaker service, and peers that speak the handshake
of that fake byte by byte."""

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

# Names of counters.
HANDSHAKES, ENDPOINT_HANDSHAKES = "tls_handshakes_total", "endpoint_tls_handshakes_total"
# Reasons why a session ended: the handshake failed, or timed out.
HANDSHAKE_ENDS = ("tls_handshake", "tls_timeout")
RECORD_END = "tls_error"                                 # ALTS does not allow the frame.
CONNECT_ERRORS = ("tls", "timeout")                      # Kinds.

# The messages of the fakes of grpc-go and gRPC core. They are not those of ALTS, which is not public.
CLIENT_INIT, CLIENT_FINISHED = b"ClientInit", b"ClientFinished"
SERVER_INIT = {"go": b"ServerInitServerFinished", "core": b"ServerInitAndFinished"}
REFUSAL = b"Refusal"

# The first frame of each side, which contains "hello", under the key of grpc-go's fake.
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
        """A proxy with ALTS towards clients. Options are those of `alts`."""
        return self.start(harness.configuration([origin], listener=self.by_service(service, **options),
                                                upstream=upstream), cut_allowed=cut_allowed)

    def speaking(self, endpoint, service, upstream=None, cut_allowed=False, top=None, **options):
        """A proxy with ALTS towards its endpoint."""
        return self.start(harness.configuration([endpoint], upstream={**self.by_service(service, **options),
                                                                      **(upstream or {})}, **(top or {})),
                          cut_allowed=cut_allowed)

    def certificates(self):
        """A small certificate authority."""
        harness.need("openssl")
        return Certificates(self.temporary_directory())


# ---- grpc-go

def _program():
    """The path of the program of alts_peers.d. grpc-go is a module, in the version that go.mod names."""
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
    """A process of that program in one role. Keywords are its options; `frame` is the size of the largest frame that it
    writes."""

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
        """All reports that have arrived."""
        found = []
        while not self._reports.empty():
            found.append(self._reports.get())
        return found


class Handshaker(_GoServer):
    """The fake service. It reports each finished handshake, as `handshakeReport` of handshaker.go."""

    def __init__(self, **options):
        super().__init__("handshaker", **options)
        self._results = set()

    def results(self):
        """The results of all finished handshakes."""
        self._results.update(report["Result"] for report in self.reports())
        return self._results

    def was_called(self):
        return self._child.poll() is not None or bool(self.results())


class GrpcServer(_GoServer):
    """A server, with ALTS if there is a service."""

    def __init__(self, service=None, **options):
        super().__init__("grpc-server", **_security(service), **options)


class GrpcClient(_GoPeer):
    """A client that runs its case at once, with ALTS if there is a service."""

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
        """What it saw, as `clientReport` of client.go, one for each case. Fails if the client failed."""
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
    """A client with one connection, on which the test makes calls."""

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


# ---- Raw peers

class Origin(origins.Origin):
    """An origin in the place of a service."""

    def was_called(self):
        return self.count > 0


class RawAltsPeer:
    """A client that knows the messages of the fake handshake, but no key."""

    def __init__(self, address, timeout=10 * SLOWNESS):
        self.sock = connect(address, timeout=timeout)

    def begin(self, piecewise=False):
        self._send(CLIENT_INIT, piecewise)

    def finish(self, behind=b"", piecewise=False):
        """Reads the server's messages, and sends the last message followed by `behind`."""
        came = receive_exactly(self.sock, min(map(len, SERVER_INIT.values())))
        if not SERVER_INIT["core"].startswith(came):
            came += receive_exactly(self.sock, len(SERVER_INIT["go"]) - len(came))
        if came not in SERVER_INIT.values():
            raise AssertionError(f"the server sent {came!r}")
        self._send(CLIENT_FINISHED + behind, piecewise)

    def try_to_shake(self):
        """Continues as far as the other side does. Returns the bytes that were not part of a handshake, and how the
        connection ended."""
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
                time.sleep(0.002)  # So that each piece arrives separately.

    def close(self):
        self.sock.close()


def raw_server(and_then, dialect="go"):
    """Returns a handler for an Origin that does the server's part of the handshake and then calls `and_then` with the
    socket."""
    def handler(sock):
        receive_exactly(sock, len(CLIENT_INIT))
        sock.sendall(SERVER_INIT[dialect])
        receive_exactly(sock, len(CLIENT_FINISHED))
        and_then(sock)
    return handler
