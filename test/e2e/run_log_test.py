"""The run-time log: levels, formats, destinations that fail or take nothing, and one line for each change of an endpoint."""

import contextlib
import datetime
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import SLUICE, SLOWNESS, wait_until
from origins import BlackHole, Origin, connect, echo, free_port, last_outcome, outcome_of_connecting
from tls_support import TlsTest

TEXT = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) sluice: (.+)$")
RESPOND = {"routes": [{"match": {"path": {"prefix": "/own"}}, "respond": {"status": 200, "body": "hello"}},
                      {"forward": "main"}]}


def get(address, path="/own"):
    """The status of a response."""
    with connect(address) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := sock.recv(65536):
            received += piece
        return int(received.split()[1])


class Daemon:
    """A syslog daemon: a Unix datagram socket at a path."""

    _FORM = re.compile(r"<(\d+)>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([!-~]+) sluice (\d+) - - (.*)", re.DOTALL)

    def __init__(self, path):
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._socket.settimeout(10 * SLOWNESS)

    def message(self, pid):
        """The priority and the text of the next message."""
        form = self._FORM.fullmatch(self._socket.recv(65536).decode())
        assert form and int(form[4]) == pid, form
        return int(form[1]), form[5]

    def messages_until(self, pid, text):
        messages = []
        while not messages or text not in messages[-1][1]:
            messages.append(self.message(pid))
        return messages

    def close(self):
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


