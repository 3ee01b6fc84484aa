"""Health discovery (HDS): the endpoints that a server by grpcio names are checked, and reported to it. With SLUICE_E2E_LONG=1, and
Envoy if the environment variable ENVOY names it, also with that program in the place of Sluice."""

import os
import queue
import re
import socket
import ssl
import threading
import time
import unittest
import urllib.request

import harness
import xds_control_plane as xds
from harness import LONG, SLOWNESS, wait_until
from origins import Origin, free_port
from xds_support import CLIENT_TLS, DataPlane, Envoy, StreamService, XdsTest, bootstrap, cluster, listener, route_config, socket_address

if xds.grpc:
    import grpc
    from envoy.service.health.v3 import hds_pb2
    from google.protobuf import json_format

SERVICE = "envoy.service.health.v3.HealthDiscoveryService"
STATUS = {0: "UNKNOWN", 1: "HEALTHY", 2: "UNHEALTHY", 3: "DRAINING", 4: "TIMEOUT"}


def text_of(endpoint):
    address = endpoint.address
    if address.HasField("pipe"):
        return address.pipe.path
    return f"{address.socket_address.address}:{address.socket_address.port_value}"


def http_check(path="/", **more):
    """Quick ones: an endpoint is healthy after one success, and unhealthy after two failures."""
    interval = f"{0.2 * SLOWNESS:.1f}s"  # Of Envoy, no_traffic_interval counts: it never sends requests to these endpoints.
    return {"timeout": f"{0.5 * SLOWNESS:.1f}s", "interval": interval, "no_traffic_interval": interval, "unhealthy_threshold": 2,
            "healthy_threshold": 1, "http_health_check": {"host": "checks.test", "path": path}, **more}


def tcp_check(**more):
    check = http_check(**more)
    del check["http_health_check"]
    return {"tcp_health_check": {}, **check}


def checked(name, *addresses, checks=None, zone="a", **more):
    """A ClusterHealthCheck."""
    return {"cluster_name": name, "health_checks": [http_check()] if checks is None else checks,
            "locality_endpoints": [{"locality": {"region": "r", "zone": zone},
                                    "endpoints": [{"address": socket_address(each)} for each in addresses]}], **more}


class HealthService(StreamService):
    """The server. What it wants is sent at the beginning of each stream and after each change; nothing while it is None."""

    def __init__(self, *clusters, silent=False):
        super().__init__()
        self.streams, self.requests, self.reports, self._wish = 0, [], [], None
        if not silent:
            self.want(*clusters)
        self.start()

    def handler(self):
        return grpc.method_handlers_generic_handler(
            SERVICE, {"StreamHealthCheck": grpc.stream_stream_rpc_method_handler(self._serve)})

    def want(self, *clusters, seconds=0.3):
        self.send(json_format.ParseDict({"cluster_health_checks": list(clusters), "interval": f"{seconds * SLOWNESS:.3f}s"},
                                        hds_pb2.HealthCheckSpecifier()).SerializeToString())

    def send(self, message):
        with self._news:
            self._wish = message
            for events in self._queues:
                events.put(message)

    def _serve(self, requests, context):
        events = queue.Queue()

        def read():
            try:
                for data in requests:
                    message = hds_pb2.HealthCheckRequestOrEndpointHealthResponse.FromString(data)
                    with self._news:
                        if message.HasField("health_check_request"):
                            self.requests.append(message.health_check_request)
                            if self._wish is not None:
                                events.put(self._wish)
                        else:
                            self.reports.append(message.endpoint_health_response)
            except grpc.RpcError:
                pass
            events.put(None)
        with self._news:
            self.streams += 1
            self._queues.add(events)
        threading.Thread(target=read, daemon=True).start()
        while (message := events.get()) is not None and context.is_active():
            yield message
        with self._news:
            self._queues.discard(events)

    def state(self):
        """The last report: {cluster: {address: status}}."""
        with self._news:
            last = self.reports[-1] if self.reports else None
        return {} if last is None else {
            cluster.cluster_name: {text_of(each.endpoint): STATUS[each.health_status]
                                   for locality in cluster.locality_endpoints_health for each in locality.endpoints_health}
            for cluster in last.cluster_endpoints_health}

    def expect(self, state, seconds=10):
        try:
            wait_until(lambda: self.state() == state, seconds, f"{state}")
        except AssertionError as problem:
            raise AssertionError(f"{problem}; the last report: {self.state()}") from None

    def expect_more_reports(self, count=3):
        before = len(self.reports)
        wait_until(lambda: len(self.reports) >= before + count, 10, "further reports")


