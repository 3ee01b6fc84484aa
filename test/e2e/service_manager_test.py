"""What a service manager such as systemd is told (sd_notify), with a manager of this test; and the unit files."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import ROOT, SLUICE, need
from origins import Origin, connect, echo, ping


class Manager:
    """The socket of a service manager."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + path[1:] if path.startswith("@") else path)
        self.path = path

    def next(self, seconds=10):
        """The next message as a dictionary, or None."""
        self.socket.settimeout(seconds * harness.SLOWNESS)
        try:
            text = self.socket.recv(4096).decode()
        except TimeoutError:
            return None
        return dict(line.split("=", 1) for line in text.split("\n"))

    def next_but_watchdog(self):
        while (message := self.next()) == {"WATCHDOG": "1"}:
            pass
        return message

    def fed_within(self, seconds):
        """How often the watchdog is fed in that time."""
        found, deadline = 0, time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            found += self.next(left / harness.SLOWNESS) == {"WATCHDOG": "1"}
        return found


@contextlib.contextmanager
def stopped_thread(thread):
    """Stops one thread of a process, as a debugger does."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    seize, interrupt, detach, wall = 0x4206, 0x4207, 17, 0x40000000
    harness.require(libc.ptrace(seize, thread, None, None) == 0, "ptrace is not permitted here")
    assert libc.ptrace(interrupt, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    assert os.waitpid(thread, wall)[0] == thread
    try:
        yield
    finally:
        assert libc.ptrace(detach, thread, None, None) == 0, os.strerror(ctypes.get_errno())


class Notifications(harness.SluiceTest):

    def manager(self, path=None):
        manager = Manager(path or f"@sluice-test-{os.getpid()}")
        self.addCleanup(manager.socket.close)
        return manager

    def start_under(self, manager, **environment):
        """(configuration, proxy)"""
        origin = self.keep(Origin(echo))
        config = harness.configuration([origin.address], workers=2, shutdown_timeout="10s")
        return config, self.start(config, environment={"NOTIFY_SOCKET": manager.path, **environment})

    def connection(self, proxy):
        client = self.keep(connect(proxy.address()))
        self.assertTrue(ping(client))
        return client

    def test_states(self):
        manager = self.manager(os.path.join(self.temporary_directory(), "notify"))
        config, proxy = self.start_under(manager)
        self.assertEqual(manager.next(), {"READY": "1", "STATUS": "serving: 1 listeners, 2 workers"})
        client = self.connection(proxy)

        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        config["listeners"].append({"name": "more", "address": "127.0.0.1:0", "tcp": {"forward": "main"}})
        proxy.reload(config)
        begun = manager.next()
        self.assertEqual((begun.pop("RELOADING"), list(begun)), ("1", ["MONOTONIC_USEC"]))
        self.assertLess(before, int(begun["MONOTONIC_USEC"]))
        self.assertEqual(manager.next(), {"READY": "1", "STATUS": "serving: 2 listeners, 2 workers"})

        proxy.reload("listeners: [", succeeds=False)
        self.assertEqual(manager.next()["RELOADING"], "1")
        self.assertEqual(manager.next(), {"READY": "1", "STATUS": "serving: 2 listeners, 2 workers; the last reload failed, "
                                                                  "see the log"})

        proxy.signal(signal.SIGTERM)
        self.assertEqual(manager.next(), {"STOPPING": "1", "STATUS": "draining: 1 connections open"})
        client.close()
        harness.wait_until(lambda: proxy.process.poll() is not None, what="the end")
        self.stop(proxy)

    def test_ready_means_accepting(self):
        """A connection attempt that begins when READY has come is never refused."""
        for _ in range(5):
            with socket.socket() as reserved:
                reserved.bind(("127.0.0.1", 0))
                port = reserved.getsockname()[1]
            manager = self.manager(f"@sluice-test-{os.getpid()}-{port}")
            process = harness.spawn([SLUICE, "run", "--listen", f"127.0.0.1:{port}", "--to", "127.0.0.1:1"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env={**os.environ, "NOTIFY_SOCKET": manager.path})
            self.assertEqual(manager.next()["READY"], "1")
            socket.create_connection(("127.0.0.1", port), 5).close()
            harness.end(process)

    def test_watchdog(self):
        manager = self.manager()
        _, proxy = self.start_under(manager, WATCHDOG_USEC="400000")
        self.assertEqual(manager.next()["READY"], "1")
        self.assertGreaterEqual(manager.fed_within(2), 5)  # Each 0.2 s.
        workers = [thread for thread in proxy.threads() if self.name_of(proxy, thread).startswith("worker ")]
        self.assertEqual(len(workers), 2)
        for worker in workers:
            with stopped_thread(worker):
                manager.fed_within(0.7)  # It may have answered just before, and so may the datagram have been sent.
                self.assertEqual(manager.fed_within(1.5), 0)
                proxy.wait_for_output("a worker makes no progress: the watchdog")
            self.assertGreaterEqual(manager.fed_within(2), 3)

        client = self.connection(proxy)
        proxy.signal(signal.SIGTERM)
        self.assertEqual(manager.next_but_watchdog()["STOPPING"], "1")
        self.assertGreaterEqual(manager.fed_within(1), 2)  # While it drains, too.
        client.close()
        harness.wait_until(lambda: proxy.process.poll() is not None, what="the end")
        self.stop(proxy)

    def test_watchdog_of_another_process(self):
        manager = self.manager()
        self.start_under(manager, WATCHDOG_USEC="100000", WATCHDOG_PID="1")
        self.assertEqual(manager.next()["READY"], "1")
        self.assertEqual(manager.fed_within(0.5), 0)

    def name_of(self, proxy, thread):
        try:
            with open(f"/proc/{proxy.pid}/task/{thread}/comm", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""  # It has ended: the kernel's own for the ring come and go.


class PassedSockets(harness.SluiceTest):

    def test_socket_of_another_user(self):
        """Defect: the kernel lets no other user bind the port again, so that the second worker had no socket, and the
        process did not start. All workers share the socket then."""
        listening = self.keep(socket.socket())
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(100)
        folder = pathlib.Path(self.temporary_directory())
        folder.chmod(0o755)
        program, config = folder / "sluice", folder / "sluice.yaml"
        shutil.copy(SLUICE, program)
        origin = self.keep(Origin(echo))
        config.write_text(json.dumps(harness.configuration(
            [origin.address], workers=2, listener={"address": "127.0.0.1:%d" % listening.getsockname()[1]})))

        def become_another():
            os.dup2(listening.fileno(), 3)
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
        child = harness.spawn(["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" run --config "$1"', program, config],
                              preexec_fn=become_another, pass_fds=(3,), cwd="/", stdout=subprocess.DEVNULL)
        self.addCleanup(harness.end, child)
        clients = [self.keep(connect(listening.getsockname())) for _ in range(20)]
        for client in clients:
            self.assertTrue(ping(client))
            client.close()
        child.terminate()
        self.assertEqual(child.wait(10 * harness.SLOWNESS), 0)


class Units(harness.SluiceTest):

    def test_units_are_valid(self):
        """By systemd itself, with the program where the units have it."""
        analyze = need("systemd-analyze")
        folder = self.temporary_directory()
        for name in ("sluice.service", "sluice.socket"):
            text = (ROOT / "packaging/systemd" / name).read_text(encoding="utf-8")
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text.replace("/usr/bin/sluice", os.path.abspath(SLUICE)))
        result = subprocess.run([analyze, "verify", "--man=no", "--recursive-errors=no",
                                 *(os.path.join(folder, name) for name in ("sluice.service", "sluice.socket"))],
                                capture_output=True, text=True, timeout=60, check=False)
        about_us = [line for line in result.stderr.splitlines() if "sluice" in line]
        self.assertEqual((result.returncode, about_us), (0, []), result.stderr)

    def test_exposure(self):
        """By systemd's own measure, from 0 to 10, it is below 2.5. A service without options has 9.6."""
        analyze = need("systemd-analyze")
        unit = str(ROOT / "packaging/systemd/sluice.service")
        result = subprocess.run([analyze, "security", "--offline=true", "--threshold=25", unit], capture_output=True, text=True,
                                timeout=60, check=False)
        if "unrecognized option" in result.stderr:
            self.skipTest("this systemd-analyze cannot measure a file")
        self.assertEqual(result.returncode, 0, result.stdout[-300:] + result.stderr)


if __name__ == "__main__":
    harness.main()
