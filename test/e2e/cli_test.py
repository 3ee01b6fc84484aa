"""The command line: the message and the exit code of each mistake. Exit code 2: the call is wrong. Exit code 1: it
cannot be done."""

import os
import re
import signal
import socket
import subprocess

import harness
from harness import SLUICE
from origins import Origin, ping, connect, echo

GOOD = """\
listeners:
  - name: db
    address: 127.0.0.1:0
    tcp: { forward: pg, idle_timeout: 5s }
upstreams:
  - name: pg
    endpoints: [ 127.0.0.1:1, { address: "[::1]:2", weight: 3 } ]
"""


class CliTest(harness.SluiceTest):

    def call(self, *arguments):
        return subprocess.run([SLUICE, *arguments], capture_output=True, text=True, timeout=10, check=False)

    def file(self, text):
        path = os.path.join(self.temporary_directory(), "sluice.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def assert_fails(self, code, message, *arguments):
        with self.subTest(" ".join(arguments)):
            result = self.call(*arguments)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stdout, "")

    def check(self, text, *findings):
        """Checks for all findings, in their order, and exit code 1, from `check` and from `run`."""
        path = self.file(text)
        for command in ("check", "run"):
            result = self.call(command, "--config", path)
            self.assertEqual(result.returncode, 1, result.stderr)
            lines = result.stderr.replace("sluice: ", "", 1).splitlines()
            self.assertEqual(len(lines), len(findings), result.stderr)
            for line, finding in zip(lines, findings):
                self.assertTrue(line.startswith(path + ":" + finding), f"{line}\nis not\n{finding}")


class Counters(harness.SluiceTest):
    """When the counters are printed. They are always printed at exit, which `stop_and_check` relies on."""

    def test_printed_on_signal(self):
        proxy = self.proxy(self.keep(Origin(echo)).address, workers=2)
        self.assertEqual(proxy.stats().total("accepted_total"), 0)
        with connect(proxy.address()) as client:
            self.assertTrue(ping(client))
            self.assertEqual(proxy.stats().total("accepted_total"), 1)
        dump_count = proxy.dump_count()
        self.assertEqual(dump_count, 2, "one for each signal")
        proxy.signal(signal.SIGUSR2)
        harness.wait_until(lambda: proxy.dump_count() == dump_count + 1, what="the counters")

    def test_printed_on_signal_while_draining(self):
        proxy = self.proxy(self.keep(Origin(echo)).address)
        with connect(proxy.address()) as client:
            self.assertTrue(ping(client))
            proxy.signal(signal.SIGTERM)
            proxy.wait_for_output("draining")
            self.assertEqual(proxy.stats().total("sessions_active"), 1)
        harness.wait_until(lambda: proxy.process.poll() is not None, what="the end")

    def test_printed_each_interval(self):
        config = harness.configuration([self.keep(Origin(echo)).address])
        proxy = self.start(config, stats="50ms")
        harness.wait_until(lambda: proxy.dump_count() >= 3, what="three printings")
        self.assertEqual(proxy.stats().total("accepted_total"), 0)


