"""`sluice top`: in a terminal, whose state it restores, and without one."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from admin_test import AdminTest, TOKEN
from harness import SLOWNESS, SLUICE
from origins import refused_address
from reload_test import Http1, listener, respond, upstream

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[0m\x1b[?25h\x1b[?1049l"


class Terminal:
    """A pseudo-terminal in which `sluice top` runs."""

    def __init__(self, *arguments, rows=24, columns=120):
        self.master, self.slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        # With a terminal of its own, Ctrl-C is a signal for it.
        self.process = harness.spawn([SLUICE, "top", *arguments], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                     start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536)
        return self.output

    def wait_for(self, pattern, seconds=20):
        """Until a screen that is drawn from now on matches."""
        start = len(self.read())
        return harness.wait_until(lambda: re.search(pattern, self.read()[start:].decode()), seconds, pattern)

    def screen(self):
        """The lines of the last complete screen, without colors."""
        text = self.read().split(b"\x1b[H")[-2].decode()
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text).split("\n")

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        """The exit code, when it has ended by itself."""
        deadline = time.monotonic() + 20 * SLOWNESS
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
            time.sleep(0.01)
        code = self.process.poll()
        self.read()
        return code

    def close(self):
        harness.end(self.process)
        os.close(self.master)
        os.close(self.slave)


class Top(AdminTest):

    def start_top(self, *arguments, **options):
        terminal = self.keep(Terminal(*arguments, **options))
        harness.wait_until(lambda: terminal.read().count(b"\x1b[H") >= 2, 30, "two screens")
        return terminal

    def start_proxy(self, **rest):
        return self.start_with(
            listener("web", http={"forward": "app"}), listener("hello", http=respond("hello")),
            upstreams=[upstream("app", refused_address(), fail_timeout="60s")], **rest)[0]

    def check_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
        self.assertTrue(terminal.output.startswith(ENTER))
        self.assertTrue(terminal.output.endswith(LEAVE), terminal.output[-200:])
        self.assertEqual(terminal.output.count(ENTER), 1)

    def test_figures(self):
        proxy = self.start_proxy()
        terminal = self.start_top("--address", self.address_of(proxy))
        self.assertNotEqual(termios.tcgetattr(terminal.slave), terminal.before)
        client, failing = self.keep(Http1(proxy, "hello")), self.keep(Http1(proxy, "web"))
        failing.get()
        for _ in range(50):
            client.get()
        terminal.wait_for(r"hello +1 +0 +[\d.]+ ")
        terminal.wait_for(r"no_endpoint +requests +web +[\d.]+ +1")
        terminal.wait_for(r"app +127\.0\.0\.1:\d+ +down +0  connections to it have failed")
        self.assertRegex(terminal.screen()[0], r"^sluice [\d.]+, up (\d+ min )?\d+ s, configuration 1: ready$")
        terminal.size(12, 40)
        terminal.wait_for(r"q: end")
        terminal.wait_for(r"q: end")
        lines = terminal.screen()
        self.assertLessEqual(len(lines), 12)
        self.assertLessEqual(max(map(len, lines)), 40)
        terminal.type(b"xq")
        self.assertEqual(terminal.end(), 0)
        self.check_restored(terminal)

    def test_signals(self):
        """Ctrl-C is a normal end. The terminal is restored by others, too, also while there is no response."""
        proxy = self.start_proxy()
        for stop, code in ((lambda terminal: terminal.type(b"\x03"), 0),
                           (lambda terminal: terminal.process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM)):
            terminal = self.start_top("--address", self.address_of(proxy))
            stop(terminal)
            self.assertEqual(terminal.end(), code)
            self.check_restored(terminal)
        terminal = self.start_top("--address", self.address_of(proxy))
        proxy.signal(signal.SIGSTOP)
        try:
            time.sleep(2)
            terminal.type(b"\x03")
            self.assertEqual(terminal.end(), 0)
            self.check_restored(terminal)
        finally:
            proxy.signal(signal.SIGCONT)

    def test_process_ends_and_comes_back(self):
        proxy = self.start_proxy()
        address = self.address_of(proxy)
        terminal = self.start_top("--address", address)
        proxy.signal(signal.SIGTERM)
        proxy.wait()
        proxy.checked = True
        terminal.wait_for(r"no figures: .*Connection refused")
        self.start_with(listener("again", http=respond("hello")), admin={"address": address})
        terminal.wait_for(r"again +0 +0 ")
        terminal.wait_for(r"\x1b\[1msluice [\d.]+, up ")
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def top(self, *arguments, code=0):
        done = subprocess.run([SLUICE, "top", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, code, done)
        return done.stdout + done.stderr

    def test_without_terminal(self):
        """One screen, as plain text."""
        file = self.temporary_directory() + "/token"
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN)
        proxy = self.start_proxy(admin={"token_file": file})
        address = self.address_of(proxy)
        text = self.top("--address", address, "--token-file", file)
        self.assertRegex(text, r"^sluice [\d.]+, up [^\n]*, configuration 1: ready\n")
        self.assertRegex(text, r"\napp +127\.0\.0\.1:\d+ +up +0")
        self.assertNotIn("\x1b", text)
        self.assertIn("/metrics: 401 Unauthorized", self.top("--address", address, code=1))
        self.assertIn("is the process running", self.top("--address", refused_address(), code=1))
        self.assertIn("top needs either --config FILE or --address ADDRESS", self.top(code=2))


if __name__ == "__main__":
    harness.main()
