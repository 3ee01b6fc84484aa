"""The alerts, the dashboard, the table of incidents in docs/operating/troubleshooting.md and the tests of these incidents name
the same things, and only metrics, values of labels and places in the documents that exist."""

import json
import pathlib
import re
import unittest

import counters_test
import links_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALERTS = "packaging/prometheus/sluice-alerts.yaml"
DASHBOARD = "packaging/grafana/sluice-dashboard.json"
# Of the process; every program with metrics has them. `up` is Prometheus' own.
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_start_time_seconds", "process_open_fds",
           "process_max_fds"}


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def alerts():
    """The text of each alert, by its name."""
    parts = re.split(r"\n +- alert: (\w+)\n", source(ALERTS))
    return dict(zip(parts[1::2], parts[2::2]))


def incidents():
    """The cells of each row of the table, by its first one."""
    section = re.split(r"\n## ", source("docs/operating/troubleshooting.md").split("\n## Incidents\n", 1)[1], maxsplit=1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line.startswith("| ")]
    return {name: rest for name, *rest in rows[1:]}


def selectors(text):
    """(metric, label, operator, value) of each matcher, and (metric, None, None, None) of each metric without one."""
    for metric, matchers in re.findall(r"\b((?:sluice|process)_\w+)(?:\{([^}]*)\})?", text):
        found = re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers)
        yield from [(metric, *each) for each in found] or [(metric, None, None, None)]


class MonitoringTest(unittest.TestCase):

    def setUp(self):
        self.known = {f"sluice_{name}" for name in counters_test.counters_of_code()} | PROCESS
        reasons = counters_test.reasons_of_code()
        by_label = counters_test.Document()
        self.values = {
            ("sluice_http_requests_ended_total", "reason"): reasons["requests"],
            ("sluice_sessions_ended_total", "reason"): reasons["sessions"],
            ("sluice_refused_total", "limit"): reasons["refused"],
            ("sluice_overload_actions_total", "action"): reasons["overload"],
            ("sluice_endpoint_connect_errors_total", "kind"): reasons["connect errors"],
            ("sluice_body_file_refused_total", "reason"): by_label.values_of("sluice_body_file_refused_total"),
            ("sluice_http_responses_total", "class"): {f"{digit}xx" for digit in range(1, 6)},
        }

    def check(self, text):
        for metric, label, operator, value in selectors(text):
            self.assertIn(metric, self.known)
            if label in (None, "job", "instance") or value == "" or label == "upstream":
                continue
            for each in value.split("|") if "~" in operator else [value]:
                self.assertIn(each, self.values[metric, label], f"{metric}, {label}")

    def test_alerts(self):
        """Each has a severity, a summary, and a description that names a metric of its expression and a place in the documents."""
        self.assertGreater(len(alerts()), 10)
        for name, text in alerts().items():
            with self.subTest(name):
                self.check(text)
                self.assertRegex(text, r"severity: (critical|warning) ")
                self.assertRegex(text, r'summary: "[A-Z{0-9]')
                expression, description = text.split("expr: ", 1)[1].split("labels: ")[0], text.split("description: >-\n")[1]
                metrics = set(re.findall(r"\b(?:sluice|process)_\w+|\bup\b", expression))
                self.assertTrue(any(re.search(rf"\b{each}\b", description) for each in metrics))
                path, _, anchor = re.search(r"(docs/[\w/.-]+\.md)(#[\w-]+)?", description).group(0).partition("#")
                if anchor:
                    self.assertIn(anchor, links_test.anchors(source(path)))
                self.assertTrue((ROOT / path).is_file())

    def test_dashboard(self):
        board = json.loads(source(DASHBOARD))
        self.assertGreater(len(board["panels"]), 20)
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                with self.subTest(panel["title"]):
                    self.assertEqual(target["datasource"]["uid"], "${datasource}")
                    self.check(target["expr"])

    def test_incidents(self):
        """Each row has a test, each test a row; what the rows name exists; each alert is in the list of alerts."""
        rows = incidents()
        self.assertGreaterEqual(len(rows), 10)
        tests = re.findall(r'self\.incident\("([^"]+)"', source("test/e2e/incidents_test.py"))
        self.assertEqual(sorted(tests), sorted(rows))
        for name, (log, metric, alert, advice) in rows.items():
            with self.subTest(name):
                self.assertRegex(log, "^(access log: )?`[^`]+`$")
                self.check(metric)
                self.assertRegex(metric, "^`sluice_[^`]+`$")
                self.assertTrue(alert == "none" or alert.strip("`") in alerts(), alert)
                self.assertTrue(advice)

    def test_list_of_alerts(self):
        """docs/operating/monitoring.md has a row for each alert, with its severity, and no other."""
        rows = re.findall(r"^\| `(Sluice\w+)` \| (\w+) \|", source("docs/operating/monitoring.md"), re.M)
        self.assertEqual(sorted(rows), sorted((name, re.search(r"severity: (\w+)", text)[1]) for name, text in alerts().items()))


if __name__ == "__main__":
    unittest.main()
