"""Support for gateway_api_peers_test.py: Envoy Gateway as a program without a cluster, its resources, backends, and requests."""

import base64
import collections
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import harness
from harness import SLOWNESS, wait_until
from http_peers_support import go_program
from http_wire import Http2Client, Http2Server, data_frame, headers_frame
from origins import free_port
from xds_support import ADS, CLIENT_TLS, HTTP_OPTIONS, DataPlane, Envoy, socket_address

FOLDER = harness.ROOT / "test/e2e/gateway_api_peers.d"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
# Envoy Gateway's xDS server and its health probes have fixed ports.
XDS_ADDRESS, FIXED_PORTS = "127.0.0.1:18000", (18000, 8081)
ENVOY_VERSION = "1.39.1"  # The name of the folder where the gateway looks for Envoy, which it would start by itself.


def envoy_gateway():
    """The program; a build from nothing takes ten minutes."""
    return go_program("github.com/envoyproxy/gateway/cmd/envoy-gateway", FOLDER, seconds=1500)


class EnvoyGateway:
    """The control plane. It takes its resources from a file, and starts a program in the place of Envoy that does nothing, since the
    program under test is the data plane."""

    def __init__(self, folder):
        for port in FIXED_PORTS:
            harness.require(_is_free(port), f"port {port}, which Envoy Gateway needs, is taken")
        program, self._folder = envoy_gateway(), folder
        self.certificates = folder + "/config/certs/envoy"
        os.makedirs(folder + "/resources")
        stub = f"{folder}/data/envoy-versions/{ENVOY_VERSION}/bin/envoy"
        os.makedirs(os.path.dirname(stub))
        with open(stub, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexec sleep 86400\n")
        os.chmod(stub, 0o755)
        subprocess.run([program, "certgen", "--local", "--config-home", folder + "/config"], check=True, capture_output=True, timeout=60)
        homes = {name + "Home": f"{folder}/{name}" for name in ("config", "data", "state")}
        with open(folder + "/gateway.yaml", "w", encoding="utf-8") as file:
            json.dump({"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway", "gateway": {"controllerName": CONTROLLER},
                       "extensionApis": {"enableBackend": True},
                       "provider": {"type": "Custom", "custom": {
                           "resource": {"type": "File", "file": {"paths": [folder + "/resources"]}},
                           "infrastructure": {"type": "Host", "host": {**homes, "runtimeDir": folder + "/run"}}}}}, file)
        self.set([])
        with open(folder + "/log", "wb") as log:
            self._process = harness.spawn([program, "server", "--config-path", folder + "/gateway.yaml"], stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log)
        # A change before it watches the folder would be lost.
        wait_until(_is_ready, 30, "Envoy Gateway to be ready")

    def set(self, resources):
        """Replaces all resources but the gateway class, as an editor saves a file. Returns when that was."""
        proxy = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "proxy", "namespace": "infra"}
        everything = [
            {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "class"},
             "spec": {"controllerName": CONTROLLER, "parametersRef": proxy}},
            # One data plane for all gateways, so that a test can have several.
            {"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyProxy", "metadata": {"name": "proxy", "namespace": "infra"},
             "spec": {"mergeGateways": True, "provider": {"type": "Host", "host": {"envoyVersion": ENVOY_VERSION}}}},
            *resources]
        path = self._folder + "/resources/all.yaml"
        with open(path + "~", "w", encoding="utf-8") as file:  # The gateway does not read such a name.
            file.write("\n---\n".join(json.dumps(each) for each in everything))
        os.replace(path + "~", path)
        return time.monotonic()

    def log(self):
        with open(self._folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        harness.end(self._process)


def _is_ready():
    with contextlib.suppress(OSError), urllib.request.urlopen("http://127.0.0.1:8081/readyz", timeout=2) as response:
        return response.status == 200
    return False


def _is_free(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return False
    return True


# ---- Resources

def gateway(name, listeners, namespace="infra"):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name, "namespace": namespace},
            "spec": {"gatewayClassName": "class",
                     "listeners": [{"allowedRoutes": {"namespaces": {"from": "All"}}, **each} for each in listeners]}}


def backend(name, *addresses, namespace="infra", protocols=()):
    return {"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "Backend", "metadata": {"name": name, "namespace": namespace},
            "spec": {"endpoints": [{"ip": {"address": address.rsplit(":", 1)[0], "port": int(address.rsplit(":", 1)[1])}}
                                   for address in addresses],
                     **({"appProtocols": [f"gateway.envoyproxy.io/{each}" for each in protocols]} if protocols else {})}}