class Switched:
    """An HTTP server whose responses have the status of the moment; with None it does not respond. Counts the requests."""

    def __init__(self, status=200, context=None):
        self.status, self.heads, self._context = status, [], context
        self._origin = Origin(self._serve)
        self.address = self._origin.address
        self.close = self._origin.close

    def _serve(self, connection):
        if self._context:
            try:
                connection = self._context.wrap_socket(connection, server_side=True)
            except (ssl.SSLError, OSError):
                return
        received = b""
        while piece := connection.recv(4096):
            received += piece
            while b"\r\n\r\n" in received:
                head, received = received.split(b"\r\n\r\n", 1)
                self.heads.append(head.decode())
                if self.status is not None:
                    connection.sendall(b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n\r\n" % self.status)


class WithHealth:
    """Adds the service to the bootstrap file."""

    service = None
    source = {}

    def bootstrap(self, *arguments):
        made = bootstrap(*arguments)
        if self.service:
            static = bootstrap(self.service, 1)["static_resources"]["clusters"][0]
            static["name"] = static["load_assignment"]["cluster_name"] = "health"
            made["static_resources"]["clusters"].append(static)
            made["hds_config"] = {"api_type": "GRPC", "transport_api_version": "V3",
                                  "grpc_services": [{"envoy_grpc": {"cluster_name": "health"}}], **self.source}
        return made


class Checking(WithHealth, DataPlane):
    pass


class CheckingEnvoy(WithHealth, Envoy):
    pass


class Scenarios:
    def setUp(self):
        super().setUp()
        self.one, self.two = self.keep(Switched()), self.keep(Switched())

    def start(self, service):
        """The program, with a control plane and traffic of its own."""
        plane = self.control_plane(listener("web", self.port, rds="all"), route_config("all", cluster="one"),
                                   cluster("one", self.a.address))
        self.DATA_PLANE.service = service.address
        self.addCleanup(setattr, self.DATA_PLANE, "service", None)
        program = self.data_plane(plane)
        self.expect("a")
        return program

    def test_changes(self):
        """An endpoint fails, recovers, is silent; another one comes; a cluster goes."""
        service = self.keep(HealthService(checked("c", self.one.address)))
        self.start(service)
        one, two = self.one.address, self.two.address
        service.expect({"c": {one: "HEALTHY"}})
        request = service.requests[0]
        self.assertEqual((request.node.id, request.node.cluster), ("node-1", "edge"))
        self.assertEqual(list(request.capability.health_check_protocols), [0, 1])
        locality = service.reports[-1].cluster_endpoints_health[0].locality_endpoints_health[0].locality
        self.assertEqual((locality.region, locality.zone), ("r", "a"))
        self.assertEqual([(text_of(each.endpoint), each.health_status) for each in service.reports[-1].endpoints_health], [(one, 1)])
        self.assertIn("host: checks.test", self.one.heads[0].lower())
        self.one.status = 503
        service.expect({"c": {one: "UNHEALTHY"}})
        self.one.status = 200
        service.expect({"c": {one: "HEALTHY"}})
        self.one.status = None
        service.expect({"c": {one: "TIMEOUT"}}, 20)
        self.one.status = 200
        service.want(checked("c", one, two), checked("d", two, zone="b"))
        service.expect({"c": {one: "HEALTHY", two: "HEALTHY"}, "d": {two: "HEALTHY"}})
        service.want(checked("d", two, zone="b"))
        service.expect({"d": {two: "HEALTHY"}})
        before = len(self.one.heads)
        time.sleep(1 * SLOWNESS)
        self.assertLessEqual(len(self.one.heads) - before, 1)  # One may have been under way.
        service.want()
        service.expect({})

    def test_not_reachable(self):
        service = self.keep(HealthService(checked("c", f"127.0.0.1:{free_port()}", checks=[tcp_check()]),
                                          checked("d", self.one.address, checks=[tcp_check()])))
        self.start(service)
        wait_until(lambda: service.state().get("d") == {self.one.address: "HEALTHY"}, 10, "a healthy endpoint")
        self.assertEqual(list(service.state()["c"].values()), ["UNHEALTHY"])

    def test_two_localities(self):
        wanted = checked("c", self.one.address)
        wanted["locality_endpoints"] += checked("x", self.two.address, zone="b")["locality_endpoints"]
        service = self.keep(HealthService(wanted))
        self.start(service)
        service.expect({"c": {self.one.address: "HEALTHY", self.two.address: "HEALTHY"}})
        found = {each.locality.zone: [text_of(one.endpoint) for one in each.endpoints_health]
                 for each in service.reports[-1].cluster_endpoints_health[0].locality_endpoints_health}
        self.assertEqual(found, {"a": [self.one.address], "b": [self.two.address]})

    def test_away_and_back(self):
        """The service is killed, and comes back with the same wish. Traffic goes on, and so do the checks."""
        service = self.keep(HealthService(checked("c", self.one.address)))
        self.start(service)
        service.expect({"c": {self.one.address: "HEALTHY"}})
        traffic = self.load()
        service.stop()
        before, reports = len(self.one.heads), len(service.reports)
        wait_until(lambda: len(self.one.heads) > before + 3, 10, "checks without a service")
        self.one.status = 500
        time.sleep(1)
        service.start()
        wait_until(lambda: service.streams >= 2, 40, "another stream")
        wait_until(lambda: len(service.reports) > reports, 10, "a report")
        # At once: it was found before.
        self.assertEqual({each.health_status for each in service.reports[reports].endpoints_health}, {2})
        self.assertEqual(len(service.requests), service.streams)
        self.check_load(traffic)

    def test_silent_service(self):
        """A service that wants nothing gets nothing, and traffic goes on."""
        service = self.keep(HealthService(silent=True))
        self.start(service)
        wait_until(lambda: service.requests, 10, "a request")
        traffic = self.load()
        time.sleep(1.5 * SLOWNESS)
        self.assertEqual(service.reports, [])
        self.check_load(traffic)
        service.want(checked("c", self.one.address))
        service.expect({"c": {self.one.address: "HEALTHY"}})


class Sluice(Scenarios, XdsTest):
    DATA_PLANE = Checking

    def counter(self, program, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{program.admin_port}/metrics", timeout=5 * SLOWNESS) as response:
            return int(re.search(rf"^sluice_xds_health_{name} (\d+)", response.read().decode(), re.M)[1])

    def counters(self, program):
        return tuple(self.counter(program, f"{name}_endpoints") for name in ("checked", "unhealthy", "unknown"))

    def test_log_and_counters(self):
        service = self.keep(HealthService(checked("c", self.one.address, self.two.address)))
        program = self.start(service)
        service.expect({"c": {self.one.address: "HEALTHY", self.two.address: "HEALTHY"}})
        self.assertIn(f"xds: health discovery service {service.address}: connected", program.output())
        self.assertIn("xds: health discovery: 2 of 2 endpoints are checked\n", program.output())
        self.one.status = 500
        service.expect({"c": {self.one.address: "UNHEALTHY", self.two.address: "HEALTHY"}})
        self.assertIn(f'cluster "c": endpoint {self.one.address} is unhealthy: it responded with 500', program.output())
        self.assertEqual(self.counters(program), (2, 1, 0))
        self.assertEqual((self.counter(program, "connected"), self.counter(program, "connects_total")), (1, 1))
        self.assertGreater(self.counter(program, "reports_total"), 0)
        self.one.status = 200
        service.expect({"c": {self.one.address: "HEALTHY", self.two.address: "HEALTHY"}})
        self.assertRegex(program.output(), f'endpoint {self.one.address} is healthy again after [0-9]')
        self.assertEqual(program.output().count("is healthy again"), 1)
        self.assertEqual(self.counters(program), (2, 0, 0))

    def test_unchanged_endpoints_are_checked_on(self):
        """Changes of other endpoints and clusters, more often than checks end, neither end the checks nor change the state."""
        self.one.status = None
        service = self.keep(HealthService(checked("c", self.one.address)))
        self.start(service)
        over = time.monotonic() + 3 * SLOWNESS
        at = 0
        while time.monotonic() < over:
            at += 1
            service.want(checked("c", self.one.address, self.two.address, f"127.0.0.1:{20000 + at}"), checked(f"d{at}", self.two.address))
            time.sleep(0.05)
        state = service.state()["c"]
        self.assertEqual((state[self.one.address], state[self.two.address]), ("TIMEOUT", "HEALTHY"))
        self.assertGreater(len(service.reports), 3)  # They are not put off.

    def test_other_settings(self):
        """The state stays until the first outcome by the new settings."""
        service = self.keep(HealthService(checked("c", self.one.address)))
        self.start(service)
        service.expect({"c": {self.one.address: "HEALTHY"}})
        first = len(service.reports)
        self.one.status = 201
        service.want(checked("c", self.one.address, checks=[http_check("/other", http_health_check={
            "host": "x", "path": "/other", "expected_statuses": [{"start": 201, "end": 202}]})]))
        wait_until(lambda: any("GET /other" in head for head in self.one.heads), 10, "a check of the new path")
        service.expect_more_reports()
        states = {each.health_status for report in service.reports[first:] for each in report.endpoints_health}
        self.assertEqual(states, {1})

    def test_what_is_not_there(self):
        """Endpoints whose check has no counterpart are unknown, and the others are checked."""
        redis = http_check(custom_health_check={"name": "envoy.health_checkers.redis"})
        del redis["http_health_check"]
        payload = tcp_check(tcp_health_check={"send": {"text": "0001"}})
        clusters = {"redis": [redis], "payload": [payload], "none": [], "fine": None,
                    "one of two": [http_check(), redis], "too often": [http_check(interval="0.001s")]}
        named = checked("named", self.one.address)
        named["locality_endpoints"][0]["endpoints"].append({"address": socket_address("origin.test:80")})
        service = self.keep(HealthService(*(checked(name, self.one.address, checks=checks) for name, checks in clusters.items()),
                                          named))
        program = self.start(service)
        wanted = {name: {self.one.address: "HEALTHY" if name == "fine" else "UNKNOWN"} for name in clusters}
        wanted["named"] = {self.one.address: "HEALTHY", "origin.test:80": "UNKNOWN"}
        service.expect(wanted)
        output = program.output()
        for words in ('cluster "redis" is not checked: its health check cannot be made: it is none by HTTP, TCP or gRPC',
                      'cluster "payload" is not checked: its health check cannot be made: health_checks[0].tcp_health_check.send',
                      'cluster "none" is not checked: it has no health_checks',
                      'cluster "one of two" is not checked: its health check', 'cluster "too often" is not checked',
                      'cluster "named" is not checked: "origin.test:80" is no address; it is reported as unknown',
                      "2 of 8 endpoints are checked\n"):
            self.assertIn(words, output)
        self.assertEqual(self.counters(program), (2, 0, 6))
        # Nothing is logged again while nothing has changed.
        service.want(*(checked(name, self.one.address, checks=checks) for name, checks in clusters.items()), named)
        service.expect_more_reports()
        self.assertEqual(program.output(), output)

    def test_all_checks_count(self):
        """An endpoint is healthy if both checks of its cluster pass."""
        service = self.keep(HealthService(checked("c", self.one.address, checks=[http_check(), tcp_check()])))
        self.start(service)
        service.expect({"c": {self.one.address: "HEALTHY"}})
        self.one.status = 500
        service.expect({"c": {self.one.address: "UNHEALTHY"}})

    def test_endpoints_own_port_and_host(self):
        wanted = checked("c", f"127.0.0.1:{free_port()}")
        wanted["locality_endpoints"][0]["endpoints"][0]["health_check_config"] = {
            "port_value": int(self.one.address.rsplit(":", 1)[1]), "hostname": "own.test"}
        service = self.keep(HealthService(wanted))
        self.start(service)
        wait_until(lambda: list(service.state().get("c", {}).values()) == ["HEALTHY"], 10, "a healthy endpoint")
        self.assertIn("host: own.test", self.one.heads[0].lower())

    def test_tls(self):
        """Criteria of the check choose the transport socket. Certificates in the message become files, and go with their cluster."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server["chain"], self.server["key"])
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        secure = self.keep(Switched(context=context))

        def text_in(path):
            with open(path, encoding="ascii") as file:
                return {"inline_string": file.read()}
        tls = {"common_tls_context": {
            "tls_certificates": [{"certificate_chain": text_in(self.client["chain"]), "private_key": text_in(self.client["key"])}],
            "validation_context": {"trusted_ca": text_in(self.ca)}}}
        match = {"name": "secure", "match": {"secure": "yes"}, "transport_socket": {
            "name": "envoy.transport_sockets.tls", "typed_config": {"@type": CLIENT_TLS, "sni": "localhost", **tls}}}
        by_tls = checked("tls", secure.address, checks=[http_check(transport_socket_match_criteria={"secure": "yes"})],
                         transport_socket_matches=[match])
        plain = checked("plain", secure.address, transport_socket_matches=[match])
        service = self.keep(HealthService(by_tls, plain))
        program = self.start(service)
        service.expect({"tls": {secure.address: "HEALTHY"}, "plain": {secure.address: "UNHEALTHY"}}, 20)
        folder = os.path.join(os.path.dirname(program.path), "cache", "health")
        self.assertEqual(len(os.listdir(folder)), 3)
        self.assertEqual({os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in os.listdir(folder)}, {0o600})
        service.want()
        service.expect({})
        self.assertEqual(os.listdir(folder), [])

    def test_grpc(self):
        """By grpc.health.v1 and, as it says so, by HTTP/2."""
        serving = [1]
        server = grpc.server(xds._Threads())
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {
            "Check": grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08" + bytes(serving))}),))
        address = f"127.0.0.1:{free_port()}"
        server.add_insecure_port(address)
        server.start()
        self.addCleanup(lambda: server.stop(0).wait(10))
        check = http_check(grpc_health_check={"service_name": "x"})
        del check["http_health_check"]
        begins = []
        other = self.keep(Origin(lambda connection: begins.append(connection.recv(64))))
        by_http2 = http_check(http_health_check={"path": "/", "codec_client_type": "HTTP2"})
        service = self.keep(HealthService(checked("c", address, checks=[check]), checked("h", other.address, checks=[by_http2])))
        self.start(service)
        service.expect({"c": {address: "HEALTHY"}, "h": {other.address: "UNHEALTHY"}})
        self.assertTrue(begins[0].startswith(b"PRI * HTTP/2.0\r\n"), begins[0])
        serving[0] = 2
        service.expect({"c": {address: "UNHEALTHY"}, "h": {other.address: "UNHEALTHY"}})

    def test_garbage(self):
        """A message that is none ends the stream; it is opened again, and traffic is not disturbed."""
        service = self.keep(HealthService(silent=True))
        service.send(b"\xff\xff")
        program = self.start(service)
        traffic = self.load()
        wait_until(lambda: service.streams >= 3, 20, "further streams")
        self.assertIn("it sent a message that is no HealthCheckSpecifier", program.output())
        self.assertLessEqual(program.output().count("is no HealthCheckSpecifier"), service.streams)
        service.want(checked("c", self.one.address))
        service.expect({"c": {self.one.address: "HEALTHY"}}, 40)
        self.assertGreaterEqual(self.counter(program, "failures_total"), 2)
        self.check_load(traffic)

    def test_more_than_there_is_room_for(self):
        """1,000 checks at most. The endpoints beyond are unknown, until there is room."""
        many = [f"127.0.{i // 250}.{i % 250 + 1}:{self.one.address.rsplit(':', 1)[1]}" for i in range(1010)]
        slow = tcp_check(interval="60s")
        service = self.keep(HealthService(checked("c", *many, checks=[slow])))
        program = self.start(service)

        def counts():
            states = list(service.state().get("c", {}).values())
            return len(states), states.count("UNKNOWN")
        wait_until(lambda: counts() == (1010, 10), 20, "all endpoints")
        self.assertIn("1000 of 1010 endpoints are checked; there is no room for 10, as at most 1000 checks are made", program.output())
        service.want(checked("c", *many[20:], checks=[slow]))
        wait_until(lambda: counts() == (990, 0), 20, "all of fewer endpoints")

    def test_flood(self):
        """30 messages at once, each with 1,000 other endpoints, took 3,700 descriptors: each message began all of its checks at
        once. Now the last of them counts."""
        silent = socket.create_server(("0.0.0.0", 0), backlog=100)
        self.addCleanup(silent.close)
        port = silent.getsockname()[1]
        patient = http_check(timeout="30s")
        service = self.keep(HealthService(silent=True))
        program = self.start(service)
        wait_until(lambda: service.requests, 10, "a request")
        traffic, most = self.load(), 0
        for turn in range(1, 31):
            service.want(checked(f"c{turn}", *(f"127.{turn}.{i // 250}.{i % 250 + 1}:{port}" for i in range(1000)), checks=[patient]))
        until = time.monotonic() + 20 * SLOWNESS
        while service.state().keys() != {"c30"} and time.monotonic() < until:
            most = max(most, len(os.listdir(f"/proc/{program.process.pid}/fd")))
            time.sleep(0.01)
        self.assertEqual(service.state().keys(), {"c30"})
        self.assertLess(most, 2300)  # Of two messages, a tenth of a third, and a few others.
        self.check_load(traffic)

    def test_service_by_errors_in_the_file(self):
        service = self.keep(HealthService())
        for change, words in (({"api_type": "REST"}, "hds_config.api_type: expected GRPC"),
                              ({"grpc_services": []}, "hds_config.grpc_services"),
                              ({"grpc_services": [{"envoy_grpc": {"cluster_name": "x"}}]}, 'has no "x"')):
            with self.subTest(words):
                class Wrong(Checking):
                    source = change
                Wrong.service = service.address
                program = Wrong("127.0.0.1:1")
                self.addCleanup(harness.end, program.process)
                self.assertEqual(program.process.wait(10 * SLOWNESS), 1)
                self.assertIn(words, program.output())

    def test_stop_while_checks_are_under_way(self):
        """The process ends at once, with connections that wait for a response, and others that wait to be accepted."""
        self.one.status = None
        full = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.addCleanup(full.close)
        held = []
        self.addCleanup(lambda: [each.close() for each in held])
        for _ in range(3):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
            held.append(sock)
        patient = http_check(timeout="60s")
        service = self.keep(HealthService(checked("c", self.one.address, f"127.0.0.1:{full.getsockname()[1]}", checks=[patient])))
        program = self.start(service)
        wait_until(lambda: self.one.heads, 10, "a check")
        began = time.monotonic()
        program.close()
        self.assert_within(began, 5 * SLOWNESS)


@unittest.skipUnless(LONG, "only in the long form")
class WithEnvoy(Scenarios, XdsTest):
    DATA_PLANE = CheckingEnvoy


if __name__ == "__main__":
    harness.main()
