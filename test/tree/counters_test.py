"""docs/reference/counters.md and the code have the same counters, and the same reasons, in both directions."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def strings_between(text, begin, end="}"):
    """The strings in the code after `begin`, up to `end`."""
    start = text.index(begin)
    found = re.findall(r'"([^"]+)"', text[start:text.index(end, start + len(begin))])
    assert found, begin
    return found


def histograms_of_code():
    return set(re.findall(r'\bhistogram\(\w+, "(\w+)"', source("src/proxy/server/latency_report.cc")))


def counters_of_code():
    report = "".join(source(f"src/proxy/server/{name}_report.cc") for name in ("metrics", "process"))
    names = set(re.findall(r'(?:\bmetric_line\(\w+,|\bmember\(|\bLine\{)\s*"(\w+)"', report)) | histograms_of_code()
    for version in "12":
        table = strings_between(source("src/proxy/metrics/http_counters.cc"), f"kHttp{version}[] =", "};")
        names |= {f"http{version}_{name}_total" for name in table}
    return names


def reasons_of_code():
    """Reasons by the label whose values they are."""
    http = source("src/proxy/metrics/http_counters.cc")
    sessions = source("src/proxy/metrics/l4_counters.cc")
    report, process = (source(f"src/proxy/server/{name}_report.cc") for name in ("metrics", "process"))
    errors = source("src/proxy/upstream/endpoint.cc")
    errors = errors[errors.index("connect_error_name("):]
    return {
        "requests": set(strings_between(http, "http_end_name(HttpEnd end)", "};")),
        "sessions": set(strings_between(sessions, "session_end_name(SessionEnd end)", "};")),
        "refused": set(strings_between(sessions, "refusal_name(Refusal refusal)", "};")),
        "connect errors": set(re.findall(r'return "(\w+)";', errors[:errors.index("\n}\n")])),
        "claims": set(strings_between(http, "claim_name(Claim claim)", "};")),
        "overload": set(strings_between(source("src/proxy/metrics/overload_counters.cc"), "overload_action_name(OverloadAction action)",
                                        "};")),
        "relaxed": set(re.findall(r'Relaxed\{"(\w+)"', report)),
        "body file": set(re.findall(r'"reason=\\"(\w+)\\""', process[process.index("string format_body_file("):])),
        "admin": set(re.findall(r'"reason=\\"(\w+)\\""', process[process.index("string format_admin("):
                                                                    process.index("string format_body_file(")])),
    }


class Document:
    def __init__(self):
        self.text = source("docs/reference/counters.md")

    def rows(self):
        """The cells of all tables, line by line."""
        for line in self.text.splitlines():
            if line.startswith("| `"):
                yield [cell.strip() for cell in line.strip("|").split(" | ")]

    def counters(self):
        names = set()
        for cells in self.rows():
            words = re.findall(r"`([^`]+)`", cells[0])
            if not words[0].startswith("sluice_"):
                continue
            for word in words:
                if "*" in word:  # The rest of its name is in the text next to it.
                    rest = re.findall(r"`([^`]+)`", cells[-1])
                    names |= {word.removeprefix("sluice_").replace("*", each) for each in rest}
                elif word.startswith("_"):  # Like the first one, except for its end.
                    names.add(re.match(r"sluice_(http\d)_", words[0])[1] + word)
                else:
                    names.add(word.removeprefix("sluice_"))
        return names

    def reasons_under(self, heading):
        """The reasons in the first column of the table below a heading."""
        section = re.split(r"\n##", self.text.split(heading, 1)[1], maxsplit=1)[0]
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split(" | ")[0])}

    def values_of(self, counter):
        """The backquoted words in the last column."""
        for cells in self.rows():
            if f"`{counter}`" in cells[0]:
                return set(re.findall(r"`([^`]+)`", cells[-1]))
        raise KeyError(counter)


class CountersTest(unittest.TestCase):
    def setUp(self):
        self.document = Document()
        self.reasons = reasons_of_code()

    def test_overload_actions(self):
        self.assertEqual(self.document.values_of("sluice_overload_actions_total"), self.reasons["overload"])

    def test_counters(self):
        self.assertEqual(counters_of_code() ^ self.document.counters(), set())

    def test_help(self):
        """Each has a line of help for Prometheus."""
        helped = re.findall(r'^    \{"(\w+)", "[A-Z1].*\."\},$', source("src/proxy/server/metric_help.cc"), re.M)
        self.assertEqual(len(helped), len(set(helped)))
        self.assertEqual(counters_of_code() ^ set(helped), set())

    def test_other_documents(self):
        """They name only counters that exist. A name that ends with * stands for all that begin with it."""
        known = {f"sluice_{name}" for name in counters_of_code()}
        known |= {f"sluice_{name}_{part}" for name in histograms_of_code() for part in ("bucket", "sum", "count")}
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
            for name in re.findall(r"`(sluice_[a-z0-9_]+\*?)", page.read_text(encoding="utf-8")):
                with self.subTest(f"{page.relative_to(ROOT)}: {name}"):
                    self.assertTrue(name in known or name.endswith("*") and any(each.startswith(name[:-1]) for each in known))

    def test_reasons_of_requests_and_sessions(self):
        self.assertEqual(self.document.reasons_under("### Why requests end"), self.reasons["requests"])
        self.assertEqual(self.document.reasons_under("## Why sessions end"), self.reasons["sessions"])

    def test_other_labels(self):
        for counter, kind in (("sluice_refused_total", "refused"),
                              ("sluice_endpoint_connect_errors_total", "connect errors"),
                              ("sluice_http_claims_refused_total", "claims"),
                              ("sluice_http_paths_relaxed_total", "relaxed"),
                              ("sluice_admin_requests_refused_total", "admin"),
                              ("sluice_body_file_refused_total", "body file")):
            missing = self.reasons[kind] - self.document.values_of(counter)
            self.assertEqual(missing, set(), counter)


if __name__ == "__main__":
    unittest.main()