def secret(name, certificate, namespace="infra"):
    def encoded(path):
        with open(path, "rb") as file:
            return base64.b64encode(file.read()).decode()
    return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name, "namespace": namespace},
            "data": {"tls.crt": encoded(certificate["chain"]), "tls.key": encoded(certificate["key"])}}


def authority(name, text, namespace="infra"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"ca.crt": text}}


def namespaces(*names):
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]


# ---- Data planes

def gateway_bootstrap(certificates, admin_port, node):
    """The bootstrap file, with what Envoy Gateway's own has of the control plane."""
    tls = {"tls_certificates": [{"certificate_chain": {"filename": certificates + "/tls.crt"},
                                 "private_key": {"filename": certificates + "/tls.key"}}],
           "validation_context": {"trusted_ca": {"filename": certificates + "/ca.crt"}},
           # The gateway speaks nothing older, which is what Envoy's clients do if nothing is said.
           "tls_params": {"tls_maximum_protocol_version": "TLSv1_3"}}
    plane = {"name": "xds_cluster", "type": "STATIC", "connect_timeout": "10s",
             "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                 "@type": HTTP_OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}},
             "load_assignment": {"cluster_name": "xds_cluster", "endpoints": [
                 {"lb_endpoints": [{"endpoint": {"address": socket_address(XDS_ADDRESS)}}]}]},
             "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": {
                 "@type": CLIENT_TLS, "sni": "envoy-gateway", "common_tls_context": tls}}}
    return {"node": {"id": node, "cluster": "class"},  # The class is what its merged gateways are called.
            "dynamic_resources": {
                "ads_config": {"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": True,
                               "grpc_services": [{"envoy_grpc": {"cluster_name": "xds_cluster"}}]},
                "lds_config": ADS, "cds_config": ADS},
            "static_resources": {"clusters": [plane]},
            "admin": {"address": socket_address(f"127.0.0.1:{admin_port}")}}


class OfGateway:
    """Mixed into a DataPlane: the bootstrap file is that of Envoy Gateway."""

    def arguments(self, cache):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(gateway_bootstrap(self.CERTIFICATES, self.admin_port, type(self).__name__), file, indent=1)
        return super().arguments(cache)

    def rejected(self):
        """The reasons of the responses that Sluice rejected so far."""
        return re.findall(r"is rejected: (.*)", self.output())


class SluicePlane(OfGateway, DataPlane):
    pass


class EnvoyPlane(OfGateway, Envoy):
    pass


# ---- Backends

class Echo:
    """A server that responds with what it was sent. `/...?delay=SECONDS` waits; `?fails=N&code=STATUS` fails N times for each value of
    the field x-attempt; X-Echo-Set-Header has fields for the response; an upgrade to websocket gets 101 and the end. With a certificate,
    the response has the server name that the client asked for."""

    def __init__(self, name, certificate=None):
        echo, self.count, self._failed = self, 0, collections.Counter()
        self._lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                with contextlib.suppress(OSError, ValueError):
                    return super().handle_one_request()
                self.close_connection = True
                return None

            def respond(self):
                with echo._lock:
                    echo.count += 1
                url = urllib.parse.urlsplit(self.path)
                query = {key: each[0] for key, each in urllib.parse.parse_qs(url.query).items()}
                self.rfile.read(int(self.headers.get("content-length") or 0))
                time.sleep(float(query.get("delay", 0)))
                if self.headers.get("upgrade", "").lower() == "websocket":
                    key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                    self.send_response(101)
                    for field, value in (("upgrade", "websocket"), ("connection", "upgrade"), (
                            "sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())):
                        self.send_header(field, value)
                    self.end_headers()
                    self.close_connection = True
                    return
                status = 200
                if "fails" in query:
                    with echo._lock:
                        echo._failed[self.path, self.headers.get("x-attempt")] += 1
                        if echo._failed[self.path, self.headers.get("x-attempt")] <= int(query["fails"]):
                            status = int(query["code"])
                body = json.dumps({"backend": name, "method": self.command, "path": self.path, "host": self.headers.get("host"),
                                   "server_name": getattr(self.connection, "asked_for", None),
                                   "headers": [[key.lower(), value] for key, value in self.headers.items()]}).encode()
                self.send_response(status)
                for each in filter(None, self.headers.get("x-echo-set-header", "").split(",")):
                    self.send_header(*each.split(":", 1))
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = respond

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate["chain"], certificate["key"])
            context.sni_callback = lambda connection, name, _: setattr(connection, "asked_for", name)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class GrpcEcho:
    """A server for gRPC on HTTP/2 without TLS, which responds to each call with its name, as the field x-backend."""

    def __init__(self, name):
        self.name, self.count = name, 0
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._socket.accept()[:1], daemon=True).start()

    def _serve(self, sock):
        with Http2Server(sock) as peer:
            while head := peer.head(3600):
                peer.wait(lambda head=head: head.complete)
                self.count += 1
                peer.send(headers_frame(head.stream, [(":status", "200"), ("content-type", "application/grpc"), ("x-backend", self.name)]) +
                          data_frame(head.stream, bytes(5)) + headers_frame(head.stream, [("grpc-status", "0")], end=True))

    def close(self):
        self._socket.close()


