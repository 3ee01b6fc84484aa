"""What the process gives up: `user`, new privileges, core dumps. A process that was started as root serves, reloads, rotates its
logs and is upgraded as an ordinary user."""

import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import SLOWNESS, need, wait_until
from origins import Origin, connect, echo, ping
from tls_support import TlsTest

NAME = "nobody"
BIND_SERVICE = f"{1 << 10:016x}"
NOTHING = f"{0:016x}"


def status_of(pid, task=None):
    """The lines of /proc/PID/status, of a thread if one is named."""
    path = f"/proc/{pid}/task/{task}/status" if task else f"/proc/{pid}/status"
    return dict(line.split(":\t", 1) for line in pathlib.Path(path).read_text(encoding="ascii").splitlines() if ":\t" in line)


def as_user(uid, gid, groups=()):
    """For `preexec_fn`."""
    def change():
        os.setgroups(list(groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    return change


def is_open_to_all(path):
    return all(os.stat(each).st_mode & 0o005 == 0o005 for each in [path, *pathlib.Path(path).parents])


class OpenProxy(harness.Proxy):
    """One whose configuration other users may read, as they may read /etc."""

    def write_configuration(self, config):
        os.chmod(os.path.dirname(self.path), 0o755)
        super().write_configuration(config)


class PrivilegesTest(TlsTest):

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can change to another user")
        super().setUpClass()
        os.chmod(cls.folder, 0o755)
        cls.user = pwd.getpwnam(NAME)
        cls.before = harness.SLUICE
        cls.programs = tempfile.mkdtemp()
        os.chmod(cls.programs, 0o755)
        if not is_open_to_all(os.path.abspath(harness.SLUICE)):
            harness.SLUICE = shutil.copy(harness.SLUICE, cls.programs)

    @classmethod
    def tearDownClass(cls):
        harness.SLUICE = cls.before
        shutil.rmtree(cls.programs)
        super().tearDownClass()

    def start(self, config, arguments=(), cut_allowed=False, **options):
        proxy = OpenProxy(config, arguments, **options)
        self.addCleanup(self._stop, proxy, cut_allowed)
        return proxy

    def low_address(self, number):
        """An address of this process with a port that only root may use."""
        return f"127.{77 + os.getpid() // 250 % 100}.{os.getpid() % 250}.{number}:80"

    def folder_of(self, user=None):
        folder = self.temporary_directory()
        os.chmod(folder, 0o755)
        if user:
            os.chown(folder, user.pw_uid, user.pw_gid)
        return folder

    def assert_runs_as(self, proxy, user, capabilities=NOTHING, filtered=True):
        """In all of its threads. Those that began before the change have no capability, whatever is kept."""
        for thread in proxy.threads():
            status = status_of(proxy.pid, thread)
            self.assertEqual(status["Uid"].split(), [str(user.pw_uid)] * 4)
            self.assertEqual(status["Gid"].split(), [str(user.pw_gid)] * 4)
            self.assertEqual(status["Groups"].split(), [str(user.pw_gid)])
            self.assertIn(status["CapPrm"], {capabilities, NOTHING})
            self.assertEqual(status["NoNewPrivs"], "1")
            # One more than this process has, also after upgrades.
            self.assertEqual(int(status["Seccomp_filters"]), int(status_of("self")["Seccomp_filters"]) + filtered)
        status = status_of(proxy.pid)
        self.assertEqual([status[key] for key in ("CapPrm", "CapEff", "CapInh", "CapAmb")], [capabilities] * 4)

    def config(self, *addresses, **top):
        origin = self.keep(Origin(echo))
        config = harness.configuration([origin.address], workers=2, **{"user": NAME, **top})
        main = config["listeners"][0]
        config["listeners"] = [{**main, "name": f"at{i}", "address": address} for i, address in enumerate(addresses)]
        return config

    def assert_serves(self, address):
        client = self.keep(connect(address))
        self.assertTrue(ping(client))
        client.close()


class User(PrivilegesTest):

    def test_reads_as_root_and_serves_as_user(self):
        """A key and a folder that only root may read are enough to start, and the log says what that means for a reload."""
        files = self.folder_of()
        for name in ("chain", "key"):
            shutil.copy(self.server[name], os.path.join(files, name))
        os.chmod(os.path.join(files, "key"), 0o600)
        config = self.config("127.0.0.1:0")
        config["listeners"][0]["tls"] = {"certificates": [{name: os.path.join(files, name) for name in ("chain", "key")}]}
        proxy = self.start(config)
        self.assert_runs_as(proxy, self.user)
        with self.secure(proxy.address("at0")) as client:
            self.assertTrue(ping(client))
        proxy.wait_for_match(f"runs as {NAME}: uid {self.user.pw_uid}, gid {self.user.pw_gid}, without capabilities")
        proxy.wait_for_match(rf"warning sluice: a reload or an upgrade would fail now, because {NAME} may not do what "
                                  rf"root could: .*sluice.yaml:\d+:\d+: listeners\[0\].tls.certificates\[0\].key: .*{files}/key")
        self.assertIn("Permission denied", proxy.reload(config, succeeds=False))
        with self.secure(proxy.address("at0")) as client:
            self.assertTrue(ping(client))
        os.chown(os.path.join(files, "key"), 0, self.user.pw_gid)
        os.chmod(os.path.join(files, "key"), 0o640)
        proxy.reload(config)
        self.assertEqual(proxy.reload({**config, "user": "daemon", "core_dumps": "on"}).count("is read at start only"), 2)

    def test_low_ports_by_reload_and_upgrade(self):
        """With such a port in the configuration one capability stays, also in the program that an upgrade starts."""
        config = self.config(self.low_address(1))
        proxy = self.start(config)
        self.assertNotIn("would fail now", proxy.stderr())
        self.assert_runs_as(proxy, self.user, BIND_SERVICE)
        config["listeners"].append({**config["listeners"][0], "name": "second", "address": self.low_address(2)})
        proxy.reload(config)
        self.assert_serves((self.low_address(2)[:-3], 80))
        client = self.keep(connect((self.low_address(1)[:-3], 80)))
        self.assertTrue(ping(client))
        proxy.upgrade()
        self.assert_runs_as(proxy, self.user, BIND_SERVICE)
        self.assertTrue(ping(client), "it has moved")
        client.close()
        config["listeners"].append({**config["listeners"][0], "name": "third", "address": self.low_address(3)})
        proxy.reload(config)
        for number in (1, 2, 3):
            self.assert_serves((self.low_address(number)[:-3], 80))
        proxy.upgrade()
        self.assert_runs_as(proxy, self.user, BIND_SERVICE)

    def test_no_capability_without_a_low_port(self):
        config = self.config("127.0.0.1:0")
        proxy = self.start(config)
        self.assert_runs_as(proxy, self.user)
        more = {**config, "listeners": [*config["listeners"], {**config["listeners"][0], "name": "low", "address": self.low_address(1)}]}
        self.assertIn("ports below 1024 need CAP_NET_BIND_SERVICE", proxy.reload(more, succeeds=False))
        self.assert_serves(proxy.address("at0"))
        done = subprocess.run([harness.SLUICE, "reload", "--pid", str(proxy.pid)], capture_output=True, text=True, check=False,
                              timeout=60, preexec_fn=as_user(self.user.pw_uid, self.user.pw_gid))
        self.assertIn("CAP_NET_BIND_SERVICE", done.stderr, "its user may send it commands")
        proxy.write_configuration(config)
        proxy.upgrade()
        self.assert_runs_as(proxy, self.user)
        self.assert_serves(proxy.address("at0"))

    def test_logs(self):
        """New files belong to the user. One of root's goes on, and the log says what will not."""
        folder = self.folder_of(self.user)
        log = os.path.join(folder, "access.log")
        config = self.config("127.0.0.1:0")
        config["listeners"][0]["tcp"]["access_log"] = log
        proxy = self.start(config)
        self.assertNotIn("would fail now", proxy.stderr())
        self.assertEqual(os.stat(log).st_uid, self.user.pw_uid)
        self.assert_serves(proxy.address("at0"))
        wait_until(lambda: os.path.getsize(log) > 0, what="a line")
        os.rename(log, log + ".1")
        proxy.signal(harness.signal.SIGUSR1)
        proxy.wait_for_output("access logs reopened")
        self.assertEqual(os.stat(log).st_uid, self.user.pw_uid)
        proxy.upgrade()
        self.stop(proxy)

        os.chown(log, 0, 0)
        os.chmod(log, 0o600)
        proxy = self.start(config)
        proxy.wait_for_match(f"would fail now, because {NAME} may not do what root could: .*access_log.file: {log} "
                                  "cannot be written to: Permission denied")
        before = os.path.getsize(log)
        self.assert_serves(proxy.address("at0"))
        wait_until(lambda: os.path.getsize(log) > before, what="a line in the file that root has opened")

    def test_who_may_start_it(self):
        origin = self.keep(Origin(echo))
        folder = self.folder_of()
        path = os.path.join(folder, "sluice.yaml")

        def run(user, command="run", change=None):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"user: {user}\nlisteners: [ {{ name: a, address: 127.0.0.1:0, tcp: {{ forward: b }} }} ]\n"
                           f"upstreams: [ {{ name: b, endpoints: [ \"{origin.address}\" ] }} ]\n")
            return subprocess.run([harness.SLUICE, command, "--config", path], capture_output=True, text=True, check=False,
                                  timeout=60 * SLOWNESS, preexec_fn=change)
        for user, error in (("no-such-user-1", 'there is no user "no-such-user-1" on this machine'),
                            (f"{NAME}:no-such-1", 'there is no group "no-such-1" on this machine'),
                            ("root", '"root" is root: name a user without privileges'), ("a:b:c", "expected a user")):
            result = run(user)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{path}:1:7: user: {error}", result.stderr)
        checked = run("no-such-user-1", "check")
        self.assertEqual(checked.returncode, 0, "another machine may have it")
        self.assertIn(f"{path}:1:7: warning: user: there is no user", checked.stderr)
        self.assertEqual(run(NAME, "check", as_user(4000123, 4000124)).returncode, 0)
        result = run(NAME, change=as_user(4000123, 4000124))
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{path}:1:7: user: only root can change to user {NAME}, and this process has uid 4000123", result.stderr)

    def test_started_as_that_user(self):
        proxy = self.start(self.config("127.0.0.1:0"), before=as_user(self.user.pw_uid, self.user.pw_gid, [self.user.pw_gid]))
        self.assert_runs_as(proxy, self.user, filtered=False)
        self.assert_serves(proxy.address("at0"))

    def test_upgrade_from_root(self):
        """A process of root is replaced by one that changes to a user. Connections move, and the number of workers grows."""
        config = self.config("127.0.0.1:0", self.low_address(1))
        proxy = self.start({key: value for key, value in config.items() if key != "user"})
        self.assertEqual(status_of(proxy.pid)["Uid"].split()[0], "0")
        client = self.keep(connect(proxy.address("at0")))
        self.assertTrue(ping(client))
        for workers in (2, 3):
            proxy.write_configuration({**config, "workers": workers})
            proxy.upgrade()
            self.assert_runs_as(proxy, self.user, BIND_SERVICE)
            self.assertTrue(ping(client))
            for _ in range(10):
                self.assert_serves((self.low_address(1)[:-3], 80))
        client.close()


class NewPrivileges(PrivilegesTest):

    def test_none_for_any_process(self):
        """Also without `user`, and after an upgrade."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address)
        for thread in proxy.threads():
            self.assertEqual(status_of(proxy.pid, thread)["NoNewPrivs"], "1")
        proxy.upgrade()
        for thread in proxy.threads():
            self.assertEqual(status_of(proxy.pid, thread)["NoNewPrivs"], "1")

    def test_capability_of_the_file_survives_an_upgrade(self):
        """A process may keep what it has: a program with a capability of its own is replaced without loss."""
        folder = self.folder_of()
        program = shutil.copy(harness.SLUICE, folder)
        done = subprocess.run([need("setcap"), "cap_net_bind_service=+ep", program], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("no right to give a file capabilities")
        config = self.config(self.low_address(1), user="")
        del config["user"]
        original, harness.SLUICE = harness.SLUICE, program
        try:
            proxy = self.start(config, before=as_user(self.user.pw_uid, self.user.pw_gid))
            self.assertEqual(status_of(proxy.pid)["CapEff"], BIND_SERVICE)
            proxy.upgrade()
            self.assertEqual(status_of(proxy.pid)["CapEff"], BIND_SERVICE)
            config["listeners"].append({**config["listeners"][0], "name": "second", "address": self.low_address(2)})
            proxy.reload(config)
            self.assert_serves((self.low_address(2)[:-3], 80))
        finally:
            harness.SLUICE = original


class CoreDumps(PrivilegesTest):

    def can_read_memory(self, proxy):
        """Whether another process of the same user can."""
        child = os.fork()
        if child == 0:
            code = 2
            try:
                as_user(self.user.pw_uid, self.user.pw_gid)()
                os.open(f"/proc/{proxy.pid}/mem", os.O_RDONLY)
                code = 0
            except PermissionError:
                code = 1
            finally:
                os._exit(code)
        return {0: True, 1: False}[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]

    def test_memory_is_closed_with_user(self):
        """Also in the process of an upgrade, which begins as an ordinary program of that user."""
        proxy = self.start(self.config("127.0.0.1:0"))
        for _ in range(2):
            self.assertFalse(self.can_read_memory(proxy))
            limits = pathlib.Path(f"/proc/{proxy.pid}/limits").read_text(encoding="ascii")
            self.assertRegex(limits, r"Max core file size +0 +0 ")
            proxy.upgrade()

    def test_on(self):
        proxy = self.start(self.config("127.0.0.1:0", core_dumps="on"))
        self.assertEqual(os.stat(f"/proc/{proxy.pid}/mem").st_uid, self.user.pw_uid)
        yama = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
        if not yama.exists() or yama.read_text(encoding="ascii") == "0\n":
            self.assertTrue(self.can_read_memory(proxy))

    def test_off_without_user(self):
        """No process reads it whose only right is to be of the same user."""
        config = self.config("127.0.0.1:0", core_dumps="off")
        del config["user"]
        proxy = self.start(config, before=as_user(self.user.pw_uid, self.user.pw_gid))
        self.assertFalse(self.can_read_memory(proxy))
        self.assert_serves(proxy.address("at0"))
        proxy.reload(config)
        proxy.upgrade()
        self.assertFalse(self.can_read_memory(proxy))


if __name__ == "__main__":
    harness.main()
