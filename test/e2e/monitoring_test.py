"""The files for operators: packaging/prometheus/sluice-alerts.yaml and packaging/grafana/sluice-dashboard.json. promtool checks the
rules, and each expression of both is evaluated by a real Prometheus that scrapes a proxy in which everything has happened."""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess

import harness
from harness import wait_until
from name_server import NameServer
from origins import Origin, connect, discard, echo, free_port, outcome_of_connecting, refused_address
from prometheus import ALERTS, DASHBOARD, Prometheus, in_seconds
from reload_test import Http1, listener, respond, server, upstream
from tls_support import TlsTest

CASES = pathlib.Path(__file__).parent / "monitoring.d/alert_cases.yaml"


def expressions_of_alerts():
    """By the name of the alert."""
    text = ALERTS.read_text(encoding="utf-8")
    found = re.findall(r"- alert: (\w+)\n +expr: (?:>-\n)?(.+?)\n +(?:for|labels):", text, re.S)
    return {name: " ".join(expression.split()) for name, expression in found}


def expressions_of_dashboard():
    """By the title of the panel, and a number."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = {f"{panel['title']}, {target['refId']}": target["expr"]
             for panel in board["panels"] for target in panel.get("targets", [])}
    return {**found, **{each["name"]: each["expr"] for each in board["annotations"]["list"]}}


def as_grafana_would(expression):
    """The expression with the values that Grafana gives to variables."""
    return (expression.replace("$__rate_interval", "5s").replace("$job", "sluice").replace("$instance", ".+"))


class Files(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        self.promtool = harness.need("promtool")

    def run_promtool(self, *arguments, folder=None):
        done = subprocess.run([self.promtool, *arguments], capture_output=True, text=True, check=False, cwd=folder, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_rules_are_valid(self):
        self.assertIn(f"{len(expressions_of_alerts())} rules found", self.run_promtool("check", "rules", str(ALERTS)))

    def test_rules_with_windows_of_seconds_are_valid(self):
        path = pathlib.Path(self.temporary_directory()) / "rules.yaml"
        path.write_text(in_seconds(ALERTS.read_text(encoding="utf-8")), encoding="utf-8")
        self.assertIn(f"{len(expressions_of_alerts())} rules found", self.run_promtool("check", "rules", str(path)))
        self.assertNotRegex(path.read_text(encoding="utf-8"), r"\[\d+m\]|for: ")

    def test_alerts_fire_when_they_should(self):
        folder = self.temporary_directory()
        for file in (ALERTS, CASES):
            shutil.copy(file, folder)
        self.run_promtool("test", "rules", CASES.name, folder=folder)
        fires = set(re.findall(r'alertname="(\w+)"', CASES.read_text(encoding="utf-8")))
        self.assertEqual(fires, set(expressions_of_alerts()), "each has a case in which it fires")


class Expressions(TlsTest):
    """A proxy that has counted everything that the expressions look at, scraped by Prometheus."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        harness.need("prometheus")
        cls.admin = f"127.0.0.1:{free_port()}"

    def setUp(self):
        super().setUp()
        self.log = self.temporary_directory() + "/access.log"
        names = self.keep(NameServer())
        good, plain = self.keep(Origin(server("good"))), self.keep(Origin(echo))
        retries = {"retry": {"on": ["connect_failure"], "hedge_after": "1s"}}
        self.proxy = self.start({
            "workers": 2, "shutdown_timeout": "3s", "admin": {"address": self.admin},
            "body_file": {"directory": self.temporary_directory()},
            "listeners": [
                listener("main", http={"access_log": self.log, "routes": [
                    {"match": {"path": {"prefix": f"/{name}"}}, "forward": name, "buffer": {"responses": "1MiB"},
                     **(retries if name == "app" else {})}
                    for name in ("app", "dead", "garbage", "secure", "silent", "named", "h2")]}),
                listener("tcp", tcp={"forward": "plain"}, max_connections=1),
                listener("tls", http=respond("hello"), tls={"certificates": [self.server]})],
            "upstreams": [
                upstream("app", good, refused_address(), health_check={"http": {"path": "/"}, "interval": "100ms"}, ejection={}),
                upstream("dead", refused_address()),
                upstream("garbage", self.keep(Origin(lambda sock: sock.recv(1000) and sock.sendall(b"garbage\r\n\r\n")))),
                upstream("h2", good, protocol="http2"),
                upstream("secure", good, tls={"ca": self.ca, "server_name": "localhost"}),
                upstream("silent", self.keep(Origin(discard)), response_timeout="100ms"),
                upstream("named", f"app.test:{free_port()}", resolve={"servers": [names.address]}),
                upstream("plain", plain)]})
        self.prometheus = Prometheus([self.admin], in_seconds(ALERTS.read_text(encoding="utf-8")))
        self.addCleanup(self.prometheus.close)
        # Series of reasons exist once they have been counted.
        for path in ("/app", "/app", "/dead", "/garbage", "/h2", "/secure", "/silent", "/named", "/none"):
            with contextlib.closing(Http1(self.proxy)) as client:
                client.get(path)
        held = self.keep(connect(self.proxy.address("tcp")))
        held.sendall(b"x")
        self.assertEqual(held.recv(1), b"x")
        outcome_of_connecting(self.proxy.address("tcp"))
        with self.secure(self.proxy.address("tls")) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            while client.recv(1000):
                pass
        # Two scrapes of everything, for rates.
        wait_until(lambda: any(value >= 2 for _, value in self.prometheus.query(
            'count_over_time(sluice_refused_total{listener="tcp",limit="listener"}[1m])')), 20, "scrapes")
        wait_until(lambda: self.prometheus.query("sluice_endpoint_health_checks_failed_total > 0"), 20, "a check")

    def test_expressions(self):
        for name, expression in expressions_of_dashboard().items():
            with self.subTest(name):
                # The annotation has data when there was a reload.
                found = self.prometheus.query(re.sub(r" > 0$", " >= 0", as_grafana_would(expression)))
                self.assertNotEqual(found, [], expression)
        for name, expression in expressions_of_alerts().items():
            self.check_alert(name, expression)

    def check_alert(self, name, expression):
        """Each metric of it is scraped, with each label that the expression names. (That values of labels exist is checked with
        docs/reference/counters.md: test/tree/monitoring_test.py.)"""
        by = set(re.findall(r"\w+", " ".join(re.findall(r"sum by \(([^)]*)\)", expression)))) - {"job", "instance"}
        carried = set()
        for metric, matchers in re.findall(r"\b(sluice_\w+|process_\w+|up)\b(?:\{([^}]*)\})?", expression):
            labels = re.findall(r"(\w+)=", matchers)
            found = self.prometheus.query(metric + "{" + ",".join(f'{label}!=""' for label in labels) + "}")
            with self.subTest(name, metric=metric):
                self.assertNotEqual(found, [], metric)
                carried |= {label for series, _ in found for label in series}
        with self.subTest(name):
            self.assertEqual(by - carried, set(), "labels that no series has")
            self.prometheus.query(expression)


if __name__ == "__main__":
    harness.main()