# ---- Requests

def _joined(pairs):
    fields = collections.defaultdict(list)
    for name, value in pairs:
        fields[name.lower()].append(value)
    return {name: ",".join(re.split(r"\s*,\s*", ",".join(each))) for name, each in fields.items()}


class Reply:
    def __init__(self, response):
        self.status, self.fields = response.status, _joined(response.getheaders())
        self.body = b"" if response.status == 101 else response.read()
        try:
            self.seen = json.loads(self.body)
        except ValueError:
            self.seen = {}
        if not isinstance(self.seen, dict):
            self.seen = {}


def grpc_difference(port, case):
    """Makes the call of a case. Returns what of its end is not as the case says, and the name of the server that it came to."""
    fields = [("content-type", "application/grpc"), ("te", "trailers"), *case["sends"].items()]
    with Http2Client(("127.0.0.1", port)) as client:
        message = client.get(case["grpc"], method="POST", fields=fields, body=bytes(5), authority=case.get("host") or f"127.0.0.1:{port}")
    if not message or not message.complete:
        return "no response", None
    status = dict(message.trailers or ()).get("grpc-status") or message.value("grpc-status")
    name = message.value("x-backend") or None
    if message.status != 200 or status != case["grpc_status"] or ("shares" not in case and name != case["backend"]):
        return f"status {message.status}, gRPC status {status}, came to {name}", name
    return None, name


def request(port, case, attempt="0", context=None):
    """One request of a case, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10 * SLOWNESS)
    with contextlib.closing(connection):
        connection.connect()
        if "server_name" in case:
            connection.sock = context.wrap_socket(connection.sock, server_hostname=case["server_name"])
        connection.putrequest(case.get("method", "GET"), case["path"], skip_host=True, skip_accept_encoding=True)
        upgrade = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13",
                   "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA=="} if case.get("websocket") else {}
        for name, value in {"Host": case.get("host") or f"127.0.0.1:{port}", "X-Attempt": attempt, **upgrade,
                            **case.get("sends", {})}.items():
            connection.putheader(name, value)
        if case.get("method") in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", "0")
        connection.endheaders()
        return Reply(connection.getresponse())


def difference(case, reply, port):
    """What of a reply is not as the case says, as text; or None."""
    statuses = case.get("statuses") or [case.get("status") or 200]
    if reply.status not in statuses:
        return f"status {reply.status}, not {statuses}"
    if "backend" in case and case.get("method") != "HEAD" and reply.seen.get("backend") != case["backend"]:
        return f"came to {reply.seen.get('backend')}, not to {case['backend']}"
    came = _joined(reply.seen.get("headers", []))
    for name, value in case.get("sent", {}).items():
        if came.get(name.lower()) != value:
            return f"sent {name}: {came.get(name.lower())}, not {value}"
    for name in case.get("absent", []):
        if name.lower() in came:
            return f"sent {name}"
    for key, what in (("came_for", "host"), ("came_to", "path"), ("came_by", "server_name")):
        if key in case and reply.seen.get(what) != case[key]:
            return f"{what} {reply.seen.get(what)}, not {case[key]}"
    for name, allowed in case.get("responds", {}).items():
        if reply.fields.get(name.lower()) not in allowed:
            return f"response {name}: {reply.fields.get(name.lower())}, not {allowed}"
    for name in case.get("responds_not", []):
        if name.lower() in reply.fields:
            return f"response has {name}: {reply.fields[name.lower()]}"
    if "body" in case and reply.body.decode() != case["body"]:
        return f"body {reply.body[:80]}"
    if "leads" in case:
        url = urllib.parse.urlsplit(reply.fields.get("location", ""))
        default = {"http": 80, "https": 443}.get(url.scheme)
        found = {"scheme": url.scheme, "host": url.hostname, "path": url.path, "port": url.port if url.port != default else None}
        for name, value in case["leads"].items():
            if found[name] != (port if value == "own" else value):
                return f"leads to {reply.fields.get('location')}: {name} is not {value}"
    return None
