"""Bodies in a file never exhaust the memory of their container, even if they are many times larger.

A program (hold.cc) holds bodies in a FilePool, inside a memory cgroup that is too small for them. The cgroup's limit
kills a process that needs more. Anonymous memory must stay below the limit, all bodies must be read back unchanged, and
the file must occupy what the pool reports, and nothing in the end.

Environment variables:
  SLUICE_HOLD                the program; default build/release/test/file_backed_hold
  SLUICE_FILE_DIRECTORY      where the file is made; default /var/tmp. A tmpfs is not suitable
  SLUICE_FILE_BACKED_LONG=1  4 GiB in 256 MiB instead of 512 MiB in 64 MiB

If no memory cgroup can be made (it takes root), or no file on a disk, the test is skipped with the reason.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLD = os.environ.get("SLUICE_HOLD") or str(ROOT / "build/release/test/file_backed_hold")
DIRECTORY = os.environ.get("SLUICE_FILE_DIRECTORY") or "/var/tmp"
LONG = os.environ.get("SLUICE_FILE_BACKED_LONG") == "1"
MIB = 1 << 20
TOTAL, LIMIT = (4096 * MIB, 256 * MIB) if LONG else (512 * MIB, 64 * MIB)
# ext4's own bookkeeping when the file's blocks are in many places: a block for each 340 runs.
BOOKKEEPING = 16 * 4096


def print_note(text):
    sys.stderr.write(f"\n    {text}\n")


class NoCgroup(Exception):
    pass


class MemoryCgroup:
    """A memory cgroup of version 1 or 2 below this process's cgroup, or below an ancestor of it."""

    def __init__(self, limit):
        self.path, self._version, tried = None, 0, []
        for version, directory in self._places():
            path = directory / f"sluice-file-backed-{os.getpid()}"
            try:
                if version == 2:
                    with contextlib.suppress(OSError):
                        (directory / "cgroup.subtree_control").write_text("+memory")
                path.mkdir()
                self.path, self._version = path, version
                self._write("memory.limit_in_bytes" if version == 1 else "memory.max", limit)
                if version == 2 and (path / "memory.swap.max").exists():
                    self._write("memory.swap.max", 0)
                return
            except OSError as error:
                tried.append(str(error))
                self.close()
        raise NoCgroup(tried[0] if tried else "no memory controller is mounted")

    @staticmethod
    def _places():
        mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        for _, at, kind, options, *_ in mounts:
            if kind == "cgroup" and "memory" in options.split(","):
                version, pattern = 1, r"\d+:(?:[^:]*,)?memory(?:,[^:]*)?:/(.*)"
            elif kind == "cgroup2":
                version, pattern = 2, r"0::/(.*)"
            else:
                continue
            for line in own:
                if match := re.fullmatch(pattern, line):
                    place = pathlib.Path(at) / match[1]
                    yield version, place
                    while place != pathlib.Path(at):
                        place = place.parent
                        yield version, place

    def _write(self, name, value):
        (self.path / name).write_text(str(value))

    def _read(self, name):
        with contextlib.suppress(OSError):
            return (self.path / name).read_text()
        return ""

    def run(self, command):
        """Starts a command inside."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return subprocess.Popen(["sh", "-c", enter, str(self.path / "cgroup.procs"), *command],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def anonymous(self):
        name = "total_rss" if self._version == 1 else "anon"
        match = re.search(rf"^{name} (\d+)$", self._read("memory.stat"), re.MULTILINE)
        return int(match[1]) if match else 0

    def peak(self):
        return int(self._read("memory.max_usage_in_bytes") or self._read("memory.peak") or 0)

    def kills(self):
        text = self._read("memory.oom_control") or self._read("memory.events")
        match = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return int(match[1]) if match else 0

    def close(self):
        if self.path:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    self.path.rmdir()
                if not self.path.exists():
                    break
                time.sleep(0.05)
        self.path = None


class MemoryLimit(unittest.TestCase):

    def setUp(self):
        try:
            self.cgroup = MemoryCgroup(LIMIT)
        except NoCgroup as error:
            self.skipTest(f"cannot make a memory cgroup: {error}")
        self.addCleanup(self.cgroup.close)

    def hold(self, where, body_kib):
        """Runs the program. Returns its exit code, the figures of its phases, and the peaks of anonymous memory of the
        process and of the cgroup."""
        start, anonymous = time.monotonic(), [0, 0]
        process = self.cgroup.run([HOLD, str(TOTAL // MIB), str(body_kib), where, DIRECTORY])
        self.addCleanup(process.kill)
        while process.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                anonymous[0] = max(anonymous[0], int(status.split("RssAnon:")[1].split()[0]) * 1024)
            anonymous[1] = max(anonymous[1], self.cgroup.anonymous())
            time.sleep(0.01)
        out, err = process.communicate()
        figures = {line["phase"]: line for line in map(json.loads, out.splitlines())}
        print_note(f"{TOTAL // MIB} MiB in {where}, in {LIMIT // MIB} MiB: {time.monotonic() - start:.1f} s, exit code "
                   f"{process.returncode}; anonymous {max(anonymous) / MIB:.1f} MiB at most, cgroup "
                   f"{self.cgroup.peak() / MIB:.1f} MiB at most {err.strip()}")
        return process.returncode, figures, anonymous

    def check_bodies(self, body_kib):
        code, figures, anonymous = self.hold("file", body_kib)
        if code == 2:
            self.skipTest(f"{DIRECTORY} cannot hold the file, or is in memory itself")
        self.assertEqual(0, code)
        self.assertEqual(0, self.cgroup.kills())
        for peak in anonymous:
            self.assertGreater(peak, 0)
            self.assertLess(peak, LIMIT)
        for phase in ("held", "read"):
            line = figures[phase]
            print_note(f"{phase}: {line}")
            self.assertEqual(TOTAL, line["held_bytes"])
            self.assertEqual(TOTAL, line["out_bytes"])
            self.assertLess(line["rss_anon"], LIMIT)
            self.check_disk(line)
            self.assertGreaterEqual(line["disk_bytes"], TOTAL)
            self.assertLessEqual(line["disk_bytes"], TOTAL + 16 * MIB, "a step beyond what is used")
        self.assertEqual(0, figures["released"]["out_bytes"])
        self.assertEqual(0, figures["released"]["disk_bytes"])
        self.check_disk(figures["released"])

    def check_disk(self, line):
        added = line["file_system_bytes"] - line["disk_bytes"]
        self.assertGreaterEqual(added, 0)
        self.assertLessEqual(added, BOOKKEEPING)

    def test_bodies_in_a_file_fit(self):
        self.check_bodies(1024)

    def test_the_same_bodies_in_memory_do_not(self):
        """The limit is effective: this is what happens without the file."""
        code, figures, _ = self.hold("memory", 1024)
        self.assertNotEqual(0, code)
        self.assertNotIn("held", figures)
        self.assertGreater(self.cgroup.kills(), 0)


if __name__ == "__main__":
    if os.environ.get("SLUICE_SANITIZE"):
        print_note("skipped: a sanitizer takes more memory than the limit")
        sys.exit(0)
    unittest.main(verbosity=2)
