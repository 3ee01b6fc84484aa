"""/stats/prometheus: the counters under Envoy's names. Traffic is made, and each number is compared with it."""

import re
import subprocess
import time
import urllib.request

import harness
import xds_control_plane as xds
from admin_test import AdminTest
from harness import SLOWNESS, wait_until
from origins import Origin, connect, echo, free_port, ping, refused_address
from prometheus import Prometheus
from reload_test import UPGRADE, Http1, listener, read_head, server, upstream, websocket
from xds_support import MANAGER, ROUTER, DataPlane, XdsTest, cluster, endpoints, route_config, socket_address
from xds_support import listener as xds_listener

ON = {"envoy_stats": True}
DELAY = 0.3
# Queries of dashboards that were made for Envoy: of Envoy Gateway, and others that are usual.
QUERIES = [
    "sum(envoy_server_live)", "avg(envoy_server_uptime)", "sum(envoy_server_memory_allocated)",
    "sum(envoy_server_memory_heap_size)", "sum(rate(envoy_http_downstream_rq_total[5s]))",
    "sum(rate(envoy_http_downstream_cx_total[5s]))", "sum(envoy_listener_downstream_cx_active)",
    "histogram_quantile(0.9, sum by(le) (rate(envoy_http_downstream_rq_time_bucket[5s])))",
    "histogram_quantile(0.99, sum by(le, envoy_cluster_name) (rate(envoy_cluster_upstream_rq_time_bucket[5s])))",
    'sum(rate(envoy_cluster_upstream_rq_xx{envoy_response_code_class=~"2"}[5s])) by (envoy_cluster_name)',
    'sum(rate(envoy_cluster_upstream_rq_xx{envoy_response_code_class="5"}[5s])) / sum(rate(envoy_cluster_upstream_rq_total[5s]))',
    "sum(envoy_cluster_upstream_cx_active) by (envoy_cluster_name)", "sum(rate(envoy_cluster_upstream_cx_total[5s]))",
    "sum(rate(envoy_cluster_upstream_cx_rx_bytes_total[5s]))", "sum(rate(envoy_cluster_upstream_cx_tx_bytes_total[5s]))",
    "sum(envoy_cluster_membership_total) - sum(envoy_cluster_membership_healthy)",
    "sum(envoy_cluster_upstream_rq_active)", "sum(rate(envoy_cluster_upstream_rq_retry[5s]))",
    "sum(rate(envoy_cluster_upstream_rq_pending_overflow[5s]))", "sum(rate(envoy_cluster_upstream_cx_connect_fail[5s]))",
    'sum(rate(envoy_http_downstream_cx_rx_bytes_total{envoy_http_conn_manager_prefix=~"ma.*"}[5s]))',
    "envoy_cluster_manager_active_clusters", "envoy_listener_manager_total_listeners_active",
    "envoy_server_total_connections", "avg by(envoy_cluster_name) (envoy_cluster_outlier_detection_ejections_active)"]


def by_path(sock):
    """A server that responds with the status in the path, after DELAY if there is `slow` in it, and with a websocket."""
    while head := read_head(sock):
        if b"upgrade: websocket" in head.lower():
            return websocket(sock, head)
        status = re.search(rb"/(\d{3})", head)
        if b"slow" in head:
            time.sleep(DELAY)
        sock.sendall(b"HTTP/1.1 %s x\r\ncontent-length: 2\r\n\r\nok" % (status[1] if status else b"200"))
    return None


def series_of(text):
    return {name: float(value) for name, value in re.findall(r"^(envoy_\S+) (\S+)$", text, re.M)}


class Values:
    """The series of one page by name, with the label of one cluster or listener."""

    def __init__(self, text, scope, label):
        self._series, self._scope, self._label = series_of(text), scope, label

    def __getitem__(self, name):
        return self._series[f"envoy_{self._scope}_{name}{{{self._label}}}"]

    def of_class(self, name, digit):
        return self._series[f'envoy_{self._scope}_{name}{{envoy_response_code_class="{digit}",{self._label}}}']

    def bucket(self, name, le):
        return self._series[f'envoy_{self._scope}_{name}_bucket{{{self._label},le="{le}"}}']


