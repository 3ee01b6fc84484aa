"""Support for tests of the whole program: the proxy as a process, its counters, and the checks after each test.

Environment variables:
  SLUICE             the program under test; default build/release/sluice
  SLUICE_SANITIZE    the sanitizer it was built with (address, thread); detected in the program when not set
  SLUICE_E2E_LONG=1  the long forms of the tests
  SLUICE_E2E_PAUSE   seconds for which each proxy is idle between its start and the first request: workers then have slept
                     longer than the timeouts of a test, each of which must still count from its event
  CI=true            a missing tool is a failure; otherwise it skips the test
"""

import ctypes
import contextlib
import atexit
import collections
import faulthandler
import json
import mmap
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLUICE = os.environ.get("SLUICE") or str(ROOT / "build/release/sluice")
LONG = os.environ.get("SLUICE_E2E_LONG") == "1"
PAUSE_SECONDS = float(os.environ.get("SLUICE_E2E_PAUSE") or 0)
CI = os.environ.get("CI") == "true"

KIB = 1024
MIB = 1024 * KIB

# A test file that runs longer than this is stuck. It prints where, ends its children, and fails. (The limit of ctest is
# 300 s.)
FILE_DEADLINE_SECONDS = 3 * 3600 if LONG or PAUSE_SECONDS else 240


def _sanitizer():
    known = os.environ.get("SLUICE_SANITIZE")
    if known is not None:
        return known
    with open(SLUICE, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        for mark, name in ((b"__asan_init", "address"), (b"__tsan_init", "thread")):
            if image.find(mark) >= 0:
                return name
    return ""


SANITIZER = _sanitizer()
# The factor for all waits for the proxy under a sanitizer.
SLOWNESS = 4 if SANITIZER else 1


def print_note(text):
    """Prints a figure or a remark for readers of the test's log."""
    sys.stderr.write(f"\n    {text}\n")


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def wait_until(condition, seconds=10, what="a condition"):
    """Polls until `condition()` is true and returns its value; fails after `seconds`."""
    deadline = time.monotonic() + seconds * SLOWNESS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds * SLOWNESS} s for {what}")
        time.sleep(0.01)


# ---- Child processes. Each is ended however the test file ends.

_children = set()


def spawn(arguments, **options):
    child = subprocess.Popen(arguments, **options)
    _children.add(child)
    return child


def end(child, seconds=5):
    """Terminates a child, and kills it if it does not end in time."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream:
            stream.close()
    _children.discard(child)


class OrphanedProcess:
    """A process whose parent has ended, with the methods of Popen that are used here. This process becomes the parent."""

    PR_SET_CHILD_SUBREAPER = 36

    def __init__(self, pid, like):
        self.pid, self.returncode = pid, None
        self.stdin, self.stdout, self.stderr = like.stdin, like.stdout, like.stderr  # Inherited.
        _children.discard(like)
        _children.add(self)

    @classmethod
    def expect_some(cls):
        """Must be called before the parent ends."""
        ctypes.CDLL(None).prctl(cls.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def poll(self):
        if self.returncode is None:
            with contextlib.suppress(ChildProcessError):  # Its parent still exists.
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds=None):
        deadline = time.monotonic() + (seconds or 3600)
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("sluice", seconds)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _kill_children():
    for child in list(_children):
        if child.poll() is None:
            child.kill()
            # Stopped children die too: SIGKILL does not wait for SIGCONT.
            child.wait()


def _abandon(number, _frame):
    sys.stderr.write(f"\n{sys.argv[0]}: ended by {signal.Signals(number).name}; where its threads are:\n")
    faulthandler.dump_traceback(all_threads=True)
    _kill_children()
    os._exit(1)


atexit.register(_kill_children)


# ---- Tools

def need(*tools):
    """The paths of external programs. If one is missing, skips the test, or fails it in CI."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin"
    found = [shutil.which(tool, path=path) for tool in tools]
    missing = [tool for tool, where in zip(tools, found) if not where]
    require(not missing, f"missing: {', '.join(missing)}; run tools/deps")
    return found[0] if len(found) == 1 else found


