"""The JSON schema that `sluice schema` prints, tested with a third-party validator: it accepts what the loader accepts,
and rejects what is plainly wrong."""

import copy
import json
import os
import pathlib
import re
import subprocess

import documents
import harness
from harness import ROOT, SLUICE

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = yaml = None

GOOD = """\
workers: 2
listeners:
  - name: web
    address: 127.0.0.1:8080
    keepalive: { idle: 0, probes: 3 }
    http:
      max_body: 0
      request_timeout: 90s
      forwarded_for: off
      routes:
        - match: { host: a.example.com, path: { prefix: /a }, headers: [ { name: x, exact: 1 } ], method: [ GET, PUT ] }
          forward: pool
        - respond: { status: 404, body: yes }
  - name: db
    address: unix:/run/db.sock
    tls: { certificates: [ { chain: a, key: b } ], min_version: 1.2 }
    tcp: { forward: pool, buffer_high: 64KiB }
upstreams:
  - name: pool
    balance: least_request
    endpoints: [ 10.0.0.1:80, { address: "[::1]:80", weight: 3 } ]
"""


def loader():
    """YAML 1.2's core schema, which editors use: `off` and `2026-01-02` are strings, and so is `0:80`. Editors know merge keys."""
    class CoreLoader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}
    for tag, pattern, first in (
            ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"), ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
            ("merge", "<<", ["<"]), ("int", "[-+]?[0-9]+", "-+0123456789"),
            ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789")):
        CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))
    return CoreLoader


class Schema(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.require(jsonschema, "missing: python3-jsonschema and python3-yaml; run tools/deps")
        printed = subprocess.run([SLUICE, "schema"], capture_output=True, text=True, timeout=10, check=True).stdout
        schema = json.loads(printed)
        jsonschema.Draft7Validator.check_schema(schema)
        self.validator = jsonschema.Draft7Validator(schema)
        self.loader = loader()

    def errors(self, config):
        if isinstance(config, str):
            config = yaml.load(config, self.loader)
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
                for error in self.validator.iter_errors(config)]

    def check(self, text):
        path = pathlib.Path(self.temporary_directory(), "sluice.yaml")
        path.write_text(text, encoding="utf-8")
        return subprocess.run([SLUICE, "check", "--config", path], capture_output=True, text=True, timeout=10,
                              check=False)

    def refused_by_loader(self, config):
        """Ignores what `check` prints about referenced files: only whether there is a finding with a line."""
        return "sluice.yaml:" in self.check(json.dumps(config)).stderr

    def test_accepts_all_examples(self):
        found = 0
        for place, block in documents.configurations():
            found += 1
            self.assertEqual(self.errors(block), [], f"{place}:\n{block}")
        for path in sorted(ROOT.glob("docs/examples/*/sluice.yaml")):
            found += 1
            self.assertEqual(self.errors(path.read_text(encoding="utf-8")), [], path)
        self.assertGreater(found, 40)

    def test_accepts_printed_configuration(self):
        """`check --print` writes every key with its value."""
        path = os.path.join(self.temporary_directory(), "sluice.yaml")
        config = yaml.load(GOOD, self.loader)
        del config["listeners"][1]["tls"]  # Its files do not exist.
        pathlib.Path(path).write_text(json.dumps(config), encoding="utf-8")
        printed = subprocess.run([SLUICE, "check", "--config", path, "--print"], capture_output=True, text=True,
                                 timeout=10, check=False)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertGreater(printed.stdout.count("\n"), 100)
        self.assertEqual(self.errors(printed.stdout), [])

    def test_accepts_variables(self):
        for old, new in (("workers: 2", "workers: ${A}"), ("probes: 3", "probes: '${A:-3}'"),
                         ("request_timeout: 90s", "request_timeout: ${A}s"), ("forwarded_for: off", "forwarded_for: ${A}"),
                         ("status: 404", "status: '4${A}'"), ("buffer_high: 64KiB", "buffer_high: '${A}'"),
                         ("[ 10.0.0.1:80, ", "[ '${A}', "), ("balance: least_request", "balance: ${A:-random}")):
            self.assertIn(old, GOOD)
            self.assertEqual(self.errors(GOOD.replace(old, new)), [], new)

    def test_accepts_good_and_rejects_bad(self):
        self.assertEqual(self.errors(GOOD), [])
        for old, new, where in (
                ("workers: 2", "worker: 2", ""),
                ("workers: 2", "workers: many", "workers"),
                ("workers: 2", "workers: 0", "workers"),
                ("workers: 2", "workers: 2000", "workers"),
                ("workers: 2", "admin: { idle_timeout: 1s }", "admin"),
                ("    address: 127.0.0.1:8080\n", "", "listeners.0"),
                ("max_body: 0", "max_body: 1 MB", "listeners.0.http.max_body"),
                ("request_timeout: 90s", "request_timeout: 90", "listeners.0.http.request_timeout"),
                ("request_timeout: 90s", "header_timeout: 0", "listeners.0.http.header_timeout"),
                ("forwarded_for: off", "forwarded_for: false", "listeners.0.http.forwarded_for"),
                ("path: { prefix: /a }", "path: /a", "listeners.0.http.routes.0.match.path"),
                ("method: [ GET, PUT ]", "method: []", "listeners.0.http.routes.0.match.method"),
                ("{ name: x, exact: 1 }", "{ exact: 1 }", "listeners.0.http.routes.0.match.headers.0"),
                ("status: 404", "status: 99", "listeners.0.http.routes.1.respond.status"),
                ("min_version: 1.2", "min_version: 1.1", "listeners.1.tls.min_version"),
                ("    tcp: { forward: pool, buffer_high: 64KiB }\n", "", "listeners.1"),
                ("buffer_high: 64KiB", "buffer_high: 64 KiB", "listeners.1.tcp.buffer_high"),
                ("balance: least_request", "balance: least_requests", "upstreams.0.balance"),
                ("[ 10.0.0.1:80, ", "[ [], ", "upstreams.0.endpoints.0"),
                ("weight: 3", "wieght: 3", "upstreams.0.endpoints.1"),
                ("weight: 3", "weight: 0", "upstreams.0.endpoints.1")):
            with self.subTest(new or f"without {old.strip()}"):
                self.assertIn(old, GOOD)
                errors = self.errors(GOOD.replace(old, new))
                self.assertEqual([error.split(":")[0] for error in errors], [where], errors)

    def test_accepts_what_the_loader_accepts(self):
        """Removes each value of a good configuration in turn, or replaces it by others."""
        good = yaml.load(GOOD, self.loader)
        refused = 0
        for place in places(good):
            for value in (None, 0, True, "5s", ["a"], {}):
                config = copy.deepcopy(good)
                put(config, place, value)
                if self.errors(config):
                    refused += 1
                    self.assertTrue(self.refused_by_loader(config), f"{place} = {value}: {self.errors(config)}")
        self.assertGreater(refused, 100)


def places(value, at=()):
    """The paths of all values in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def put(value, place, new):
    """Puts `new` at the path, or removes the value there."""
    for key in place[:-1]:
        value = value[key]
    if new is None:
        del value[place[-1]]
    else:
        value[place[-1]] = new


if __name__ == "__main__":
    harness.main()
