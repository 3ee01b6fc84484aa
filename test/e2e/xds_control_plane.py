"""A control plane: Envoy's aggregated discovery service (state of the world and incremental) on grpcio. Resources are proto3
JSON with `@type`, as in Envoy's own files."""

import collections
import hashlib
import importlib
import os
import queue
import sys
import threading
import time

import harness
from harness import SLOWNESS, require
from origins import free_port

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # Its threads are none of the children's business.
try:
    sys.path.insert(0, str(harness.ROOT / ".deps/python"))
    import grpc
    from google.protobuf import any_pb2, duration_pb2, json_format
    from google.rpc import status_pb2  # noqa: the type of error_detail
    from envoy.service.discovery.v3 import discovery_pb2
    for _name in (  # Types that may be within an Any.
            "config.cluster.v3.cluster", "config.endpoint.v3.endpoint", "config.listener.v3.listener", "config.route.v3.route",
            "config.route.v3.scoped_route", "service.runtime.v3.rtds",
            "extensions.filters.network.http_connection_manager.v3.http_connection_manager",
            "extensions.filters.network.tcp_proxy.v3.tcp_proxy", "extensions.filters.http.router.v3.router",
            "extensions.filters.http.cors.v3.cors", "extensions.filters.http.rbac.v3.rbac",
            "extensions.filters.http.fault.v3.fault", "extensions.filters.http.local_ratelimit.v3.local_rate_limit",
            "extensions.filters.http.ext_authz.v3.ext_authz", "extensions.filters.http.ratelimit.v3.rate_limit",
            "extensions.filters.listener.tls_inspector.v3.tls_inspector", "extensions.transport_sockets.tls.v3.tls",
            "extensions.transport_sockets.tls.v3.secret", "extensions.upstreams.http.v3.http_protocol_options",
            "extensions.access_loggers.file.v3.file"):
        importlib.import_module(f"envoy.{_name}_pb2")
except ImportError:
    grpc = None

PREFIX = "type.googleapis.com/"
LISTENER = PREFIX + "envoy.config.listener.v3.Listener"
ROUTES = PREFIX + "envoy.config.route.v3.RouteConfiguration"
CLUSTER = PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINTS = PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
SECRET = PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"
# In the order in which a change is sent: what is referred to first.
EXTENSION = PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
TYPES = (CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET, EXTENSION)
WILDCARD = (CLUSTER, LISTENER)
SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"

# What a client made of a response. `error` is None for an ACK, and the message of error_detail for a NACK.
Answer = collections.namedtuple("Answer", "type version nonce error")


def name_of(resource):
    return resource.get("cluster_name") or resource.get("clusterName") or resource.get("name")


class _Sent:
    """What one stream knows of one type."""

    def __init__(self):
        self.names, self.sent_names = set(), set()
        self.version = self.nonce = None
        self.versions = {}  # By nonce, for answers.
        self.resources = {}  # Incremental: name -> version.
        self.wildcard = False


