"""Runs a small program in gdb and prints its buffers with tools/gdb/sluice_gdb.py.

Skipped if there is no gdb (with Python), no compiler, or no permission to trace a process.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRINTER = ROOT / "tools" / "gdb" / "sluice_gdb.py"

PROGRAM = r"""
#include <cstring>

#include "sluice/buffer.h"

using sluice::Buffer;
using sluice::ChunkPool;
using sluice::Lease;

Lease lease_of(ChunkPool& pool, const char* text, size_t headroom = 0) {
  Lease lease = Lease::allocate(pool, 64 - headroom, headroom);
  lease.grow_back(std::strlen(text));
  std::memcpy(lease.data(), text, lease.size());
  return lease;
}

extern "C" __attribute__((noinline)) void stop_here() { asm volatile(""); }

int main() {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Buffer empty, one, shared, wrapped, chain, heap;
  one.append(lease_of(pool, "hello", 7));
  shared.append(lease_of(pool, "abcdefghijklmnopqrstuvwxyz"));
  Buffer other = shared.clone();
  for (const char* text : {"x", "y", "1", "2"}) {  // Begins in the second slot.
    wrapped.append(lease_of(pool, text));
    if (wrapped.window_count() > 2) wrapped.trim_front(1);
  }
  for (int i = 0; i < 9; ++i) chain.append(lease_of(pool, "r"));
  chain.prepend(lease_of(pool, "first"));
  heap.append(Lease(sluice::ChunkRef::take(sluice::heap_chunk(100)), 0, 1));
  alignas(Buffer) unsigned char place[sizeof(Buffer)];
  std::memset(place, 0x5c, sizeof(place));
  Buffer* garbage = reinterpret_cast<Buffer*>(place);
  stop_here();
  return garbage == nullptr;
}
"""

NAMES = ["empty", "one", "shared", "other", "wrapped", "chain", "heap", "*garbage"]


class GdbPrinter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        gdb = shutil.which("gdb")
        compiler = next(filter(None, map(shutil.which, [os.environ.get("CXX") or "c++", "g++", "clang++"])), None)
        if not gdb or not compiler:
            cls.give_up("needs gdb and a C++ compiler; run tools/deps")
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder, "program.cc"), pathlib.Path(folder, "program")
            source.write_text(PROGRAM, encoding="utf-8")
            sources = [source, *sorted((ROOT / "src/pool").glob("*.cc")), *sorted((ROOT / "src/buffer").glob("*.cc"))]
            subprocess.run([compiler, "-std=c++20", "-g", "-O0", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}",
                            "-o", program, *sources], check=True)
            commands = ["set debuginfod enabled off", "set disable-randomization off", "set width 0",
                        f"source {PRINTER}", "break stop_here", "run", "up"]
            commands += [f"print {name}" for name in NAMES]
            commands += ["set print elements 2", "print chain", "set print elements 0", "print -pretty on -- one"]
            arguments = [gdb, "-nx", "-batch"] + [a for command in commands for a in ("-ex", command)] + [program]
            run = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50,
                                 check=False)
        cls.output = run.stdout
        if "Python scripting is not supported" in cls.output or "ptrace" in cls.output:
            cls.give_up("gdb cannot do it here:\n" + cls.output)
        # "$1 = ...": everything up to the next one.
        outputs = re.split(r"^\$\d+ = ", cls.output, flags=re.MULTILINE)[1:]
        if len(outputs) != len(NAMES) + 2:
            raise AssertionError("gdb printed:\n" + cls.output)
        cls.printed = dict(zip(NAMES + ["two of the chain", "pretty"], outputs))

    @staticmethod
    def give_up(why):
        """Skips the tests; in CI that is a failure."""
        raise AssertionError(why) if os.environ.get("CI") == "true" else unittest.SkipTest(why)

    def windows(self, name):
        """What is printed of each window, by its field."""
        found = re.findall(r"\[(\d+)\] = \{(.*?)\}", self.printed[name], re.DOTALL)
        self.assertEqual([str(i) for i in range(len(found))], [index for index, _ in found])
        return [dict(re.findall(r"(\w+) = ([^,}]*)", text)) for _, text in found]

    def test_empty_buffer(self):
        self.assertEqual("sluice::Buffer, empty", self.printed["empty"].strip())

    def test_window(self):
        self.assertTrue(self.printed["one"].startswith("sluice::Buffer of 5 bytes, 1 window in place = {"))
        [window] = self.windows("one")
        self.assertRegex(window.pop("chunk"), "^0x[0-9a-f]+$")
        self.assertEqual({"offset": "7", "size": "5", "exclusive": "true", "refs": "1", "capacity": "64",
                          "bytes": "68 65 6c 6c 6f"}, window)

    def test_clone(self):
        for name in ("shared", "other"):
            [window] = self.windows(name)
            self.assertEqual(("26", "false", "2"), (window["size"], window["exclusive"], window["refs"]))
            self.assertEqual("61 62 63 64 65 66 67 68 69 6a 6b 6c 6d 6e 6f 70 ...", window["bytes"])
        self.assertEqual(self.windows("shared")[0]["chunk"], self.windows("other")[0]["chunk"])

    def test_windows_are_in_order(self):
        self.assertEqual(["31", "32"], [window["bytes"] for window in self.windows("wrapped")])
        self.assertTrue(self.printed["chain"].startswith("sluice::Buffer of 14 bytes, 10 windows in blocks = {"))
        self.assertEqual(["66 69 72 73 74"] + ["72"] * 9, [window["bytes"] for window in self.windows("chain")])

    def test_heap_chunk(self):
        self.assertEqual("100", self.windows("heap")[0]["capacity"])

    def test_garbage_is_reported(self):
        self.assertIn("not initialized, or destroyed", self.printed["*garbage"])

    def test_element_limit(self):
        self.assertEqual(2, len(self.windows("two of the chain")))
        self.assertIn("}...}", self.printed["two of the chain"])

    def test_pretty_prints_one_window_per_line(self):
        self.assertRegex(self.printed["pretty"], r"(?m)^  \[0\] = \{chunk = .*bytes = 68 65 6c 6c 6f\}$")


if __name__ == "__main__":
    unittest.main()
