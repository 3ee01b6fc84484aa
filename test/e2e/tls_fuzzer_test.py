"""TLS records and messages that no client should send (tools/suites.d/tls_probes.py): each gets the reaction that the
RFC requires, or is listed in tools/suites.d/tls_probes.expected with the reason."""

import sys

import harness
from harness import ROOT, print_note
from http_peers_support import HttpTest

sys.path.insert(0, str(ROOT / "tools/suites.d"))
from tls_probes import SUITE  # noqa: E402


class TlsFuzzerTest(HttpTest):

    def test_all(self):
        report = SUITE.check(self, least=70)
        print_note(report.text("tls_probes"))


if __name__ == "__main__":
    harness.main()