class Raw:
    """A proxy whose output the test reads itself, or does not read."""

    def __init__(self, config, folder, environment=None, pipe_bytes=None):
        self.port = free_port()
        config["listeners"][0]["address"] = f"127.0.0.1:{self.port}"
        path = os.path.join(folder, "raw.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.reader, writer = os.pipe()
        if pipe_bytes:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, pipe_bytes)
        status = os.fstat(writer)
        names = {name: value.format(dev=status.st_dev, ino=status.st_ino) for name, value in (environment or {}).items()}
        self.process = harness.spawn([SLUICE, "run", "--config", path], stdin=subprocess.DEVNULL, stderr=writer,
                                     stdout=subprocess.PIPE, env={**os.environ, **names})
        os.close(writer)
        wait_until(self._listens, what="a listener")

    def _listens(self):
        with contextlib.suppress(ConnectionRefusedError):
            connect(self.address()).close()
            return True
        return False

    def address(self):
        return "127.0.0.1", self.port

    def read(self, *until, seconds=10):
        """What the log has, up to the whole line with the last of `until` (in any order), or to its end if there are none."""
        text, deadline = "", time.monotonic() + seconds * SLOWNESS
        while time.monotonic() < deadline and not (until and all(one in text for one in until) and text.endswith("\n")):
            if select.select([self.reader], [], [], 0.1)[0]:
                piece = os.read(self.reader, 65536)
                if not piece:
                    break
                text += piece.decode()
        return text

    def stats(self):
        """The counters, of a proxy that ends."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=20 * SLOWNESS)
        assert self.process.returncode == 0, self.process.returncode
        return harness.Stats.parse(output.decode())

    def close(self):
        harness.end(self.process)
        os.close(self.reader)


class LogTest(TlsTest):

    def config(self, *endpoints, log=None, listener=None, **upstream):
        config = harness.configuration(endpoints or ["127.0.0.1:1"], listener=listener, upstream=upstream)
        if log:
            config["log"] = log
        return config

    def http(self, *endpoints, log=None, **upstream):
        config = self.config(*endpoints, log=log, **upstream)
        del config["listeners"][0]["tcp"]
        config["listeners"][0]["http"] = RESPOND
        return config

    def reload(self, proxy, config, code=0):
        """Applies a configuration by the command line, which says so on its own standard output."""
        proxy.write_configuration(config)
        result = subprocess.run([SLUICE, "reload", "--pid", str(proxy.pid)], capture_output=True, text=True, check=False,
                                timeout=20 * SLOWNESS)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def raw(self, config, **options):
        return self.keep(Raw(config, self.temporary_directory(), **options))

    def lines_with(self, proxy, text):
        return [line for line in proxy.stderr().splitlines() if text in line]


class Format(LogTest):

    def test_text(self):
        proxy = self.start(self.http())
        self.assertEqual(get(proxy.address()), 200)
        for line in proxy.stderr().splitlines():
            self.assertRegex(line, TEXT)
        lines = proxy.stderr().splitlines()
        self.assertRegex(lines[0], rf"version \S+, configuration {re.escape(proxy.path)}, pid {proxy.pid}, workers 1$")

    def test_json(self):
        proxy = self.raw(self.http(log={"format": "json"}, health_check={"interval": "100ms"}))
        text = proxy.read("is unhealthy", "listener main")  # Two threads write them.
        lines = [json.loads(line) for line in text.splitlines()]
        now = datetime.datetime.now(datetime.timezone.utc)
        for line in lines:
            self.assertEqual(list(line)[:4], ["ts", "level", "pid", "message"])
            self.assertEqual(line["pid"], proxy.process.pid)
            self.assertIn(line["level"], ("info", "warning"))
            self.assertRegex(line["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            written = datetime.datetime.fromisoformat(line["ts"].replace("Z", "+00:00"))
            self.assertLess(abs((now - written).total_seconds()), 60 * SLOWNESS)
        self.assertRegex(lines[0]["message"], r"^version ")
        self.assertIn({"listener": "main", "message": f"listener main on 127.0.0.1:{proxy.port}"},
                      [{key: line.get(key) for key in ("listener", "message")} for line in lines])
        unhealthy = next(line for line in lines if "is unhealthy" in line["message"])
        self.assertEqual({key: unhealthy.get(key) for key in ("level", "upstream", "endpoint", "reason")},
                         {"level": "warning", "upstream": "main", "endpoint": "127.0.0.1:1",
                          "reason": "cannot connect: Connection refused"})
        proxy.stats()

    def test_journal(self):
        """Standard error is the journal's, as the service manager says: a priority, and no time."""
        proxy = self.raw(self.http(health_check={"interval": "100ms"}), environment={"JOURNAL_STREAM": "{dev}:{ino}"})
        lines = proxy.read("is unhealthy").splitlines()
        self.assertRegex(lines[0], rf"^<6>version \S+, configuration \S+, pid {proxy.process.pid}, workers 1$")
        unhealthy = [line for line in lines if "is unhealthy" in line]
        self.assertRegex(unhealthy[0], r'^<4>upstream "main": endpoint 127\.0\.0\.1:1 is unhealthy: ')
        proxy.stats()

    def test_another_stream_than_the_journals(self):
        proxy = self.raw(self.http(), environment={"JOURNAL_STREAM": "{dev}:1"})
        self.assertRegex(proxy.read("listener main").splitlines()[0], TEXT)
        proxy.stats()

    def test_hostile_certificate(self):
        """A line is a line, whatever the names in a certificate."""
        self.files.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                       "evil.key", "-out", "evil.pem", "-days", "2", "-subj",
                       "/CN=evil\n2026-01-01T00:00:00.000Z error sluice: forged\x1b[2J")
        backend = self.start({"listeners": [{"name": "main", "address": "127.0.0.1:0", "http": RESPOND, "tls": {
            "certificates": [{"chain": self.files.path("evil.pem"), "key": self.files.path("evil.key")}]}}],
            "upstreams": [{"name": "main", "endpoints": ["127.0.0.1:1"]}]})
        endpoint = "127.0.0.1:%d" % backend.port()
        for style in ("text", "json"):
            with self.subTest(style):
                proxy = self.raw(self.config(endpoint, log={"format": style},
                                             tls={"ca": self.ca, "server_name": "good.example"}))
                outcome_of_connecting(proxy.address())
                lines = proxy.read("has no endpoint left").splitlines()
                bad = [line for line in lines if "CERTIFICATE_VERIFY_FAILED" in line]
                self.assertEqual(len(bad), 1, lines)
                self.assertIn("forged", bad[0])
                for line in lines:
                    self.assertNotIn("\x1b", line)
                    json.loads(line) if style == "json" else self.assertRegex(line, TEXT)
                    self.assertLessEqual(len(line), 4096)
                proxy.stats()


