"""Nothing in the tree makes a build depend on when or where it runs; and tools/check-reproducible finds where two files differ."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/reproducible.d"))
from difference import differences


class SourceTest(unittest.TestCase):

    def test_no_time_of_the_build(self):
        for folder in ("src", "include", "cmake"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in (".h", ".cc", ".cmake", ".in", ".txt"):
                    found = re.search(r"__DATE__|__TIME(STAMP)?__|string\(TIMESTAMP|site_name\(", path.read_text(encoding="utf-8"))
                    self.assertIsNone(found, f"{path}: {found and found[0]} differs in each build")


@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("cc") and shutil.which("ar"), "no compiler, or not Debian")
class DifferenceTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def compile(self, name, text):
        source = self.folder / "x.c"
        source.write_text(f'const char text[] = "{text}"; int number = 1;', encoding="utf-8")
        subprocess.run(["cc", "-c", "-o", self.folder / name, source], check=True, cwd=self.folder)
        return self.folder / name

    def package(self, name, text, permissions=0o644):
        root = self.folder / f"root-{name}"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text("Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n",
                                             encoding="utf-8")
        (root / "file").write_text(text, encoding="utf-8")
        (root / "file").chmod(permissions)
        subprocess.run(["dpkg-deb", "-b", root, self.folder / name], check=True, capture_output=True)
        return self.folder / name

    def test_same(self):
        self.assertEqual(differences(self.compile("a.o", "text"), self.compile("b.o", "text")), [])

    def test_programs(self):
        lines = "\n".join(differences(self.compile("a.o", "/some/one/x.c"), self.compile("b.o", "/some/two/x.c")))
        self.assertIn("section .rodata: 14 and 14 bytes", lines)
        self.assertNotIn("section .data", lines)
        self.assertIn("only in first, .rodata: /some/one/x.c", lines)
        self.assertIn("only in second, .rodata: /some/two/x.c", lines)

    def test_archives(self):
        for folder, text in (("a", "one text"), ("b", "two texts")):
            (self.folder / folder).mkdir()
            self.compile(f"{folder}/x.o", text)
            subprocess.run(["ar", "qcD", f"{folder}.a", f"{folder}/x.o"], check=True, cwd=self.folder)
        lines = "\n".join(differences(self.folder / "a.a", self.folder / "b.a"))
        self.assertIn("x.o differs", lines)
        self.assertIn("one text", lines)

    def test_packages(self):
        first = self.package("a.deb", "text")
        lines = "\n".join(differences(first, self.package("b.deb", "other")))
        self.assertIn("data/file differs", lines)
        lines = "\n".join(differences(first, self.package("c.deb", "text", 0o600)))
        self.assertIn("data.list differs", lines)
        self.assertIn("-rw-------", lines)

    def test_packages_depend_on_their_files_only(self):
        """Times, owners, the size of folders and what cpack says of it are not in the package."""
        packages = [self.package("a.deb", "text"), self.package("b.deb", "text"), self.package("c.deb", "other")]
        control = self.folder / "root-b.deb/DEBIAN/control"
        control.write_text(control.read_text(encoding="utf-8") + "Installed-Size: 7\n", encoding="utf-8")
        (self.folder / "root-b.deb/file").touch()
        subprocess.run(["dpkg-deb", "-b", self.folder / "root-b.deb", packages[1]], check=True, capture_output=True)
        control = self.folder / "root-a.deb/DEBIAN/control"
        control.write_text(control.read_text(encoding="utf-8") + "Installed-Size: 9\n", encoding="utf-8")
        subprocess.run(["dpkg-deb", "-b", self.folder / "root-a.deb", packages[0]], check=True, capture_output=True)
        self.assertNotEqual(differences(packages[0], packages[1]), [])
        subprocess.run([ROOT / "tools/package.d/finish", *packages], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
        self.assertEqual(differences(packages[0], packages[1]), [])
        self.assertNotEqual(differences(packages[0], packages[2]), [])
        shown = subprocess.run(["dpkg-deb", "-I", packages[0]], capture_output=True, text=True, check=True).stdout
        self.assertIn("Installed-Size: 1\n", shown)
        listed = subprocess.run(["dpkg-deb", "-c", packages[0]], capture_output=True, text=True, check=True, env={**os.environ, "TZ": "UTC"})
        self.assertIn("root/root         4 2023-11-14 22:13 ./file", listed.stdout)


PACKAGE = r"""#!/bin/sh
set -e
out=build/package
mkdir -p $out/package $out/root/DEBIAN
printf 'Package: sluice\nVersion: 1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: x\n' >$out/root/DEBIAN/control
printf 'the program %s' "$(eval "echo $LEAK")" >$out/sluice
ar qcD $out/libsluice_iobuf.a tools/package
cp $out/sluice $out/root/program
chmod -R u=rwX,go=rX $out/root
find $out/root -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -b $out/root $out/package/sluice_1_all.deb
"""


@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("ar"), "no binutils, or not Debian")
class CommandTest(unittest.TestCase):
    """tools/check-reproducible, in a tree whose build is a small script."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name, "tree")
        (self.tree / "tools").mkdir(parents=True)
        shutil.copy2(ROOT / "tools/check-reproducible", self.tree / "tools")
        shutil.copytree(ROOT / "tools/reproducible.d", self.tree / "tools/reproducible.d")
        for name, text in (("tools/package", PACKAGE), ("bin/cmake", "#!/bin/sh\n"), ("CMakeLists.txt", "")):
            (self.tree / name).parent.mkdir(exist_ok=True)
            (self.tree / name).write_text(text, encoding="utf-8")
            (self.tree / name).chmod(0o755)

    def run_tool(self, *arguments, code=0, leak=""):
        environment = {**os.environ, "PATH": f"{self.tree}/bin:{os.environ['PATH']}", "LEAK": leak, "SOURCE_DATE_EPOCH": "1700000000",
                       "GIT_CEILING_DIRECTORIES": str(self.tree.parent)}
        done = subprocess.run([self.tree / "tools/check-reproducible", *arguments], capture_output=True, text=True, check=False,
                              env=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_same(self):
        text = self.run_tool()
        self.assertIn("reproducible: the same bytes", text)
        hashes = [line.split()[0] for line in text.splitlines()[:6]]
        self.assertEqual(hashes[0::2], hashes[1::2])
        self.assertEqual(len(set(hashes)), 3)

    def test_what_may_differ_does(self):
        for leak in ("$PWD", "$HOME", "$TZ", "$(umask)", "$CCACHE_DISABLE"):
            with self.subTest(leak):
                text = self.run_tool("--quick", code=1, leak=leak)
                self.assertIn("reproducible: DIFFERENT bytes", text)
                self.assertIn("data/program differs", text)

    def test_with_a_package(self):
        self.run_tool("--with", self.tree / "none.deb", code=2)
        subprocess.run(["tools/package"], cwd=self.tree, check=True, capture_output=True,
                       env={**os.environ, "LEAK": "", "SOURCE_DATE_EPOCH": "1700000000"})
        package = self.tree / "build/package/package/sluice_1_all.deb"
        self.assertIn("the same bytes", self.run_tool("--with", package))
        self.assertIn("DIFFERENT", self.run_tool("--with", package, code=1, leak="x"))
        package = package.rename(package.with_name("sluice_2_all.deb"))
        self.assertIn("is it of this version and Debian?", self.run_tool("--with", package, code=2))


if __name__ == "__main__":
    unittest.main()
