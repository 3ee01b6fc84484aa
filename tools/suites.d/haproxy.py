"""HAProxy's own regression tests: scripts of vtest, with Sluice in HAProxy's place.

The scripts come from a checkout, and vtest must have been built. vtest starts `haproxy_program.py` as HAProxy. A case
is one run of a client in a script, or a server that has expectations of its requests. The script is rerun without a
failed expectation, so that it hides no other.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import haproxy_script as vtc
from harness import SLUICE
from haproxy_configuration import MARK, Translation
from haproxy_lines import Unsupported, true
from suite import FAIL, NOT_RUN, PASS, Result, Suite

FOLDERS = ("balance", "checks", "compression", "connection", "contrib", "filters", "http-capture", "http-cookies",
           "http-errorfiles", "http-messaging", "http-rules", "jwt", "log", "mcli", "proxy", "sample_fetches", "seamless-reload",
           "server", "ssl", "startup", "stats", "stick-table", "stickiness", "stream", "tcp-rules", "webstats")
PROGRAM = pathlib.Path(__file__).with_name("haproxy_program.py")
SHORT = ("http-errorfiles", "balance")
SECONDS = 10  # For one run of a script, as vtest counts.
RUNS = 40  # Of one script, one for each failure.
BEHIND = "behind "


class Haproxy(Suite):
    name = "haproxy"
    about = "HAProxy's regression tests (haproxy/haproxy and vtest/VTest2; needs --checkout and --vtest)"
    needs_checkout = True
    mark = "reg-tests/http-messaging"

    def run(self, test, options):
        if not options.vtest or not os.access(options.vtest, os.X_OK):
            raise AssertionError("name a built vtest with --vtest PROGRAM")
        root = (options.checkout / "reg-tests").resolve()
        scripts = [path for folder in FOLDERS for path in sorted((root / folder).glob("*.vtc"))
                   if options.only in f"{path.relative_to(root)}" and (not options.short or folder in SHORT)]
        results = {}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for path, found in zip(scripts, pool.map(lambda path: Script(path, options.vtest.resolve()).results(), scripts)):
                name = f"{path.relative_to(root)}".removesuffix(".vtc")
                outcomes = [result.outcome for result in found.values()]
                why = next((result.detail for result in found.values() if result.outcome == NOT_RUN), "")
                print(f"{name}: {outcomes.count(PASS)} passed, {outcomes.count(FAIL)} failed"
                      f"{', not run: ' + why if NOT_RUN in outcomes else ''}", file=sys.stderr, flush=True)
                chosen = list(found.items())[:options.limit or None]
                results.update({name + (f": {case}" if case else ""): result for case, result in chosen})
        return results


def fitting(specification):
    """Adapts expectations of HTTP/2 clients and servers: Sluice opens the connection's window at once (RFC 9113 section
    6.9.2), which the scripts do not wait for; and most requests have no host at all, which Sluice resets (RFC 9110
    section 4.2.1)."""
    changed = re.sub(r"(stream 0 \{.*?\brxsettings\b)", r"\1\nrxwinup\n", specification, flags=re.DOTALL)
    if "txpri" in changed:
        changed = re.sub(r"\btxreq\b(?!(?:\\\n|[^\n])*(?:authority|-noadd|\"host\"))",
                         r'txreq -hdr ":authority" "haproxy.test"', changed)
    return changed


class Script:

    def __init__(self, path, vtest):
        self._path, self._vtest = path, vtest
        self._failures, self._marks = {}, {}  # Case -> details; -> untranslated directives.
        self._cut = ""  # Why a server no longer responds: later failures are then meaningless.

    def results(self):
        """Results by case; the case "" is the script as a whole."""
        try:
            self._commands = self._prepared(vtc.load(self._path))
            with tempfile.TemporaryDirectory(prefix="haproxy.") as folder:
                return self._run(pathlib.Path(folder))
        except Unsupported as why:
            return {"": Result(NOT_RUN, str(why))}

    def _prepared(self, commands):
        """The commands to run; raises Unsupported if that is impossible."""
        text = self._path.read_text(encoding="latin-1")
        if re.search(r"(?m)^#\s*REGTEST_TYPE=broken", text):
            raise Unsupported("REGTEST_TYPE=broken")
        kept, self._syslogs, self._environment, checks, waiting = [], [], {}, 0, 0
        for command in commands:
            if command.name == "haproxy":
                self._look_at(command)
            elif command.name == "feature" and "-cc" in command.text():
                condition = re.search(r"-cc '(.*?)'", command.text())
                if condition and not true(condition[1], {}):
                    raise Unsupported(f"feature {condition[1]}")
            elif command.name == "setenv":
                self._environment[command.words[1]] = command.words[2].strip('"')
            elif command.name == "syslog":
                if command.words[1] not in self._syslogs:
                    self._syslogs.append(command.words[1])
                    waiting += "barrier" in command.text()
                if waiting > 1:
                    raise Unsupported("syslog with barriers")  # Their order follows only from their messages.
                if "barrier" not in command.text():
                    continue
                where = command.specification()  # Others wait for what it has received: it gets everything at once.
                command.words[where] = "\n".join(["{", *re.findall(r"(?m)^\s*barrier .*$", command.words[where]), "}"])
            elif command.name in ("shell", "process") and re.search("_cli|socat|HAPROXY_PROGRAM", command.text()):
                raise Unsupported("commands on the stats socket")
            if command.name in ("client", "server"):
                command.words = [fitting(word) for word in command.words]
            checks += command.name in ("client", "server") and "expect" in command.text()
            kept.append(command)
        if not checks:
            raise Unsupported("syslog alone tells" if self._syslogs else "no client expects anything")
        return kept

    def _look_at(self, command):
        """The options of vtest, and the configuration as far as it is known before the run."""
        for word in ("-cli", "-mcli", "-S", "-conf-BAD", "-conf-OK", "-expectexit"):
            if word in command.words:
                raise Unsupported(f"haproxy {word}")
        command.words = [word for word in command.words if word not in ("-D", "-W", "-Ws")]
        while "-arg" in command.words:
            at = command.words.index("-arg")
            argument = command.words[at + 1].strip('"')
            if not re.fullmatch(r"-m \d+|-V|-L \w+", argument):  # Its memory limit, verbosity, a peer's name.
                raise Unsupported(f"haproxy {argument}")
            del command.words[at:at + 2]
        for index, word in enumerate(command.words):
            if word == "-conf":
                text = re.sub(r"fd@\$\{\w+\}", "127.0.0.1:1", command.words[index + 1][1:-1])
                for kind, value in (("addr", "127.0.0.1"), ("port", "1"), ("sock", "127.0.0.1:1")):
                    text = re.sub(r"\$\{\w+_%s\}" % kind, value, text)
                Translation(text.replace("${tmpdir}", "/tmp"), dict(self._environment)).result()
                command.words.insert(index, "-W")  # vtest then waits until it listens.
                break
            if word == "-conf+backend":
                raise Unsupported("haproxy -conf+backend")

    def _cases(self):
        """Case -> command, in order."""
        found, runs = {}, {}
        for command in self._commands:
            if command.name == "client":
                who = command.words[1]
                if command.specification() is not None and ("-run" in command.words or "-start" in command.words):
                    runs[who] = runs.get(who, 0) + 1
                    found[vtc.case_name(who, runs[who])] = command
            elif command.name == "server" and command.specification() is not None:
                who = command.words[1]
                runs[who] = runs.get(who, 0) + 1
                if re.search(r"(?m)^\s*expect ", command.text()):
                    found[vtc.case_name(who, runs[who])] = command
        return found

    def _run(self, folder):
        cases = self._cases()
        results = {name: Result(NOT_RUN, "syslog") for name in self._syslogs}
        stopped = ""
        for number in range(RUNS):
            log, report, code = self._vtest_once(folder, number)
            self._marks.update(vtc.marks(log, MARK))
            if "unsupported: " in report:
                raise Unsupported(report.partition("unsupported: ")[2].split("\n")[0])
            if "ended: " in report:
                return {"": Result(FAIL, report.strip().replace("\n", " / "))}
            if code == 77:
                raise Unsupported("vtest: " + (re.search("SKIPPING test, lacking feature: (.*)", log) or [0, "skipped"])[1])
            if code == 0:
                break
            if code is None or not self._leave_out(cases, log):
                failed = vtc.failure(log)
                stopped = f"{failed.who}: {failed.detail}" if failed else f"no end within {SECONDS} s"
                break
        else:
            stopped = f"more than {RUNS} failures"
        ended, marks = vtc.ended(log), self._marks
        for case in cases:
            who, _, run = case.partition(" #")
            details = "; ".join(self._failures.get(case, []))
            if case in marks or MARK in details:
                results[case] = Result(NOT_RUN, marks.get(case) or re.search(rf"{MARK}: ([^\")\n]*)", details)[1])
            elif details:
                results[case] = Result(NOT_RUN if details.startswith(BEHIND) else FAIL, details)
            elif stopped and ended.get(who, 0) < int(run or 1):
                results[case] = Result(NOT_RUN, f"{BEHIND}{next(iter(marks.values()), stopped)}")
            elif "expect " in cases[case].text() and not re.search(rf"(?m)^\*+\s+{who}(\.\d+)?\s+EXPECT .* match$", log):
                results[case] = Result(NOT_RUN, f"{BEHIND}{next(iter(marks.values()), 'requests that did not come')}")
            else:
                results[case] = Result(PASS)
        outcomes = {result.outcome for result in results.values()}
        if stopped and FAIL not in outcomes and not marks:
            results[""] = Result(FAIL, stopped)
        if {result.outcome for result in results.values()} == {NOT_RUN}:
            return {"": next(result for result in results.values() if result.detail != "syslog")}
        return results

    def _vtest_once(self, folder, number):
        script, report = folder / f"{number}.vtc", folder / f"{number}.report"
        title, *rest = self._commands  # vtest requires the title first.
        script.write_text("\n".join([title.text(), "feature ignore_unknown_macro", *(command.text() for command in rest)]) + "\n",
                          encoding="latin-1")
        report.touch()
        (folder / "vtest").mkdir(exist_ok=True)
        environment = {**os.environ, "HAPROXY_PROGRAM": str(PROGRAM), "HAPROXY_ARGS": "", "SUITE_SLUICE": SLUICE,
                       "SUITE_REPORT": str(report), "TMPDIR": str(folder / "vtest"),
                       "HAPROXY_TEST_TIMEOUT": "1s" if self._cut else "5s"}
        try:
            ran = subprocess.run([self._vtest, "-v", "-k", "-t", str(SECONDS), script], cwd=folder, env=environment, text=True,
                                 errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=4 * SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            return (error.stdout or b"").decode(errors="replace"), report.read_text(encoding="utf-8"), None
        log = os.environ.get("SUITE_LOGS")
        if log:
            with open(os.path.join(log, f"{self._path.parent.name}.{self._path.stem}.{number}.log"), "w", encoding="utf-8") as file:
                file.write(script.read_text(encoding="latin-1") + ran.stdout)
        return ran.stdout, report.read_text(encoding="utf-8"), ran.returncode

    def _leave_out(self, cases, log):
        """Records the first failure and removes it from the script. Returns false if that is impossible."""
        failed = vtc.failure(log)
        if failed is None:
            return False
        case = vtc.case_name(failed.who, failed.run)
        command = cases.get(case)
        if command is None:
            return False
        details = self._failures.setdefault(case, [])
        detail = f"{BEHIND}{self._cut}" if self._cut else failed.detail
        if detail not in details:
            details.append(detail)
        where = command.specification()
        # A marked client has no further results.
        changed = None if command.name == "client" and case in self._marks else vtc.without(command.words[where], failed)
        if changed is None:
            if command.name == "server":
                return False
            changed = "{\n}"
        if command.name == "server" and not failed.of_an_expectation:
            self._cut = self._cut or f"{failed.who}: {failed.detail}"
        command.words[where] = changed
        return True


SUITE = Haproxy()
