"""`sandbox`: the process serves, reloads and rotates its logs with the files of its configuration, and opens no others."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import harness
from harness import SLOWNESS, need, wait_until
from origins import connect, free_port, receive_until
from programs import Nginx
from tls_support import TlsTest


def filters_of(pid, task):
    """How many filters of system calls a thread has."""
    lines = pathlib.Path(f"/proc/{pid}/task/{task}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("Seccomp_filters:")).split()[1])


def has_landlock():
    """As src/proxy/server/landlock.cc does: landlock_create_ruleset, with the flag for the version."""
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) > 0


class Sandbox(TlsTest):

    @classmethod
    def setUpClass(cls):
        if not has_landlock():
            raise unittest.SkipTest("the kernel has no Landlock")
        super().setUpClass()

    def folder_with(self, certificate):
        folder = self.temporary_directory()
        self.put(certificate, folder)
        return folder

    def put(self, certificate, folder):
        """As certbot and editors do: by renaming a new file."""
        for name in ("chain", "key"):
            shutil.copy(certificate[name], os.path.join(folder, name + ".new"))
            os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))

    def config(self, tls, logs, **http):
        """Two listeners, by TLS and by a Unix socket, in front of an endpoint with a name."""
        config = harness.configuration([f"localhost:{self.port}"], workers=2, sandbox=True, admin={"address": "127.0.0.1:0"},
                                       body_file={"directory": logs})
        main = config["listeners"][0]
        del main["tcp"]
        config["listeners"] = [
            {**main, "tls": {"certificates": [{name: f"{tls}/{name}" for name in ("chain", "key")}]},
             "http": {"access_log": {"file": f"{logs}/access.log"},
                      "routes": [{"forward": "main", "buffer": {"requests": "10MiB"}}], **http}},
            {**main, "name": "local", "address": f"unix:{logs}/socket", "http": {"routes": [{"forward": "main"}]}}]
        return config

    def start_with(self, tls, logs, **top):
        need("curl")
        self.port = free_port()
        self.keep(Nginx([("127.0.0.1", self.port)], f"""server {{
            listen 127.0.0.1:{self.port}; client_max_body_size 0; location / {{ return 200 hello; }} }}"""))
        return self.start({**self.config(tls, logs), **top})

    def request(self, client):
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return receive_until(client, b"hello")

    def curl(self, *arguments):
        done = subprocess.run(["curl", "-sS", "-m", str(20 * SLOWNESS), *arguments], capture_output=True, text=True,
                              timeout=30 * SLOWNESS)
        return done.stdout + done.stderr

    def get(self, proxy, *arguments):
        host, port = proxy.address("main")
        return self.curl("--cacert", self.ca, "--connect-to", f"::{host}:{port}", *arguments, f"https://localhost:{port}/")

    def subject(self, proxy):
        return dict(part[0] for part in self.secure(proxy.address("main")).getpeercert()["subject"])["commonName"]

    def test_serves_and_rotates(self):
        logs = self.temporary_directory()
        proxy = self.start_with(self.folder_with(self.server), logs)
        proxy.wait_for_output("sandbox: opens files only in the folders of its configuration and its logs")
        for thread in proxy.threads():
            self.assertEqual(filters_of(proxy.pid, thread), filters_of("self", os.getpid()) + 1)
        self.assertEqual(self.get(proxy), "hello")
        self.assertEqual(self.curl("--unix-socket", f"{logs}/socket", "http://localhost/"), "hello")
        body = os.path.join(self.temporary_directory(), "body")
        with open(body, "wb") as file:
            file.write(os.urandom(5 << 20))
        self.assertEqual(self.get(proxy, "-T", body), "hello")
        wait_until(lambda: pathlib.Path(logs, "access.log").read_text(encoding="ascii").count("\n") == 2, 5, "lines of the log")
        os.rename(f"{logs}/access.log", f"{logs}/access.log.1")
        proxy.signal(signal.SIGUSR1)
        proxy.wait_for_output("log and access logs reopened")
        self.assertEqual(self.get(proxy), "hello")
        wait_until(lambda: pathlib.Path(logs, "access.log").read_text(encoding="ascii").count("\n") == 1, 5, "a line of the new log")

    def test_pages_of_the_admin_listener(self):
        """Metrics need /proc. A profile needs timers, signals and, for the names of functions, the program's own file."""
        proxy = self.start_with(self.folder_with(self.server), self.temporary_directory())
        proxy.wait_for_match(r"admin listener on (\S+)")
        admin = "http://" + re.search(r"admin listener on (\S+)", proxy.stderr())[1]
        self.assertRegex(self.curl("-f", admin + "/metrics"), r"process_open_fds [1-9]")
        for page in ("/memory", "/pools", "/connections"):
            self.assertEqual(self.curl("-o", "/dev/null", "-w", "%{http_code}", admin + page), "200")
        with subprocess.Popen(["curl", "-sS", "-f", admin + "/profile?seconds=2"], stdout=subprocess.PIPE, text=True) as profile:
            while profile.poll() is None:
                self.assertEqual(self.get(proxy), "hello")
            self.assertIn("sluice::", profile.stdout.read())
        self.assertEqual(profile.returncode, 0)

    def test_reloads(self):
        """Files in the same folders are read; others are refused before anything changes."""
        tls, logs, elsewhere = self.folder_with(self.server), self.temporary_directory(), self.folder_with(self.wildcard)
        proxy = self.start_with(tls, logs)
        self.assertEqual(self.subject(proxy), "server")
        self.put(self.rsa, tls)
        proxy.reload(self.config(tls, logs))
        self.assertEqual(self.subject(proxy), "rsa")
        why = "Permission denied\n.*: with `sandbox`, files can be opened only in folders that the configuration at the start named; restart"
        refused = proxy.reload(self.config(elsewhere, logs), succeeds=False)
        self.assertRegex(refused, rf"certificates\[0\].chain: cannot read {elsewhere}/chain: {why}")
        access_log = {"access_log": {"file": f"{elsewhere}/access.log"}}
        refused = proxy.reload(self.config(tls, logs, **access_log), succeeds=False)
        self.assertRegex(refused, rf"{elsewhere}/access.log.*{why}")
        self.assertFalse(os.path.exists(f"{elsewhere}/access.log"))
        self.assertIn("`sandbox` has changed, but is read at start only", proxy.reload({**self.config(tls, logs), "sandbox": False}))
        self.assertEqual(self.subject(proxy), "rsa")
        self.assertEqual(self.get(proxy), "hello")

    def test_starts_no_program(self):
        proxy = self.start_with(self.folder_with(self.server), self.temporary_directory())
        printed = proxy.upgrade(succeeds=False)
        self.assertIn("a process with `sandbox` starts no programs: stop it, and start the new one", printed)
        self.assertEqual(self.get(proxy), "hello")

    def test_upgrade_to_a_sandbox(self):
        """From a process without it. An idle connection moves."""
        proxy = self.start_with(self.folder_with(self.server), self.temporary_directory(), sandbox=False)
        client = self.keep(connect(proxy.address("local")))
        self.assertIn(b"hello", self.request(client))
        proxy.write_configuration({**proxy.config, "sandbox": True})
        self.assertIn("1 connections moved", proxy.upgrade())
        proxy.wait_for_output("sandbox: opens files only in the folders of its configuration and its logs")
        self.assertIn(b"hello", self.request(client))
        self.assertEqual(self.get(proxy), "hello")
        for thread in proxy.threads():
            self.assertEqual(filters_of(proxy.pid, thread), filters_of("self", os.getpid()) + 1)


if __name__ == "__main__":
    harness.main()
