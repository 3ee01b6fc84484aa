"""A control plane for measurements: incremental discovery (ADS) on grpcio, of resources that are already bytes, so that it takes
little of the machine that it measures on."""
import os, queue, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from machine import LOCAL, Failure, free_ports

os.environ.setdefault('GRPC_ENABLE_FORK_SUPPORT', '0')
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / '.deps/python'))
try:
    import grpc
    from envoy.config.cluster.v3 import cluster_pb2
    from envoy.config.endpoint.v3 import endpoint_pb2
    from envoy.config.listener.v3 import listener_pb2
    from envoy.config.route.v3 import route_pb2
    from envoy.extensions.filters.http.router.v3 import router_pb2  # noqa: within an Any
    from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2  # noqa: within an Any
    from envoy.service.discovery.v3 import discovery_pb2
    from google.protobuf import any_pb2, json_format
except ImportError:
    grpc = None

SERVICE = 'envoy.service.discovery.v3.AggregatedDiscoveryService'
PREFIX = 'type.googleapis.com/envoy.config.'
CLUSTER, ENDPOINTS = PREFIX + 'cluster.v3.Cluster', PREFIX + 'endpoint.v3.ClusterLoadAssignment'
LISTENER, ROUTES = PREFIX + 'listener.v3.Listener', PREFIX + 'route.v3.RouteConfiguration'
BY_NAME = (ENDPOINTS, ROUTES)
ADS = {'ads': {}, 'resource_api_version': 'V3'}
EXTENSIONS = 'type.googleapis.com/envoy.extensions.'


# ---- Resources

def address(port): return {'address': {'socket_address': {'address': LOCAL, 'port_value': port}}}


def cluster(name, timeout_s=2):
    return CLUSTER, name, cluster_pb2.Cluster(), {
        'name': name, 'type': 'EDS', 'connect_timeout': f'{timeout_s}s', 'eds_cluster_config': {'eds_config': ADS}}


def endpoints(name, ports):
    return ENDPOINTS, name, endpoint_pb2.ClusterLoadAssignment(), {
        'cluster_name': name, 'endpoints': [{'lb_endpoints': [{'endpoint': address(port)} for port in ports]}]}


def routes(name, targets, text):
    """`targets`: the clusters by prefix. /probe responds with `text`."""
    all_routes = [{'match': {'path': '/probe'}, 'direct_response': {'status': 200, 'body': {'inline_string': text}}}]
    all_routes += [{'match': {'prefix': prefix}, 'route': {'cluster': to}} for prefix, to in targets]
    return ROUTES, name, route_pb2.RouteConfiguration(), {
        'name': name, 'virtual_hosts': [{'name': 'all', 'domains': ['*'], 'routes': all_routes}]}


def listener(name, port, route_config):
    manager = {'@type': EXTENSIONS + 'filters.network.http_connection_manager.v3.HttpConnectionManager', 'stat_prefix': name,
               'rds': {'config_source': ADS, 'route_config_name': route_config},
               'http_filters': [{'name': 'envoy.filters.http.router',
                                 'typed_config': {'@type': EXTENSIONS + 'filters.http.router.v3.Router'}}]}
    return LISTENER, name, listener_pb2.Listener(), {
        'name': name, **address(port),
        'filter_chains': [{'filters': [{'name': 'envoy.filters.network.http_connection_manager', 'typed_config': manager}]}]}


def bootstrap(plane_port, admin_port):
    control = {'name': 'control', 'type': 'STATIC', 'connect_timeout': '1s',
               'typed_extension_protocol_options': {'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
                   '@type': EXTENSIONS + 'upstreams.http.v3.HttpProtocolOptions',
                   'explicit_http_config': {'http2_protocol_options': {}}}},
               'load_assignment': {'cluster_name': 'control',
                                   'endpoints': [{'lb_endpoints': [{'endpoint': address(plane_port)}]}]}}
    return {'node': {'id': 'bench', 'cluster': 'bench'},
            'dynamic_resources': {'ads_config': {'api_type': 'DELTA_GRPC', 'transport_api_version': 'V3',
                                                 'grpc_services': [{'envoy_grpc': {'cluster_name': 'control'}}]},
                                  'lds_config': ADS, 'cds_config': ADS},
            'static_resources': {'clusters': [control]}, 'admin': address(admin_port)}


