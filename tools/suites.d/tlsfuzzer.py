"""tlsfuzzer: its scripts from a checkout, one process each, against listeners with TLS.

Its libraries (tlslite-ng, ecdsa) are installed from PyPI by tools/deps; tlsfuzzer itself is in no registry.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from python_libraries import libraries
from suite import FAIL, NOT_RUN, PASS, Result, Suite

CIPHER = "TLS_ECDHE_{}_WITH_AES_128_GCM_SHA256"  # For scripts of TLS 1.2 with an option for it: most default to CBC.
ECDSA = ("test-ecdsa-sig-flexibility.py", "test-tls13-ecdsa-support.py")
# Instead of the arguments that `script` determines.
ARGUMENTS = {
    "test-aes-gcm-nonces.py": ["-d"],
    "test-cve-2016-7054.py": ["-C", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"],
    "test-downgrade-protection.py": ["-d", "--server-max-protocol", "TLSv1.3"],
    "test-ecdhe-padded-shared-secret.py": ["--min-zeros", "1"],  # Hours otherwise.
    "test-fallback-scsv.py": ["-d", "--tls-1.3", "--min-support", "TLSv1.2"],
    "test-session-ticket-resumption.py": ["-d", "--no-new-ticket-on-resumption"],
    # Servers may limit what they skip, RFC 8446 section 4.2.10.
    "test-tls13-0rtt-garbage.py": ["-d", "--num-bytes", "8192"],
    "test-tls13-certificate-compression.py": ["-d"],
    "test-tls13-dhe-shared-secret-padding.py": ["--min-zeros", "1"],
    "test-tls13-keyupdate.py": ["--coalescing"],
    "test-tls13-obsolete-curves.py": ["--relaxed"],
}
SHORT = ("conversation", "tls13-keyupdate.py", "record-layer-limits", "zero-content-type", "tls13-empty-alert")
RUN = pathlib.Path(__file__).with_name("tlsfuzzer_script.py")
SECONDS = 1500  # For one script.


class Tlsfuzzer(Suite):
    name = "tlsfuzzer"
    about = "TLS 1.2 and 1.3 by a peer that misbehaves (tlsfuzzer/tlsfuzzer; needs --checkout)"
    needs_checkout = True
    mark = "tlsfuzzer/runner.py"

    def run(self, test, options):
        ports = self.listen(test)
        unfit = [line for line in self.expectations() if line.outcome == NOT_RUN]
        scripts = sorted(path.name for path in (options.checkout / "scripts").glob("test-*.py"))
        results, chosen = {}, []
        for name in scripts:
            if options.only not in name or (options.short and not any(part in name for part in SHORT)):
                continue
            if any(line.matches(name) for line in unfit):
                results[name] = Result(NOT_RUN)
            else:
                chosen.append(name)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for found in pool.map(lambda name: self.script(options, ports, name), chosen):
                results.update(found)
        return results

    def listen(self, test):
        """Listeners for each kind of certificate that close after each response of HTTP/1.0."""
        web = {"http": {"routes": [{"respond": {"body": "hello\n"}}]}}
        kinds = {"rsa": test.rsa, "ecdsa": test.server}
        proxy = test.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": name, "address": "127.0.0.1:0", "tls": {"certificates": [certificate]}, **web}
                          for name, certificate in kinds.items()],
        }, cut_allowed=True)
        return {name: proxy.port(name) for name in kinds}

    def script(self, options, ports, name):
        kind = "ecdsa" if name in ECDSA else "rsa"
        application = options.checkout / "tlsfuzzer/_apps" / name.replace("-", "_")
        known = re.search(r'getopt\(\s*argv,\s*"([^"]*)"', application.read_text(encoding="utf-8"))
        known = known[1] if known else ""
        if name in ARGUMENTS:
            arguments = list(ARGUMENTS[name])
        elif "C:" in known and ("tls13" not in name or "d" in known):
            arguments = ["-C", CIPHER.format(kind.upper())]
        else:
            arguments = ["-d"] if "d" in known else []
        if "n:" in known:
            arguments += ["-n", "4" if options.short else str(options.limit)]
        environment = {**os.environ, "PYTHONPATH": f"{options.checkout.resolve()}:{libraries()}", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run([sys.executable, RUN, options.checkout.resolve() / "scripts" / name, "-h", "127.0.0.1", "-p",
                                  str(ports[kind]), *arguments], cwd=options.checkout, env=environment, text=True,
                                 errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return {name: Result(FAIL, f"did not end within {SECONDS} s")}
        print(f"{name}: {' '.join(re.findall('(?:PASS|FAIL): [0-9]+', ran.stdout))}", file=sys.stderr, flush=True)
        results = {f"{name}: {case}": result for case, result in conversations(ran.stdout).items()}
        if not results or not re.search("^TOTAL: ", ran.stdout, re.MULTILINE):
            results[name] = Result(FAIL, "ended early: " + ran.stdout.strip()[-300:].replace("\n", " / "))
        return results


def conversations(output):
    """The output of a script: `name ...`, then possibly an error, then OK if it passed. "sanity" occurs twice."""
    results, case, why = {}, None, []

    def close(passed):
        nonlocal case, why
        if case is not None and not (case in results and results[case].outcome == FAIL):
            results[case] = Result(PASS) if passed else Result(FAIL, why[-1] if why else "")
        case, why = None, []

    for line in output.splitlines():
        begun = re.fullmatch(r'(\S.*?) \.\.\.|"(.*)" repeat \d+(?:\.\.\.)?', line)
        if begun:
            close(False)
            case = begun[1] or begun[2]
        elif line == "OK":
            close(True)
        elif line.startswith(("Test end", "=====")):
            close(False)
        elif re.match(r"\S*(Error|Exception|Alert)\b", line):
            why.append(line)
    close(False)
    return results


SUITE = Tlsfuzzer()
