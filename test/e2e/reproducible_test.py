"""The program holds nothing of the machine that built it: no folder, no time, no random name. tools/check-reproducible compares two builds."""

import datetime
import os
import pathlib
import re
import subprocess
import unittest

import harness
from harness import ROOT, SLUICE


@unittest.skipIf(harness.SANITIZER or os.environ.get("SLUICE_BUILD_TYPE") == "Debug", "debug and sanitizer builds keep absolute paths")
class Reproducible(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.content = pathlib.Path(SLUICE).read_bytes()

    def assert_no_folder(self, folder):
        """Not as the beginning of a path: /root is in /etc/root, too."""
        text = re.escape(os.fsencode(os.path.join(folder, "")))
        found = re.search(rb"(?<![\w./-])" + text + rb"[\x20-\x7e]{0,100}", self.content)
        self.assertIsNone(found, found and found[0])

    def test_no_folder_of_the_machine(self):
        build = pathlib.Path(SLUICE).resolve().parent
        deps = pathlib.Path(os.environ.get("SLUICE_DEPS_DIR") or ROOT / ".deps")
        for folder in {ROOT, ROOT.resolve(), build, deps.absolute(), deps.resolve(), pathlib.Path.home()} - {pathlib.Path("/")}:
            with self.subTest(folder):
                self.assert_no_folder(folder)

    def test_no_folder_of_another_build(self):
        """ccache shares objects between folders."""
        found = re.search(rb"(?<![\w./-])/[\x21-\x7e]+/(build/[a-z]+|\.deps|_deps|src/(net|pool|proxy|alts_like))(?![\w-])", self.content)
        self.assertIsNone(found, found and found[0])

    def test_sources_are_named_from_the_root(self):
        """Otherwise the test above would not see what is compressed, or not there."""
        if subprocess.run(["readelf", "-SW", SLUICE], capture_output=True, text=True, check=True).stdout.count(".debug_line"):
            self.assertIn(b"./src/proxy", self.content)

    def test_no_time(self):
        day = datetime.datetime.fromtimestamp(pathlib.Path(SLUICE).stat().st_mtime)
        for text in (day.strftime("%b %e %Y"), day.strftime("%Y-%m-%d")):
            self.assertNotIn(text.encode(), self.content)

    def test_no_temporary_files(self):
        found = re.search(rb"/tmp/cc[A-Za-z0-9]{6}\.[\x20-\x7e]*", self.content)
        self.assertIsNone(found, found and found[0])

    def test_no_search_path_for_libraries(self):
        dynamic = subprocess.run(["readelf", "-d", SLUICE], capture_output=True, text=True, check=True).stdout
        self.assertIn("NEEDED", dynamic)
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")


if __name__ == "__main__":
    harness.main()
