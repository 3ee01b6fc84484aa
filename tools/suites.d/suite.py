"""Support for all suites: results, files of expected results, and the comparison of both."""

import collections
import dataclasses
import pathlib
import re
import types

FOLDER = pathlib.Path(__file__).resolve().parent

PASS, FAIL, NOT_RUN = "pass", "fail", "not-run"


class ExpectationError(Exception):
    pass


@dataclasses.dataclass
class Result:
    outcome: str
    detail: str = ""


class Expectation:
    """One line of a file: the cases whose names match have this outcome, for this reason."""

    def __init__(self, pattern, outcome, reason, where):
        self.pattern, self.reason, self.where = pattern, reason, where
        self.outcome, _, self.detail = outcome.partition(": ")
        # Only `*` is special: names of cases contain all other characters.
        self._expression = re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)

    def matches(self, case):
        return self._expression.fullmatch(case) is not None

    def describes(self, result):
        return self.outcome == result.outcome and self.detail in result.detail


def parse(text, where):
    """Lines of `case | outcome | reason`. `*` in a case stands for any text; the outcome is `not-run` or `fail`,
    optionally with `: text` after it, which the detail has to contain; # begins a comment."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place = f"{where}:{number}"
        parts = [part.strip() for part in line.split(" | ", 2)]
        if len(parts) != 3 or not all(parts):
            raise ExpectationError(f"{place}: expected `case | outcome | reason`, found: {line}")
        pattern, outcome, reason = parts
        if outcome.partition(": ")[0] not in (FAIL, NOT_RUN):
            raise ExpectationError(f"{place}: the outcome is `fail` or `not-run`, or one of them with `: text`, not `{outcome}`")
        if not re.search(r"\bRFC \d+|\bdocs/\S+\.md", reason):
            raise ExpectationError(f"{place}: the reason names no section of an RFC and no file of docs/")
        found.append(Expectation(pattern, outcome, reason, place))
    return found


class Suite:
    """The base of the suites. `run(test, options)` returns a Result for each case; `test` is an HttpTest, which starts
    proxies."""

    name = about = ""
    needs_checkout = False
    mark = ""  # A file that each checkout has.

    def expectations(self):
        path = FOLDER / f"{self.name}.expected"
        return parse(path.read_text(encoding="utf-8"), f"tools/suites.d/{path.name}") if path.exists() else []

    def run(self, test, options):
        raise NotImplementedError

    def check(self, test, least, short=True):
        """For a test: at least `least` cases passed, and each has its expected result."""
        options = types.SimpleNamespace(short=short, only="", checkout=None, limit=0, jobs=1)
        results = self.run(test, options)
        report = compare(results, self.expectations(), whole=not short)
        test.assertGreaterEqual(report.passed, least, "a run that stops early must not pass")
        test.assertFalse(report.problems, report.text(self.name))
        return report


@dataclasses.dataclass
class Report:
    passed: int
    expected: collections.Counter  # Expectation.where -> cases
    problems: list
    not_run: int

    def text(self, name):
        failed = sum(self.expected.values())
        lines = [f"  {problem}" for problem in self.problems]
        lines.append(f"{name}: {self.passed} passed, {failed} failed as expected, {self.not_run} not run, "
                     f"{len(self.problems)} unexpected")
        return "\n".join(lines)


def compare(results, expectations, whole):
    """`whole`: all cases ran, so that an expectation without a case is out of date."""
    passed = not_run = 0
    expected, problems = collections.Counter(), []
    used = set()
    for case, result in sorted(results.items()):
        lines = [line for line in expectations if line.matches(case)]
        used.update(line.where for line in lines)
        fitting = [line for line in lines if line.describes(result)]
        if result.outcome == PASS:
            passed += 1
            problems += [f"{case}: passes, but {line.where} expects `{line.outcome}`: strike it off" for line in lines]
        elif not fitting:
            problems.append(f"{case}: {result.outcome}{': ' if result.detail else ''}{result.detail}")
        elif result.outcome == NOT_RUN:
            not_run += 1
        else:
            expected[fitting[0].where] += 1
    if whole:
        problems += [f"{line.where}: there is no case `{line.pattern}`" for line in expectations if line.where not in used]
    return Report(passed, expected, problems, not_run)