class Level(LogTest):

    def break_tls(self, proxy):
        with connect(proxy.address()) as sock:
            sock.sendall(b"this is no TLS at all\r\n" * 10)
            last_outcome(sock)

    def test_reload_changes_it(self):
        def config(level):
            return self.config(log={"level": level}, listener={"tls": {"certificates": [self.server]}})
        proxy = self.start(config("info"))
        self.break_tls(proxy)
        proxy.wait_for_output("TLS with it failed")
        self.assertIn("`log` has changed", self.reload(proxy, config("warning")))
        before = proxy.stderr()
        self.break_tls(proxy)
        self.break_tls(proxy)
        proxy.wait_for(lambda stats: stats.ended("tls_handshake") == 3)
        self.assertEqual(proxy.stderr(), before, "no line of level info")
        self.assertIn("`log` has changed", self.reload(proxy, config("debug")))
        self.break_tls(proxy)
        proxy.wait_for_output("reload: configuration applied")
        wait_until(lambda: len(self.lines_with(proxy, "TLS with it failed")) == 2)
        stats = proxy.stats()
        self.assertGreater(stats.total("log_lines_total", level="info"), 3)
        self.assertEqual(stats.total("log_lines_total", level="error"), 0)

    def test_debug_has_every_failed_connection(self):
        proxy = self.start(self.config("127.0.0.1:1", log={"level": "debug"}))
        for _ in range(5):
            outcome_of_connecting(proxy.address())
        wait_until(lambda: len(self.lines_with(proxy, "endpoint 127.0.0.1:1 cannot be connected to (refused)")) == 5)
        self.assertEqual(len(self.lines_with(proxy, "warning sluice")), 1, proxy.stderr())


