"""h2spec: each of its cases passes, or stands here with the reason."""

import os
import subprocess
import xml.etree.ElementTree

import harness
from harness import SLOWNESS, say
from http_peers_support import KINDS, HttpTest, go_program, words

# h2spec is of the time of RFC 7540. Where RFC 9113 differs:
DIFFERENT = {
    # Section 5.3.2: the priorities of RFC 7540 are deprecated, and a receiver may ignore them, as we do.
    ("http2/5.3.1", "Sends HEADERS frame that depend on itself"),
    ("http2/5.3.1", "Sends PRIORITY frame that depend on itself"),
}
# What is no preface of HTTP/2 is taken for HTTP/1.1 where that is spoken too: it answers 400, and closes.
NOT_A_PREFACE = {("http2/3.5", "Sends invalid connection preface")}
LEAST = 145  # Cases, so that a run that stops early does not pass.


class H2specTest(HttpTest):

    def check(self, secure, behind):
        proxy = self.through(self.web_server(behind))
        report = os.path.join(self.temporary_directory(), "report.xml")
        host, port = proxy.address("secure" if secure else "plain")
        result = subprocess.run(
            [go_program("github.com/summerwind/h2spec/cmd/h2spec"), "--strict", "-h", host, "-p", str(port),
             # The server takes its time, or else the response may be there before what breaks the request.
             "-P", "/sleep?ms=30", "-o", str(SLOWNESS), "-j", report, *(("-t", "-k") if secure else ())],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
        cases = xml.etree.ElementTree.parse(report).getroot().findall(".//testcase")
        failed = {(case.get("package"), case.get("classname")) for case in cases
                  if case.find("failure") is not None or case.find("error") is not None}
        self.assertGreaterEqual(len(cases), LEAST)
        say(f"{len(cases)} cases, {len(failed)} failed")
        # What is mended is to be struck off.
        self.assertEqual(failed, DIFFERENT if secure else DIFFERENT | NOT_A_PREFACE, result.stdout[-6000:])

    def test_plain(self):
        for behind in KINDS[::2]:
            with self.subTest(words(behind)):
                self.check(False, behind)

    def test_tls(self):
        for behind in KINDS[::2]:
            with self.subTest(words(behind)):
                self.check(True, behind)


if __name__ == "__main__":
    harness.main()