class CommandLine(CliTest):

    def test_version(self):
        for spelling in ("version", "--version"):
            result = self.call(spelling)
            self.assertEqual(result.returncode, 0)
            self.assertRegex(result.stdout, r"^sluice \d+\.\d+\.\d+\n$")

    def test_help(self):
        overview = self.call("help")
        self.assertEqual((overview.returncode, overview.stderr), (0, ""))
        for spelling in ("--help", "-h"):
            self.assertEqual(self.call(spelling).stdout, overview.stdout)
        commands = re.findall(r"^  sluice (\w+) ", overview.stdout, re.MULTILINE)
        self.assertLessEqual({"run", "check", "reload", "diff", "explain", "schema", "version", "help"}, set(commands))
        for command in commands:
            page = self.call("help", command)
            self.assertEqual((page.returncode, page.stderr), (0, ""))
            self.assertTrue(page.stdout.startswith(f"usage:\n  sluice {command}"), page.stdout)
            self.assertIn("\nExit codes:\n  0  ", page.stdout)
            # Defect: --help after a command was an unknown option, and then the page of all commands.
            for spelling in (("--help",), ("-h",), ("--config", "x", "--help")):
                self.assertEqual(self.call(command, *spelling).stdout, page.stdout)
        self.assertIn("--print ", self.call("check", "--help").stdout)
        self.assertNotIn("--print", self.call("run", "--help").stdout)
        self.assert_fails(2, 'unknown command "chek"; did you mean "check"?', "help", "chek")

    def test_wrong_calls(self):
        self.assert_fails(2, "usage:")
        self.assert_fails(2, 'unknown command "frobnicate"; see `sluice help`', "frobnicate")
        self.assert_fails(2, 'unknown command "chek"; did you mean "check"?', "chek")
        self.assert_fails(2, 'unknown option "--bogus" of run\nsee `sluice run --help`', "run", "--bogus")
        self.assert_fails(2, 'unknown option "--listne" of run; did you mean "--listen"?', "run", "--listne", "127.0.0.1:0")
        self.assert_fails(2, 'unknown argument "extra" of check\nsee `sluice check --help`', "check", "extra")
        self.assert_fails(2, "--workers needs a value, N\nsee `sluice run --help`", "run", "--workers")
        for value in ("0", "1025", "-1", "two", "1x", ""):
            self.assert_fails(2, "--workers takes a number from 1 to 1024", "run", f"--workers={value}")
        self.assert_fails(2, '--rings takes auto, plain or incremental, got "round"', "run", "--rings=round")
        self.assert_fails(2, '--pool takes arena or malloc, got "swimming"', "run", "--pool", "swimming")
        self.assert_fails(2, "--stats: expected a duration", "run", "--stats", "5")
        self.assert_fails(2, "check needs --config FILE\nsee `sluice check --help`", "check")
        self.assert_fails(2, "diff needs --config FILE\nsee `sluice diff --help`", "diff")
        self.assert_fails(2, '--pid takes a process ID, got "one"\nsee `sluice reload --help`', "reload", "--pid", "one")
        # Defect: these were accepted silently.
        self.assert_fails(2, "--tcp takes no value", "run", "--tcp=no")
        self.assert_fails(2, 'unknown option "--workers" of check; it belongs to run', "check", "--config", "x", "--workers", "2")
        self.assert_fails(2, 'unknown option "--print" of run; it belongs to check', "run", "--config", "x", "--print")
        self.assert_fails(2, 'unknown argument "all" of version', "version", "all")
        self.assert_fails(2, "completion needs a shell: bash, zsh or fish", "completion")
        self.assert_fails(2, 'completion takes bash, zsh or fish, got "csh"', "completion", "csh")

        self.assert_fails(2, "explain needs either --config FILE or --against ADDRESS", "explain", "http://a/")
        self.assert_fails(2, "explain takes a method, or none, and a URL\nsee `sluice explain --help`", "explain", "--config", "x")
        self.assert_fails(2, 'unknown argument "b" of explain', "explain", "--config=x", "GET", "http://a/", "b")
        self.assert_fails(2, 'unknown option "--form" of explain; did you mean "--from"?', "explain", "--form", "127.0.0.1")
        self.assert_fails(2, "--peer needs a value", "explain", "--peer")
        self.assert_fails(2, "-H takes `NAME: VALUE`, got \"x\"", "explain", "--config", "x", "-H", "x", "http://a/")

    def test_explain(self):
        """Tests of explain() cover the rest."""
        path = self.file(GOOD.replace("tcp: { forward: pg, idle_timeout: 5s }", "http: { forward: pg }"))
        result = self.call("explain", f"--config={path}", "HEAD", "http://a.test:1/b?c", "-H", "X-A: b ", "--from", "::1",
                           "--listener", "db")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for line in ("request     HEAD http://a.test:1/b?c\n", "upstream    pg: round_robin over 127.0.0.1:1, [::1]:2 (weig",
                     "sends       HEAD /b?c HTTP/1.1\n", "            x-a: b\n", "            x-forwarded-for: ::1\n"):
            self.assertIn(line, result.stdout)
        self.assert_fails(1, "no listener has TLS and port 443; name one of db", "explain", "--config", path, "https://a/")
        self.assert_fails(1, "cannot open /nowhere/x.yaml", "explain", "--config", "/nowhere/x.yaml", "http://a/")

    def test_errors_with_exit_code_1(self):
        self.assert_fails(1, "--listen is missing", "run", "--tcp", "--to", "127.0.0.1:1")
        self.assert_fails(1, "--to is missing", "run", "--tcp", "--listen", "127.0.0.1:0")
        self.assert_fails(1, "the port is missing", "run", "--tcp", "--listen", "127.0.0.1", "--to", "127.0.0.1:1")
        self.assert_fails(1, "--to: expected an address", "run", "--tcp", "--listen", "127.0.0.1:0", "--to", "nobody")
        self.assert_fails(1, "--config replaces --listen", "run", "--tcp", "--config", "x")
        self.assert_fails(1, "cannot open /nowhere/x.yaml: No such file", "run", "--config", "/nowhere/x.yaml")
        self.assert_fails(1, "cannot open /nowhere/x.yaml: No such file", "check", "--config", "/nowhere/x.yaml")
        self.assert_fails(1, "Is a directory", "check", "--config", "/")

    def test_check(self):
        path = self.file(GOOD)
        result = self.call("check", "--config", path)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, f"{path}: ok\n", ""))

    def test_warnings(self):
        path = self.file(GOOD + "    alts: { handshaker: \"127.0.0.1:1\" }\n")
        result = self.call("check", "--config", path)
        self.assertEqual((result.returncode, result.stdout), (0, f"{path}: ok\n"), result.stderr)
        self.assertRegex(result.stderr, r"^\S+:\d+:\d+: warning: upstreams\[0\]\.alts: without `target_identities` [^\n]*\n$")

        # Defect: on a listener there was no warning.
        path = self.file(GOOD.replace("    tcp:", "    alts: { handshaker: \"127.0.0.1:1\" }\n    tcp:", 1))
        result = self.call("check", "--config", path)
        self.assertRegex(result.stderr, r"^\S+:\d+:\d+: warning: listeners\[0\]\.alts: without `target_identities` [^\n]*\n$")

    def test_printed_configuration_is_accepted(self):
        """The printed configuration is complete, and is not changed by printing it once more."""
        printed = self.call("check", "--config", self.file(GOOD), "--print")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        for default in ("worker_budget: 256MiB", "connect_timeout: 5s", "idle_timeout: 5s", "buffer_low: ",
                        "balance: round_robin", "weight: 3"):
            self.assertIn(default, printed.stdout)
        again = self.call("check", f"--config={self.file(printed.stdout)}", "--print")
        self.assertEqual((again.returncode, again.stdout), (0, printed.stdout), again.stderr)

    def test_several_files(self):
        """`check --print` prints one configuration, with the values of variables; a mistake has the name of its file."""
        path = self.file("include: conf.d/*.yaml\n" + GOOD)
        part = os.path.join(os.path.dirname(path), "conf.d", "part.yaml")
        os.mkdir(os.path.dirname(part))
        with open(part, "w", encoding="utf-8") as file:
            file.write("upstreams:\n  - { name: &name part, endpoints: [ \"127.0.0.1:${SLUICE_TEST_PORT}\" ] }\n"
                       "listeners:\n  - { name: *name, address: \"127.0.0.1:0\", tcp: { forward: part } }\n")

        def check(environment):
            return subprocess.run([SLUICE, "check", "--config", path, "--print"], capture_output=True, text=True, timeout=10,
                                  check=False, env={**os.environ, **environment})

        printed = check({"SLUICE_TEST_PORT": "9876"})
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        for expected in ("  - name: part\n", "      forward: part\n", "      - address: 127.0.0.1:9876\n"):
            self.assertIn(expected, printed.stdout)
        self.assertNotIn("include", printed.stdout)
        again = self.call("check", f"--config={self.file(printed.stdout)}", "--print")
        self.assertEqual((again.returncode, again.stdout), (0, printed.stdout), again.stderr)
        refused = check({})
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, rf'^{re.escape(part)}:2:38: the environment variable "SLUICE_TEST_PORT" is not set: ')

    def test_mistakes_have_position(self):
        self.check(GOOD.replace("address: 127.0.0.1:0", "adress: 127.0.0.1:0").replace("forward: pg", "forward: gp")
                   .replace("5s", "5"),
                   '3:5: unknown key "adress" in listeners[0]; did you mean "address"?',
                   '4:21: listeners[0].tcp.forward: there is no upstream "gp"; did you mean "pg"?',
                   '4:39: listeners[0].tcp.idle_timeout: expected a duration')
        self.check(GOOD + "limits: { max_conections: 5 }\n", '8:11: unknown key "max_conections" in limits')
        self.check(GOOD.replace("127.0.0.1:1,", "example..com:80,"), "7:18: upstreams[0].endpoints[0]")
        self.check(GOOD + "memory: { ring_entries: 12 }\n", "8:25: memory.ring_entries: must be a power of two, got 12")
        self.check("", " the file is empty")
        self.check("listeners: [\n", "2:1: YAML syntax")

    def test_indentation(self):
        """Defect: the whole message was `YAML syntax: end of sequence not found`."""
        self.check("listeners:\n  - name: a\n    address: 127.0.0.1:0\n   tcp: { forward: b }\n",
                   "4:4: YAML syntax: end of sequence not found; this line is indented differently")

    # Defect: `check` accepted all of these, and `run` refused them, one at a time and without a position.
    def test_contents_of_referenced_files(self):
        folder = self.temporary_directory()

        def write(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return path
        users, keys = write("users", "ann:secret\n"), write("keys.json", "{}")
        self.check(f"""listeners:
  - name: a
    address: 127.0.0.1:0
    tls:
      certificates:
        - {{ chain: {folder}/no.pem, key: {folder}/no.key }}
        - {{ chain: {users}, key: {folder}/no.key }}
    http:
      access_log: {folder}/no/access.log
      errors:
        - {{ status: [ 404 ], file: {folder}/no.html }}
      routes:
        - match: {{ path: {{ exact: /a }} }}
          auth: {{ basic: {{ realm: r, users_file: {users} }} }}
          respond: {{ status: 204 }}
        - match: {{ path: {{ exact: /b }} }}
          auth: {{ jwt: {{ issuer: i, audience: a, jwks_file: {keys} }} }}
          respond: {{ status: 204 }}
        - auth: {{ jwt: {{ issuer: i, audience: a, jwks_file: {folder}/no.json }} }}
          respond: {{ status: 204 }}
  - name: b
    address: 127.0.0.1:0
    tcp: {{ forward: c }}
upstreams:
  - name: c
    endpoints: [ 127.0.0.1:1 ]
    tls: {{ ca: {folder}/no-ca.pem, server_name: c.test }}
""",
                   f"6:20: listeners[0].tls.certificates[0].chain: cannot read {folder}/no.pem: No such file",
                   f"7:20: listeners[0].tls.certificates[1].chain: {users}: expected certificates in PEM",
                   f"9:19: listeners[0].http.access_log.file: {folder}/no cannot be used: No such file or directory; make",
                   f"11:36: listeners[0].http.errors[0].file: cannot read {folder}/no.html: No such file",
                   "14:50: listeners[0].http.routes[0].auth.basic.users_file: ",
                   "17:61: listeners[0].http.routes[1].auth.jwt.jwks_file: ",
                   "19:61: listeners[0].http.routes[2].auth.jwt.jwks_file: cannot read ",
                   f"27:16: upstreams[0].tls.ca: {folder}/no-ca.pem: expected CA certificates")

    def test_overlapping_addresses(self):
        """Defect: `check` accepted it, and `run` reported that another process had the address."""
        text = """listeners:
  - { name: a, address: "127.0.0.1:8080", tcp: { forward: c } }
  - { name: b, address: "0.0.0.0:8080", tcp: { forward: c } }
  - { name: d, address: "[::1]:8080", tcp: { forward: c } }
upstreams:
  - { name: c, endpoints: [ "127.0.0.1:1" ] }
"""
        self.check(text, "3:25: listeners[1].address: port 8080 of all addresses includes 127.0.0.1:8080, the address of "
                         "listeners[0] (2:5)")
        self.check(text.replace("[::1]", "[::]").replace("127.0.0.1:8080", "[::1]:8080"),
                   "4:25: listeners[2].address: port 8080 of all addresses includes")

    def test_admin(self):
        self.check(GOOD + "admin: { address: 0.0.0.0:9901 }\n", "8:19: admin.address: 0.0.0.0:9901 can be reached from other "
                                                               "machines, which need a token")


class Addresses(CliTest):

    def run_on(self, address):
        return ("run", "--tcp", "--listen", address, "--to", "127.0.0.1:1")

    def test_address_in_use(self):
        """Defect: the hint that another process listens was missing, and was printed for addresses that are not local
        instead: absl maps EADDRINUSE to FailedPrecondition, and EADDRNOTAVAIL to AlreadyExists."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assert_fails(1, f'listener "main": cannot listen on {address}: ', *self.run_on(address))
            self.assert_fails(1, "Address already in use; another process listens there", *self.run_on(address))

    def test_address_of_a_running_sluice(self):
        """SO_REUSEPORT would let two processes share it."""
        proxy = self.proxy("127.0.0.1:1")
        self.assert_fails(1, "Address already in use", *self.run_on(proxy.addresses["main"]))

    def test_address_that_is_not_local(self):
        result = self.call(*self.run_on("192.0.2.1:80"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("Cannot assign requested address", result.stderr)
        self.assertNotIn("another process", result.stderr)

    def test_unix_socket(self):
        directory = self.temporary_directory()
        self.assert_fails(1, "No such file or directory", *self.run_on(f"unix:{directory}/no/x.sock"))
        path = os.path.join(directory, "x.sock")
        proxy = self.proxy("127.0.0.1:1", listener={"address": f"unix:{path}"})
        self.assert_fails(1, "Address already in use", *self.run_on(f"unix:{path}"))
        self.stop(proxy)
        self.assertFalse(os.path.exists(path), "the socket file was left behind")
        # A stale socket that a killed process left does not prevent listening.
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)
        self.proxy("127.0.0.1:1", listener={"address": f"unix:{path}"})

    def test_file_at_path_of_unix_socket(self):
        """Defect: the file was deleted, because a connect to a file that is not a socket is refused like one to a stale
        socket."""
        path = os.path.join(self.temporary_directory(), "precious")
        with open(path, "w", encoding="utf-8") as file:
            file.write("data")
        try:
            self.assert_fails(1, "Address already in use", *self.run_on(f"unix:{path}"))
        except subprocess.TimeoutExpired:
            pass  # The proxy runs.
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "data")


if __name__ == "__main__":
    harness.main()