class ControlPlane:
    """Serves what `set` was given last, from its construction until `close`. Attributes that a test may change at any time:

    delay        seconds before each response
    garbage      bytes that are sent in place of each response, each in a well-formed gRPC message
    refuses      whether each stream ends at once with UNAVAILABLE
    withheld     types of which nothing is sent; see `release`
    lifetimes    seconds that a resource lives without a sign of life (`keep_alive`), by its name
    """

    def __init__(self, tls=None, client_ca=None, address=None):
        """`tls` is {"chain": PATH, "key": PATH}; with `client_ca`, clients need a certificate of that authority."""
        require(grpc, "missing: Python's grpcio and xds-protos; run tools/deps")
        self.address = address or f"127.0.0.1:{free_port()}"
        self.delay, self.garbage, self.refuses, self.withheld, self.lifetimes = 0, None, False, frozenset(), {}
        self.answers, self.requests, self.nodes, self.problems = [], [], [], []
        self.streams = 0  # How many have been opened.
        self.stream_times = []
        self._tls, self._client_ca = tls, client_ca
        self._resources, self._version = {}, None
        self._queues = set()
        self._nonce = 0
        self._news = threading.Condition()
        self._server = None
        self.start()

    # The server

    def start(self):
        """Listens (again), at the same address."""
        server = grpc.server(_Threads(), options=[
            ("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers(self.handlers())
        if self._tls:
            pieces = [self._read(self._tls["key"]), self._read(self._tls["chain"])]
            ca = self._read(self._client_ca) if self._client_ca else None
            server.add_secure_port(self.address, grpc.ssl_server_credentials([pieces], ca, ca is not None))
        else:
            server.add_insecure_port(self.address)
        server.start()
        self._server = server

    def handlers(self):
        methods = {"StreamAggregatedResources": grpc.stream_stream_rpc_method_handler(self._state_of_the_world),
                   "DeltaAggregatedResources": grpc.stream_stream_rpc_method_handler(self._incremental)}
        return (grpc.method_handlers_generic_handler(SERVICE, methods),)

    def stop(self):
        """Ends all streams and listens no more."""
        if self._server:
            with self._news:
                for events in self._queues:
                    events.put(None)
            self._server.stop(0).wait(10)
            self._server = None

    def close(self):
        self.stop()

    @staticmethod
    def _read(path):
        with open(path, "rb") as file:
            return file.read()

    # Resources

    def set(self, resources, version="1"):
        """Replaces all resources: dicts in proto3 JSON with `@type`, or instances of Any (which may be invalid). Clients get
        each type at once, if the version differs from what they have."""
        made = {kind: {} for kind in TYPES}
        for place, resource in enumerate(resources):
            if isinstance(resource, any_pb2.Any):
                made.setdefault(resource.type_url, {})[f"raw-{place}"] = resource
            else:
                kind = made.setdefault(resource["@type"], {})
                kind[name_of(resource)] = json_format.ParseDict(resource, any_pb2.Any())
        with self._news:
            self._resources, self._version = made, version
            for events in self._queues:
                events.put("set")

    def release(self, *kinds):
        """Sends what `withheld` has held back, of these types or of all."""
        with self._news:
            self.withheld = frozenset(self.withheld) - set(kinds or self.withheld)
            for events in self._queues:
                events.put("set")

    def keep_alive(self, *names):
        """Sends signs of life of these resources, which have a lifetime."""
        with self._news:
            for events in self._queues:
                events.put(names)

    @staticmethod
    def raw(kind, data):
        """A resource of a type with any bytes."""
        return any_pb2.Any(type_url=kind, value=data)

    # What clients answer

    def _answer(self, kind, version, nonce, request):
        error = request.error_detail.message if request.HasField("error_detail") else None
        with self._news:
            self.answers.append(Answer(kind, version, nonce, error))
            self._news.notify_all()

    def _wait(self, found, seconds, what):
        with self._news:
            if not self._news.wait_for(found, seconds * SLOWNESS):
                raise AssertionError(f"waited {seconds * SLOWNESS} s for {what}; {self.streams} streams; answers: {self.answers}; "
                                     f"problems: {self.problems}")
            return found()

    def wait_for_ack(self, kind, version, seconds=10):
        return self._wait(lambda: next((each for each in self.answers if each.type == kind and each.version == version and
                                        each.error is None), None), seconds, f"an ACK of {kind} {version}")

    def wait_for_nack(self, kind, version, seconds=10):
        return self._wait(lambda: next((each for each in self.answers if each.type == kind and each.version == version and
                                        each.error is not None), None), seconds, f"a NACK of {kind} {version}")

    def wait_for_answer(self, kind, version, seconds=10):
        return self._wait(lambda: next((each for each in self.answers if each.type == kind and each.version == version), None),
                          seconds, f"an answer to {kind} {version}")

    def wait_for_request(self, kind, name, seconds=10):
        """Waits until a client asks for a resource by name."""
        return self._wait(lambda: any(each == kind and name in names for each, names in self.requests), seconds,
                          f"a request for {name} of {kind}")

    def wait_for_streams(self, count, seconds=10):
        return self._wait(lambda: self.streams >= count, seconds, f"{count} streams")

    def nacks(self):
        return [answer for answer in self.answers if answer.error is not None]

    # Streams

    def _events(self, kind, requests, context):
        """Yields each request, "set" after each change of the resources, and the names of `keep_alive`, until the stream ends."""
        events = queue.Queue()

        def read():
            try:
                for data in requests:
                    events.put(kind.FromString(data))
            except grpc.RpcError:
                pass
            except Exception as problem:  # Shown by the test.
                self.problems.append(problem)
            events.put(None)
        with self._news:
            self.streams += 1
            self.stream_times.append(time.monotonic())
            self._news.notify_all()
        if self.refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        with self._news:
            self._queues.add(events)
        threading.Thread(target=read, daemon=True).start()
        try:
            while (event := events.get()) is not None and context.is_active():
                yield event
        finally:
            with self._news:
                self._queues.discard(events)

    def _note(self, kind, names, request):
        with self._news:
            self.requests.append((kind, sorted(names)))
            if request.HasField("node"):
                self.nodes.append(request.node)
            self._news.notify_all()

    def _next_nonce(self):
        with self._news:
            self._nonce += 1
            return f"n{self._nonce}"

    def _bytes(self, response):
        time.sleep(self.delay)
        return self.garbage if self.garbage is not None else response.SerializeToString()

    def _ordered(self, kinds):
        return sorted(kinds, key=lambda kind: TYPES.index(kind) if kind in TYPES else len(TYPES))

    def _state_of_the_world(self, requests, context):
        known = {}
        for event in self._events(discovery_pb2.DiscoveryRequest, requests, context):
            if event == "set":
                for kind in self._ordered(known):
                    yield from self._state(kind, known[kind])
                continue
            if isinstance(event, tuple):
                for kind in self._ordered(known):
                    yield from self._signs_of_life(kind, known[kind], event)
                continue
            sent = known.get(event.type_url)
            first = sent is None
            if first:
                sent = known[event.type_url] = _Sent()
                sent.version = event.version_info or None  # From an earlier stream.
                sent.sent_names = set(event.resource_names) if event.version_info else set()
            self._note(event.type_url, event.resource_names, event)
            if event.response_nonce and not first:
                if event.response_nonce != sent.nonce:
                    continue  # An answer to something older, which is followed by another.
                if sent.versions.get(sent.nonce) is not None:
                    self._answer(event.type_url, sent.versions.pop(sent.nonce), sent.nonce, event)
            sent.names = set(event.resource_names)
            yield from self._state(event.type_url, sent)

    def _state(self, kind, sent):
        with self._news:
            version, all_resources = self._version, self._resources.get(kind, {})
        if version is None or kind in self.withheld:
            return
        wildcard = kind in WILDCARD and (not sent.names or "*" in sent.names)
        resources = {name: resource for name, resource in all_resources.items()
                     if wildcard or name in sent.names or name.startswith("raw-")}
        # A type that is asked for by name has nothing to say of names that are missing.
        if not resources and kind not in WILDCARD:
            return
        more = not wildcard and sent.names & resources.keys() - sent.sent_names
        if version == sent.version and not more:
            return
        sent.version, sent.nonce, sent.sent_names = version, self._next_nonce(), set(resources)
        sent.versions = {sent.nonce: version}
        yield self._bytes(discovery_pb2.DiscoveryResponse(
            version_info=version, nonce=sent.nonce, type_url=kind,
            resources=[self._wrapped(name, resource) if name in self.lifetimes else resource
                       for name, resource in resources.items()]))

    def _lifetime(self, name):
        seconds = self.lifetimes.get(name)
        return duration_pb2.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9)) if seconds is not None else None

    def _wrapped(self, name, resource):
        """As state of the world sends a resource with a lifetime; without a resource, as a sign of life."""
        wrapped = any_pb2.Any()
        wrapped.Pack(discovery_pb2.Resource(name=name, ttl=self._lifetime(name), resource=resource))
        return wrapped

    def _signs_of_life(self, kind, sent, names):
        names = sorted(sent.sent_names & set(names))
        if names:
            sent.nonce = self._next_nonce()
            sent.versions = {sent.nonce: sent.version}
            yield self._bytes(discovery_pb2.DiscoveryResponse(
                version_info=sent.version, nonce=sent.nonce, type_url=kind, resources=[self._wrapped(name, None) for name in names]))

    def _incremental(self, requests, context):
        known = {}
        for event in self._events(discovery_pb2.DeltaDiscoveryRequest, requests, context):
            if event == "set":
                for kind in self._ordered(known):
                    yield from self._difference(kind, known[kind])
                continue
            if isinstance(event, tuple):
                for kind in self._ordered(known):
                    yield from self._incremental_signs_of_life(kind, known[kind], event)
                continue
            subscribed, left = set(event.resource_names_subscribe), set(event.resource_names_unsubscribe)
            if event.type_url not in known:
                sent = known[event.type_url] = _Sent()
                sent.wildcard = event.type_url in WILDCARD and not subscribed
                sent.resources = dict(event.initial_resource_versions)
            sent = known[event.type_url]
            self._note(event.type_url, subscribed, event)
            if event.response_nonce in sent.versions:
                self._answer(event.type_url, sent.versions.pop(event.response_nonce), event.response_nonce, event)
            sent.wildcard = (sent.wildcard or "*" in subscribed) and "*" not in left
            sent.names = (sent.names | subscribed) - left - {"*"}
            for name in subscribed | left if not event.initial_resource_versions else left:
                sent.resources.pop(name, None)  # A new subscription gets it again.
            yield from self._difference(event.type_url, sent)

    def _difference(self, kind, sent):
        with self._news:
            version, all_resources = self._version, self._resources.get(kind, {})
        if version is None or kind in self.withheld:
            return
        wanted = {name: (hashlib.sha256(resource.SerializeToString(deterministic=True)).hexdigest()[:16], resource)
                  for name, resource in all_resources.items()
                  if sent.wildcard or name in sent.names or name.startswith("raw-")}
        changed = {name: one for name, one in wanted.items() if sent.resources.get(name) != one[0]}
        removed = [name for name in sent.resources if name not in wanted]
        first = sent.wildcard and sent.nonce is None and not wanted
        if not changed and not removed and not first:
            return
        sent.nonce = self._next_nonce()
        sent.versions[sent.nonce] = version
        sent.resources = {name: one[0] for name, one in wanted.items()}
        yield self._bytes(discovery_pb2.DeltaDiscoveryResponse(
            system_version_info=version, nonce=sent.nonce, type_url=kind, removed_resources=removed,
            resources=[discovery_pb2.Resource(name=name, version=one[0], resource=one[1], ttl=self._lifetime(name))
                       for name, one in changed.items()]))

    def _incremental_signs_of_life(self, kind, sent, names):
        alive = {name: version for name, version in sent.resources.items() if name in names}
        if alive:
            sent.nonce = self._next_nonce()
            sent.versions[sent.nonce] = self._version
            yield self._bytes(discovery_pb2.DeltaDiscoveryResponse(
                system_version_info=self._version, nonce=sent.nonce, type_url=kind,
                resources=[discovery_pb2.Resource(name=name, version=version, ttl=self._lifetime(name))
                           for name, version in alive.items()]))


def _Threads():
    from concurrent.futures import ThreadPoolExecutor
    return ThreadPoolExecutor(max_workers=32)
