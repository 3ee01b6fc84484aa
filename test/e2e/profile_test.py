"""Profiles of a running process: the functions that traffic uses, the time that they take, and that no request is lost by it."""

import contextlib
import http.client
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import threading
import time

import harness
from admin_test import AdminTest
from harness import SLUICE, SLOWNESS, wait_until
from origins import Origin
from reload_test import listener, server, upstream

# TSan delivers signals late, when their stacks are gone; ASan's own functions are everywhere.
EXACT = not harness.SANITIZER


def lines_of(text):
    """(stack as a list, number) of folded stacks."""
    for line in text.splitlines():
        stack, number = re.fullmatch(r"(.+) (\d+)", line).groups()
        yield stack.split(";"), int(number)


class Load(threading.Thread):
    """Requests on one connection, one after the other. Counts those without a good response."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.good, self.bad, self.ended = address, 0, [], False
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address, timeout=20 * SLOWNESS)
        while not self.ended:
            try:
                connection.request("GET", "/some/path", headers={"accept": "text/html"})
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                self.bad.append(repr(error))
                connection.close()
                continue
            if response.status == 200:
                self.good += 1
            else:
                self.bad.append(response.status)
        connection.close()

    def close(self):
        self.ended = True
        self.join(30 * SLOWNESS)


class Pipeline(Load):
    """Requests on one connection, many in each write: their code costs more than the system calls do."""
    request = b"GET /direct HTTP/1.1\r\nHost: localhost\r\n\r\n"
    at_once = 200

    def run(self):
        with socket.create_connection(self.address, timeout=20 * SLOWNESS) as sock:
            while not self.ended:
                sock.sendall(self.request * self.at_once)
                responses = b""
                while responses.count(b"\r\n\r\n") < self.at_once and (piece := sock.recv(1 << 20)):
                    responses += piece
                good = responses.count(b"HTTP/1.1 204 ")
                self.good += good
                if good < self.at_once:
                    self.bad.append(responses[-200:])
                    return


class Profile(AdminTest):

    def serve(self, **top):
        origin = self.keep(Origin(server("good")))
        routes = [{"match": {"path": {"exact": "/direct"}}, "respond": {"status": 204}}, {"forward": "app"}]
        proxy, _ = self.start_with(listener("main", http={"http1": {"max_requests": 0}, "routes": routes}),
                                   upstreams=[upstream("app", origin)], **top)
        return proxy

    def profile(self, proxy, seconds, status=200):
        got, _, body = self.curl(self.address_of(proxy), f"/profile?seconds={seconds}", seconds=seconds + 20)
        self.assertEqual(got, status, body)
        return body

    def process_cpu_us(self, proxy):
        fields = pathlib.Path(f"/proc/{proxy.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")

    def test_functions_of_http_during_load(self):
        proxy = self.serve()
        load = [self.keep(Pipeline(proxy.address("main"))) for _ in range(2)]
        wait_until(lambda: all(each.good for each in load), 20, "requests")
        # The kernel takes samples at its ticks. While others compete for the processors, it gives what a thread has used
        # since its last tick to what the thread does at the next one: some profiles are wrong then.
        for tries_left in reversed(range(3 if EXACT else 1)):
            before, good = self.process_cpu_us(proxy), sum(each.good for each in load)
            status, fields, body = self.curl(self.address_of(proxy), "/profile?seconds=3", seconds=30)
            used, requests = self.process_cpu_us(proxy) - before, sum(each.good for each in load) - good
            self.assertEqual((status, fields["content-type"]), (200, "text/plain; charset=utf-8"))
            self.assertGreater(requests, 100)
            try:
                self.check_stacks(body, used)
                break
            except AssertionError as error:
                if not tries_left:
                    raise
                harness.print_note(str(error).splitlines()[0])
        for each in load:
            each.close()
        self.assertEqual([each.bad for each in load], [[]] * len(load), "requests were lost")
        proxy.wait_for_output("admin: profile of 3 s: ")

        # It ends with the profile.
        timers = pathlib.Path(f"/proc/{proxy.process.pid}/timers")
        if timers.exists():
            self.assertEqual(timers.read_text(encoding="ascii"), "")

    def check_stacks(self, body, used_us):
        stacks = [(stack, number) for stack, number in lines_of(body) if stack != ["[lost samples]"]]
        self.assertEqual(len(stacks), len(body.splitlines()), "samples are lost")
        self.assertLessEqual({stack[0] for stack, _ in stacks},
                             {"worker 0", "worker 1", "admin", "control", "log", "access log", "resolver", "helper"})
        if EXACT:
            total = sum(number for _, number in stacks)
            # The kernel's figure has ticks of 10 ms, and a sample stands for 5 ms.
            self.assertGreater(total, used_us * 0.5)
            self.assertLess(total, used_us * 1.3 + 100_000)
            workers = [(stack, number) for stack, number in stacks if stack[0].startswith("worker ")]
            http_code = sum(number for stack, number in workers if any("Http1" in each for each in stack))
            self.assertGreater(http_code, total * 0.1, body)
            loop = sum(number for stack, number in workers if "sluice::Worker::run" in stack)
            self.assertGreater(loop, sum(number for _, number in workers) * 0.5, body)

    def test_one_at_a_time(self):
        proxy = self.serve()
        address = self.address_of(proxy)
        client = self.connect(proxy)
        client.sendall(b"GET /profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(address, "/profile?seconds=1", seconds=10)[0] == 409, 10, "the first profile")
        self.assertEqual(self.curl(address, "/profile?seconds=1")[2], "another profile is in progress; try again later\n")
        # Other pages do not wait for it.
        begin = time.monotonic()
        self.assertEqual(self.get(proxy, "/healthz"), "ok\n")
        self.assert_within(begin, 5 * SLOWNESS)
        # A client that leaves ends its profile.
        client.close()
        wait_until(lambda: self.curl(address, "/profile?seconds=1", seconds=10)[0] == 200, 20, "the next profile")

    def test_requests_that_are_wrong(self):
        proxy, _ = self.start_with()
        for query, text in (("seconds=0", 'seconds: expected a number from 1 to 60, got "0"'), ("seconds=61", '"61"'),
                            ("seconds=x", '"x"'), ("second=1", 'there is no parameter "second"; the parameters are type, seconds and unit'),
                            ("seconds", "expected NAME=VALUE"), ("type=heap", 'type: expected time or allocations, got "heap"'),
                            ("type=allocations&unit=kb", 'unit: expected bytes or count, got "kb"'),
                            ("unit=count", "unit is for type=allocations")):
            self.assertIn(text, self.get(proxy, "/profile?" + query, status=400))
        self.assertEqual(self.curl(self.address_of(proxy), "/profile", "-X", "POST")[0], 405)

    def test_command(self):
        proxy = self.serve()
        self.keep(Load(proxy.address("main")))
        address = self.address_of(proxy)

        def command(*arguments):
            return subprocess.run([SLUICE, "admin", *arguments], capture_output=True, text=True, timeout=60 * SLOWNESS, check=False)

        done = command("--address", address, "profile", "--seconds", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for stack, number in lines_of(done.stdout):
            self.assertGreater(number, 0, stack)
        done = command("--address", address, "profile", "--seconds", "99")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected a number from 1 to 60", done.stdout)
        for wrong, text in ((["/metrics", "--seconds", "1"], "--seconds is for the page /profile"),
                            (["/metrics", "--allocations"], "--allocations is for the page /profile"),
                            (["profile", "--seconds", "x"], "--seconds: expected a number")):
            done = command("--address", address, *wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn(text, done.stderr)

    def test_end_of_the_process(self):
        """A profile that is in progress holds up nothing."""
        proxy = self.serve()
        client = self.connect(proxy)
        client.sendall(b"GET /profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: self.curl(self.address_of(proxy), "/profile?seconds=1")[0] == 409, 10, "the profile")
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(20 * SLOWNESS), 0)

    def test_signals_of_others(self):
        """SIGPROF ends a process that has no handler. After a profile it does nothing."""
        proxy = self.serve()
        self.profile(proxy, 1)
        for _ in range(20):
            proxy.process.send_signal(signal.SIGPROF)
        load = self.keep(Load(proxy.address("main")))
        wait_until(lambda: load.good > 10, 20, "requests")
        self.assertEqual(load.bad, [])

    def test_with_user(self):
        """The filter of system calls, and the rights of an ordinary user, are enough."""
        if os.geteuid() != 0:
            self.skipTest("only root can change to another user")
        with contextlib.suppress(KeyError):
            pwd.getpwnam("nobody")
            proxy = self.serve(user="nobody")
            load = self.keep(Load(proxy.address("main")))
            body = self.profile(proxy, 2)
            if EXACT:
                self.assertRegex(body, r"(?m)^worker \d;.*sluice::.* \d+$")
            load.close()
            self.assertEqual(load.bad, [])


if __name__ == "__main__":
    harness.main()
