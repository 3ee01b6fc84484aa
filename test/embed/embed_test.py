"""The buffer library in other projects: installed, linked by find_package and by pkg-config, and as a subproject.

Environment variables:
  SLUICE_FRAMES, SLUICE_LEAK, SLUICE_ECHO   the examples of this build; those that are missing are not run
  SLUICE_LIBURING, SLUICE_LIBURING_INCLUDE
                               liburing.a and its headers; pkg-config finds the system's when they are not set
  SLUICE_SANITIZE              under a sanitizer only this build's examples are run
  CC, CXX                      the compilers; default cc and c++
  CI=true                      a missing tool is a failure; otherwise it skips the test
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
CC = os.environ.get("CC") or "cc"
CXX = os.environ.get("CXX") or "c++"
CI = os.environ.get("CI") == "true"
LIBRARY_ONLY = ["-DSLUICE_BUILD_PROXY=OFF", "-DSLUICE_BUILD_TESTS=OFF", "-DSLUICE_BUILD_BENCH=OFF",
                "-DSLUICE_BUILD_EXAMPLES=OFF"]
# None of the project's dependencies is available.
NO_DEPENDENCIES = ["-DSLUICE_DEPS_DIR=/nowhere", "-DFETCHCONTENT_FULLY_DISCONNECTED=ON",
                   *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("absl", "yaml-cpp", "GTest", "benchmark"))]


PRINTED = """
#include <sluice/buffer.h>
extern "C" __attribute__((noinline)) void stop_here() { asm volatile(""); }
int main() {
  sluice::ChunkPool pool({.budget_bytes = 1 << 20});
  sluice::ChunkPool::Use use(&pool);
  sluice::Buffer buffer;
  const bool whole = buffer.append_copy(pool, "hello");
  stop_here();
  return whole ? 0 : 1;
}
"""


def needs(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return unittest.skipIf(missing and not CI, f"{', '.join(missing)} is missing")


def run(*command, environment=None):
    """The output of the command. If it fails, the test fails with the output."""
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False, timeout=240, env={**os.environ, **(environment or {})})
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))} failed:\n{result.stdout}")
    return result.stdout


def cmake(source, build, *options, environment=None):
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}",
        *options, environment=environment)


class Folder(unittest.TestCase):
    """Each class has a temporary folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sluice-embed-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)


