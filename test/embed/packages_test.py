"""The recipes of Conan and vcpkg for the buffer library (packaging/conan, packaging/vcpkg) fit the tree.

With SLUICE_E2E_LONG=1 and the program `conan` in the path, the package is made and used as well.
"""

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import embed_test

ROOT = embed_test.ROOT
CONAN = ROOT / "packaging/conan"
VCPKG = ROOT / "packaging/vcpkg/sluice-iobuf"


def version():
    header = (ROOT / "include/sluice/version.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"^#define SLUICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.M))


def patterns_of_recipe():
    text = (CONAN / "conanfile.py").read_text(encoding="utf-8")
    return re.findall(r'"([^"]+)"', re.search(r"^SOURCES = \((.*?)\)$", text, re.M | re.S)[1])


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
class Packages(embed_test.Folder):

    def test_vcpkg(self):
        port = json.loads((VCPKG / "vcpkg.json").read_text(encoding="utf-8"))
        self.assertEqual((port["name"], port["version"]), (VCPKG.name, version()))
        script = (VCPKG / "portfile.cmake").read_text(encoding="utf-8")
        options = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        used = re.findall(r"-D(\w+)=", script)
        self.assertEqual(len(used), 4)
        for name in used:
            self.assertIn(f"option({name} ", options)
        self.assertIn("sluice::iobuf", (VCPKG / "usage").read_text(encoding="utf-8"))

    @embed_test.needs("cmake", "ninja")
    def test_conan_exports_what_the_build_reads(self):
        tree = pathlib.Path(self.folder) / "tree"
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"], check=True,
                               capture_output=True, text=True, timeout=60).stdout.split()
        for name in files:
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns_of_recipe()) and (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
        build = pathlib.Path(self.folder) / "build"
        embed_test.cmake(tree, build, *embed_test.LIBRARY_ONLY, *embed_test.NO_DEPENDENCIES)
        embed_test.run("ninja", "-C", build, "sluice_iobuf_archive", environment={"CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": self.folder})

    if os.environ.get("SLUICE_E2E_LONG") == "1" and shutil.which("conan"):
        def test_conan_makes_the_package(self):
            home = {"CONAN_HOME": f"{self.folder}/conan"}
            embed_test.run("conan", "profile", "detect", environment=home)
            recipe = pathlib.Path(self.folder) / "packaging/conan"
            # Beside the tree, because it builds in its own folder.
            shutil.copytree(CONAN / "test_package", recipe / "test_package")
            output = embed_test.run("conan", "create", CONAN, "--test-folder", recipe / "test_package", "-s", "compiler.cppstd=20",
                                    environment=home)
            self.assertIn(f"sluice {version()}: hello", output)


if __name__ == "__main__":
    unittest.main()