class Destinations(LogTest):

    def setUp(self):
        super().setUp()
        self.folder = self.temporary_directory()
        self.path = os.path.join(self.folder, "logs", "run.log")
        os.mkdir(os.path.dirname(self.path))

    def lines_of(self, path):
        with contextlib.suppress(FileNotFoundError):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertTrue(text == "" or text.endswith("\n"), "a part of a line")
            return text.splitlines()
        return []

    def test_file_from_the_start(self):
        proxy = self.raw(self.http(log={"to": self.path}))
        wait_until(lambda: len(self.lines_of(self.path)) >= 3, what="lines")
        lines = self.lines_of(self.path)
        self.assertRegex(lines[0], r" info sluice: version ")
        self.assertRegex(lines[2], r" info sluice: listener main on ")
        proxy.stats()
        self.assertEqual(proxy.read(), "", "nothing goes to standard error")
        self.assertIn("draining: ", self.lines_of(self.path)[-1])
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o640)

    def test_failed_start(self):
        """The reason is in the log, and on standard error, where the caller looks."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            config = self.http(log={"to": self.path})
            config["listeners"][0]["address"] = "127.0.0.1:%d" % other.getsockname()[1]
            path = os.path.join(self.folder, "taken.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            result = subprocess.run([SLUICE, "run", "--config", path], capture_output=True, text=True, check=False,
                                    timeout=20 * SLOWNESS)
        self.assertEqual(result.returncode, 1)
        self.assertIn("Address already in use", result.stderr)
        self.assertRegex(self.lines_of(self.path)[-1], r" error sluice: .*Address already in use")

    def test_rotation(self):
        proxy = self.start(self.http())
        self.reload(proxy, self.http(log={"to": self.path, "level": "debug"}))
        proxy.wait_for_output(f"the log continues in {self.path}")
        wait_until(lambda: any("reload: configuration applied" in line for line in self.lines_of(self.path)))
        self.assertNotIn("reload: ", proxy.stderr())
        # Requests to the refusing endpoint make lines all the time.
        names = []
        for turn in range(3):
            for _ in range(20):
                self.assertEqual(get(proxy.address(), "/x"), 503)
            names.append(f"{self.path}.{turn}")
            os.rename(self.path, names[-1])
            proxy.signal(signal.SIGUSR1)
            wait_until(lambda: any("logs reopened" in line for line in self.lines_of(self.path)), what="a new file")
        lines = [line for name in [*names, self.path] for line in self.lines_of(name)]
        for line in lines:
            self.assertRegex(line, TEXT)
        self.assertEqual(sum("cannot be connected to" in line for line in lines), 60)
        # Back to standard error.
        self.reload(proxy, self.http())
        proxy.wait_for_output("reload: configuration applied")
        self.assertEqual(proxy.stats().total("log_dropped_total"), 0)

    def test_removed_directory(self):
        proxy = self.start(self.http())
        self.reload(proxy, self.http(log={"to": self.path}))
        wait_until(lambda: self.lines_of(self.path))
        with open(self.path, encoding="utf-8") as kept:
            shutil.rmtree(os.path.dirname(self.path))
            proxy.signal(signal.SIGUSR1)
            text = []
            wait_until(lambda: text.append(kept.read()) or "goes on in the file that is open" in "".join(text))
        self.assertIn(f'error sluice: log "{self.path}": cannot be opened; make the directory first', "".join(text))
        self.assertEqual(get(proxy.address()), 200)
        os.mkdir(os.path.dirname(self.path))
        proxy.signal(signal.SIGUSR1)
        wait_until(lambda: any("logs reopened" in line for line in self.lines_of(self.path)))

    def test_full_disk(self):
        proxy = self.start(self.http())
        self.reload(proxy, self.http(log={"to": "/dev/full"}))
        proxy.wait_for_output("error sluice: log: /dev/full cannot be written to: No space left on device; "
                              "its lines are dropped until that works again")
        for _ in range(5):
            self.assertEqual(get(proxy.address()), 200)
        for _ in range(3):
            before = proxy.stats().total("log_errors_total")
            proxy.signal(signal.SIGUSR1)
            proxy.wait_for(lambda stats, seen=before: stats.total("log_errors_total") > seen)
        self.assertEqual(len(self.lines_with(proxy, "cannot be written to")), 1, "it is said once")
        stats = proxy.stats()
        self.assertEqual(stats.total("log_errors_total"), stats.total("log_dropped_total", stream="log"))
        # The next line that gets out says what is missing.
        self.reload(proxy, self.http())
        proxy.wait_for_output("/dev/full could not be written to (No space left on device); dropped: ")

    def test_refused_target(self):
        """All or nothing: a target that cannot be opened changes nothing, and the message has its line."""
        proxy = self.start(self.http())
        for target, message in ((os.path.join(self.folder, "none/run.log"), "make the directory first"),
                                (self.folder, "is a directory"),
                                (f"syslog:{self.folder}/none", "start the syslog daemon"),
                                ("stdout", "expected stderr, syslog, syslog:PATH, syslog:ADDRESS:PORT or the path of a file")):
            with self.subTest(target):
                text = "workers: 1\nlog:\n  level: error\n  to: " + target + "\n" + json.dumps(
                    {"listeners": self.http()["listeners"]})[1:-1] + "\n"
                text = re.sub(r'^"listeners"', "listeners", text, flags=re.M) + "upstreams: [ { name: main, endpoints: [ 127.0.0.1:1 ] } ]\n"
                output = self.reload(proxy, text, code=1)
                self.assertIn(f"{proxy.path}:4:7: log.to: ", output)
                self.assertIn(message, output)
                self.assertIn("nothing was changed", output)
                check = subprocess.run([SLUICE, "check", "--config", proxy.path], capture_output=True, text=True, check=False,
                                       timeout=20 * SLOWNESS)
                self.assertEqual(check.returncode, 1, check.stdout)
                self.assertIn(f"{proxy.path}:4:7: log.to: ", check.stderr)
        proxy.wait_for_output("error sluice: nothing was changed")
        proxy.write_configuration(self.http())
        self.assertIn("1 unchanged", proxy.reload(self.http()))

    def test_check_makes_no_file(self):
        path = os.path.join(self.folder, "check.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.http(log={"to": self.path}), file)
        subprocess.run([SLUICE, "check", "--config", path], check=True, capture_output=True, timeout=20 * SLOWNESS)
        self.assertFalse(os.path.exists(self.path))

    def test_syslog(self):
        daemon = Daemon(os.path.join(self.folder, "log"))
        proxy = self.start(self.http())
        self.reload(proxy, self.http(log={"to": f"syslog:{daemon.path}"}))
        priority, text = daemon.message(proxy.pid)
        self.assertEqual(priority, 3 * 8 + 6)
        self.assertIn("reload: configuration applied", text)
        self.assertEqual(get(proxy.address(), "/x"), 503)
        priority, text = daemon.message(proxy.pid)
        self.assertEqual(priority, 3 * 8 + 4)
        self.assertRegex(text, r'^upstream "main": endpoint 127\.0\.0\.1:1 cannot be connected to \(refused\)')
        # The daemon is restarted, and misses a line meanwhile.
        daemon.close()
        proxy.signal(signal.SIGUSR1)
        proxy.wait_for(lambda stats: stats.total("log_dropped_total", stream="log") == 1)
        self.assertEqual(get(proxy.address()), 200)
        daemon = self.keep(Daemon(daemon.path))
        proxy.signal(signal.SIGUSR1)
        messages = daemon.messages_until(proxy.pid, "logs reopened")
        self.assertEqual(len(messages), 2, messages)
        self.assertRegex(messages[0][1], r"^syslog \(\S+\) could not be written to \(.*\); dropped: 1, in total: 1$")
        # JSON in the place of the text.
        self.reload(proxy, self.http(log={"to": f"syslog:{daemon.path}", "format": "json"}))
        line = json.loads(daemon.message(proxy.pid)[1])
        self.assertEqual((line["level"], line["pid"]), ("info", proxy.pid))
        self.reload(proxy, self.http())

    def test_daemon_that_reads_nothing(self):
        daemon = self.keep(Daemon(os.path.join(self.folder, "log")))
        proxy = self.start(self.http(log={"level": "debug"}))
        self.reload(proxy, self.http(log={"level": "debug", "to": f"syslog:{daemon.path}"}))
        self.fill(proxy.address(), lambda: proxy.stats().total("log_dropped_total", stream="log"))
        self.reload(proxy, self.http())  # Nobody waits for the daemon.
        proxy.wait_for_output("accepts lines more slowly than they arrive; dropped: ")

    def fill(self, address, dropped):
        """Makes lines until some are dropped, and checks that other requests do not wait."""
        slowest, deadline = 0, time.monotonic() + 60 * SLOWNESS
        while not dropped():
            self.assertLess(time.monotonic(), deadline, "no line is dropped")
            for _ in range(100):
                get(address, "/x")
            begin = time.monotonic()
            self.assertEqual(get(address), 200)
            slowest = max(slowest, time.monotonic() - begin)
        harness.print_note(f"the slowest request took {slowest * 1000:.1f} ms")
        self.assertLess(slowest, 1 * SLOWNESS)

    def test_nobody_reads_stderr(self):
        """Defect of a log that waits for its reader: the worker waits too."""
        config = self.http(log={"level": "debug"})
        proxy = self.raw(config, pipe_bytes=4096)
        rounds = iter(range(15))
        self.fill(proxy.address(), lambda: next(rounds, None) is None)
        text = proxy.read("accepts lines more slowly than they arrive; dropped: ", seconds=20)
        self.assertIn("warning sluice: standard error accepts lines more slowly", text)
        self.assertEqual(get(proxy.address()), 200)
        stats = proxy.stats()
        self.assertGreater(stats.total("log_dropped_total", stream="log"), 0)
        self.assertGreaterEqual(stats.total("log_lines_total", level="debug"), 1400)
        for line in text.splitlines()[:-1]:
            self.assertRegex(line, TEXT)


class Endpoints(LogTest):
    """One line for each change of an endpoint, from two workers."""

    def two_workers(self, *endpoints, **upstream):
        return {**self.config(*endpoints, **{"fail_timeout": "100ms", **upstream}), "workers": 2}

    def connect_often(self, proxy, count=20):
        for _ in range(count):
            outcome_of_connecting(proxy.address())

    def changes(self, proxy, endpoint, at_least=0):
        """What was logged about an endpoint, without its name, once there are so many lines."""
        wait_until(lambda: len(self.changes_now(proxy, endpoint)) >= at_least, what=f"{at_least} lines about {endpoint}")
        return self.changes_now(proxy, endpoint)

    def changes_now(self, proxy, endpoint):
        mark = f'warning sluice: upstream "main": endpoint {endpoint} '
        return [line.partition(mark)[2] for line in self.lines_with(proxy, mark)]

    def assert_works(self, proxy):
        with connect(proxy.address()) as sock:
            sock.sendall(b"x")
            self.assertEqual(sock.recv(1), b"x")

    def test_refused(self):
        port = free_port()
        endpoint = f"127.0.0.1:{port}"
        proxy = self.start(self.two_workers(endpoint))
        for turn in (1, 2):
            self.connect_often(proxy)
            origin = Origin(echo, address=("127.0.0.1", port))
            for _ in range(10):
                self.assert_works(proxy)
            origin.close()
            wait_until(lambda n=turn: len(self.changes(proxy, endpoint)) == 2 * n, what="a line for each change")
        lines = self.changes(proxy, endpoint)
        for line in lines[0::2]:
            self.assertEqual(line, "cannot be connected to (refused); it is passed over for 100ms at a time "
                                   "(0 of 1 endpoints up)")
        for line in lines[1::2]:
            self.assertRegex(line, r"^takes connections again after [\d.]+m?s \(1 of 1 endpoints up\)$")

    def test_timeout(self):
        hole, good = self.keep(BlackHole()), self.keep(Origin(echo))
        proxy = self.start(self.two_workers(hole.address, good.address, connect_timeout="200ms", connect_attempts=2,
                                            fail_timeout="30s"))
        for _ in range(6):
            self.assert_works(proxy)
        self.assertEqual(self.changes(proxy, hole.address, 1),
                         ["cannot be connected to (timeout after 200ms); it is passed over for 30s at a time "
                          "(1 of 2 endpoints up)"])

    def test_slow_handshake(self):
        silent = self.keep(Origin())
        proxy = self.start(self.two_workers(silent.address, connect_timeout="200ms",
                                            tls={"ca": self.ca, "server_name": "localhost"}))
        self.connect_often(proxy, 5)
        self.assertEqual(self.changes(proxy, silent.address, 1),
                         ["cannot be connected to (TLS failed: the handshake was not complete after 200ms, waiting for the "
                          "peer); it is passed over for 100ms at a time (0 of 1 endpoints up)"])

    def test_wrong_name(self):
        """The state is kept over a reload, which corrects the name: one line each."""
        for listener in ("tcp", "http"):
            with self.subTest(listener):
                backend = self.start({"listeners": [{"name": "main", "address": "127.0.0.1:0", "http": RESPOND,
                                                     "tls": {"certificates": [self.server]}}],
                                      "upstreams": [{"name": "main", "endpoints": ["127.0.0.1:1"]}]})
                endpoint = "127.0.0.1:%d" % backend.port()

                def config(name, at=endpoint, mode=listener):
                    made = self.two_workers(at, tls={"ca": self.ca, "server_name": name})
                    if mode == "http":
                        del made["listeners"][0]["tcp"]
                        made["listeners"][0]["http"] = {"forward": "main"}
                    return made
                proxy = self.start(config("other.example"))

                def ask(address=proxy.address()):
                    with contextlib.suppress(ConnectionResetError, IndexError):
                        return get(address)
                for _ in range(10):
                    self.assertNotEqual(ask(), 200)
                lines = self.changes(proxy, endpoint, 1)
                self.assertEqual(len(lines), 1, proxy.stderr())
                self.assertRegex(lines[0], r'^cannot be connected to \(TLS failed: CERTIFICATE_VERIFY_FAILED: [Hh]ostname '
                                           r'mismatch; expected "other.example"; the certificate is for .*localhost.*, '
                                           r'issued by .*test authority\); it is passed over for 100ms at a time ')
                proxy.reload(config("localhost"))
                for _ in range(5):
                    self.assertEqual(ask(), 200)
                self.assertRegex(self.changes(proxy, endpoint, 2)[1], r"^takes connections again after ")
                # An address is expected, but not sent.
                proxy.reload(config("127.0.0.9"))
                for _ in range(5):
                    self.assertNotEqual(ask(), 200)
                lines = self.changes(proxy, endpoint, 3)
                self.assertEqual(len(lines), 3, lines)
                self.assertIn('expected "127.0.0.9"', lines[2])

    def test_health_check(self):
        status = [200]

        def respond(sock):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status[0])
        sick, well = self.keep(Origin(respond)), self.keep(Origin(lambda sock: (sock.recv(65536), sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))))
        check = {"interval": "50ms", "timeout": "1s", "healthy_after": 2, "unhealthy_after": 2, "http": {"path": "/"}}
        proxy = self.start(self.two_workers(sick.address, well.address, health_check=check))
        for status[0], text in ((503, "is unhealthy: it responded with 503 (1 of 2 endpoints up)"), (200, "is healthy again")):
            proxy.wait_for_output(f"endpoint {sick.address} {text}")
            time.sleep(0.5)
        lines = self.changes(proxy, sick.address)
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[1], r"^is healthy again after [\d.]+m?s \(2 of 2 endpoints up\)$")
        self.assertEqual(self.changes(proxy, well.address), [])

    def test_recovery_over_a_reload(self):
        """Defect: an endpoint that was unhealthy at a reload which changed its upstream, and passed the first check after it,
        stayed out."""
        port = free_port()
        endpoint = f"127.0.0.1:{port}"

        def config(interval):
            return self.two_workers(endpoint, "127.0.0.1:1", health_check={"interval": interval, "timeout": "1s"})
        proxy = self.start(config("100ms"))
        proxy.wait_for_output(f"endpoint {endpoint} is unhealthy")
        proxy.write_configuration(config("101ms"))
        self.keep(Origin(echo, address=("127.0.0.1", port)))
        proxy.reload(config("101ms"))
        proxy.wait_for_output(f"endpoint {endpoint} is healthy again")
        self.assertEqual(len(self.changes(proxy, endpoint)), 2, proxy.stderr())
        proxy.wait_for(lambda stats: stats.total("endpoint_healthy", endpoint=endpoint) == 1)

    def test_ejection(self):
        status = [500]

        def respond(sock):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status[0])
        bad, good = self.keep(Origin(respond)), self.keep(Origin(lambda sock: (sock.recv(65536), sock.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))))
        config = self.two_workers(bad.address, good.address, ejection={"consecutive_errors": 3, "time": "1s"})
        del config["listeners"][0]["tcp"]
        config["listeners"][0]["http"] = {"forward": "main"}
        proxy = self.start(config)
        wait_until(lambda: get(proxy.address()) and self.changes(proxy, bad.address))
        status[0] = 200
        wait_until(lambda: get(proxy.address()) and len(self.changes(proxy, bad.address)) > 1)
        lines = self.changes(proxy, bad.address)
        self.assertEqual(lines[0], "is ejected for 1s, after 3 errors in a row, the last: status 500 (1 of 2 endpoints up)")
        self.assertRegex(lines[1], r"^is no longer ejected after [\d.]+s \(2 of 2 endpoints up\)$")
        self.assertEqual(len(lines), 2, lines)


if __name__ == "__main__":
    harness.main()
