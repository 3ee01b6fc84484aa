"""Support for tests of `sluice run --xds`: resources, the program as a client of a control plane, and Envoy as the same."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import harness
import xds_control_plane as xds
from harness import KIB, MIB, SANITIZER_MARKS, SLOWNESS, SLUICE, require, wait_until
from origins import Origin, free_port
from reload_test import server
from tls_support import TlsTest

EXTENSIONS = "type.googleapis.com/envoy.extensions."
MANAGER = EXTENSIONS + "filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = EXTENSIONS + "filters.http.router.v3.Router"
SERVER_TLS = EXTENSIONS + "transport_sockets.tls.v3.DownstreamTlsContext"
CLIENT_TLS = EXTENSIONS + "transport_sockets.tls.v3.UpstreamTlsContext"
HTTP_OPTIONS = EXTENSIONS + "upstreams.http.v3.HttpProtocolOptions"
ADS = {"ads": {}, "resource_api_version": "V3"}
RSS_LIMIT = 300 * MIB


# ---- Resources

def socket_address(address):
    """`address` is HOST:PORT."""
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}


def route_config(name, cluster=None, text=None, routes=None):
    """All requests go to a cluster, or are responded to with a text."""
    action = {"route": {"cluster": cluster}} if cluster else {"direct_response": {"status": 200, "body": {"inline_string": text}}}
    return {"@type": xds.ROUTES, "name": name, "virtual_hosts": [
        {"name": "all", "domains": ["*"], "routes": routes or [{"match": {"prefix": "/"}, **action}]}]}


def listener(name, port, routes=None, rds=None, secret=None):
    """A listener on 127.0.0.1 with `routes`, of `route_config`, or the name of some; with TLS by the name of a secret."""
    manager = {"@type": MANAGER, "stat_prefix": name, "http_filters": [
        {"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}]}
    if rds:
        manager["rds"] = {"config_source": ADS, "route_config_name": rds}
    else:
        manager["route_config"] = {key: value for key, value in routes.items() if key != "@type"}
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    if secret:
        chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": {
            "@type": SERVER_TLS, "common_tls_context": {
                "tls_certificate_sds_secret_configs": [{"name": secret, "sds_config": ADS}]}}}
    return {"@type": xds.LISTENER, "name": name, "address": socket_address(f"127.0.0.1:{port}"), "filter_chains": [chain]}


def endpoints(name, *addresses):
    return {"@type": xds.ENDPOINTS, "cluster_name": name, "endpoints": [
        {"lb_endpoints": [{"endpoint": {"address": socket_address(address)}} for address in addresses]}]}


def cluster(name, *addresses, **more):
    """With addresses; without any, they come by EDS."""
    made = {"@type": xds.CLUSTER, "name": name, "connect_timeout": "2s", **more}
    if addresses:
        return {**made, "type": "STATIC",
                "load_assignment": {key: value for key, value in endpoints(name, *addresses).items() if key != "@type"}}
    return {**made, "type": "EDS", "eds_cluster_config": {"eds_config": ADS}}


def secret(name, certificate):
    """`certificate` is {"chain": PATH, "key": PATH}; the resource has their content."""
    def inline(path):
        with open(path, encoding="ascii") as file:
            return {"inline_string": file.read()}
    return {"@type": xds.SECRET, "name": name, "tls_certificate": {
        "certificate_chain": inline(certificate["chain"]), "private_key": inline(certificate["key"])}}


def bootstrap(address, admin_port, tls=None, delta=False):
    """`address` is that of the control plane, `tls` the common_tls_context of a client, if any."""
    plane = {"name": "xds_cluster", "type": "STATIC", "connect_timeout": "1s",
             "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                 "@type": HTTP_OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}},
             "load_assignment": {"cluster_name": "xds_cluster", "endpoints": [
                 {"lb_endpoints": [{"endpoint": {"address": socket_address(address)}}]}]}}
    if tls:
        plane["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": {
            "@type": CLIENT_TLS, "sni": "localhost", "common_tls_context": tls}}
    return {"node": {"id": "node-1", "cluster": "edge"},
            "dynamic_resources": {
                "ads_config": {"api_type": "DELTA_GRPC" if delta else "GRPC", "transport_api_version": "V3",
                               "grpc_services": [{"envoy_grpc": {"cluster_name": "xds_cluster"}}]},
                "lds_config": ADS, "cds_config": ADS},
            "static_resources": {"clusters": [plane]},
            "admin": {"address": socket_address(f"127.0.0.1:{admin_port}")}}


# ---- Services

class StreamService:
    """A gRPC server with one method, whose streams can be ended from outside. A subclass has handler()."""

    def __init__(self):
        require(xds.grpc, "missing: Python's grpcio and xds-protos; run tools/deps")
        self.address = f"127.0.0.1:{free_port()}"
        self._news, self._queues, self._server = threading.Condition(), set(), None

    def start(self):
        server_ = xds.grpc.server(xds._Threads(), options=[("grpc.so_reuseport", 0)])
        server_.add_generic_rpc_handlers((self.handler(),))
        server_.add_insecure_port(self.address)
        server_.start()
        self._server = server_

    def stop(self):
        with self._news:
            for events in self._queues:
                events.put(None)
        if self._server:
            self._server.stop(0).wait(10)
        self._server = None

    def close(self):
        self.stop()


# ---- Programs

class DataPlane:
    """A client of the control plane: Sluice."""

    HAS_CACHE = True
    KEEPS_ROUTES = True  # While the clusters of their next version are not there.
    STOP_SIGNAL = signal.SIGTERM

    def __init__(self, address, tls=None, cache=None, delta=False):
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-e2e-")
        self.admin_port = free_port()
        self.is_replaced = False  # By an upgrade: it ends by itself.
        self.path = os.path.join(self._folder.name, "bootstrap.yaml")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.bootstrap(address, self.admin_port, tls, delta), file, indent=1)  # JSON is YAML.
        self._log = os.path.join(self._folder.name, "log")
        with open(self._log, "wb") as log:
            self.process = harness.spawn(self.arguments(cache), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         cwd=self._folder.name)

    def bootstrap(self, *arguments):
        return bootstrap(*arguments)

    def arguments(self, cache):
        # The default is a folder of the machine.
        return [SLUICE, "run", "--xds", self.path, "--xds-cache", cache or os.path.join(self._folder.name, "cache")]

    def output(self):
        if self._folder is None:
            return ""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def peak_rss(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) * KIB

    def close(self):
        """Ends it in order, and checks how it ended."""
        if self._folder is None:
            return
        ended = self.process.poll()
        if ended == 0 and self.is_replaced:
            ended = None
        elif ended is None:
            self.process.send_signal(self.STOP_SIGNAL)
            try:
                self.process.wait(20 * SLOWNESS)
            except subprocess.TimeoutExpired:
                ended = "no end on a signal"
        code, output = self.process.poll(), self.output()
        harness.end(self.process)
        self._folder.cleanup()
        self._folder = None
        marks = [mark for mark in SANITIZER_MARKS if mark in output]
        if ended is not None or code != 0 or marks:
            raise AssertionError(f"{type(self).__name__}: ended: {ended}, exit code {code}, {marks}\n{output[-8000:]}")


class Envoy(DataPlane):
    """Envoy, the program that the environment variable ENVOY names, as proof that a scenario is right."""

    HAS_CACHE = KEEPS_ROUTES = False

    def arguments(self, cache):
        return [os.environ["ENVOY"], "-c", self.path, "--disable-hot-restart", "-l", "warning", "--concurrency", "1",
                "--drain-time-s", "1"]


# ---- Clients

class Client:
    """A connection of HTTP/1.1 that is used for one request after another."""

    def __init__(self, port):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5 * SLOWNESS)

    def get(self, path="/"):
        self._connection.request("GET", path, headers={"host": "a.test"})
        response = self._connection.getresponse()
        return response.status, response.read().decode()

    def close(self):
        self._connection.close()


def get(port, path="/"):
    """The status and the body of a response on a connection of its own, or None if nothing listens or responds."""
    with contextlib.closing(Client(port)) as client, contextlib.suppress(OSError, http.client.HTTPException):
        return client.get(path)
    return None


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2):
        return True
    return False


class Load:
    """Requests without pause, on connections that are kept, until `end`. `failures` has each response that is not 200 and each
    that does not come; `bodies` the order of bodies that were seen, with the time of the first of each."""

    def __init__(self, port, connections=2):
        self.count, self.failures, self.bodies = 0, [], []
        self._port, self._over, self._lock = port, threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(connections)]
        for thread in self._threads:
            thread.start()

    def _run(self):
        client = Client(self._port)
        while not self._over.is_set():
            try:
                status, body = client.get()
                failure = None if status == 200 else (status, body)
            except (OSError, http.client.HTTPException) as problem:
                status, body, failure = 0, "", repr(problem)
                client.close()
            with self._lock:
                self.count += 1
                if failure:
                    self.failures.append(failure)
                elif body not in (seen for seen, _ in self.bodies):
                    self.bodies.append((body, time.monotonic()))
            time.sleep(0.002)
        client.close()

    def first(self, body):
        """When this body was first seen, or None."""
        with self._lock:
            return next((when for seen, when in self.bodies if seen == body), None)

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(10 * SLOWNESS)

    close = end


class XdsTest(TlsTest):
    """Tests with a control plane, servers a and b, and a program as the client of the control plane."""

    DATA_PLANE = DataPlane

    def setUp(self):
        super().setUp()
        if issubclass(self.DATA_PLANE, Envoy) and not os.environ.get("ENVOY"):
            self.skipTest("no Envoy: the environment names none in ENVOY")
        self.a, self.b = (self.keep(Origin(server(name))) for name in "ab")
        self.port, self.programs = free_port(), []

    def control_plane(self, *resources, **options):
        plane = self.keep(xds.ControlPlane(**options))
        self.addCleanup(lambda: self.assertEqual(plane.problems, []))
        if resources:
            plane.set(resources)
        return plane

    def data_plane(self, plane, **options):
        program = self.keep(self.DATA_PLANE(plane.address, **options))
        self.programs.append(program)
        return program

    def load(self, port=None):
        return self.keep(Load(port or self.port))

    def expect(self, body, port=None, seconds=10, path="/"):
        """Waits until a request has this body."""
        last = []

        def found():
            last[:] = [get(port or self.port, path)]
            if self.programs and self.programs[-1].process.poll() is not None:
                raise AssertionError("the program has ended")
            return last == [(200, body)]
        try:
            wait_until(found, seconds, f"a response {body!r}")
        except AssertionError as problem:
            output = self.programs[-1].output() if self.programs else ""
            raise AssertionError(f"{problem}; the last was {last}; the program's output ends with\n{output[-4000:]}") from None

    def expect_gone(self, port):
        wait_until(lambda: not listens(port), 10, f"port {port} to be closed")

    def check_load(self, load, minimum=20):
        load.end()
        self.assertEqual(load.failures, [])
        self.assertGreater(load.count, minimum)
