"""Each rule that the codecs check is in the table of src/proxy/http/proxy/http_rules.cc, and nothing else is."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODECS = ROOT / "src/proxy/http"
TABLE = CODECS / "proxy/http_rules.cc"
# Texts of the codecs that are not about what the peer sent.
NO_RULES = {
    "the connection holds more than its share of memory, which is short", "the stream was reset",
    "the connection ended within a head", "the connection ended within a body", "the connection ended before the request",
    "the connection ended before the response", "the connection was lost", "a response that cannot be written",
    "a trailer field that cannot be written", "more body than its Content-Length", "less body than its Content-Length",
    "a Content-Length that is not a number", "a tunnel that ended before it was accepted", "a frame of an unknown type",
}
CALLS = re.compile(r"\b(?:malformed|breaks|too_large|fail|fail_calm|lose|over|stream_error|refuse_with|report_refusal|give_up|"
                   r"return)\s*\(?[^;]*;|\{\d{3}, ResetReason[^;]*;|kRule = [^;]*;")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def rules_of_codecs():
    found = set()
    for folder in ("h1", "h2"):
        for path in sorted((CODECS / folder).glob("*.cc")):
            for call in CALLS.findall(re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.M)):
                found |= {text for text in TEXT.findall(call) if " " in text.strip(" \\t")}
    return found - NO_RULES


def rules_of_table():
    table = TABLE.read_text(encoding="utf-8")
    rows = table[table.index("kRules[] = {"):table.index("\n};", table.index("kRules[] = {"))]
    return {text for text in re.findall(r'^\s*\{"((?:[^"\\]|\\.)*)"', rows, flags=re.M) if text}


# In the words of the sessions.
OTHERS = re.compile(r"a header block was not complete within header_timeout")


class Rules(unittest.TestCase):

    def test_codecs(self):
        self.assertEqual(sorted(rules_of_codecs() - rules_of_table()), [], "rules without a row")

    def test_table(self):
        self.assertEqual([rule for rule in sorted(rules_of_table() - rules_of_codecs()) if not OTHERS.fullmatch(rule)], [],
                         "rows without a rule")


if __name__ == "__main__":
    unittest.main()