def require(condition, why_not):
    """Skips the test if something is missing that tools/deps or the system provides. In CI that is a failure."""
    if condition:
        return
    if CI:
        raise AssertionError(why_not)
    raise unittest.SkipTest(why_not)


# ---- Counters

class Stats(dict):
    """One dump of the counters: `sluice_name{label="value",...}` -> number."""

    _LINE = re.compile(r'^sluice_(\w+)(?:\{(.*)\})? (\d+)$')
    _LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    @classmethod
    def parse(cls, text):
        stats = cls()
        for line in text.splitlines():
            match = cls._LINE.match(line)
            if match:
                labels = tuple(sorted(cls._LABEL.findall(match[2] or "")))
                stats[match[1], labels] = int(match[3])
        return stats

    def total(self, name, **labels):
        """The sum over the series of `name` that have these labels. A series that is not printed is 0."""
        wanted = set(labels.items())
        return sum(value for (series, found), value in self.items() if series == name and wanted <= set(found))

    def ended(self, reason):
        return self.total("sessions_ended_total", reason=reason)

    def refused(self, limit):
        return self.total("refused_total", limit=limit)

    def connect_errors(self, kind, **labels):
        return self.total("endpoint_connect_errors_total", kind=kind, **labels)

    def reasons(self):
        """The reasons why sessions ended, for messages."""
        counts = collections.Counter()
        for (name, labels), value in self.items():
            if name == "sessions_ended_total":
                counts[dict(labels)["reason"]] += value
        return dict(counts)


# ---- The proxy

SANITIZER_MARKS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "MemorySanitizer", "runtime error:")


class ProxyError(AssertionError):
    pass