# ---- The service

class Plane:
    """Sends what `set` has been given at the start, and later changes by `send`; `settle` waits until all of it is accepted."""

    def __init__(self):
        if grpc is None: raise Failure("Python's grpcio and xds-protos are missing (tools/deps --program)")
        self.port, = free_ports(1)
        self.changed, self.resources, self.queues, self.nonce = threading.Condition(), {}, set(), 0
        self.waiting, self.rejected, self.on_the_way = set(), [], 0
        self.server = grpc.server(ThreadPoolExecutor(8), options=[('grpc.max_send_message_length', -1)])
        handler = grpc.stream_stream_rpc_method_handler(self.serve)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {'DeltaAggregatedResources': handler}),))
        self.server.add_insecure_port(f'{LOCAL}:{self.port}')
        self.server.start()

    def stop(self):
        for events in list(self.queues): events.put(None)
        self.server.stop(0).wait(5)

    @staticmethod
    def packed(made):
        """Resources as bytes, with their types and names."""
        for kind, name, message, tree in made:
            value = any_pb2.Any()
            value.Pack(json_format.ParseDict(tree, message))
            yield kind, name, value

    def set(self, made): return self.set_packed(self.packed(made))

    def set_packed(self, made):
        """Returns their types and names."""
        keys = []
        with self.changed:
            for kind, name, value in made:
                old = self.resources.setdefault(kind, {}).get(name)
                self.resources[kind][name] = discovery_pb2.Resource(
                    name=name, version=str(int(old.version) + 1) if old else '1', resource=value)
                keys.append((kind, name))
        return keys

    def send(self, keys):
        """Sends what `set` has changed. Clusters go first."""
        for events in list(self.queues):
            with self.changed: self.on_the_way += 1
            events.put(keys)

    def settle(self, seconds=120):
        """Waits until every response has been accepted and nothing is on its way."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.nonce > 0 and not self.waiting and not self.on_the_way, seconds):
                raise Failure(f'no answer to {len(self.waiting)} responses after {seconds} s')
        if self.rejected: raise Failure(f'rejected: {self.rejected[0]}')

    def serve(self, requests, _context):
        events, wanted = queue.Queue(), {}
        def read():
            try:
                for data in requests: events.put(discovery_pb2.DeltaDiscoveryRequest.FromString(data))
            except grpc.RpcError: pass
            events.put(None)
        threading.Thread(target=read, daemon=True).start()
        self.queues.add(events)
        while (event := events.get()) is not None:
            if isinstance(event, list):
                by_kind = {}
                for kind, name in event: by_kind.setdefault(kind, []).append(name)
                for kind, names in by_kind.items():
                    chosen = [each for each in names if kind not in BY_NAME or each in wanted.get(kind, ())]
                    if chosen and kind in wanted: yield self.response(kind, chosen)
                with self.changed:
                    self.on_the_way -= 1
                    self.changed.notify_all()
                continue
            kind = event.type_url
            if event.response_nonce:
                with self.changed:
                    if event.error_detail.message: self.rejected.append(event.error_detail.message)
                    self.waiting.discard(event.response_nonce)
                    self.changed.notify_all()
            if kind not in wanted and kind not in BY_NAME:
                wanted[kind] = set()
                yield self.response(kind, list(self.resources.get(kind, ())))
            elif kind in BY_NAME:
                new = [each for each in event.resource_names_subscribe if each in self.resources.get(kind, ())]
                wanted[kind] = wanted.get(kind, set()) | set(event.resource_names_subscribe)
                if new: yield self.response(kind, new)
        self.queues.discard(events)

    def response(self, kind, names):
        with self.changed:
            self.nonce += 1
            self.waiting.add(str(self.nonce))
            chosen = [self.resources[kind][name] for name in names]
        return discovery_pb2.DeltaDiscoveryResponse(system_version_info=str(self.nonce), nonce=str(self.nonce), type_url=kind,
                                                    resources=chosen).SerializeToString()
