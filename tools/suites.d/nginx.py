"""nginx-tests: its scripts from a checkout, which start nginx_program.py as their nginx.

They are in no registry. Perl is required, and IO::Socket::SSL for those of TLS (Debian: libio-socket-ssl-perl).
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from harness import SLOWNESS, need
from suite import FAIL, NOT_RUN, PASS, Result, Suite

RUN = pathlib.Path(__file__).with_name("nginx_script.pl")
PROGRAM = pathlib.Path(__file__).with_name("nginx_program.py")
SECONDS = 200 * SLOWNESS  # For one script.
SHORT = ("http_keepalive.t", "http_host.t", "proxy.t", "proxy_chunked.t", "proxy_trailers.t", "stream_proxy.t", "h2_headers.t")
# Each script adds these two about nginx's own log, which has no such lines here. Sluice's log is checked at each end.
OWN_LOG = ("no alerts", "no sanitizer errors")


class Nginx(Suite):
    name = "nginx"
    about = "HTTP and TCP through a proxy, as nginx does it (nginx/nginx-tests; needs --checkout)"
    needs_checkout = True
    mark = "lib/Test/Nginx.pm"

    def run(self, test, options):
        need("perl")
        scripts = sorted(path.name for path in options.checkout.glob("*.t"))
        scripts = [name for name in scripts if options.only in name and (not options.short or name in SHORT)]
        if options.limit:
            scripts = sorted(random.sample(scripts, min(options.limit, len(scripts))))
        unfit = [line for line in self.expectations() if line.outcome == NOT_RUN]
        results = {name: Result(NOT_RUN) for name in scripts if any(line.matches(name) for line in unfit)}
        scripts = [name for name in scripts if name not in results]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for number, (name, found, took) in enumerate(pool.map(lambda name: self.script(options, name), scripts), 1):
                results.update(found)
                outcomes = [result.outcome for result in found.values()]
                words = [f"{outcomes.count(kind)} {kind}" for kind in (PASS, FAIL, NOT_RUN) if kind in outcomes]
                why = f": {found[name].detail}" if name in found else ""
                print(f"{number}/{len(scripts)} {name}: {', '.join(words)}{why} ({took:.1f} s)", file=sys.stderr, flush=True)
        return results

    def script(self, options, name):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sluice-nginx-") as folder:
            notes = pathlib.Path(folder) / "notes"
            environment = {**os.environ, "TEST_NGINX_BINARY": str(PROGRAM), "SLUICE_NGINX_NOTES": str(notes), "TMPDIR": folder,
                           "PYTHONDONTWRITEBYTECODE": "1"}
            child = subprocess.Popen(["perl", RUN, name], cwd=options.checkout, env=environment, text=True, errors="replace",
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     start_new_session=True)
            try:
                text, errors = child.communicate(timeout=SECONDS)
                late = False
            except subprocess.TimeoutExpired:
                late = True
            try:
                os.killpg(child.pid, signal.SIGKILL)  # Its remaining servers, if any.
            except ProcessLookupError:
                pass
            if late:
                text, errors = child.communicate()
            told = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()] if notes.exists() else []
        return name, read(name, text, errors, told, child.returncode, late), time.monotonic() - began


def read(script, text, errors, told, code, late=False):
    """The results of its assertions by name, or one for the script."""
    for line in told:
        for word in ("refused", "failed"):
            if word in line:
                why = " ".join(line[word].split())
                return {script: Result(NOT_RUN, f"not translated: {why}" if word == "refused" else why)}
    skipped = re.search(r"^1\.\.0 # SKIP (.*)", text, re.MULTILINE)
    if skipped:
        return {script: Result(NOT_RUN, skipped[1])}
    if not told:
        return {script: Result(NOT_RUN, (errors.strip().splitlines() or ["it started nothing"])[-1])}
    results, seen = {}, 0

    def add(name, outcome, detail=""):
        key, count = f"{script}: {name}", 1
        while key in results:
            count += 1
            key = f"{script}: {name} ({count})"
        results[key] = Result(outcome, detail)

    # In the order of the failures.
    whys = iter([" ".join(part.replace("\n#", "\n").split()) for part in re.split(
        r"^#   Failed (?:\(TODO\) )?test .*?\n#   at .*?\n", errors, flags=re.MULTILINE | re.DOTALL)[1:]])
    # Assertions within assertions are indented.
    for match in re.finditer(r"^(not )?ok (\d+)(?: - (.*))?$", text, re.MULTILINE):
        seen += 1
        name, _, directive = (match[3] or match[2]).replace(r"\#", "\0").partition(" # ")
        name = name.replace("\0", "#").strip()
        why = next(whys, "") if match[1] and not directive.startswith("TODO") else ""
        if name in OWN_LOG or directive.lower().startswith("skip") or (match[1] and directive.startswith("TODO")):
            continue
        add(name, FAIL if match[1] else PASS, why[:300])
    plan = re.search(r"^1\.\.(\d+)", text, re.MULTILINE)
    if late or not plan or seen < int(plan[1]):
        why = f"not done after {SECONDS} s" if late else (errors.strip().splitlines() or [f"exit code {code}"])[-1]
        add("to its end", FAIL, f"{seen} of {plan[1] if plan else '?'}: {why}")
    for line in told:
        if line.get("ended"):
            add("the proxy's end", FAIL, line["ended"])
    return results


SUITE = Nginx()
