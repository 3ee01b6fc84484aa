"""Profile-guided optimization (cmake/ProfileGuided.cmake), shown with an example of the buffer library: tools/pgo takes too long for a test.

Environment variables:
  SLUICE_SANITIZE   under a sanitizer nothing is done: an ordinary build does this
  CC, CXX           the compilers; others than gcc are not used
  CI=true           a missing tool is a failure; otherwise it skips the test
"""

import os
import pathlib
import subprocess
import unittest

import embed_test
import programs
from embed_test import LIBRARY_ONLY, NO_DEPENDENCIES, ROOT, cmake, run

OPTIONS = [*LIBRARY_ONLY, *NO_DEPENDENCIES, "-DSLUICE_BUILD_EXAMPLES=ON", "-DSLUICE_LTO=ON", "-DCMAKE_C_COMPILER_LAUNCHER=",
           "-DCMAKE_CXX_COMPILER_LAUNCHER="]


def compiler_is_gcc():
    version = subprocess.run([embed_test.CXX, "--version"], capture_output=True, text=True, check=False).stdout
    return "Free Software Foundation" in version


@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "an ordinary build does this")
@unittest.skipUnless(compiler_is_gcc(), "needs gcc")
@embed_test.needs("cmake", "ninja", "objdump")
class ProfileGuided(embed_test.Folder):

    def build(self, name, mode):
        """The folder of the build."""
        folder, profile = (pathlib.Path(self.folder) / each for each in (name, "profile"))
        cmake(ROOT, folder, f"-DSLUICE_PGO={mode}", f"-DSLUICE_PGO_PROFILE={profile}", *OPTIONS)
        run("cmake", "--build", folder, "-j2", "--target", "frames")
        return folder

    def test_counts_of_one_folder_serve_in_another(self):
        counting = self.build("counting", "generate")
        programs.check_frames(self, counting / "examples/frames")
        counts = [path.name for path in (pathlib.Path(self.folder) / "profile").iterdir()]
        self.assertTrue(any("buffer.cc.gcda" in name for name in counts), counts)
        self.assertFalse([name for name in counts if "counting" in name])

        optimized = self.build("optimized", "use")
        programs.check_frames(self, optimized / "examples/frames")
        objects = [str(path) for path in optimized.rglob("buffer.cc.o")]
        # gcc sorts functions like this only if it knows how often they run.
        self.assertIn(".text.hot", run("objdump", "-h", *objects))

    def test_no_counts(self):
        with self.assertRaises(AssertionError) as raised:
            cmake(ROOT, pathlib.Path(self.folder) / "none", "-DSLUICE_PGO=use", f"-DSLUICE_PGO_PROFILE={self.folder}/nowhere", *OPTIONS)
        self.assertIn("Run tools/pgo", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
