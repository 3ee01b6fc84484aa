"""The configuration of each proxy for one kind of work with one worker, as its users would write it.

A function per file: (kind, where it listens, the origin's port, how many connections there may be) -> text. All have
the same limits: connections do not end by age or number of requests, they may be idle long enough, and there is no
access log unless the row has it as a feature.
"""
import json
from dataclasses import dataclass
from typing import Optional

import feature_parts
from features import Features
from machine import LOCAL
from tls import CERTIFICATE

IDLE_S = 600
HAPROXY_PIPES = 256                                    # For splice: two for each of the load's 64 connections, and more.
REQUESTS = 100_000_000                                 # On a connection, where a number is required.
UPSTREAM_IDLE = 1024                                   # Connections kept to the origin: more than a load has requests.


@dataclass(frozen=True)
class Kind:
    """The protocols of a proxy on its port, and with its origin."""
    name: str
    http: bool = False                                 # Otherwise bytes are forwarded.
    tls: bool = False                                  # TLS 1.3; with http, HTTP/2 or HTTP/1.1 by ALPN.
    h2c: bool = False                                  # HTTP/2 without TLS, from the first byte
    h2_origin: bool = False                            # HTTP/2 without TLS towards the origin, otherwise HTTP/1.1.
    large_heads: bool = False                          # Requests have more fields than some proxies accept by default.
    features: Optional[Features] = None                # Of the rows that compare with and without features.

    @property
    def group(self): return 'features' if self.features else 'http' if self.http else self.name


L4, TLS = Kind('l4'), Kind('tls', tls=True)
H1, H2C, HTTPS = Kind('h1', http=True), Kind('h2c', http=True, h2c=True), Kind('https', http=True, tls=True)
HEADS = Kind('heads', http=True, h2c=True, large_heads=True)
H2H2 = Kind('h2h2', http=True, tls=True, h2_origin=True)
FEATURES = {name: Kind(name, http=True, features=features) for name, features in {
    'bare': Features(), 'hosts': Features('hosts'), 'paths': Features('paths'), 'headers': Features(headers=True),
    'log': Features(log='text'), 'log_json': Features(log='json'), 'observed': Features(log='json', observed=True),
    'all': Features('hosts', headers=True, log='text')}.items()}


def nginx_head(port, connections, workers=1):
    return (f'worker_processes {workers}; daemon off; pid nginx-{port}.pid; error_log stderr;\n'
            f'events {{ worker_connections {connections}; }}\n')


def nginx_http(name):
    """The common part of the origin and nginx as a proxy."""
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    folders = ' '.join(f'{user}_temp_path {name}_{user};' for user in users)
    return (f'  access_log off; keepalive_requests {REQUESTS}; keepalive_timeout {IDLE_S}; client_max_body_size 0;\n'
            f'  large_client_header_buffers 4 32k; {folders}\n')


def nginx(module):
    def configure(kind, listen, origin, connections):
        secure = f'ssl_protocols TLSv1.3; ssl_certificate {CERTIFICATE}; ssl_certificate_key {CERTIFICATE};'
        words = ['backlog=4096'] + ['ssl'] * kind.tls + ['http2'] * (kind.http and (kind.tls or kind.h2c))
        server = f'listen {LOCAL}:{listen} {" ".join(words)}; {secure if kind.tls else ""}'
        head = nginx_head(listen, connections)
        if not kind.http: return f'{module}{head}stream {{ server {{ {server} proxy_pass {LOCAL}:{origin}; }} }}\n'
        return head + f'''http {{
{nginx_http('proxy')}
  upstream origin {{ server {LOCAL}:{origin}; keepalive {UPSTREAM_IDLE}; keepalive_requests {REQUESTS}; }}
  proxy_http_version 1.1; proxy_request_buffering off; proxy_max_temp_file_size 0; proxy_read_timeout {IDLE_S};
{feature_parts.nginx_servers(kind.features, server) if kind.features else nginx_server(server)}}}
'''
    return configure


def nginx_server(listen):
    return f'''  server {{
    {listen}
    location / {{ proxy_pass http://origin; proxy_set_header Connection ""; }}
    location = /tunnel {{ proxy_pass http://origin; proxy_set_header Upgrade $http_upgrade;
                          proxy_set_header Connection upgrade; }}
  }}
'''


def haproxy(kind, listen, origin, connections):
    splices = not kind.http and not kind.tls
    mode = 'http\n  http-reuse always' if kind.http else 'tcp' + '\n  option splice-auto' * splices
    words = ['proto h2'] * kind.h2c + [f'ssl crt {CERTIFICATE} ssl-min-ver TLSv1.3'] * kind.tls
    words += ['alpn h2,http/1.1'] * (kind.http and kind.tls)
    limits = '  tune.bufsize 65536\n' if kind.large_heads else ''
    if splices:  # Each pipe takes two descriptors, and it reserves them.
        limits += f'  maxpipes {HAPROXY_PIPES}\n'
        connections -= 2 * HAPROXY_PIPES
    featured, backends = feature_parts.haproxy(kind.features) if kind.features else ('', '')
    return (f'global\n  nbthread 1\n  maxconn {connections // 2 - 50}\n{limits}'
            f'defaults\n  timeout connect 5s\n  timeout client {IDLE_S}s\n  timeout server {IDLE_S}s\n'
            f'listen {kind.name}\n  mode {mode}\n'
            f'  bind {LOCAL}:{listen} {" ".join(words)}\n'
            f'{featured}{backends}'
            f'  server origin {LOCAL}:{origin} {"proto h2" if kind.h2_origin else ""}\n')


