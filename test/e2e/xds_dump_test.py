"""The page /config_dump: the resources of a control plane in Envoy's form. Protobuf's own reader takes it, without unknown fields,
and finds the messages that were sent. If the environment variable ENVOY names that program, its page is compared, too."""

import json
import os
import subprocess
import urllib.error
import urllib.request

import harness
import xds_control_plane as xds
from harness import SLOWNESS, wait_until
from origins import free_port
from xds_support import DataPlane, Envoy, XdsTest, cluster, endpoints, get, listener, route_config, secret

if xds.grpc:
    from envoy.admin.v3 import clusters_pb2, config_dump_pb2, config_dump_shared_pb2, listeners_pb2  # noqa: the types of its sections
    from envoy.config.bootstrap.v3 import bootstrap_pb2  # noqa: the same
    from google.protobuf import any_pb2, json_format, struct_pb2  # noqa: the type of the note

REDACTED = "[redacted]"
# Lists of the sections, with the members that lead from an entry to its resource.
LISTS = {"dynamic_active_clusters": ("cluster",), "dynamic_endpoint_configs": ("endpoint_config",),
         "dynamic_listeners": ("active_state", "listener"), "dynamic_route_configs": ("route_config",),
         "dynamic_active_secrets": ("secret",)}


def with_texts(value):
    """Integers as texts: Envoy writes those of 64 bits so."""
    if isinstance(value, dict):
        return {key: with_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_texts(each) for each in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Tolerant(DataPlane):
    """Takes what it has no counterpart of."""

    def arguments(self, cache):
        return [*super().arguments(cache), "--xds-unsupported", "warn"]


class DumpTest(XdsTest):
    DATA_PLANE, DELTA = Tolerant, False

    def resources(self):
        """With fields of all kinds: numbers, wrappers, durations, enumerations, maps, Any, Struct."""
        metadata = {"filter_metadata": {"x": {"number": 1.5, "whole": 3, "text": "true", "yes": True, "none": None,
                                              "list": ["a", -2, {"b": []}], "map": {}}}}
        routes = [
            {"match": {"safe_regex": {"regex": "/a.*"}, "headers": [{"name": "x", "range_match": {"start": "-5", "end": "7"}}]},
             "direct_response": {"status": 201, "body": {"inline_bytes": "AAEC"}}, "name": "\"quoted\" \u00e9"},
            {"match": {"prefix": "/", "runtime_fraction": {"default_value": {"numerator": 10000, "denominator": "TEN_THOUSAND"}}},
             "route": {"weighted_clusters": {"clusters": [{"name": "one", "weight": 3}, {"name": "two", "weight": 1}]},
                       "timeout": "1.250s", "retry_policy": {"retry_on": "5xx", "num_retries": 2, "retriable_status_codes": [503, 504],
                                                             "host_selection_retry_max_attempts": "5"}}},
            {"match": {"prefix": "/"}, "route": {"cluster": "one", "timeout": "0s"}}]
        return [
            listener("web", self.port, rds="all"),
            listener("tls", free_port(), routes=route_config("own", "two"), secret="cert"),
            route_config("all", routes=routes),
            cluster("one", metadata=metadata, circuit_breakers={"thresholds": [{"priority": "HIGH", "max_connections": 17}]},
                    lb_policy="RING_HASH",
                    outlier_detection={"interval": "2.000000001s"}),
            endpoints("one", self.a.address), cluster("two", self.a.address), secret("cert", self.server)]

    def small(self):
        """With a secret, which comes last."""
        return [listener("web", self.port, rds="all"), route_config("all", "one"), cluster("one", self.a.address),
                listener("tls", free_port(), routes=route_config("own", "one"), secret="cert"), secret("cert", self.server)]

    def page(self, program, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{program.admin_port}{path}", timeout=10 * SLOWNESS) as response:
            self.assertEqual(response.headers["content-type"], "application/json")
            return json.loads(response.read())

    def dump(self, program, query="?include_eds"):
        return self.page(program, f"/config_dump{query}")

    def found(self, document):
        """The resources of a document, by type and name."""
        found = {}
        for section in document["configs"]:
            for name, members in LISTS.items():
                for entry in section.get(name, ()):
                    for member in members:
                        entry = entry[member]
                    found[entry["@type"], xds.name_of(entry)] = entry
        return found

    def started(self, resources):
        plane = self.control_plane(*resources)
        program = self.data_plane(plane, delta=self.DELTA)
        self.expect("a", path="/x")
        plane.wait_for_ack(xds.SECRET, "1")
        return plane, program

    def test_resources(self):
        resources = self.resources()
        _, program = self.started(resources)
        document = self.dump(program)
        read = json_format.ParseDict(document, config_dump_pb2.ConfigDump())
        self.assertEqual(len(read.configs), 6)
        found = self.found(document)
        self.assertEqual(len(found), len(resources))
        for sent in resources:
            with self.subTest(xds.name_of(sent), type=sent["@type"]):
                if sent["@type"] == xds.SECRET:
                    sent["tls_certificate"]["private_key"] = {"inline_string": REDACTED}
                shown = found[sent["@type"], xds.name_of(sent)]
                self.assertEqual(json_format.ParseDict(shown, any_pb2.Any()), json_format.ParseDict(sent, any_pb2.Any()))
        self.assertNotIn("PRIVATE KEY", json.dumps(document))
        active = document["configs"][3]["dynamic_listeners"][0]["active_state"]
        self.assertTrue(active["version_info"] if self.DELTA else active["version_info"] == "1")
        self.assertRegex(active["last_updated"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertNotIn("Endpoints", json.dumps(self.dump(program, "")))
        # The same as a file for `sluice convert`.
        path = os.path.join(self.temporary_directory(), "dump.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        converted = subprocess.run([harness.SLUICE, "convert", "--from", "envoy", path], capture_output=True, text=True,
                                   timeout=20 * SLOWNESS, check=False)
        self.assertIn(self.a.address, converted.stdout)

    def test_what_waits(self):
        plane, program = self.started(self.small())
        plane.set([listener("web", self.port, rds="later"), *self.small()[1:], cluster("late")], "2")
        plane.wait_for_request(xds.ENDPOINTS, "late")

        def waits():
            clusters, listeners = (self.dump(program, "")["configs"][i] for i in (1, 2))
            waiting = [each["cluster"]["name"] for each in clusters.get("dynamic_warming_clusters", ())]
            state = next(each for each in listeners["dynamic_listeners"] if each["name"] == "web")
            return waiting == ["late"] and "active_state" in state and "warming_state" in state
        wait_until(waits, 10, "what waits")

    def test_unknown_contents(self):
        """What has no place in the tables of the mapping is left out, and the document says so."""
        odd = json_format.ParseDict(cluster("odd", self.a.address, ring_hash_lb_config={"minimum_ring_size": "64"}), any_pb2.Any())
        odd.value += bytes([0xf2, 0x7f, 1, 0x78])  # Field 2046, of a later version.
        plane = self.control_plane(*self.small(), odd)
        program = self.data_plane(plane, delta=self.DELTA)
        self.expect("a")
        document = self.dump(program)
        json_format.ParseDict(document, config_dump_pb2.ConfigDump())
        note = document["configs"][-1]
        self.assertEqual(note["@type"], xds.PREFIX + "google.protobuf.Struct")
        self.assertEqual(note["value"]["left_out"], [
            "envoy.config.cluster.v3.Cluster.RingHashLbConfig", "envoy.config.cluster.v3.Cluster: field 2046"])

    def test_queries(self):
        _, program = self.started(self.small())
        for path in ("/config_dump?mask=x", "/clusters", "/clusters?format=text", "/listeners", "/listeners?x"):
            with self.subTest(path), self.assertRaises(urllib.error.HTTPError) as refused:
                self.page(program, path)
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()

    def test_bootstrap(self):
        """The file, and what is static in it, without its secrets."""
        class WithStatics(Tolerant):
            def bootstrap(made, *arguments):
                file = super().bootstrap(*arguments)
                file["node"]["metadata"] = {"number": 1.5, "list": ["a", True, None]}
                file["node"]["locality"] = {"region": "here"}
                statics = file["static_resources"]
                statics["clusters"].append(self.static_cluster())
                statics["listeners"] = [listener("fixed", self.fixed, routes=route_config("own", "static"), secret="held")]
                chain = statics["listeners"][0]["filter_chains"][0]["transport_socket"]["typed_config"]
                chain["common_tls_context"]["tls_certificate_sds_secret_configs"] = [{"name": "held"}]
                statics["secrets"] = [{key: value for key, value in secret("held", self.server).items() if key != "@type"}]
                for each in (*statics["listeners"], *statics["clusters"]):
                    each.pop("@type", None)
                return file
        self.fixed = free_port()
        plane = self.control_plane(*self.small())
        program = self.keep(WithStatics(plane.address, delta=self.DELTA))
        self.expect("a")
        plane.wait_for_ack(xds.SECRET, "1")
        document = self.dump(program)
        json_format.ParseDict(document, config_dump_pb2.ConfigDump())
        section = document["configs"][0]
        self.assertEqual(section["@type"], xds.PREFIX + "envoy.admin.v3.BootstrapConfigDump")
        with open(program.path, encoding="utf-8") as file:
            sent = json.load(file)
        held = sent["static_resources"]["secrets"][0]["tls_certificate"]
        for shown in (section["bootstrap"]["static_resources"]["secrets"][0],
                      document["configs"][5]["static_secrets"][0]["secret"]):
            self.assertEqual(shown["tls_certificate"]["private_key"], {"filename": REDACTED})
            held.update(shown["tls_certificate"])  # The certificate is in a file.
        self.assertEqual(json_format.ParseDict(section["bootstrap"], bootstrap_pb2.Bootstrap()),
                         json_format.ParseDict(sent, bootstrap_pb2.Bootstrap()))
        self.assertNotIn("PRIVATE KEY", json.dumps(document))
        clusters = [each["cluster"]["name"] for each in document["configs"][1]["static_clusters"]]
        self.assertEqual(clusters, ["xds_cluster", "static"])
        static = document["configs"][1]["static_clusters"][1]["cluster"]
        self.assertEqual(json_format.ParseDict(static, any_pb2.Any()),
                         json_format.ParseDict({"@type": xds.CLUSTER, **self.static_cluster()}, any_pb2.Any()))
        self.assertEqual(document["configs"][3]["static_listeners"][0]["listener"]["name"], "fixed")

    def static_cluster(self):
        return {key: value for key, value in cluster("static", self.b.address, connect_timeout="1.5s",
                                                     circuit_breakers={"thresholds": [{"max_connections": 3}]}).items()
                if key != "@type"}

    def test_clusters(self):
        spread = endpoints("one", self.a.address, self.b.address)
        spread["endpoints"][0].update({"locality": {"region": "r", "zone": "z"}, "priority": 0})
        plane = self.control_plane(*self.small()[:2], cluster("one"), spread, cluster("empty"), endpoints("empty"))
        program = self.data_plane(plane, delta=self.DELTA)
        wait_until(lambda: (get(self.port, "/x") or [0])[0] == 200, 10, "a response")
        document = self.page(program, "/clusters?format=json")
        read = json_format.ParseDict(document, clusters_pb2.Clusters())
        found = {each.name: each for each in read.cluster_statuses}
        self.assertEqual(set(found), {"one", "empty", "xds_cluster"})
        self.assertTrue(found["one"].added_via_api)
        self.assertFalse(found["xds_cluster"].added_via_api)
        hosts = {f"{host.address.socket_address.address}:{host.address.socket_address.port_value}": host
                 for host in found["one"].host_statuses}
        self.assertEqual(set(hosts), {self.a.address, self.b.address})
        for host in hosts.values():
            self.assertEqual((host.weight, host.locality.region, host.locality.zone), (1, "r", "z"))
            self.assertEqual(host.health_status.eds_health_status, 1)
            self.assertFalse(host.health_status.failed_active_health_check or host.health_status.failed_outlier_check)
        served = {name: sum(stat.value for host in hosts.values() for stat in host.stats if stat.name == name)
                  for name in ("rq_total", "rq_success", "rq_error", "rq_active", "cx_total")}
        self.assertGreaterEqual(served["rq_total"], 1)
        self.assertEqual((served["rq_success"], served["rq_error"], served["rq_active"]), (served["rq_total"], 0, 0))
        self.assertGreaterEqual(served["cx_total"], 1)
        self.assertEqual(list(found["empty"].host_statuses), [])

    def test_listeners(self):
        _, program = self.started(self.small())
        read = json_format.ParseDict(self.page(program, "/listeners?format=json"), listeners_pb2.Listeners())
        found = {each.name: each.local_address.socket_address for each in read.listener_statuses}
        self.assertEqual(set(found), {"web", "tls"})
        self.assertEqual((found["web"].address, found["web"].port_value), ("127.0.0.1", self.port))

    def test_like_envoy(self):
        """The same resources are the same text."""
        if not os.environ.get("ENVOY"):
            self.skipTest("no Envoy: the environment names none in ENVOY")
        resources = self.resources()
        _, program = self.started(resources)
        ours = self.found(self.dump(program))
        program.close()
        plane = self.control_plane(*resources)
        envoy = self.keep(Envoy(plane.address, delta=self.DELTA))
        plane.wait_for_ack(xds.SECRET, "1")
        wait_until(lambda: len(self.found(self.dump(envoy))) >= len(ours), 10, "all resources")
        for key, theirs in self.found(self.dump(envoy)).items():
            if key[0] == xds.ENDPOINTS:
                continue  # Envoy shows what became of them.
            with self.subTest(key):
                self.assertEqual(with_texts(ours[key]), with_texts(theirs))


class Incremental(DumpTest):
    DELTA = True


if __name__ == "__main__":
    harness.main()
