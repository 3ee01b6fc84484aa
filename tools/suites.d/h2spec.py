"""h2spec: a misbehaving HTTP/2 client. It is a Go module (test/e2e/http_peers.d/go.mod pins it)."""

import os
import subprocess
import xml.etree.ElementTree

from harness import SLOWNESS
from http_peers_support import KINDS, go_program, words
from suite import FAIL, PASS, Result, Suite

LISTENERS = ("plain", "secure")


class H2spec(Suite):
    name = "h2spec"
    about = "HTTP/2 as in RFC 7540 and 7541 (summerwind/h2spec)"

    def run(self, test, options):
        """All cases through listeners with and without TLS, in front of servers of HTTP/1.1 and of HTTP/2."""
        results = {}
        for behind in KINDS[::2]:
            if options.short and behind != KINDS[0]:
                continue
            proxy = test.through(test.web_server(behind))
            for listener in LISTENERS:
                results.update(self.through(test, proxy, listener, words(behind), options.only))
        return results

    def through(self, test, proxy, listener, behind, only=""):
        report = os.path.join(test.temporary_directory(), "report.xml")
        host, port = proxy.address(listener)
        ran = subprocess.run(
            [go_program("github.com/summerwind/h2spec/cmd/h2spec"), "--strict", "-h", host, "-p", str(port),
             # The server delays its response; otherwise it might arrive before the violation of the request.
             "-P", "/sleep?ms=30", "-o", str(SLOWNESS), "-j", report, *(("-t", "-k") if listener == "secure" else ())],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
        if not os.path.exists(report):
            raise AssertionError(f"h2spec made no report: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        results = {}
        for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('package')}: {case.get('classname')}"
            fault = next((found for found in map(case.find, ("failure", "error")) if found is not None), None)
            if only in name:
                detail = "" if fault is None else " ".join((fault.text or fault.get("message") or "").split())
                results[f"{listener}, {behind}: {name}"] = Result(PASS if fault is None else FAIL, detail)
        return results


SUITE = H2spec()
