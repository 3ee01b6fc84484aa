"""The version in include/sluice/version.h is the one that all else names.

CMake reads it there. Bazel cannot, and the library's inline namespace is written out.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = dict(re.findall(r"^#define SLUICE_VERSION_(MAJOR|MINOR|PATCH) (\d+)$",
                          (ROOT / "include/sluice/version.h").read_text(encoding="utf-8"), re.M))


class Version(unittest.TestCase):
    def test_of_the_bazel_module(self):
        text = (ROOT / "MODULE.bazel").read_text(encoding="utf-8")
        self.assertEqual("{MAJOR}.{MINOR}.{PATCH}".format(**VERSION), re.search(r'^    version = "(.*)"', text, re.M)[1])

    def test_in_the_changelog(self):
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        self.assertEqual("{MAJOR}.{MINOR}.{PATCH}".format(**VERSION), re.search(r"^## ([\d.]+)", text, re.M)[1])

    def test_of_the_inline_namespace(self):
        """Before 1.0 each minor version has its own interface, so its name has both numbers."""
        name = "v0_{MINOR}" if VERSION["MAJOR"] == "0" else "v{MAJOR}"
        expected = "sluice::inline " + name.format(**VERSION)
        folders = ("include", "src/pool", "src/buffer")
        for path in (p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cc")):
            used = set(re.findall(r"^namespace (sluice[^{]*) \{", path.read_text(encoding="utf-8"), re.M))
            self.assertEqual({expected}, used, path)


if __name__ == "__main__":
    unittest.main()