class StatsTest(AdminTest):

    def values(self, proxy, scope, name):
        label = {"cluster": "envoy_cluster_name", "http": "envoy_http_conn_manager_prefix", "tcp": "envoy_tcp_prefix",
                 "listener": "envoy_listener_address"}[scope]
        return Values(self.get(proxy, "/stats/prometheus"), scope, f'{label}="{name}"')

    def expect(self, proxy, scope, name, **expected):
        def found():
            values = self.values(proxy, scope, name)
            return {key: values[key] for key in expected}
        try:
            wait_until(lambda: found() == expected, 10, "the values")
        except AssertionError:
            self.assertEqual(found(), expected)


class Traffic(StatsTest):

    def test_requests(self):
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(
            listener("main", http={"routes": [{"match": {"path": {"exact": "/own"}}, "respond": {"status": 404}},
                                              {"match": {"path": {"prefix": "/dead"}}, "forward": "dead"},
                                              {"forward": "app"}]}),
            admin=ON, workers=1, upstreams=[upstream("app", origin), upstream("dead", refused_address())])
        client = self.keep(Http1(proxy))
        for path in ("/", "/301", "/404", "/503", "/503"):
            client.get(path)
        client.get("/own")
        client.get("/dead")
        begun = time.monotonic()
        client.get("/slow")
        most_ms = (time.monotonic() - begun) * 1000
        self.expect(proxy, "cluster", "app", upstream_rq_total=6, upstream_rq_completed=6, upstream_rq_active=0,
                    upstream_cx_total=1, upstream_cx_active=1, upstream_cx_connect_fail=0, upstream_rq_pending_total=1,
                    upstream_rq_pending_active=0, membership_total=1, membership_healthy=1, upstream_rq_time_count=6)
        app, http = self.values(proxy, "cluster", "app"), self.values(proxy, "http", "main")
        self.assertEqual([app.of_class("upstream_rq_xx", digit) for digit in range(1, 6)], [0, 2, 1, 1, 2])
        self.assertEqual(app.bucket("upstream_rq_time", "250"), 5)
        self.assertEqual(app.bucket("upstream_rq_time", "60000"), 6)
        self.assertGreaterEqual(app["upstream_rq_time_sum"], DELAY * 1000 - 2)
        self.assertLessEqual(app["upstream_rq_time_sum"], most_ms + 5 * 50 * SLOWNESS)
        received = sum(len(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\n\r\nok") for _ in range(6))
        self.assertEqual(app["upstream_cx_rx_bytes_total"], received)
        self.assertEqual(app["upstream_cx_tx_bytes_total"],
                         self.value(proxy, f'sluice_endpoint_sent_bytes_total{{upstream="app",endpoint="{origin.address}"}}'))
        self.assertEqual([http[name] for name in ("downstream_rq_total", "downstream_rq_completed", "downstream_cx_total",
                                                  "downstream_cx_active", "downstream_cx_http1_total", "downstream_rq_active",
                                                  "downstream_rq_time_count")], [8, 8, 1, 1, 1, 0, 8])
        self.assertEqual([http.of_class("downstream_rq_xx", digit) for digit in range(1, 6)], [0, 2, 1, 2, 3])
        self.assertEqual(http["downstream_cx_rx_bytes_total"], self.value(proxy, 'sluice_received_bytes_total{listener="main"}'))
        # The one endpoint was tried once: that is no retry.
        self.expect(proxy, "cluster", "dead", upstream_cx_total=1, upstream_cx_connect_fail=1, upstream_cx_active=0,
                    upstream_rq_total=0, upstream_rq_completed=1, upstream_rq_retry=0)
        self.assertEqual(self.values(proxy, "cluster", "dead").of_class("upstream_rq_xx", 5), 1)
        address = "127.0.0.1_0"  # As it is configured.
        self.expect(proxy, "listener", address, downstream_cx_total=1, downstream_cx_active=1)
        client.close()
        self.expect(proxy, "listener", address, downstream_cx_total=1, downstream_cx_active=0, downstream_cx_destroy=1)

    def test_retries_and_timeouts(self):
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(
            listener("main", http={"routes": [
                {"match": {"path": {"prefix": "/503"}}, "forward": "app", "retry": {"on": ["5xx"], "attempts": 3}},
                {"match": {"path": {"prefix": "/slow"}}, "forward": "app", "response_timeout": "100ms"},
                {"forward": "half"}]}),
            admin=ON, workers=1,
            upstreams=[upstream("app", origin), upstream("half", refused_address(), origin, balance="round_robin")])
        client = self.keep(Http1(proxy))
        client.get("/503")
        app = self.values(proxy, "cluster", "app")
        # Only the last response went to the client, so that only it is one of the cluster's.
        self.assertEqual(app["upstream_rq_total"] - app["upstream_rq_retry"], 1)
        self.assertGreaterEqual(app["upstream_rq_retry"], 1)
        self.assertEqual((app["upstream_rq_completed"], app.of_class("upstream_rq_xx", 5)), (1, 1))
        client.get("/slow")
        self.expect(proxy, "cluster", "app", upstream_rq_timeout=1, upstream_rq_completed=2)
        self.assertEqual(self.values(proxy, "cluster", "app").of_class("upstream_rq_xx", 5), 2)
        client.get("/")
        client.get("/")
        half = self.values(proxy, "cluster", "half")
        self.assertEqual((half["upstream_rq_retry"], half["upstream_cx_connect_fail"]), (1, 1))
        self.assertEqual((half["upstream_rq_total"], half.of_class("upstream_rq_xx", 2)), (2, 2))

    def test_websocket(self):
        """A websocket is an active request, and a connection to the endpoint, also when it has been quiet for long."""
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(listener("main", http={"forward": "app", "websocket": True}), admin=ON, workers=1,
                                   upstreams=[upstream("app", origin)])
        client = self.keep(connect(proxy.address("main")))
        client.sendall(UPGRADE)
        read_head(client)
        self.assertTrue(ping(client))
        self.expect(proxy, "cluster", "app", upstream_rq_active=1, upstream_cx_active=1, upstream_rq_total=1)
        self.assertEqual(self.values(proxy, "cluster", "app").of_class("upstream_rq_xx", 1), 1)
        time.sleep(3)  # It settles.
        self.assertTrue(ping(client))
        self.expect(proxy, "cluster", "app", upstream_rq_active=1, upstream_cx_active=1)
        client.close()
        self.expect(proxy, "cluster", "app", upstream_rq_active=0, upstream_cx_active=0, upstream_cx_total=1)

    def test_upgrade(self):
        """What moves to another process is active there, though it was not begun there."""
        web, raw = self.keep(Origin(by_path)), self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("main", http={"forward": "app", "websocket": True}), listener("raw", tcp={"forward": "tcp"}),
                                   admin=ON, workers=1, upstreams=[upstream("app", web), upstream("tcp", raw)])
        client, other = self.keep(connect(proxy.address("main"))), self.keep(connect(proxy.address("raw")))
        client.sendall(UPGRADE)
        read_head(client)
        self.assertTrue(ping(client) and ping(other))
        proxy.upgrade()
        self.assertTrue(ping(client) and ping(other))
        self.expect(proxy, "cluster", "app", upstream_rq_active=1, upstream_cx_active=1, upstream_cx_total=0)
        self.expect(proxy, "cluster", "tcp", upstream_rq_active=0, upstream_cx_active=1, upstream_cx_total=0)
        client.close()
        other.close()
        for name in ("app", "tcp"):
            self.expect(proxy, "cluster", name, upstream_rq_active=0, upstream_cx_active=0)

    def test_tcp(self):
        origin = self.keep(Origin(echo))
        proxy, _ = self.start_with(listener("raw", tcp={"forward": "app"}), admin=ON, upstreams=[upstream("app", origin)])
        clients = [self.keep(connect(proxy.address("raw"))) for _ in range(3)]
        for client in clients:
            self.assertTrue(ping(client))
        self.expect(proxy, "cluster", "app", upstream_cx_total=3, upstream_cx_active=3, upstream_cx_rx_bytes_total=12,
                    upstream_cx_tx_bytes_total=12, upstream_rq_total=0, upstream_cx_connect_ms_count=3)
        self.expect(proxy, "tcp", "raw", downstream_cx_total=3, downstream_cx_rx_bytes_total=12, downstream_cx_tx_bytes_total=12)
        for client in clients[:2]:
            client.close()
        self.expect(proxy, "cluster", "app", upstream_cx_total=3, upstream_cx_active=1)

    def test_reload(self):
        """The counters of a cluster do not fall when an endpoint goes: Prometheus would take the rest for new traffic."""
        first, second = self.keep(Origin(server("first"))), self.keep(Origin(echo))
        main = listener("main", http={"forward": "app"})
        proxy, config = self.start_with(main, listener("raw", tcp={"forward": "tcp"}), admin=ON, workers=1,
                                        upstreams=[upstream("app", first), upstream("tcp", second)])
        client, raw = self.keep(Http1(proxy)), self.keep(connect(proxy.address("raw")))
        for _ in range(5):
            client.get("/")
        self.assertTrue(ping(raw))
        before = self.values(proxy, "cluster", "app")
        other = self.keep(Origin(server("other")))
        proxy.reload({**config, "upstreams": [upstream("app", other), upstream("tcp", other)]})
        wait_until(lambda: client.get("/") == "other", what="the other endpoint")
        after = self.values(proxy, "cluster", "app")
        for name in ("upstream_rq_total", "upstream_cx_total", "upstream_cx_rx_bytes_total", "upstream_rq_time_count"):
            self.assertGreater(after[name], before[name], name)
        self.assertTrue(ping(raw))
        self.expect(proxy, "cluster", "tcp", upstream_cx_total=1, upstream_cx_active=1, upstream_cx_rx_bytes_total=8)
        raw.close()
        self.expect(proxy, "cluster", "tcp", upstream_cx_total=1, upstream_cx_active=0, upstream_cx_rx_bytes_total=8)


class Page(StatsTest):

    def test_off_by_default(self):
        proxy, _ = self.start_with()
        self.assertIn("admin.envoy_stats", self.get(proxy, "/stats/prometheus", status=404))

    def test_queries(self):
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), admin=ON, upstreams=[upstream("app", origin)])
        self.keep(Http1(proxy)).get("/")
        used = series_of(self.get(proxy, "/stats/prometheus?usedonly"))
        self.assertEqual([name for name, value in used.items() if value == 0 and "_ms_" not in name and "_time_" not in name], [])
        self.assertLess(len(used), len(series_of(self.get(proxy, "/stats/prometheus"))))
        self.assertIn('envoy_cluster_upstream_rq_total{envoy_cluster_name="app"}', used)
        self.get(proxy, "/stats/prometheus?format=html", status=400)
        self.get(proxy, "/stats/prometheus", "-X", "POST", status=405)

    def test_promtool(self):
        """The format is right. Envoy's names break rules of Prometheus: counters do not end with _total."""
        promtool = harness.need("promtool")
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), listener("raw", tcp={"forward": "app"}), admin=ON,
                                   upstreams=[upstream("app", origin, ejection={}, health_check={"http": {"path": "/"}})])
        self.keep(Http1(proxy)).get("/")
        status, fields, text = self.curl(self.address_of(proxy), "/stats/prometheus", "-H", "Accept: application/openmetrics-text")
        self.assertEqual((status, fields["content-type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 3), done)  # 3: rules for names.
        for line in (done.stdout + done.stderr).splitlines():
            self.assertRegex(line, r'^envoy_\w+ (counter metrics should have "_total" suffix|non-counter metrics should not have '
                                   r'"_total" suffix|metric names should not contain abbreviated units)$')

    def test_dashboards(self):
        """A real Prometheus evaluates queries of dashboards that were made for Envoy."""
        origin = self.keep(Origin(by_path))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), admin=ON,
                                   upstreams=[upstream("app", origin, ejection={})])
        scraper = self.keep(Prometheus([self.address_of(proxy)], metrics_path="/stats/prometheus"))
        client = self.keep(Http1(proxy))

        def without():
            for path in ("/", "/503"):
                client.get(path)
            return [query for query in QUERIES if not [value for _, value in scraper.query(query) if value == value]]
        wait_until(lambda: not without(), 30, "all queries to have values")


def stats_listener(port, admin_port):
    """What a bootstrap file of Envoy Gateway's has for Prometheus: a listener that passes requests on to the admin page."""
    manager = {"@type": MANAGER, "stat_prefix": "eg-stats-http", "normalize_path": True,
               "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}],
               "route_config": {"name": "local_route", "virtual_hosts": [{"name": "prometheus_stats", "domains": ["*"], "routes": [
                   {"match": {"path": "/stats/prometheus",
                              "headers": [{"name": ":method", "string_match": {"exact": "GET"}}]},
                    "route": {"cluster": "prometheus_stats"}}]}]}}
    return ({"name": "stats", "address": socket_address(f"127.0.0.1:{port}"), "bypass_overload_manager": True,
             "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]},
            {key: value for key, value in cluster("prometheus_stats", f"127.0.0.1:{admin_port}").items() if key != "@type"})


class WithStats(DataPlane):

    def bootstrap(self, *arguments):
        made = super().bootstrap(*arguments)
        self.stats_port = free_port()
        static_listener, static_cluster = stats_listener(self.stats_port, self.admin_port)
        made["static_resources"]["listeners"] = [static_listener]
        made["static_resources"]["clusters"].append(static_cluster)
        return made


class ControlPlane(XdsTest):
    DATA_PLANE = WithStats
    CLUSTER = "httproute/default/backend/rule/0"

    def page(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats/prometheus", timeout=10 * SLOWNESS) as response:
            return response.read().decode()

    def test_names(self):
        """The names are those of the control plane, and the page is on, also behind the listener for Prometheus that Envoy
        Gateway's bootstrap file has."""
        plane = self.control_plane(xds_listener("http-80", self.port, routes=route_config("all", self.CLUSTER)),
                                   cluster(self.CLUSTER), endpoints(self.CLUSTER, self.a.address, self.b.address))
        program = self.data_plane(plane)
        self.expect("a")
        text = self.page(program.stats_port)
        app = Values(text, "cluster", f'envoy_cluster_name="{self.CLUSTER}"')
        self.assertEqual(app["membership_total"], 2)
        self.assertGreaterEqual(app["upstream_rq_total"], 1)
        self.assertGreaterEqual(Values(text, "http", 'envoy_http_conn_manager_prefix="http-80"')["downstream_rq_total"], 1)
        self.assertGreaterEqual(
            Values(text, "listener", f'envoy_listener_address="127.0.0.1_{self.port}"')["downstream_cx_total"], 1)
        self.assertEqual(Values(text, "http", 'envoy_http_conn_manager_prefix="eg-stats-http"')["downstream_rq_active"], 1)
        process = {name: value for name, value in series_of(text).items() if name.endswith("{}")}
        self.assertEqual(process["envoy_control_plane_connected_state{}"], 1)
        self.assertEqual(process["envoy_cluster_manager_active_clusters{}"], 3)
        self.assertEqual(process["envoy_listener_manager_total_listeners_active{}"], 2)
        self.assertGreaterEqual(process["envoy_cluster_manager_cds_update_success{}"], 1)
        self.assertEqual(process["envoy_cluster_manager_cds_update_rejected{}"], 0)
        self.assertEqual(process["envoy_cluster_manager_warming_clusters{}"], 0)
        # An endpoint goes.
        plane.set([xds_listener("http-80", self.port, routes=route_config("all", self.CLUSTER)), cluster(self.CLUSTER),
                   endpoints(self.CLUSTER, self.b.address)], "2")

        def members():
            return Values(self.page(program.admin_port), "cluster", f'envoy_cluster_name="{self.CLUSTER}"')
        wait_until(lambda: members()["membership_total"] == 1, what="one member")
        self.assertGreaterEqual(members()["upstream_rq_total"], app["upstream_rq_total"])
        self.assertGreaterEqual(members()["upstream_cx_rx_bytes_total"], app["upstream_cx_rx_bytes_total"])


if __name__ == "__main__":
    harness.main()