class ThisBuild(Folder):

    @unittest.skipUnless(os.environ.get("SLUICE_FRAMES"), "not built")
    def test_frames(self):
        programs.check_frames(self, os.environ["SLUICE_FRAMES"])

    @unittest.skipUnless(os.environ.get("SLUICE_LEAK"), "not built")
    def test_leak(self):
        programs.check_leak(self, os.environ["SLUICE_LEAK"])

    @unittest.skipUnless(os.environ.get("SLUICE_ECHO"), "not built")
    def test_echo(self):
        programs.check_echo(self, os.environ["SLUICE_ECHO"])


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
@needs("cmake", "ninja", "pkg-config")
class Installed(Folder):
    """Builds the library alone, with link-time optimization as in a release, installs it, and moves it elsewhere."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = pathlib.Path(cls.folder)
        cmake(ROOT, folder / "build", "-DSLUICE_LTO=ON", "-DSLUICE_WERROR=ON", *LIBRARY_ONLY, *NO_DEPENDENCIES)
        # All targets, so that a target which should not be part of the library would be built; an object of an earlier
        # run may be used.
        run("cmake", "--build", folder / "build", "-j2", environment={"CCACHE_NOHASHDIR": "1"})
        run("cmake", "--install", folder / "build", "--prefix", folder / "first")
        cls.prefix = folder / "prefix"
        (folder / "first").rename(cls.prefix)
        shutil.rmtree(folder / "build")
        cls.library = next(cls.prefix.glob("lib*/**/libsluice_iobuf.a"))
        cls.environment = {"CMAKE_PREFIX_PATH": str(cls.prefix),
                           "PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig")}
        if os.environ.get("SLUICE_LIBURING"):
            cls._install_liburing(folder / "liburing")

    @classmethod
    def _install_liburing(cls, folder):
        """Like its `make install`."""
        shutil.copytree(os.environ["SLUICE_LIBURING_INCLUDE"], folder / "include")
        (folder / "lib/pkgconfig").mkdir(parents=True)
        shutil.copy(os.environ["SLUICE_LIBURING"], folder / "lib/liburing.a")
        (folder / "lib/pkgconfig/liburing.pc").write_text(
            f"Name: liburing\nDescription: io_uring\nVersion: 2.9\n"
            f"Cflags: -I{folder}/include\nLibs: -L{folder}/lib -luring\n", encoding="utf-8")
        cls.environment["PKG_CONFIG_PATH"] += f":{folder}/lib/pkgconfig"

    def need_liburing(self):
        found = subprocess.run(["pkg-config", "--exists", "liburing >= 2.4"], check=False,
                               env={**os.environ, **self.environment}).returncode == 0
        if not found and not CI:
            self.skipTest("liburing 2.4 or newer is missing")

    def copy_examples(self, folder):
        """A folder without references to the source tree."""
        folder = pathlib.Path(self.folder) / folder
        folder.mkdir()
        for name in ("echo.cc", "frames.cc"):
            shutil.copy(ROOT / "examples" / name, folder)
        return folder

    def assert_only_installed(self, text):
        """All of Sluice's files that a compiler or linker names are installed ones."""
        self.assertNotIn(str(ROOT), text)
        used = set(re.findall(r"(/[^\s:()]*(?:sluice_|/sluice/)[^\s:()]*\.(?:h|a|so))", text))
        self.assertTrue(used, text)
        for path in used:
            self.assertTrue(pathlib.Path(path).resolve().is_relative_to(self.prefix), path)
        return used

    def test_what_is_installed(self):
        installed = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if path.is_file()}
        library = self.library.parent.relative_to(self.prefix)
        package = [f"{library}/cmake/sluice/sluice-{name}.cmake"
                   for name in ("config", "config-version", "targets", "targets-release")]
        headers = [str(path.relative_to(ROOT)) for path in (ROOT / "include").rglob("*.h")]
        printers = "share/sluice/gdb/sluice_gdb.py"
        self.assertEqual(installed, {*package, *headers, printers, f"{library}/libsluice_iobuf.a",
                                     f"{library}/pkgconfig/sluice-iobuf.pc"})
        for name in installed - {f"{library}/libsluice_iobuf.a"}:
            text = (self.prefix / name).read_text(encoding="utf-8")
            for place in (str(ROOT), self.folder):
                self.assertNotIn(place, text, f"{name} cannot be moved")

    def test_objects_are_for_any_compiler(self):
        """Slim objects of link-time optimization are empty to all compilers but the one that wrote them."""
        sections = run("objdump", "-h", self.library)
        self.assertNotIn(".gnu.lto", sections)
        self.assertRegex(run("nm", self.library), r"6sluice\d+v\w+9ChunkPool8get_slow")

    def test_find_package(self):
        self.need_liburing()
        project = self.copy_examples("project")
        shutil.copy(HERE / "project/CMakeLists.txt", project)
        cmake(project, project / "build", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_BUILD_TYPE=Release",
              environment=self.environment)
        run("cmake", "--build", project / "build", "-j2")
        self.assert_only_installed(run("ninja", "-C", project / "build", "-t", "deps"))
        self.assert_only_installed(run("ninja", "-C", project / "build", "-t", "commands"))
        for entry in json.loads((project / "build/compile_commands.json").read_text(encoding="utf-8")):
            self.assertIn("c++", entry["command"])
            self.assertRegex(entry["command"], r"-std=(gnu|c)\+\+2\d")  # sluice::iobuf requires it.
        programs.check_frames(self, project / "build/frames")
        programs.check_echo(self, project / "build/echo")

    def compile(self, compiler, source, output, *options, modules=("sluice-iobuf",)):
        """Compiles with the flags from pkg-config; checks what was used."""
        flags = {what: run("pkg-config", f"--{what}", *modules, environment=self.environment).split()
                 for what in ("cflags", "libs")}
        dependencies = f"{output}.d"
        trace = run(compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-MD", "-MF", dependencies, *options,
                    *flags["cflags"], source, "-o", output, "-Wl,-t", *flags["libs"])
        headers = pathlib.Path(dependencies).read_text(encoding="utf-8")
        self.assertIn(str((self.prefix / "include/sluice/buffer.h").resolve()),
                      {str(pathlib.Path(path).resolve()) for path in self.assert_only_installed(headers)})
        self.assertEqual({str(pathlib.Path(path).resolve()) for path in self.assert_only_installed(trace)},
                         {str(self.library)})

    def test_pkg_config(self):
        self.need_liburing()
        folder = self.copy_examples("by-hand")
        self.compile(CXX, folder / "frames.cc", folder / "frames")
        self.compile(CXX, folder / "echo.cc", folder / "echo", modules=("sluice-iobuf", "liburing"))
        programs.check_frames(self, folder / "frames")
        programs.check_echo(self, folder / "echo")

    def test_other_compiler(self):
        other = next(filter(shutil.which, ["clang++-19", "clang++"]), None)
        if other is None:
            self.skipTest("clang is missing")
        folder = self.copy_examples("other-compiler")
        self.compile(other, folder / "frames.cc", folder / "frames")
        programs.check_frames(self, folder / "frames")

    def test_gdb_has_the_printers(self):
        """gdb loads them from a program that is linked with the library, once it is told that it may."""
        if shutil.which("gdb") is None and not CI:
            self.skipTest("gdb is missing")
        folder = pathlib.Path(self.folder) / "printers"
        folder.mkdir()
        (folder / "program.cc").write_text(PRINTED, encoding="utf-8")
        self.compile(CXX, folder / "program.cc", folder / "program", "-g", "-O0")
        commands = ["set debuginfod enabled off", "set disable-randomization off", "break stop_here", "run", "up", "print buffer"]
        gdb = ["gdb", "-nx", "-batch", *(word for command in commands for word in ("-ex", command))]
        output = run(*gdb, "-iex", f"add-auto-load-safe-path {folder}", folder / "program")
        self.assertRegex(output, r"\$1 = sluice::Buffer of 5 bytes, 1 window in place = \{.*bytes = 68 65 6c 6c 6f\}")
        # Without the permission gdb says what is missing; and a program that is stripped holds no script.
        self.assertIn("auto-load safe-path", run(*gdb, folder / "program"))
        run("strip", "--strip-debug", folder / "program")
        self.assertNotIn("debug_gdb_scripts", run("objdump", "-h", folder / "program"))

    def test_in_a_shared_library(self):
        folder = self.copy_examples("shared")
        self.compile(CXX, folder / "frames.cc", folder / "libframes.so", "-shared", "-fPIC", "-Wl,-z,defs,-z,text")


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
@needs("cmake", "ninja")
class Subproject(Folder):

    def test_builds_nothing_else(self):
        build = pathlib.Path(self.folder) / "build"
        ccache = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_NOHASHDIR": "1"} if shutil.which("ccache") else {}
        cmake(HERE / "subproject", build, f"-DSLUICE_SOURCE={ROOT}", "-DCMAKE_BUILD_TYPE=Release", *NO_DEPENDENCIES,
              environment=ccache)
        targets = run("ninja", "-C", build, "-t", "targets", "all")
        for unwanted in ("gtest", "absl", "yaml-cpp", "liburing", "proxy", "_test", "_bench", "iobuf_archive"):
            self.assertNotIn(unwanted, targets)
        run("cmake", "--build", build, "-j2", environment=ccache)
        programs.check_frames(self, build / "frames")


if __name__ == "__main__":
    unittest.main()
