"""docs/operating/health.md names the owner of each reset reason and of each end of a request that the code knows, and no other."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def words_of(header, name):
    """The values of an enum, as docs write them: kConnectionLost is connection_lost."""
    text = source(header)
    start = text.index(f"enum class {name} ")
    values = re.findall(r"^  k(\w+),", text[start:text.index("};", start)], re.MULTILINE)
    assert values, name
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", value).lower() for value in values}


class BlameTest(unittest.TestCase):
    def setUp(self):
        text = source("docs/operating/health.md")
        section = text[text.index("## Who is to blame"):]
        self.section = section[:section.index("\n## ", 1)]

    def test_each_reset_has_a_row(self):
        rows = re.findall(r"^\| `(\w+)`", self.section, re.MULTILINE)
        self.assertEqual(len(rows), len(set(rows)), "a reason has two rows")
        self.assertEqual(set(rows), words_of("src/proxy/http/message/stream.h", "ResetReason"))

    def test_each_end_has_one_owner(self):
        table = self.section[self.section.index("| owner | ends |"):]
        ends = re.findall(r"`(\w+)`", table[:table.index("\n\n")])
        self.assertEqual(len(ends), len(set(ends)), "an end has two owners")
        self.assertEqual(set(ends), words_of("src/proxy/metrics/http_counters.h", "HttpEnd"))


if __name__ == "__main__":
    unittest.main()
