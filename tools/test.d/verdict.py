#!/usr/bin/env python3
"""The result of a run of ctest: which tests were skipped, and whether failed tests may be rerun.

    tools/test.d/verdict.py PRESET LastTest.log STATUS-OF-CTEST

Prints a line "skipped: ..." for each test that was skipped for a reason that is not listed in tools/test.d/skips,
"unsteady: ..." for those to be rerun, and "failed: ..." with the reason for each failure otherwise. Exit code 1 when
something failed that is not a wait that was too short, or, with CI=true, when a test was skipped without a listed reason.
"""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# The messages of our tests for a timeout: harness.py, loop.h, and Python's own.
TIMEOUT = re.compile(r"waited \d+(\.\d+)? s for |waited in vain|did not end within \d+ s|did not print its counters for \d+ s|"
                     r"TimeoutError: timed out|timed out after \d+(\.\d+)? seconds")
# None of these can be caused by a slow machine, wherever they occur.
NEVER = re.compile(r"Sanitizer|runtime error: |check failed|leak was reported| at exit\b|exit code -?[1-9]|Segmentation fault")
MOST = 2
# What is printed of a failure.
LAST_LINES, MOST_CHARACTERS = 30, 2000

ENTRY = re.compile(r'^\d+/\d+ Testing: (.*)$', re.M)
# The line of an exception: not indented, and its class at the beginning.
RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Expired|Exception|timeout|Failure|Exit|Interrupt)\b.*$", re.M)


def entries(log):
    """(name, passed, output) of each test."""
    parts = ENTRY.split(log)[1:]
    for name, text in zip(parts[::2], parts[1::2]):
        output = text.split("Output:\n", 1)[-1].split("\n", 1)[-1]
        output, _, after = output.rpartition("<end of output>")
        yield name, "Test Passed." in after, output


def failures(output):
    """The message of each failed test of a program; None if it did not get to its own summary."""
    if re.search(r"^\[==========\] \d+ tests? from .* ran\.", output, re.M):
        # Each failed check, up to the next one or the next line of the runner.
        return re.findall(r"^(?:\S+:\d+: |unknown file: )Failure\n(.*?)(?=^\S+:\d+: Failure|^\[|\Z)", output, re.M | re.S) or None
    if re.search(r"^FAILED \(", output, re.M):
        sections = re.split(r"^={70}\n(?=FAIL:|ERROR:)", output, flags=re.M)[1:]
        # Of chained exceptions, the last one made the test fail.
        return [(RAISED.findall(section) or [""])[-1] for section in sections] or None
    return None


def excusable(output):
    found = failures(output)
    return bool(found) and len(found) <= MOST and not NEVER.search(output) and all(map(TIMEOUT.search, found))


def skips(name, output):
    """'program test: reason' of each."""
    test = "?"
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if match := re.match(r"\[  SKIPPED \] (\S+) \(", line):
            why = ""
            for back in range(at - 1, max(at - 20, -1), -1):
                if lines[back].endswith(": Skipped"):
                    why = " ".join(filter(None, lines[back + 1:at]))
                    break
                if lines[back].startswith("[ RUN"):
                    break
            yield f"{name} {match[1]}: {why}"
        if match := re.match(r"(\w+) \(([\w.]+)\)", line):
            test = f"{match[2].split('.')[-2] if match[2].endswith('.' + match[1]) else match[2].split('.')[-1]}.{match[1]}"
        if match := re.search(r"(?:\.\.\. |^)skipped (['\"])(.*)\1$", line):
            yield f"{name} {test}: {match[2]}"


def allowed(preset):
    """The expressions of tools/test.d/skips for this preset."""
    rows = []
    for line in (HERE / "skips").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            presets, pattern, reason = (field.strip() for field in line.split(" | "))
            if not reason:
                sys.exit(f"tools/test.d/skips: no reason: {line}")
            if preset in presets.split(",") or presets == "all":
                rows.append(re.compile(pattern))
    return rows


def main():
    preset, path, status = sys.argv[1:]
    log = pathlib.Path(path).read_text(encoding="utf-8", errors="replace") if os.path.exists(path) else ""
    known, failed, unlisted = allowed(preset), [], []
    for name, passed, output in entries(log):
        unlisted += [skip for skip in skips(name, output) if not any(row.search(skip) for row in known)]
        if not passed:
            failed.append((name, output))
    for skip in unlisted:
        print(f"skipped: {skip}")
    if unlisted and os.environ.get("CI") == "true":
        print("Under CI=true a test is skipped only for a reason that is listed in tools/test.d/skips.")
        return 1
    if status == "0":
        return 0
    if not failed or len(failed) > MOST or not all(excusable(output) for _, output in failed):
        for name, output in failed:
            # Without its own summary, its last lines.
            for why in failures(output) or ["\n".join(output.strip().splitlines()[-LAST_LINES:])]:
                print(f"failed: {name}: " + " | ".join(filter(None, map(str.strip, why.splitlines())))[:MOST_CHARACTERS])
        return 1
    print("unsteady: " + " ".join(name for name, _ in failed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
