"""h2spec: each of its cases passes, or is listed in tools/suites.d/h2spec.expected with the reason."""

import sys

import harness
from harness import ROOT, print_note
from http_peers_support import HttpTest

sys.path.insert(0, str(ROOT / "tools/suites.d"))
from h2spec import SUITE  # noqa: E402


class H2specTest(HttpTest):

    def test_all(self):
        # 146 cases four times. A run that stops early must not pass.
        report = SUITE.check(self, least=4 * 140, short=False)
        print_note(report.text("h2spec"))


if __name__ == "__main__":
    harness.main()
