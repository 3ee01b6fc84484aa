"""The reference of the buffer library can be made of its headers, and is whole (docs/iobuf/Doxyfile).

Skipped if there is no doxygen, unless CI is "true".
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = (ROOT / "docs/iobuf/Doxyfile").read_text(encoding="utf-8")


@unittest.skipIf(shutil.which("doxygen") is None and os.environ.get("CI") != "true", "doxygen is missing; run tools/deps")
class Reference(unittest.TestCase):

    def make(self, folder, *more):
        """The result of doxygen, which writes into the folder."""
        text = "\n".join([CONFIGURATION, f"OUTPUT_DIRECTORY = {folder}", *more])
        return subprocess.run(["doxygen", "-"], input=text, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=60)

    def test_each_public_type_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            made = self.make(folder)
            self.assertEqual((made.returncode, made.stdout), (0, ""))
            pages = {path.name for path in pathlib.Path(folder, "html").iterdir()}
        types = set()
        for header in (ROOT / "include/sluice").glob("*.h"):
            types |= set(re.findall(r"^(class|struct) (\w+)(?: : .*)? \{", header.read_text(encoding="utf-8"), re.M))
        self.assertGreater(len(types), 15)
        for kind, name in types:
            self.assertIn(f"{kind}sluice_1_1{name}.html", pages)
        self.assertNotIn("classsluice_1_1FreeStack.html", pages)  # Internal.

    def test_mistakes_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder, "wrong.h")
            header.write_text("#pragma once\n/// Does something.\n/// @param other What it is not.\nvoid f(int one);\n", encoding="utf-8")
            made = self.make(folder, f"INPUT = {header}")
            self.assertNotEqual(made.returncode, 0)
            self.assertIn("wrong.h", made.stdout)


if __name__ == "__main__":
    unittest.main()