class Proxy:
    """A running Sluice. Its counters are read from what it prints on SIGUSR2."""

    STOP_SECONDS = 20

    def __init__(self, config, arguments=(), stats=None, descriptors=None, environment=None, listeners=(), before=None):
        """`config` is the configuration as a value, or the text of a file that has these `listeners`. `stats` is the
        value of --stats, if any. `before` is called in the new process before the program starts."""
        self._directory = tempfile.TemporaryDirectory(prefix="sluice-e2e-")
        self.config = config
        self.path = path = os.path.join(self._directory.name, "sluice.yaml")
        self.write_configuration(config)
        self._stderr = []
        self._periodic = stats is not None
        self._block = ""  # The last complete dump of the counters.
        self._block_count = 0
        self._stdout_closed = False
        self._stats_lock = threading.Lock()
        self._news = threading.Condition()
        self.addresses = {}  # By listener; of several, the last one.
        self.all_addresses = collections.defaultdict(list)
        self.before_upgrades = []
        self._replaced = []  # Processes that hold the same pipes.
        # Set before the program starts: io_uring keeps the limit that held when an accept was armed.
        limit = [need("prlimit"), f"--nofile={descriptors}:{descriptors}"] if descriptors else []
        self.process = spawn(
            [*limit, SLUICE, "run", "--config", path, *(["--stats", stats] if stats else []), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})}, preexec_fn=before)
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_stdout, self._read_stderr)]
        for reader in self._readers:
            reader.start()
        names = listeners or [listener["name"] for listener in config["listeners"]]
        with self._news:
            self._news.wait_for(lambda: len(self.addresses) == len(names) or self._stderr_closed(), 15 * SLOWNESS)
        if len(self.addresses) != len(names):
            self.kill()
            raise ProxyError(f"sluice did not start:\n{self.stderr()}")
        time.sleep(PAUSE_SECONDS)

    # Configuration

    def write_configuration(self, config):
        with open(self.path, "w", encoding="utf-8") as file:
            # JSON is YAML.
            file.write(config if isinstance(config, str) else json.dumps(config, indent=1))

    def reload(self, config, succeeds=True):
        """Replaces the file and sends SIGHUP. Returns what was logged about it, when it is over."""
        self.write_configuration(config)
        ends = "reload: configuration applied", "nothing was changed: "
        with self._news:
            before = len(self._stderr)
            self.signal(signal.SIGHUP)
            self._news.wait_for(lambda: any(end in line for line in self._stderr[before:] if line for end in ends) or
                                self._stderr_closed(), 15 * SLOWNESS)
            output = "".join(filter(None, self._stderr[before:]))
        if (ends[0] in output) != succeeds:
            raise ProxyError(f"a reload should have {'succeeded' if succeeds else 'failed'}:\n{self.stderr()}")
        return output

    def upgrade(self, *arguments, succeeds=True, waits=True):
        """Runs `sluice upgrade`. If it succeeds, this object stands for the new process, and the counters of the old one
        are in `self.before_upgrades`. Returns what the command printed."""
        OrphanedProcess.expect_some()
        done = subprocess.run([SLUICE, "upgrade", "--pid", str(self.pid), *arguments], capture_output=True, text=True,
                              timeout=120 * SLOWNESS)
        if (done.returncode == 0) != succeeds:
            raise ProxyError(f"an upgrade should have {'succeeded' if succeeds else 'failed'}: {done}\n{self.stderr()}")
        if succeeds:
            old = self.process
            self._replaced.append(old)
            self.process = OrphanedProcess(int(re.search(r"process (\d+)", done.stdout)[1]), old)
            if waits:
                self.end_of(old)
        return done.stdout + done.stderr

    def end_of(self, old, seconds=STOP_SECONDS):
        """Waits for the end of a process that an upgrade has replaced, and keeps its last counters."""
        code = old.wait(seconds * SLOWNESS)
        if code != 0:
            raise ProxyError(f"the old process: exit code {code}\n{self.stderr()}")
        # It prints them just before it ends.
        time.sleep(0.05)
        with self._news:
            self.before_upgrades.append(Stats.parse(self._block))

    # Output

    def _read_stderr(self):
        listener = re.compile(r"^(?:\S+ \w+ )?sluice: listener (\S+) on (\S+)(?: \(IPv4 too\))?$")
        for line in self.process.stderr:
            with self._news:
                self._stderr.append(line)
                match = listener.match(line.rstrip("\n"))
                if match:
                    self.addresses[match[1]] = match[2]
                    self.all_addresses[match[1]].append(match[2])
                self._news.notify_all()
        with self._news:
            self._stderr.append(None)
            self._news.notify_all()

    def _read_stdout(self):
        lines = []
        for line in self.process.stdout:
            if line != "# EOF\n":
                lines.append(line)
                continue
            with self._news:
                self._block, lines = "".join(lines), []
                self._block_count += 1
                self._news.notify_all()
        with self._news:
            self._stdout_closed = True
            self._news.notify_all()

    def _stderr_closed(self):
        return bool(self._stderr) and self._stderr[-1] is None

    def stderr(self):
        with self._news:
            return "".join(line for line in self._stderr if line is not None)

    def wait_for_output(self, text, seconds=10):
        """Waits until a line of stderr has `text`; fails after `seconds`. A thread of its own writes the log, so a line may
        come later than the counters of what it reports."""
        self.wait_for_match(re.escape(text), seconds)

    def wait_for_match(self, pattern, seconds=10):
        """Waits until a line of stderr matches the regular expression; fails after `seconds`."""
        found = re.compile(pattern).search
        with self._news:
            if not self._news.wait_for(lambda: any(found(line) for line in self._stderr if line), seconds * SLOWNESS):
                raise AssertionError(f"waited {seconds * SLOWNESS} s for a line of the log that matches {pattern}; it is\n"
                                     + "".join(filter(None, self._stderr)))

    def count_in_output(self, text):
        """Waits until stderr has `text`; how often it has it."""
        self.wait_for_output(text)
        return self.stderr().count(text)

    # Counters

    def stats(self):
        """The current counters."""
        with self._stats_lock:  # Two pending signals count as one.
            if self._periodic:
                self._next_dump()  # This dump may have begun before the signal.
            return Stats.parse(self._next_dump())

    def dump_count(self):
        """How often the counters have been printed."""
        with self._news:
            return self._block_count

    def _next_dump(self):
        with self._news:
            wanted = self._block_count + 1
            if self.process.poll() is None:
                self.signal(signal.SIGUSR2)
            # They are always printed at exit.
            self._news.wait_for(lambda: self._block_count >= wanted or self._stdout_closed, 15 * SLOWNESS)
            if self._block_count < wanted:
                state = "has ended" if self._stdout_closed else f"did not print its counters for {15 * SLOWNESS} s"
                raise ProxyError(f"sluice {state}; stderr:\n" + "".join(filter(None, self._stderr)))
            return self._block

    def wait_for(self, condition, seconds=10, what=""):
        """Waits until `condition(stats)` is true."""
        deadline = time.monotonic() + seconds * SLOWNESS
        while True:
            stats = self.stats()
            if condition(stats):
                return stats
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds * SLOWNESS} s for {what or 'counters'}; they are\n" + "\n".join(
                    f"{name} {dict(labels)} {value}" for (name, labels), value in stats.items() if value))
            time.sleep(0.01)

    # Listeners

    def port(self, listener="main"):
        return int(self.addresses[listener].rsplit(":", 1)[1])

    def address(self, listener="main"):
        """The address in the form that Python's sockets take."""
        text = self.addresses[listener]
        if text.startswith("unix:"):
            return text[5:].replace("@", "\0", 1) if text.startswith("unix:@") else text[5:]
        host, port = text.rsplit(":", 1)
        return host.strip("[]"), int(port)

    # The process

    @property
    def pid(self):
        return self.process.pid

    def threads(self):
        return [int(name) for name in os.listdir(f"/proc/{self.pid}/task")]

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status_bytes(self, file, field):
        with open(f"/proc/{self.pid}/{file}", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * KIB
        raise KeyError(field)

    def pss(self):
        """The proportional set size without the program's file pages, whose share changes when another process maps
        them."""
        return sum(self._status_bytes("smaps_rollup", field) for field in ("Pss_Anon", "Pss_Shmem"))

    def settled_pss(self, expected):
        """The same, as soon as it is no more than `expected`, or once all unused memory has been returned.

        That takes less than a second, but the connections may have to become idle first.
        """
        deadline = time.monotonic() + 40
        while (pss := self.pss()) > expected and time.monotonic() < deadline:
            time.sleep(0.5)
        return pss

    def peak_rss(self):
        return self._status_bytes("status", "VmHWM")

    def reset_peak_rss(self):
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    @contextlib.contextmanager
    def low_priority_workers(self):
        """All threads of the process and the test share one CPU, on which the workers have the lowest priority. A test finds
        so what the process reports before its workers have done it."""
        before = os.sched_getaffinity(0)
        threads = [int(thread) for thread in os.listdir(f"/proc/{self.process.pid}/task")]

        def run_on(cpus, worker_nice):
            os.sched_setaffinity(0, cpus)
            for thread in threads:
                # A thread may have ended; only root may raise a priority.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                    os.sched_setaffinity(thread, cpus)
                    if pathlib.Path(f"/proc/{self.process.pid}/task/{thread}/comm").read_text().startswith("worker"):
                        os.setpriority(os.PRIO_PROCESS, thread, worker_nice)

        run_on({min(before)}, 19)
        try:
            yield
        finally:
            run_on(before, 0)

    # The end

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, seconds=STOP_SECONDS):
        """Waits until the process ends by itself. Returns its exit code and its last counters."""
        try:
            code = self.process.wait(seconds * SLOWNESS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProxyError(f"sluice did not end within {seconds * SLOWNESS} s; stderr:\n{self.stderr()}") from None
        self._kill_replaced()
        for reader in self._readers:
            reader.join(5)
        end(self.process)
        self._directory.cleanup()
        with self._news:
            return code, Stats.parse(self._block)

    def _kill_replaced(self):
        for old in self._replaced:
            if old.poll() is None:
                old.kill()
                old.wait()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._kill_replaced()
        for reader in self._readers:
            reader.join(5)
        end(self.process)
        self._directory.cleanup()


def stop_and_check(proxy, cut_allowed=False):
    """Ends the proxy and checks that nothing leaked or was lost. Runs after every test.

    Sessions that were cut when the time to drain was over are allowed only where the test leaves some on purpose.
    """
    if proxy.process.poll() is None:
        proxy.signal(signal.SIGTERM)
    code, stats = proxy.wait()
    errors = proxy.stderr()
    problems = [f"sanitizer: {mark}" for mark in SANITIZER_MARKS if mark in errors]
    if code != 0:
        problems.append(f"exit code {code}")
    if "leak" in errors:
        problems.append("a leak was reported")
    if not stats:
        problems.append("no counters at exit")
    for name in ("sessions_active", "endpoint_connections_active", "pool_pinned_bytes", "receives_parked"):
        if stats.total(name) != 0:
            problems.append(f"{name} is {stats.total(name)} at exit")
    if not cut_allowed and stats.ended("shutdown"):
        problems.append(f"{stats.ended('shutdown')} sessions had not ended by themselves")
    if problems:
        raise AssertionError(f"{'; '.join(problems)}\nsessions ended: {stats.reasons()}\nstderr:\n{errors}")
    return stats


def configuration(endpoints, listener=None, tcp=None, upstream=None, **top):
    """A configuration with the listener `main` in front of the upstream `main`."""
    return {
        "workers": 1,
        "shutdown_timeout": "3s",
        **top,
        "listeners": [{
            "name": "main",
            "address": "127.0.0.1:0",
            "tcp": {"forward": "main", **(tcp or {})},
            **(listener or {}),
        }],
        "upstreams": [{"name": "main", "endpoints": list(endpoints), **(upstream or {})}],
    }


class SluiceTest(unittest.TestCase):
    """Starts proxies, and checks each after the test with `stop_and_check`."""

    maxDiff = None

    def start(self, config, arguments=(), cut_allowed=False, **options):
        proxy = Proxy(config, arguments, **options)
        self.addCleanup(self._stop, proxy, cut_allowed)
        return proxy

    def proxy(self, *endpoints, arguments=(), cut_allowed=False, **config):
        """A proxy with one listener in front of `endpoints`; keywords as for `configuration`."""
        return self.start(configuration(endpoints, **config), arguments, cut_allowed)

    def _stop(self, proxy, cut_allowed):
        if not getattr(proxy, "checked", False):
            proxy.checked = True
            stop_and_check(proxy, cut_allowed)

    def stop(self, proxy, cut_allowed=False):
        """Stops it before the test ends, with the same checks. Returns its last counters."""
        proxy.checked = True
        return stop_and_check(proxy, cut_allowed)

    @staticmethod
    def assert_within(began, seconds, what="a step of the test"):
        """It is not later than so many seconds after `began`."""
        if (took := time.monotonic() - began) > seconds:
            raise AssertionError(f"waited {took:.3f} s for {what}, which takes less than {seconds} s")

    def keep(self, closeable):
        """Closes something after the test, before the things that were kept earlier."""
        self.addCleanup(closeable.close)
        return closeable

    def temporary_directory(self):
        # Processes of a browser that has ended may still write there.
        directory = tempfile.TemporaryDirectory(prefix="sluice-e2e-", ignore_cleanup_errors=True)
        self.addCleanup(directory.cleanup)
        return directory.name


def main():
    """Runs the calling test file."""
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _abandon)
    signal.alarm(FILE_DEADLINE_SECONDS)
    raise_descriptor_limit()
    if not os.access(SLUICE, os.X_OK):
        sys.exit(f"{SLUICE} is not there; build it (tools/build release --target sluice) or set SLUICE")
    unittest.main(verbosity=2)
