"""The checks of the installed library do not depend on how the program that uses it is compiled.

Compiles one program (checks/consumer.cc) with each compiler, with each sanitizer and with none, links it with a library that was
built without a sanitizer, for release and for debugging, and runs it: what is right is not reported, and what is wrong is, by the
library or by the sanitizer. Here in part; with SLUICE_E2E_LONG=1 in all combinations.

Environment variables:
  SLUICE_SANITIZE        under a sanitizer nothing is done: an ordinary build does this
  SLUICE_E2E_LONG=1      all combinations
  CI=true                a missing tool is a failure; otherwise it skips the test
"""

import functools
import os
import pathlib
import shutil
import subprocess
import unittest

import embed_test

LONG = os.environ.get("SLUICE_E2E_LONG") == "1"
HERE = pathlib.Path(__file__).resolve().parent
SANITIZERS = {"none": [], "address": ["-fsanitize=address"], "thread": ["-fsanitize=thread"],
              "undefined": ["-fsanitize=undefined", "-fno-sanitize-recover=all"]}
# The mistakes, and what says so.
BY_SANITIZER = {"address": {"read": "use-after-poison", "write": "use-after-poison"}, "thread": {"race": "data race"},
                "undefined": {"overflow": "signed integer overflow"}}
BY_LIBRARY = {"write": "written_to_after_its_last_reference"}
# Of each sanitizer, each compiler and each library at least one.
SHORT = {("g++", "none", "Debug"), ("g++", "address", "Release"), ("g++", "thread", "Release"), ("clang", "address", "Debug"),
         ("clang", "thread", "Release"), ("clang", "undefined", "Release")}


def clang():
    return next(filter(shutil.which, [f"clang++-{version}" for version in range(21, 15, -1)] + ["clang++"]), None)


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
@embed_test.needs("cmake", "ninja", "g++")
class Checks(embed_test.Folder):

    @classmethod
    @functools.cache
    def library(cls, build_type):
        """The folder in which the library is installed."""
        folder = pathlib.Path(cls.folder) / build_type
        embed_test.cmake(embed_test.ROOT, folder / "build", f"-DCMAKE_BUILD_TYPE={build_type}", *embed_test.LIBRARY_ONLY,
                         *embed_test.NO_DEPENDENCIES)
        embed_test.run("cmake", "--build", folder / "build", "-j2", environment={"CCACHE_NOHASHDIR": "1"})
        embed_test.run("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
        return folder / "prefix"

    def compile(self, compiler, sanitizer, build_type):
        prefix = self.library(build_type)
        program = pathlib.Path(self.folder) / f"{pathlib.Path(compiler).name}-{sanitizer}-{build_type}"
        embed_test.run(compiler, "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *SANITIZERS[sanitizer],
                       f"-I{prefix}/include", HERE / "checks/consumer.cc", "-o", program,
                       next(prefix.glob("lib*/**/libsluice_iobuf.a")), "-pthread")
        return program

    @staticmethod
    def outcome(program, what):
        return subprocess.run([program, what], capture_output=True, text=True, check=False, timeout=120)

    def check(self, compiler, sanitizer, build_type):
        program = self.compile(compiler, sanitizer, build_type)
        good = self.outcome(program, "good")
        self.assertEqual((good.returncode, good.stderr), (0, ""))
        expected = {**(BY_LIBRARY if build_type == "Debug" else {}), **BY_SANITIZER.get(sanitizer, {})}
        for what in ("read", "write", "race", "overflow"):
            bad = self.outcome(program, what)
            if what in expected:
                self.assertIn(expected[what], bad.stderr, what)
                self.assertNotEqual(bad.returncode, 0, what)
            else:
                self.assertEqual((bad.returncode, bad.stderr), (0, ""), what)
        return good.stdout

    def test_each_combination(self):
        compilers = {"g++": shutil.which("g++"), "clang": clang()}
        if compilers["clang"] is None and not embed_test.CI:
            del compilers["clang"]
        sizes = {}
        for name, compiler in compilers.items():
            for sanitizer in SANITIZERS:
                for build_type in ("Release", "Debug"):
                    if LONG or (name, sanitizer, build_type) in SHORT:
                        with self.subTest(compiler=name, sanitizer=sanitizer, library=build_type):
                            sizes[name, sanitizer, build_type] = self.check(compiler, sanitizer, build_type)
        self.assertEqual(len(set(sizes.values())), 1, sizes)


if __name__ == "__main__":
    unittest.main()
