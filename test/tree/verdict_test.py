"""tools/test.d/verdict.py: which tests are rerun, and which skips are reported, from the log that ctest writes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

VERDICT = pathlib.Path(__file__).resolve().parents[2] / "tools/test.d/verdict.py"

ENTRY = """1/1 Testing: {name}
1/1 Test: {name}
Command: "x"
Output:
----------------------------------------------------------
{output}
<end of output>
Test time =   1.67 sec
----------------------------------------------------------
Test {result}.
"{name}" end time: Nov 23 20:05 UTC
----------------------------------------------------------

"""

PYTHON = """test_a (__main__.X.test_a) ... FAIL

======================================================================
FAIL: test_a (__main__.X.test_a)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "t.py", line 27, in test_a
{raised}

----------------------------------------------------------------------
Ran 1 test in 0.001s

FAILED (failures=1)"""

GTEST = """[ RUN      ] A.C
/w/loop.h:306: Failure
Failed
{message}
[  FAILED  ] A.C (40000 ms)
[==========] 2 tests from 1 test suite ran. (0 ms total)"""


class Verdict(unittest.TestCase):

    def judge(self, *entries, status=8, ci=False, preset="release"):
        """(exit code, output) for tests given as (name, output)."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "LastTest.log")
            path.write_text("".join(ENTRY.format(name=name, output=output, result="Failed" if status else "Passed")
                                    for name, output in entries), encoding="utf-8")
            run = subprocess.run([sys.executable, "-B", VERDICT, preset, path, str(status)], stdout=subprocess.PIPE,
                                 text=True, check=False, env={**os.environ, "CI": "true" if ci else ""})
        return run.returncode, run.stdout

    def test_short_wait_is_rerun(self):
        for output in (PYTHON.format(raised="AssertionError: waited 10 s for counters; they are\nfoo 1"),
                       PYTHON.format(raised="TimeoutError: timed out"),
                       PYTHON.format(raised="ValueError: x\n\nDuring handling ...\n\nAssertionError: waited 4 s for it"),
                       GTEST.format(message="waited in vain")):
            self.assertEqual(self.judge(("e2e.a_test", output)), (0, "unsteady: e2e.a_test\n"), output)

    def test_nothing_else_is_rerun(self):
        for output in (PYTHON.format(raised="AssertionError: wrong byte at 7"),
                       PYTHON.format(raised="AssertionError: waited 4 s for it\n\n...\n\nValueError: x"),
                       PYTHON.format(raised="AssertionError: waited 4 s for it; stderr: AddressSanitizer: ..."),
                       PYTHON.format(raised="AssertionError: waited 4 s for it").replace("\nFAILED (failures=1)", ""),
                       GTEST.format(message="another connection's data"),
                       GTEST.format(message="waited in vain\n/w/x.cc:1: Failure\nthe bytes are wrong"),
                       "Segmentation fault", ""):
            code, printed = self.judge(("e2e.a_test", output))
            self.assertEqual((code, printed[:20]), (1, "failed: e2e.a_test: "), output)

    def test_failures_are_printed(self):
        """Defect: of a test file that hung, CI printed its name and nothing else."""
        for output, expected in (
                (PYTHON.format(raised="AssertionError: wrong byte at 7"), "AssertionError: wrong byte at 7"),
                (GTEST.format(message="waited in vain\n/w/x.cc:1: Failure\nbytes are wrong"), "Failed | waited in vain"),
                ("test_a ... ok\n\na_test.py: ended by SIGALRM; where its threads are:\n  File a",
                 "test_a ... ok | a_test.py: ended by SIGALRM; where its threads are: | File a")):
            code, printed = self.judge(("e2e.a_test", output))
            self.assertEqual((code, printed.splitlines()[0]), (1, f"failed: e2e.a_test: {expected}"))

    def test_at_most_two_are_rerun(self):
        late = PYTHON.format(raised="AssertionError: waited 10 s for counters")
        code, printed = self.judge(*[(f"e2e.{name}_test", late) for name in "abc"])
        self.assertEqual((code, printed.count("failed: "), printed.count("unsteady: ")), (1, 3, 0))

    def test_skips(self):
        listed = "[ RUN      ] A.B\n/w/x.cc:10: Skipped\nrelease builds write no pattern\n[  SKIPPED ] A.B (0 ms)"
        self.assertEqual(self.judge(("pool.shard_0", listed), status=0, ci=True), (0, ""))
        for output, skip in ((listed.replace("release", "no"), "A.B: no builds write no pattern"),
                             ("test_a (__main__.X.test_a)\nDoc. ... skipped 'no tool'", "X.test_a: no tool"),
                             ("test_a (__main__.X.test_a) ... \n  remark\nskipped \"it's so\"", "X.test_a: it's so"),
                             ("setUpClass (__main__.X) ... skipped 'no gdb'", "X.setUpClass: no gdb")):
            for ci in (False, True):
                code, printed = self.judge(("pool.shard_0", output), status=0, ci=ci)
                self.assertEqual(code, int(ci), printed)
                self.assertEqual(printed.splitlines()[0], f"skipped: pool.shard_0 {skip}")


if __name__ == "__main__":
    unittest.main()
