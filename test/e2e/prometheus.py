"""A real Prometheus for tests, and the files for operators that it is tested with."""

import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import harness
from origins import free_port

ALERTS = harness.ROOT / "packaging/prometheus/sluice-alerts.yaml"
DASHBOARD = harness.ROOT / "packaging/grafana/sluice-dashboard.json"
SCRAPE_INTERVAL = "200ms"


def in_seconds(rules):
    """The rules with windows of seconds, and without the time for which a condition has to hold: the same conditions, for a
    test that does not wait for minutes."""
    windows = {"2m": "2s", "5m": "3s", "15m": "4s"}
    rules = re.sub(r"\[(\w+)\]", lambda found: f"[{windows[found[1]]}]", rules)
    return re.sub(r"(?m)^ +for: \w+\n", "", rules)


class Prometheus:
    """Scrapes `targets`, addresses of admin listeners, five times a second, and evaluates the text `rules` as often."""

    def __init__(self, targets, rules="", metrics_path="/metrics"):
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-prometheus-")
        folder, port = self._folder.name, free_port()
        self._url = f"http://127.0.0.1:{port}"
        with open(folder + "/rules.yaml", "w", encoding="utf-8") as file:
            file.write(rules)
        with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
            json.dump({
                "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL,
                           "evaluation_interval": SCRAPE_INTERVAL},
                "rule_files": [folder + "/rules.yaml"] if rules else [],
                "scrape_configs": [{"job_name": "sluice", "metrics_path": metrics_path, "static_configs": [{"targets": list(targets)}]}]}, file)
        self._log = open(folder + "/log", "w+", encoding="utf-8")
        self._process = harness.spawn(
            [harness.need("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=self._log)
        try:
            harness.wait_until(self._is_ready, 30, "Prometheus")
        except BaseException:
            self.close()
            raise

    def _is_ready(self):
        if self._process.poll() is not None:
            self._log.seek(0)
            raise AssertionError("prometheus has ended:\n" + self._log.read())
        try:
            with urllib.request.urlopen(self._url + "/-/ready", timeout=10):
                # The first targets are known some seconds later.
                return bool(self.query("count(up)"))
        except OSError:
            return False

    def query(self, expression):
        """The series of an instant query: (labels, value) of each. AssertionError: what Prometheus says against it."""
        url = f"{self._url}/api/v1/query?query={urllib.parse.quote(expression)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                result = json.load(response)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return [(each["metric"], float(each["value"][1])) for each in result]

    def fired(self, instance):
        """The alerts of a target that have fired up to now."""
        return {labels["alertname"] for labels, _ in
                self.query(f'max_over_time(ALERTS{{alertstate="firing",instance="{instance}"}}[1h])')}

    def close(self):
        harness.end(self._process)
        self._log.close()
        self._folder.cleanup()
