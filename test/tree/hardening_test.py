"""docs/operating/hardening.md: its defaults are those of docs/reference/configuration.md, and the tests that it names exist."""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(text):
    return [[cell.strip() for cell in re.split(r" \|(?= )", line.strip("|"))] for line in text.splitlines() if line.startswith("| ")]


def keys():
    """Keys and defaults. docs/reference/configuration.md is printed by the program: another test compares the two."""
    return {row[0].strip("`"): row[2] for row in rows(source("docs/reference/configuration.md")) if len(row) == 4}


def tables():
    """The cells of each row."""
    for row in rows(source("docs/operating/hardening.md")):
        if row[-1] != "test" and not set(row[-1]) <= {"-"}:
            yield row


class HardeningTest(unittest.TestCase):

    def test_defaults(self):
        defaults, found = keys(), 0
        for row in (row for row in tables() if len(row) == 4):
            for key in re.findall(r"`([^`]+)`", row[1]):
                with self.subTest(key):
                    found += 1
                    self.assertTrue(key in defaults, f"there is no key {key}")
                    if defaults[key]:
                        self.assertTrue(row[2].startswith(defaults[key]), f"the page has {row[2]}, the default is {defaults[key]}")
        self.assertGreater(found, 25)

    def test_keys_exist(self):
        for row in (row for row in tables() if len(row) == 3):
            first = re.match(r"`([^`]+)`", row[0])[1]
            with self.subTest(first):
                self.assertTrue(first in keys(), f"there is no key {first}")

    def test_refused_system_calls_are_not_needed(self):
        """Nothing that packaging/docker/seccomp.json allows is refused by `user`: test/e2e/container_test.py shows that the program needs
        no more than that. Of clone and socket only some uses are refused."""
        rules = json.loads(source("packaging/docker/seccomp.json"))["syscalls"]
        allowed = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
        program = source("src/proxy/server/system_call_filter.cc")
        refused = set(re.findall(r"SYS_(\w+)", re.search(r"kRefused\[\] = \{(.*?)\n\};", program, re.S)[1]))
        self.assertGreater(len(refused), 40)
        self.assertEqual(allowed & refused, set())

    def test_calls_of_serving_are_those_of_the_container_profile(self):
        """What `sandbox` allows is a part of what packaging/docker/seccomp.json does, but for sanitizers, and has nothing that starts a
        program or changes the process."""
        rules = json.loads(source("packaging/docker/seccomp.json"))["syscalls"]
        allowed = {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
        program = source("src/proxy/server/system_call_filter.cc")
        table = re.search(r"kServing\[\] = \{(.*?)\n\};", program, re.S)[1]
        serving = set(re.findall(r"SYS_(\w+)", table.split("#if defined(__SANITIZE_ADDRESS__)")[0]))
        self.assertGreater(len(serving), 90)
        self.assertEqual(serving - allowed, set())
        self.assertEqual(serving & {"execve", "fork", "vfork", "kill", "setuid", "setresuid", "setgroups", "capset", "mkdir", "rename"}, set())

    def test_each_line_names_a_test_that_exists(self):
        for row in tables():
            named = re.findall(r"`([\w/]+_test\.(?:py|cc))`((?:: `\w+`(?:, `\w+`)*)?)", row[-1])
            self.assertTrue(named and all(tests for _, tests in named), row)
            for file, tests in named:
                folder = "test/e2e/" if file.endswith(".py") else "" if file.startswith("test/") else "test/proxy/"
                body = source(folder + file)
                for test in re.findall(r"`(\w+)`", tests):
                    with self.subTest(f"{file}: {test}"):
                        self.assertRegex(body, rf"def {test}\(" if file.endswith(".py") else rf"TEST\w*\(\w+, {test}\)")


if __name__ == "__main__":
    unittest.main()
