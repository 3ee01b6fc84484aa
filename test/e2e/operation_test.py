"""Operation of a running proxy: its log, signals, and the files that it leaves."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import harness
from harness import SLUICE, SLOWNESS
from origins import Origin, connect, echo, free_port, outcome_of_connecting
from tls_support import TlsTest

RESPOND = {"routes": [{"respond": {"status": 200, "body": "hello"}}]}
GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def listener(name, address="127.0.0.1:0", **rest):
    return {"name": name, "address": address, **rest}


def response(address, request=GET):
    """Everything that is received for a request."""
    with connect(address) as sock:
        sock.sendall(request)
        received = b""
        while piece := sock.recv(65536):
            received += piece
        return received


class Log(TlsTest):

    def test_first_lines(self):
        proxy = self.start({"listeners": [listener("main", http=RESPOND)]})
        lines = proxy.stderr().splitlines()
        begin = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info sluice: "
        self.assertRegex(lines[0], begin + rf"version \S+, configuration /\S+\.yaml, pid {proxy.pid}, workers \d+$")
        self.assertRegex(lines[1], begin + "io_uring incremental=")
        self.assertRegex(lines[2], begin + r"listener main on 127\.0\.0\.1:\d+$")

    # Defect: serving threads wrote to standard error themselves, and the control thread to standard output. A reader
    # that stalled hung the worker, and SIGTERM had no effect.
    def test_stalled_readers(self):
        ports = free_port(), free_port()
        config = {"workers": 1, "listeners": [
            listener("plain", f"127.0.0.1:{ports[0]}", http=RESPOND),
            listener("tls", f"127.0.0.1:{ports[1]}", http=RESPOND, tls={"certificates": [self.server]})]}
        path = os.path.join(self.temporary_directory(), "sluice.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        proxy = harness.spawn([SLUICE, "run", "--config", path, "--stats", "10ms"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(harness.end, proxy)
        for stream in (proxy.stdout, proxy.stderr):
            fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 4096)

        def listens():
            try:
                return response(("127.0.0.1", ports[0]))
            except ConnectionRefusedError:
                return None
        harness.wait_until(listens)
        # Ten lines a second are logged, and some 30 fill the pipe.
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            with connect(("127.0.0.1", ports[1])) as sock:
                sock.sendall(b"this is no TLS at all\r\n" * 10)
                sock.settimeout(2 * SLOWNESS)
                try:
                    sock.recv(100)
                except ConnectionResetError:
                    pass
            time.sleep(0.02)
        self.assertIn(b"hello", response(("127.0.0.1", ports[0])))
        proxy.terminate()
        # The log has a second to be written, and so has standard output.
        self.assertEqual(proxy.wait(8 * SLOWNESS), 0)

    def test_dropped_lines_are_counted(self):
        proxy = self.start({"listeners": [listener("main", http=RESPOND)]})
        stats = proxy.stats()
        self.assertIn(("log_suppressed_total", ()), stats)
        self.assertEqual(stats.total("log_dropped_total"), 0)

    def test_reload_logs_what_was_read(self):
        """Defect: the log had that the files of TLS and of auth were read, even where there are none."""
        plain = self.start({"listeners": [listener("main", http=RESPOND)]})
        plain.signal(signal.SIGHUP)
        plain.wait_for_output("reload: configuration applied: listeners: 1 unchanged; upstreams: none\n")
        secure = self.start({"listeners": [listener("main", http=RESPOND, tls={"certificates": [self.server]})]})
        secure.signal(signal.SIGHUP)
        secure.wait_for_output("upstreams: none; read the TLS files of 1 listener(s)\n")

    def test_quit_drains(self):
        """Defect: SIGQUIT ended the process at once, with a core dump."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address)
        sock = connect(proxy.address())
        sock.sendall(b"x")
        self.assertEqual(sock.recv(1), b"x")
        proxy.signal(signal.SIGQUIT)
        proxy.wait_for_output("draining: no new connections")
        sock.sendall(b"y")
        self.assertEqual(sock.recv(1), b"y")
        sock.close()
        self.assertEqual(proxy.wait()[0], 0)
        proxy.checked = True

    # ---- Endpoints

    def test_endpoint_down_and_up(self):
        """Defect: an endpoint that could not be connected to was passed over silently."""
        port = free_port()
        proxy = self.proxy(f"127.0.0.1:{port}", upstream={"fail_timeout": "100ms"})
        for _ in range(3):
            self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
        proxy.wait_for_output(f'warning sluice: upstream "main": endpoint 127.0.0.1:{port} cannot be connected '
                              "to (refused); it is passed over for 100ms at a time")
        proxy.wait_for_output('closed: upstream "main" has no endpoint left after 1 attempt')
        self.keep(Origin(echo, address=("127.0.0.1", port)))
        with connect(proxy.address()) as sock:
            sock.sendall(b"x")
            self.assertEqual(sock.recv(1), b"x")
        proxy.wait_for_output(f"endpoint 127.0.0.1:{port} takes connections again")
        self.assertEqual(proxy.stderr().count("cannot be connected to"), 1, proxy.stderr())

    def test_refused_certificate(self):
        """Defect: CERTIFICATE_VERIFY_FAILED alone, without the reason or whose certificate it was."""
        backend = self.start({"listeners": [listener("main", http=RESPOND, tls={"certificates": [self.server]})]})
        proxy = self.proxy("127.0.0.1:%d" % backend.port(),
                           upstream={"tls": {"ca": self.ca, "server_name": "other.example"}})
        self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
        proxy.wait_for_output("CERTIFICATE_VERIFY_FAILED")
        proxy.wait_for_match(r'[Hh]ostname mismatch; expected "other.example"; the certificate is for .*localhost'
                                  r".*, issued by .*test authority")

    def test_http2_towards_http1(self):
        def http1_only(sock):
            sock.recv(65536)
        origin = self.keep(Origin(http1_only))
        proxy = self.start({"listeners": [listener("main", http={"forward": "main"})],
                            "upstreams": [{"name": "main", "protocol": "http2", "endpoints": [origin.address]}]})
        self.assertIn(b" 503 ", response(proxy.address()))
        proxy.wait_for_output("does it speak HTTP/2 here? (`protocol: http2`)")

    # ---- Clients

    def test_refused_clients(self):
        """Defect: TCP clients were refused silently."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, listener={"proxy_protocol": {"accept": "required"}})
        with connect(proxy.address()) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            last_bytes(sock)
        proxy.wait_for_output("refused: its first bytes are not a PROXY header")

    def test_too_many_of_one_address(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, listener={"max_connections_per_source": 1})
        with connect(proxy.address()) as first:
            first.sendall(b"x")
            self.assertEqual(first.recv(1), b"x")
            self.assertIn(outcome_of_connecting(proxy.address()), ("end", "reset"))
        proxy.wait_for_output("refused: its address has as many connections as `max_connections_per_source` allows")

    def test_malformed_request(self):
        proxy = self.start({"listeners": [listener("main", http=RESPOND)]})
        self.assertIn(b" 400 ", response(proxy.address(), b"GET / HTTP/1.1\r\nHost: a\r\nX_foo: 1\r\n\r\n"))
        proxy.wait_for_output("client 127.0.0.1: HTTP/1.1 with it failed: ")

    def test_plain_http_to_tls(self):
        """Defect: the connection was closed without a response."""
        proxy = self.start({"listeners": [listener("main", http=RESPOND, tls={"certificates": [self.server]})]})
        self.assertRegex(response(proxy.address()).decode(),
                         "(?s)^HTTP/1.1 400 Bad Request\r\n.*\r\n\r\nplain HTTP request sent to a TLS port")


class Secrets(TlsTest):

    # Defect: the text of private keys stayed in freed memory, and could be read there.
    @unittest.skipIf(harness.SANITIZER, "what is given back is kept for a while")
    def test_key_texts_are_wiped(self):
        proxy = self.start({"listeners": [listener("main", http=RESPOND,
                                                   tls={"certificates": [self.server, self.rsa]})]})
        proxy.signal(signal.SIGHUP)
        proxy.wait_for_output("; read the TLS files")
        memory = writable_memory(proxy.pid)
        self.assertTrue(self.server["chain"].encode() in memory, "it is other memory")
        for files in (self.server, self.rsa):
            with open(files["key"], "rb") as key, open(files["chain"], "rb") as chain:
                public = chain.read()  # The file has the public part too.
                for line in key.read().splitlines()[1:-1]:
                    self.assertFalse(line[:32] in memory and line[:32] not in public, "a key's text is in memory")


def writable_memory(pid):
    found = []
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            fields = line.split()
            begin, end = (int(part, 16) for part in fields[0].split("-"))
            # Pools of buffers are large, mostly untouched, and hold no files.
            if not fields[1].startswith("rw") or end - begin > 256 << 20:
                continue
            try:
                memory.seek(begin)
                found.append(memory.read(end - begin))
            except (OSError, ValueError):
                continue
    return b"".join(found)


def last_bytes(sock):
    """Everything up to the end; None for a reset."""
    received = b""
    try:
        while piece := sock.recv(65536):
            received += piece
    except ConnectionResetError:
        return None
    return received


class UnixSocket(harness.SluiceTest):

    # Defect: at its end a process removed the socket's path, even if another process listened on it by then: new
    # connections failed with ENOENT.
    def test_successor_keeps_its_socket(self):
        path = os.path.join(self.temporary_directory(), "x.sock")
        origin = self.keep(Origin(echo))
        before = self.proxy(origin.address, listener={"address": f"unix:{path}"})
        sock = connect(path)
        sock.sendall(b"x")
        self.assertEqual(sock.recv(1), b"x")
        before.signal(signal.SIGTERM)
        before.wait_for_output("draining")

        def closed():
            try:
                connect(path).close()
            except (ConnectionRefusedError, FileNotFoundError):
                return True
            return False
        harness.wait_until(closed, 2)
        successor = self.proxy(origin.address, listener={"address": f"unix:{path}"})
        sock.close()
        self.assertEqual(before.wait()[0], 0)
        before.checked = True
        with connect(path) as again:
            again.sendall(b"y")
            self.assertEqual(again.recv(1), b"y")
        self.stop(successor)
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    harness.main()
