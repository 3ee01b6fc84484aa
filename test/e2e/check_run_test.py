"""What `run` refuses, `check` refuses, too: with the same text, at the same line and column."""

import copy
import json
import os
import socket

import harness
from cli_test import CliTest
from tls_support import TlsTest


class CheckAndRun(CliTest, TlsTest):

    def base(self):
        """A configuration that both accept, as a value."""
        return {"listeners": [{"name": "web", "address": ["127.0.0.1:0"], "http": {"forward": "app"}}],
                "upstreams": [{"name": "app", "endpoints": ["127.0.0.1:1"]}]}

    def refused(self, change, expected):
        """`change` breaks the configuration; `expected` is the text behind the position."""
        config = self.base()
        change(config)
        # A key a line, so that a wrong position shows.
        path = self.file(json.dumps(config, indent=1))
        outputs = []
        for command in ("check", "run"):
            result = self.call(command, "--config", path)
            self.assertEqual((result.returncode, result.stdout), (1, ""), f"{command}: {result.stderr}")
            outputs.append(result.stderr.removeprefix("sluice: "))
        self.assertEqual(outputs[0], outputs[1])
        self.assertRegex(outputs[0], rf"^{path}:\d+:\d+: ")
        self.assertIn(expected, outputs[0].replace(path, "FILE"))
        key = expected.split(":")[0]
        line = int(outputs[0].removeprefix(path + ":").split(":")[0])
        with open(path, encoding="utf-8") as file:
            text = file.read().splitlines()[line - 1]
        if not key.endswith("]"):
            self.assertIn(f'"{key.rsplit(".", 1)[1]}"' if "." in key else f'"{key}"', text)

    def table(self):
        folder = self.temporary_directory()
        plain, directory = f"{folder}/plain", f"{folder}/directory"
        with open(plain, "w", encoding="utf-8") as file:
            file.write("not what is expected\n")
        os.mkdir(directory)
        missing = f"{folder}/missing/x"

        def listener(**rest):
            return lambda config: config["listeners"][0].update(rest)

        def http(**rest):
            return lambda config: config["listeners"][0]["http"].update(rest)

        def route(**rest):
            return lambda config: config["listeners"][0].update(http={"routes": [{"forward": "app", **rest}]})

        def app(**rest):
            return lambda config: config["upstreams"][0].update(rest)

        def top(**rest):
            return lambda config: config.update(rest)

        def second(address):
            def add(config):
                config["listeners"][0]["address"] = "127.0.0.1:7001"
                config["listeners"].append({**copy.deepcopy(config["listeners"][0]), "name": "two", "address": address})
            return add

        def all_of(*changes):
            def change(config):
                for each in changes:
                    each(config)
            return change

        good = {"chain": self.server["chain"], "key": self.server["key"]}
        tls = lambda **rest: listener(tls={"certificates": [good], **rest})
        return [
            # Addresses
            (second("127.0.0.1:7001"), "listeners[1].address: 127.0.0.1:7001 is already the address of listeners[0]"),
            (second("0.0.0.0:7001"), "listeners[1].address: port 7001 of all addresses includes 127.0.0.1:7001"),
            (second(["127.0.0.2:7001", "0.0.0.0:7001"]), "listeners[1].address[1]: port 7001 of all addresses includes"),
            (listener(address=["127.0.0.1:7001", "127.0.0.1:7001"]), "listeners[0].address[1]: 127.0.0.1:7001 is listed twice"),
            (listener(address=[]), "listeners[0].address: expected at least one item"),
            (listener(address=["127.0.0.1"]), "listeners[0].address[0]: expected an address"),
            (listener(address="[::ffff:127.0.0.1]:80"), "listeners[0].address: is an IPv4 address in the form of IPv6"),
            (listener(ipv6_only=True), "listeners[0].ipv6_only: has no effect without an address such as"),
            (listener(address=f"unix:{missing}"), f"listeners[0].address: {folder}/missing cannot be used: No such file"),
            (listener(address=f"unix:{plain}/x"), f"listeners[0].address: {plain} is not a directory"),
            (listener(address=f"unix:{plain}"), f"listeners[0].address: {plain} exists and is not a socket"),
            # Certificates and keys
            (listener(tls={"certificates": [{**good, "chain": missing}]}),
             "listeners[0].tls.certificates[0].chain: cannot read"),
            (listener(tls={"certificates": [{**good, "key": plain}]}), "listeners[0].tls.certificates[0].key: "),
            (tls(client_ca=missing, client_certificate="require"), "listeners[0].tls.client_ca: cannot read"),
            (tls(ticket_keys=[plain]), "listeners[0].tls.ticket_keys[0]: "),
            (app(tls={"server_name": "a.test", "ca": missing}), "upstreams[0].tls.ca: "),
            (app(tls={"verify": False, "certificate": {**good, "key": missing}}), "upstreams[0].tls.certificate.key: "),
            # Other files
            (http(access_log={"file": missing}), f"listeners[0].http.access_log.file: {folder}/missing cannot be used"),
            (http(access_log={"file": directory}), f"listeners[0].http.access_log.file: {directory} is a directory"),
            (http(errors=[{"status": 404, "file": missing}]), "listeners[0].http.errors[0].file: "),
            (route(auth={"basic": {"users_file": missing}}), "listeners[0].http.routes[0].auth.basic.users_file: "),
            (route(auth={"basic": {"users_file": plain}}), "listeners[0].http.routes[0].auth.basic.users_file: "),
            (route(auth={"jwt": {"jwks_file": plain, "issuer": "a", "audience": "b"}}),
             "listeners[0].http.routes[0].auth.jwt.jwks_file: "),
            (all_of(route(buffer={"requests": "1MiB"}), top(body_file={"directory": missing})), "body_file: cannot keep bytes in a file in"),
            (all_of(route(buffer={"requests": "1MiB"}), top(body_file={"directory": plain})), "body_file: cannot keep bytes in a file in"),
            # Values
            (top(reload={"max_generations": 0}), "reload.max_generations: must be from 1 to 1000"),
            (top(shutdown_delay="soon"), "shutdown_delay: expected a duration"),
            (route(readiness=True), "listeners[0].http.routes[0]: `forward`, `split`, `respond`, `redirect` and `readiness` "),
        ]

    def test_table(self):
        for change, expected in self.table():
            with self.subTest(expected):
                self.refused(change, expected)

    def test_accepted(self):
        """The base itself is no mistake."""
        result = self.call("check", "--config", self.file(json.dumps(self.base())))
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_what_depends_on_the_machine(self):
        """`check` may run on another one: it warns."""
        config = self.base()
        config["listeners"][0]["address"] = "192.0.2.1:80"
        path = self.file(json.dumps(config))
        text = "listeners[0].address: no interface of this machine has 192.0.2.1:80 (see `ip address`)"
        result = self.call("check", "--config", path)
        self.assertEqual((result.returncode, result.stdout), (0, f"{path}: ok\n"))
        self.assertRegex(result.stderr, r"^\S+:1:\d+: warning: ")
        self.assertIn(text, result.stderr)
        result = self.call("run", "--config", path)
        self.assertEqual(result.returncode, 1)
        self.assertIn(text, result.stderr)

    def test_more_connections_than_descriptors(self):
        config = {**self.base(), "limits": {"max_connections": 100_000_000}}
        result = self.call("check", "--config", self.file(json.dumps(config)))
        self.assertEqual(result.returncode, 0)
        self.assertIn("warning: limits.max_connections: needs 200000000 file descriptors", result.stderr)

    def test_address_of_another_process(self):
        """Only `run` refuses it: `check` is usually called while the proxy runs."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            config = self.base()
            config["listeners"][0]["address"] = "127.0.0.1:%d" % taken.getsockname()[1]
            path = self.file(json.dumps(config))
            self.assertEqual(self.call("check", "--config", path).stderr, "")
            self.assertIn("another process listens there", self.call("run", "--config", path).stderr)


if __name__ == "__main__":
    harness.main()
