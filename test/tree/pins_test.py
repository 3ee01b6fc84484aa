"""Versions and checksums of the dependencies stand in tools/deps.d/sources and nowhere else; MODULE.bazel, which cannot read a
file, has the same versions."""

import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
Row = collections.namedtuple("Row", "library use version way package sha256 folder")


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows():
    lines = (line.split("#")[0].split() for line in source("tools/deps.d/sources").splitlines())
    return [Row(*line) for line in lines if line]


class PinsTest(unittest.TestCase):

    def test_each_library_comes_once_from_a_registry_and_once_from_its_project(self):
        for library in {row.library for row in rows() if row.way != "bazel"}:
            ways = [row.way for row in rows() if row.library == library and row.way != "bazel"]
            with self.subTest(library):
                self.assertEqual(len(ways), 2)
                self.assertIn(ways[0], ("crate", "sdist", "debian"))
                self.assertEqual(ways[1], "release")

    def test_each_archive_has_a_checksum_and_stays_where_it_is(self):
        for row in rows():
            with self.subTest(row=row):
                self.assertRegex(row.sha256, r"^-$" if row.way == "bazel" else r"^[0-9a-f]{64}$")
                self.assertIn(row.use, ("program", "tests"))
                if row.way == "debian":
                    self.assertNotRegex(row.package, r"^(testing|unstable|sid|experimental)/")

    def test_cmake_builds_what_is_listed(self):
        named = set()
        for path in (ROOT / "cmake").rglob("*.cmake"):
            text = path.read_text(encoding="utf-8")
            named.update(re.findall(r"^\s*sluice_source\((\w+)\)", text, re.MULTILINE))
            with self.subTest(path.name):
                self.assertNotRegex(text, r"https?://|[0-9a-f]{64}")
        self.assertEqual(named, {row.library for row in rows() if row.way == "release"})

    def test_bazel_has_the_same_versions(self):
        text = source("MODULE.bazel")
        named = re.findall(r'bazel_dep\(name = "(\w[\w-]*)", version = "([^"]+)"', text)
        pinned = {(row.package, row.version) for row in rows() if row.way == "bazel"}
        self.assertEqual(set(named), pinned)
        overridden = re.findall(r'module_name = "([^"]+)",\s*version = "([^"]+)"', text)
        self.assertEqual(len(overridden), text.count("single_version_override("))
        self.assertLessEqual(set(overridden), pinned)


if __name__ == "__main__":
    unittest.main()