def envoy(kind, listen, origin, _connections):
    def address(port): return {'socket_address': {'address': LOCAL, 'port_value': port}}
    def typed(what, **fields): return {'@type': 'type.googleapis.com/envoy.' + what, **fields}
    filters, file = 'extensions.filters.', {'filename': CERTIFICATE}
    router = {'name': 'envoy.filters.http.router', 'typed_config': typed(
        filters + 'http.router.v3.Router', suppress_envoy_headers=True)}
    features = kind.features or Features()
    http = {'name': 'envoy.filters.network.http_connection_manager', 'typed_config': typed(
        filters + 'network.http_connection_manager.v3.HttpConnectionManager', stat_prefix=kind.name,
        generate_request_id=features.observed, stream_idle_timeout=f'{IDLE_S}s', upgrade_configs=[{'upgrade_type': 'websocket'}],
        route_config=feature_parts.envoy_routes(features), http_filters=[router],
        **feature_parts.envoy_log(features), **feature_parts.envoy_tracing(features, origin))}
    tcp = {'name': 'envoy.filters.network.tcp_proxy', 'typed_config': typed(
        filters + 'network.tcp_proxy.v3.TcpProxy', stat_prefix=kind.name, cluster='origin')}
    secure = {'name': 'envoy.transport_sockets.tls', 'typed_config': typed(
        'extensions.transport_sockets.tls.v3.DownstreamTlsContext', common_tls_context={
            'alpn_protocols': ['h2', 'http/1.1'] if kind.http else [],
            'tls_params': {'tls_minimum_protocol_version': 'TLSv1_3', 'tls_maximum_protocol_version': 'TLSv1_3'},
            'tls_certificates': [{'certificate_chain': file, 'private_key': file}]})}
    http2 = {'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': typed(
        'extensions.upstreams.http.v3.HttpProtocolOptions', explicit_http_config={'http2_protocol_options': {}})}
    unlimited = {key: 1_000_000 for key in ('max_connections', 'max_pending_requests', 'max_requests')}
    chain = {'filters': [http if kind.http else tcp]} | ({'transport_socket': secure} if kind.tls else {})
    endpoint = {'endpoint': {'address': address(origin)}}
    return json.dumps(feature_parts.envoy_admin(features) | {'static_resources': {
        'listeners': [{'name': kind.name, 'address': address(listen), 'filter_chains': [chain]}],
        'clusters': [{'name': 'origin', 'connect_timeout': '5s', 'circuit_breakers': {'thresholds': [unlimited]},
                      **({'typed_extension_protocol_options': http2} if kind.h2_origin else {}),
                      'load_assignment': {'cluster_name': 'origin', 'endpoints': [{'lb_endpoints': [endpoint]}]}}]}})


def h2o(kind, listen, origin, connections):
    files = f'certificate-file: {CERTIFICATE}, key-file: {CERTIFICATE}'
    secure = f', ssl: {{ {files}, minimum-version: TLSv1.3, ocsp-update-interval: 0 }}' if kind.tls else ''
    return (f'num-threads: 1\nmax-connections: {connections}\n'
            f'http1-request-timeout: {IDLE_S}\nhttp2-idle-timeout: {IDLE_S}\n'
            f'proxy.timeout.keepalive: {IDLE_S * 1000}\nproxy.websocket: ON\nproxy.websocket.timeout: {IDLE_S * 1000}\n'
            f'listen: {{ host: {LOCAL}, port: {listen}{secure} }}\n'
            f'hosts: {{ default: {{ paths: {{ /: {{ proxy.reverse.url: "http://{LOCAL}:{origin}/" }} }} }} }}\n')


def nghttpx(kind, listen, origin, _connections):
    timeouts = ('frontend-keep-alive-timeout', 'frontend-http2-read-timeout', 'frontend-read-timeout',
                'backend-read-timeout', 'backend-keep-alive-timeout')
    files = f'private-key-file={CERTIFICATE}\ncertificate-file={CERTIFICATE}\ntls-min-proto-version=TLSv1.3\n'
    return (f'workers=1\naccesslog-file=/dev/null\nfrontend={LOCAL},{listen}{"" if kind.tls else ";no-tls"}\n'
            f'backend={LOCAL},{origin}{";;proto=h2" if kind.h2_origin else ""}\n{files if kind.tls else ""}' +
            ''.join(f'{name}={IDLE_S}s\n' for name in timeouts))


def sluice(kind, listen, origin, connections):
    files = f'{{ chain: {CERTIFICATE}, key: {CERTIFICATE} }}'
    alpn = ', alpn: [ h2, http/1.1 ]' if kind.http else ''
    secure = f'tls: {{ certificates: [ {files} ], min_version: 1.3{alpn} }}, ' if kind.tls else ''
    features, endless = kind.features or Features(), {'max_requests': 0}
    http = {'idle_timeout': f'{IDLE_S}s', 'http1': endless, 'http2': endless,
            **feature_parts.sluice_http(features)}
    pool = f', protocol: http{2 if kind.h2_origin else 1}, pool: {{ max_idle: {UPSTREAM_IDLE}, max_requests: 0 }}'
    served = f'http: {json.dumps(http)}' if kind.http else 'tcp: { forward: origin }'
    return (f'workers: 1\n{feature_parts.sluice_admin(features)}listeners:\n  - {{ name: {kind.name}, address: "{LOCAL}:{listen}", '
            f'max_connections: {connections}, {secure}{served} }}\n'
            f'upstreams:\n  - {{ name: origin, endpoints: [ "{LOCAL}:{origin}" ]{pool if kind.http else ""} }}\n')
