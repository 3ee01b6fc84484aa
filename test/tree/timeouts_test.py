"""docs/operating/timeouts.md has a row for each duration of the configuration, in docs/reference/configuration.md's words, and for no other
key; the tests that it names exist."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def rows(text):
    return [cells(line) for line in text.splitlines() if line.startswith("| `")]


def durations():
    """Keys and defaults. docs/reference/configuration.md is printed by the program: another test compares the two."""
    found = {row[0].strip("`"): row[2].strip("`") for row in rows(source("docs/reference/configuration.md"))
             if len(row) == 4 and row[1].startswith("duration")}
    assert len(found) > 40, found
    return found


def documented():
    """Keys, with the cell of their defaults."""
    found = {}
    for row in rows(source("docs/operating/timeouts.md")):
        for key in re.findall(r"`([^`]+)`", row[0]):
            assert key not in found, f"{key} is there twice"
            found[key] = row[1]
    return found


class TimeoutsTest(unittest.TestCase):

    def test_each_duration_is_documented(self):
        self.assertEqual(sorted(documented()), sorted(durations()))

    def test_defaults(self):
        found = documented()
        for key, default in durations().items():
            with self.subTest(key):
                words = re.sub(r"(\d) (ms|s|m|h)\b", r"\1\2", found[key])
                # A route's value has none: it is listed with the value that it replaces.
                self.assertIn(default, re.split(r"[ ,:;]+", words) if default else words)

    def test_named_tests_exist(self):
        text = source("docs/operating/timeouts.md")
        named = re.findall(r"`([\w/]+_test\.(?:py|cc))`((?:: `\w+`(?:, `\w+`)*)?)", text)
        self.assertGreater(len(named), 20)
        for file, tests in named:
            folder = "test/e2e/" if file.endswith(".py") else "" if file.startswith("test/") else "test/proxy/"
            body = source(folder + file)
            for test in re.findall(r"`(\w+)`", tests):
                with self.subTest(f"{file}: {test}"):
                    self.assertRegex(body, rf"def {test}\(" if file.endswith(".py") else rf"TEST\w*\(\w+, {test}\)")


if __name__ == "__main__":
    unittest.main()
